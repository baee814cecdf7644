"""frank-wolfe: the structured support vector machine by block-coordinate Frank-Wolfe, to a certified duality gap.

    primal  1/2 ||w||^2 + C sum_i max_y (rho_i(y) - <w, d_i(y)>),      d_i(y) = features(gold) - features(y)
    dual    sum_i l_i - 1/2 ||w||^2,    w = sum_i w_i,  w_i = C sum_y a_i(y) d_i(y),  l_i = C sum_y a_i(y) rho_i(y)

with each a_i a distribution over outputs, which is never kept: of each example there are the sparse row w_i and the
number l_i.  A step takes the output y that violates most, and moves w_i, l_i towards C d_i(y), C rho_i(y) by the
share that raises the dual most,

    share = clip((<w_i - C d, w> - l_i + C rho) / ||w_i - C d||^2, 0, 1)

(Lacoste-Julien, Jaggi, Schmidt, Pletscher, ICML 2013, Algorithm 3, where lambda = 1 / (C n)).  The numerator is the
example's part of primal - dual: their sum over all examples at one w is the certificate.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.errors import InputError
from blocksvm.kernels.sparse_rows import add_to
from blocksvm.memory import Budget
from blocksvm.structured.learner import Report, StructuredLearner, order_of, score
from blocksvm.structured.protocol import Row, Structure, combination
from blocksvm.structured.settings import FRANK_WOLFE as SETTINGS

ROW_OVERHEAD = 400  # bytes of a row's two arrays and its object, beside the entries
DIRECTIONS = "the examples' parts of the weights"


class FrankWolfe:
    """A machine as ``StructuredLearner`` has it; rows, lower (n,) float64: w_i and l_i."""

    def __init__(self, structure: Structure, settings: dict, run: dict, budget: Budget):
        self.structure = structure
        self.C, self.tol = settings["C"], settings["tol"]
        self.seed = run["seed"]
        self.budget = budget
        self.done = False
        n = structure.n_examples
        budget.take("the dual variables", 8 * n)
        budget.require("weights", 8 * structure.n_weights)
        budget.take("weights", 8 * structure.n_weights)
        self.w = np.zeros(structure.n_weights)
        nothing = Row(np.empty(0, np.int64), np.empty(0))
        self.rows = [nothing] * n
        self.lower = np.zeros(n)
        self.certified: dict | None = None
        self._grow(n * ROW_OVERHEAD)

    def _grow(self, n_bytes: int) -> None:
        """Count what rows take more (or less) than before; InputError where they do not fit."""
        if n_bytes > 0:
            self.budget.require(DIRECTIONS, self.budget.taken.get(DIRECTIONS, 0) + n_bytes)
        self.budget.take(DIRECTIONS, n_bytes)

    def epoch(self, number: int, stop: Callable[[], bool]) -> Report:
        report = Report()
        gap = loss = 0.0
        for i in order_of(self.structure.n_examples, self.seed, number):
            if stop():
                return report
            output, own_gap, violation, mistaken = self._step(i)
            report.examples += 1
            report.mistakes += mistaken
            report.loss += self.structure.loss(i, output)
            report.updates += int(own_gap > 0.0)
            gap += own_gap
            loss += violation
        # at the w of each step: an estimate of what a certificate would say
        if gap <= self.tol * (0.5 * self._sq_norm() + self.C * loss):
            self.certified = self._certificate()
            self.done = self.certified["rel_gap"] <= self.tol
        else:
            self.certified = None
        return report

    def _look(self, i: int):
        """(output, C d, its loss, what its score + loss lies above the gold one's, the example's part of the gap)."""
        output = self.structure.most_violating(self.w, i)
        row = self.structure.difference(i, output)
        rho = self.structure.loss(i, output)
        violation = rho - score(row, self.w)
        if violation < 0.0:  # the gold output lies above it by the rounding of sums
            output, row, rho, violation = self.structure.gold(i), Row(row.indices[:0], row.values[:0]), 0.0, 0.0
        gap = self.C * violation + score(self.rows[i], self.w) - self.lower[i]
        return output, row, rho, violation, gap

    def _step(self, i: int) -> tuple[np.ndarray, float, float, bool]:
        output, row, rho, violation, gap = self._look(i)
        mistaken = bool(violation > rho)
        if gap <= 0.0:
            return output, 0.0, violation, mistaken
        old = self.rows[i]
        away = combination(old, 1.0, row, -self.C)
        curvature = away.sq_norm
        share = min(1.0, gap / curvature) if curvature > 0.0 else 1.0
        new = combination(old, 1.0 - share, row, share * self.C)
        self._grow(new.n_bytes - old.n_bytes)
        add_to(away.indices, away.values, -share, self.w)
        self.rows[i] = new
        self.lower[i] += share * (self.C * rho - self.lower[i])
        return output, gap, violation, mistaken

    def _sq_norm(self) -> float:
        return float(self.w @ self.w)

    def _certificate(self) -> dict:
        """Primal, dual and their gap over all examples at w = sum_i w_i, added up anew."""
        self.w[:] = 0.0
        for row in self.rows:
            add_to(row.indices, row.values, 1.0, self.w)
        loss = gap = 0.0
        for i in range(self.structure.n_examples):
            _, _, _, violation, own_gap = self._look(i)
            loss += violation
            gap += own_gap
        half = 0.5 * self._sq_norm()
        primal = half + self.C * loss
        dual = float(self.lower.sum()) - half
        return {"primal": primal, "dual": dual, "rel_gap": float(gap / abs(primal) if primal else gap)}

    def weights(self) -> np.ndarray:
        if self.certified is None:
            self.certified = self._certificate()
        if not np.isfinite(self.w).all():
            raise InputError("the weights have become infinite; lower C, or scale the features")
        return self.w

    def certificate(self) -> dict:
        """Of exactly the weights that ``weights`` gives."""
        self.weights()
        return self.certified


FRANK_WOLFE = StructuredLearner(
    name="frank-wolfe",
    summary="the structured support vector machine, certified: one example at a time, by the step that is best",
    source="Lacoste-Julien, Jaggi, Schmidt, Pletscher, ICML 2013",
    settings=SETTINGS,
    make=FrankWolfe,
)
