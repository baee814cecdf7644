"""The passive-aggressive rules as published (Crammer, Dekel, Keshet, Shalev-Shwartz, Singer, JMLR 2006)."""

import numpy as np

COSTS = np.array([[0.0, 0.5, 4.0, 1.0], [1.0, 0.0, 0.0, 2.0], [9.0, 1.0, 0.0, 0.25], [1.0, 1.0, 1.0, 0.0]])


def step_of(learner: str, C: float, loss: float, q: float) -> float:
    """tau of pa, pa1 or pa2 (Fig. 1), q: squared norm of the direction."""
    if q == 0.0:
        return 0.0
    return {"pa": loss / q, "pa1": min(C, loss / q), "pa2": loss / (q + 0.5 / C)}[learner]


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
