"""HF-FOBOS against FOBOS in the manner of Oiwa, Matsushima, Nakagawa (ECML PKDD 2011), Table 2 and Figure 1: accuracy
by cross-validation, the share of weights that are zero, and the heights h_j of the thresholds by their norm; for each
of four ways to make values of a text's words, and on rows and domains that chose nothing.

    python -m experiments.hf_fobos FOLDER [--sets books,dvd,...] [--inputs counts,...] [--unseen ob-2-2,...]
        [--folds 10] [--epochs 20] [--jobs 2] [--figure FILE.png] [--json FILE]

FOLDER: the sets as tools/make_corpora.py writes them, NAME.svm.  Zeros are counted among the features of the training
rows; lambda is chosen by the folds that it is judged by, as in the paper.  The last table has lambda chosen by folds of
seven rows of ten, and the accuracy on the other three; the --unseen sets are in it alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import scipy.sparse
from joblib import Parallel, delayed

from blocksvm.learners.engine.runner import LearnerState, Runner
from blocksvm.learners.rules import sparse as kernels
from experiments.measuring import Tables, listed, panels, parser

INPUTS = ("counts", "counts-l2", "tf-idf", "tf-idf-l2")
UNSEEN = ("ob-2-2", "ob-2-3", "sb-2-2", "sb-2-3")
HELD_OUT = 0.3  # of the rows, for the last table
SETS = ("books", "dvd", "ob-2-1", "sb-2-1", "ob-8-1", "sb-8-1", "reut20")
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
class Plan:
    """How lambda is searched for: the whole grid on some folds with a share of the epochs, then the best few of these
    on the same folds with all epochs, then the best of those on all folds."""

    folds: int
    second: int
    last: int


FEWER = 4  # times fewer epochs, for the whole grid
# with more classes a run takes the time of many
PLANS = {"two classes": Plan(2, 4, 2), "more classes": Plan(1, 3, 1)}


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
    found = np.unique(labels)
    if set(found) == {-1.0, 1.0}:
        classes = 2
    elif np.array_equal(found, np.arange(len(found))) and len(found) > 2:
        classes = len(found)
    else:
        raise ValueError(f"{path}: labels must be -1 and 1, or 0 to k - 1 of more than two classes")
    return Corpus(path.stem, X, labels.astype(np.int16), classes)


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


def score(corpus: Corpus, method: str, l1: float, part: Split, rounds: int) -> tuple[float, float]:
    """Learn from ``rounds`` of a fold's training rows: (accuracy on its test rows, share of weights that are zero).

    A decision value of 0 counts as -1, of equal ones the smallest class wins.  Zeros are counted among the features
    that the training rows have, in all classes' weights.
    """
    runner, state = learn(corpus, method, l1, part.order[:rounds])
    d = corpus.X.shape[1]
    W = runner.weights(state, np.empty(runner.n_vectors * (d + 1))).reshape(runner.n_vectors, d + 1)[:, :d]
    Z = corpus.X[part.test] @ W.T
    right = (np.where(Z[:, 0] > 0.0, 1, -1) if corpus.classes == 2 else Z.argmax(axis=1)) == corpus.y[part.test]
    present = np.bincount(corpus.X[part.train].indices, minlength=d) > 0
    return float(right.mean()), float((W[:, present] == 0.0).mean())


class Search:
    """The search for one method's lambda on one data set; ``steps`` is what was tried: folds, epochs, accuracies."""

    def __init__(self, corpus: Corpus, method: str, splits: list[Split], epochs: int):
        self.corpus, self.method, self.splits, self.epochs = corpus, method, splits, epochs
        self.known: dict[tuple, tuple] = {}  # by lambda, fold, epochs
        self.steps: list[dict] = []

    def scores(self, l1: float, folds: int, epochs: int) -> list[tuple[float, float]]:
        for fold, part in enumerate(self.splits[:folds]):
            if (l1, fold, epochs) not in self.known:
                self.known[l1, fold, epochs] = score(self.corpus, self.method, l1, part, len(part.train) * epochs)
        return [self.known[l1, fold, epochs] for fold in range(folds)]

    def best(self, candidates: list[float], count: int, folds: int, epochs: int) -> list[float]:
        """The ``count`` candidates of the highest accuracy; of equal ones the larger lambda, which is the sparser."""
        found = {l1: float(np.mean([right for right, _ in self.scores(l1, folds, epochs)])) for l1 in candidates}
        self.steps.append({"folds": folds, "epochs": epochs, "accuracy": {f"{l1:g}": a for l1, a in found.items()}})
        return sorted(found, key=lambda l1: (found[l1], l1), reverse=True)[:count]

    def run(self, grid: tuple[float, ...], plan: Plan) -> dict:
        left = self.best(list(grid), plan.second, plan.folds, max(1, self.epochs // FEWER))
        left = self.best(left, plan.last, plan.folds, self.epochs)
        chosen = self.best(left, 1, len(self.splits), self.epochs)[0]
        accuracy, zeros = map(list, zip(*self.scores(chosen, len(self.splits), self.epochs), strict=True))
        return {"l1": chosen, "accuracy": accuracy, "zeros": zeros, "steps": self.steps}


def heights(corpus: Corpus, method: str, l1: float, order: np.ndarray) -> np.ndarray:
    """h_j (copies * d,) after the rounds of ``order``."""
    runner, state = learn(corpus, method, l1, order)
    sums = state.columns.reshape(runner.n_vectors, -1, runner.width)[:, :-1, kernels.COLUMN.powers]
    return np.array([kernels.height(total, runner.parameters) for total in sums.ravel()])


def run_set(corpus: Corpus, folds: int, epochs: int, seed: int, grid: tuple[float, ...]) -> dict[str, dict]:
    """All methods on a data set."""
    splits = split(len(corpus.y), folds, epochs, seed)
    return {method: Search(corpus, method, splits, epochs).run(grid, plan_of(corpus)) for method in METHODS}


def plan_of(corpus: Corpus) -> Plan:
    return PLANS["two classes" if corpus.classes == 2 else "more classes"]


def held_out(corpus: Corpus, folds: int, epochs: int, seed: int, grid: tuple[float, ...]) -> list[float]:
    """Each method's accuracy on rows that no lambda was chosen by, learned from all others."""
    order = np.random.default_rng([seed, 1]).permutation(len(corpus.y))
    test, train = np.split(order, [int(HELD_OUT * len(order))])
    part = Corpus(corpus.name, corpus.X[train], corpus.y[train], corpus.classes)
    draws = np.random.default_rng([seed, 2])
    order = np.concatenate([draws.permutation(train) for _ in range(epochs)]).astype(np.int32)
    last = Split(order, train, np.sort(test))
    splits = split(len(train), folds, epochs, seed)
    chosen = [Search(part, method, splits, epochs).run(grid, plan_of(corpus))["l1"] for method in METHODS]
    return [score(corpus, *one, last, len(order))[0] for one in zip(METHODS, chosen, strict=True)]


def rows_of(name: str, found: dict[str, dict]) -> list[list[str]]:
    """The rows of a table: accuracy, its gain over FOBOS with the standard error over folds, the paper's, zeros."""
    accuracy = {method: 100.0 * np.array(one["accuracy"]) for method, one in found.items()}
    gains = {method: values - accuracy["FOBOS"] for method, values in accuracy.items() if method != "FOBOS"}
    return [
        ["accuracy %", *(f"{values.mean():.2f} ± {values.std(ddof=1):.2f}" for values in accuracy.values())],
        ["less FOBOS", *(f"{g.mean():+.2f} ± {g.std(ddof=1) / np.sqrt(len(g)):.2f}" for g in gains.values()), ""],
        ["the paper", *(f"{value:.2f}" for value in PAPER.get(name, ())), *[""] * (name not in PAPER) * len(METHODS)],
        ["zero weights %", *(f"{100.0 * np.mean(one['zeros']):.1f}" for one in found.values())],
        ["lambda", *(f"{one['l1']:g}" for one in found.values())],
    ]


def draw(corpus: Corpus, found: dict[str, dict], options) -> None:
    """h_j by norm, learned from all rows with the lambda chosen for each; features sorted by it falling, both axes
    logarithmic."""
    n = len(corpus.y)
    draws = np.random.default_rng([options.seed, n])
    order = np.concatenate([draws.permutation(n) for _ in range(options.epochs)]).astype(np.int32)
    with panels(options.figure) as axes:
        for norm in NORMS:
            h = heights(corpus, norm, found[norm]["l1"], order)
            h = np.sort(h[h > 0.0])[::-1]
            axes[0, 0].loglog(np.arange(1, len(h) + 1), h, label=norm, lw=1.5)
        axes[0, 0].set(xlabel="features, for each norm sorted by h_j falling", ylabel="h_j", title=corpus.name)
        axes[0, 0].legend()


def main() -> None:
    p = parser(__doc__)
    p.add_argument("folder", type=Path)
    p.add_argument("--sets", type=listed, default=SETS)
    p.add_argument("--inputs", type=listed, default=INPUTS)
    p.add_argument("--unseen", type=listed, default=UNSEEN)
    p.add_argument("--folds", type=int, default=10)
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--figure", type=Path, metavar="FILE.png", help="heights by norm, of the first set")
    options = p.parse_args()
    tables, pool = Tables(options), Parallel(options.jobs, return_as="generator")
    given = options.folds, options.epochs, options.seed, GRID
    for rows in options.inputs:
        tables.begin(f"{options.folds} folds, {options.epochs} epochs, values: {rows}", "set", "", *METHODS)
        corpora = [load(options.folder / f"{name}.svm", rows) for name in options.sets]
        searches = pool(delayed(run_set)(corpus, *given) for corpus in corpora)
        for corpus, found in zip(corpora, searches, strict=True):
            for cells in rows_of(corpus.name, found):
                tables.row(corpus.name, *cells)
            if options.figure and rows == "counts" and corpus is corpora[0]:
                draw(corpus, found, options)
    tables.begin("accuracy % on rows that chose nothing", "set", "values", *METHODS)
    for name in [*options.sets, *options.unseen]:
        corpora = [load(options.folder / f"{name}.svm", rows) for rows in options.inputs]
        searches = pool(delayed(held_out)(corpus, *given) for corpus in corpora)
        for rows, found in zip(options.inputs, searches, strict=True):
            tables.row(name, rows, *(f"{100.0 * right:.2f}" for right in found))
    tables.end()


if __name__ == "__main__":
    main()
