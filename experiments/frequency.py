"""The argument for thresholds that grow with a feature's steps (Oiwa, Matsushima, Nakagawa, ECML PKDD 2011): a
threshold that all features share makes the weights of rare features zero, however much these tell.

    python -m experiments.frequency FILE.svm ... [--epochs 20]

First planted rows, in which one feature occurs in half of the rows
and one in a hundredth, both with P(y = 1 | feature) = 0.9, among features that tell nothing.  Then the files: how many
weights are zero by the number of rows that have the feature, and what subgradient steps on the same problem leave.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse

from experiments.hf_fobos import GRID, METHODS, Corpus, best, learn, load, run_set
from experiments.runs import begin, parser, row, table

ROWS, NOISE = 10_000, 200
FREQUENT, RARE = 0.5, 0.01  # shares of rows with the two features
TELLING = 0.9  # P(y = 1 | either)
PLANTED_GRID = np.append(0.0, 10.0 ** np.arange(-5.0, 1.51, 0.25))  # of lambda
KEPT = 0.5  # of the frequent feature's weight without a threshold
FOLDS = 5
BINS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 1 << 30)  # rows with a feature


def planted(seed: int) -> Corpus:
    """Feature 0 is the frequent one, 1 the rare one; the others, in a hundredth to a half of the rows, tell nothing."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(ROWS) < 0.5, 1, -1)
    shares = np.append([FREQUENT, RARE], np.geomspace(RARE, FREQUENT, NOISE))
    right = np.append([TELLING, TELLING], np.full(NOISE, 0.5))
    chance = np.where(y[:, None] > 0, 2.0 * shares * right, 2.0 * shares * (1.0 - right))
    X = scipy.sparse.csr_matrix((rng.random(chance.shape) < chance).astype(float))
    X.indptr, X.indices = X.indptr.astype(np.int64), X.indices.astype(np.int32)
    return Corpus("planted", X, y.astype(np.int16), 2)


def order_of(corpus: Corpus, epochs: int, seed: int) -> np.ndarray:
    draws = np.random.default_rng([seed, len(corpus.y)])
    return np.concatenate([draws.permutation(len(corpus.y)) for _ in range(epochs)]).astype(np.int32)


def weights(corpus: Corpus, method: str, l1: float, order: np.ndarray) -> np.ndarray:
    """(d,) after the rounds of ``order``."""
    runner, state = learn(corpus, method, l1, order)
    return runner.weights(state, np.empty(corpus.X.shape[1] + 1))[:-1]


def table_of_planted(epochs: int, seed: int) -> None:
    corpus = planted(seed)
    order = order_of(corpus, epochs, seed)
    table(f"planted, {epochs} epochs: the largest lambda with a weight that is not 0; and where the frequent "
          f"feature keeps at most {KEPT:.0%} of its weight, what the rare one keeps, and which others are 0",
          "method", "lambda, frequent", "lambda, rare", "quotient", "rare weight kept %",
          "others 0 %")  # fmt: skip
    for method in METHODS:
        W = np.array([weights(corpus, method, l1, order) for l1 in PLANTED_GRID])
        last = [float(PLANTED_GRID[np.flatnonzero(W[:, j])[-1]]) for j in (0, 1)]
        half = int(np.flatnonzero(W[:, 0] <= KEPT * W[0, 0])[0])
        row(method, *(f"{l1:.1e}" for l1 in last), f"{last[0] / last[1]:.1f}",
            f"{100.0 * W[half, 1] / W[0, 1]:.0f}", f"{100.0 * np.mean(W[half, 2:] == 0.0):.0f}")  # fmt: skip


def zeros_by_frequency(corpus: Corpus, w: np.ndarray) -> list[float]:
    """Percentage of weights that are zero, of the features in so many rows as each of BINS says."""
    rows = np.bincount(corpus.X.indices, minlength=len(w))
    return [
        100.0 * float(np.mean(w[(rows >= low) & (rows < high)] == 0.0))
        for low, high in zip(BINS[:-1], BINS[1:], strict=True)
        if ((rows >= low) & (rows < high)).any()
    ]


def tables_of_set(corpus: Corpus, epochs: int, seed: int) -> None:
    order = order_of(corpus, epochs, seed)
    found = run_set(corpus, METHODS, FOLDS, epochs, seed, GRID)
    rows = np.bincount(corpus.X.indices)
    bins = [low for low, high in zip(BINS[:-1], BINS[1:], strict=True) if ((rows >= low) & (rows < high)).any()]
    names = [f"{low}" if high == low + 1 else f"{low}-{high - 1}" if high < BINS[-1] else f"{low} or more"
             for low, high in zip(BINS[:-1], BINS[1:], strict=True) if low in bins]  # fmt: skip
    table(f"{corpus.name}: weights that are 0, %, by the number of rows with the feature; lambda by folds",
          "method", "lambda", "accuracy %", *names, "all")  # fmt: skip
    for method in METHODS:
        l1 = GRID[best(found[method])]
        w = weights(corpus, method, l1, order)
        row(method, f"{l1:g}", f"{100.0 * found[method][..., 0].mean(axis=1).max():.2f}",
            *(f"{share:.0f}" for share in zeros_by_frequency(corpus, w)),
            f"{100.0 * np.mean(w[: len(rows)] == 0.0):.1f}")  # fmt: skip
    table(f"{corpus.name}: subgradient steps and FOBOS on the same problem, {epochs} epochs", "lambda",
          *(f"{method}: {what}" for method in ("subgradient", "FOBOS")
            for what in ("weights 0, %", "below 1e-3, %", "accuracy %")))  # fmt: skip
    found |= run_set(corpus, ("subgradient",), FOLDS, epochs, seed, GRID)
    accuracy = {method: one[..., 0].mean(axis=1) for method, one in found.items()}
    for l1 in GRID[2:]:
        cells = []
        for method in ("subgradient", "FOBOS"):
            w = weights(corpus, method, l1, order)[: len(rows)]
            cells += [np.mean(w == 0.0), np.mean(np.abs(w) < 1e-3), accuracy[method][GRID.index(l1)]]
        row(f"{l1:g}", *(f"{100.0 * cell:.2f}" for cell in cells))


def main() -> None:
    p = parser(__doc__)
    p.add_argument("files", type=Path, nargs="+", metavar="FILE.svm")
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    options = p.parse_args()
    begin()
    table_of_planted(options.epochs, options.seed)
    for path in options.files:
        tables_of_set(load(path), options.epochs, options.seed)


if __name__ == "__main__":
    main()
