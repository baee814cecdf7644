"""The passive-aggressive rules as published (Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006)."""

import numpy as np

COSTS = np.array([[0.0, 0.5, 4.0, 1.0], [1.0, 0.0, 0.0, 2.0], [9.0, 1.0, 0.0, 0.25], [1.0, 1.0, 1.0, 0.0]])


def step_of(learner: str, C: float, loss: float, q: float) -> float:
    """tau of pa, pa1 or pa2 (Fig. 1), or of the perceptron; q: squared norm of the direction."""
    if q == 0.0:
        return 0.0
    steps = {"pa": loss / q, "pa1": min(C, loss / q), "pa2": loss / (q + 0.5 / C), "perceptron": float(loss >= 1.0)}
    return steps[learner]


def pair_of(scores: np.ndarray, right: np.ndarray) -> tuple[int, int] | None:
    """The right class of the lowest score and the wrong one of the highest (section 7); None where no class, or every
    one, is right (k,) bool."""
    if right.all() or not right.any():
        return None
    return int(np.argmin(np.where(right, scores, np.inf))), int(np.argmax(np.where(right, -np.inf, scores)))


def costly(scores: np.ndarray, c: int, max_loss: bool) -> tuple[int | None, float]:
    """(s, loss) of a row of class c under ``COSTS`` (section 8): s the class predicted, or that of the largest
    score_s - score_c + sqrt(cost); (None, 0) where s is c."""
    roots = np.sqrt(COSTS[c])
    s = int(np.argmax(scores + roots if max_loss else scores))
    return (None, 0.0) if s == c else (s, scores[s] - scores[c] + roots[s])


def ranked(W: np.ndarray, x: np.ndarray, right) -> tuple[float, np.ndarray | None]:
    """(loss, direction of the step or None for none) of a row of these right classes: a class, or a set of them."""
    pair = pair_of(W @ x, np.isin(np.arange(len(W)), right))
    if pair is None:
        return 0.0, None
    r, s = pair
    return max(0.0, 1.0 - (W[r] - W[s]) @ x), np.outer(np.eye(len(W))[r] - np.eye(len(W))[s], x)


def costing(W: np.ndarray, x: np.ndarray, c: int, max_loss: bool) -> tuple[float, np.ndarray | None]:
    """The same where predictions cost."""
    s, loss = costly(W @ x, c, max_loss)
    return max(0.0, loss), None if s is None else np.outer(np.eye(len(W))[c] - np.eye(len(W))[s], x)


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
