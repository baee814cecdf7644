"""The outer loop (Yu, Hsieh, Chang, Lin, KDD 2010): one block in memory at a time, minimised over, until the
certificate says that the optimum is reached.

    for each outer iteration: for each block: read it (while the last one trains), visit it, take in what changed;
    then, where the visits' estimates promise success, a certificate over all rows at one fixed w.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from blocksvm.errors import InputError
from blocksvm.model.state import open_state
from blocksvm.problems.problem import Certificate
from blocksvm.solvers.protocol import SavedRun
from blocksvm.training.certificate import Missed
from blocksvm.training.certifier import Certifier
from blocksvm.training.checkpoint import Checkpoint
from blocksvm.training.feed import Feed
from blocksvm.training.plan import Plan
from blocksvm.training.record import Progress, Result, Tally, end_event, outer_event, start_event
from blocksvm.training.visitor import Visitor
from blocksvm.training.visits import Executor, ThisThread

STILL = 3  # outer iterations without progress after which a primal method has come to rest


@dataclass(frozen=True)
class Watch:
    """Who watches a run: on_event is called with a dict for each event; stop() is asked after each inner pass, and ends
    the run as interrupted where it says True."""

    on_event: Callable[[dict], None] = lambda event: None
    stop: Callable[[], bool] = lambda: False


class OuterLoop:
    """One run of a plan.

    checkpoint: where the state is saved, now and then, on interruption and at the end; warm_start: a model or
    checkpoint of the same rows to begin from; executor: who makes the visits; began: when the run's seconds began to
    count.
    """

    def __init__(
        self,
        plan: Plan,
        watch: Watch = Watch(),
        *,
        checkpoint: Checkpoint | None = None,
        warm_start: Path | None = None,
        executor: Executor | None = None,
        began: float | None = None,
    ):
        self.plan = plan
        self.watch = watch
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.executor = executor or ThisThread()
        self.began = time.perf_counter() if began is None else began
        self.progress = Progress()
        plan.over_time = lambda: self.seconds() > plan.settings.max_seconds
        if plan.resume is not None:
            plan.check_resumed(checkpoint.path)

    # -- the state ---------------------------------------------------------------------------------------------

    def allocate(self) -> None:
        """The state's arrays, and the solver's start in them."""
        plan, solver = self.plan, self.plan.solver
        self.state = {array.name: np.zeros(plan.shape(array), array.dtype) for array in solver.state_arrays}
        self.output = np.zeros(solver.n_vectors * (plan.n_features + 1)) if solver.needs_output else None
        if plan.earlier.prior is not None:
            solver.prior = plan.earlier.prior_weights(plan.n_features, solver.bias)
        solver.start(self.state)
        if plan.earlier.continue_from is not None and plan.resume is None:
            plan.earlier.fill_state(self.state, solver)
            self.progress.outers_before = plan.earlier.outers
            self.progress.position.outer = plan.earlier.outers + 1

    def weights(self) -> np.ndarray:
        """The w that certificates, held-out accuracy and the model are about."""
        return self.plan.solver.weights(self.state, self.output)

    def seconds(self) -> float:
        return self.progress.seconds_before + time.perf_counter() - self.began

    def emit(self, event: str, **more) -> None:
        outer = self.progress.position.outer
        self.watch.on_event({"event": event, "outer": outer, "seconds": self.seconds(), **more})

    def _report(self, figures: dict) -> None:
        self.emit("progress", **figures)

    # -- the run -----------------------------------------------------------------------------------------------

    def run(self) -> Result:
        plan, solver = self.plan, self.plan.solver
        if not hasattr(self, "state"):
            self.allocate()
        broken_off = None
        if plan.resume is not None:
            self.progress, broken_off = self.checkpoint.restore(plan, self.state)
        with Feed(plan, self.progress) as self.feed:
            self.certifier = Certifier(plan, self.state, self.weights, self.feed.all_blocks, self.watch.stop)
            self.visitor = Visitor(plan, self.progress, self.feed, self.executor, self.watch.stop, self._report)
            self.visitor.arrays = broken_off
            if self.warm_start is not None and plan.resume is None:
                self._start_warm()
            # from here on nothing of the user's is found wrong
            self.watch.on_event(start_event(plan, self.progress))
            status = self._iterate()
            if self.checkpoint is not None:
                # before the last certificate: it may rebuild w, which a run that goes on from here would not have done
                self.save()
            final = None
            if status != "interrupted":
                final = self._last_certificate()
                if final is None:
                    status = "interrupted"
                elif final.rel_gap is not None and final.rel_gap <= plan.settings.tol:
                    status = "converged"
        progress = self.progress
        result = Result(
            status,
            self.weights(),
            solver.dual_variables(self.state),
            final,
            progress.outers_done(),
            self.seconds(),
            progress.passes,
            plan.memory(),
            solver.summary(self.state),
        )
        self.watch.on_event(end_event(result, progress.certificate))
        return result

    def _start_warm(self) -> None:
        saved = open_state(self.warm_start)
        source, name = self.plan.source, str(self.warm_start)
        if saved.meta["fingerprint"] != source.fingerprint:
            raise InputError(f"{name}: belongs to another store than {source.name}; name its own store")
        blocks = self.feed.all_blocks(self.plan.partition.stored)
        self.plan.solver.warm_start(self.state, SavedRun(name, saved.meta, saved.lengths, saved.load), blocks)

    def _iterate(self) -> str:
        position = self.progress.position
        while True:
            status = self._ended() if position.visit == position.passes == 0 else None
            if status is None:
                status = self._outer_iteration()
            if status is not None:
                return status
            self._save_if_due()

    def _ended(self) -> str | None:
        """Between two outer iterations: why another one is not begun, or None."""
        progress, settings = self.progress, self.plan.settings
        done = progress.outers_done()
        if not done:
            return None
        if progress.certified_outer == progress.position.outer - 1:
            rel_gap = progress.certificate["rel_gap"]
            if rel_gap is not None and rel_gap <= settings.tol:
                return "converged"
        if self._at_rest():
            return "converged"
        if done >= settings.outer_limit():
            return "max-outer"
        return "max-seconds" if self.seconds() > settings.max_seconds else None

    def _at_rest(self) -> bool:
        """The solver has nothing more to do, or a primal estimate without a dual has stood still for some time."""
        capabilities = self.plan.solver.capabilities
        if self.plan.solver.finished(self.state):
            return True
        estimates = self.progress.estimates
        if capabilities.certifies or not capabilities.minimises or len(estimates) <= STILL:
            return False
        return max(estimates) - min(estimates) <= self.plan.settings.tol * abs(estimates[-1])

    def _outer_iteration(self) -> str | None:
        """All visits of one outer iteration, then what follows; a status where the run ends here."""
        position, partition = self.progress.position, self.plan.partition
        blocks, following = partition.blocks(position.outer), partition.blocks(position.outer + 1)
        while position.visit < len(blocks):
            visit = position.visit
            block = self.feed.take(blocks[visit])
            self.feed.request(blocks[visit + 1] if visit + 1 < len(blocks) else following[0])
            if not self.visitor.visit(block, self.state):
                return "interrupted" if self.watch.stop() else "max-seconds"
            self.emit("visit", visit=visit + 1, blocks=len(blocks))
            if self.seconds() > self.plan.settings.max_seconds and position.visit < len(blocks):
                return "max-seconds"
            self._save_if_due()
        return self._close_outer(following)

    # -- the end of an outer iteration ---------------------------------------------------------------------------

    def _close_outer(self, following: list[np.ndarray]) -> str | None:
        """Estimates, certificate, held-out accuracy and the trace's line; 'interrupted' where that came first."""
        progress, solver, plan = self.progress, self.plan.solver, self.plan
        position = progress.position
        primal, dual = solver.estimates(self.state, progress.tally.loss_sum)
        gap = None
        if dual is not None:
            gap = (primal - dual) / abs(primal) if primal else 0.0
        certificate, share = None, None
        if progress.attempts.worthwhile(position.outer, gap, plan.settings.tol):
            self.emit("certifying")
            found = self.certifier.certify(following, dual)
            if found is None:
                return "interrupted"
            if isinstance(found, Missed):
                share, whole = found.share, found.gap / found.share
                progress.attempts.learn(position.outer, gap, whole / (dual + whole))
            else:
                certificate, share = found, 1.0
                progress.attempts.learn(position.outer, gap, certificate.rel_gap)
        solver.end_outer(self.state, position.outer)
        progress.estimates = [*progress.estimates[-STILL:], primal]
        if certificate is not None:
            progress.certificate = asdict(certificate)
            progress.certified_outer = position.outer
        accuracy = None if plan.held_out is None else plan.held_out.accuracy(self.weights(), solver.bias)
        estimates = {"primal_estimate": primal, "dual_estimate": dual, "gap_estimate": gap,
                     "certificate_share": share, **solver.progress(self.state)}  # fmt: skip
        self.watch.on_event(outer_event(progress, self.seconds(), estimates, certificate, accuracy))
        position.outer += 1
        position.visit = 0
        progress.tally = Tally()
        return None

    def _last_certificate(self) -> Certificate | None:
        """The certificate of the result, taken now unless the last outer iteration has one; None where stopped."""
        progress = self.progress
        current = progress.certified_outer == progress.position.outer - 1 and progress.position.visit == 0
        if current and progress.certificate is not None:
            return Certificate(**progress.certificate)
        self.emit("certifying")
        certificate = self.certifier.certify(self.plan.partition.blocks(progress.position.outer))
        if certificate is not None:
            progress.certificate = asdict(certificate)
        return certificate

    # -- checkpoints -------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write the checkpoint: the state, the visit under way, and where the run stands."""
        progress = asdict(self.progress) | {"seconds_before": self.seconds()}
        self.checkpoint.save(self.plan, self.state, self.visitor.arrays, progress)

    def _save_if_due(self) -> None:
        if self.checkpoint is not None and self.checkpoint.is_due():
            self.save()
