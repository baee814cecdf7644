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

from blocksvm.errors import InputError, said
from blocksvm.kernels.margins import certificate_sums, inner_product, sum_of_squares
from blocksvm.problems.losses import LOSSES, Loss
from blocksvm.sources.source import Labels, Source


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


LARGEST = 1e50  # of sum_i C_i ||x_i||, and of 1 / C_i: squares and quotients of these must stay finite


def make_problem(settings: dict, bias: float, source: Source) -> Problem:
    """The problem that settings (loss, C, lam, class_weight, as ``PROBLEM_SETTINGS`` resolves them) make of a source's
    rows; InputError unless it has two labels, or where double precision would not do."""
    labels = require_two_labels(source)
    negatives, positives = (count for _, count in source.label_counts)
    lam = settings["lam"]
    C = settings["C"] if lam is None else 1.0 / (lam * source.n_samples)
    problem = Problem(
        loss=LOSSES[settings["loss"]],
        cost=C * np.array(_class_weights(settings["class_weight"], labels, negatives, positives)),
        bias=bias,
        n_samples=source.n_samples,
        class_counts=(negatives, positives),
    )
    largest = max(1.0, source.max_norm, bias) * problem.total_cost
    if not (problem.cost.min() >= 1.0 / LARGEST and largest <= LARGEST):
        given = said("C", settings["C"]) if lam is None else said("lam", lam)
        raise InputError(
            f"{given}: is beyond what double precision can solve on these rows; choose one nearer to 1, or scale the "
            "values"
        )
    return problem


def _class_weights(given, labels: Labels, negatives: int, positives: int) -> tuple[float, float]:
    if given is None:
        return 1.0, 1.0
    if given == "balanced":
        return tuple((negatives + positives) / (2.0 * count) for count in (negatives, positives))
    for label, weight in given.items():
        if label not in (labels.negative, labels.positive):
            raise InputError(
                f"{said('class_weight', f'{label:g}={weight:g}')}: no row has this label; "
                f"the labels are {labels.negative:g} and {labels.positive:g}"
            )
    return given.get(labels.negative, 1.0), given.get(labels.positive, 1.0)


def require_two_labels(source: Source) -> Labels:
    """The two labels of a binary problem; InputError says what is there instead, and what to do."""
    if source.labels is not None and source.label_counts is not None and len(source.label_counts) == 2:
        return source.labels
    if source.label_counts is None:
        raise InputError(f"{source.name}: has more than 10,000 distinct labels; a binary solver needs two")
    found = [label for label, _ in source.label_counts]
    if len(found) == 1:
        raise InputError(
            f"{source.name}: all rows have the label {found[0]:g}; training needs rows of two classes, add the other"
        )
    if not found:
        raise InputError(f"{source.name}: has no labels; training needs rows of two classes")
    shown = ", ".join(f"{label:g}" for label in found[:5]) + (", ..." if len(found) > 5 else "")
    raise InputError(
        f"{source.name}: has {len(found)} labels ({shown}), but the solvers are binary; make one class against the "
        f"others, e.g. awk '{{$1 = ($1 == {found[0]:g}) ? 1 : -1}} 1' INPUT | python -m blocksvm.split - STORE.h5"
    )
