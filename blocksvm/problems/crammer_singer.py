"""Crammer and Singer's problem: all classes' vectors together, a row's loss the largest by which another class beats
its own (kernels/crammer_singer_loops.py has the formulas), and its certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import SETS, require_labels
from blocksvm.kernels.crammer_singer_loops import crammer_singer_feasible, crammer_singer_sums
from blocksvm.losses import get_loss
from blocksvm.losses.box import HINGE
from blocksvm.problems.problem import as_near, check_costs, class_factors, sums_by_class, weight_of_losses
from blocksvm.problems.several_problems import SideBySideSums
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
    real: bool = False
    unit: float = 1.0
    free_bias: bool = False

    def __post_init__(self):
        object.__setattr__(self, "costs", np.append(self.cost, 0.0))

    @property
    def n_problems(self) -> int:
        return len(self.cost)

    def allows(self, alpha: np.ndarray, block: Block) -> bool:
        """Whether the dual variables (n, k) of a block's rows lie within their bounds, but for rounding."""
        near = alpha.copy()
        crammer_singer_feasible(near, block.y, block.weights, self.costs, np.ones(len(self.cost)))
        return as_near(alpha, near)

    def sums(self, w: np.ndarray, prior: np.ndarray | None = None) -> CrammerSingerSums:
        """For a certificate of w (k, d + 1)."""
        return CrammerSingerSums(self, w, prior)


def crammer_singer(settings: Mapping, bias: float, source: Source) -> CrammerSinger:
    """The problem on a source; InputError where its rows have no classes, or the loss is another."""
    if get_loss(settings["loss"]) is not HINGE:
        raise InputError(f"{option('multiclass', 'crammer-singer')}: has the hinge loss; leave {option('loss')} out")
    if source.label_kind == SETS:
        raise InputError(
            f"{source.name}: its rows have sets of labels, and {option('multiclass', 'crammer-singer')} takes one a "
            "row; leave it out"
        )
    require_labels(source)
    sums = sums_by_class(source, source.labels)
    total = math.fsum(sums)
    cost = weight_of_losses(settings, total) * np.array(class_factors(settings["class_weight"], source.labels, sums))
    check_costs(settings, cost, source, bias, float(cost.max()) * total)
    return CrammerSinger(cost, bias, source.n_samples)


class CrammerSingerSums(SideBySideSums):
    """Adds up a certificate block by block at one w, all classes' vectors as one, as ``CertificateSums`` does."""

    def __init__(self, problem: CrammerSinger, w: np.ndarray, prior: np.ndarray | None = None):
        super().__init__(problem, w, prior)
        self.w_sq, self.distance_sq, self.along = (math.fsum(column.tolist()) for column in self.norms.T[:3])

    def add(self, scores: np.ndarray, block: Block, alpha: np.ndarray, within: np.ndarray | None = None) -> None:
        """Add a block: its scores, and alpha (n, k) of its rows."""
        within = self.within(block) if within is None else within
        self.parts.append(crammer_singer_sums(scores, within, block.y, block.weights, alpha, self.problem.costs))
        self.gap_of_rows += self.parts[-1][1]
        self.count_classes(scores, block)
