"""A run around its loop: the state that it begins with, what is read, reported and saved, and its end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import cast

import numpy as np

from blocksvm.base.errors import option
from blocksvm.base.labels import SETS
from blocksvm.base.log import LOG
from blocksvm.base.vectors import on_lines
from blocksvm.model.decision_values import decision_pieces
from blocksvm.model.events import RunEvent
from blocksvm.model.saved_run import load_saved_run
from blocksvm.model.takeover import doubt_of_prior
from blocksvm.problems.problem import Certificate
from blocksvm.solvers.solver import BEST, HoldsRows, SavedRun
from blocksvm.sources.block import Block
from blocksvm.sources.block_reader import BlockReader
from blocksvm.training.checkpoint import WORKING_SET, Checkpoint
from blocksvm.training.plan import Plan
from blocksvm.training.record import Progress, Result, Tally, cause_of, end_event
from blocksvm.training.visit import ThisProcess
from blocksvm.training.working_set import WorkingSet


@dataclass(frozen=True)
class Watch:
    """Who watches a run: on_event is called with a dict for each event; stop() is asked after each visit, and ends the
    run as interrupted where it says True."""

    on_event: Callable[[RunEvent], None] = lambda event: None
    stop: Callable[[], bool] = lambda: False


class Run:
    """One run of a plan.

    checkpoint: where the state is saved, now and then, on interruption and at the end; warm_start: a model or
    checkpoint to begin from, of the same rows or of what the store had before it was changed, or a run in memory;
    began: when the run's seconds began to count.
    """

    reader: BlockReader

    def __init__(
        self,
        plan: Plan,
        watch: Watch = Watch(),
        *,
        checkpoint: Checkpoint | None = None,
        warm_start: Path | SavedRun | None = None,
        began: float | None = None,
    ):
        self.plan = plan
        self.watch = watch
        self.checkpoint = checkpoint
        self.warm_start = warm_start
        self.began = time.perf_counter() if began is None else began
        self.progress, self.tally = Progress(), Tally()
        self.doubt: str | None = None  # of the prior model, once a block has been read
        self.earlier = ""  # weights with a smaller primal, which were not kept
        self.unchecked: Path | None = None  # the checkpoint whose dual variables no certificate has seen yet
        if plan.resume is not None and checkpoint is not None:
            plan.check_resumed(plan.resume, checkpoint.path)

    def allocate(self) -> None:
        """The state's arrays, and the solver's start in them."""
        plan, solver = self.plan, self.plan.solver
        self.state = {array.name: on_lines(plan.shape(array), array.dtype) for array in solver.state_arrays}
        self.output = np.zeros(solver.n_vectors * (plan.n_features + 1)) if solver.needs_output else None
        if plan.initial_models.prior is not None:
            solver.prior = plan.initial_models.prior_weights(plan.n_features, solver.bias)
        solver.start(self.state)
        if plan.initial_models.continue_from is not None and plan.resume is None:
            plan.initial_models.fill_state(self.state, solver)
            self.progress.outers_before = plan.initial_models.outers
            self.progress.outer = plan.initial_models.outers + 1

    def begin(self) -> None:
        """The state, the working set and who makes the visits: as a run begins, or as it was when it was broken off."""
        plan, solver = self.plan, self.plan.solver
        set_bytes = plan.blocks.set_bytes
        self.working_set = None if set_bytes is None else WorkingSet(plan.source, set_bytes)
        if plan.resume is not None and self.checkpoint is not None:
            self.progress, self.tally = self.checkpoint.restore(plan, self.state)
            self.unchecked = self.checkpoint.path
            if isinstance(solver, HoldsRows):
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
        self.executor = ThisProcess(solver, plan.blocks.partition, self.state, self.ready)

    def end(self, status: str, final: Certificate | None) -> Result:
        """The result of a run that ends with this status, which is also emitted as an event; final: the certificate of
        its state, None of an interrupted one."""
        last = final
        if final is not None and status not in ("converged", "interrupted"):
            final = self.take_best(final)
            if final.rel_gap is not None and final.rel_gap <= self.plan.settings.tol:
                status = "converged"
        plan, progress, solver = self.plan, self.progress, self.plan.solver
        support = None
        if isinstance(solver, HoldsRows) and status != "interrupted":
            support = solver.support(self.state, self.every_row)
        result = Result(
            status, self.weights(), solver.dual_variables(self.state), final, progress.outers_done(), self.seconds(),
            progress.passes, progress.set_passes, plan.memory(), self.note(), support,
            *cause_of(plan, status, final), None if final is last else progress.best_outer,
        )  # fmt: skip
        self.watch.on_event(end_event(result, progress.certificate))
        return result

    def note(self) -> str:
        return "\n".join(filter(None, (self.plan.solver.summary(self.state), self.doubt, self.earlier)))

    def weights(self) -> np.ndarray:
        """The w that certificates, held-out accuracy and the model are about."""
        return self.plan.solver.weights(self.state, self.output)

    def seconds(self) -> float:
        return self.progress.seconds_before + time.perf_counter() - self.began

    def emit(self, event: str, **more) -> None:
        common = {"event": event, "outer": self.progress.outer, "seconds": self.seconds()}
        self.watch.on_event(cast(RunEvent, common | more))

    def ready(self) -> bool:
        """The next block has been read; asked by a schedule that goes by the clock."""
        return self.plan.schedule.by_clock and self.reader.ready()

    def following(self) -> list[np.ndarray]:
        """The blocks of the next outer iteration, which a certificate reads, too."""
        return self.plan.blocks.partition.blocks(self.progress.outer + 1)

    def read(self, blocks: list[np.ndarray], then: Sequence[np.ndarray] = ()) -> Iterator[Block]:
        """Blocks one after the other, each read while the one before it is worked on; then: those that follow."""
        for block in self.reader.blocks(blocks, then):
            self.tally.count_reading(self.reader.cost)
            if self.doubt is None:
                self._judge_prior(block)
            yield block

    def _judge_prior(self, block: Block) -> None:
        """By the first block that is read."""
        path, solver, self.doubt = self.plan.initial_models.prior, self.plan.solver, ""
        if path is None or self.plan.source.label_kind == SETS:
            return
        prior = solver.prior.reshape(solver.n_vectors, -1) if solver.prior.ndim == 1 else solver.prior.T
        pieces = decision_pieces(block.matrix, prior[: solver.n_vectors], solver.bias, None)
        self.doubt = doubt_of_prior(path, pieces, block.y)
        if self.doubt:
            LOG.warning("%s", self.doubt)

    def every_row(self) -> Iterator[Block]:
        """All rows, in the order of the source."""
        return self.read(self.plan.blocks.partition.stored)

    def keep(self, certificate: Certificate) -> Certificate:
        """Record it as the certificate of the present state; returns it."""
        progress = self.progress
        progress.certificate, progress.certified_outer, progress.current = asdict(certificate), progress.outer, True
        return certificate

    def offer_best(self, certificate: Certificate) -> None:
        """Keep the certificate of the smallest primal and, where the memory allows it, its w, which a run that is cut
        short delivers."""
        progress, primal = self.progress, certificate.primal
        if primal is not None and (progress.best is None or primal < progress.best["primal"]):
            progress.best, progress.best_outer = asdict(certificate), progress.outer
            if BEST in self.state:
                self.state[BEST][:] = self.weights()

    def take_best(self, last: Certificate) -> Certificate:
        """The certificate of the result of a run that has not converged: w is that of the smallest certified primal,
        alpha the last one, whose dual is the largest."""
        best = self.progress.best
        if best is None or last.primal is None or last.dual is None or not best["primal"] < last.primal:
            return last
        if BEST not in self.state:
            self.earlier = (
                f"the weights after outer iteration {self.progress.best_outer} had a smaller primal, "
                f"{best['primal']:.6g}; they were not kept: {option('max_outer', self.progress.best_outer)} ends there"
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
        """Write the checkpoint: the state, where the run stands, and which rows the working set has."""
        assert self.checkpoint is not None
        progress = asdict(self.progress) | {"seconds_before": self.seconds()}
        of_set = None if self.working_set is None else self.working_set.saved()
        self.checkpoint.save(self.plan, self.state, progress, asdict(self.tally), of_set)

    def save_if_due(self) -> None:
        if self.checkpoint is not None and self.checkpoint.is_due():
            self.save()
