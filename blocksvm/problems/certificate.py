"""Certificates: primal, dual and gap of k problems over all rows for one fixed w each, with what was rounded counted.

    P(w) - D(a) = sum_i [value_i + conjugate_i + a_i direction_i z_i] + 1/2 ||w - w(a)||^2

is a sum of terms that are never negative (problem.py).  w was maintained by T additions that round, so it is not quite
w(a) = w0 + sum_i a_i direction_i x_i.  Adding s x to w rounds off at most u (||w|| + ||s x||), and s x is a difference
of two of the w, so that

    ||w - w(a)|| <= 3 u T max_t ||w_t||,    ||w_t|| <= sqrt(2 (sum_i value_i(0) - D(a_0))) + ||w0||,

as each step raises D = -sum conjugate_i - 1/2 ||w_t||^2 + 1/2 ||w0||^2 from where it began, D(a_0), and conjugate_i >=
-value_i(0).  The part of the difference along w is measured besides, since <w, u(a)> = sum_i a_i direction_i z_i.
Where w is none of these sums (Pegasos), w(a) is added up in the same sweep.

Rounding is counted by its first-order bounds (Higham, Accuracy and Stability of Numerical Algorithms, 2002, sec. 3.1
and 4.2): a computed z_i lies within (m + 2) u sum_j |w_j x_ij| of the true one, of m additions, u = 2^-53.  The loss
and the gap's term of the row are convex in z_i, so that they are at most what they are at the ends of that interval.

*A bias that is not regularised*: min over w and b of 1/2 ||w - w0||^2 + sum_i value(<w, x_i> + b, y_i, C_i).

Its dual is that without a bias, for dual variables with sum_i a_i direction_i = 0.  It is solved by the method of
multipliers (Hestenes, Powell, 1969; Rockafellar, Math. Oper. Res. 1, 1976): a constant feature of value B whose weight
is regularised towards c, 1/2 (b / B - c)^2, where c moves to b / B before each outer iteration.

The certificate's dual variables are the current ones, repaired: on the side where |a direction| has the larger sum they
are multiplied by a factor f <= 1 that makes both sums equal.  Since the conjugates are convex and 0 at a = 0,
conjugate(f a) <= f conjugate(a), and the gap of the repaired a is at most

    sum_i [value_i + f_i (conjugate(a_i) + a_i direction_i z_i)] + 1/2 (1 - f)^2 (sum of |a_i| ||x_i|| of that side)^2

where w = w0 + sum_i a_i direction_i x_i for the current a: their difference is (1 - f) times that side's sum.
"""

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import SETS
from blocksvm.base.threads import ALONE, Threads
from blocksvm.base.vectors import together
from blocksvm.kernels.columns import add_rows, decision_values, sizes_of_products, squared_drifts, squared_norms
from blocksvm.kernels.loss_functions import SUMS, UNIT_ROUNDOFF
from blocksvm.problems.problem_kernels import certificate_sums, sums_by_side
from blocksvm.sources.block import Block
from blocksvm.store.descriptions import CertificateMeta

ROUNDING = 1e-9  # relative to the magnitude of what is added up: a dual that lies further above the primal is wrong
OF_TERMS = 32.0 * UNIT_ROUNDOFF  # of their magnitudes: what the functions of a loss round off, at most
CLOSE = 1e-11  # of the unit of decision values over the cost of a row: as near a cheap bound is good enough
CERTIFIED = ("primal", "dual", "rel_gap", "rounding")  # figures of each problem
REL_GAP, ROUNDED = 2, 3  # where the last two of them stand
ADDITIONS, DRIFT, LEAST = range(3)  # of each problem's history: T, the rounding of w where it began, and -D(a_0) or 0
NOTHING = np.empty((0, 0))  # in the place of a prior


@dataclass(frozen=True)
class Certificate(CertificateMeta):
    @property
    def of_each(self) -> np.ndarray:
        """(k, 4): ``CERTIFIED`` of each problem, where it has a dual."""
        by_class = self.by_class or {name: [getattr(self, name)] for name in CERTIFIED}
        return np.array([by_class[name] for name in CERTIFIED], np.float64).T

    def ends(self, tol: float) -> str | None:
        """Why a run with this tolerance ends here: 'converged'; 'rounding' where some of its problems have not, and
        cannot (``at_their_end``); None where one goes on."""
        if self.rel_gap is None:
            return None
        if self.rel_gap <= tol:
            return "converged"
        return "rounding" if at_their_end(self.of_each, tol).all() else None


def at_their_end(figures: np.ndarray, tol: float) -> np.ndarray:
    """(k,) bool: which problems have a gap (k, 4) within the tolerance; or one above it of which half or more is what
    sums have rounded off: a better w has no better certificate.  With a tolerance of 0 a limit is to end the run."""
    gaps, rounding = figures[:, REL_GAP], figures[:, ROUNDED]
    return (gaps <= tol) | ((tol > 0.0) & (rounding > tol) & (0.5 * gaps <= rounding))


def certificate_of(figures: np.ndarray, accuracy: float | None, rmse: float | None = None,
                   factors: tuple[float, float] | None = None, each: bool = True) -> Certificate:  # fmt: skip
    """The sums of primals and duals of figures (k, 4), and the largest of the gaps; each: and those of each problem."""
    primals, duals, gaps, rounding = figures.T.tolist()
    largest = gaps.index(max(gaps))
    by_class = dict(zip(CERTIFIED, figures.T.tolist(), strict=True)) if each else None
    sums = math.fsum(primals), math.fsum(duals)
    return Certificate(*sums, gaps[largest], accuracy, rmse, factors, by_class, rounding[largest])


def predicted(scores: np.ndarray) -> np.ndarray:
    """What decision values (k, n) say, in the codes of ``Block.y``: of two classes (k = 1) the sign, where 0 is the
    negative class; of more the one of the largest value, the first of equals."""
    return np.where(scores[0] > 0.0, 1, -1) if len(scores) == 1 else scores.argmax(axis=0)


def norms_of(w: np.ndarray, k: int, prior: np.ndarray = NOTHING) -> np.ndarray:
    """(k, 4) of the first k columns of w (m, width) and a prior of that shape, as ``squared_norms`` has them."""
    norms = np.empty((k, 4))
    squared_norms(w, prior, norms)
    return norms


class CertificateSums:
    """Adds up the certificates of a problem's columns block by block, all at one w (k, d + 1).  prior (d + 1, width) or
    (0, 0); rebuilt (d + 1, width): gains w(a) - w0, of a w that is not made of a."""

    threads: Threads = ALONE
    dual = True
    ADDED: tuple[str, ...] = ("totals", "correct", "labelled", "squared_error", "sides", "lengths_added")

    def __init__(self, problem, w: np.ndarray, prior: np.ndarray = NOTHING, rebuilt: np.ndarray | None = None):
        self.problem = problem
        self.additions = problem.n_samples  # of rows, or sums of them, one after the other
        columns = w.reshape(-1, 1) if problem.n_problems == 1 else together(w)
        assert columns is not None, "vectors lie side by side"
        self.w = columns
        self.prior, self.rebuilt = prior, rebuilt
        # a constant feature whose weight is not regularised has no part in the norms
        self.regularised = slice(None, -1 if problem.free_bias else None)
        self.constant = problem.bias * float(self.w[-1, 0]) if problem.free_bias else 0.0
        self.live = problem.live
        self.correct = self.labelled = 0
        n = len(self.by_problem(np.empty((problem.n_problems, 1))))
        self.totals, self.lengths_added = np.zeros((n, SUMS)), np.zeros(n)
        self.squared_error = 0.0 if problem.real and problem.sides is None else None
        self.sides = np.zeros((2, 3)) if problem.free_bias else None  # ``sums_by_side``
        if rebuilt is not None:
            rebuilt[:] = 0.0

    @cached_property
    def lengths(self) -> np.ndarray:
        """(k,): of each vector."""
        return np.sqrt(norms_of(self.w, self.problem.n_problems)[:, 0])

    @cached_property
    def norms(self) -> np.ndarray:
        """Of each problem, as ``norms_of`` has them."""
        part = self.regularised
        return self.by_problem(norms_of(self.w[part], self.problem.n_problems, self.prior[part]))

    def by_problem(self, of_vectors: np.ndarray) -> np.ndarray:
        """Numbers of each vector, of each problem."""
        return of_vectors

    def added(self) -> dict:
        """What the blocks have added, for the ``merge`` of other sums at the same w."""
        return {name: getattr(self, name) for name in self.ADDED}

    def merge(self, added: Mapping) -> None:
        """Add what other sums have of other blocks."""
        for name, value in added.items():
            if value is not None:
                setattr(self, name, getattr(self, name) + value)

    def scores(self, block: Block) -> np.ndarray:
        """(n, k) float64: the decision values of a block's rows."""
        scores = np.empty((block.n_samples, self.problem.n_problems))
        self._fill(decision_values, block, scores)
        return scores

    def _fill(self, kernel: Callable, block: Block, out: np.ndarray) -> None:
        """``out`` (n, k) by a kernel, with threads."""
        entries, w, bias = block.entries, self.w, self.problem.bias

        def fill(rows: slice) -> None:
            kernel(entries.of_rows(rows), w, bias, out[rows])

        self.threads.over_rows(fill, entries.indptr, w.shape[1])

    def within(self, block: Block) -> np.ndarray:
        """(n, k): by how much the scores of a block's rows may be off: m u sum_j |w_j x_ij|, of m operations one after
        the other; that sum is ||w|| ||x_i|| at most, which costs nothing."""
        problem = self.problem
        with np.errstate(over="ignore", invalid="ignore"):
            operations = block.lengths + 2.0
            if self.w.shape[1] == 1:  # four sums are made beside each other
                np.minimum(operations, 0.25 * operations + 6.0, out=operations)
            out = np.multiply.outer(np.sqrt(block.sq_norms + problem.bias**2), self.lengths)
            out *= UNIT_ROUNDOFF * operations[:, None]
            if not out.max(initial=0.0) * max(1.0, float(np.max(problem.cost))) <= CLOSE * problem.unit:
                self._fill(sizes_of_products, block, out)
                out *= UNIT_ROUNDOFF * operations[:, None]
        return out

    def add(self, scores: np.ndarray, block: Block, alpha: np.ndarray | None, within: np.ndarray | None = None) -> None:
        """Add a block: scores (n, k) and alpha (n, k) of its rows, None of a primal method; within: as the method of
        that name has it, where the block is without its entries."""
        problem = self.problem
        self.dual = alpha is not None
        self.add_terms(scores, self.within(block) if within is None else within, block, alpha)
        if problem.predicts is not None:
            self.count_labels(scores, block.y)
        if self.squared_error is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                self.squared_error += float(np.square(scores[:, 0] - block.y).sum())
        if alpha is not None and self.rebuilt is not None:
            coefficients = problem.coefficients(alpha, block, np.zeros((len(self.totals), 3)))
            add_rows(block.entries, coefficients, problem.bias, self.rebuilt)
            np.abs(coefficients, out=coefficients)
            self.lengths_added += self.by_problem(np.sqrt(block.sq_norms + problem.bias**2) @ coefficients)

    def count_labels(self, scores: np.ndarray, y: np.ndarray) -> None:
        """Of rows of codes y (n,): those with a label, and those whose label is what their scores (n, k) say."""
        problem = self.problem
        if problem.predicts == SETS:
            right = ((scores > 0.0) == (problem.sides.table[y] > 0)).all(axis=1)
        else:
            right = predicted(scores.T) == y
        labelled = y if problem.sides is None and problem.n_problems == 1 else y >= 0
        self.correct += int(np.count_nonzero(right))
        self.labelled += int(np.count_nonzero(labelled))

    def add_terms(self, scores: np.ndarray, within: np.ndarray, block: Block, alpha: np.ndarray | None) -> None:
        """``totals`` (k, SUMS) gain what ``terms_of_gap`` has of the rows."""
        rows = self.problem.rows(block)
        sums = np.zeros_like(self.totals)
        certificate_sums(scores, within, *rows, self.problem.columns(self.live), alpha, sums)
        self.totals += sums
        if self.sides is not None and alpha is not None:
            self.sides += sums_by_side(scores, *rows, alpha, block.sq_norms)

    def _drift(self) -> tuple[np.ndarray, np.ndarray]:
        """(k,) each: ||w - w(a)||, or its part along w, |<w, w - w(a)>| / ||w||; and by how much that may be larger."""
        n, d = self.additions, len(self.w)
        if self.rebuilt is not None:  # a sum of rows, whose additions round
            squares, part = np.empty(self.problem.n_problems), self.regularised
            squared_drifts(self.w[part], self.prior[part], self.rebuilt[part], squares)
            return np.sqrt(self.by_problem(squares)), rounding_of_sums(n, self.lengths_added)
        squares, distances = self.norms[:, 0], self.norms[:, 1]
        product, rounded = self.totals[:, 2], self.totals[:, 6] + rounding_of_sums(n, self.totals[:, 7])
        rounded += rounding_of_sums(d, np.maximum(squares, np.sqrt(squares * distances)))
        if self.sides is not None:  # <w, x_i> without the bias
            below, above = self.sides[:, 1].tolist()
            product = product - self.constant * (above - below)
            rounded += abs(self.constant) * rounding_of_sums(n, float(self.sides[:, 1].sum()))
        along, lengths = np.abs(product - self.norms[:, 2]), np.sqrt(squares)
        drift, off = (np.divide(one, lengths, out=one.copy(), where=squares > 0.0) for one in (along, rounded))
        return drift, off

    def _rounding_of_w(self) -> np.ndarray | float:
        """(k,): the bound of ||w - w(a)|| by the additions that made w."""
        if self.problem.history is None:
            return 0.0
        additions, drift, least = self.by_problem(self.problem.history.T).T
        of_prior = 0.0 if not self.prior.size else np.sqrt(self.norms[:, 0]) + np.sqrt(self.norms[:, 1])
        return drift + 3.0 * UNIT_ROUNDOFF * additions * (np.sqrt(2.0 * (self.totals[:, 8] + least)) + of_prior)

    def certificate(self) -> Certificate:
        """Those that were certified before are as they were.  Raises InputError as ``certified``."""
        problem = self.problem
        n, d = self.additions, len(self.w)
        accuracy = None if problem.predicts is None else self.correct / max(1, self.labelled)
        rmse = None if self.squared_error is None else math.sqrt(self.squared_error / problem.n_samples)
        if rmse is not None and not math.isfinite(rmse):
            raise overflowed()
        loss, of_rows, _, magnitude, more, wider, moved, _, _ = self.totals.T
        distance = self.norms[:, 1]
        primal = 0.5 * distance + loss
        more = more + (rounding_of_sums(n, loss) + rounding_of_sums(d, primal))
        if not self.dual:
            if not math.isfinite(primal[0]):
                raise overflowed()
            return Certificate(float(primal[0]) + float(more[0]), None, None, accuracy, rmse)
        # drift: ||w - w(a)||; off: by how much it may be larger; rounded: the bound of what w was rounded by
        (drift, off), rounded = self._drift(), self._rounding_of_w()
        gap = of_rows + 0.5 * np.square(drift)
        wider = wider + (OF_TERMS * magnitude + rounding_of_sums(n, of_rows)) + (drift + 0.5 * off) * off
        wider = wider + 0.5 * np.square(rounded)
        factors = None
        if self.sides is not None:
            factors = factors_of_sides(self.sides)
            wider = wider + (1.0 - min(factors)) * (moved + (OF_TERMS + rounding_of_sums(n, 1.0)) * magnitude)
            gap = gap + cost_of_repair(self.sides, drift + rounded + off, 2.0 * rounding_of_sums(n, 1.0))
        figures = np.empty((len(self.norms), len(CERTIFIED)))
        if problem.certified is not None:
            figures[:] = problem.certified
        bounds = np.stack([primal, gap, of_rows, magnitude + distance, more, wider, 0.5 * distance], axis=1)
        for c in self.live.tolist():
            figures[c] = certified(*bounds[c].tolist())
        return certificate_of(figures, accuracy, rmse, factors, each=problem.sides is not None)


def factors_of_sides(sides: np.ndarray) -> tuple[float, float]:
    """By which the a with a direction < 0 and above 0 are to be multiplied; sides (2, 3): ``sums_by_side``."""
    below, above = sides[:, 1].tolist()
    return min(1.0, above / below if below else 1.0), min(1.0, below / above if above else 1.0)


def cost_of_repair(sides: np.ndarray, drift: float, off: float) -> float:
    """By how much the repair widens the gap, at most; drift: ||w - w(a)||; off: by how much the factors may be less."""
    cost = 0.0
    for factor, (shares, _, lengths) in zip(factors_of_sides(sides), sides.tolist(), strict=True):
        part = min(1.0, 1.0 - factor + off)
        moved = part * lengths
        cost += max(-(1.0 - factor) * shares, -part * shares) + moved * float(np.max(drift)) + 0.5 * moved**2
    return max(cost, 0.0)


def rounding_of_sums(n: int, total):
    """By how much a sum of n terms that are not negative may be off, where they are added one after the other."""
    return UNIT_ROUNDOFF * (n + 8.0) * total


def certified(
    primal: float, gap: float, of_rows: float, magnitude: float, more: float, wider: float, least: float
) -> tuple[float, float, float, float]:
    """(primal, dual, relative gap, the part of it that is rounding) with what was rounded counted.  of_rows: the gap's
    terms of the rows, which are never negative; magnitude: of what they are added up from; more, wider: by how much
    primal and gap may be off; least: what the primal is in any case.  InputError where the sums are not finite, or the
    dual lies above the primal beyond rounding."""
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


def overflowed() -> InputError:
    """What is said where a certificate's sums are not finite numbers: they certify nothing."""
    return InputError("no certificate: the sums are not finite numbers; scale the values, or choose a smaller C")
