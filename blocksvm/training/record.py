"""The record of a run: where it stands, which is checkpointed; what it has done, which is shown; how it ended; and its
events, as callbacks and traces get them.

Events are plain dicts, one JSON line each in a trace; model/events.py declares them.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import numpy as np

from blocksvm.base.errors import option
from blocksvm.base.settings import plain
from blocksvm.losses import get_loss
from blocksvm.model.events import CertificateEvent, EndEvent, OuterEvent, StartEvent
from blocksvm.model.versions import versions
from blocksvm.problems.problem import Certificate
from blocksvm.problems.problem_settings import learns_together
from blocksvm.problems.support_rows import Support
from blocksvm.solvers.solver import Solver, State
from blocksvm.sources.source import ReadingCost
from blocksvm.store.descriptions import typed
from blocksvm.training.certificate import CertificatePolicy, RejectedEarly
from blocksvm.training.plan import Plan
from blocksvm.training.run_settings import ROUNDING
from blocksvm.training.schedule import PassStats
from blocksvm.training.visit import VisitResult
from blocksvm.training.working_set import WorkingSet

STILL = 3  # outer iterations without progress after which a primal method has come to rest


@dataclass
class Progress:
    """Where a run stands, between two visits: all that decides how it goes on, beside the state and the working set.

    outer: iteration, from 1; visit: blocks visited in it; closed: all blocks have been, so that only certificates are
    left; at_rest: no row that the certificate before this one found movable has moved since; told: its event has been
    emitted, so that it is at its end; passes: of every visit to a block; set_passes: of every opportunity for a visit
    to the working set, 0 where none was made; most_passes: the most over a block in this outer iteration; passes_made:
    the most over a row in those before; loss_sum: of the losses seen in this one; cycle_gain, cycle_work, last_worth,
    since_set: what ``PassStats`` begin with, and nonzeros of the blocks visited since the last pass over the set;
    estimates: of the primal, the latest; dual, gap: as the visits suggest them, gap_of: those of all 'rows', or those
    to the 'set' chosen by the last certificate; policy: when a certificate is due; certificate: the last one taken, at
    the end of the iteration certified_outer; best: that of the least primal, at the end of best_outer, whose w the
    state has kept; current: nothing has moved since; outers_before: outer iterations of a run that this one continues;
    warm_started: it began at another one's end; seconds_before: of the run before it was resumed.
    """

    outer: int = 1
    visit: int = 0
    closed: bool = False
    at_rest: bool = False
    told: bool = False
    passes: list[int] = field(default_factory=list)
    set_passes: list[int] = field(default_factory=list)
    most_passes: int = 0
    passes_made: int = 0
    loss_sum: float = 0.0
    cycle_gain: float = 0.0
    cycle_work: float = 0.0
    last_worth: float = 1.0
    since_set: int = 0
    estimates: list[float | None] = field(default_factory=list)
    dual: float | None = None
    gap: float | None = None
    gap_of: str = "rows"
    policy: CertificatePolicy = field(default_factory=CertificatePolicy)
    certificate: dict | None = None
    certified_outer: int = 0
    best: dict | None = None
    best_outer: int = 0
    current: bool = False
    outers_before: int = 0
    warm_started: bool = False
    seconds_before: float = 0.0

    @classmethod
    def restored(cls, saved: dict) -> Progress:
        """From its description in a checkpoint; ValueError where that is of another kind."""
        progress = typed(saved, cls)
        if progress.current and progress.certificate is None:
            raise ValueError("it was certified, and has no certificate")
        return progress

    def outers_done(self) -> int:
        """By this run: what a run that it continues has done does not count."""
        return self.outer - (not self.closed) - self.outers_before

    def block_stats(self, read: int, working_set: WorkingSet | None) -> PassStats:
        """The figures for a schedule before a visit to a block, of which ``read`` nonzeros had to be read."""
        self.cycle_work += read
        return PassStats(
            visit_work=read, cycle_gain=self.cycle_gain, cycle_work=self.cycle_work, with_set=working_set is not None,
            first_of_warm_start=self.warm_started and self.outer == 1 + self.outers_before,
        )  # fmt: skip

    def count(self, result: VisitResult, stats: PassStats, nnz: int) -> None:
        """A visit to a block of so many nonzeros has been made, begun with ``stats``."""
        for done in result.passes:
            stats = stats.after(done)
            self.loss_sum += done.loss_sum
        self.cycle_gain, self.cycle_work = stats.cycle_gain, stats.cycle_work
        # further passes over a block fill the time that a disk takes: the first alone counts towards a certificate
        self.policy.work += result.passes[0].nnz_visited
        self.most_passes = max(self.most_passes, stats.passes)
        self.passes.append(stats.passes)
        self.since_set += nnz
        self.current = False

    def set_stats(self, working_set: WorkingSet) -> PassStats:
        """The figures for a schedule before a visit to the working set."""
        return PassStats(
            cycle_gain=self.cycle_gain, cycle_work=self.cycle_work, with_set=True,
            read=self.since_set / max(1, working_set.n_nonzeros),
        )  # fmt: skip

    def count_set(self, result: VisitResult, stats: PassStats, left_out: float | None) -> None:
        """A visit to the working set has been made; left_out: of the gap, by the certificate that chose the set
        for it, the part of the rows outside of it."""
        for done in result.passes:
            stats = stats.after(done)
            self.policy.work += done.nnz_visited
        self.cycle_gain, self.cycle_work = stats.cycle_gain, stats.cycle_work
        self.last_worth, self.since_set = stats.worth, 0
        self.set_passes.append(stats.passes)
        self.current = False
        if left_out is not None and self.estimates[-1]:
            self.gap, self.gap_of = (stats.seen + left_out) / abs(self.estimates[-1]), "set"

    def close(self, primal: float | None) -> None:
        """All blocks have been visited; primal: as the visits suggest it."""
        self.estimates = [*self.estimates[-STILL:], primal]
        self.passes_made += self.most_passes
        self.most_passes, self.loss_sum, self.closed = 0, 0.0, True

    def begin_cycle(self, work: float, primal: float | None = None) -> None:
        """All rows will be read, or have been for a certificate, which took so much work and showed the primal."""
        self.cycle_gain, self.cycle_work = 0.0, work
        if primal is not None:
            self.estimates[-1] = primal


@dataclass
class Tally:
    """The work of an outer iteration, as it is shown; nothing is decided by it.  seconds_reading, seconds_decoding:
    of all threads that do, which work while others train; bytes_sent, bytes_received, seconds_workers: of a cluster;
    requests: to an object store."""

    blocks: int = 0
    inner_passes: int = 0
    rows_visited: int = 0
    nnz_visited: int = 0
    bytes_read: int = 0
    seconds_reading: float = 0.0
    seconds_decoding: float = 0.0
    seconds_waiting: float = 0.0
    seconds_training: float = 0.0
    passes: list[int] = field(default_factory=list)
    gain: float = 0.0
    set_passes: list[int] = field(default_factory=list)
    set_rows_visited: int = 0
    set_nnz_visited: int = 0
    set_gain: float = 0.0
    set_seconds: float = 0.0
    primal_estimate: float | None = None
    dual_estimate: float | None = None
    gap_estimate: float | None = None
    certificates: int = 0
    certificate_share: float | None = None
    bytes_sent: int = 0
    bytes_received: int = 0
    seconds_workers: float = 0.0
    requests: int = 0

    def count(self, result: VisitResult) -> None:
        """A visit to a block."""
        self.blocks += 1
        self.passes.append(len(result.passes))
        self.inner_passes += len(result.passes)
        self.rows_visited += sum(done.rows_visited for done in result.passes)
        self.nnz_visited += sum(done.nnz_visited for done in result.passes)
        self.gain += sum(done.gain for done in result.passes)
        self.seconds_training += sum(result.seconds)

    def count_set(self, result: VisitResult) -> None:
        """A visit to the working set."""
        self.set_passes.append(len(result.passes))
        self.set_rows_visited += sum(done.rows_visited for done in result.passes)
        self.set_nnz_visited += sum(done.nnz_visited for done in result.passes)
        self.set_gain += sum(done.gain for done in result.passes)
        self.set_seconds += sum(result.seconds)

    def count_reading(self, cost: ReadingCost) -> None:
        """A block has been taken; what reading has cost since the one before."""
        self.bytes_read += cost.bytes_read
        self.requests += cost.requests
        self.seconds_reading += cost.seconds_reading
        self.seconds_decoding += cost.seconds_decoding
        self.seconds_waiting += cost.seconds_waiting

    def attempted(self, share: float) -> None:
        """A certificate for which this share of the rows was read."""
        self.certificates += 1
        self.certificate_share = share + (self.certificate_share or 0.0)


@dataclass(frozen=True)
class Result:
    """A run's end.  status 'converged', 'rounding' (no better certificate can be had in double precision), 'max-outer',
    'max-passes', 'max-seconds' or 'interrupted'; w (n_vectors * (d + 1),), the constant feature's weight last; alpha
    (l,) or None; certificate of exactly this w and alpha, or None where interrupted; passes of every visit, set_passes
    of every one to the working set; memory by name as planned; note: a sentence about what the run has shown; support:
    of a solver whose result is no vector of weights, the rows that it stands on; cause, advice: of a run that a limit
    has ended before its tolerance, why and what to do (``cause_of``), else None;
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


def start_event(plan: Plan, progress: Progress) -> StartEvent:
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
    return cast(StartEvent, event)


def certificate_event(outer: int, seconds: float, certificate: Certificate | RejectedEarly) -> CertificateEvent:
    """A certificate; figures are null where it was broken off after a share of the rows, as the gap was too large."""
    figures, share = (
        (UNCERTIFIED, certificate.share) if isinstance(certificate, RejectedEarly) else (asdict(certificate), 1.0)
    )
    event = {"event": "certificate", "outer": outer, "seconds": seconds, **figures, "share": share}
    return cast(CertificateEvent, event)


def outer_event(progress: Progress, tally: Tally, seconds: float, figures: dict, valid: dict) -> OuterEvent:
    """An outer iteration: figures of the last certificate at its end (null where none was taken), estimates, what was
    done.

    figures: rows_read, those of a reading; set_rows, set_nonzeros, set_share: the working set and its part of the gap
    that was seen.  valid: the score of held-out rows.
    certificate_share: of the rows, how many were read for certificates (less than their number: one was broken off).
    """
    certificate = progress.certificate if progress.certified_outer == progress.outer else None
    event = {
        "event": "outer",
        "outer": progress.outer,
        "seconds": seconds,
        **(certificate or UNCERTIFIED),
        **figures,
        **valid,
        **asdict(tally),
    }
    return cast(OuterEvent, event)


def end_event(result: Result, last: dict | None) -> EndEvent:
    """How a run ended; an interrupted one reports its last certificate, if there was one."""
    certificate = asdict(result.certificate) if result.certificate else last
    event = {
        "event": "end",
        "status": result.status,
        "outer": result.outer,
        "seconds": result.seconds,
        **(certificate or UNCERTIFIED),
        "cause": result.cause,
        "advice": result.advice,
        "passes": result.passes,
        "set_passes": result.set_passes,
    }
    return cast(EndEvent, event)


def ended(progress: Progress, plan: Plan, state: State, seconds: float) -> str | None:
    """At the end of an outer iteration: why another one is not begun, or None."""
    settings, solver = plan.settings, plan.solver
    if progress.current and progress.certificate:
        if end := Certificate(**progress.certificate).ends(settings.tol):
            return end
        if progress.at_rest:
            return ROUNDING
    if solver.finished(state) or stalled(solver, progress.estimates, settings.tol):
        return "converged"
    if progress.outers_done() >= settings.outer_limit():
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


FEW = 10  # times as many rows as features: lbfgs was ahead wherever dual-cd did not get on, but with separable rows
LARGE, LONG = 1e4, 30.0  # of C ||x||^2, and of the largest norm: above them they are called the cause
SCALE, LARGE_C, LIMIT = "scale", "large C", "limit"


def lbfgs_takes(plan: Plan) -> bool:
    """The run is one of coordinate descent on a problem that lbfgs takes, too."""
    solver, loss = plan.solver, plan.solver.settings.get("loss")
    together = learns_together(solver.settings.get("multiclass"))
    smooth = solver.capabilities.cross_validates and get_loss(str(loss)).has("second_derivative")
    return smooth and not together and not plan.settings.free_bias


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
    more = f"raise {limit}, and go on by {option('warm_start')}, or accept the gap"
    if FEW * source.n_features <= source.n_samples and lbfgs_takes(plan):
        more = f"try {option('solver', 'lbfgs')}, or {more}"
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
