"""Several problems over the same rows, each with targets and costs of its own: one class against the others, for each
class; and their certificates, taken together.

Each problem is one of problem.py's: P_c(w_c), D_c(a_c) and their gap are its own, and none depends on another.  They
are stated together since their rows are read together (kernels/several_loops.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import MOST_LABELS, SETS, Labels, members_of, require_labels
from blocksvm.base.vectors import side_by_side, together
from blocksvm.kernels.loss_functions import SUMS
from blocksvm.kernels.several_loops import (
    several_certificate_sums,
    several_decision_values,
    several_feasible,
    sums_of_columns,
)
from blocksvm.losses import get_loss
from blocksvm.losses.loss import Loss
from blocksvm.problems.problem import (
    ROUNDING_OF_W,
    Certificate,
    CertificateSums,
    as_near,
    certified,
    check_costs,
    class_factors,
    decided_by_rounding,
    errors_of_scores,
    rounding_of_sums,
    sums_by_class,
    weight_of_losses,
    with_bounds,
)
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source

PRIMAL, DUAL, REL_GAP, ROUNDING = range(4)  # of each problem's certified figures
CERTIFIED = ("primal", "dual", "rel_gap", "rounding")
SETS_AT_ONCE = 256  # of which membership is made numbers


class Sides:
    """On which side of each problem a row of each kind (its code) lies: ``table`` (m, k) int8 holds -1 or +1, and 0
    where it is no part of it; the last kind is that of rows without a label.  The table is made when it is first asked
    for, so that the memory can be planned before."""

    def __init__(self, m: int, k: int, fill: Callable[[np.ndarray], None]):
        """fill(table): writes all kinds but the last into an array (m - 1, k) of -1."""
        self.n_bytes, self.n_kinds = m * k, m
        self._shape, self._fill = (m, k), fill

    @cached_property
    def table(self) -> np.ndarray:
        table = np.full(self._shape, -1, np.int8)
        self._fill(table[:-1])
        del self._fill  # and with it what it is made of
        table[-1] = 0
        return table


@dataclass(frozen=True)
class SeveralProblems:
    """What is minimised, problem by problem.

    sides: of the rows, by their kind.  cost (k, 2): C times class weight, of a row on the side -1 and +1, without the
    row's weight.  certified (k, 4): primal, dual, relative gap and its rounding of
    the problems that are at their end; an infinite gap: of those that are not.  predicts: what the decision values of
    all problems say together of a row: NUMBERS or STRINGS, the one class of the largest, SETS, all labels of a value
    above 0, None: nothing.  kinds(block): the codes (n,) int16 of its rows, None: ``Block.y``.  real: targets are real
    numbers, those of the block, and each row's side of a problem is +1 or 0.  The rest is as ``Problem`` has it.
    """

    loss: Loss
    cost: np.ndarray
    sides: Sides
    bias: float
    n_samples: int
    function: Any = None
    certified: np.ndarray | None = None
    tol: float = 0.0
    predicts: str | None = None
    kinds: Callable[[Block], np.ndarray] | None = None
    real: bool = False
    unit: float = 1.0
    free_bias: bool = False

    @property
    def n_problems(self) -> int:
        return len(self.cost)

    @property
    def live(self) -> np.ndarray:
        """(t,) int32: the problems that are not at their end."""
        if self.certified is None:
            return np.arange(self.n_problems, dtype=np.int32)
        return np.flatnonzero(~at_their_end(self.certified, self.tol)).astype(np.int32)

    def codes(self, block: Block) -> np.ndarray:
        """(n,) int16: the kinds of a block's rows."""
        return block.y if self.kinds is None else self.kinds(block)

    def reals(self, block: Block) -> np.ndarray | None:
        """(n,) float64: the rows' targets where they are real numbers, else None."""
        return block.y if self.real else None

    def allows(self, alpha: np.ndarray, block: Block) -> bool:
        """Whether the dual variables (n, k) of a block's rows lie within their bounds, but for rounding."""
        near = alpha.copy()
        row = self.codes(block), self.reals(block), block.weights, self.sides.table, self.cost, self.function
        several_feasible(near, *row, np.ones((self.n_problems, 2)))
        return as_near(alpha, near)

    def sums(self, w: np.ndarray, prior: np.ndarray | None = None) -> SeveralSums:
        """For a certificate of w (k, d + 1)."""
        return SeveralSums(self, w, prior)


def at_their_end(figures: np.ndarray, tol: float) -> np.ndarray:
    """(k,) bool: which problems have a gap (k, 4) within the tolerance, or one that rounding keeps above it."""
    gaps = figures[:, REL_GAP]
    return (gaps <= tol) | decided_by_rounding(gaps, figures[:, ROUNDING], tol)


def several_certified(figures: np.ndarray, accuracy: float | None, rmse: float | None = None, each: bool = True):
    """The Certificate of problems with these figures (k, 4): the sums of primals and duals, and the largest of the
    gaps; each: it has those of each problem, too."""
    primals, duals, gaps, rounding = figures.T.tolist()
    largest = gaps.index(max(gaps))
    by_class = dict(zip(CERTIFIED, figures.T.tolist(), strict=True)) if each else None
    return Certificate(
        math.fsum(primals), math.fsum(duals), gaps[largest], accuracy, rmse, None, by_class, rounding[largest]
    )


def each_against_the_rest(settings: Mapping, bias: float, source: Source, tol: float) -> SeveralProblems:
    """A problem for each class of a source, or each label of its sets: the rows that have it are +1, all others -1.

    Class weights multiply the cost of the rows of +1 (as LIBLINEAR has it); 'balanced' makes the two sides of each
    problem weigh the same, and their total what it was.  Raises InputError where the rows have no such labels.
    """
    loss = get_loss(settings["loss"])
    labels, member, sums = kinds_of(source)
    total, k = math.fsum(sums.tolist()), len(labels.values)
    label_weights = sums if member is None else weights_of_labels(sums, member)
    C = weight_of_losses(settings, total)
    factors = np.ones((k, 2))
    if settings["class_weight"] == "balanced":
        sides = np.stack([total - label_weights, label_weights], axis=1)
        factors = np.divide(0.5 * total, sides, out=factors, where=sides > 0.0)
    else:
        factors[:, 1] = class_factors(settings["class_weight"], labels, tuple(label_weights.tolist()))
    cost = C * factors
    check_costs(settings, cost, source, bias, float(cost.max()) * total)

    def fill(table: np.ndarray) -> None:
        if member is None:
            np.fill_diagonal(table, 1)
        else:
            table[member] = 1

    return SeveralProblems(
        loss, cost, Sides(len(sums) + 1, k, fill), bias, source.n_samples, loss.at(settings), tol=tol,
        predicts=source.label_kind,
    )  # fmt: skip


def weights_of_labels(sums: np.ndarray, member: np.ndarray) -> np.ndarray:
    """(k,): of each label the sum of the weights of the rows that have it, by ``kinds_of``."""
    totals = np.zeros(member.shape[1])
    for start in range(0, len(sums), SETS_AT_ONCE):
        some = slice(start, start + SETS_AT_ONCE)
        totals += sums[some] @ member[some]
    return totals


def kinds_of(source: Source) -> tuple[Labels, np.ndarray | None, np.ndarray]:
    """(labels, member, sums): whether rows of each kind (their code, ``Block.y``) have each label, (m, k) bool, or None
    where each label is a kind of its own, and the sum (m,) of the weights of the rows of each kind.  InputError where a
    source has not two labels or more."""
    if source.label_kind != SETS:
        require_labels(source)
        sums = np.array(sums_by_class(source, source.labels), dtype=np.float64)
        return source.labels, None, sums
    if source.label_counts is None:
        raise InputError(
            f"{source.name}: has more than {MOST_LABELS:,} distinct sets of labels; at most that many are accepted"
        )
    if source.n_unlabelled:
        raise InputError(
            f"{source.name}: {source.n_unlabelled:,} of its {source.n_samples:,} rows have no set of labels, not even "
            "an empty one; split the labelled rows alone"
        )
    labels = Labels(members_of(source.label_counts))
    if len(labels.values) < 2:
        raise InputError(f"{source.name}: its sets have {len(labels.values)} label in all; training needs two or more")
    kinds = [kind for kind, _ in source.label_counts]
    sums = source.label_weights or [count for _, count in source.label_counts]
    return labels, membership(kinds, labels), np.array(sums, dtype=np.float64)


def membership(sets: Sequence, labels: Labels) -> np.ndarray:
    """(m, k) bool: which of the labels each of m sets has."""
    place = {label: c for c, label in enumerate(labels.values)}
    member = np.zeros((len(sets), len(place)), bool)
    for row, labels_of_row in enumerate(sets):
        member[row, [place[label] for label in labels_of_row if label in place]] = True
    return member


def norms_of(w: np.ndarray, k: int, prior: np.ndarray | None = None) -> np.ndarray:
    """(k, 4) of the first k columns of w (d + 1, width) and a prior of that shape, as ``sums_of_columns`` has them."""
    norms = np.empty((k, 4))
    sums_of_columns(w, np.empty((0, 0)) if prior is None else prior, norms)
    return norms


class SideBySideSums(CertificateSums):
    """What certificates of several vectors w (k, d + 1) have in common; prior (d + 1, width) or (0, 0)."""

    def __init__(self, problem, w: np.ndarray, prior: np.ndarray | None = None):
        self.problem = problem
        vectors = w.reshape(problem.n_problems, -1)
        columns = together(vectors)
        if columns is None:
            copied = side_by_side(*vectors.shape)
            copied[:] = vectors
            columns = together(copied)
        self.w = columns
        self.norms = norms_of(columns, problem.n_problems, prior)
        self.lengths = np.sqrt(self.norms[:, 0])
        self.clear()

    def scores(self, block: Block) -> np.ndarray:
        """(n, k) float64: the decision values of a block's rows."""
        scores = np.empty((block.n_samples, self.problem.n_problems))
        indptr, indices, values = block.matrix
        w, width = self.w.reshape(-1), self.w.shape[1]

        def fill(rows: slice) -> None:
            ends = indptr[rows.start : rows.stop + 1]
            several_decision_values(ends, indices, values, w, width, self.problem.bias, scores[rows])

        self.threads.over_rows(fill, indptr, width)
        return scores

    def within(self, block: Block) -> np.ndarray:
        """(n, k): by how much they may be off."""
        return errors_of_scores(block, self.w, self.lengths, self.problem)

    def count_classes(self, scores: np.ndarray, block: Block) -> None:
        """Which rows' class has the largest decision value."""
        self.correct += int(np.count_nonzero(scores.argmax(axis=1) == block.y))
        self.labelled += int(np.count_nonzero(block.y >= 0))


class SeveralSums(SideBySideSums):
    """Adds up the certificates of several problems block by block, all at one w, as ``CertificateSums`` does of one."""

    ADDED = ("totals", "correct", "labelled")

    def __init__(self, problem: SeveralProblems, w: np.ndarray, prior: np.ndarray | None = None):
        super().__init__(problem, w, prior)

    def clear(self) -> None:
        self.live = self.problem.live
        self.correct = self.labelled = 0
        self.totals = np.zeros((self.problem.n_problems, SUMS))

    def add(self, scores: np.ndarray, block: Block, alpha: np.ndarray, within: np.ndarray | None = None) -> None:
        """Add a block: its scores, and alpha (n, k) of its rows."""
        problem, codes = self.problem, self.problem.codes(block)
        sums = np.zeros_like(self.totals)
        several_certificate_sums(
            scores, self.within(block) if within is None else within, codes, problem.reals(block), block.weights,
            alpha, problem.sides.table, problem.cost, problem.function, self.live, sums,
        )  # fmt: skip
        self.totals += sums
        if problem.predicts == SETS:
            self.correct += int(((scores > 0.0) == (problem.sides.table[codes] > 0)).all(axis=1).sum())
            self.labelled += int(np.count_nonzero(block.y >= 0))
        elif problem.predicts is not None:
            self.count_classes(scores, block)

    def gap_so_far(self) -> float:
        """The sum of all gaps' terms of the blocks added."""
        return math.fsum(self.totals[:, 1].tolist())

    def _along(self) -> np.ndarray:
        """(k,): the lengths of the drifts w_c - w_c(a) along w_c."""
        drift = np.abs(self.totals[:, 2] - self.norms[:, 2])
        return np.divide(drift, np.sqrt(self.norms[:, 0]), out=drift.copy(), where=self.norms[:, 0] > 0.0)

    def drift(self) -> float:
        """The largest of those of the live problems beyond the rounding of w itself, relative to ||w_c - w0_c||."""
        beyond = np.maximum(self._along() - ROUNDING_OF_W * np.sqrt(self.norms[:, 0]), 0.0)
        length = np.sqrt(self.norms[:, 1])
        return float(np.divide(beyond, length, out=beyond.copy(), where=length > 0.0)[self.live].max(initial=0.0))

    def certificate(self) -> Certificate:
        """The sums of primals and duals, and the largest of the relative gaps; those that were certified before are as
        they were.  Raises InputError as ``CertificateSums`` does."""
        problem = self.problem
        figures = np.empty((problem.n_problems, len(CERTIFIED)))
        if problem.certified is not None:
            figures[:] = problem.certified
        n, d = problem.n_samples, len(self.w)
        *terms, moved, products = self.totals.T
        distances, squares, along = self.norms[:, 1], self.norms[:, 0], self._along()
        rounded = moved + rounding_of_sums(n, products)
        rounded += rounding_of_sums(d, np.maximum(squares, np.sqrt(squares * distances)))
        rounded = np.divide(rounded, np.sqrt(squares), out=rounded.copy(), where=squares > 0.0)
        sums = np.stack(with_bounds(terms, n, d, distances, along, np.square(along), rounded), axis=1)
        for c in self.live.tolist():
            figures[c] = certified(*sums[c].tolist())
        return several_certified(figures, None if problem.predicts is None else self.correct / max(1, self.labelled))
