"""The outer loop (Yu, Hsieh, Chang, Lin, KDD 2010): one block in memory at a time, minimised over, until the
certificate says that the optimum is reached.

    for each outer iteration: for each block: read it (while the last one trains), inner passes as scheduled;
    then, where the visits' estimates promise success, a certificate over all rows at one fixed w.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

from blocksvm.errors import InputError
from blocksvm.learners.solver import progress_of
from blocksvm.memory import Budget
from blocksvm.model.files import load_state, saved_state
from blocksvm.model.takeover import Earlier
from blocksvm.problems.problem import Certificate
from blocksvm.sources.block import Block
from blocksvm.sources.reading import BlockReader
from blocksvm.sources.source import Source
from blocksvm.training.certificate import Missed, certify, evaluate
from blocksvm.training.checkpoint import restore_run, save_run
from blocksvm.training.events import end_event, outer_event, start_event
from blocksvm.training.heldout import HeldOut
from blocksvm.training.memory_plan import plan_blocks, take_state
from blocksvm.training.methods import make_solver
from blocksvm.training.progress import Progress, Result, Tally
from blocksvm.training.schedule import Replay, Situation
from blocksvm.training.settings import TrainSettings

# w is recomputed from alpha where the two have drifted apart by more than this, relative to ||w||^2.
LARGEST_DRIFT = 1e-9

STILL = 3  # outer iterations without progress after which a primal method has come to rest


class Trainer:
    """One run on one source.

    on_event is called with a dict for each event ("start", "visit", "outer", "end"); stop() is polled after each
    inner pass and ends the run as interrupted; valid: a source to score after each outer iteration; checkpoint: file
    for the state, written every ``checkpoint_seconds``, on interruption and at the end; resume: the description of that
    file, to go on from it; replay: passes of each visit of an earlier run; warm_start: a model or checkpoint to begin
    from; continue_from: a model of the same online learner, which goes on exactly where it stopped; prior: a model that
    this one is regularised towards.  Raises InputError where the settings do not fit the source or the memory.
    """

    def __init__(
        self,
        source: Source,
        settings: TrainSettings,
        *,
        on_event: Callable[[dict], None] = lambda event: None,
        stop: Callable[[], bool] = lambda: False,
        valid: Source | None = None,
        checkpoint: Path | None = None,
        checkpoint_seconds: float = 600.0,
        resume: dict | None = None,
        replay: list[int] | None = None,
        warm_start: Path | None = None,
        continue_from: Path | None = None,
        prior: Path | None = None,
        began: float | None = None,
    ):
        self.source = source
        self.settings = settings
        self.on_event = on_event
        self.stop = stop
        self.checkpoint = checkpoint
        self.checkpoint_seconds = checkpoint_seconds
        self.resume = resume
        self.warm_start = warm_start
        self.began = time.perf_counter() if began is None else began
        self.problem = settings.problem(source)
        self.schedule = settings.make_schedule()
        if replay is not None:
            self.schedule = Replay(replay, self.schedule.tolerance)
        self.replay = replay
        self.solver = make_solver(
            settings.solver, self.problem, self.schedule.tolerance, settings.batch, settings.online, source
        )
        self.problem = self.solver.problem
        self.budget = Budget(settings.memory)
        self.earlier = Earlier(source, continue_from, prior)
        self.earlier.check(self.solver, settings.arithmetic())
        if resume is not None:
            self.earlier.check_resumed(resume["earlier"], checkpoint)
        self.earlier.meet(self.budget)
        self.n_features = source.n_features + len(self.earlier.extra_ids)
        if prior is not None:
            self.budget.take("prior", 8 * self.solver.copies * (self.n_features + 1))
        self.held_out = None if valid is None else HeldOut(valid, source.labels, self.solver.copies, self.budget)
        self.progress = Progress()
        self.visit_state: dict | None = None  # the arrays of the visit under way
        self.pass_seconds = 0.0  # running mean, for the schedules that go by time
        self.first_pass = True
        self.bytes_seen = 0  # of what the source has read, already in a tally
        self.last_saved = time.perf_counter()
        take_state(self.budget, source, self.solver, self.n_features)
        if self.held_out is not None:
            self.held_out.match(source, self.budget)
        saved = resume["partition"] if resume else None
        self.partition, self.arena_bytes = plan_blocks(self.budget, source, self.solver, settings, saved)

    def _start_warm(self) -> None:
        saved, lengths = saved_state(self.warm_start)
        if saved["fingerprint"] != self.source.fingerprint:
            raise InputError(f"{self.warm_start}: belongs to another store than {self.source.name}; name its own store")

        def load(name: str, out: np.ndarray) -> None:
            load_state(self.warm_start, name, out)

        blocks = self._all_blocks(self.partition.stored)
        self.solver.warm_start(self.state, saved, lengths, load, blocks, str(self.warm_start))

    # -- state and memory --------------------------------------------------------------------------------------

    def plan(self) -> dict[str, int]:
        """Bytes by name, as counted against the budget."""
        return dict(self.budget.taken)

    def allocate(self) -> None:
        """The state's arrays, and the solver's start in them."""
        solver = self.solver
        lengths = {"feature": self.n_features + 1, "row": self.source.n_samples}
        self.state = {a.name: np.zeros(lengths.get(a.axis, a.length) * a.columns, a.dtype) for a in solver.state_arrays}
        self.row_names = [a.name for a in solver.state_arrays if a.axis == "row"]
        self.buffer = np.zeros(solver.copies * (self.n_features + 1)) if solver.needs_weights_buffer else None
        if self.earlier.prior is not None:
            solver.prior = self.earlier.prior_weights(self.n_features, self.problem.bias)
        solver.start(self.state)
        if self.earlier.continue_from is not None and self.resume is None:
            self.earlier.fill(self.state, solver)
            self.progress.outers_before = self.earlier.outers
            self.progress.position.outer = self.earlier.outers + 1

    def _visit_arrays(self, n_rows: int) -> dict[str, np.ndarray]:
        return {a.name: np.zeros(a.length or n_rows, a.dtype) for a in self.solver.visit_arrays}

    def weights(self) -> np.ndarray:
        """The w that certificates, held-out accuracy and the model are about."""
        return self.solver.weights(self.state, self.buffer)

    def alpha(self) -> np.ndarray | None:
        return self.state["alpha"] if self.solver.has_dual else None

    def seconds(self) -> float:
        return self.progress.seconds_before + time.perf_counter() - self.began

    # -- the loop ----------------------------------------------------------------------------------------------

    def run(self) -> Result:
        if not hasattr(self, "state"):
            self.allocate()
        restored = None
        if self.resume is not None:
            self.progress, restored = restore_run(self.checkpoint, self.resume, self.state)
        resident = self.partition.resident
        with BlockReader(self.source, self.arena_bytes, resident) as self.reader:
            if self.warm_start is not None and self.resume is None:
                self._start_warm()
            self.on_event(start_event(self))  # from here on nothing of the user's is found wrong
            status = self._iterate(restored)
            if self.checkpoint is not None:
                # before the last certificate: it may rebuild w, which a run that goes on from here would not have done
                self.save()
            final = None
            if status != "interrupted":
                final = self._last_certificate()
                if final is None:
                    status = "interrupted"
                elif final.rel_gap is not None and final.rel_gap <= self.settings.tol:
                    status = "converged"
        result = Result(
            status,
            self.weights(),
            self.alpha(),
            final,
            self._outers_done(),
            self.seconds(),
            self.progress.passes,
            self.plan(),
            self.solver.verdict(self.state, self.source.max_norm) if self.solver.online else "",
        )
        self.on_event(end_event(result, self.progress.certificate))
        return result

    def _outers_done(self) -> int:
        """By this run: what a run that it continues has done does not count."""
        return self.progress.position.outer - 1 - self.progress.outers_before

    def _iterate(self, restored: dict | None) -> str:
        position = self.progress.position
        while True:
            status = self._ended() if position.visit == position.passes == 0 else None
            if status is None:
                status = self._outer_iteration(restored)
            restored = None
            if status is not None:
                return status
            if self.checkpoint is not None and time.perf_counter() - self.last_saved > self.checkpoint_seconds:
                self.save()

    def _ended(self) -> str | None:
        """Between two outer iterations: why another one is not begun, or None."""
        progress, settings = self.progress, self.settings
        done = self._outers_done()
        if done and progress.certified_outer == progress.position.outer - 1:
            rel_gap = progress.certificate["rel_gap"]
            if rel_gap is not None and rel_gap <= settings.tol:
                return "converged"
        if done and not self.solver.has_dual and self._at_rest():
            return "converged"
        if done >= settings.outer_limit():
            return "max-outer"
        if done and self.seconds() > settings.max_seconds:
            return "max-seconds"
        return None

    def _outer_iteration(self, restored: dict | None) -> str | None:
        """All visits of one outer iteration, then what follows; a status where the run ends here."""
        position = self.progress.position
        blocks = self.partition.blocks(position.outer)
        following = self.partition.blocks(position.outer + 1)
        while position.visit < len(blocks):
            visit = position.visit
            block = self._take(blocks[visit])
            self.reader.request(blocks[visit + 1] if visit + 1 < len(blocks) else following[0])
            if not self._visit(block, restored):
                return "interrupted"
            restored = None
            position.visit += 1
            position.passes = 0
            self.visit_state = None
            self.on_event({"event": "visit", "outer": position.outer, "visit": visit + 1, "blocks": len(blocks),
                           "seconds": self.seconds()})  # fmt: skip
            if self.seconds() > self.settings.max_seconds and position.visit < len(blocks):
                return "max-seconds"
            if self.checkpoint is not None and time.perf_counter() - self.last_saved > self.checkpoint_seconds:
                self.save()
        return self._close_outer(following)

    def _take(self, chunks: np.ndarray) -> Block:
        waited = self.reader.seconds_waiting
        block = self.reader.take(chunks)
        # the block was read while the one before it was trained on; at this moment nothing is being read
        tally, bytes_read = self.progress.tally, self.reader.source.cost.bytes_read
        tally.bytes_read += bytes_read - self.bytes_seen
        self.bytes_seen = bytes_read
        tally.seconds_waiting += self.reader.seconds_waiting - waited
        return block

    def _visit(self, block: Block, restored: dict | None) -> bool:
        """Inner passes over one block; False where the run was stopped in between."""
        progress, solver = self.progress, self.solver
        position, tally = progress.position, progress.tally
        if restored is None:
            visit = self._visit_arrays(block.n_samples)
            solver.start_visit(visit)
        else:
            visit = restored
        self.visit_state = visit
        if isinstance(self.schedule, Replay):
            self.schedule.begin_visit(len(progress.passes))
        view = dict(self.state)
        for name in self.row_names:
            view[name] = self.state[name][block.rows]
        order = np.empty(block.n_samples, np.int32)
        going = True
        if position.passes:  # interrupted between two passes: the schedule is asked again, as it would have been
            going = self._go_on(position.passes, bool(restored["schedule"][0]))
        while going:
            began = time.perf_counter()
            self.partition.row_order(position.outer, position.visit, position.passes, order)
            result = solver.inner_pass(block, view, visit, order)
            took = time.perf_counter() - began
            position.passes += 1
            tally.inner_passes += 1
            tally.rows_visited += result.rows_visited
            tally.nnz_visited += result.nnz_visited
            tally.loss_sum += result.loss_sum
            tally.seconds_training += took
            for report in result.reports:
                self.on_event({"event": "progress", "outer": position.outer, "seconds": self.seconds(), **report})
            self._learn_pace(took)
            if self.stop():
                self._give_back(block, view)
                visit["schedule"] = np.array([float(result.finished)])
                return False
            going = self._go_on(position.passes, result.finished)
        self._give_back(block, view)
        tally.blocks += 1
        tally.passes.append(position.passes)
        progress.passes.append(position.passes)
        return True

    def _learn_pace(self, took: float) -> None:
        """The running mean of a pass; the first one of a process also loads the kernel, and tells nothing."""
        if self.first_pass:
            self.first_pass = False
        else:
            self.pass_seconds = took if not self.pass_seconds else 0.8 * self.pass_seconds + 0.2 * took

    def _go_on(self, passes: int, finished: bool) -> bool:
        return self.schedule.go_on(
            Situation(passes, finished, self.reader.ready(), self.reader.disk_seconds, self.pass_seconds)
        )

    def _give_back(self, block: Block, view: dict) -> None:
        for name in self.row_names:
            self.state[name][block.rows] = view[name]

    def _close_outer(self, following: list[np.ndarray]) -> str | None:
        """Estimates, certificate, held-out accuracy and the trace's line; 'interrupted' where that came first."""
        progress, settings, solver = self.progress, self.settings, self.solver
        position = progress.position
        primal = solver.estimated_primal(self.state, progress.tally.loss_sum)
        dual = solver.estimated_dual(self.state)
        gap = None
        if dual is not None:
            gap = (primal - dual) / abs(primal) if primal else 0.0
        certificate, share = None, None
        if progress.attempts.worthwhile(position.outer, gap, settings.tol):
            found = self._certify(following, dual)
            if found is None:
                return "interrupted"
            if isinstance(found, Missed):
                share, whole = found.share, found.gap / found.share
                progress.attempts.learn(position.outer, gap, whole / (dual + whole))
            else:
                certificate, share = found, 1.0
                progress.attempts.learn(position.outer, gap, certificate.rel_gap)
        solver.end_outer(self.state, position.outer)
        online = progress_of(self.state["tally"]) if solver.online else {}
        progress.estimates = [*progress.estimates[-STILL:], primal]
        if certificate is not None:
            progress.certificate = asdict(certificate)
            progress.certified_outer = position.outer
        accuracy = None if self.held_out is None else self.held_out.accuracy(self.weights(), self.problem.bias)
        estimates = {"primal_estimate": primal, "dual_estimate": dual, "gap_estimate": gap,
                     "certificate_share": share, **online}  # fmt: skip
        self.on_event(outer_event(progress, self.seconds(), estimates, certificate, accuracy))
        position.outer += 1
        position.visit = 0
        progress.tally = Tally()
        return None

    def _at_rest(self) -> bool:
        """The primal estimate has stood still for some outer iterations; a learner has nothing more to learn."""
        if self.solver.online:
            return self.solver.at_rest(self.state)
        estimates = self.progress.estimates
        if len(estimates) <= STILL:
            return False
        return max(estimates) - min(estimates) <= self.settings.tol * abs(estimates[-1])

    # -- certificates ------------------------------------------------------------------------------------------

    def _all_blocks(self, blocks: list[np.ndarray]) -> Iterator[Block]:
        """Every row once; the first block may have been asked for already."""
        for k, chunks in enumerate(blocks):
            block = self._take(chunks)
            self.reader.request(blocks[(k + 1) % len(blocks)])
            yield block

    def _certify(self, blocks: list[np.ndarray], dual: float | None = None) -> Certificate | Missed | None:
        """A certificate of the current w and alpha; None where the run was stopped meanwhile.

        dual: D as it is known beforehand, by which an attempt that cannot succeed is broken off.
        """
        if self.solver.online:
            blocks = self._all_blocks(blocks)
            return evaluate(self.weights(), self.solver.copies, self.problem.bias, blocks, self.stop)
        enough = math.inf
        if dual is not None and dual > 0.0:
            # gap / (D + gap) > tol, whatever rows are still to come; D is known but for rounding
            tol = min(0.5, self.settings.tol) * (1.0 + 1e-6)
            enough = dual * tol / (1.0 - tol)
        self.on_event({"event": "certifying", "outer": self.progress.position.outer, "seconds": self.seconds()})
        for _ in range(2):
            found = certify(
                self.problem, self.weights(), self.alpha(), self._all_blocks(blocks), self.stop, enough,
                self.solver.prior,
            )  # fmt: skip
            if found is None or isinstance(found, Missed):
                return found
            certificate, drift = found
            if self.alpha() is None or drift <= LARGEST_DRIFT:
                break
            self.solver.rebuild(self.state, self._all_blocks(blocks))
        return certificate

    def _last_certificate(self) -> Certificate | None:
        """The certificate of the result, taken now unless the last outer iteration has one."""
        progress = self.progress
        current = progress.certified_outer == progress.position.outer - 1 and progress.position.visit == 0
        if current and progress.certificate is not None:
            return Certificate(**progress.certificate)
        certificate = self._certify(self.partition.blocks(progress.position.outer))
        if certificate is not None:
            progress.certificate = asdict(certificate)
        return certificate

    # -- checkpoints -------------------------------------------------------------------------------------------

    def save(self) -> None:
        """Write the checkpoint: the state, the visit under way, and where the run stands."""
        visit = self.visit_state if self.progress.position.passes else None
        progress = asdict(self.progress) | {"seconds_before": self.seconds()}
        save_run(self.checkpoint, self, visit, progress)
        self.last_saved = time.perf_counter()
