"""frank-wolfe: the structured support vector machine by block-coordinate Frank-Wolfe steps, with a certified gap.

    min over w  1/2 ||w||^2 + C sum_i max_y (rho_i(y) - <w, d_i(y)>),    d_i(y) = features(gold) - features(y)

has the dual variables a_i(y), a distribution over the outputs of each example i.  With

    w_i = C sum_y a_i(y) d_i(y),   l_i = C sum_y a_i(y) rho_i(y),   w = sum_i w_i,

its value is sum_i l_i - 1/2 ||w||^2.  A step on example i finds its most violating output y at w and moves (w_i, l_i)
by a share g towards (C d_i(y), C rho_i(y)); the best g is the gap of the example over the curvature (Lacoste-Julien,
Jaggi, Schmidt, Pletscher, ICML 2013, algorithm 4).  All a_i start at the gold output: w = 0, and the dual is 0.

At a large C the last w swings: its primal rises and falls by half from epoch to epoch, and its outputs may be worse
than those of no learning.  The mean of the weights after each step t, weighted by t (the same paper, section 4), is
much nearer the optimum then, the last one near the optimum.  Both are certified against the dual of the last, and the
model is the one of the smaller primal.

The certificate counts what rounding may hide, in units of u = 2^-53, and all of it twice, for products of such terms.
With the bounds m_i, F_i, R_i of ``Structure.most``:

- The decoder's scores are off by (m_i + 2) u (max|w| F_i + R_i) at most, so that its output lies below the best one by
  twice as much; the violation of the one it gives is off by less than four times as much.
- A step's four roundings of w_i, l_i and d_i shrink with 1 - g as the old parts do: after t_i steps ||.||_1 of w_i is
  off by 5 t_i u 2 C F_i at most, and l_i by 5 t_i u C R_i.
- A sum of k terms is off by (k + 2) u times the sum of their absolute values.
"""

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.memory import Budget
from blocksvm.structured.kernels.sparse_rows import add_to
from blocksvm.structured.learners import Machine, Report, StructuredLearner, finite, score
from blocksvm.structured.settings import FRANK_WOLFE as SETTINGS
from blocksvm.structured.structure import Row, Structure, combination

ROW_OVERHEAD = 300  # bytes of a row's two arrays and its object, beside the entries
DIRECTIONS = "the examples' parts of the weights"
NOTHING = Row(np.empty(0, np.int64), np.empty(0))
U = 2.0**-53


class FrankWolfe(Machine):
    """rows, lower (n_examples,): w_i and l_i; moves (n_examples,): steps that changed them."""

    def __init__(self, structure: Structure, settings: dict, run: dict, budget: Budget):
        self.structure, self.budget, self.C, self.tol = structure, budget, settings["C"], settings["tol"]
        n = structure.n_examples
        budget.reserve("weights", 8 * structure.n_weights)
        budget.reserve("their mean", 8 * structure.n_weights)
        budget.reserve("bounds of the examples", 48 * n)
        self.w, self.steps = np.zeros(structure.n_weights), 0
        self.late = np.zeros(structure.n_weights)  # sum over steps t of t (t - 1) / 2 times the change of w
        self.rows, self.lower, self.moves = [NOTHING] * n, np.zeros(n), np.zeros(n)
        try:
            self.additions, self.sums, self.losses = np.array([structure.most(i) for i in range(n)], float).T
        except NotImplementedError:
            raise InputError(
                "frank-wolfe counts the rounding of its certificate by the structure's method most, which is missing; "
                "add it, or choose another learner"
            ) from None
        self.row_bytes, self.left = 0, budget.left
        self._grow(n * ROW_OVERHEAD)

    def _grow(self, n_bytes: int) -> None:
        """Count bytes of the rows; InputError, with the whole need, where they do not fit."""
        self.row_bytes += n_bytes
        if self.row_bytes > self.left:
            self.budget.used[DIRECTIONS] = 0
            self.budget.require(DIRECTIONS, self.row_bytes)
        self.budget.used[DIRECTIONS] = max(self.row_bytes, self.budget.used.get(DIRECTIONS, 0))

    def epoch(self, order, stop):
        report, gap, violations = Report(), 0.0, 0.0
        self.certified = None
        for i in order:
            if stop():
                return report
            row, rho, violation = self._decode(i, self.w)
            report.examples += 1
            report.mistakes += bool(violation > rho)
            report.loss += rho
            violations += violation
            gap += self._step(i, row, rho, violation)
        # an estimate of the certificate, with the w of each step
        if gap <= self.tol * (0.5 * float(self.w @ self.w) + self.C * violations):
            self.certified = self._certificate()
            self.done = self.certified["rel_gap"] <= self.tol
        return report

    def _decode(self, i: int, w: np.ndarray) -> tuple[Row, float, float]:
        """(d, its loss, its loss - <w, d>) of the most violating output."""
        output = self.structure.most_violating(w, i)
        row, rho = self.structure.difference(i, output), self.structure.loss(i, output)
        violation = rho - score(row, w)
        # below 0 the gold output lies above it by the rounding of sums
        return (row, rho, violation) if violation >= 0.0 else (NOTHING, 0.0, 0.0)

    def _step(self, i: int, row: Row, rho: float, violation: float) -> float:
        """Move w_i and l_i towards an output; returns the gap of the example before."""
        self.steps += 1
        old = self.rows[i]
        gap = self.C * violation + score(old, self.w) - self.lower[i]
        if gap <= 0.0:
            return 0.0
        away = combination(old, 1.0, row, -self.C)
        curvature = away.sq_norm
        share = min(1.0, gap / curvature) if curvature > 0.0 else 1.0
        self.rows[i] = combination(old, 1.0 - share, row, share * self.C)
        self._grow(self.rows[i].n_bytes - old.n_bytes)
        add_to(away.indices, away.values, -share, self.w)
        add_to(away.indices, away.values, -share * (0.5 * self.steps * (self.steps - 1)), self.late)
        self.lower[i] += share * (self.C * rho - self.lower[i])
        self.moves[i] += 1
        return float(gap)

    def _certificate(self) -> dict:
        """Of w = sum_i w_i, added up again, against what the dual is at least."""
        self.w[:] = 0.0
        for row in self.rows:
            add_to(row.indices, row.values, 1.0, self.w)
        largest, n = np.abs(self.w).max(), len(self.rows)
        sizes = sum(float(np.abs(row.values).sum()) for row in self.rows)
        moved = 5.0 * U * self.C * self.moves
        off = (n + 2.0) * U * sizes + float(moved @ (2.0 * self.sums))  # of w, in the norm ||.||_1
        lower, square = float(self.lower.sum()), float(self.w @ self.w)
        rounding = float(moved @ self.losses) + (n + 2.0) * U * lower + (largest + 0.5 * off) * off
        rounding += 0.5 * (len(self.w) + 2.0) * U * square
        return self._against(lower - 0.5 * square - 2.0 * rounding, self.w)

    def _against(self, dual: float, w: np.ndarray) -> dict:
        """The certificate of any w against a value of the dual: what its primal is at most, and their gap."""
        n, largest, square = len(self.rows), np.abs(w).max(), float(w @ w)
        loss = sum(self._decode(i, w)[2] for i in range(n))
        rounding = 6.0 * U * float((self.additions + 2.0) @ (largest * self.sums + self.losses)) + (n + 2.0) * U * loss
        rounding = self.C * rounding + 0.5 * (len(w) + 2.0) * U * square
        primal = 0.5 * square + self.C * loss + 2.0 * rounding
        if not np.isfinite(primal - dual):
            raise InputError("no certificate: the sums are not finite numbers; lower C, or scale the features")
        gap = max(0.0, primal - dual) + 4.0 * U * (abs(primal) + abs(dual))
        least = primal - 4.0 * rounding  # of the primal: what the gap is measured by
        return {"primal": primal, "dual": dual, "rel_gap": float(gap / least if least > 0.0 else gap)}

    def weights(self):
        # w with the rounding of the steps is enough for the mean; the certificate adds it up again
        self.late *= -2.0 / max(1, self.steps * (self.steps + 1))
        self.late += self.w
        last = self.certified or self._certificate()
        mean = self._against(last["dual"], self.late)
        self.certified, model = (mean, self.late) if mean["primal"] < last["primal"] else (last, self.w)
        return finite(model)


FRANK_WOLFE = StructuredLearner(
    "frank-wolfe", "the structured support vector machine, certified: one example at a time, by the step that is best",
    "Lacoste-Julien, Jaggi, Schmidt, Pletscher, ICML 2013", SETTINGS, FrankWolfe,
)  # fmt: skip
