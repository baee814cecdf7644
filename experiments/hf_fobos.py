"""HF-FOBOS against FOBOS (Oiwa, Matsushima, Nakagawa, ECML PKDD 2011): accuracy and weights that are zero by
cross-validation (Table 2 of the paper), and the argument for thresholds that grow with a feature's steps.

    python -m experiments.hf_fobos FILE.svm ... [--inputs counts,...] [--epochs 20]
    python -m experiments.hf_fobos planted [--epochs 20]

The first, of two classes, for each way to make values of a text's words: every lambda of the grid on all ten folds with
all epochs, for both methods.  The one shown is that of the highest accuracy on the folds that it is judged by, as in
the paper; "lambda by the other folds" takes for each fold the one that is best on the others.  Zeros are counted among
the features of the training rows.  planted: rows in which one feature occurs in half of the rows and one in a
hundredth, both with P(y = 1 | feature) = 0.9, among features that tell nothing.
"""

import math
from pathlib import Path

import numpy as np
import scipy.sparse
from joblib import Parallel, delayed

from blocksvm.online.runner import Runner
from experiments.runs import row, rows_of, script, table

INPUTS = ("counts", "counts-l2", "tf-idf", "tf-idf-l2")
NORMS = {"p = 1": 1.0, "p = 2": 2.0, "p = 3": 3.0, "p = inf": math.inf}
METHODS = ("p = 2", "FOBOS")
CAP = 500.0  # V, of p = 1 and 2
GRID = tuple(float(f"{10.0 ** (k / 2):.2g}") for k in range(-10, -1))  # of lambda
PLANTED_GRID = np.append(0.0, 10.0 ** np.arange(-5.0, 1.51, 0.25))
KEPT = 0.5  # of the frequent feature's weight without a threshold
FOLDS = 10


def load(path: Path, values: str):
    """(X CSR, y of +-1); values: one of INPUTS, tf-idf: each count times ln(rows / rows with the word) of all rows; l2:
    then divided by the row's length."""
    from sklearn.preprocessing import normalize

    X, y = rows_of(path)
    # frequent features side by side, which the processor's cache thanks
    X = X[:, np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")]
    if values.startswith("tf-idf"):
        idf = np.log(X.shape[0] / np.maximum(1, np.bincount(X.indices, minlength=X.shape[1])))
        X = scipy.sparse.csr_matrix(X.multiply(idf))
        X.eliminate_zeros()  # words that all rows have
    X = normalize(X) if values.endswith("l2") else X
    X.sort_indices()
    return X, y


def learned(X, y: np.ndarray, method: str, l1: float, order: np.ndarray) -> np.ndarray:
    """The weights (d,) after the rounds of ``order``."""
    heights, d = {"p": NORMS[method], "cap": CAP} if method in NORMS else {}, X.shape[1]
    given = {"l1": l1, "loss": "hinge", "step": 1.0, "decay": "sqrt"} | heights
    runner = Runner("hf-fobos" if heights else "fobos", given, {}, n_classes=2)
    state = runner.new_state(d)
    rows = X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data
    runner.learn(rows, y.astype(np.int16), order, d, state)
    return runner.weights(state, np.empty(d + 1))[:d]


def epochs_of(rows: np.ndarray, epochs: int, *seed: int) -> np.ndarray:
    draws = np.random.default_rng([0, *seed])
    return np.concatenate([draws.permutation(rows) for _ in range(epochs)]).astype(np.int32)


def searched(X, y: np.ndarray, epochs: int) -> dict[str, np.ndarray]:
    """By method (lambdas, folds, 2): accuracy and share of weights that are zero, in per cent.  A decision value of 0
    counts as -1.  Orders are the same for all methods."""
    n, d = X.shape
    found = {method: np.empty((len(GRID), FOLDS, 2)) for method in METHODS}
    for k, test in enumerate(np.array_split(np.random.default_rng([0, n]).permutation(n), FOLDS)):
        rest = np.setdiff1d(np.arange(n), test)
        order, present = epochs_of(rest, epochs, n, k), np.bincount(X[rest].indices, minlength=d) > 0
        for method in METHODS:
            for at, l1 in enumerate(GRID):
                w = learned(X, y, method, l1, order)
                right = (X[test] @ w > 0.0) == (y[test] > 0)
                found[method][at, k] = 100.0 * right.mean(), 100.0 * (w[present] == 0.0).mean()
    return found


def best(found: np.ndarray) -> int:
    """The lambda of the highest mean accuracy; of equal ones the largest, which is the sparsest."""
    means = found[..., 0].mean(axis=1).round(10)
    return len(means) - 1 - int(np.argmax(means[::-1]))


def compare(options) -> None:
    pool = Parallel(2, return_as="generator")
    for values in options.inputs:
        table(f"{values}: {FOLDS} folds, {options.epochs} epochs", "set", "what", *METHODS, "p = 2 less FOBOS")
        searches = pool(delayed(searched)(*load(Path(path), values), options.epochs) for path in options.files)
        for path, found in zip(options.files, searches, strict=True):
            by = [found[one][best(found[one])] for one in METHODS]  # (folds, 2)
            others = [np.array([each[best(np.delete(each, k, axis=1)), k, 0] for k in range(FOLDS)])
                      for each in found.values()]  # fmt: skip
            for what, right in (("", [one[:, 0] for one in by]), (", lambda by the other folds", others)):
                lead = right[0] - right[1]
                row(Path(path).stem, f"accuracy %{what}",
                    *(f"{one.mean():.2f} ± {one.std(ddof=1):.2f}" for one in right),
                    f"{lead.mean():+.2f} ± {lead.std(ddof=1) / np.sqrt(FOLDS):.2f}")  # fmt: skip
            row(Path(path).stem, "zero weights %", *(f"{one[:, 1].mean():.1f}" for one in by), "")


def planted(n: int = 10_000, n_others: int = 200):
    """Feature 0 is the frequent one, 1 the rare one; the others, in a hundredth to a half of the rows, tell nothing."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    shares = np.append([0.5, 0.01], np.geomspace(0.01, 0.5, n_others))
    telling = np.append([0.9, 0.9], np.full(n_others, 0.5))  # P(y = 1 | feature)
    chance = 2.0 * shares * np.where(y[:, None] > 0, telling, 1.0 - telling)
    return scipy.sparse.csr_matrix((rng.random(chance.shape) < chance).astype(float)), y


def frequency(options) -> None:
    X, y = planted()
    order = epochs_of(np.arange(len(y)), options.epochs, len(y))
    table(f"planted, {options.epochs} epochs: the largest lambda with a weight that is not 0; and where the frequent "
          f"feature keeps at most {KEPT:.0%} of its weight, what the rare one keeps, and which others are 0", "method",
          "lambda, frequent", "lambda, rare", "quotient", "rare weight kept %", "others 0 %")  # fmt: skip
    for method in (*NORMS, "FOBOS"):
        W = np.array([learned(X, y, method, l1, order) for l1 in PLANTED_GRID])
        last = [float(PLANTED_GRID[np.flatnonzero(W[:, j])[-1]]) for j in (0, 1)]
        half = int(np.flatnonzero(W[:, 0] <= KEPT * W[0, 0])[0])
        row(method, *(f"{l1:.1e}" for l1 in last), f"{last[0] / last[1]:.1f}",
            f"{100.0 * W[half, 1] / W[0, 1]:.0f}", f"{100.0 * np.mean(W[half, 2:] == 0.0):.0f}")  # fmt: skip


@script("files", inputs=INPUTS, epochs=20)
def main(options) -> None:
    (frequency if options.files == ["planted"] else compare)(options)
