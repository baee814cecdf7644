"""The exact minimiser over a growing set of rows, by which forel-exact and ftl predict each row.

    P(w) = 1/2 ||w||^2 + eta sum_i max(0, 1 - y_i <w, x_i>)^power        over the rows so far
    D(a) = sum_i a_i - 1/2 ||w(a)||^2 - 1/2 D sum_i a_i^2,  w(a) = sum_i a_i y_i x_i,  0 <= a_i <= U

(hinge: U = eta, D = 0; squared hinge: U = inf, D = 1 / (2 eta)) by an active-set method: with the dual variables at a
bound fixed, the others solve a linear system.  A step towards its solution ends where one of them meets a bound; if
none does, the most violated bound is released (Nocedal, Wright, Numerical Optimization, 2006, sec. 16.5).  A new row
changes few of the bounds, so a round that starts from the last solution takes a few steps.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse

GAP = 1e-10  # of each solution, relative to the primal
REFINEMENTS = 3
SINGULAR = 1e-11  # eigenvalues below it, relative to the largest, count as 0
DENSE = 1 << 21  # a matrix of at most so many entries is dense, which is faster for few features


class Leader:
    """Dual variables and weights of the rows seen so far, of a matrix Z (n, d) whose rows are y_i x_i.

    power: 1 for hinge, 2 for squared hinge; alpha (n,): dual variables; seen (n,) bool: the rows so far.  gap: of the
    last solution, relative to its primal.
    """

    def __init__(self, Z: scipy.sparse.csr_matrix, power: int, alpha: np.ndarray, seen: np.ndarray):
        self.Z = Z.toarray() if Z.shape[0] * Z.shape[1] <= DENSE else Z
        self.power, self.alpha, self.seen = power, alpha, seen
        self.gap = 0.0
        self.solved = False  # the last step was a whole one, without a released bound

    def _box(self, eta: float) -> tuple[float, float]:
        """(U, D)."""
        return (eta, 0.0) if self.power == 1 else (np.inf, 0.5 / eta)

    def solve(self, eta: float) -> np.ndarray:
        """The w that minimises P at this eta.  ``alpha`` becomes the dual solution; its last values are the start."""
        upper, diagonal = self._box(eta)
        rows = np.flatnonzero(self.seen)
        Z, a = self.Z[rows], np.minimum(self.alpha[rows], upper)
        best, refined = np.inf, 0  # the least gap, and steps since that have changed no bound
        for _ in range(100 + 20 * len(rows)):
            w = Z.T @ a
            m = Z @ w
            loss = eta * np.maximum(0.0, 1.0 - m) ** self.power
            # a sum of one term >= 0 a row (Fenchel-Young)
            gap = float((loss + a * m - a + 0.5 * diagonal * a * a).sum())
            primal = 0.5 * float(w @ w) + float(loss.sum())
            self.gap = gap / primal if primal > 0.0 else gap
            refined = 0 if self.gap < 0.5 * best or not self.solved else refined + 1
            best = min(best, self.gap)
            if self.gap <= GAP or refined > REFINEMENTS:  # more steps change only roundings
                break
            if not self._step(Z, a, 1.0 - m - diagonal * a, upper, diagonal):
                break
        self.alpha[rows] = a
        return w

    def _step(self, Z, a: np.ndarray, gradient: np.ndarray, upper: float, diagonal: float) -> bool:
        """Change ``a`` by one step.  Returns False where rounding allows no progress."""
        free = (a > 0.0) & (a < upper)
        working = np.flatnonzero(free)
        self.solved = False
        # with the free ones at their solution, release the most violated bound
        scale = np.abs(gradient[working]).max(initial=0.0)
        violation = np.where(a <= 0.0, gradient, np.where(a >= upper, -gradient, 0.0))
        worst = int(violation.argmax())
        if violation[worst] > scale:
            working = np.append(working, worst)
        if len(working) == 0:
            return False
        g = gradient[working]
        direction = self._direction(Z[working], g, diagonal)
        if not direction.any():
            return False
        start = a[working]
        with np.errstate(divide="ignore", invalid="ignore"):
            limits = np.where(
                direction > 0.0, (upper - start) / direction, np.where(direction < 0.0, -start / direction, np.inf)
            )
        length = min(1.0 if self.bounded else np.inf, float(limits.min()))
        if not (0.0 < length < np.inf):
            # the direction points beyond the released bound: move along that row's variable alone
            direction = np.where(working == worst, g, 0.0)
            curvature = float(self._gram(Z[[worst]])[0, 0]) + diagonal
            length = 1.0 / curvature if curvature > 0.0 else np.inf
            limit = (upper - a[worst]) / g[-1] if g[-1] > 0.0 else -a[worst] / g[-1]
            length = min(length, limit)
            if working[-1] != worst or not (0.0 < length < np.inf):
                return False
        moved = start + length * direction
        near = 1e-14 * max(1.0, float(np.abs(start).max()))
        moved[moved <= near * (direction < 0.0)] = 0.0
        if upper < np.inf:
            moved[moved >= upper * (1.0 - 1e-14)] = upper
        if (moved == start).all():
            return False
        self.solved = length == 1.0 and violation[worst] <= scale
        a[working] = moved
        return True

    def _direction(self, Z, g: np.ndarray, diagonal: float) -> np.ndarray:
        """The direction towards the maximum of D over the working rows, or, where D is unbounded and ``bounded``
        becomes False, one along which it rises."""
        self.bounded = True
        if diagonal > 0.0:
            return self._regular(Z, g, diagonal)
        H = self._gram(Z)
        values, vectors = scipy.linalg.eigh(H)
        regular = values > SINGULAR * max(values[-1], 1e-300)
        parts = vectors.T @ g
        flat = vectors[:, ~regular] @ parts[~regular]
        if np.abs(flat).max(initial=0.0) > 1e-9 * max(1.0, np.abs(g).max()):
            self.bounded = False
            return flat
        return vectors[:, regular] @ (parts[regular] / values[regular])

    def _regular(self, F, right: np.ndarray, diagonal: float) -> np.ndarray:
        """(F F' + diagonal I)^-1 right, through the smaller of F F' and F' F (Sherman, Morrison, Woodbury)."""
        by_features = F.shape[0] > F.shape[1]
        H = self._gram(F.T if by_features else F)
        H[np.diag_indices_from(H)] += diagonal
        factor = scipy.linalg.cho_factor(H)
        if by_features:
            return (right - F @ scipy.linalg.cho_solve(factor, F.T @ right)) / diagonal
        return scipy.linalg.cho_solve(factor, right)

    @staticmethod
    def _gram(Z) -> np.ndarray:
        H = Z @ Z.T
        return H.toarray() if scipy.sparse.issparse(H) else H

    def slope(self, eta: float) -> tuple[np.ndarray, np.ndarray]:
        """(dw / d eta, da / d eta of the rows so far) at the solution for eta, as long as no bound changes."""
        upper, diagonal = self._box(eta)
        rows = np.flatnonzero(self.seen)
        a = self.alpha[rows]
        free = (a > 0.0) & (a < upper)
        Z = self.Z[rows]
        F = Z[np.flatnonzero(free)]
        if self.power == 1:
            fixed = np.asarray(Z[np.flatnonzero(a >= upper)].sum(axis=0)).ravel()
            right = -(F @ fixed)
        else:
            fixed = np.zeros(Z.shape[1])
            right = a[free] / (2.0 * eta * eta)
        change = np.where(a >= upper, 1.0, 0.0)
        if F.shape[0] == 0:
            return fixed, change
        if diagonal > 0.0:
            change[free] = self._regular(F, right, diagonal)
        else:
            change[free] = np.linalg.lstsq(self._gram(F), right, rcond=SINGULAR)[0]
        return fixed + F.T @ change[free], change

    def follow(self, change: np.ndarray, eta: float, after: float) -> None:
        """Move the dual variables along the change of ``slope`` from eta to ``after``, within their new bounds; those
        at a bound stay there."""
        rows = np.flatnonzero(self.seen)
        upper, _ = self._box(after)
        a = self.alpha[rows]
        at_upper = a >= eta if self.power == 1 else np.zeros(len(a), bool)
        moved = np.where(a > 0.0, np.clip(a + (after - eta) * change, 0.0, upper), 0.0)
        self.alpha[rows] = np.where(at_upper, upper, moved)

    def least_loss(self, change: np.ndarray, radius: float) -> float:
        """A lower bound of the hinge losses of the rows so far within ||w|| <= radius: sum a - radius ||Z' a||, for any
        a between 0 and 1, here the change of ``slope``."""
        a = np.clip(change, 0.0, 1.0)
        return float(a.sum()) - radius * float(np.linalg.norm(self.Z[np.flatnonzero(self.seen)].T @ a))
