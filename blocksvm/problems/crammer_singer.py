"""Crammer and Singer's problem: all classes' vectors together, a row's loss the largest by which another class beats
its own (problems/crammer_singer_kernels.py has the formulas), and its certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import SETS, require_labels
from blocksvm.losses import get_loss
from blocksvm.losses.box import HINGE
from blocksvm.problems.certificate import CertificateSums
from blocksvm.problems.crammer_singer_kernels import crammer_singer_feasible, crammer_singer_sums
from blocksvm.problems.problem import Problem, check_costs, class_factors, sums_by_class, weight_of_losses
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source


class CrammerSingerSums(CertificateSums):
    """All classes' vectors as one."""

    def by_problem(self, of_vectors: np.ndarray) -> np.ndarray:
        return of_vectors.sum(axis=0, keepdims=True)

    def add_terms(self, scores: np.ndarray, within: np.ndarray, block: Block, alpha: np.ndarray | None) -> None:
        problem = self.problem
        self.totals += crammer_singer_sums(scores, within, block.y, block.weights, alpha, problem.costs)


class CrammerSinger(Problem):
    """cost (k,) float64: C times class weight, by the row's class; all else as ``Problem`` has it, with one certificate
    for the k vectors."""

    sums_type = CrammerSingerSums

    @property
    def costs(self) -> np.ndarray:
        """(k + 1,): of a row without a label 0."""
        return np.append(self.cost, 0.0)

    @property
    def live(self) -> np.ndarray:
        return np.zeros(1, np.int32)

    def make_feasible(
        self, alpha: np.ndarray, block: Block, ratio: np.ndarray, largest: np.ndarray | None = None
    ) -> None:
        crammer_singer_feasible(alpha, block.y, block.weights, self.costs, ratio)

    def coefficients(self, alpha: np.ndarray, block: Block, conjugates: np.ndarray) -> np.ndarray:
        others = np.arange(alpha.shape[1]) != block.y[:, None]
        conjugates[:, 0] += np.where(others, alpha, 0.0).sum(axis=0)
        return alpha


def crammer_singer(settings: Mapping, bias: float, source: Source) -> CrammerSinger:
    """The problem on a source; InputError where its rows have no classes, or the loss is another."""
    loss = get_loss(settings["loss"])
    if loss is not HINGE:
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
    return CrammerSinger(loss, cost, bias, source.n_samples, loss.at(settings), predicts=source.label_kind)
