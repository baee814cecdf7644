"""The record of a run: where it stands, which is checkpointed; what it has done, which is shown; how it ended; and its
events, which model/events.py declares."""

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
from blocksvm.problems.kernel_problem import Support
from blocksvm.problems.problem_settings import learns_together
from blocksvm.solvers.solver import State
from blocksvm.sources.source import ReadingCost
from blocksvm.store.descriptions import Count, Size
from blocksvm.training.plan import Plan
from blocksvm.training.run_settings import ROUNDING
from blocksvm.training.settings import suits_newton
from blocksvm.training.visit import VisitResult

READING, CLOSED, TOLD, AT_REST = "reading", "closed", "told", "at rest"  # phases of an outer iteration
STILL = 3  # outer iterations without progress after which a primal method has come to rest
# The gap that visits suggest is computed before each row's own step, while w moves on.  The certified gap is taken to
# be this part of it, until the first certificate has measured the ratio (on other data: 0.05 to 0.25 where passes over
# a working set come between the visits, 0.45 to 0.75 on a million rows without).  With 1 ten data sets take 1.1 times
# as many readings; with 0, so that the first reading is followed by a certificate, 21 million nonzeros one more, of 7.
FIRST_RATIO = 0.2
WORK_BETWEEN = 10.0  # readings of all rows, in nonzeros visited: after so many a certificate is due


@dataclass
class CertificatePolicy:
    """Decides when a certificate is due: where the gap that the visits suggest, times the ratio that the last
    certificate has shown, is within the tolerance; or when the work since the last attempt is many times its own.
    ratio: by what the gap is estimated from, all rows as they were visited, or the working set after its passes; work:
    nonzeros visited since the last attempt, further passes over a block in memory aside."""

    ratio: dict[str, float] = field(default_factory=lambda: {"rows": FIRST_RATIO, "set": 1.0})
    work: float = 0.0

    def due(self, kind: str, estimated_gap: float | None, tol: float, work_of_reading: float) -> bool:
        """kind: 'rows' or 'set', what the estimate was made from."""
        if estimated_gap is None:
            return False
        overdue = kind == "rows" and self.work >= WORK_BETWEEN * work_of_reading
        return estimated_gap * self.ratio[kind] <= tol or overdue

    def learn(self, kind: str, estimated_gap: float | None, rel_gap: float | None) -> None:
        """rel_gap: as certified."""
        self.work = 0.0
        if estimated_gap and rel_gap and estimated_gap > 0.0:
            ratio = rel_gap / estimated_gap
            # above 1: of all rows, the estimate lacked those at rest, which the certificate has brought back; the set
            # lacks none, so that it comes of rounding
            self.ratio[kind] = min(1.0, ratio) if kind == "rows" else ratio


@dataclass
class Certified:
    """The figures of a certificate that was taken at the end of an outer iteration, after so many passes."""

    outer: Size
    passes: Size
    figures: dict


@dataclass
class Cycle:
    """What ``PassStats`` begin with."""

    gain: float = 0.0  # of all passes since this reading began, or since the certificate that last chose the set
    work: float = 0.0
    worth: float = 1.0  # of the last pass over the set
    read: int = 0  # nonzeros of the blocks visited since


@dataclass
class Progress:
    """Where a run stands, between two visits: all that decides how it goes on, beside the state and the working set.
    phase: CLOSED: all blocks have been visited, so that only certificates are left; TOLD: its event has been emitted,
    so that it is at its end; AT_REST: that, and no row that the certificate before the last found movable has moved."""

    outer: Count = 1  # iteration
    visit: Size = 0  # blocks visited in it
    phase: Annotated[str, Meta(pattern="^(reading|closed|told|at rest)$")] = READING
    passes: list[Size] = field(default_factory=list)  # of every visit to a block
    set_passes: list[Size] = field(default_factory=list)  # of every opportunity for a visit to the working set
    passes_made: int = 0  # the most over a row in the outer iterations before
    cycle: Cycle = field(default_factory=Cycle)
    estimates: list[float | None] = field(default_factory=list)  # of the primal, the latest
    suggested: Annotated[list[float | None], Meta(min_length=3, max_length=3)] = field(
        default_factory=lambda: [None, None, None]  # primal, dual and gap, by the visits
    )
    set_gap: float | None = None  # of the set that the last certificate chose, once it has been passed over
    policy: CertificatePolicy = field(default_factory=CertificatePolicy)
    certified: Certified | None = None  # the last certificate
    best: Certified | None = None  # that of the least primal, whose w the state has kept
    warm_started: bool = False  # the run began at another one's end

    @property
    def gap(self) -> tuple[str, float | None]:
        """What it is estimated from, all 'rows' or the 'set', and the estimate."""
        return ("rows", self.suggested[2]) if self.set_gap is None else ("set", self.set_gap)

    @property
    def moves(self) -> int:
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

    def count(self, result: VisitResult, nnz: int) -> None:
        """A visit to a block of so many nonzeros has been made."""
        self.cycle.gain, self.cycle.work = result.stats.cycle_gain, result.stats.cycle_work
        # further passes over a block fill the time that a disk takes: the first alone counts towards a certificate
        self.policy.work += result.passes[0].nnz_visited
        self.passes.append(result.stats.passes)
        self.cycle.read += nnz

    def count_set(self, result: VisitResult, left_out: float | None) -> None:
        """A visit to the working set has been made; left_out: of the gap, by the certificate that chose the set
        for it, the part of the rows outside of it."""
        stats = result.stats
        self.cycle = Cycle(stats.cycle_gain, stats.cycle_work, stats.worth)
        self.policy.work += sum(done.nnz_visited for done in result.passes)
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
    """Of an outer iteration's passes: rows and nonzeros visited, gain of the dual, losses as seen, seconds."""

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
        self.seconds += result.seconds


@dataclass
class Traffic:
    """Of a cluster: bytes sent to workers and received, their seconds of work, and those that the loop has waited."""

    bytes_sent: int = 0
    bytes_received: int = 0
    seconds_workers: float = 0.0
    seconds_waiting: float = 0.0


@dataclass
class Tally:
    """The work of an outer iteration."""

    blocks: Passes = field(default_factory=Passes)
    working_set: Passes = field(default_factory=Passes)
    set_visits: int = 0  # opportunities for a visit to the set
    reading: ReadingCost = field(default_factory=ReadingCost)  # of blocks, in seconds of all threads that read
    traffic: Traffic = field(default_factory=Traffic)
    certificates: int = 0  # that took a reading

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
    'max-passes', 'max-seconds', 'stopped' or 'interrupted'."""

    status: str
    w: np.ndarray  # (n_vectors * (d + 1),), the constant feature's weight last
    alpha: np.ndarray | None  # (l,)
    certificate: Certificate | None  # of exactly this w and alpha; None where interrupted
    outer: int
    seconds: float
    passes: list[int]  # of every visit
    set_passes: list[int]  # of every one to the working set
    memory: dict[str, int]  # by name, as planned
    note: str = ""  # a sentence about what the run has shown
    support: Support | None = None  # the rows that the result stands on, where it is no vector of weights
    cause: str | None = None  # why a limit has ended the run before its tolerance (``cause_of``)
    advice: str | None = None  # what to do then
    outer_of_weights: int | None = None  # of w and its primal, where it is before that of alpha and the dual value


UNCERTIFIED = {name: None for name in ("primal", "dual", "rel_gap", "accuracy", "rmse", "rounding")}


def start_event(plan: Plan, progress: Progress) -> RunEvent:
    source, settings, solver = plan.source, plan.settings, plan.solver
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
        "learner_settings": plain(solver.settings) if solver.capabilities.predicts_first else None,
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
    known = [one for one in progress.estimates if one is not None]
    primal_only = solver.capabilities.minimises and not solver.capabilities.certifies
    still = primal_only and len(known) > STILL and max(known) - min(known) <= settings.tol * abs(known[-1])
    if solver.finished(state) or still:
        return "converged"
    if progress.outer - plan.initial_models.outers >= settings.outer_limit():
        return "max-outer"
    if settings.passes_left(progress.passes_made) < 1:
        return "max-passes"
    return "max-seconds" if seconds > settings.max_seconds else None


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
    """(cause, advice) of a run that did not reach its tolerance; (None, None) of others.  A pass of coordinate descent
    brings the dual less the larger C ||x||^2 is, the curvature's part that the penalty does not even out: above
    ``LARGE`` it is the cause, of the rows' norms where these are above ``LONG``."""
    if certificate is None or not (status == ROUNDING or status.startswith("max-")):
        return None, None
    settings, source, gap = plan.settings, plan.source, certificate.rel_gap
    tol, by_default = settings.tol, settings.ended_by_default(status)
    # without a dual value there is no gap: whoever gives such a run a limit wants so many readings
    misses = by_default and plan.solver.capabilities.minimises if gap is None else gap > tol
    if not misses:
        return None, None
    C = 1.0 if plan.solver.problem is None else float(np.max(plan.solver.problem.cost))
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
