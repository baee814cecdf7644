"""The certified least of sum_i loss(<w, x_i>) + sum_j m_j |w_j| on rows in memory.

Proximal Newton steps (Lee, Sun, Saunders, SIAM J. Optim. 2014) on the features that can move, each minimised by
coordinate descent over the quadratic model (Friedman, Hastie, Tibshirani, J. Stat. Softw. 2010).  Hinge and
epsilon-insensitive losses are smoothed within a width that falls until the gap is certified (Nesterov, Math. Prog.
2005).

    P(w) = sum_i loss_i(z_i) + sum_j m_j |w_j|,  z = X w
    D(s) = -sum_i conjugate_i(s_i)  for every s with |X' s|_j <= m_j

The slopes s of the (smoothed) loss at any w, scaled to meet that, give a D(s) <= P*: the gap holds whatever was
smoothed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.special import expit, xlogy

from blocksvm.kernels import kernel
from blocksvm.learners.engine.learner import LOSS_NAMES
from blocksvm.theory import records

WIDTHS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 3e-4, 1e-4)
UNCERTIFIED = 4  # widths where no gap can be certified: the losses are then smoothed by at most 0.015 a row
STEPS = 100  # of Newton, for each width
PASSES = 2000  # of coordinate descent over the model, at most
MOST_MOVED = 2000  # features in one model; those of the largest violation come first
FEWEST_NEW = 10
SETTLED = 1e-5  # relative to m_j: a violation at which a width is done
# of the models' diagonals, in units of the largest violation: at first, by what it falls and rises, its range
DAMPING, FALL, RISE, STIFFEN, LEAST_DAMPING, MOST_DAMPING = 1e-3, 0.2, 5.0, 100.0, 1e-12, 1e12
HALVINGS = 10
ROW_BYTES, ENTRY_BYTES, FEATURE_BYTES = 100, 60, 80  # of the vectors and matrices under way


@kernel
def model_passes(H, gradient, w, m, most, tolerance):
    """``w`` = argmin over v of gradient'(v - w) + (v - w)'H(v - w) / 2 + sum m_j |v_j|, by passes over the coordinates;
    ``gradient`` becomes that of the quadratic part at the result."""
    for _ in range(most):
        worst = 0.0
        for j in range(w.shape[0]):
            h = H[j, j]
            u = w[j] * h - gradient[j]
            change = np.copysign(max(abs(u) - m[j], 0.0), u) / h - w[j]
            if change != 0.0:
                worst = max(worst, abs(change) * h)
                w[j] += change
                for k in range(w.shape[0]):
                    gradient[k] += change * H[j, k]
        if worst <= tolerance:
            break


@dataclass
class Losses:
    """sum_i loss(z_i) at labels y (T,) of +-1; smooth: whether it has a derivative everywhere."""

    name: str
    y: np.ndarray
    epsilon: float

    @property
    def smooth(self) -> bool:
        return self.name not in ("hinge", "epsilon-insensitive")

    def evaluate(self, z: np.ndarray, width: float) -> tuple[float, np.ndarray, np.ndarray]:
        """(sum, slopes (T,), second derivatives (T,)) of the losses, smoothed within ``width``."""
        if not self.smooth:
            if self.name == "hinge":
                excess, sign = 1.0 - self.y * z, -self.y
            else:
                excess, sign = np.abs(z - self.y) - self.epsilon, np.sign(z - self.y)
            inside = np.clip(excess, 0.0, width)
            total = float(np.sum(inside * inside) / (2.0 * width) + np.sum(np.maximum(excess - width, 0.0)))
            return total, sign * inside / width, ((excess > 0.0) & (excess < width)) / width
        losses, slopes = np.empty(len(z)), np.empty(len(z))
        records.losses_of(LOSS_NAMES.index(self.name), self.epsilon, z, self.y, losses, slopes)
        if self.name == "logistic":
            curvatures = expit(z) * expit(-z)
        elif self.name == "squared-hinge":
            curvatures = 2.0 * (self.y * z < 1.0)
        else:
            curvatures = np.ones(len(z))
        return float(losses.sum()), slopes, curvatures

    def total(self, z: np.ndarray) -> float:
        """Without smoothing."""
        losses, slopes = np.empty(len(z)), np.empty(len(z))
        records.losses_of(LOSS_NAMES.index(self.name), self.epsilon, z, self.y, losses, slopes)
        return float(losses.sum())

    def dual(self, s: np.ndarray) -> float:
        """-sum conjugate(s_i), for slopes s that the loss has."""
        a = -self.y * s
        if self.name == "hinge":
            return float(a.sum())
        if self.name == "squared-hinge":
            return float(np.sum(a - 0.25 * a * a))
        if self.name == "logistic":
            return -float(np.sum(xlogy(a, a) + xlogy(1.0 - a, 1.0 - a)))
        if self.name == "squared":
            return float(np.sum(a - 0.5 * s * s))
        return float(np.sum(a - self.epsilon * np.abs(s)))


def memory_of(n_rows: int, n_nonzeros: int, n_features: int) -> int:
    """Bytes that ``least`` takes for rows with this many features that occur."""
    moved = min(MOST_MOVED, n_features)
    return ROW_BYTES * n_rows + ENTRY_BYTES * n_nonzeros + FEATURE_BYTES * n_features + 24 * moved * moved


def least(
    X: scipy.sparse.csr_matrix,
    losses: Losses,
    m: np.ndarray,
    tolerance: float,
    tell: Callable[[float], None] = lambda gap: None,
    most_moved: int = MOST_MOVED,
) -> tuple[np.ndarray, float]:
    """(w (d,) float64, its certified relative gap), which is at most ``tolerance`` unless all widths are used up.

    X (T, d); m (d,) >= 0, the weights of |w_j|: where one is 0 and its feature moves a loss there is no certificate,
    and the gap is 1.  tell is called with the gap before each step; most_moved: features in one model.
    """
    columns = X.T.tocsr()
    w, best = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    z = np.zeros(X.shape[0])
    primal, dual = np.inf, 0.0
    widths = WIDTHS[: 1 if losses.smooth else UNCERTIFIED if (m == 0.0).any() else None]
    for width in widths:
        damping = DAMPING
        for _ in range(STEPS):
            total, slopes, curvatures = losses.evaluate(z, width)
            gradient = columns @ slopes
            objective = losses.total(z) + float(m @ np.abs(w))
            if objective < primal:
                primal, best = objective, w.copy()
            size = np.abs(gradient)
            scale = min(1.0, float(np.min(np.divide(m, size, out=np.ones(len(m)), where=size > m), initial=1.0)))
            dual = max(dual, losses.dual(scale * slopes))
            gap = (primal - dual) / primal if primal > 0.0 else 0.0
            tell(gap)
            if gap <= tolerance:
                return best, max(gap, 0.0)
            # subgradient of least norm: at w_j = 0 what lies beyond m_j
            steepest = np.where(w != 0.0, gradient + np.sign(w) * m, np.copysign(np.maximum(size - m, 0.0), gradient))
            moved = _moved(w, steepest, most_moved)
            worst = float(np.abs(steepest).max(initial=0.0))
            if len(moved) == 0 or (scale > 1.0 - SETTLED and worst <= SETTLED * max(float(m.max()), 1e-300)):
                break
            model = _model(columns, moved, curvatures)
            model[np.diag_indices_from(model)] += 1e-10 * max(float(model.diagonal().max()), 1e-300) + damping * worst
            after = w[moved]
            model_passes(model, gradient[moved], after, m[moved], PASSES, 1e-3 * worst)
            change = after - w[moved]
            foreseen = float(gradient[moved] @ change + m[moved] @ (np.abs(after) - np.abs(w[moved])))
            along = columns[moved].T @ change
            before = total + float(m @ np.abs(w))
            tried = w.copy()
            for halving in range(HALVINGS):
                step = 0.5**halving
                tried[moved] = w[moved] + step * change if halving else after
                value = losses.evaluate(z + step * along, width)[0] + float(m @ np.abs(tried))
                if value <= before + 1e-4 * step * foreseen:
                    break
            else:  # the model holds nowhere near: a step that is much shorter
                damping = max(damping * STIFFEN, DAMPING)
                if damping > MOST_DAMPING:
                    break  # rounding leaves nothing to gain
                continue
            w, z = tried, X @ tried
            damping = max(LEAST_DAMPING, damping * (FALL if halving == 0 else 1.0 if halving < 3 else RISE))
    return best, max((primal - dual) / primal, 0.0)


def _moved(w: np.ndarray, steepest: np.ndarray, most: int) -> np.ndarray:
    """Features of a model: those that are not 0, and of the others those with the largest violation, no more than half
    as many again; ``most`` at most."""
    inside = np.flatnonzero(w)
    new = np.flatnonzero((w == 0.0) & (steepest != 0.0))
    if len(inside) > most - FEWEST_NEW:
        inside = inside[np.argsort(-np.abs(steepest[inside]), kind="stable")[: most - FEWEST_NEW]]
    most_new = min(max(FEWEST_NEW, len(inside) // 2), most - len(inside))
    new = new[np.argsort(-np.abs(steepest[new]), kind="stable")[:most_new]]
    return np.sort(np.concatenate([inside, new]))


def _model(columns: scipy.sparse.csr_matrix, moved: np.ndarray, curvatures: np.ndarray) -> np.ndarray:
    """X' diag(curvatures) X of these features."""
    part = columns[moved]
    weighted = part.copy()
    weighted.data *= curvatures[weighted.indices]
    return np.ascontiguousarray((weighted @ part.T).toarray())
