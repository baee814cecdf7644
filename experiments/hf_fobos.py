"""HF-FOBOS against FOBOS (Oiwa, Matsushima, Nakagawa, ECML PKDD 2011): the argument for thresholds that grow with a
feature's steps.

    python -m experiments.hf_fobos planted [--epochs 20]

Rows in which one feature occurs in half of the rows and one in a hundredth, both with P(y = 1 | feature) = 0.9, among
features that tell nothing: up to which lambda each has a weight.
"""

import math

import numpy as np
import scipy.sparse

from blocksvm import fit
from experiments.runs import row, script, table

NORMS = {"p = 1": 1.0, "p = 2": 2.0, "p = 3": 3.0, "p = inf": math.inf}
CAP = 500.0  # V, of p = 1 and 2
GRID = np.append(0.0, 10.0 ** np.arange(-5.0, 1.51, 0.25))  # of lambda
KEPT = 0.5  # of the frequent feature's weight without a threshold


def planted(n: int = 10_000, n_others: int = 200):
    """(X, y): feature 0 is the frequent one, 1 the rare one; the others are in a hundredth to a half of the rows."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    shares = np.append([0.5, 0.01], np.geomspace(0.01, 0.5, n_others))
    telling = np.append([0.9, 0.9], np.full(n_others, 0.5))  # P(y = 1 | feature)
    chance = 2.0 * shares * np.where(y[:, None] > 0, telling, 1.0 - telling)
    return scipy.sparse.csr_matrix((rng.random(chance.shape) < chance).astype(float)), y


@script("rows+", epochs=20)
def main(options) -> None:
    X, y = planted()
    table(f"planted, {options.epochs} epochs: the largest lambda with a weight that is not 0; and where the frequent "
          f"feature keeps at most {KEPT:.0%} of its weight, what the rare one keeps, and which others are 0", "method",
          "lambda, frequent", "lambda, rare", "quotient", "rare weight kept %", "others 0 %")  # fmt: skip
    for method in (*NORMS, "FOBOS"):
        own = {"learner": "hf-fobos", "p": NORMS[method], "cap": CAP} if method in NORMS else {"learner": "fobos"}
        own |= {"loss": "hinge", "step": 1.0, "decay": "sqrt", "max_outer": options.epochs}
        W = np.array([fit(X, y, l1=l1, **own).model.weights for l1 in GRID])
        last = [float(GRID[np.flatnonzero(W[:, j])[-1]]) for j in (0, 1)]
        half = int(np.flatnonzero(W[:, 0] <= KEPT * W[0, 0])[0])
        row(method, *(f"{l1:.1e}" for l1 in last), f"{last[0] / last[1]:.1f}",
            f"{100.0 * W[half, 1] / W[0, 1]:.0f}", f"{100.0 * np.mean(W[half, 2:] == 0.0):.0f}")  # fmt: skip
