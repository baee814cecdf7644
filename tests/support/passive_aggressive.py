"""The passive-aggressive rules as published (Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006)."""

import numpy as np

COSTS = np.array([[0.0, 0.5, 4.0, 1.0], [1.0, 0.0, 0.0, 2.0], [9.0, 1.0, 0.0, 0.25], [1.0, 1.0, 1.0, 0.0]])


def step_of(learner: str, C: float, loss: float, q: float) -> float:
    """tau of pa, pa1 or pa2 (Fig. 1), or of the perceptron; q: squared norm of the direction."""
    if q == 0.0:
        return 0.0
    steps = {"pa": loss / q, "pa1": min(C, loss / q), "pa2": loss / (q + 0.5 / C), "perceptron": float(loss >= 1.0)}
    return steps[learner]


def moved(W: np.ndarray, x: np.ndarray, r: int, s: int) -> np.ndarray:
    """The direction of a step for class r and against class s."""
    each = np.eye(len(W))
    return np.outer(each[r] - each[s], x)


def ranked(W: np.ndarray, x: np.ndarray, right) -> tuple[float, np.ndarray | None]:
    """(loss, direction of the step or None for none) of a row of these right classes, a class or a set of them: for the
    right class of the lowest score, against the wrong one of the highest (section 7)."""
    scores, own = W @ x, np.isin(np.arange(len(W)), right)
    if own.all() or not own.any():
        return 0.0, None
    r, s = np.argmin(np.where(own, scores, np.inf)), np.argmax(np.where(own, -np.inf, scores))
    return max(0.0, 1.0 - scores[r] + scores[s]), moved(W, x, r, s)


def costing(W: np.ndarray, x: np.ndarray, c: int, max_loss: bool) -> tuple[float, np.ndarray | None]:
    """The same under ``COSTS`` (section 8): against the class predicted, or that of the largest score_s - score_c +
    sqrt(cost)."""
    scores, roots = W @ x, np.sqrt(COSTS[c])
    s = np.argmax(scores + roots if max_loss else scores)
    return (0.0, None) if s == c else (max(0.0, scores[s] - scores[c] + roots[s]), moved(W, x, c, s))


def played(learner: str, C: float, w: np.ndarray, X: np.ndarray, targets, loss_of):
    """(w after all rows, w before each, [losses, tau, squared norms of the directions]) by (loss, direction) =
    loss_of(w, x, target)."""
    before, found = [], []
    for x, target in zip(X, targets, strict=True):
        loss, direction = loss_of(w, x, target)
        q = 0.0 if direction is None else float((direction**2).sum())
        before.append(w)
        found.append((loss, step_of(learner, C, loss, q), q))
        if found[-1][1]:
            w = w + found[-1][1] * direction
    return w, before, np.array(found).T
