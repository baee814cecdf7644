"""The certified least of sum_i loss(<w, x_i>) + sum_j m_j |w_j| on rows in memory.

Proximal Newton steps (Lee, Sun, Saunders, SIAM J. Optim. 2014) on the features that can move, each minimised by
coordinate descent over the quadratic model (Friedman, Hastie, Tibshirani, J. Stat. Softw. 2010).  Losses
with kinks are smoothed within a width that falls until the gap is certified (Nesterov, Math. Prog. 2005).

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

from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.loss_placeholders import conjugate, derivative, direction, second_derivative, step, value
from blocksvm.losses import get_loss

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
DIFFERENCE = 1e-4  # of the width: half of that over which slopes are compared
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


def smooth_terms(z, y, p, slopes, curvatures):
    """The sum of a loss's values, and its derivatives (T,); compiled with the functions of a loss without kinks."""
    total = 0.0
    for t in range(z.shape[0]):
        total += value(z[t], y[t], 1.0, p)
        slopes[t] = derivative(z[t], y[t], 1.0, p)
        curvatures[t] = second_derivative(z[t], y[t], 1.0, p)
    return total


@inlined
def smoothed_at(z, y, width, p):
    """(value, slope) of max over a of -conjugate(a) - a direction z - width a^2 / 2, which lies below the loss and
    nears it as width falls; the coordinate step is the maximiser."""
    a = step(0.0, z, width, y, 1.0, p)
    along = direction(y, p)
    return -conjugate(a, y, 1.0, p) - a * along * z - 0.5 * width * a * a, -a * along


def smoothed_terms(z, y, p, width, slopes, curvatures):
    """The same of a loss with kinks, smoothed within ``width``; second derivatives by differences."""
    total, h = 0.0, DIFFERENCE * width
    for t in range(z.shape[0]):
        term, slopes[t] = smoothed_at(z[t], y[t], width, p)
        _, left = smoothed_at(z[t] - h, y[t], width, p)
        _, right = smoothed_at(z[t] + h, y[t], width, p)
        curvatures[t] = (right - left) / (2.0 * h)
        total += term
    return total


def sum_of_values(z, y, p):
    total = 0.0
    for t in range(z.shape[0]):
        total += value(z[t], y[t], 1.0, p)
    return total


def sum_of_conjugates(s, y, p):
    """At slopes s that the loss has."""
    total = 0.0
    for t in range(s.shape[0]):
        total += conjugate(-s[t] * direction(y[t], p), y[t], 1.0, p)
    return total


@dataclass
class Losses:
    """sum_i loss(z_i) at labels y (T,) float64 of +-1; name: of the loss, p: its settings.  A loss with kinks
    has a conjugate, by which these are smoothed.
    """

    name: str
    y: np.ndarray
    p: tuple = ()

    def __post_init__(self):
        self.loss = get_loss(self.name)

    @property
    def smooth(self) -> bool:
        """It has second derivatives."""
        return self.loss.second_derivative is not None

    def evaluate(self, z: np.ndarray, width: float) -> tuple[float, np.ndarray, np.ndarray]:
        """(sum, slopes (T,), second derivatives (T,)) of the losses; those with kinks are smoothed within ``width``."""
        slopes, curvatures = np.empty(len(z)), np.empty(len(z))
        if self.smooth:
            total = self.loss.compiled(smooth_terms)(z, self.y, self.p, slopes, curvatures)
        else:
            total = self.loss.compiled(smoothed_terms)(z, self.y, self.p, width, slopes, curvatures)
        return total, slopes, curvatures

    def total(self, z: np.ndarray) -> float:
        """Without smoothing."""
        return self.loss.compiled(sum_of_values)(z, self.y, self.p)

    def dual(self, s: np.ndarray) -> float:
        """-sum conjugate(s_i), for slopes s that the loss has."""
        return -self.loss.compiled(sum_of_conjugates)(s, self.y, self.p)


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
