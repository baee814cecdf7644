"""The rows of a block added to a gradient: their decision values and derivatives by all threads, the sum row by row.

One thread adds earlier rows while the others evaluate later ones.  So the sum has the order of the rows, and its bits
depend neither on the number of threads nor on where blocks begin; and there is one gradient, not one a thread.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.base.labels import SETS
from blocksvm.base.threads import Threads, slices
from blocksvm.kernels.lbfgs_loops import TERMS, add_squares, curvatures_of, dual_of_derivative
from blocksvm.kernels.margins import add_rows, decision_values
from blocksvm.kernels.several_loops import add_rows_to_several, several_decision_values
from blocksvm.problems.problem import Problem, errors_of_scores, predicted
from blocksvm.problems.several_problems import SeveralProblems, norms_of
from blocksvm.sources.block import Block


class RowGradients:
    """Of one problem, or of the ``live`` ones of several, at the points w (d + 1, width).

    total (d + 1, width) gains the sum of a_i direction_i x_i of the dual variables that belong to w
    (``dual_of_derivative``); diagonal (d + 1, width), where it is not None, the diagonal of the losses' Hessian.
    """

    def __init__(
        self,
        problem: Problem | SeveralProblems,
        live: np.ndarray,
        w: np.ndarray,
        total: np.ndarray,
        diagonal: np.ndarray | None,
        threads: Threads,
    ):
        self.problem, self.w, self.total, self.diagonal, self.threads = problem, w, total, diagonal, threads
        self.several = problem if isinstance(problem, SeveralProblems) else None
        self.live = set(live.tolist())
        self.lengths = np.sqrt(norms_of(w, 1 if self.several is None else self.several.n_problems)[:, 0])

    def add(self, block: Block, alpha: np.ndarray, terms: np.ndarray, curvatures: np.ndarray) -> tuple[int, int]:
        """(rows whose label is predicted, rows with one).  alpha (n, k): the dual variables of the live problems;
        terms (4 k, n): what ``dual_of_derivative`` has of each row; curvatures (n, k): working space."""
        scores = np.empty(alpha.shape)  # then the coefficients of the rows
        parts = slices(block.indptr, max(1, self.threads.piece // self.w.shape[1]))
        right = self._by_turns(
            lambda rows: self._evaluate(block, rows, scores, alpha, terms, curvatures),
            lambda rows: self._add(block, rows, scores, curvatures),
            parts,
        )
        return right, int(np.count_nonzero(block.y >= 0 if self.several else block.y))

    def _by_turns(self, evaluate: Callable[[slice], int], add: Callable[[slice], None], parts: list[slice]) -> int:
        """Evaluate as many parts as there are threads at once, while those before them are added in their order; the
        sum of what ``evaluate`` returns."""
        earlier: list[slice] = []

        def work(part: slice | None) -> int:
            if part is not None:
                return evaluate(part)
            for one in earlier:
                add(one)
            return 0

        total = 0
        for first in range(0, len(parts), self.threads.n):
            now = parts[first : first + self.threads.n]
            total += sum(self.threads.map(work, [None, *now] if earlier else now))
            earlier = now
        work(None)
        return total

    def _evaluate(
        self,
        block: Block,
        rows: slice,
        scores: np.ndarray,
        alpha: np.ndarray,
        terms: np.ndarray,
        curvatures: np.ndarray,
    ) -> int:
        """The rows' scores, which their coefficients replace, and alpha and terms; how many labels are predicted."""
        matrix = block.indptr[rows.start : rows.stop + 1], block.indices, block.values
        w, width, k, bias = self.w.reshape(-1), self.w.shape[1], scores.shape[1], self.problem.bias
        if k == 1:
            decision_values(*matrix, w, bias, scores.reshape(-1)[rows])
        else:
            several_decision_values(*matrix, w, width, bias, scores[rows])
        part = block[rows]
        within, norms = errors_of_scores(part, self.w, self.lengths, self.problem), np.sqrt(part.sq_norms + bias**2)
        right = self._count_right(scores[rows], block.y[rows])
        for c in range(k):
            z = np.ascontiguousarray(scores[rows, c])
            of_rows, coefficients, of_c = np.empty_like(z), np.zeros_like(z), np.empty((TERMS, len(z)))
            if c in self.live:
                targets, costs = self._targets_and_costs(c, block, rows)
                known = z, np.ascontiguousarray(within[:, c]), norms
                dual_of_derivative(*known, targets, costs, self.problem.function, of_rows, coefficients, of_c)
                alpha[rows, c] = of_rows
                terms[TERMS * c : TERMS * (c + 1), rows] = of_c
                if self.diagonal is not None:
                    curvatures_of(z, targets, costs, self.problem.function, of_rows)
                    curvatures[rows, c] = of_rows
            scores[rows, c] = coefficients
        return right

    def _add(self, block: Block, rows: slice, coefficients: np.ndarray, curvatures: np.ndarray) -> None:
        matrix = block.indptr[rows.start : rows.stop + 1], block.indices, block.values
        total, width, bias = self.total.reshape(-1), self.total.shape[1], self.problem.bias
        if coefficients.shape[1] == 1:
            add_rows(*matrix, coefficients.reshape(-1)[rows], bias, total)
        else:
            add_rows_to_several(*matrix, coefficients[rows], bias, total, width)
        if self.diagonal is not None:
            add_squares(*matrix, curvatures[rows], bias, self.diagonal)

    def _targets_and_costs(self, c: int, block: Block, rows: slice) -> tuple[np.ndarray, np.ndarray]:
        """(m,), (m,) float64: the targets of some rows in problem c, and their costs, 0 where they have no part."""
        if self.several is not None:
            sides, cost = self.several.sides.table, self.several.cost[c]
            targets = sides[self.several.codes(block)[rows], c].astype(np.float64)
            costs = np.where(targets == 0.0, 0.0, cost[(targets > 0.0).astype(np.intp)])
        else:
            assert isinstance(self.problem, Problem)
            targets = block.y[rows].astype(np.float64)
            costs = self.problem.cost_by_sign()[1 + np.sign(targets).astype(np.intp)]
        return targets, costs if block.weights is None else costs * block.weights[rows]

    def _count_right(self, scores: np.ndarray, y: np.ndarray) -> int:
        """How many rows have the label that their scores (m, k) say."""
        if self.problem.real:
            return 0
        if self.several is None:
            return int(np.count_nonzero(predicted(scores[:, 0]) == y))
        if self.several.predicts == SETS:
            return int(((scores > 0.0) == (self.several.sides.table[y] > 0)).all(axis=1).sum())
        return int(np.count_nonzero(scores.argmax(axis=1) == y))
