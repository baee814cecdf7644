"""The outer loop (Yu, Hsieh, Chang, Lin, KDD 2010): one block in memory at a time, minimised over, until the
certificate says that the optimum is reached.

    for each outer iteration: for each block: read it (while the last one trains), inner passes as scheduled;
    then, where the visits' estimates promise success, a certificate over all rows at one fixed w.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from blocksvm.block import INDEX_BYTES, ROW_BYTES, Block
from blocksvm.errors import InputError
from blocksvm.objective import Certificate
from blocksvm.outer.budget import Budget
from blocksvm.outer.certificate import Attempts, certify
from blocksvm.outer.heldout import HeldOut
from blocksvm.outer.partition import Partition
from blocksvm.outer.schedule import Replay, Situation
from blocksvm.outer.settings import TrainSettings
from blocksvm.outer.versions import versions
from blocksvm.solvers import SOLVERS
from blocksvm.solvers.protocol import PassResult
from blocksvm.store.reading import BlockReader
from blocksvm.store.source import Source, bytes_of_blocks
from blocksvm.store.states import load_checkpoint, load_state, save_checkpoint, saved_state

# w is recomputed from alpha where the two have drifted apart by more than this, relative to ||w||^2.
LARGEST_DRIFT = 1e-9

STILL = 3  # outer iterations without progress after which a primal method has come to rest


@dataclass
class Position:
    """Where a run stands: outer iteration (from 1), visit (from 0) and inner passes done in it."""

    outer: int = 1
    visit: int = 0
    passes: int = 0


@dataclass
class Tally:
    """What an outer iteration has done so far."""

    blocks: int = 0
    inner_passes: int = 0
    rows_visited: int = 0
    nnz_visited: int = 0
    loss_sum: float = 0.0
    bytes_read: int = 0
    seconds_waiting: float = 0.0
    seconds_training: float = 0.0
    passes: list[int] = field(default_factory=list)


@dataclass
class Progress:
    """What is known of the whole run so far, and goes into checkpoints."""

    position: Position = field(default_factory=Position)
    tally: Tally = field(default_factory=Tally)
    passes: list[int] = field(default_factory=list)  # of every visit
    seconds_before: float = 0.0
    attempts: Attempts = field(default_factory=Attempts)
    estimates: list[float] = field(default_factory=list)
    certificate: dict | None = None  # the last one taken
    certified_outer: int = 0


@dataclass(frozen=True)
class Result:
    """A run's end.  status 'converged', 'max-outer', 'max-seconds' or 'interrupted'; w (d + 1,), the constant
    feature's weight last; alpha (l,) or None; certificate of exactly this w and alpha, or None where interrupted;
    passes of every visit; peak plan of memory by name."""

    status: str
    w: np.ndarray
    alpha: np.ndarray | None
    certificate: Certificate | None
    outer: int
    seconds: float
    passes: list[int]
    memory: dict[str, int]


class Trainer:
    """One run on one source.

    on_event is called with a dict for each event ("start", "visit", "outer", "end"); stop() is polled after each
    inner pass and ends the run as interrupted; valid: a source to score after each outer iteration; checkpoint: file
    for the state, written every ``checkpoint_seconds``, on interruption and at the end; resume: the description of that
    file, to go on from it; replay: passes of each visit of an earlier run; warm_start: a model or checkpoint to begin
    from.  Raises InputError where the settings do not fit the source or the memory.
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
        self.replayed = replay is not None
        self.solver = SOLVERS[settings.solver](self.problem, tolerance=self.schedule.tolerance, batch=settings.batch)
        self.budget = Budget(settings.memory)
        self.held_out = None if valid is None else HeldOut(valid, source.labels, self.budget)
        self.progress = Progress()
        self.pass_seconds = 0.0  # running mean, for the schedules that go by time
        self.bytes_seen = 0  # of what the source has read, already in a tally
        self.last_saved = time.perf_counter()
        self._plan_memory()

    def _start_warm(self) -> None:
        saved, lengths = saved_state(self.warm_start)
        if saved["fingerprint"] != self.source.fingerprint:
            raise InputError(f"{self.warm_start}: belongs to another store than {self.source.name}; name its own store")

        def load(name: str, out: np.ndarray) -> None:
            load_state(self.warm_start, name, out)

        blocks = self._all_blocks(self.partition.stored)
        self.solver.warm_start(self.state, saved, lengths, load, blocks, str(self.warm_start))

    # -- memory ------------------------------------------------------------------------------------------------

    def _plan_memory(self) -> None:
        """Count everything that will be allocated, and give what is left to the blocks."""
        source, budget, solver = self.source, self.budget, self.solver
        vectors = sum(array.axis == "feature" for array in solver.state_arrays) + solver.needs_weights_buffer
        row_arrays = sum(array.axis == "row" for array in solver.state_arrays)
        budget.take("weights", 8 * vectors * (source.n_features + 1))
        budget.take("alpha", 8 * row_arrays * source.n_samples)
        budget.take("tables", 120 * len(source.chunks))
        visit_bytes = sum(np.dtype(array.dtype).itemsize for array in solver.visit_arrays if not array.length)
        self.row_work = 4 + 8 * row_arrays + visit_bytes + 2 * 8  # order, state and margins of a block's rows
        chunks = source.chunks
        block = chunks.nnz * (INDEX_BYTES + source.value_bytes) + chunks.n_rows * ROW_BYTES
        single = chunks.n_rows * 8 if source.in_memory else block
        reading = bytes_of_blocks(source, 0, 0) + 2 * source.slack() * (INDEX_BYTES + source.value_bytes)
        if self.held_out is not None:
            self.held_out.match(source, budget)
        budget.take("reading", reading)
        work = chunks.n_rows * self.row_work
        settings = self.settings
        budget.require("the rows of one chunk", int((single + work).max()))
        order, seed, shuffled = settings.order, settings.seed, source.shuffled
        arguments = (settings.block_chunks, settings.partition, order, seed, shuffled)
        saved = self.resume["partition"] if self.resume else None
        resident = saved["resident"] if saved else int((single + work).sum()) <= budget.left
        if resident and (not settings.block_chunks or settings.block_chunks >= len(chunks)):
            need = int((single + work).sum())
            budget.require("all rows", need)
            self.partition = Partition(single + work, need, *arguments)
            self.arena_bytes = 0 if source.in_memory else int(single.sum())
            budget.take("all rows", need)
        else:
            budget.take("reading", reading)
            cost = 2 * block + work
            smallest = int(cost.max())
            if settings.block_chunks:
                smallest = int(np.sort(cost)[-settings.block_chunks :].sum())
            capacity = saved["capacity"] if saved else smallest if settings.block_chunks else budget.left
            budget.require("two blocks", max(smallest, capacity))
            self.partition = Partition(cost, capacity, *arguments)
            self.arena_bytes = min(capacity, int(cost.sum())) // 2
            budget.take("two blocks", min(capacity, int(cost.sum())))
        self.arena_bytes += reading if self.arena_bytes else 0

    def plan(self) -> dict[str, int]:
        """Bytes by name, as counted against the budget."""
        return dict(self.budget.taken)

    # -- state -------------------------------------------------------------------------------------------------

    def allocate(self) -> None:
        """The state's arrays, and the solver's start in them."""
        source, solver = self.source, self.solver
        lengths = {"feature": source.n_features + 1, "row": source.n_samples}
        self.state = {a.name: np.zeros(lengths.get(a.axis, a.length)) for a in solver.state_arrays}
        self.row_names = [a.name for a in solver.state_arrays if a.axis == "row"]
        self.buffer = np.zeros(source.n_features + 1) if solver.needs_weights_buffer else None
        solver.start(self.state)

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
            restored = self._restore()
        self.on_event(self._start_event())
        resident = self.partition.resident
        with BlockReader(self.source, self.arena_bytes, resident) as self.reader:
            if self.warm_start is not None and self.resume is None:
                self._start_warm()
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
        )
        self.on_event(self._end_event(result))
        return result

    def _outers_done(self) -> int:
        return self.progress.position.outer - 1

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
        if done and progress.certified_outer == done:
            rel_gap = progress.certificate["rel_gap"]
            if rel_gap is not None and rel_gap <= settings.tol:
                return "converged"
        if not self.solver.has_dual and self._at_rest():
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
        tally, bytes_read = self.progress.tally, self.source.cost.bytes_read
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
        result = PassResult(0, 0, 0.0, False)
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
            self.pass_seconds = took if not self.pass_seconds else 0.8 * self.pass_seconds + 0.2 * took
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

    def _go_on(self, passes: int, finished: bool) -> bool:
        return self.schedule.go_on(
            Situation(passes, finished, self.reader.ready(), self.reader.read_seconds, self.pass_seconds)
        )

    def _give_back(self, block: Block, view: dict) -> None:
        for name in self.row_names:
            self.state[name][block.rows] = view[name]

    def _close_outer(self, following: list[np.ndarray]) -> str | None:
        """Estimates, certificate, held-out accuracy and the trace's line; 'interrupted' where that came first."""
        progress, settings, solver = self.progress, self.settings, self.solver
        position, tally = progress.position, progress.tally
        primal_estimate = solver.estimated_primal(self.state, tally.loss_sum)
        dual_estimate = solver.estimated_dual(self.state)
        gap_estimate = None
        if dual_estimate is not None:
            gap_estimate = (primal_estimate - dual_estimate) / abs(primal_estimate) if primal_estimate else 0.0
        certificate = None
        if progress.attempts.worthwhile(position.outer, gap_estimate, settings.tol):
            certificate = self._certify(following)
            if certificate is None:
                return "interrupted"
            progress.attempts.learn(position.outer, gap_estimate, certificate.rel_gap)
        solver.end_outer(self.state, position.outer)
        progress.estimates = [*progress.estimates[-STILL:], primal_estimate]
        if certificate is not None:
            progress.certificate = asdict(certificate)
            progress.certified_outer = position.outer
        accuracy = None if self.held_out is None else self.held_out.accuracy(self.weights(), self.problem.bias)
        seconds = self.seconds()
        self.on_event(self._outer_event(seconds, primal_estimate, dual_estimate, gap_estimate, certificate, accuracy))
        position.outer += 1
        position.visit = 0
        progress.tally = Tally()
        return None

    def _at_rest(self) -> bool:
        """The primal estimate has stood still for some outer iterations."""
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

    def _certify(self, blocks: list[np.ndarray]) -> Certificate | None:
        """A certificate of the current w and alpha; None where the run was stopped meanwhile."""
        self.on_event({"event": "certifying", "outer": self.progress.position.outer, "seconds": self.seconds()})
        for _ in range(2):
            found = certify(self.problem, self.weights(), self.alpha(), self._all_blocks(blocks), self.stop)
            if found is None:
                return None
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
        arrays = dict(self.state)
        visit = getattr(self, "visit_state", None)
        if visit is not None and self.progress.position.passes:
            arrays |= {"visit." + name: array for name, array in visit.items()}
        progress = asdict(self.progress) | {"seconds_before": self.seconds()}
        meta = {
            "settings": self.settings.arithmetic(),
            "fingerprint": self.source.fingerprint,
            "n_features": self.source.n_features,
            "cost": self.problem.cost.tolist(),
            "partition": {"resident": self.partition.resident, "capacity": int(self.partition.capacity)},
            "replay": self.schedule.choices if self.replayed else None,
            "progress": progress,
            "versions": versions(),
        }
        save_checkpoint(self.checkpoint, arrays, meta)
        self.last_saved = time.perf_counter()

    def _restore(self) -> dict | None:
        """Fill the state from the checkpoint; the arrays of a visit under way, if there was one."""
        saved = dict(self.resume["progress"])
        progress = self.progress
        progress.position = Position(**saved.pop("position"))
        progress.tally = Tally(**saved.pop("tally"))
        progress.attempts = Attempts(**saved.pop("attempts"))
        for name, value in saved.items():
            setattr(progress, name, value)
        load_checkpoint(self.checkpoint, self.state)
        names = [name for name in self.resume["arrays"] if name.startswith("visit.")]
        if not names:
            return None
        visit = {n: np.empty(self.resume["arrays"][n][1], np.dtype(self.resume["arrays"][n][0])) for n in names}
        load_checkpoint(self.checkpoint, visit)
        return {name.removeprefix("visit."): array for name, array in visit.items()}

    # -- events ------------------------------------------------------------------------------------------------

    def _start_event(self) -> dict:
        source = self.source
        resumed = self.resume is not None
        return {
            "event": "resume" if resumed else "start",
            **self.settings.arithmetic(),
            "memory": self.settings.memory,
            "tol": self.settings.tol,
            "max_outer": self.settings.outer_limit(),
            "max_seconds": None if math.isinf(self.settings.max_seconds) else self.settings.max_seconds,
            "store": source.name,
            "fingerprint": source.fingerprint,
            "n_samples": source.n_samples,
            "n_features": source.n_features,
            "n_nonzeros": source.n_nonzeros,
            "blocks": len(self.partition.blocks(1)),
            "resident": self.partition.resident,
            "memory_plan": self.plan(),
            "outer": self.progress.position.outer,
            "versions": versions(),
        }

    def _outer_event(self, seconds, primal_estimate, dual_estimate, gap_estimate, certificate, accuracy) -> dict:
        tally = self.progress.tally
        certified = certificate is not None
        return {
            "event": "outer",
            "outer": self.progress.position.outer,
            "seconds": seconds,
            "primal": certificate.primal if certified else None,
            "dual": certificate.dual if certified else None,
            "rel_gap": certificate.rel_gap if certified else None,
            "primal_estimate": primal_estimate,
            "dual_estimate": dual_estimate,
            "gap_estimate": gap_estimate,
            "accuracy": certificate.accuracy if certified else None,
            "valid_accuracy": accuracy,
            **{name: value for name, value in asdict(tally).items() if name != "loss_sum"},
        }

    def _end_event(self, result: Result) -> dict:
        certificate = result.certificate
        last = self.progress.certificate
        return {
            "event": "end",
            "status": result.status,
            "outer": result.outer,
            "seconds": result.seconds,
            "primal": certificate.primal if certificate else last and last["primal"],
            "dual": certificate.dual if certificate else last and last["dual"],
            "rel_gap": certificate.rel_gap if certificate else last and last["rel_gap"],
            "accuracy": certificate.accuracy if certificate else last and last["accuracy"],
            "passes": result.passes,
        }


def check_resume(meta: dict, settings: TrainSettings, source: Source, path: Path) -> None:
    """InputError, naming the setting, where a checkpoint belongs to another run."""
    if meta["fingerprint"] != source.fingerprint:
        raise InputError(f"{path}: belongs to another store than {source.name}; remove it or name the right one")
    ours = settings.arithmetic()
    for name, value in meta["settings"].items():
        if ours.get(name) != value:
            option = {"C": "-C", "lam": "--lambda"}.get(name, "--" + name.replace("_", "-"))
            raise InputError(
                f"{path}: was begun with {option} {value}, but {ours.get(name)} is given now; "
                "resume with the same, or start afresh without --resume"
            )
