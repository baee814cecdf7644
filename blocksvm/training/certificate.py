"""The certificate: primal, dual and gap over all rows for one fixed w; and when it is worth a reading of the data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from blocksvm.model.values import Pieces, classes_of, decision_pieces, misordered
from blocksvm.problems.problem import Certificate, CertificateSums, Problem
from blocksvm.solvers.protocol import Completion, Solver
from blocksvm.sources.block import Block


def evaluate(
    solver: Solver, w: np.ndarray, completion: Completion | None, blocks: Iterable[Block], stopped: Callable[[], bool]
) -> Certificate | None:
    """The accuracy of w (n_vectors * (d + 1),), one vector or one a class, over blocks of all rows, or, of real
    targets, the root of its mean squared error; None if stopped.  completion: what makes the solver's decision values
    of <w, x>, None where they are that."""
    total = rows = 0
    for block in blocks:
        pieces = values_of(solver, w, block, completion)
        if solver.real_targets:
            total += sum_squared_errors(pieces, block.y, solver.predicts_rows)
        elif solver.member is not None:
            total += count_sets(pieces, block.y, solver.member, solver.ranks)
        else:
            total += count_correct(pieces, block.y)
        rows += block.n_samples
        if stopped():
            return None
    mean = total / max(1, rows)
    if solver.real_targets:
        return Certificate(None, None, None, None, math.sqrt(mean))
    return Certificate(None, None, None, mean)


def values_of(solver: Solver, w: np.ndarray, block: Block, completion: Completion | None) -> Pieces:
    """The decision values of a block's rows, at a solver's weights w."""
    found = solver.decision_values(block.matrix, w)
    if found is not None:
        return found
    return decision_pieces(block.matrix, w.reshape(solver.n_vectors, -1), solver.bias, completion)


def count_correct(pieces: Pieces, y: np.ndarray) -> int:
    """Rows whose label is predicted: the sign for two classes, the largest value for more."""
    correct = 0
    for rows, values in pieces:
        predicted = classes_of(values)
        correct += int(np.count_nonzero((2 * predicted - 1 if len(values) == 1 else predicted) == y[rows]))
    return correct


def count_sets(pieces: Pieces, y: np.ndarray, member: np.ndarray, ranks: bool) -> int:
    """Rows whose set of labels is predicted, those of a decision value above 0; or, where the values only rank the
    labels, those with every label of the set above all others; member (m, k) bool: what the sets hold, by the rows'
    codes y."""
    correct = 0
    for rows, values in pieces:
        codes = y[rows]
        own = member[codes]
        right = misordered(values.T, own) == 0 if ranks else ((values.T > 0.0) == own).all(axis=1)
        correct += int(np.count_nonzero(right & (codes >= 0)))
    return correct


def sum_squared_errors(pieces: Pieces, y: np.ndarray, predicts_rows: bool = False) -> float:
    """Sum of (z_i - y_i)^2 over the rows that have a target; predicts_rows: every row has the target 0."""
    total = 0.0
    for rows, values in pieces:
        errors = values[0] if predicts_rows else values[0] - y[rows]
        total += float(np.square(errors[~np.isnan(errors)]).sum())
    return total


SAMPLE = 16_384  # rows from which on the gap of those seen tells that of all
HOPELESS = 1.3  # times the gap wanted: an attempt that promises more is not finished


@dataclass(frozen=True)
class Missed:
    """A certificate broken off since its gap is too large: the gap of the share of the rows that were seen."""

    gap: float
    share: float


def certify(
    problem: Problem,
    w: np.ndarray,
    alpha: np.ndarray | None,
    blocks: Iterable[Block],
    stopped: Callable[[], bool],
    enough: float = math.inf,
    prior: np.ndarray | None = None,
    seen_block: Callable[[Block, np.ndarray], None] = lambda block, scores: None,
    scores_of: Callable[[CertificateSums, Block], np.ndarray] = lambda sums, block: sums.scores(block),
) -> tuple[Certificate, float] | Missed | None:
    """(certificate, relative drift of w) of w (d + 1,) and alpha (l,) over blocks of all rows, or of w (k, d + 1) and
    alpha (l, k) of several problems; None if stopped.  prior:
    the weights w0 that w is regularised towards; seen_block is given each block and its scores;
    scores_of: has a block's decision values made.

    The gap is a sum of one term >= 0 a row (the Fenchel-Young inequality), so it is broken off, with what was seen of
    it, as soon as the rows read so far have a gap above ``enough``, or many rows one that promises far more than that.
    """
    sums = problem.sums(w, prior)
    seen = 0
    for block in blocks:
        scores = scores_of(sums, block)
        own = None if alpha is None else alpha[block.rows]
        sums.add(scores, block, own)
        if alpha is not None and sums.moves_alpha:
            alpha[block.rows] = own
        seen_block(block, scores)
        seen += block.n_samples
        if stopped():
            return None
        if alpha is not None and seen < problem.n_samples:
            gap, share = sums.gap_so_far(), seen / problem.n_samples
            if gap > enough or (seen >= SAMPLE and gap > HOPELESS * share * enough):
                return Missed(gap, share)
    return sums.certificate(), sums.drift()


# The first one where passes over a working set come between the visits, measured: 0.05 to 0.1 where there is one after
# each block or more, 0.1 to 0.25 where there are fewer; and once the set has been left empty, since readings alone
# bring the gap down fast: 0.47 to 0.59 on zipf data and IMDB's words at an eighth and less of the memory, 0.39 in it.
FACTOR_WITH_A_SET, FACTOR_WITH_FEW_PASSES, FACTOR_WITH_NO_PASSES = 0.08, 0.14, 0.5


@dataclass
class Attempts:
    """Decides from the visits' estimates whether a certificate can succeed: by counts alone, never by the clock.

    On the visits each loss is seen before its row's step, while w moves on, so the estimated gap differs from the true
    one by a factor, which is learned from each certificate taken.  An attempt that fails is broken off early, so the
    first one is made at the first prospect.  Where rows are few, the factor jumps about; so after a failure another
    attempt is made some iterations later even if the factor speaks against it.
    """

    factor: float = 0.45  # measured: 0.45 to 0.75 on data of a million rows, above 1 on a few thousand
    last: int = 0  # the outer iteration of the last attempt

    def worthwhile(self, outer: int, estimated_gap: float | None, tol: float) -> bool:
        if estimated_gap is None:
            return False
        overdue = self.last and estimated_gap <= tol and outer - self.last >= max(3, outer // 10)
        return bool(estimated_gap * self.factor <= tol or overdue)

    def with_set(self, passes: list[int]) -> None:
        """Passes over a working set after each block of a reading: before the first attempt, what was measured with so
        many holds."""
        if not self.last and self.factor != FACTOR_WITH_NO_PASSES:
            self.factor = FACTOR_WITH_A_SET if sum(passes) >= len(passes) else FACTOR_WITH_FEW_PASSES

    def without_set(self) -> None:
        """No passes over a working set come between the visits any more: before the first attempt, what was measured
        without holds."""
        if not self.last:
            self.factor = FACTOR_WITH_NO_PASSES

    def learn(self, outer: int, estimated_gap: float | None, rel_gap: float | None) -> None:
        """rel_gap: as certified, or as a certificate that was broken off suggests."""
        self.last = outer
        if estimated_gap and rel_gap and estimated_gap > 0.0:
            self.factor = rel_gap / estimated_gap
