"""The outer loop (Yu, Hsieh, Chang, Lin, KDD 2010): one block in memory at a time, minimised over, until the
certificate says that the optimum is reached.

    for each outer iteration:
        for each block (the next one is read meanwhile):
            visit it, take in what changed, offer its rows to the working set
            pass over the working set, where the schedule wants it
        pass over the working set, until the schedule's rule
        while a certificate is due: take it, which chooses the working set anew, and pass over that
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from blocksvm.model.earlier_run import earlier_run
from blocksvm.model.held_out import held_out_figures
from blocksvm.problems.problem import Certificate
from blocksvm.solvers.protocol import (
    CertifiesItself,
    HoldsRows,
    OwnDecisions,
    SavedRun,
    SeveralProblemsSolver,
)
from blocksvm.sources.block import Block
from blocksvm.sources.reading import BlockReader
from blocksvm.training.certificate import Missed, certified, enough_gap
from blocksvm.training.plan import Plan
from blocksvm.training.record import (
    Progress,
    Result,
    Tally,
    cause_of,
    certificate_event,
    end_event,
    outer_event,
    start_event,
)
from blocksvm.training.saving import WORKING_SET, Checkpoint
from blocksvm.training.schedule import PassStats, Replay
from blocksvm.training.visit import Executor, ThisProcess, VisitTask
from blocksvm.training.working_set import WorkingSet, figures_of
from blocksvm.vectors import on_lines

STILL = 3  # outer iterations without progress after which a primal method has come to rest


@dataclass(frozen=True)
class Watch:
    """Who watches a run: on_event is called with a dict for each event; stop() is asked after each visit, and ends the
    run as interrupted where it says True."""

    on_event: Callable[[dict], None] = lambda event: None
    stop: Callable[[], bool] = lambda: False


class OuterLoop:
    """One run of a plan.

    checkpoint: where the state is saved, now and then, on interruption and at the end; warm_start: a model or
    checkpoint to begin from, of the same rows or of what the store had before it was changed, or a run in memory;
    executor(loop): who makes the visits; began: when the run's seconds began to count.
    """

    def __init__(
        self,
        plan: Plan,
        watch: Watch = Watch(),
        *,
        checkpoint: Checkpoint | None = None,
        warm_start: Path | SavedRun | None = None,
        executor: Callable[[OuterLoop], Executor] | None = None,
        began: float | None = None,
    ):
        self.plan = plan
        self.watch = watch
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.make_executor = executor
        self.began = time.perf_counter() if began is None else began
        self.progress, self.tally = Progress(), Tally()
        if plan.resume is not None and checkpoint is not None:
            plan.check_resumed(plan.resume, checkpoint.path)

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
            self.progress.outer = plan.earlier.outers + 1

    # -- the run -----------------------------------------------------------------------------------------------

    def run(self) -> Result:
        if not hasattr(self, "state"):
            self.allocate()
        blocks = self.plan.blocks
        with BlockReader(blocks.source, blocks.arena_bytes, blocks.partition.resident) as self.reader:
            self._begin()
            # from here on nothing of the user's is found wrong
            self.watch.on_event(start_event(self.plan, self.progress))
            return self._end(self._iterate())

    def _begin(self) -> None:
        """The state, the working set and who makes the visits: as a run begins, or as it was when it was broken off."""
        plan, solver = self.plan, self.plan.solver
        set_bytes = plan.blocks.set_bytes
        self.working_set = None if set_bytes is None else WorkingSet(plan.source, set_bytes)
        if plan.resume is not None and self.checkpoint is not None:
            self.progress, self.tally = self.checkpoint.restore(plan, self.state)
            if isinstance(solver, HoldsRows):
                solver.resume(self.state, self._every_row)
            if self.working_set is not None:
                self.working_set.restore(self.checkpoint.arrays(WORKING_SET), self._every_row())
        elif self.warm_start is not None:
            earlier = self.warm_start
            if not isinstance(earlier, SavedRun):
                axes = {array.name: array.axis for array in solver.state_arrays}
                earlier = earlier_run(earlier, plan.source, axes, plan.label_list())
            solver.warm_start(self.state, earlier, self._every_row())
            self.progress.warm_started = True
        here = ThisProcess(solver, plan.blocks.partition, self.state, self._ready)
        self.executor: Executor = here if self.make_executor is None else self.make_executor(self)

    def _iterate(self) -> str:
        """Outer iterations until the run ends; why it does."""
        progress, partition = self.progress, self.plan.blocks.partition
        while True:
            if progress.told:
                if status := self._ended():
                    return status
                progress.outer, progress.visit, progress.closed, progress.told = progress.outer + 1, 0, False, False
                self.tally = Tally()
                self.save_if_due()
            if not progress.closed:
                blocks = partition.blocks(progress.outer)
                if progress.visit == 0:
                    self._begin_reading()
                for block in self._read(blocks[progress.visit :], then=self._following()[0]):
                    self._visit(block, blocks[progress.visit])
                    progress.visit += 1
                    self.emit("visit", visit=progress.visit, blocks=len(blocks))
                    self._visit_set(between=progress.visit < len(blocks))
                    if status := self._stopped(whole=progress.visit == len(blocks)):
                        return status
                    self.save_if_due()
                self._close()
            if status := self._certify_while_due():
                return status

    def _begin_reading(self) -> None:
        self.plan.solver.begin_outer(self.state)
        self.progress.begin_cycle(0.0)
        if self.working_set is not None:
            self.working_set.begin_reading(anew=False)

    def _close(self) -> None:
        """Every row has been visited: what the visits suggest of primal, dual and gap."""
        progress, tally, solver = self.progress, self.tally, self.plan.solver
        seen = None
        if self.working_set is not None:
            seen = self.working_set.seen
        primal, progress.dual, progress.gap = solver.estimates(self.state, progress.loss_sum, seen)
        progress.gap_of = "rows"
        tally.primal_estimate, tally.dual_estimate, tally.gap_estimate = primal, progress.dual, progress.gap
        solver.end_outer(self.state, progress.outer)
        progress.estimates = [*progress.estimates[-STILL:], primal]
        progress.passes_made += progress.most_passes
        progress.most_passes, progress.loss_sum = 0, 0.0
        progress.closed = True

    # -- visits ------------------------------------------------------------------------------------------------

    def _visit(self, block: Block, chunks: np.ndarray) -> None:
        """A visit to a block, whose rows are offered to the working set."""
        plan, progress = self.plan, self.progress
        self._turn(progress.passes, of_the_set=False)
        read = 0.0 if plan.blocks.partition.resident else float(block.n_nonzeros)
        progress.cycle_work += read
        stats = PassStats(
            visit_work=read, cycle_gain=progress.cycle_gain, cycle_work=progress.cycle_work,
            with_set=self.working_set is not None,
            first_of_warm_start=progress.warm_started and progress.outer == 1 + progress.outers_before,
        )  # fmt: skip
        task = VisitTask(
            chunks, (progress.outer, progress.visit), plan.schedule, stats,
            most=plan.settings.passes_left(progress.passes_made),
        )  # fmt: skip
        result = self.executor.visit(task, block)
        self.tally.count(result)
        progress.current = False
        for done in result.passes:
            stats = stats.after(done)
            progress.loss_sum += done.loss_sum
            for figures in done.reports:
                self.emit("progress", **figures)
        progress.cycle_gain, progress.cycle_work = stats.cycle_gain, stats.cycle_work
        # further passes over a block fill the time that a disk takes: the first alone counts towards a certificate
        progress.policy.work += result.passes[0].nnz_visited
        progress.most_passes = max(progress.most_passes, len(result.passes))
        progress.passes.append(len(result.passes))
        progress.since_set += block.n_nonzeros
        if self.working_set is not None and result.share is not None:
            self.working_set.offer(block, result.share)

    def _visit_set(self, between: bool) -> None:
        """Passes over the working set, as far as the schedule wants them; between: two blocks of a reading."""
        working_set, progress = self.working_set, self.progress
        if working_set is None:
            return
        self._turn(progress.set_passes, of_the_set=True)
        members = working_set.members
        primal = abs(progress.estimates[-1] or 0.0) if progress.estimates else 0.0
        stats = PassStats(
            cycle_gain=progress.cycle_gain, cycle_work=progress.cycle_work,
            read=progress.since_set / max(1, working_set.n_nonzeros), with_set=True,
        )  # fmt: skip
        task = VisitTask(
            np.empty(0, np.int64), (len(progress.set_passes), 0), self.plan.schedule, stats, members, between,
            progress.last_worth,
        )  # fmt: skip
        if not len(members) or not task.go_on(stats, self._ready()):
            progress.set_passes.append(0)
            self.tally.set_passes.append(0)
            return
        result = self.executor.visit(task, working_set.block)
        if result.share is not None:
            working_set.share[members] = result.share[members]
        self.tally.count_set(result)
        self.tally.set_passes.append(len(result.passes))
        progress.current = False
        for done in result.passes:
            stats = stats.after(done)
            progress.policy.work += done.nnz_visited
        progress.cycle_gain, progress.cycle_work = stats.cycle_gain, stats.cycle_work
        progress.last_worth, progress.since_set = stats.worth, 0
        progress.set_passes.append(len(result.passes))
        if not between and progress.closed:
            # what its rows had left in the last pass, and what the others had at the certificate that chose it
            progress.gap, progress.gap_of = (stats.seen + working_set.left_out) / max(primal, 1e-300), "set"

    def _turn(self, visits: list[int], of_the_set: bool) -> None:
        if isinstance(self.plan.schedule, Replay):
            self.plan.schedule.turn(len(visits), of_the_set)

    # -- certificates --------------------------------------------------------------------------------------------

    def _certify_while_due(self) -> str | None:
        """Certificates at the end of an outer iteration, each of which chooses the working set anew, whose passes may
        make another one due; then the iteration's line in the trace.  A status where the run was stopped meanwhile."""
        progress, plan, working_set = self.progress, self.plan, self.working_set
        solver, policy, tol = plan.solver, progress.policy, plan.settings.tol
        enough = enough_gap(progress.dual, tol) if working_set is None else math.inf
        if isinstance(solver, CertifiesItself):
            self._keep(solver.certificate(self.state))
        while policy.due(progress.gap_of, progress.gap, tol, plan.blocks.work_of_reading):
            found = self._certify(enough, working_set)
            if found is None:
                return "interrupted"
            if isinstance(found, Missed):
                whole = found.gap / found.share
                policy.learn(progress.gap_of, progress.gap, whole / ((progress.dual or 0.0) + whole))
                break
            reached = found.rel_gap
            if isinstance(solver, SeveralProblemsSolver):
                reached = solver.certified(self.state, found)
            policy.learn(progress.gap_of, progress.gap, reached)
            if working_set is None or found.rel_gap is None or found.rel_gap <= tol:
                break
            self.reader.request(self._following()[0])
            progress.begin_cycle(plan.blocks.work_of_reading)
            progress.estimates[-1] = found.primal
            self._visit_set(between=False)
            if progress.current:  # no pass was made
                break
            if status := self._stopped():
                return status
        self._tell()
        return None

    def _certify(self, enough: float = math.inf, working_set: WorkingSet | None = None) -> Certificate | Missed | None:
        """A certificate of the state, kept and told; None where the run was stopped."""
        self.emit("certifying")
        found = certified(
            self.plan.solver, self.state, self.weights(), lambda: self._read(self._following()), self.watch.stop,
            enough, working_set,
        )  # fmt: skip
        if found is None:
            return None
        self.tally.attempted(found.share if isinstance(found, Missed) else 1.0)
        self.watch.on_event(certificate_event(self.progress.outer, self.seconds(), found))
        return found if isinstance(found, Missed) else self._keep(found)

    def _keep(self, certificate: Certificate) -> Certificate:
        progress = self.progress
        progress.certificate, progress.certified_outer, progress.current = asdict(certificate), progress.outer, True
        return certificate

    def _tell(self) -> None:
        """The outer iteration's line in the trace."""
        solver = self.plan.solver
        completion = solver.completion if isinstance(solver, OwnDecisions) else lambda state: None
        valid = held_out_figures(self.plan.held_out, self.weights, solver.bias, lambda: completion(self.state))
        figures = {"rows_read": self.plan.source.n_samples, **figures_of(self.working_set)}
        figures |= solver.progress(self.state)
        self.watch.on_event(outer_event(self.progress, self.tally, self.seconds(), figures, valid))
        self.progress.told = True

    # -- the end -------------------------------------------------------------------------------------------------

    def _stopped(self, whole: bool = False) -> str | None:
        """After a visit: why the run ends here, or None; whole: all blocks have been visited, so that the time is
        looked at when the iteration has been closed."""
        if self.watch.stop():
            return "interrupted"
        return "max-seconds" if not whole and self.seconds() > self.plan.settings.max_seconds else None

    def _ended(self) -> str | None:
        """At the end of an outer iteration: why another one is not begun, or None."""
        progress, settings = self.progress, self.plan.settings
        rel_gap = progress.certificate["rel_gap"] if progress.current and progress.certificate else None
        if (rel_gap is not None and rel_gap <= settings.tol) or self._at_rest():
            return "converged"
        if progress.outers_done() >= settings.outer_limit():
            return "max-outer"
        if settings.passes_left(progress.passes_made) < 1:
            return "max-passes"
        return "max-seconds" if self.seconds() > settings.max_seconds else None

    def _at_rest(self) -> bool:
        """The solver has nothing more to do, or a primal estimate without a dual has stood still for some time."""
        solver, estimates = self.plan.solver, self.progress.estimates
        if solver.finished(self.state):
            return True
        if solver.capabilities.certifies or not solver.capabilities.minimises or len(estimates) <= STILL:
            return False
        known = [one for one in estimates if one is not None]
        return len(known) == len(estimates) and max(known) - min(known) <= self.plan.settings.tol * abs(known[-1])

    def _end(self, status: str) -> Result:
        plan, progress, solver = self.plan, self.progress, self.plan.solver
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
        support = None
        if isinstance(solver, HoldsRows) and status != "interrupted":
            support = solver.support(self.state, self._every_row)
        result = Result(
            status, self.weights(), solver.dual_variables(self.state), final, progress.outers_done(), self.seconds(),
            progress.passes, progress.set_passes, plan.memory(), solver.summary(self.state), support,
            *cause_of(plan, status, final),
        )  # fmt: skip
        self.watch.on_event(end_event(result, progress.certificate))
        return result

    def _last_certificate(self) -> Certificate | None:
        """The certificate of the result, taken now unless nothing has moved since the last one; None where stopped."""
        progress, solver = self.progress, self.plan.solver
        if progress.current and progress.certificate:
            return Certificate(**progress.certificate)
        if isinstance(solver, CertifiesItself):
            solver.settle(self.state, self._every_row)
            return self._keep(solver.certificate(self.state))
        found = self._certify()
        assert not isinstance(found, Missed)  # any gap is enough
        return found

    # -- small things --------------------------------------------------------------------------------------------

    def weights(self) -> np.ndarray:
        """The w that certificates, held-out accuracy and the model are about."""
        return self.plan.solver.weights(self.state, self.output)

    def seconds(self) -> float:
        return self.progress.seconds_before + time.perf_counter() - self.began

    def emit(self, event: str, **more) -> None:
        self.watch.on_event({"event": event, "outer": self.progress.outer, "seconds": self.seconds(), **more})

    def _ready(self) -> bool:
        """The next block has been read; asked by a schedule that goes by the clock."""
        return self.plan.schedule.by_clock and self.reader.ready()

    def _following(self) -> list[np.ndarray]:
        """The blocks of the next outer iteration, which a certificate reads, too."""
        return self.plan.blocks.partition.blocks(self.progress.outer + 1)

    def _read(self, blocks: list[np.ndarray], then: np.ndarray | None = None) -> Iterator[Block]:
        """Blocks one after the other, each read while the one before it is worked on; then: the one that follows."""
        for block in self.reader.blocks(blocks, then):
            self.tally.count_reading(self.reader.cost)
            yield block

    def _every_row(self) -> Iterator[Block]:
        """All rows, in the order of the source."""
        return self._read(self.plan.blocks.partition.stored)

    def save(self) -> None:
        """Write the checkpoint: the state, where the run stands, and which rows the working set has."""
        assert self.checkpoint is not None
        progress = asdict(self.progress) | {"seconds_before": self.seconds()}
        of_set = None if self.working_set is None else self.working_set.saved()
        self.checkpoint.save(self.plan, self.state, progress, asdict(self.tally), of_set)

    def save_if_due(self) -> None:
        if self.checkpoint is not None and self.checkpoint.is_due():
            self.save()
