"""The rows of a block added to a gradient: their decision values and derivatives by all threads, the sum row by row.

One thread adds earlier rows while the others evaluate later ones.  So the sum has the order of the rows, and its bits
depend neither on the number of threads nor on where blocks begin; and there is one gradient, not one a thread.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.base.threads import Threads, slices
from blocksvm.kernels.columns import add_rows, decision_values
from blocksvm.problems.certificate import count_labelled, count_predicted, errors_of_scores, norms_of
from blocksvm.problems.problem import Problem
from blocksvm.solvers.lbfgs_kernels import TERMS, add_squares, curvatures_of, dual_of_derivative
from blocksvm.sources.block import Block


class RowGradients:
    """Of the ``live`` problems, at the points w (d + 1, width).

    total (d + 1, width) gains the sum of a_i direction_i x_i of the dual variables that belong to w
    (``dual_of_derivative``); diagonal (d + 1, width), where it is not None, the diagonal of the losses' Hessian.
    """

    def __init__(
        self,
        problem: Problem,
        live: np.ndarray,
        w: np.ndarray,
        total: np.ndarray,
        diagonal: np.ndarray | None,
        threads: Threads,
    ):
        self.problem, self.w, self.total, self.diagonal, self.threads = problem, w, total, diagonal, threads
        self.live = set(live.tolist())
        self.lengths = np.sqrt(norms_of(w, problem.n_problems)[:, 0])

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
        return right, count_labelled(self.problem, block.y)

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
        k, bias = scores.shape[1], self.problem.bias
        decision_values(*matrix, self.w, bias, scores[rows])
        part = block[rows]
        within, norms = errors_of_scores(part, self.w, self.lengths, self.problem), np.sqrt(part.sq_norms + bias**2)
        right = count_predicted(self.problem, scores[rows], block.y[rows])
        for c in range(k):
            z = np.ascontiguousarray(scores[rows, c])
            of_rows, coefficients, of_c = np.empty_like(z), np.zeros_like(z), np.empty((TERMS, len(z)))
            if c in self.live:
                targets, costs = self.problem.targets_and_costs(part, c)
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
        bias = self.problem.bias
        add_rows(*matrix, coefficients[rows], bias, self.total)
        if self.diagonal is not None:
            add_squares(*matrix, curvatures[rows], bias, self.diagonal)
