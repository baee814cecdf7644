"""How many inner passes a visit gets, to a block and to the working set: one small class a schedule, each asked after
every pass whether to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from blocksvm.errors import InputError, said

MOST_PASSES = 10  # of one visit, where nothing else ends it
# Passes over the working set after a reading: enough for a step along what they have done (solvers/extrapolation.py)
# and the passes after it.
MOST_OF_THE_SET = 24
MOST_AT_ALL = 50  # the same by auto, and between two blocks by overlap
# Of the set's nonzeros: what blocks must have had since the last pass, for another one between two blocks.  One of the
# plan's own blocks has 0.4.
LEAST_READ = 0.3
# Without a working set auto makes a further pass where the last one has added so many times as much to the dual, for
# each nonzero visited, as its visit has, the reading of the block counted with it.  By seconds it was 1.5: with 1.0
# IMDB's words took 1.4 times as long (what a block's rows gain among themselves is not all gained), with 2.0 Enron's
# e-mails 1.1 times.
WORTH_ANOTHER = 1.5
READING_WORK = 1.0  # of a nonzero that is read, in visits to it
NEXT_CYCLE = 0.5  # what the next reading is expected to add for its work, of what this one with its passes does
SPREAD_LEFT = 0.1  # of the first pass's: a smaller range of the projected gradients ends the passes over the set
MOST_BY_GAIN = 40  # of one visit by the schedule gain
GAIN_LEFT = 0.01  # of the gap that the tolerance allows: a pass that adds less to the dual ends the visit
MOST_FIXED = 1_000_000  # that may be asked for: far beyond what any block has use for


@dataclass(frozen=True)
class Situation:
    """What a schedule may know after a pass over a block.

    passes: done; finished: the solver is done with the block; gain: what the last pass added to the dual, work: the
    nonzeros that it visited; visit_gain, visit_work: the same of the whole visit, and the reading of the block counted
    as work; allowed: the gap that the tolerance allows the block's rows; with_set: the working set may be passed over
    after this visit, set_empty: it stays empty in this reading; first_of_warm_start: the first reading of a run that
    began at another's end, which tells how much of the gap is left; next_ready: the next block has been read, for
    overlap alone.
    """

    passes: int
    finished: bool = False
    gain: float = 0.0
    work: int = 0
    visit_gain: float = 0.0
    visit_work: float = 0.0
    allowed: float = 0.0
    with_set: bool = False
    set_empty: bool = False
    first_of_warm_start: bool = False
    next_ready: bool = False


@dataclass(frozen=True)
class SetSituation:
    """What a schedule may know before the first pass over the working set, and after each.

    passes: done; between_blocks: more blocks of the reading are to come, else all rows have passed by; spread of the
    projected gradients in the first pass and in the last; enough: the set's own share of the gap, as the last pass saw
    it, no longer stands in the way of the tolerance; worth: what the last pass added to the dual for each nonzero
    visited, as a multiple of what the reading with all passes since it began has (1: there was none yet); read:
    nonzeros of the blocks visited since the last pass, as a multiple of the set's; next_ready: the next block has been
    read, for overlap alone.
    """

    passes: int
    between_blocks: bool
    first_spread: float = 0.0
    spread: float = 0.0
    enough: bool = False
    worth: float = 1.0
    read: float = float("inf")
    next_ready: bool = False


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
            return self.between(situation)
        if situation.passes == 0:
            return True
        return not situation.enough and self.behind(situation)

    def between(self, situation: SetSituation) -> bool:
        """Whether another pass is made between two blocks."""
        return situation.passes < 1

    def behind(self, situation: SetSituation) -> bool:
        """Whether another pass is made behind a reading."""
        return situation.passes < MOST_OF_THE_SET and situation.spread > SPREAD_LEFT * situation.first_spread


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


class Overlap(ByCounts):
    """Until the next block has been read, over all that is in memory meanwhile (dual cached loops: Matsushima,
    Vishwanathan, Smola, KDD 2012): once over the block and then over the working set, or, without one, over the
    block.  The one schedule that goes by the clock."""

    def go_on(self, situation: Situation) -> bool:
        alone = not situation.with_set or situation.set_empty
        return alone and not situation.next_ready and situation.passes < MOST_PASSES

    def between(self, situation: SetSituation) -> bool:
        worthwhile = situation.read >= LEAST_READ and situation.passes < MOST_AT_ALL
        return worthwhile and not situation.next_ready


class Auto(ByCounts):
    """One pass over each block, and over the working set after blocks that come to a part of it, so that tiny blocks
    do not multiply the passes, or to as many times more as the last pass was worth less; behind a reading, as long as
    passes add more to the dual for their work than reading all rows again promises (the marginal value theorem:
    Charnov, Theoretical Population Biology 9, 1976).

    Without a working set further passes over a block are made by the same rule, while they add more than going on to
    the next block does: where most rows come to rest, they cost little.
    """

    def go_on(self, situation: Situation) -> bool:
        if situation.with_set or situation.first_of_warm_start or situation.passes >= MOST_PASSES:
            return False
        return situation.gain * situation.visit_work > WORTH_ANOTHER * situation.visit_gain * situation.work

    def between(self, situation: SetSituation) -> bool:
        return situation.passes < 1 and situation.read * min(1.0, situation.worth) >= LEAST_READ

    def behind(self, situation: SetSituation) -> bool:
        return situation.passes < MOST_AT_ALL and situation.worth > NEXT_CYCLE


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
