"""How many inner passes a visit gets, to a block and to the working set: one small class a schedule, each asked after
every pass whether to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from blocksvm.errors import InputError, said

MOST_PASSES = 10  # of one visit, where nothing else ends it
MOST_BESIDE_A_SET = 3  # of one visit by auto, where passes over the working set can fill the time, which do more
# Passes over the working set after a reading, by the schedules that go by counts: enough for a step along what they
# have done (solvers/extrapolation.py) and the passes after it.
MOST_OF_THE_SET = 24
MOST_BY_THE_CLOCK = 50  # the same, by those that go by the clock, and between two blocks
NEXT_CYCLE = 0.5  # what the next reading is expected to add in a second, of what this one with its passes does
# Whoever does not pass over the working set while the next block is being decoded helps to decode it: the passes must
# bring this much of what the reading with all passes does in a second.
INSTEAD_OF_HELP = 0.5
TRIED_EVERY = 4  # blocks, a pass over the working set
# Of the set's nonzeros: what blocks must have had since the last pass, for one between two blocks by the clock, unless
# the disk is waited for.  Two of the plan's own blocks have 0.8; beside a set so large that blocks are tiny, passes
# after every second one took three times as long as all else.
LEAST_READ = 0.5
# Where the disk leaves processors idle for less of a pass than this, the set is passed over after every second block:
# passes after each take longer than the visits, and those between which more other rows have moved bring more.
FILLED = 0.5
MOST_SPENT = 10.0  # of the seconds of a reading: a set so large that its passes take longer gains little over all rows
# Without a working set auto makes a further pass where the last one has added so many times as much to the dual in a
# second as its visit has, waiting for the block included.  With 1.0 IMDB's words took 1.4 times as long (what a block's
# rows gain among themselves is not all gained), with 2.0 Enron's e-mails 1.1 times.
WORTH_ANOTHER = 1.5
SPREAD_LEFT = 0.1  # of the first pass's: a smaller range of the projected gradients ends the passes over the set
MOST_BY_GAIN = 40  # of one visit by the schedule gain
GAIN_LEFT = 0.01  # of the gap that the tolerance allows: a pass that adds less to the dual ends the visit
MOST_FIXED = 1_000_000  # that may be asked for: far beyond what any block has use for


@dataclass(frozen=True)
class Situation:
    """What a schedule may know after a pass: passes done, whether the solver is done with the block, whether the next
    block has been read, and of earlier visits the mean seconds that one block's reading kept the disk busy and the
    processors idle, and those of one pass (0: unknown); with_set: the working set may be passed over after this visit;
    gain: what the last pass added to the dual; allowed: the gap that the tolerance allows the block's rows;
    first_of_warm_start: the first reading of a run that began at another's end, which tells how much of the gap is
    left; gain_rate: what the last pass added to the dual in a second; visit_rate: the same of all passes of the visit,
    the wait for a block, as long as it is on average, counted with them; set_empty: there is a working set, which stays
    empty in this reading."""

    passes: int
    finished: bool
    next_ready: bool
    disk_seconds: float
    pass_seconds: float
    with_set: bool = False
    gain: float = 0.0
    allowed: float = 0.0
    first_of_warm_start: bool = False
    gain_rate: float = 0.0
    visit_rate: float = 0.0
    set_empty: bool = False


@dataclass(frozen=True)
class SetSituation:
    """What a schedule may know after a pass over the working set, and before the first one: passes done, whether more
    blocks of the reading are to come (else all rows have passed by), whether the next block has been read, and the
    seconds that its reading is expected to leave all processors idle and that a pass takes (0: unknown); spread of
    the projected gradients in the first pass and in the last; what the last pass added to the dual in a second, and
    what the reading with all passes since did; due: there was no pass for some blocks; followed: there was one after
    the block before this one; enough: the set's own share of the gap, as the last pass saw it, no longer stands in the
    way of the tolerance; spent: seconds of the passes over the set since the reading began, as a multiple
    of all others since; read: nonzeros of the blocks visited since the last pass, as a multiple of the set's."""

    passes: int
    between_blocks: bool
    next_ready: bool
    disk_seconds: float
    pass_seconds: float
    first_spread: float
    spread: float
    gain_rate: float
    cycle_rate: float
    due: bool = False
    followed: bool = False
    enough: bool = False
    spent: float = 0.0
    read: float = float("inf")

    @property
    def waited_for(self) -> bool:
        """Whether the disk leaves processors idle for so much of a pass that it fills the time."""
        return self.disk_seconds >= FILLED * self.pass_seconds


class Schedule(Protocol):
    """tolerance: the range of the projected gradients at which a visit ends, or None; needs: what a solver must have
    for it, '' where any will do; several_passes: a visit mostly has more than one."""

    tolerance: float | None = None
    needs: str = ""
    several_passes: bool = False

    def go_on(self, situation: Situation) -> bool: ...

    def go_on_with_set(self, situation: SetSituation) -> bool: ...


class ByCounts(Schedule):
    """Passes over the working set by counts alone: one after each block; after a reading until the range of the
    projected gradients is a tenth of the first pass's."""

    def go_on_with_set(self, situation: SetSituation) -> bool:
        if situation.between_blocks:
            return situation.passes < 1
        if situation.passes == 0:
            return True
        if situation.enough:
            return False
        return situation.passes < MOST_OF_THE_SET and situation.spread > SPREAD_LEFT * situation.first_spread


class ByTheClock(Schedule):
    """Passes over the working set while the disk reads the next block, and while it is being decoded, as long as the
    last one added to the dual what makes up for the help with decoding; after a reading, as long as they add more to it
    in a second than reading all rows again promises (the marginal value theorem: Charnov, Theoretical Population
    Biology 9, 1976)."""

    def go_on_with_set(self, situation: SetSituation) -> bool:
        if situation.passes >= MOST_BY_THE_CLOCK:
            return False
        if situation.between_blocks:
            worthwhile = situation.gain_rate > INSTEAD_OF_HELP * situation.cycle_rate
            idle = situation.disk_seconds > situation.passes * situation.pass_seconds
            if not situation.waited_for and (situation.followed or situation.read < LEAST_READ):
                return False
            return not situation.next_ready and (idle or worthwhile or (situation.due and situation.passes == 0))
        if situation.passes == 0:
            return True
        if situation.enough or situation.spent > MOST_SPENT:
            return False
        return situation.gain_rate > NEXT_CYCLE * situation.cycle_rate


class Fixed(ByCounts):
    """A number of passes ("L-N" of Yu et al., KDD 2010)."""

    def __init__(self, passes: int):
        self.passes = passes

    def go_on(self, situation: Situation) -> bool:
        return situation.passes < self.passes


class Tolerance(ByCounts):
    """Until the block's projected gradients lie within a range ("L-D" of Yu et al.), at most 100 passes."""

    most = 100
    needs = "projected gradients"

    def __init__(self, tolerance: float):
        self.tolerance = tolerance

    def go_on(self, situation: Situation) -> bool:
        return not situation.finished and situation.passes < self.most


class Gain(ByCounts):
    """Until a pass adds little to the dual, measured by the gap that the run's tolerance allows; at most 40 passes.

    The gap of the rows that still move is a few times what a pass takes off it, so little is left of it then; what the
    others have left of it the next reading tells.
    """

    needs = "a dual that it ascends step by step"
    several_passes = True

    def go_on(self, situation: Situation) -> bool:
        if situation.first_of_warm_start:
            return False
        return situation.passes < MOST_BY_GAIN and situation.gain > GAIN_LEFT * situation.allowed


class Overlap(ByTheClock):
    """Until the next block has been read, over all that is in memory meanwhile (dual cached loops: Matsushima,
    Vishwanathan, Smola, KDD 2012): once over the block and then over the working set, or, without one, over the
    block."""

    def go_on(self, situation: Situation) -> bool:
        alone = not situation.with_set or situation.set_empty
        return alone and not situation.next_ready and situation.passes < MOST_PASSES

    def go_on_with_set(self, situation: SetSituation) -> bool:
        if situation.between_blocks:
            worthwhile = situation.waited_for or situation.read >= LEAST_READ
            return worthwhile and not situation.next_ready and situation.passes < MOST_BY_THE_CLOCK
        return super().go_on_with_set(situation)


class Auto(ByTheClock):
    """As many passes as fit, by the times measured so far, in the time that the disk takes for the next block anyway.

    One pass where the disk is the faster side: more would cost time that fresh rows use better, and where decoding is
    what takes long, helping with it.  A further pass is begun when at least half of it is expected to be covered.
    Without a working set one is also begun while passes add more to the dual in a second than going on to the next
    block does (the marginal value theorem): where most rows come to rest, further passes cost little.
    """

    def go_on(self, situation: Situation) -> bool:
        most = MOST_BESIDE_A_SET if situation.with_set else MOST_PASSES
        if situation.passes >= most:
            return False
        alone = not situation.with_set and not situation.first_of_warm_start
        if alone and situation.gain_rate > WORTH_ANOTHER * situation.visit_rate:
            return True
        if situation.next_ready or situation.pass_seconds <= 0.0:
            return False
        left = situation.disk_seconds - situation.passes * situation.pass_seconds
        return left >= 0.5 * situation.pass_seconds


class Replay(Schedule):
    """The passes that an earlier run chose, in the order of its visits.

    set_passes: the same of its visits to the working set; tolerance: that of a ``Tolerance`` run, whose solver brings
    back dropped rows when it is reached.
    """

    def __init__(self, passes: list[int], tolerance: float | None = None, set_passes: list[int] | None = None):
        self.choices = passes
        self.set_choices = set_passes or []
        self.tolerance = tolerance
        self.visit = -1

    def begin_visit(self, visit: int) -> None:
        self.visit = visit

    def go_on(self, situation: Situation) -> bool:
        if self.visit >= len(self.choices):
            return False
        return situation.passes < self.choices[self.visit]

    def go_on_with_set(self, situation: SetSituation) -> bool:
        return self.visit < len(self.set_choices) and situation.passes < self.set_choices[self.visit]


NAMED = {"auto": Auto, "overlap": Overlap, "gain": Gain}


def make_schedule(text: str) -> Schedule:
    """A schedule from 'auto', 'overlap', 'gain', 'tol:EPS' or a number; InputError for anything else."""
    if text in NAMED:
        return NAMED[text]()
    try:
        if text.startswith("tol:"):
            tolerance = float(text[4:])
            if 0.0 < tolerance < float("inf"):
                return Tolerance(tolerance)
        elif 1 <= int(text) <= MOST_FIXED:
            return Fixed(int(text))
    except ValueError:
        pass
    raise InputError(
        f"{said('schedule', text)}: expected auto, overlap, gain, tol:EPS with EPS > 0, or a number of passes "
        f"from 1 to {MOST_FIXED:,}"
    )
