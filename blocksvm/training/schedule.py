"""How many inner passes a visit gets: one small class a schedule, each asked after every pass whether to go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from blocksvm.errors import InputError, said

MOST_PASSES = 10  # of one visit, where nothing else ends it
MOST_FIXED = 1_000_000  # that may be asked for: far beyond what any block has use for


@dataclass(frozen=True)
class Situation:
    """What a schedule may know after a pass: passes done, whether the solver is done with the block, whether the next
    block has been read, and of earlier visits the mean seconds that one block's reading kept the disk busy and the
    processors idle, and those of one pass (0: unknown)."""

    passes: int
    finished: bool
    next_ready: bool
    disk_seconds: float
    pass_seconds: float


class Schedule(Protocol):
    tolerance: float | None

    def go_on(self, situation: Situation) -> bool: ...


class Fixed:
    """A number of passes ("L-N" of Yu et al., KDD 2010)."""

    tolerance = None

    def __init__(self, passes: int):
        self.passes = passes

    def go_on(self, situation: Situation) -> bool:
        return situation.passes < self.passes


class Tolerance:
    """Until the block's projected gradients lie within a range ("L-D" of Yu et al.), at most 100 passes."""

    most = 100

    def __init__(self, tolerance: float):
        self.tolerance = tolerance

    def go_on(self, situation: Situation) -> bool:
        return not situation.finished and situation.passes < self.most


class Overlap:
    """Until the next block has been read (dual cached loops: Matsushima, Vishwanathan, Smola, KDD 2012)."""

    tolerance = None

    def go_on(self, situation: Situation) -> bool:
        return not situation.next_ready and situation.passes < MOST_PASSES


class Auto:
    """As many passes as fit, by the times measured so far, in the time that the disk takes for the next block anyway.

    One pass where the disk is the faster side: more would cost time that fresh rows use better, and where decoding is
    what takes long, helping with it.  A further pass is begun when at least half of it is expected to be covered.
    """

    tolerance = None

    def go_on(self, situation: Situation) -> bool:
        if situation.next_ready or situation.passes >= MOST_PASSES or situation.pass_seconds <= 0.0:
            return False
        left = situation.disk_seconds - situation.passes * situation.pass_seconds
        return left >= 0.5 * situation.pass_seconds


class Replay:
    """The passes that an earlier run chose, in the order of its visits.

    tolerance: that of a ``Tolerance`` run, whose solver brings back dropped rows when it is reached.
    """

    def __init__(self, passes: list[int], tolerance: float | None = None):
        self.choices = passes
        self.tolerance = tolerance
        self.visit = -1

    def begin_visit(self, visit: int) -> None:
        self.visit = visit

    def go_on(self, situation: Situation) -> bool:
        if self.visit >= len(self.choices):
            return False
        return situation.passes < self.choices[self.visit]


def make_schedule(text: str) -> Schedule:
    """A schedule from 'auto', 'overlap', 'tol:EPS' or a number; InputError for anything else."""
    if text == "auto":
        return Auto()
    if text == "overlap":
        return Overlap()
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
        f"{said('schedule', text)}: expected auto, overlap, tol:EPS with EPS > 0, or a number of passes from 1 to "
        f"{MOST_FIXED:,}"
    )
