"""The problem that a run solves, and what it means to have solved it: primal, dual, their gap.

    primal  P(w) = 1/2 ||w - w0||^2 + sum_i value(z_i, y_i, C_i),    z_i = <w, x_i>
    dual    D(a) = -sum_i conjugate(a_i, y_i, C_i) - 1/2 ||u(a)||^2 - <w0, u(a)>,    u(a) = sum_i a_i direction(y_i) x_i

with C_i = C * class weight * row weight and w(a) = w0 + u(a); w0 is a prior model, or 0.  Weak duality: D(a) <= P* <=
P(w) for every feasible a and every w, and

    P(w) - D(a) = sum_i [value_i + conjugate_i + a_i direction_i z_i] + 1/2 ||w - w(a)||^2,

a sum of terms that are never negative.

Rounding is counted, by its first-order bounds (Higham, Accuracy and Stability of Numerical Algorithms, 2002, sec. 3.1
and 4.2): a computed z_i lies within (m + 2) u sum_j |w_j x_ij| of the true one, of m additions,
u = 2^-53.  The loss and the gap's term of the row are convex in z_i, so that they are at most what they are at the ends
of that interval.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import label_text, listed, require_labels
from blocksvm.base.settings import Settings
from blocksvm.base.threads import ALONE, Threads
from blocksvm.kernels.dual_cd_loops import dual_coefficients, make_feasible
from blocksvm.kernels.free_bias_loops import sums_by_side
from blocksvm.kernels.loss_functions import SUMS, UNIT_ROUNDOFF
from blocksvm.kernels.margins import (
    add_rows,
    certificate_sums,
    decision_values,
    inner_with_difference,
    sizes_of_products,
    squared_distance,
    sum_of_squares,
)
from blocksvm.losses import get_loss
from blocksvm.losses.loss import Loss
from blocksvm.problems.free_bias import Repair
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS
from blocksvm.sources.block import Block
from blocksvm.sources.source import Labels, Source, first_chunk

LARGEST = 1e50  # of sum_i C_i ||x_i||, and of 1 / C_i: squares and quotients of these must stay finite

ROUNDING_OF_W = 2.0**-49  # relative: a drift of the weights that anything held in double precision may have
ROUNDING = 1e-9  # relative to the magnitude of what is added up: a dual that lies further above the primal is wrong
OF_TERMS = 32.0 * UNIT_ROUNDOFF  # of their magnitudes: what the functions of a loss round off, at most
CLOSE = 1e-11  # of the unit of decision values over the cost of a row: as near a cheap bound is good enough


@dataclass(frozen=True)
class Problem:
    """The problem that is minimised.

    cost (2,) float64: C times class weight, by class (negative, positive; equal where targets are real numbers); bias:
    value of the constant feature; weight_sums: sums of the rows' weights by class (without weights: numbers of rows);
    function: the loss at its settings, as kernels take it; unit: of decision values: 1, the margin, or
    where targets are real numbers about their distance from each other; free_bias: the constant feature's weight is
    not regularised (problems/free_bias.py); apart: w need not be the w of the dual variables certified with it.
    """

    loss: Loss
    cost: np.ndarray
    bias: float
    n_samples: int
    weight_sums: tuple[float, float]
    function: Any
    unit: float = 1.0
    free_bias: bool = False
    apart: bool = False

    @property
    def real(self) -> bool:
        """The targets are real numbers."""
        return self.loss.of_numbers

    @property
    def total_cost(self) -> float:
        """sum_i C_i; Pegasos' lambda is its inverse."""
        return math.fsum(c * n for c, n in zip(self.cost.tolist(), self.weight_sums, strict=True))

    def allows(self, alpha: np.ndarray, block: Block) -> bool:
        """Whether the dual variables of a block's rows lie within their bounds, but for rounding."""
        near = alpha.copy()
        row = block.y, block.weights, self.cost_by_sign(), self.function
        make_feasible(near, *row, np.ones(2), 1.0)
        return as_near(alpha, near)

    def sums(self, w: np.ndarray, prior: np.ndarray | None = None) -> CertificateSums:
        """For a certificate of w (d + 1,)."""
        return (SumsApart if self.apart else CertificateSums)(self, w, prior)

    def cost_by_sign(self) -> np.ndarray:
        """(3,) float64: of rows with y < 0, y = 0 and y > 0, as the kernels take it; of two classes, 0 is no label."""
        negative, positive = self.cost.tolist()
        return np.array([negative, positive if self.real else 0.0, positive])


def problem_settings(values: Mapping) -> Settings:
    """``PROBLEM_SETTINGS`` and those of the loss that is given."""
    loss = get_loss(PROBLEM_SETTINGS.resolve({"loss": values.get("loss")}, "a problem")["loss"])
    return PROBLEM_SETTINGS + loss.settings


def make_problem(settings: Mapping, bias: float, source: Source) -> Problem:
    """The problem on a source; settings: as ``PROBLEM_SETTINGS`` resolves them, the loss's own among them.

    Raises InputError where the source's labels are not what the loss needs, and where the costs are beyond what double
    precision can solve.
    """
    loss = get_loss(settings["loss"])
    class_weight = settings["class_weight"]
    if loss.of_numbers:
        if class_weight is not None:
            raise InputError(f"{option('class_weight', class_weight)}: {loss.name} has no classes; leave it out")
        if source.n_unlabelled:
            raise InputError(f"{source.name}: {source.n_unlabelled:,} rows have no target; {loss.name} needs one a row")
        sums, weights, unit = (0.0, source.total_weight), (1.0, 1.0), _unit(source)
    else:
        labels = require_two_labels(source)
        sums = sums_by_class(source, labels)
        weights, unit = class_factors(class_weight, labels, sums), 1.0
    C = weight_of_losses(settings, math.fsum(sums))
    cost = C * np.array(weights)
    problem = Problem(loss, cost, bias, source.n_samples, sums, loss.at(settings), unit)
    check_costs(settings, problem.cost, source, bias, problem.total_cost)
    return problem


def weight_of_losses(settings: Mapping, total: float) -> float:
    """C, or what it is by lambda for rows of this total weight."""
    return settings["C"] if settings["lam"] is None else 1.0 / (settings["lam"] * total)


def check_costs(settings: Mapping, cost: np.ndarray, source: Source, bias: float, total: float) -> None:
    """InputError where costs, or their ``total`` over a source's rows, are beyond what double precision can solve."""
    largest = max(1.0, source.max_norm, bias) * total
    if not (cost.min() >= 1.0 / LARGEST and largest <= LARGEST):
        wrong = option("C", settings["C"]) if settings["lam"] is None else option("lam", settings["lam"])
        raise InputError(
            f"{wrong}: is beyond what double precision can solve on these rows; choose one nearer to 1, or scale the "
            "values"
        )


def _unit(source: Source) -> float:
    """The standard deviation of the targets of a source's first chunk, or 1 where they are all the same."""
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(np.std(first_chunk(source, real=True).y))
    return spread if 0.0 < spread < math.inf else 1.0


def sums_by_class(source: Source, labels: Labels) -> tuple[float, ...]:
    """Sums of the rows' weights by class (without weights: rows), rising; InputError where fewer than two
    classes have one above 0."""
    if source.label_weights is None:
        return tuple(count for _, count in source.label_counts)
    without = [label for label, total in zip(labels.values, source.label_weights, strict=True) if not total > 0.0]
    if len(labels.values) - len(without) < 2:
        raise InputError(
            f"{source.name}: all rows of label {listed(without[:5])} have weight 0; training needs two classes"
        )
    return tuple(source.label_weights)


def class_factors(class_weight, labels: Labels, sums: tuple[float, ...]) -> tuple[float, ...]:
    """The weights of the classes, rising: 1, or by ``class_weight`` (ClassWeights of problem_settings.py), where
    'balanced' makes the classes' sums of weights equal, and their total what it was."""
    if class_weight is None:
        return (1.0,) * len(sums)
    if class_weight == "balanced":
        there = sum(total > 0.0 for total in sums)
        return tuple(math.fsum(sums) / (there * total) if total > 0.0 else 1.0 for total in sums)
    # by their text: a label that is the string '1' is given as 1, too
    named = {label_text(label): weight for label, weight in class_weight.items()}
    known = [label_text(label) for label in labels.values]
    for label, weight in named.items():
        if label not in known:
            shown = known[0] + " and " + known[1] if len(known) == 2 else listed(labels.values[:5])
            raise InputError(
                f"{option('class_weight', f'{label}={weight:g}')}: no row has this label; the labels are {shown}"
                f"{', ...' if len(known) > 5 else ''}"
            )
    return tuple(named.get(label, 1.0) for label in known)


def require_two_labels(source: Source) -> Labels:
    """The two labels of a binary problem; InputError says what is there instead, and what to do."""
    require_labels(source)
    if source.labels is not None and source.label_counts is not None and len(source.label_counts) == 2:
        return source.labels
    labels = [label for label, _ in source.label_counts]
    first = label_text(labels[0])
    shown = listed(labels[:5]) + (", ..." if len(labels) > 5 else "")
    raise InputError(
        f"{source.name}: has {len(labels)} labels ({shown}), but this solver takes two; {option('solver', 'dual-cd')} "
        "and the online learners take more, or make one class against the others, e.g. "
        f"awk '{{$1 = ($1 == {first}) ? 1 : -1}} 1' INPUT | blocksvm split - STORE.h5"
    )


def predicted(scores: np.ndarray) -> np.ndarray:
    """What decision values say, in the codes of ``Block.y``: of two classes (n,) the sign, where 0 is the negative
    class; of k classes (k, n) the one of the largest value, the first of equals."""
    return np.where(scores > 0.0, 1, -1) if scores.ndim == 1 else scores.argmax(axis=0)


@dataclass(frozen=True)
class Certificate:
    """Primal, dual and gap over all rows for one fixed w; dual and rel_gap are None for a primal method, all three for
    an online learner.  accuracy: the share of the rows with a label whose label is predicted; None where targets are
    real numbers.  rmse: of these, the root of the mean squared error of the rows; None where some were not read.
    Whatever was rounded, P(w) <= primal, D(a) >= dual, and the relative gap <= rel_gap, but for a drift of w across
    itself (``CertificateSums``); rounding: the part of rel_gap that is the bound of what was rounded.
    alpha_factors: with a free bias, by which the saved dual variables with a direction < 0 and above 0 are to be
    multiplied, so that sum a direction = 0: the dual is theirs.  by_class: of several problems, one a
    class, the primal, dual, rel_gap and rounding of each; then primal and dual are their sums, and the others those of
    the largest gap."""

    primal: float | None
    dual: float | None
    rel_gap: float | None
    accuracy: float | None
    rmse: float | None = None
    alpha_factors: tuple[float, float] | None = None
    by_class: dict[str, list[float]] | None = None
    rounding: float | None = None

    def same(self, other: Mapping) -> bool:
        """Its figures are those of another one, as a checkpoint has it."""
        return all(getattr(self, name) == other[name] for name in ("primal", "dual", "rel_gap"))

    def ends(self, tol: float) -> str | None:
        """Why a run with this tolerance ends here: 'converged'; 'rounding' where some of its problems have not, and
        cannot (``decided_by_rounding``); None where one goes on."""
        if self.rel_gap is None or self.rel_gap <= tol:
            return None if self.rel_gap is None else "converged"
        of_each = {"rel_gap": [self.rel_gap], "rounding": [self.rounding or 0.0]} | (self.by_class or {})
        gaps, rounding = np.array(of_each["rel_gap"]), np.array(of_each["rounding"])
        return "rounding" if ((gaps <= tol) | decided_by_rounding(gaps, rounding, tol)).all() else None


def decided_by_rounding(rel_gap, rounding, tol: float):
    """Whether the bound of what a certificate's sums have rounded off is above the tolerance, and half of the gap or
    more: then a better w has no better certificate.  With a tolerance of 0 a limit is to end the run.  Of floats or of
    arrays."""
    return (tol > 0.0) & (rounding > tol) & (0.5 * rel_gap <= rounding)


class CertificateSums:
    """Adds up a certificate block by block, all at one w.

    The dual is that of the a reported, while w was maintained by additions that round: the gap holds
    1/2 ||w - w(a)||^2, of which the same sweep measures the part along w, since <w, u(a)> = sum_i a_i direction_i z_i.
    After T additions to a coordinate the drift is at most about T * 1.1e-16 * max |w|, so even T = 10^10 (a coordinate
    in every row of a billion, ten passes) leaves an error below 10^-11 of ||w||^2.
    """

    threads: Threads = ALONE
    repair: Repair | None = None
    constant = 0.0
    squared_errors: list[float] | None = None
    dual = True
    gap_of_rows = 0.0  # as the blocks are added
    moves_alpha = False  # whether ``add`` changes the alpha that it is given
    ADDED: tuple[str, ...] = ("parts", "gap_of_rows", "correct", "labelled", "squared_errors", "repair")

    def __init__(self, problem: Problem, w: np.ndarray, prior: np.ndarray | None = None):
        self.problem = problem
        self.w = w
        self.cost = problem.cost_by_sign()
        if problem.free_bias:  # the constant feature's weight has no part in the norms
            self.constant = problem.bias * float(w[-1])
            w, prior = w[:-1], prior if prior is None else prior[:-1]
        self.lengths = np.sqrt([sum_of_squares(self.w)])
        self.w_sq = sum_of_squares(w)
        self.distance_sq = self.w_sq  # ||w - w0||^2, never by a difference of squares
        self.along = self.w_sq  # <w, w - w0>
        if prior is not None and len(prior) > 0:
            self.distance_sq = squared_distance(w, prior)
            self.along = inner_with_difference(w, w, prior)
        self.clear()

    def clear(self) -> None:
        """No block has been added."""
        self.parts: list[tuple[float, ...]] = []
        self.correct, self.labelled, self.gap_of_rows = 0, 0, 0.0
        self.squared_errors = [] if self.problem.real else None
        self.repair = Repair() if self.problem.free_bias else None

    def added(self) -> dict:
        """What the blocks have added, for the ``merge`` of other sums at the same w."""
        return {name: getattr(self, name) for name in self.ADDED}

    def merge(self, added: Mapping) -> None:
        """Add what other sums have of other blocks."""
        for name, value in added.items():
            if value is not None:
                setattr(self, name, getattr(self, name) + value)

    def scores(self, block: Block) -> np.ndarray:
        """(n,) float64: the decision values of a block's rows."""
        scores = np.empty(block.n_samples)
        indptr, indices, values = block.matrix

        def fill(rows: slice) -> None:
            ends = indptr[rows.start : rows.stop + 1]
            decision_values(ends, indices, values, self.w, self.problem.bias, scores[rows])

        self.threads.over_rows(fill, indptr)
        return scores

    def within(self, block: Block) -> np.ndarray:
        """(n,): by how much the scores of a block's rows may be off."""
        return errors_of_scores(block, self.w.reshape(-1, 1), self.lengths, self.problem).reshape(-1)

    def add(self, scores: np.ndarray, block: Block, alpha: np.ndarray | None, within: np.ndarray | None = None) -> None:
        """Add a block: scores <w, x_i> (n,) float64, alpha (n,) float64 of its rows or None; within: as the method of
        that name has it, where the block is without its entries."""
        problem = self.problem
        self.dual = alpha is not None
        within = self.within(block) if within is None else within
        row = (block.y, block.weights, alpha, self.cost, problem.function)
        self.parts.append(certificate_sums(scores, within, *row))
        self.gap_of_rows += self.parts[-1][1]
        if self.repair is not None and self.dual:
            self.repair.add(sums_by_side(scores, *row, block.sq_norms))
        if not problem.real:
            self.correct += int(np.count_nonzero(predicted(scores) == block.y))
            self.labelled += int(np.count_nonzero(block.y))
        elif self.squared_errors is not None:
            self.squared_errors.append(squared_distance(scores, block.y))

    def _totals(self) -> list[float]:
        """What ``certificate_sums`` has of all blocks."""
        return [math.fsum(column) for column in np.array(self.parts).reshape(-1, SUMS).T.tolist()]

    def gap_so_far(self) -> float:
        """About the sum of the gap's terms of the blocks added, by one addition a block."""
        return self.gap_of_rows

    def _along(self) -> float:
        """The length of the drift w - w(a) along w: |<w, w - w(a)>| / ||w||."""
        product = self._totals()[2]
        if self.repair is not None:  # <w, x_i> without the bias
            product -= self.constant * self.repair.net()
        drift = abs(product - self.along)
        return drift / math.sqrt(self.w_sq) if self.w_sq > 0.0 else drift

    def drift(self) -> float:
        """That length beyond the rounding of w itself, relative to ||w - w0||."""
        drift = max(self._along() - ROUNDING_OF_W * math.sqrt(self.w_sq), 0.0)
        return drift / math.sqrt(self.distance_sq) if self.distance_sq > 0.0 else drift

    def certificate(self) -> Certificate:
        """Raises InputError where the sums are not finite, or the dual lies above the primal beyond rounding."""
        *terms, moved, products = self._totals()
        n = self.problem.n_samples
        along = self._along() if self.dual else 0.0
        off = self._along_within(moved, products) if self.dual else 0.0
        bounds = with_bounds(terms, n, len(self.w), self.distance_sq, along, along * along, off)
        accuracy = None if self.problem.real else self.correct / max(1, self.labelled)
        rmse = None
        if self.squared_errors is not None:
            rmse = math.sqrt(math.fsum(self.squared_errors) / self.problem.n_samples)
            if not math.isfinite(rmse):
                raise overflowed()
        if not self.dual:
            if not math.isfinite(bounds.primal):
                raise overflowed()
            return Certificate(bounds.primal + bounds.more, None, None, accuracy, rmse)
        factors = None
        if self.repair is not None:
            factors = self.repair.factors()
            wider = (1.0 - min(factors)) * (moved + (OF_TERMS + rounding_of_sums(n, 1.0)) * terms[3])
            gap = bounds.gap + self.repair.cost(2.0 * rounding_of_sums(n, 1.0))
            bounds = bounds._replace(gap=gap, wider=bounds.wider + wider)
        figures = certified(*bounds)
        return Certificate(*figures[:3], accuracy, rmse, factors, rounding=figures[3])

    def _along_within(self, moved: float, products: float) -> float:
        """By how much the length of ``_along`` may be larger: moved, products: by how much
        sum_i a_i direction_i z_i may be by the rounding of z, and the sum of its terms' absolute values."""
        size = max(self.w_sq, math.sqrt(self.w_sq * self.distance_sq))
        rounded = moved + rounding_of_sums(self.problem.n_samples, products) + rounding_of_sums(len(self.w), size)
        if self.repair is not None:
            rounded += abs(self.constant) * rounding_of_sums(self.problem.n_samples, self.repair.total())
        return rounded / math.sqrt(self.w_sq) if self.w_sq > 0.0 else rounded


class SumsApart(CertificateSums):
    """Of a w and dual variables whose weights w(a) are others: these are added up in the same sweep, and

        P(w) - D(a) = sum_i [value_i + conjugate_i + a_i direction_i z_i] + 1/2 ||w - w(a)||^2

    holds nothing that cancels.  An a that its row's bounds do not allow is moved to the nearest that they do, in place.
    """

    moves_alpha = True

    def __init__(self, problem: Problem, w: np.ndarray, prior: np.ndarray | None = None):
        super().__init__(problem, w, prior)
        self.rebuilt = np.zeros(len(w)) if prior is None or not len(prior) else prior.copy()
        self.added_lengths = math.sqrt(sum_of_squares(self.rebuilt))

    def add(self, scores: np.ndarray, block: Block, alpha: np.ndarray | None, within: np.ndarray | None = None) -> None:
        if alpha is not None:
            problem = self.problem
            row = (alpha, block.y, block.weights, self.cost, problem.function)
            make_feasible(*row, np.ones(2), 1.0)
            coefficients = np.empty(len(alpha))
            dual_coefficients(*row, coefficients)
            add_rows(*block.matrix, coefficients, problem.bias, self.rebuilt)
            self.added_lengths += float(np.abs(coefficients) @ np.sqrt(block.sq_norms + problem.bias**2))
        super().add(scores, block, alpha, within)

    def _along(self) -> float:
        w, rebuilt = (self.w[:-1], self.rebuilt[:-1]) if self.problem.free_bias else (self.w, self.rebuilt)
        return math.sqrt(squared_distance(w, rebuilt))

    def _along_within(self, moved: float, products: float) -> float:
        """Of the sum of the rows, whose additions round."""
        return rounding_of_sums(self.problem.n_samples, self.added_lengths)

    def drift(self) -> float:
        return 0.0


def errors_of_scores(block: Block, w: np.ndarray, lengths: np.ndarray, problem) -> np.ndarray:
    """(n, k): by how much the decision values of a block's rows may be off at w (d + 1, width), whose k vectors have
    these lengths: m u sum_j |w_j x_ij|, of m operations one after the other; that sum is ||w|| ||x_i|| at most, which
    costs nothing."""
    with np.errstate(over="ignore", invalid="ignore"):
        operations = np.diff(block.indptr) + 2.0
        if w.shape[1] == 1:  # four sums are made beside each other
            np.minimum(operations, 0.25 * operations + 6.0, out=operations)
        out = np.multiply.outer(np.sqrt(block.sq_norms + problem.bias**2), lengths)
        out *= UNIT_ROUNDOFF * operations[:, None]
        if not out.max(initial=0.0) * max(1.0, float(np.max(problem.cost))) <= CLOSE * problem.unit:
            sizes_of_products(*block.matrix, w.reshape(-1), w.shape[1], problem.bias, out)
            out *= UNIT_ROUNDOFF * operations[:, None]
    return out


def rounding_of_sums(n: int, total):
    """By how much a sum of n terms that are not negative may be off, where they are added one after the other."""
    return UNIT_ROUNDOFF * (n + 8.0) * total


class Bounds(NamedTuple):
    """What ``certified`` takes, of one problem (floats) or of several (k,)."""

    primal: Any
    gap: Any
    of_rows: Any
    magnitude: Any
    more: Any
    wider: Any
    least: Any


def with_bounds(terms, n: int, d: int, distance, along, square, off) -> Bounds:
    """terms: the first six of ``SUMS``; n, d: by how many additions of rows and of features they and the norms were
    made; distance: ||w - w0||^2; along, square: ||w - w(a)|| and its square; off: by how much the former may be
    larger."""
    loss, of_rows, _, magnitude, more, wider = terms
    primal = 0.5 * distance + loss
    more = more + (rounding_of_sums(n, loss) + rounding_of_sums(d, primal))
    wider = wider + (OF_TERMS * magnitude + rounding_of_sums(n, of_rows)) + (along + 0.5 * off) * off
    return Bounds(primal, of_rows + 0.5 * square, of_rows, magnitude + distance, more, wider, 0.5 * distance)


def certified(
    primal: float, gap: float, of_rows: float, magnitude: float, more: float, wider: float, least: float
) -> tuple[float, float, float, float]:
    """(primal, dual, relative gap, the part of it that is rounding) with what was rounded counted.

    of_rows: the gap's terms of the rows, which are never negative; magnitude: of what they are added up from; more,
    wider: by how much primal and gap may be off; least: what the primal is in any case.  InputError where the sums are
    not finite, or the dual lies above the primal beyond rounding."""
    if not (math.isfinite(primal + more) and math.isfinite(gap + wider)):
        raise overflowed()
    if of_rows < -ROUNDING * magnitude:
        raise InputError(
            f"no certificate: the dual lies {-of_rows:.3g} above the primal {primal:.10g}, more than rounding "
            "explains; the dual variables are not feasible, or the values too large for double precision: scale them, "
            "or choose a smaller C"
        )
    gap = max(gap, 0.0) + wider
    least = max(primal - more, (1.0 - ROUNDING) * least)
    # of a primal of 0 the absolute gap; where no part of it is known, no relative gap is
    unit = least if least > 0.0 else sys.float_info.min if primal + more > 0.0 else 1.0
    rel_gap, rounding = (min(part / unit, sys.float_info.max) for part in (gap, wider))
    return primal + more, primal - more - gap, rel_gap, rounding


def as_near(alpha: np.ndarray, near: np.ndarray) -> bool:
    """Whether dual variables are, but for rounding, those that are allowed next to them."""
    return bool((np.abs(alpha - near) <= ROUNDING * np.abs(near).max(initial=0.0)).all())


def overflowed() -> InputError:
    """What is said where a certificate's sums are not finite numbers: they certify nothing."""
    return InputError("no certificate: the sums are not finite numbers; scale the values, or choose a smaller C")
