"""Crammer and Singer's problem: all classes' vectors together, a row's loss the largest by which another class beats
its own (kernels/crammer_singer.py has the formulas), and its certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from blocksvm.errors import InputError, called, said
from blocksvm.kernels.crammer_singer import crammer_singer_sums
from blocksvm.kernels.several import several_decision_values, sums_of_columns
from blocksvm.labels import SETS, require_labels
from blocksvm.problems.hinge import LOSS
from blocksvm.problems.loss import Loss
from blocksvm.problems.problem import (
    ROUNDING,
    ROUNDING_OF_W,
    Certificate,
    Decided,
    above_primal,
    check_costs,
    class_factors,
    overflowed,
    sums_by_class,
)
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source


@dataclass(frozen=True)
class CrammerSinger:
    """What is minimised.  cost (k,) float64: C times class weight, by the row's class; the rest is as ``Problem`` has
    it."""

    cost: np.ndarray
    bias: float
    n_samples: int
    costs: np.ndarray = field(init=False)  # (k + 1,): of a row without a label 0
    loss: Loss = LOSS
    own: tuple = ()
    real: bool = False
    unit: float = 1.0
    free_bias: bool = False

    def __post_init__(self):
        object.__setattr__(self, "costs", np.append(self.cost, 0.0))

    @property
    def n_problems(self) -> int:
        return len(self.cost)

    def codes(self, block: Block) -> np.ndarray:
        return block.y

    def sums(self, w: np.ndarray, prior: np.ndarray | None = None) -> CrammerSingerSums:
        """For a certificate of w (k, d + 1)."""
        return CrammerSingerSums(self, w, prior)


def crammer_singer(settings: Mapping, bias: float, source: Source) -> CrammerSinger:
    """The problem on a source; InputError where its rows have no classes, or the loss is another."""
    if settings["loss"] != "hinge":
        raise InputError(f"{said('multiclass', 'crammer-singer')}: has the hinge loss; leave {called('loss')} out")
    if source.label_kind == SETS:
        raise InputError(
            f"{source.name}: its rows have sets of labels, and {said('multiclass', 'crammer-singer')} takes one a row; "
            "leave it out"
        )
    require_labels(source)
    sums = sums_by_class(source, source.labels)
    total = math.fsum(sums)
    C = settings["C"] if settings["lam"] is None else 1.0 / (settings["lam"] * total)
    cost = C * np.array(class_factors(settings["class_weight"], source.labels, sums))
    check_costs(settings, cost, source, bias, float(cost.max()) * total)
    return CrammerSinger(cost, bias, source.n_samples)


class CrammerSingerSums:
    """Adds up a certificate block by block at one w (k, d + 1), as ``CertificateSums`` does; prior (d + 1, k), or
    (0, 0)."""

    def __init__(self, problem: CrammerSinger, w: np.ndarray, prior: np.ndarray | None = None):
        self.problem = problem
        k = len(problem.cost)
        self.w = np.ascontiguousarray(w.reshape(k, -1).T)
        norms = np.empty((k, 4))
        sums_of_columns(self.w, np.empty((0, 0)) if prior is None else prior.reshape(-1, k), norms)
        self.w_sq, self.distance_sq, self.along = (math.fsum(norms[:, column].tolist()) for column in range(3))
        self.parts: list[tuple[float, ...]] = []
        self.correct = self.labelled = 0

    def scores(self, block: Block) -> np.ndarray:
        """(n, k) float64: the decision values of a block's rows."""
        found = np.empty((block.n_samples, len(self.problem.cost)))
        several_decision_values(*block.matrix, self.w.reshape(-1), self.problem.bias, found)
        return found

    def add(self, scores: np.ndarray, block: Block, alpha: np.ndarray) -> None:
        """Add a block: its scores, and alpha (n, k) of its rows."""
        self.parts.append(crammer_singer_sums(scores, block.y, block.weights, alpha, self.problem.costs))
        self.correct += int(np.count_nonzero(scores.argmax(axis=1) == block.y))
        self.labelled += int(np.count_nonzero(block.y >= 0))

    def add_decided(self, decided: Decided, w: np.ndarray) -> None:
        raise NotImplementedError("no rows of this problem are decided")

    def _total(self, column: int) -> float:
        return math.fsum(part[column] for part in self.parts)

    def gap_so_far(self) -> float:
        """The sum of the gap's terms of the blocks added."""
        return self._total(1)

    def _along(self) -> float:
        """The length of the drift w - w(a) along w."""
        drift = abs(self._total(2) - self.along)
        return drift / math.sqrt(self.w_sq) if self.w_sq > 0.0 else drift

    def drift(self) -> float:
        """That length beyond the rounding of w itself, relative to ||w - w0||."""
        drift = max(self._along() - ROUNDING_OF_W * math.sqrt(self.w_sq), 0.0)
        return drift / math.sqrt(self.distance_sq) if self.distance_sq > 0.0 else drift

    def certificate(self) -> Certificate:
        """Raises InputError as ``CertificateSums`` does."""
        primal, along, of_rows = 0.5 * self.distance_sq + self._total(0), self._along(), self.gap_so_far()
        gap = of_rows + 0.5 * along * along
        if not (math.isfinite(primal) and math.isfinite(gap)):
            raise overflowed()
        if of_rows < -ROUNDING * (self._total(3) + self.distance_sq):
            raise above_primal(-of_rows, primal)
        gap = max(gap, 0.0)
        relative = gap / abs(primal) if primal != 0.0 else gap
        return Certificate(primal, primal - gap, relative, self.correct / max(1, self.labelled))
