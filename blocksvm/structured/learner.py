"""What a structured learner is, and how an online one goes over examples: orders, averages, what is counted."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from xxhash import xxh3_64_intdigest

from blocksvm.errors import InputError
from blocksvm.kernels.sparse_rows import add_to, inner
from blocksvm.memory import Budget
from blocksvm.settings import Settings
from blocksvm.structured.protocol import Row, Structure
from blocksvm.structured.settings import MEAN
from blocksvm.structured.templates import mixed


@dataclass(frozen=True)
class StructuredLearner:
    """name; summary and source: one line each; settings: its own; make(structure, settings, run, budget) gives a
    machine.

    A machine has ``epoch(number, stop) -> Report``, ``weights()`` (n_weights,) float64, ``certificate()`` (None, or a
    dict of primal, dual and rel_gap of exactly those weights), and ``done``: nothing is left to be gained.
    """

    name: str
    summary: str
    source: str
    settings: Settings
    make: Callable


@dataclass
class Report:
    """What an epoch saw: examples, those whose output before its update was wrong, the sum of their losses, updates."""

    examples: int = 0
    mistakes: int = 0
    loss: float = 0.0
    updates: int = 0


@dataclass(frozen=True)
class Update:
    """w += sum of factors[j] rows[j]; mistakes, loss: of the examples' outputs before it."""

    rows: list[Row]
    factors: np.ndarray
    mistakes: int
    loss: float


def order_of(n: int, seed: int, epoch: int) -> np.ndarray:
    """A permutation of 0..n-1 keyed by (seed, epoch)."""
    key = np.uint64(xxh3_64_intdigest(struct.pack("<2q", seed, epoch)))
    return np.argsort(mixed(np.arange(n, dtype=np.uint64) ^ key), kind="stable")


class OnlineMachine:
    """Goes over the examples in a new order at each epoch, ``at_once`` of them an update, and keeps w and what its mean
    needs: with steps t = 1, 2, ..., the mean of w_1..w_T is w_T - sum_t (t - 1) (w_t - w_{t-1}) / T.

    update(structure, w, examples, settings) -> Update.
    """

    done = False

    def __init__(self, structure: Structure, settings: dict, run: dict, budget: Budget, update: Callable):
        self.structure = structure
        self.settings = settings
        self.seed = run["seed"]
        self.update = update
        self.averaged = settings["weights"] == MEAN
        budget.take("weights", 8 * structure.n_weights)
        budget.require("their mean", 2 * 8 * structure.n_weights * self.averaged)
        self.w = np.zeros(structure.n_weights)
        self.late = np.zeros(structure.n_weights if self.averaged else 0)  # sum_t (t - 1) (w_t - w_{t-1})
        self.steps = 0

    def epoch(self, number: int, stop: Callable[[], bool]) -> Report:
        """Once over all examples, or until stop() says so."""
        order = order_of(self.structure.n_examples, self.seed, number)
        at_once = self.settings.get("at_once", 1)
        report = Report()
        for start in range(0, len(order), at_once):
            if stop():
                break
            examples = order[start : start + at_once]
            found = self.update(self.structure, self.w, examples, self.settings)
            report.examples += len(examples)
            report.mistakes += found.mistakes
            report.loss += found.loss
            moved = False
            for row, factor in zip(found.rows, found.factors, strict=True):
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

    def certificate(self) -> None:
        return None


def score(row: Row, w: np.ndarray) -> float:
    """<row, w>"""
    return inner(row.indices, row.values, w)
