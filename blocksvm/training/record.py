"""The record of a run: where it stands, which is checkpointed; what it has done, which is shown; how it ended; and its
events, as callbacks and traces get them.

Events are plain dicts, one JSON line each in a trace; model/events.py declares them.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, cast

import numpy as np
from msgspec import Meta

from blocksvm.base.errors import option
from blocksvm.base.settings import plain
from blocksvm.model.events import RunEvent, versions
from blocksvm.problems.certificate import Certificate
from blocksvm.problems.expansion import Support
from blocksvm.problems.problem_settings import learns_together
from blocksvm.solvers.solver import Solver, State
from blocksvm.sources.source import ReadingCost
from blocksvm.store.descriptions import Count, Size
from blocksvm.training.certificate import CertificatePolicy
from blocksvm.training.plan import Plan
from blocksvm.training.run_settings import ROUNDING
from blocksvm.training.schedule import PassStats
from blocksvm.training.settings import suits_newton
from blocksvm.training.visit import VisitResult
from blocksvm.training.working_set import WorkingSet

READING, CLOSED, TOLD, AT_REST = "reading", "closed", "told", "at rest"  # phases of an outer iteration
STILL = 3  # outer iterations without progress after which a primal method has come to rest


@dataclass
class Certified:
    """A certificate that was taken at the end of an outer iteration, when the run had made so many passes: its
    figures, by name."""

    outer: Size
    passes: Size
    figures: dict


@dataclass
class Cycle:
    """What ``PassStats`` begin with: the gain of all passes and their work, since this reading of all rows began or
    since the certificate that last chose the working set; worth: of the last pass over the set; read: nonzeros of the
    blocks visited since that."""

    gain: float = 0.0
    work: float = 0.0
    worth: float = 1.0
    read: int = 0

    def after(self, result: VisitResult, stats: PassStats) -> PassStats:
        """Count a visit that was begun with ``stats``, and return those at its end."""
        for done in result.passes:
            stats = stats.after(done)
        self.gain, self.work = stats.cycle_gain, stats.cycle_work
        return stats


@dataclass
class Progress:
    """Where a run stands, between two visits: all that decides how it goes on, beside the state and the working set.

    outer: iteration, from 1; visit: blocks visited in it; phase: READING; CLOSED: all blocks have been visited, so
    that only certificates are left; TOLD: its event has been emitted, so that it is at its end; AT_REST: that, and no
    row that the certificate before the last found movable has moved since; passes: of every visit to a block;
    set_passes: of every opportunity for a visit to the working set, 0 where none was made; passes_made: the most over
    a row in the outer iterations before; cycle: of visits to blocks and to the set; estimates: of the primal, the
    latest; suggested: primal, dual and gap, as the visits do, and set_gap: the gap of the set that the last
    certificate chose, once it has been passed over; policy: when a certificate is due; certified: the last one taken;
    best: that of the least primal, whose w the state has kept; warm_started: the run began at another one's end.
    """

    outer: Count = 1
    visit: Size = 0
    phase: Annotated[str, Meta(pattern="^(reading|closed|told|at rest)$")] = READING
    passes: list[Size] = field(default_factory=list)
    set_passes: list[Size] = field(default_factory=list)
    passes_made: int = 0
    cycle: Cycle = field(default_factory=Cycle)
    estimates: list[float | None] = field(default_factory=list)
    suggested: Annotated[list[float | None], Meta(min_length=3, max_length=3)] = field(
        default_factory=lambda: [None, None, None]
    )
    set_gap: float | None = None
    policy: CertificatePolicy = field(default_factory=CertificatePolicy)
    certified: Certified | None = None
    best: Certified | None = None
    warm_started: bool = False

    @property
    def gap(self) -> tuple[str, float | None]:
        """What it is estimated from, all 'rows' or the 'set', and the estimate."""
        return ("rows", self.suggested[2]) if self.set_gap is None else ("set", self.set_gap)

    @property
    def moves(self) -> int:
        """All passes made."""
        return sum(self.passes) + sum(self.set_passes)

    @property
    def current(self) -> dict | None:
        """The figures of the last certificate, where nothing has moved since."""
        return self.certified.figures if self.certified and self.certified.passes == self.moves else None

    def passes_now(self) -> list[int]:
        """Of the visits to blocks in this outer iteration."""
        return self.passes[len(self.passes) - self.visit :]

    def as_certified(self, certificate: Certificate) -> Certified:
        return Certified(self.outer, self.moves, asdict(certificate))

    def begin_outer(self) -> None:
        self.outer, self.visit, self.phase = self.outer + 1, 0, READING

    def block_stats(self, read: int, working_set: WorkingSet | None, first_outer: int) -> PassStats:
        """The figures for a schedule before a visit to a block, of which ``read`` nonzeros had to be read; first_outer:
        the outer iteration that the run began with."""
        self.cycle.work += read
        return PassStats(
            visit_work=read, cycle_gain=self.cycle.gain, cycle_work=self.cycle.work, with_set=working_set is not None,
            first_of_warm_start=self.warm_started and self.outer == first_outer,
        )  # fmt: skip

    def count(self, result: VisitResult, stats: PassStats, nnz: int) -> None:
        """A visit to a block of so many nonzeros has been made, begun with ``stats``."""
        stats = self.cycle.after(result, stats)
        # further passes over a block fill the time that a disk takes: the first alone counts towards a certificate
        self.policy.work += result.passes[0].nnz_visited
        self.passes.append(stats.passes)
        self.cycle.read += nnz

    def set_stats(self, working_set: WorkingSet) -> PassStats:
        """The figures for a schedule before a visit to the working set."""
        return PassStats(
            cycle_gain=self.cycle.gain, cycle_work=self.cycle.work, with_set=True,
            read=self.cycle.read / max(1, working_set.n_nonzeros),
        )  # fmt: skip

    def count_set(self, result: VisitResult, stats: PassStats, left_out: float | None) -> None:
        """A visit to the working set has been made; left_out: of the gap, by the certificate that chose the set
        for it, the part of the rows outside of it."""
        stats = self.cycle.after(result, stats)
        self.policy.work += sum(done.nnz_visited for done in result.passes)
        self.cycle.worth, self.cycle.read = stats.worth, 0
        self.set_passes.append(stats.passes)
        if left_out is not None and self.estimates[-1]:
            self.set_gap = (stats.seen + left_out) / abs(self.estimates[-1])

    def close(self, suggested: Sequence[float | None]) -> None:
        """All blocks have been visited; suggested: primal, dual and gap, by the visits."""
        self.suggested, self.set_gap = list(suggested), None
        self.estimates = [*self.estimates[-STILL:], self.suggested[0]]
        self.passes_made += max(self.passes_now(), default=0)
        self.phase = CLOSED

    def begin_cycle(self, work: float, primal: float | None = None) -> None:
        """All rows will be read, or have been for a certificate, which took so much work and showed the primal."""
        self.cycle.gain, self.cycle.work = 0.0, work
        if primal is not None:
            self.estimates[-1] = primal


@dataclass
class Passes:
    """What the passes of an outer iteration have done: rows and nonzeros visited, gain of the dual, losses as they were
    seen, seconds."""

    rows: int = 0
    nnz: int = 0
    gain: float = 0.0
    loss_sum: float = 0.0
    seconds: float = 0.0

    def count(self, result: VisitResult) -> None:
        self.gain += sum(done.gain for done in result.passes)
        for done in result.passes:
            self.rows += done.rows_visited
            self.nnz += done.nnz_visited
            self.loss_sum += done.loss_sum
        self.seconds += sum(result.seconds)


@dataclass
class Traffic:
    """Of a cluster: bytes sent to workers, and received from them; their seconds of work, and those that the loop has
    waited for them."""

    bytes_sent: int = 0
    bytes_received: int = 0
    seconds_workers: float = 0.0
    seconds_waiting: float = 0.0


@dataclass
class Tally:
    """The work of an outer iteration.

    blocks, working_set: of the passes over them; set_visits: how many opportunities there were for a visit to the set;
    reading: what blocks have cost, the seconds of all threads that read and decode, which work while others train;
    certificates: how many took a reading."""

    blocks: Passes = field(default_factory=Passes)
    working_set: Passes = field(default_factory=Passes)
    set_visits: int = 0
    reading: ReadingCost = field(default_factory=ReadingCost)
    traffic: Traffic = field(default_factory=Traffic)
    certificates: int = 0

    def figures(self, progress: Progress) -> dict:
        passes, reading, traffic = progress.passes_now(), self.reading, self.traffic
        return {
            "blocks": progress.visit,
            "inner_passes": sum(passes),
            "rows_visited": self.blocks.rows,
            "nnz_visited": self.blocks.nnz,
            "bytes_read": reading.bytes_read,
            "seconds_reading": reading.seconds_reading,
            "seconds_decoding": reading.seconds_decoding,
            "seconds_waiting": reading.seconds_waiting + traffic.seconds_waiting,
            "seconds_training": self.blocks.seconds,
            "passes": passes,
            "gain": self.blocks.gain,
            "set_passes": progress.set_passes[len(progress.set_passes) - self.set_visits :],
            "set_rows_visited": self.working_set.rows,
            "set_nnz_visited": self.working_set.nnz,
            "set_gain": self.working_set.gain,
            "set_seconds": self.working_set.seconds,
            **dict(zip(("primal_estimate", "dual_estimate", "gap_estimate"), progress.suggested, strict=True)),
            "certificates": self.certificates,
            "bytes_sent": traffic.bytes_sent,
            "bytes_received": traffic.bytes_received,
            "seconds_workers": traffic.seconds_workers,
            "requests": reading.requests,
        }


@dataclass(frozen=True)
class Result:
    """A run's end.  status 'converged', 'rounding' (no better certificate can be had in double precision), 'max-outer',
    'max-passes', 'max-seconds', 'stopped' or 'interrupted'; w (n_vectors * (d + 1),), the constant feature's weight
    last; alpha (l,) or None; certificate of exactly this w and alpha, or None where interrupted; passes of every visit,
    set_passes of every one to the working set; memory by name as planned; note: a sentence about what the run has
    shown; support: of a solver whose result is no vector of weights, the rows that it stands on; cause, advice: of a
    run that a limit has ended before its tolerance, why and what to do (``cause_of``), else None;
    outer_of_weights: the outer iteration of w and its primal, where it is an earlier one than that of alpha and the
    dual value."""

    status: str
    w: np.ndarray
    alpha: np.ndarray | None
    certificate: Certificate | None
    outer: int
    seconds: float
    passes: list[int]
    set_passes: list[int]
    memory: dict[str, int]
    note: str = ""
    support: Support | None = None
    cause: str | None = None
    advice: str | None = None
    outer_of_weights: int | None = None


UNCERTIFIED = {name: None for name in ("primal", "dual", "rel_gap", "accuracy", "rmse", "rounding")}


def start_event(plan: Plan, progress: Progress) -> RunEvent:
    """Settings, the data, the plan of memory."""
    source, settings, solver = plan.source, plan.settings, plan.solver
    capabilities = solver.capabilities
    event: dict[str, Any] = {
        "event": "start" if plan.resume is None else "resume",
        "solver": solver.name,
        **plain(solver.settings),
        **settings.arithmetic(),
        "memory": settings.memory,
        "tol": settings.tol,
        "max_outer": settings.outer_limit(),
        "max_passes": settings.max_passes,
        "max_seconds": None if math.isinf(settings.max_seconds) else settings.max_seconds,
        "learner_settings": plain(solver.settings) if capabilities.predicts_first else None,
        "store": source.name,
        "fingerprint": source.fingerprint,
        "n_samples": source.n_samples,
        "n_features": source.n_features,
        "n_nonzeros": source.n_nonzeros,
        "n_vectors": solver.n_vectors,
        "blocks": len(plan.blocks.partition.blocks(1)),
        "under_way": plan.blocks.under_way,
        **plan.describe_blocks(),
        "memory_plan": plan.memory(),
        "outer": progress.outer,
        "versions": versions(),
    }
    return cast(RunEvent, event)


def end_event(result: Result, last: Certified | None) -> RunEvent:
    """How a run ended; an interrupted one reports its last certificate, if there was one."""
    certificate = asdict(result.certificate) if result.certificate else last and last.figures
    event = {"event": "end"} | {name: getattr(result, name) for name in ("status", "outer", "seconds")}
    event |= certificate or UNCERTIFIED
    return cast(RunEvent, event | {n: getattr(result, n) for n in ("cause", "advice", "passes", "set_passes")})


def ended(progress: Progress, plan: Plan, state: State, seconds: float) -> str | None:
    """At the end of an outer iteration: why another one is not begun, or None."""
    settings, solver = plan.settings, plan.solver
    if figures := progress.current:
        if end := Certificate(**figures).ends(settings.tol):
            return end
        if progress.phase == AT_REST:
            return ROUNDING
    if solver.finished(state) or stalled(solver, progress.estimates, settings.tol):
        return "converged"
    if progress.outer - plan.initial_models.outers >= settings.outer_limit():
        return "max-outer"
    if settings.passes_left(progress.passes_made) < 1:
        return "max-passes"
    return "max-seconds" if seconds > settings.max_seconds else None


def stalled(solver: Solver, estimates: list[float | None], tol: float) -> bool:
    """The primal estimate of a solver without a dual has stood still for some time."""
    known = [one for one in estimates if one is not None]
    if solver.capabilities.certifies or not solver.capabilities.minimises or len(known) <= STILL:
        return False
    return max(known) - min(known) <= tol * abs(known[-1])


LARGE, LONG = 1e4, 30.0  # of C ||x||^2, and of the largest norm: above them they are called the cause
SCALE, LARGE_C, LIMIT = "scale", "large C", "limit"
SMOOTHED = {"hinge": "squared-hinge", "epsilon-insensitive": "squared-epsilon-insensitive"}


def others_to_try(plan: Plan) -> str:
    """The solver to try where this one has not ended, with the loss that it needs, or ''."""
    settings, solver = plan.settings, plan.solver
    if settings.solver == "newton":  # a plane separates the rows: few of them are enough for dual-cd
        return option("solver", "dual-cd")
    if not solver.capabilities.working_set or learns_together(solver.settings.get("multiclass")):
        return ""
    loss = str(solver.settings["loss"])
    smooth = SMOOTHED.get(loss, loss)
    if not suits_newton(smooth, plan.source, settings.memory):
        return ""
    return option("solver", "newton") + (f" with {option('loss', smooth)}" if smooth != loss else "")


def cause_of(plan: Plan, status: str, certificate: Certificate | None) -> tuple[str | None, str | None]:
    """(cause, advice) of a run that did not reach its tolerance; (None, None) of others.

    A pass of coordinate descent brings the dual less the larger C ||x||^2 is, as that is the curvature's part that the
    penalty does not even out: above ``LARGE`` it is the cause, of the rows' norms where these are above ``LONG``.
    """
    if certificate is None or not (status == ROUNDING or status.startswith("max-")):
        return None, None
    settings, source, gap = plan.settings, plan.source, certificate.rel_gap
    tol, by_default = settings.tol, settings.ended_by_default(status)
    # without a dual value there is no gap: whoever gives such a run a limit wants so many readings
    misses = by_default and plan.solver.capabilities.minimises if gap is None else gap > tol
    if not misses:
        return None, None
    problem = plan.solver.problem
    C = 1.0 if problem is None else float(np.max(problem.cost))
    far = f"the gap {gap:.1e} is above" if gap is not None else "the primal still changes by more than"
    far += f" {option('tol', tol)}"
    if status == ROUNDING:
        why = f"double precision knows the objective to {certificate.rounding:.1e} of it only"
        why = why if certificate.ends(tol) else "no step is left that double precision could show"
        return ROUNDING, (
            f"not certified: {far}, as {why}, where decision values are sums of large products; scale the features, by "
            f"{option('scale', 'max-abs')} of split, or lower {option('C')}"
        )
    limit = option(status.replace("-", "_"))
    more = f"raise {limit}, and go on by {option('start_from')}, or accept the gap"
    if others := others_to_try(plan):
        more = f"try {others}, or {more}"
    if C * source.max_norm**2 <= LARGE:
        limit += f" (by default {settings.outer_limit():,})" if by_default else ""
        return LIMIT, f"not converged: {far} as {limit} ended the run; {more}"
    if source.max_norm > LONG:
        return SCALE, (
            f"not converged: {far}, since rows are long (norms up to {source.max_norm:.3g}), as where features are of "
            f"very different size; scale them, by {option('scale', 'max-abs')} of split, or rows, by "
            f"{option('normalize', 'l2')}, or lower {option('C')}"
        )
    return LARGE_C, f"not converged: {far}, since {option('C')} is large ({C:.3g}); lower it, or {more}"
