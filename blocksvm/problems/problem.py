"""The problem that a run solves, and what it means to have solved it: primal, dual, their gap.

    primal  P(w) = 1/2 ||w - w0||^2 + sum_i C_i max(0, 1 - y_i <w, x_i>)^power
    dual    D(a) = sum_i a_i (1 - y_i <w0, x_i>) - 1/2 ||u(a)||^2 - 1/2 sum_i diagonal_i a_i^2
                 = sum_i a_i - 1/2 ||w(a)||^2 + 1/2 ||w0||^2 - 1/2 sum_i diagonal_i a_i^2
            with u(a) = sum_i a_i y_i x_i and w(a) = w0 + u(a); w0 is a prior model, or 0

Weak duality: D(a) <= P* <= P(w) for every feasible a and every w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from blocksvm.kernels.margins import certificate_sums, inner_product, sum_of_squares
from blocksvm.problems.losses import Loss


@dataclass(frozen=True)
class Problem:
    """What is minimised: the loss, C by class (negative, positive), the value of the constant feature."""

    loss: Loss
    cost: np.ndarray
    bias: float
    n_samples: int
    class_counts: tuple[int, int]

    @property
    def total_cost(self) -> float:
        """sum_i C_i; Pegasos' lambda is its inverse."""
        return math.fsum(c * n for c, n in zip(self.cost.tolist(), self.class_counts, strict=True))

    def box(self) -> tuple[np.ndarray, np.ndarray]:
        return self.loss.box(self.cost)


@dataclass(frozen=True)
class Certificate:
    """Primal, dual and gap over all rows for one fixed w; dual and rel_gap are None for a primal method, all three for
    an online learner."""

    primal: float | None
    dual: float | None
    rel_gap: float | None
    accuracy: float


def relative_gap(primal: float, dual: float) -> float:
    """(P - D) / |P|, absolute where P is 0; never below 0 (rounding)."""
    gap = max(0.0, primal - dual)
    return gap / abs(primal) if primal != 0.0 else gap


class CertificateSums:
    """Adds up a certificate block by block, all at one w.

    ||w(a)||^2 must be that of the a reported, while the w at hand was maintained by additions that round.  With
    s = sum_i a_i y_i <w, x_i> + <w, w0> = <w, w(a)>, which the same sweep gives,

        ||w(a)||^2 = 2 s - ||w||^2 + ||w - w(a)||^2,

    so D is known up to half of the drift's *square*.  After T additions to a coordinate the drift is at most
    about T * 1.1e-16 * max ||w||, so even T = 10^10 (a coordinate in every row of a billion, ten passes) leaves
    an error below 10^-11 of ||w||^2; ``drift`` is the measured part of it, |s - ||w||^2| / ||w||^2.
    """

    def __init__(self, problem: Problem, w: np.ndarray, prior: np.ndarray | None = None):
        self.problem = problem
        self.w_sq = sum_of_squares(w)
        has = prior is not None and len(prior) > 0
        self.cross = inner_product(w, prior) if has else 0.0
        self.prior_sq = sum_of_squares(prior) if has else 0.0
        self.parts: list[tuple[float, ...]] = []
        self.dual = True
        _, self.diagonal = problem.box()

    def add(self, margins: np.ndarray, y: np.ndarray, alpha: np.ndarray | None) -> None:
        """Add a block: margins y_i <w, x_i> (n,) float64, y (n,) int16, alpha (n,) float64 or None."""
        problem = self.problem
        self.dual = alpha is not None
        self.parts.append(certificate_sums(margins, y, alpha, problem.cost, problem.loss.power, self.diagonal))

    def gap_so_far(self) -> float:
        """sum_i C_i xi_i + a_i m_i - a_i + 1/2 diagonal_i a_i^2 of the blocks added; over all rows it is P - D."""
        loss, total, inner, squares, _ = (math.fsum(column) for column in zip(*self.parts, strict=True))
        return loss + inner - total + 0.5 * squares

    def drift(self) -> float:
        inner = math.fsum(part[2] for part in self.parts) + self.cross
        return abs(inner - self.w_sq) / self.w_sq if self.w_sq > 0.0 else abs(inner)

    def certificate(self) -> Certificate:
        loss, total, inner, squares, correct = (math.fsum(column) for column in zip(*self.parts, strict=True))
        primal = 0.5 * (self.w_sq - 2.0 * self.cross + self.prior_sq) + loss
        accuracy = correct / self.problem.n_samples
        if not self.dual:
            return Certificate(primal, None, None, accuracy)
        of_alpha = 2.0 * (inner + self.cross) - self.w_sq
        dual = total - 0.5 * of_alpha + 0.5 * self.prior_sq - 0.5 * squares
        return Certificate(primal, dual, relative_gap(primal, dual), accuracy)
