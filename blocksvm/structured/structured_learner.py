"""The protocol of structured learners, and the online ones' passes over examples: orders, averages, counts."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from xxhash import xxh3_64_intdigest

from blocksvm.base.errors import InputError
from blocksvm.base.memory import Budget
from blocksvm.base.settings import Settings
from blocksvm.kernels.sparse_rows import add_to, inner
from blocksvm.structured.output_structure import Row
from blocksvm.structured.structured_settings import MEAN
from blocksvm.structured.templates import mixed

if TYPE_CHECKING:
    from blocksvm.structured.example_blocks import ExampleBlock, ExampleBlocks


@dataclass(frozen=True)
class StructuredLearner:
    """name; summary and source: one line each; settings; make(blocks, settings, run, budget) -> ``Machine``."""

    name: str
    summary: str
    source: str
    settings: Settings
    make: Callable


EXAMPLES = "a block of examples"


@dataclass
class Report:
    """Sums over an epoch, or a visit: examples, those with a wrong output before their update, their losses, updates;
    gap and violation: from which a learner with a certificate estimates it."""

    examples: int = 0
    mistakes: int = 0
    loss: float = 0.0
    updates: int = 0
    gap: float = 0.0
    violation: float = 0.0

    def add(self, more: Report) -> None:
        for name, value in vars(more).items():
            setattr(self, name, getattr(self, name) + value)


class Machine:
    """A learner's state and its steps: it visits block after block, and its state between visits can be saved.

    done: the tolerance has been reached.
    """

    done = False

    def costs(self, blocks: ExampleBlocks) -> np.ndarray:
        """(n_chunks,) int64: bytes that each chunk takes in a block."""
        return blocks.sizes

    @property
    def capacity(self) -> int:
        """Bytes that a block may take."""
        raise NotImplementedError

    def visit(self, block: ExampleBlock, epoch: int, visit: int, stop: Callable[[], bool]) -> Report:
        """Learn from a block's examples; where stop() becomes true, from some, and the state is of no further use."""
        raise NotImplementedError

    def end_epoch(self, report: Report) -> None:
        """All blocks have been visited."""

    def weights(self) -> np.ndarray:
        """(n_weights,) float64"""
        raise NotImplementedError

    def certificate(self) -> dict | None:
        """None, or primal, dual and rel_gap of exactly the weights that ``weights`` gives."""
        return None

    def close(self) -> None:
        """Delete files and free memory."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The state: arrays of a length that does not change."""
        raise NotImplementedError

    def scalars(self) -> dict:
        """The state: numbers."""
        raise NotImplementedError

    def restore(self, scalars: dict, arrays: dict[str, np.ndarray]) -> None:
        """Set the state to ``scalars`` and ``arrays`` of another machine."""
        raise NotImplementedError

    def chunks(self) -> Iterator[tuple[str, int, dict[str, np.ndarray]]]:
        """The state: (kind, number, arrays) of each chunk of examples."""
        yield from ()

    def restore_chunk(self, kind: str, chunk: int, arrays: dict[str, np.ndarray]) -> None:
        """Set the state of a chunk to one of ``chunks`` of another machine."""


@dataclass(frozen=True)
class Update:
    """w += sum of factors[j] rows[j]; mistakes, loss: of the examples' outputs before it."""

    rows: list[Row]
    factors: np.ndarray
    mistakes: int
    loss: float


def order_of(n: int, seed: int, *keys: int) -> np.ndarray:
    """A permutation of 0..n-1 keyed by (seed, *keys)."""
    key = np.uint64(xxh3_64_intdigest(struct.pack(f"<{1 + len(keys)}q", seed, *keys)))
    return np.argsort(mixed(np.arange(n, dtype=np.uint64) ^ key), kind="stable")


def key_of(epoch: int, visit: int, inner: int = 0) -> tuple[int, ...]:
    """The key of an order of examples: of the only visit of an epoch it depends on the epoch alone."""
    return (epoch,) if visit == inner == 0 else (epoch, visit, inner)


class OnlineMachine(Machine):
    """Passes over the examples in a new order at each epoch, ``at_once`` of them an update.

    With steps t = 1, 2, ..., the mean of w_1..w_T is w_T - sum_t (t - 1) (w_t - w_{t-1}) / T.

    update(structure, w, examples, settings) -> Update.
    """

    def __init__(self, update: Callable, blocks: ExampleBlocks, settings: dict, run: dict, budget: Budget):
        self.settings = settings
        self.seed = run["seed"]
        self.update = update
        self.averaged = settings["weights"] == MEAN
        budget.take("weights", 8 * blocks.n_weights)
        budget.reserve("their mean", 2 * 8 * blocks.n_weights * self.averaged)
        self.left, self.budget = budget.left, budget
        self.w = np.zeros(blocks.n_weights)
        self.late = np.zeros(blocks.n_weights if self.averaged else 0)  # sum_t (t - 1) (w_t - w_{t-1})
        self.steps = 0

    @property
    def capacity(self) -> int:
        return self.left

    def visit(self, block, epoch, visit, stop):
        self.budget.used[EXAMPLES] = max(block.n_bytes, self.budget.used.get(EXAMPLES, 0))
        order = block.examples[order_of(len(block.examples), self.seed, *key_of(epoch, visit))]
        at_once = self.settings.get("at_once", 1)
        report = Report()
        for start in range(0, len(order), at_once):
            if stop():
                break
            examples = order[start : start + at_once]
            update = self.update(block.structure, self.w, examples, self.settings)
            report.examples += len(examples)
            report.mistakes += update.mistakes
            report.loss += update.loss
            moved = False
            for row, factor in zip(update.rows, update.factors, strict=True):
                if factor != 0.0:
                    moved = True
                    add_to(row.indices, row.values, factor, self.w)
                    if self.averaged:
                        add_to(row.indices, row.values, factor * self.steps, self.late)
            self.steps += 1
            report.updates += moved
        return report

    def weights(self) -> np.ndarray:
        w = self.w - self.late / max(1, self.steps) if self.averaged else self.w
        if not np.isfinite(w).all():
            raise InputError("the weights have become infinite; lower C, or scale the features")
        return w

    def arrays(self):
        return {"weights": self.w, "late": self.late}

    def scalars(self):
        return {"steps": self.steps}

    def restore(self, scalars, arrays):
        self.w[:], self.late[:] = arrays["weights"], arrays["late"]
        self.steps = scalars["steps"]


def score(row: Row, w: np.ndarray) -> float:
    """<row, w>"""
    return inner(row.indices, row.values, w)
