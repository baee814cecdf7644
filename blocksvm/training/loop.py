"""The outer loop (Yu, Hsieh, Chang, Lin, KDD 2010): one block in memory at a time, minimised over, until the
certificate says that the optimum is reached.

    for each outer iteration: for each block: read it (while the last one trains), visit it, take in what changed,
    gather the rows that can still move, and pass over those gathered so far; then, where the estimates promise success,
    a certificate over all rows at one fixed w, which gathers them anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from blocksvm.problems.problem import Certificate
from blocksvm.solvers.protocol import SavedRun, State
from blocksvm.training.certificate import FACTOR_WITH_A_SET, Missed
from blocksvm.training.certifier import Certifier
from blocksvm.training.checkpoint import WORKING_SET, Checkpoint
from blocksvm.training.checks import STILL, at_rest, next_is_a_check
from blocksvm.training.heldout import held_out_figures
from blocksvm.training.plan import Plan
from blocksvm.training.reading import Reading
from blocksvm.training.record import Progress, Result, Tally, cause_of, end_event, outer_event, start_event
from blocksvm.training.supply import Supply
from blocksvm.training.visitor import Visitor
from blocksvm.training.visits import Executor, ThisThread
from blocksvm.training.warm_start import start_warm
from blocksvm.training.working_set import figures_of, make_working_set
from blocksvm.vectors import on_lines


@dataclass(frozen=True)
class Watch:
    """Who watches a run: on_event is called with a dict for each event; stop() is asked after each inner pass, and ends
    the run as interrupted where it says True."""

    on_event: Callable[[dict], None] = lambda event: None
    stop: Callable[[], bool] = lambda: False


class OuterLoop:
    """One run of a plan.

    checkpoint: where the state is saved, now and then, on interruption and at the end; warm_start: a model or
    checkpoint to begin from, of the same rows or of what the store had before it was changed, or a run in memory;
    executor: who makes the visits; began: when the run's seconds began to count.
    """

    def __init__(
        self,
        plan: Plan,
        watch: Watch = Watch(),
        *,
        checkpoint: Checkpoint | None = None,
        warm_start: Path | SavedRun | None = None,
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
        if plan.blocks.set_bytes is not None:
            self.progress.attempts.factor = FACTOR_WITH_A_SET
        plan.over_time = lambda: self.seconds() > plan.settings.max_seconds
        if plan.resume is not None:
            plan.check_resumed(checkpoint.path)

    # -- the state ---------------------------------------------------------------------------------------------

    def allocate(self) -> None:
        """The state's arrays, and the solver's start in them."""
        plan, solver = self.plan, self.plan.solver
        self.state = {array.name: on_lines(plan.shape(array), array.dtype) for array in solver.state_arrays}
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
        with Supply(plan, self.progress) as self.supply:
            self._open(broken_off)
            if self.warm_start is not None and plan.resume is None:
                start_warm(self.warm_start, plan, self.state, self.supply.every_row())
                self.progress.warm_started = True
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
            support = None if status == "interrupted" else solver.support(self.state, self.supply.every_row)
        progress = self.progress
        result = Result(
            status, self.weights(), solver.dual_variables(self.state), final, progress.outers_done(), self.seconds(),
            progress.passes, progress.set_passes, plan.memory(), solver.summary(self.state), support,
            *cause_of(plan, status, final),
        )  # fmt: skip
        self.watch.on_event(end_event(result, progress.certificate))
        return result

    def _open(self, broken_off: State | None) -> None:
        """What reads, visits and certifies: as a run begins, or as it was when it was broken off."""
        plan, supply, resumed = self.plan, self.supply, self.plan.resume is not None
        if resumed:
            plan.solver.resume(self.state, supply.every_row)
        saved = self.checkpoint.arrays(WORKING_SET) if resumed and supply.blocks.set_bytes is not None else None
        self.working_set = make_working_set(plan.source, supply.blocks, saved, supply.every_row)
        self.certifier = Certifier(plan, self.state, self.weights, supply, self.watch.stop, self.working_set)
        visitor = Visitor(plan, self.progress, supply, self.executor, self.watch.stop, self._report)
        visitor.unpack(broken_off, self.working_set)
        self.reading = Reading(self, visitor)

    def _iterate(self) -> str:
        position = self.progress.position
        while True:
            status = self._ended() if position.between_outers() else None
            if status is None:
                following = self.supply.blocks.partition.blocks(position.outer + 1)
                status = self.reading.visit_all(following) or self._close_outer(following)
            if status is not None:
                return status
            self.save_if_due()

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
        if at_rest(self.plan.solver, self.state, progress.estimates, settings.tol):
            return "converged"
        if done >= settings.outer_limit():
            return "max-outer"
        if settings.passes_left(progress.passes_made) < 1:
            return "max-passes"
        return "max-seconds" if self.seconds() > settings.max_seconds else None

    # -- the end of an outer iteration ---------------------------------------------------------------------------

    def _close_outer(self, following: list[np.ndarray]) -> str | None:
        """Estimates, certificate, held-out accuracy and the trace's line; 'interrupted' where that came first."""
        progress, solver, plan = self.progress, self.plan.solver, self.plan
        position = progress.position
        seen = None if self.working_set is None else self.working_set.seen
        certificate, share = solver.certificate(self.state), None
        if certificate is not None:
            primal, dual, gap = certificate.primal, certificate.dual, certificate.rel_gap
        else:
            primal, dual, gap = solver.estimates(self.state, progress.tally.loss_sum, seen)
        prospect = solver.prospect(gap)
        promising = self.working_set is None and progress.promises(prospect, plan.settings.tol)
        if certificate is None and (position.check or promising):
            self.emit("certifying")
            if position.check:
                progress.cycle_gain, progress.cycle_work = 0.0, self.supply.blocks.work_of_reading
                progress.worth = 1.0
            # of a check no block has been visited: those that it reads are the outer iteration's own
            read = self.supply.blocks.partition.blocks(position.outer) if position.check else following
            found = self.certifier.certify(read, dual, gather=position.check, then=following)
            if found is None:
                return "interrupted"
            if isinstance(found, Missed):
                share, whole = found.share, found.gap / found.share
                reached = whole / (dual + whole)
            else:
                certificate, share = found, 1.0
                reached = solver.certified(self.state, found)
            progress.learn(progress.gap_estimate if position.check else prospect, reached)
        solver.end_outer(self.state, position.outer)
        progress.estimates = [*progress.estimates[-STILL:], primal]
        if certificate is not None:
            progress.certificate = asdict(certificate)
            progress.certified_outer = position.outer
        progress.count_work(looked=share is not None)
        valid = held_out_figures(plan.held_out, self.weights, solver.bias, lambda: solver.completion(self.state))
        estimates = {"primal_estimate": primal, "dual_estimate": dual, "gap_estimate": gap,
                     "certificate_share": share, "rows_read": self.supply.blocks.source.n_samples,
                     **figures_of(self.working_set),
                     **solver.progress(self.state)}  # fmt: skip
        self.watch.on_event(outer_event(progress, self.seconds(), estimates, certificate, valid))
        position.outer += 1
        position.visit = 0
        progress.passes_made += max(progress.tally.passes, default=0)
        if self.working_set is not None:
            tally = progress.tally
            self.working_set.end_reading(tally.gain, tally.nnz_visited, tally.set_gain, tally.set_work)
            progress.gap_estimate = None if position.check else prospect
            position.renewed = position.check
            work = self.supply.blocks.work_of_reading
            position.check = next_is_a_check(progress, self.working_set, prospect, plan.settings.tol, work)
        progress.tally = Tally()
        return None

    def _last_certificate(self) -> Certificate | None:
        """The certificate of the result, taken now unless the last outer iteration has one; None where stopped."""
        progress = self.progress
        current = progress.certified_outer == progress.position.outer - 1 and progress.position.between_outers()
        if current and progress.certificate is not None:
            return Certificate(**progress.certificate)
        self.emit("certifying")
        solver, supply = self.plan.solver, self.supply
        solver.settle(self.state, supply.every_row)
        certificate = solver.certificate(self.state)
        if certificate is None:
            certificate = self.certifier.certify(supply.blocks.partition.blocks(progress.position.outer))
        if certificate is not None:
            progress.certificate = asdict(certificate)
        return certificate

    # -- checkpoints -------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write the checkpoint: the state, the visit under way, and where the run stands."""
        progress = asdict(self.progress) | {"seconds_before": self.seconds()}
        visit = self.reading.visitor.packed(self.working_set)
        of_set = None if self.working_set is None else self.working_set.saved()
        self.checkpoint.save(self.plan, self.state, progress, visit, of_set)

    def save_if_due(self) -> None:
        if self.checkpoint is not None and self.checkpoint.is_due():
            self.save()
