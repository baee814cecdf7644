"""The outer loop (Yu, Hsieh, Chang, Lin, KDD 2010): one block in memory at a time, minimised over, until a certificate
says that the optimum is reached: ``OuterLoop._iterate``."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from typing import cast

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import SETS
from blocksvm.base.log import LOG
from blocksvm.base.vectors import as_columns, on_lines
from blocksvm.files.paths import Location
from blocksvm.model.decision_values import count_right, decision_pieces, sum_squared_errors
from blocksvm.model.events import RunEvent
from blocksvm.model.solver_state import doubt_of_prior, load_saved_run
from blocksvm.problems.certificate import Certificate
from blocksvm.solvers.dual_cd import REST_VISITS
from blocksvm.solvers.solver import BEST, SavedRun
from blocksvm.sources.block import Block
from blocksvm.sources.source import BlockReader
from blocksvm.training import record
from blocksvm.training.checkpoint import WORKING_SET, Checkpoint
from blocksvm.training.plan import Plan
from blocksvm.training.schedule import PassStats
from blocksvm.training.visit import VisitResult, VisitTask, offer_shares, part_of, put_back, run_visit
from blocksvm.training.working_set import WorkingSet, figures_of

NO_MEMBERS = np.empty(0, np.int32)
FIGURES = ("primal", "dual", "rel_gap")  # by which two certificates are the same


class Stopped(Exception):
    """The run was stopped where it is to be interrupted at once."""


def beyond_bounds(saved: Location) -> InputError:
    return InputError(f"{saved}: holds dual variables beyond their bounds; it is damaged, start afresh")


class OuterLoop:
    """One run of a plan.  on_event: called with a dict for each event, and ends the run as stopped, with its
    certificate, where it returns True for "outer"; stop(): asked after each visit, ends it as interrupted; checkpoint:
    where the state is saved, now and then and at the end; warm_start: a model or checkpoint to begin from, of the same
    rows or those that the store had before, or a run in memory; began: when the run's seconds began to count."""

    reader: BlockReader

    def __init__(self, plan: Plan, on_event: Callable[[RunEvent], object] = lambda event: None,
                 stop: Callable[[], bool] = lambda: False, *, checkpoint: Checkpoint | None = None,
                 warm_start: Location | SavedRun | None = None, began: float | None = None):  # fmt: skip
        self.plan, self.on_event, self.stop = plan, on_event, stop
        self.checkpoint, self.warm_start = checkpoint, warm_start
        self.began = time.perf_counter() if began is None else began
        self.progress, self.tally = record.Progress(), record.Tally()
        self.doubt: str | None = None  # of the prior model, once a block has been read
        self.earlier = ""  # weights with a smaller primal, which were not kept
        self.enough = False  # says who watches
        self.unchecked: Location | None = None  # the checkpoint whose dual variables no certificate has seen yet
        if plan.resume is not None and checkpoint is not None:
            plan.check_resumed(plan.resume, checkpoint.path)

    def allocate(self) -> None:
        """The state's arrays, and the solver's start in them."""
        plan, solver = self.plan, self.plan.solver
        n = plan.n_features, plan.source.n_samples
        self.state = {array.name: on_lines(array.shape(*n), array.dtype) for array in solver.state_arrays}
        self.output = np.zeros(solver.n_vectors * (plan.n_features + 1)) if solver.needs_output else None
        self.rebuilt = np.zeros((plan.n_features + 1, 1)) if solver.clips_alpha else None  # of one problem
        if plan.initial_models.prior is not None:
            solver.prior = plan.initial_models.prior_weights(plan.n_features, solver.bias)
        solver.start(self.state)
        if plan.initial_models.continue_from is not None and plan.resume is None:
            plan.initial_models.fill_state(self.state, solver)
            self.progress.outer = plan.initial_models.outers + 1

    def _begin(self) -> None:
        """The state and the working set: as a run begins, or as it was when it was broken off."""
        plan, solver = self.plan, self.plan.solver
        set_bytes = plan.blocks.set_bytes
        self.working_set = None if set_bytes is None else WorkingSet(plan.source, set_bytes)
        if plan.resume is not None and self.checkpoint is not None:
            self.progress, self.tally, seconds = self.checkpoint.restore(plan, self.state)
            self.began -= seconds
            self.unchecked = self.checkpoint.path
            solver.resume(self.state, self.every_row)
            if self.working_set is not None:
                self.working_set.restore(self.checkpoint.arrays(WORKING_SET), self.every_row())
        elif self.warm_start is not None:
            saved = self.warm_start
            if not isinstance(saved, SavedRun):
                axes = {array.name: array.axis for array in solver.state_arrays}
                saved = load_saved_run(saved, plan.source, axes, plan.label_list())
            solver.warm_start(self.state, saved, self.every_row())
            self.progress.warm_started = True

    def _end(self, status: str, final: Certificate | None) -> record.Result:
        """The result of a run, also emitted as an event; final: its certificate, None of an interrupted one."""
        last = final
        if final is not None and status not in ("converged", "interrupted"):
            final = self.take_best(final)
            if final.rel_gap is not None and final.rel_gap <= self.plan.settings.tol:
                status = "converged"
        plan, progress, solver = self.plan, self.progress, self.plan.solver
        support = None if status == "interrupted" else solver.support(self.state, self.every_row)
        result = record.Result(
            status, self.weights(), solver.dual_variables(self.state), final,
            # by this run: what a run that it continues has done does not count
            progress.outer - (progress.phase == record.READING) - plan.initial_models.outers, self.seconds(),
            progress.passes, progress.set_passes, plan.memory(),
            "\n".join(filter(None, (solver.summary(self.state), self.doubt, self.earlier))), support,
            *record.cause_of(plan, status, final), progress.best.outer if progress.best and final is not last else None,
        )  # fmt: skip
        self.on_event(record.end_event(result, progress.certified))
        return result

    def weights(self) -> np.ndarray:
        return self.plan.solver.weights(self.state, self.output)

    def seconds(self) -> float:
        """Since the run began, those before an interruption included."""
        return time.perf_counter() - self.began

    def emit(self, event: str, **more) -> object:
        common = {"event": event, "outer": self.progress.outer, "seconds": self.seconds()}
        return self.on_event(cast(RunEvent, common | more))

    def ready(self) -> bool:
        """The next block has been read; asked by a schedule that goes by the clock."""
        return self.plan.schedule.by_clock and self.reader.ready()

    def following(self) -> list[np.ndarray]:
        """The blocks of the next outer iteration, which a certificate reads, too."""
        return self.plan.blocks.partition.blocks(self.progress.outer + 1)

    def _read_ahead(self) -> None:
        """Have the first block of the next outer iteration read meanwhile."""
        first, *others = self.following()
        self.reader.request(first, others)

    def read(self, blocks: list[np.ndarray], then: Sequence[np.ndarray] = ()) -> Iterator[Block]:
        """Blocks one after the other, each read while the one before it is worked on; then: those that follow."""
        for block in self.reader.blocks(blocks, then):
            self.tally.reading += self.reader.cost
            if self.doubt is None:
                self._judge_prior(block)
            yield block

    def _judge_prior(self, block: Block) -> None:
        """By the first block that is read."""
        path, solver, self.doubt = self.plan.initial_models.prior, self.plan.solver, ""
        if path is None or self.plan.source.label_kind == SETS:
            return
        prior = solver.prior.reshape(solver.n_vectors, -1) if solver.prior.ndim == 1 else solver.prior.T
        pieces = decision_pieces(block.entries, prior[: solver.n_vectors], solver.bias)
        self.doubt = doubt_of_prior(path, pieces, block.y)
        if self.doubt:
            LOG.warning("%s", self.doubt)

    def every_row(self) -> Iterator[Block]:
        """All rows, in the order of the source."""
        return self.read(self.plan.blocks.partition.stored)

    def keep(self, certificate: Certificate) -> Certificate:
        """Record it as the certificate of the present state; returns it."""
        self.progress.certified = self.progress.as_certified(certificate)
        return certificate

    def offer_best(self, certificate: Certificate) -> None:
        """Keep the certificate of the smallest primal and, where there is memory, its w, for a run cut short."""
        progress, primal = self.progress, certificate.primal
        if primal is not None and (progress.best is None or primal < progress.best.figures["primal"]):
            progress.best = progress.as_certified(certificate)
            if BEST in self.state:
                self.state[BEST][:] = self.weights()

    def take_best(self, last: Certificate) -> Certificate:
        """The certificate of the result of a run that has not converged: w is that of the smallest certified primal,
        alpha the last one, whose dual is the largest."""
        kept = self.progress.best
        if kept is None or last.primal is None or last.dual is None or not kept.figures["primal"] < last.primal:
            return last
        best, outer = kept.figures, kept.outer
        if BEST not in self.state:
            self.earlier = (
                f"the weights after outer iteration {outer} had a smaller primal, "
                f"{best['primal']:.6g}; they were not kept: {option('max_outer', outer)} ends there"
            )
            return last
        if last.dual < 0.0:  # (P - D) / P falls with P, of which the certificate has an upper bound
            return last
        self.weights()[:] = self.state[BEST]
        gap, primal = best["primal"] - last.dual, best["primal"]
        figures = {name: best[name] for name in ("primal", "accuracy", "rmse")}
        rel_gap = gap / primal if primal else gap
        return replace(last, **figures, rel_gap=rel_gap, rounding=min(last.rounding or 0.0, rel_gap))

    def save(self) -> None:
        assert self.checkpoint is not None
        spaces = {self.plan.namespace: self.state}
        if self.working_set is not None:
            spaces[WORKING_SET] = self.working_set.saved()
        self.checkpoint.save(self.plan, spaces, self.progress, self.tally, self.seconds())

    def save_if_due(self) -> None:
        kept = self.checkpoint
        if kept is not None and time.perf_counter() - kept.last_saved > kept.seconds:
            self.save()

    def run(self) -> record.Result:
        if not hasattr(self, "state"):
            self.allocate()
        blocks = self.plan.blocks
        self.reader = BlockReader(blocks.source, blocks.arena_bytes, blocks.partition.resident)
        with self.reader, self.plan.solver.threads:
            self._begin()
            # from here on no input of the user is refused
            self.on_event(record.start_event(self.plan, self.progress))
            status, final = "interrupted", None
            with suppress(Stopped):
                status = self._iterate()
            if self.checkpoint is not None:
                self.save()
            if status != "interrupted":
                with suppress(Stopped):
                    final = self._last_certificate()
            return self._end("interrupted" if final is None else final.ends(self.plan.settings.tol) or status, final)

    def _iterate(self) -> str:
        """Outer iterations until the run ends; why it does."""
        progress, partition = self.progress, self.plan.blocks.partition
        while True:
            if progress.phase in (record.TOLD, record.AT_REST):
                if status := record.ended(progress, self.plan, self.state, self.seconds()):
                    return status
                if self.enough:
                    return "stopped"
                progress.outer, progress.visit, progress.phase = progress.outer + 1, 0, record.READING
                self.tally = record.Tally()
                self.save_if_due()
            if progress.phase == record.READING:
                blocks, most = partition.blocks(progress.outer), self.plan.settings.passes_left(progress.passes_made)
                if progress.visit == 0:
                    self._begin_reading()
                for may_pass in self._visits(blocks, most):
                    progress.visit += 1
                    self.emit("visit", visit=progress.visit, blocks=len(blocks))
                    if may_pass:
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
            self.working_set.begin_reading(reset=False)

    def _close(self) -> None:
        """Every row has been visited: what the visits suggest of primal, dual and gap."""
        progress, solver = self.progress, self.plan.solver
        seen = None
        if self.working_set is not None:
            self.working_set.end_reading()
            seen = self.working_set.seen
        suggested = solver.estimates(self.state, self.tally.blocks.loss_sum, seen)
        solver.end_outer(self.state, progress.outer)
        progress.close(suggested)

    def _visits(self, blocks: list[np.ndarray], most: float) -> Iterator[bool]:
        """Visit the blocks that are left of an outer iteration; after each, whether the set may be passed over."""
        visit = self.progress.visit
        for block in self.read(blocks[visit:], then=self.following()):
            self._visit(block, most)
            yield True

    def visit(self, task: VisitTask, block: Block) -> VisitResult:
        solver = self.plan.solver
        part = part_of(solver, block, self.state)
        result = run_visit(solver, self.plan.blocks.partition, task, block, part, self.ready)
        put_back(solver, self.state, block, part)
        return result

    def _visit(self, block: Block, most: float) -> None:
        """A visit to a block, of so many passes at most, whose rows are offered to the working set."""
        plan, progress = self.plan, self.progress
        stats = self.block_stats(0 if plan.blocks.partition.resident else block.n_nonzeros)
        result = self.visit(VisitTask((progress.outer, progress.visit), plan.schedule, stats, most=most), block)
        self.count(result, block.n_nonzeros)
        for done in result.passes:
            for figures in done.reports:
                self.emit("progress", **figures)
        if self.working_set is not None and result.share is not None:
            self.working_set.offer(block, result.share)

    def block_stats(self, read: int) -> PassStats:
        """The figures for a schedule before a visit to a block, of which ``read`` nonzeros had to be read."""
        progress, cycle = self.progress, self.progress.cycle
        cycle.work += read
        return PassStats(
            visit_work=read, cycle_gain=cycle.gain, cycle_work=cycle.work, with_set=self.working_set is not None,
            first_of_warm_start=progress.warm_started and progress.outer == 1 + self.plan.initial_models.outers,
        )  # fmt: skip

    def count(self, result: VisitResult, nnz: int) -> None:
        self.progress.count(result, nnz)
        self.tally.blocks.count(result)

    def _visit_set(self, between: bool) -> None:
        """Passes over the working set, as far as the schedule wants them; between: two blocks of a reading."""
        working_set, progress, cycle = self.working_set, self.progress, self.progress.cycle
        if working_set is None:
            return
        read = cycle.read / max(1, working_set.n_nonzeros)
        stats = PassStats(cycle_gain=cycle.gain, cycle_work=cycle.work, with_set=True, read=read)
        self.tally.set_visits += 1
        task = VisitTask((len(progress.set_passes), 0), self.plan.schedule, stats, NO_MEMBERS, between, cycle.worth)
        if not working_set.n_members or not task.go_on(stats, self.ready()):
            progress.set_passes.append(0)
            return
        members = working_set.members  # listed only where they are passed over
        result = self.visit(replace(task, members=members), working_set.block)
        if result.share is not None:
            working_set.share[members] = result.share[members]
        chosen = progress.phase == record.CLOSED and not between
        progress.count_set(result, working_set.left_out if chosen else None)
        self.tally.working_set.count(result)

    def _certify_while_due(self) -> str | None:
        """Certificates at the end of an outer iteration, each of which chooses the working set again, whose passes may
        make another one due; then the iteration's event.  A status where the run was stopped meanwhile."""
        progress, plan, working_set = self.progress, self.plan, self.working_set
        solver, policy, tol = plan.solver, progress.policy, plan.settings.tol
        if own := solver.certificate(self.state):
            self.tell(own)
        # without a working set no certificate brings back a row that rests, and it may for some outer iterations
        last = progress.certified.outer if progress.certified else 0
        waited = tol > 0.0 and (working_set is not None or progress.outer - last > REST_VISITS)
        moved = self.tally.blocks.gain != 0.0 or self.tally.working_set.gain != 0.0
        rested = waited and solver.capabilities.working_set and not moved
        while rested or policy.due(*progress.gap, tol, plan.blocks.work_of_reading):
            before = progress.certified
            certificate = self._certify(working_set)
            policy.learn(*progress.gap, solver.certified(self.state, certificate))
            self.offer_best(certificate)
            if rested and before is not None and all(asdict(certificate)[n] == before.figures[n] for n in FIGURES):
                progress.phase = record.AT_REST
                break
            rested = False
            if working_set is None or certificate.rel_gap is None or certificate.ends(tol):
                break
            self._read_ahead()
            progress.begin_cycle(plan.blocks.work_of_reading, certificate.primal)
            self._visit_set(between=False)
            if progress.current:  # no pass was made
                break
            if status := self._stopped():
                return status
        self._emit_outer()
        return None

    def _certify(self, working_set: WorkingSet | None = None) -> Certificate:
        """A certificate of the w and alpha that the state has when it returns; Stopped where the run was stopped."""
        self.emit("certifying")
        minimises = self.plan.solver.capabilities.minimises
        certificate = self._reading(working_set) if minimises else self._measured()
        self.unchecked = None
        self.tally.certificates += 1
        return self.tell(certificate)

    def tell(self, certificate: Certificate) -> Certificate:
        self.emit("certificate", **asdict(certificate))
        return self.keep(certificate)

    def _measured(self) -> Certificate:
        """Of a solver that minimises nothing: the accuracy of w over all rows or, of real targets, the root of its mean
        squared error; Stopped where the run was stopped.  Of rows without labels nothing is measured."""
        solver, total, rows = self.plan.solver, 0.0, 0
        if solver.predicts_rows:
            return Certificate(None, None, None, None)
        w, completion = self.weights().reshape(solver.n_vectors, -1), solver.completion(self.state)
        for block in self.read(self.following()):
            pieces = decision_pieces(block.entries, w, solver.bias, completion)
            if solver.real_targets:
                total += sum_squared_errors(pieces, block.y)
            else:
                total += count_right(pieces, block.y, solver.member, solver.ranks)
            rows += block.n_samples
            if self.stop():
                raise Stopped
        mean = total / max(1, rows)
        real = solver.real_targets
        return Certificate(None, None, None, None if real else mean, math.sqrt(mean) if real else None)

    def _reading(self, working_set: WorkingSet | None) -> Certificate:
        """Of all rows, which are offered to the working set, so that it is chosen once more, at the certificate's w;
        Stopped where the run was stopped.  InputError where a checkpoint's dual variables are not allowed."""
        solver, state, saved = self.plan.solver, self.state, self.unchecked
        problem, alpha = solver.problem_at(state), solver.dual_variables(state)
        sums = problem.sums(self.weights(), solver.prior, self.rebuilt)
        sums.threads = solver.threads
        if working_set is not None:
            working_set.begin_reading(reset=True)
        for block in self.read(self.following()):
            scores, of_rows = sums.scores(block), None
            if alpha is not None:
                of_rows = as_columns(alpha[block.rows])
                if solver.clips_alpha:
                    problem.make_feasible(of_rows, block, np.ones_like(problem.cost))
                    alpha[block.rows] = of_rows.reshape(-1)
                elif saved is not None and not problem.allows(of_rows, block):
                    raise beyond_bounds(saved)
            sums.add(scores, block, of_rows)
            if working_set is not None:
                offer_shares(solver, state, block, scores, working_set.offer)
            if self.stop():
                raise Stopped
        if working_set is not None:
            working_set.end_reading()
        return sums.certificate()

    def _emit_outer(self) -> None:
        """The last certificate where it was taken now, estimates, what was done."""
        plan, progress, last = self.plan, self.progress, self.progress.certified
        valid: dict[str, float | None] = {"valid_accuracy": None, "valid_rmse": None}
        if (held_out := plan.held_out) is not None:
            name = "valid_rmse" if held_out.real else "valid_accuracy"
            valid[name] = held_out.score(self.weights(), plan.solver.bias)
        figures = last.figures if last and last.outer == progress.outer else record.UNCERTIFIED
        figures = figures | {"rows_read": plan.source.n_samples} | figures_of(self.working_set)
        figures |= plan.solver.progress(self.state) | valid | self.tally.figures(progress)
        self.enough = self.emit("outer", **figures) is True
        if progress.phase == record.CLOSED:
            progress.phase = record.TOLD

    def _stopped(self, whole: bool = False) -> str | None:
        """After a visit: why the run ends here, or None; whole: all blocks have been visited, so that the time is
        looked at when the iteration has been closed."""
        if self.stop():
            return "interrupted"
        return "max-seconds" if not whole and self.seconds() > self.plan.settings.max_seconds else None

    def _last_certificate(self) -> Certificate:
        """That of the result: this run's last one, where nothing has moved since."""
        solver = self.plan.solver
        if self.progress.current is not None and self.unchecked is None:
            return Certificate(**self.progress.current)
        solver.settle(self.state, self.every_row)
        own = solver.certificate(self.state)
        return self._certify() if own is None else self.keep(own)
