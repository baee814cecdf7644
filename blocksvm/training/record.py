"""The record of a run: where it stands, what it has done, how it ended; and its events, as callbacks and traces get
them.

Events are plain dicts, one JSON line each in a trace: "start" (or "resume"), "progress", "visit", "certifying", "outer"
and "end".
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, is_dataclass

import numpy as np

from blocksvm.errors import called, said
from blocksvm.model.versions import versions
from blocksvm.problems.problem import Certificate
from blocksvm.problems.support import Support
from blocksvm.settings import plain
from blocksvm.training.certificate import Attempts
from blocksvm.training.schedule import GAIN_LEFT


def alike(kind: type, saved) -> type:
    """``kind``, a dataclass, if ``saved`` are its fields, of the types of their defaults; TypeError where not."""
    if not isinstance(saved, dict):
        raise TypeError(f"its {kind.__name__.lower()} is no object")
    for name, default in vars(kind()).items():
        wanted = (int, float) if type(default) is float else (type(default),)
        if name in saved and default is not None and not is_dataclass(default) and type(saved[name]) not in wanted:
            raise TypeError(f"its {name} is of another type")
    return kind


@dataclass
class Position:
    """Where a run stands: outer iteration (from 1), visit (from 0) and inner passes done in it.

    of_the_set: the visit is one to the working set, which comes after that to the block; check: all rows are read for a
    certificate in this outer iteration, and not visited; renewed: the last one was such, so the working set, which it
    has chosen anew, is visited first.
    """

    outer: int = 1
    visit: int = 0
    passes: int = 0
    of_the_set: bool = False
    check: bool = False
    renewed: bool = False

    def between_outers(self) -> bool:
        """No visit of the outer iteration has begun."""
        return self.visit == self.passes == 0 and not self.of_the_set


@dataclass
class Tally:
    """What an outer iteration has done so far.  seconds_reading, seconds_decoding: of all threads that do, which work
    while others train; set_work: of set_nnz_visited, all but what was done while waiting."""

    blocks: int = 0
    inner_passes: int = 0
    rows_visited: int = 0
    nnz_visited: int = 0
    loss_sum: float = 0.0
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
    set_work: int = 0
    set_gain: float = 0.0
    set_seconds: float = 0.0


@dataclass
class Progress:
    """What is known of the whole run so far, and goes into checkpoints.

    passes: of every visit, passes_made: over one row's block at most in the readings that are whole, set_passes: of
    every visit to the working set (0: none was made); of such a visit under way, first_spread: the range of the
    projected gradients in its first pass, spread: in its last, seen: the gap that this one saw, further: its passes
    that are made in any case; nnz_since_set: nonzeros of the blocks visited since the last one that had a pass; of a
    visit to a block under way, allowed: the gap that the tolerance allows its rows, gain: what its last pass added to
    the dual, work: the nonzeros that it visited, visit_gain, visit_work: the same of all of its passes and of reading
    the block; cycle_gain, cycle_work: of all since the reading began, or the certificate that chose the set anew, and
    worth: of the last pass over the set since then, see ``SetSituation``; estimates: of the primal, the latest;
    gap_estimate: of the last outer iteration that visited blocks; checked_gap: relative, certified by the last one
    where that visited none;
    certificate: the last one taken, and the outer iteration at whose end it was;
    work_since: nonzeros visited since all rows were last looked at for one, those of further passes over a block aside;
    finished: what the solver said after the last pass of a visit under way; outers_before: outer iterations of a run
    that this one continues; warm_started: it began at another one's end.
    """

    position: Position = field(default_factory=Position)
    tally: Tally = field(default_factory=Tally)
    passes: list[int] = field(default_factory=list)
    passes_made: int = 0
    set_passes: list[int] = field(default_factory=list)
    first_spread: float = 0.0
    spread: float = 0.0
    seen: float = 0.0
    further: int = 0
    nnz_since_set: int = 0
    allowed: float = 0.0
    gain: float = 0.0
    work: int = 0
    visit_gain: float = 0.0
    visit_work: float = 0.0
    cycle_gain: float = 0.0
    cycle_work: float = 0.0
    worth: float = 1.0
    seconds_before: float = 0.0
    attempts: Attempts = field(default_factory=Attempts)
    estimates: list[float] = field(default_factory=list)
    gap_estimate: float | None = None
    checked_gap: float | None = None
    certificate: dict | None = None
    certified_outer: int = 0
    work_since: int = 0
    finished: bool = False
    outers_before: int = 0
    warm_started: bool = False

    @classmethod
    def restored(cls, saved: dict) -> Progress:
        """From its description in a checkpoint."""
        parts = {"position": Position, "tally": Tally, "attempts": Attempts}
        found = cls(**{n: alike(parts[n], value)(**value) if n in parts else value for n, value in saved.items()})
        alike(cls, saved)
        if found.certified_outer and found.certificate is None:
            raise TypeError("it was certified, and has no certificate")
        return found

    def settled(self) -> bool:
        """Whether all rows have had several passes in one visit, of which the last brought next to nothing: then a
        certificate tells what another pass over all rows would, and costs less."""
        several = len(self.tally.passes) == 1 and self.tally.passes[0] > 1
        return several and 0.0 < self.gain <= GAIN_LEFT * self.allowed

    def promises(self, estimated_gap: float | None, tol: float) -> bool:
        """Whether a certificate can be expected to reach the tolerance, without a working set."""
        return self.settled() or self.attempts.worthwhile(self.position.outer, estimated_gap, tol)

    def learn(self, estimated_gap: float | None, rel_gap: float | None) -> None:
        """What a certificate says of the visits' estimates; of several passes the first one's losses, which they are
        made of, tell nothing of the last one's gap."""
        if not self.settled():
            self.attempts.learn(self.position.outer, estimated_gap, rel_gap)

    def count_work(self, looked: bool) -> None:
        """At the end of an outer iteration; looked: it has begun a certificate, finished or not.  Further passes, which
        fill the time that a disk takes, do not count."""
        tally = self.tally
        visited = tally.nnz_visited * tally.blocks // max(1, tally.inner_passes)
        self.work_since = 0 if looked else self.work_since + visited + tally.set_work

    def outers_done(self) -> int:
        """By this run: what a run that it continues has done does not count."""
        return self.position.outer - 1 - self.outers_before


@dataclass(frozen=True)
class Result:
    """A run's end.  status 'converged', 'max-outer', 'max-passes', 'max-seconds' or 'interrupted'; w (n_vectors *
    (d + 1),), the constant feature's weight last; alpha (l,) or None; certificate of exactly this w and alpha, or None
    where interrupted; passes of every visit, set_passes of every one to the working set; memory by name as planned;
    note: a sentence about what the run has shown; support: of a solver whose result is no vector of weights, the rows
    that it stands on; cause, advice: of a run that a limit has ended before its tolerance, why and what to do
    (``cause_of``), else None."""

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


UNCERTIFIED = {name: None for name in ("primal", "dual", "rel_gap", "accuracy", "rmse")}


def start_event(plan, progress: Progress) -> dict:
    """Settings, the data, the plan of memory."""
    source, settings, solver = plan.source, plan.settings, plan.solver
    capabilities = solver.capabilities
    return {
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
        **plan.describe_blocks(),
        "memory_plan": plan.memory(),
        "outer": progress.position.outer,
        "versions": versions(),
    }


def outer_event(
    progress: Progress, seconds: float, estimates: dict, certificate: Certificate | None, valid: dict
) -> dict:
    """An outer iteration: certified figures (null where nothing was certified), estimates, what was done.

    estimates: primal_estimate, dual_estimate, gap_estimate; certificate_share: of the rows, how many were read for a
    certificate (less than 1: it was broken off, as the gap was too large); rows_read: those of a reading; set_rows,
    set_nonzeros, set_share: the working set and its part of the gap that was seen.  valid: what held-out rows say.
    """
    done = {name: value for name, value in asdict(progress.tally).items() if name != "loss_sum"}
    return {
        "event": "outer",
        "outer": progress.position.outer,
        "seconds": seconds,
        **(UNCERTIFIED if certificate is None else asdict(certificate)),
        **estimates,
        **valid,
        **done,
    }


def end_event(result: Result, last: dict | None) -> dict:
    """How a run ended; an interrupted one reports its last certificate, if there was one."""
    certificate = asdict(result.certificate) if result.certificate else last
    return {
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


LARGE, LONG = 1e4, 30.0
SCALE, LARGE_C, LIMIT = "scale", "large C", "limit"


def cause_of(plan, status: str, certificate: Certificate | None) -> tuple[str | None, str | None]:
    """(cause, advice) of a run that did not reach its tolerance; (None, None) of others.

    A pass of coordinate descent brings the dual less the larger C ||x||^2 is, as that is the curvature's part that the
    penalty does not even out: above ``LARGE`` it is the cause, of the rows' norms where these are above ``LONG``.
    """
    tol, source, ended = plan.settings.tol, plan.source, status.startswith("max-")
    if not ended or certificate is None or certificate.rel_gap is None or certificate.rel_gap <= tol:
        return None, None
    problem = getattr(plan.solver, "problem", None)
    C = float(np.max(problem.cost)) if hasattr(problem, "cost") else 1.0
    far = f"the gap {certificate.rel_gap:.1e} is above {said('tol', tol)}"
    more = f"raise {called(status.replace('-', '_'))}, and go on by {called('warm_start')}, or accept the gap"
    if C * source.max_norm**2 <= LARGE:
        return LIMIT, f"not converged: {far} as {called(status.replace('-', '_'))} ended the run; {more}"
    if source.max_norm > LONG:
        return SCALE, (
            f"not converged: {far}, since rows are long (norms up to {source.max_norm:.3g}), as where features are of "
            f"very different size; scale them, by {said('normalize', 'l2')} of split or column by column, or lower "
            f"{called('C')}"
        )
    return LARGE_C, f"not converged: {far}, since {called('C')} is large ({C:.3g}); lower it, or {more}"
