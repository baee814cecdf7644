"""HF-FOBOS against FOBOS in the manner of Oiwa, Matsushima, Nakagawa (ECML PKDD 2011), Table 2: accuracy by
cross-validation and the share of weights that are zero, for each of four ways to make values of a text's words.

    python -m experiments.hf_fobos FILE.svm ... [--methods 'p = 2,FOBOS'] [--inputs counts,...] [--folds 10]
        [--epochs 20] [--jobs 2]

Every lambda of the grid is tried on all folds with all epochs, for each method alike.  The one shown is that of the
highest accuracy on the folds that it is judged by, as in the paper; "lambda by the other folds" takes for each fold the
one that is best on the others.  Zeros are counted among the features of the training rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse
from joblib import Parallel, delayed

from blocksvm.online.runner import LearnerState, Runner
from experiments.runs import begin, listed, parser, row, table

INPUTS = ("counts", "counts-l2", "tf-idf", "tf-idf-l2")
NORMS = {"p = 1": 1.0, "p = 2": 2.0, "p = 3": 3.0, "p = inf": math.inf}
METHODS = (*NORMS, "FOBOS")
CAP = 500.0  # V, of p = 1 and 2
# Table 2 of the paper, accuracy in per cent, in the order of METHODS
PAPER = {
    "books": (85.23, 85.52, 85.14, 85.05, 84.98),
    "dvd": (82.49, 84.75, 85.03, 84.02, 83.91),
    "ob-2-1": (97.00, 97.10, 96.90, 96.80, 96.40),
    "sb-2-1": (98.90, 98.40, 98.40, 98.10, 97.20),
    "ob-8-1": (92.25, 93.10, 93.00, 91.45, 90.63),
    "sb-8-1": (90.90, 92.55, 93.78, 91.25, 90.53),
    "reut20": (95.23, 96.04, 95.91, 94.80, 95.53),
}
GRID = tuple(float(f"{10.0 ** (k / 2):.2g}") for k in range(-10, -1))


@dataclass(frozen=True)
class Split:
    """One fold: the rows to learn from in their order, epoch behind epoch (int32), and those to be predicted."""

    order: np.ndarray
    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Corpus:
    """A data set: X (n, d) scipy CSR; y (n,) int16 of +-1 or the class; classes: how many."""

    name: str
    X: object
    y: np.ndarray
    classes: int


def load(path: Path, rows: str = "counts") -> Corpus:
    """The svmlight text; rows: one of INPUTS, tf-idf: each count times ln(rows / rows with the word) of all rows; l2:
    then divided by the row's length."""
    from sklearn.datasets import load_svmlight_file

    X, labels = load_svmlight_file(path, zero_based=False)
    # frequent features side by side, which the processor's cache thanks
    X = X[:, np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")]
    X.sort_indices()
    if rows.startswith("tf-idf"):
        idf = np.log(X.shape[0] / np.maximum(1, np.bincount(X.indices, minlength=X.shape[1])))
        X = scipy.sparse.csr_matrix(X.multiply(idf))
        X.eliminate_zeros()  # words that all rows have
        X.sort_indices()
    if rows.endswith("l2"):
        norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
        X.data /= np.repeat(np.where(norms > 0.0, norms, 1.0), np.diff(X.indptr))
    X.indptr, X.indices = X.indptr.astype(np.int64), X.indices.astype(np.int32)
    found, y = np.unique(labels, return_inverse=True)
    return Corpus(path.stem, X, (2 * y - 1 if len(found) == 2 else y).astype(np.int16), len(found))


def split(n: int, folds: int, epochs: int, seed: int) -> list[Split]:
    """The folds, every row in one of them, with orders drawn anew for each fold and epoch, the same for all methods."""
    made = []
    for number, test in enumerate(np.array_split(np.random.default_rng([seed, n]).permutation(n), folds)):
        train = np.setdiff1d(np.arange(n), test)
        draws = np.random.default_rng([seed, n, number])
        order = np.concatenate([draws.permutation(train) for _ in range(epochs)]).astype(np.int32)
        made.append(Split(order, train, np.sort(test)))
    return made


def learn(corpus: Corpus, method: str, l1: float, order: np.ndarray) -> tuple[Runner, LearnerState]:
    heights, d = {"p": NORMS[method], "cap": CAP} if method in NORMS else {}, corpus.X.shape[1]
    given = {"l1": l1, "loss": "hinge", "step": 1.0, "decay": "sqrt"} | heights
    name = "hf-fobos" if heights else method.lower()
    runner = Runner(name, given, {}, n_classes=corpus.classes)
    state = runner.new_state(d)
    runner.learn((corpus.X.indptr, corpus.X.indices, corpus.X.data), corpus.y, order, d, state)
    return runner, state


def score(corpus: Corpus, method: str, l1: float, part: Split) -> tuple[float, float]:
    """Learn from a fold's training rows: (accuracy on its test rows, share of weights that are zero).

    A decision value of 0 counts as -1, of equal ones the smallest class wins.  Zeros are counted among the features
    that the training rows have, in all classes' weights.
    """
    runner, state = learn(corpus, method, l1, part.order)
    d = corpus.X.shape[1]
    W = runner.weights(state, np.empty(runner.n_vectors * (d + 1))).reshape(runner.n_vectors, d + 1)[:, :d]
    Z = corpus.X[part.test] @ W.T
    right = (np.where(Z[:, 0] > 0.0, 1, -1) if corpus.classes == 2 else Z.argmax(axis=1)) == corpus.y[part.test]
    present = np.bincount(corpus.X[part.train].indices, minlength=d) > 0
    return float(right.mean()), float((W[:, present] == 0.0).mean())


def run_set(
    corpus: Corpus, methods: tuple[str, ...], folds: int, epochs: int, seed: int, grid: tuple[float, ...]
) -> dict[str, np.ndarray]:
    """By method (lambdas, folds, 2): accuracy and the share of weights that are zero."""
    splits = split(len(corpus.y), folds, epochs, seed)
    return {
        method: np.array([[score(corpus, method, l1, part) for part in splits] for l1 in grid]) for method in methods
    }


def best(found: np.ndarray) -> int:
    """The lambda of the highest mean accuracy; of equal ones the largest, which is the sparsest."""
    means = found[..., 0].mean(axis=1).round(12)
    return len(means) - 1 - int(np.argmax(means[::-1]))


def by_other_folds(found: np.ndarray) -> np.ndarray:
    """(folds,): the accuracy on each fold of the lambda that is best on the others."""
    return np.array([found[best(np.delete(found, k, axis=1)), k, 0] for k in range(found.shape[1])])


def compared(accuracy: dict[str, np.ndarray], what: str, spread: bool) -> list[list[str]]:
    """Accuracy in per cent, with its deviation over folds; its lead over FOBOS with the standard error over folds."""
    percent = {method: 100.0 * values for method, values in accuracy.items()}
    leads = [values - percent["FOBOS"] for method, values in percent.items() if method != "FOBOS"]
    return [
        [f"accuracy %{what}", *(f"{v.mean():.2f}" + f" ± {v.std(ddof=1):.2f}" * spread for v in percent.values())],
        [f"less FOBOS{what}", *(f"{v.mean():+.2f} ± {v.std(ddof=1) / np.sqrt(len(v)):.2f}" for v in leads), ""],
    ]


def rows_of(name: str, found: dict[str, np.ndarray], grid: tuple[float, ...]) -> list[list[str]]:
    """The rows of a table; FOBOS is the last method."""
    chosen = {method: best(one) for method, one in found.items()}
    accuracy, zeros = ({method: one[chosen[method], :, k] for method, one in found.items()} for k in (0, 1))
    paper = dict(zip(METHODS, PAPER.get(name, [math.nan] * len(METHODS)), strict=True))
    return [
        *compared(accuracy, "", spread=True),
        ["the paper", *("" if math.isnan(paper[method]) else f"{paper[method]:.2f}" for method in found)],
        ["zero weights %", *(f"{100.0 * share.mean():.1f}" for share in zeros.values())],
        ["lambda", *(f"{grid[k]:g}" for k in chosen.values())],
        *compared({method: by_other_folds(one) for method, one in found.items()}, ", lambda by the other folds", False),
    ]


def main() -> None:
    p = parser(__doc__)
    p.add_argument("files", type=Path, nargs="+", metavar="FILE.svm")
    p.add_argument(
        "--methods", type=listed, default=list(METHODS), help="FOBOS, and before it some of p = 1, 2, 3, inf"
    )
    p.add_argument("--inputs", type=listed, default=INPUTS)
    p.add_argument("--folds", type=int, default=10)
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=2)
    options = p.parse_args()
    pool = Parallel(options.jobs, return_as="generator")
    begin()
    for values in options.inputs:
        table(f"{values}: {options.folds} folds, {options.epochs} epochs", "set", "what", *options.methods)
        corpora = [load(path, values) for path in options.files]
        given = options.methods, options.folds, options.epochs, options.seed, GRID
        searches, curves = pool(delayed(run_set)(corpus, *given) for corpus in corpora), []
        for corpus, found in zip(corpora, searches, strict=True):
            for cells in rows_of(corpus.name, found, GRID):
                row(corpus.name, *cells)
            curves += [(corpus.name, method, one[..., 0].mean(axis=1)) for method, one in found.items()]
        table(f"{values}: accuracy % by lambda", "set", "method", *(f"{l1:g}" for l1 in GRID))
        for name, method, means in curves:
            row(name, method, *(f"{100.0 * mean:.2f}" for mean in means))


if __name__ == "__main__":
    main()
