"""Schedules: how many inner passes a visit gets, to a block and to the working set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from blocksvm.base.errors import InputError, option
from blocksvm.base.registry import Registry
from blocksvm.solvers.solver import PassResult

MOST_PASSES = 50  # of a visit that nothing else ends
# What the next reading is expected to add for its work, of what this one with its passes has added.  With 1 ten data
# sets take 1.6 times as long and four times as many readings.
NEXT_CYCLE = 0.5
MOST_FIXED = 1_000_000  # that may be asked for: far beyond what any block has use for


@dataclass(frozen=True)
class PassStats:
    """The figures by which a schedule decides, before a pass and after it; work counts nonzeros, each once where it is
    read from disk and once in each pass."""

    passes: int = 0  # done in this visit
    finished: bool = False  # the solver is done with the block
    gain: float = 0.0  # what the last pass added to the dual
    work: float = 0.0  # of that pass
    visit_gain: float = 0.0  # the same of the whole visit, with the reading of its block
    visit_work: float = 0.0
    cycle_gain: float = 0.0  # since this reading of all rows began, or since the certificate that last chose the set
    cycle_work: float = 0.0
    seen: float = float("inf")  # the set's share of the gap as the last pass saw it
    read: float = float("inf")  # nonzeros of the blocks visited since the last pass over the set, in units of the set's
    with_set: bool = False  # there is a working set
    first_of_warm_start: bool = False  # the first reading of a run that began at another's end: it tells the gap left

    def after(self, result: PassResult) -> PassStats:
        gain, work = result.gain, float(result.nnz_visited)
        return replace(
            self, passes=self.passes + 1, finished=result.finished, gain=gain, work=work, seen=result.seen,
            visit_gain=self.visit_gain + gain, visit_work=self.visit_work + work,
            cycle_gain=self.cycle_gain + gain, cycle_work=self.cycle_work + work,
        )  # fmt: skip

    @property
    def worth(self) -> float:
        """The gain of the last pass for its work, as a multiple of what the cycle has; 1 before the first."""
        if not self.passes:
            return 1.0
        return self.gain * self.cycle_work / max(self.cycle_gain * self.work, 1e-300)


@runtime_checkable
class Schedule(Protocol):
    """tolerance: the range of the projected gradients at which a visit ends, or None; needs: what a solver must have
    for it; by_clock: ``ready`` tells whether the next block has been read (always False otherwise)."""

    tolerance: float | None = None
    needs: str = ""
    by_clock: bool = False

    def block(self, stats: PassStats, ready: bool) -> bool:
        """Whether another pass over a block follows the first."""
        ...

    def between(self, stats: PassStats, ready: bool, last_worth: float) -> bool:
        """Whether a pass over the working set is made between two blocks, once these have had as many nonzeros as it:
        the less the last one was worth, the more (its square took 0.85 to 1.0 of the time of its first power)."""
        return not stats.passes and stats.read * min(1.0, max(0.0, last_worth)) ** 2 >= 1.0

    def after_reading(self, stats: PassStats) -> bool:
        """Whether one is made when all blocks have been visited, or the set has been chosen anew: while passes add more
        to the dual for their work than another reading promises (Charnov, Theoretical Population Biology 9, 1976)."""
        return stats.passes < MOST_PASSES and stats.worth > NEXT_CYCLE


class Fixed(Schedule):
    """A number of passes ("L-N" of Yu et al., KDD 2010)."""

    def __init__(self, passes: int):
        self.passes = passes

    def block(self, stats: PassStats, ready: bool) -> bool:
        return stats.passes < self.passes


class Tolerance(Schedule):
    """Until the block's projected gradients lie within a range ("L-D" of Yu et al.)."""

    needs = "projected gradients"

    def __init__(self, tolerance: float):
        self.tolerance = tolerance

    def block(self, stats: PassStats, ready: bool) -> bool:
        return not stats.finished and stats.passes < MOST_PASSES


class Auto(Schedule):
    """One pass over each block where there is a working set, whose passes serve all rows; else further ones while they
    add more for their work than going on to the next block does: where most rows come to rest, they cost little."""

    def block(self, stats: PassStats, ready: bool) -> bool:
        if stats.with_set or stats.first_of_warm_start or stats.passes >= MOST_PASSES:
            return False
        return stats.gain * stats.visit_work > stats.visit_gain * stats.work


class Overlap(Schedule):
    """Until the next block has been read (dual cached loops: Matsushima, Vishwanathan, Smola, KDD 2012): once over the
    block and then over the working set, or, without one, over the block.  The one schedule that goes by the clock."""

    by_clock = True

    def block(self, stats: PassStats, ready: bool) -> bool:
        return not stats.with_set and not ready and stats.passes < MOST_PASSES

    def between(self, stats: PassStats, ready: bool, last_worth: float) -> bool:
        return not ready and stats.passes < MOST_PASSES


AUTO, OVERLAP = Auto(), Overlap()
SCHEDULES = Registry(
    "schedule",
    ("blocksvm.training.schedule:Schedule",),
    {"auto": "blocksvm.training.schedule:AUTO", "overlap": "blocksvm.training.schedule:OVERLAP"},
)


def make_schedule(text: str) -> Schedule:
    """From 'auto', 'overlap', 'tol:EPS', a number, or the location of one's own; InputError for anything else."""
    if text in SCHEDULES or (":" in text and not text.startswith("tol:")):
        return SCHEDULES.load(text)
    try:
        if text.startswith("tol:"):
            tolerance = float(text[4:])
            if 0.0 < tolerance < float("inf"):
                return Tolerance(tolerance)
        elif 1 <= int(text) <= MOST_FIXED:
            return Fixed(int(text))
    except ValueError:
        pass
    wanted = f"auto, overlap, tol:EPS with EPS > 0, a number of passes from 1 to {MOST_FIXED:,}"
    raise InputError(f"{option('schedule', text)}: expected {wanted}, or your own as MODULE:ATTRIBUTE")
