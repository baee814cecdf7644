"""HF-FOBOS against FOBOS in the manner of Oiwa, Matsushima, Nakagawa (ECML PKDD 2011), Table 2 and Figure 1: accuracy
by cross-validation, the share of weights that are zero, and the heights h_j of the thresholds by their norm.

    python -m experiments.hf_fobos FOLDER [--sets books,dvd,...] [--folds 10] [--epochs 20]
        [--figure FILE.png] [--json FILE]

FOLDER: the sets as tools/make_corpora.py writes them, NAME.svm.  Zeros are counted among the features of the training
rows; lambda is chosen by the folds that it is judged by, as in the paper.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blocksvm.learners import sparse as kernels
from blocksvm.learners.runner import LearnerState, Runner
from experiments.measuring import Tables, parser

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
    share: int  # so many times fewer epochs
    second: int
    last: int

    def epochs(self, epochs: int) -> int:
        return max(1, epochs // self.share)


# with more classes a run takes the time of many
PLANS = {"two classes": Plan(2, 4, 4, 2), "more classes": Plan(1, 4, 3, 1)}


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

    @property
    def matrix(self) -> tuple:
        return self.X.indptr, self.X.indices, self.X.data


@dataclass(frozen=True)
class Score:
    """Of one fold: the share of test rows predicted rightly, and of the weights that are zero."""

    accuracy: float
    zeros: float


def load(path: Path, rows: str = "counts") -> Corpus:
    """The svmlight text, with rows scaled to length 1 if wanted."""
    from sklearn.datasets import load_svmlight_file

    X, labels = load_svmlight_file(path, zero_based=False)
    # frequent features side by side, which the processor's cache thanks
    X = X[:, np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")]
    X.sort_indices()
    if rows == "l2":
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


def folds_of(n: int, folds: int, seed: int) -> list[np.ndarray]:
    """The rows of each fold: every row in one of them."""
    return np.array_split(np.random.default_rng([seed, n]).permutation(n), folds)


def split(n: int, folds: int, epochs: int, seed: int) -> list[Split]:
    """The folds with their orders, drawn anew for each fold and epoch; all methods learn from the same."""
    made = []
    for number, test in enumerate(folds_of(n, folds, seed)):
        train = np.setdiff1d(np.arange(n), test)
        draws = np.random.default_rng([seed, n, number])
        order = np.concatenate([draws.permutation(train) for _ in range(epochs)]).astype(np.int32)
        made.append(Split(order, train, np.sort(test)))
    return made


def runner_for(corpus: Corpus, method: str, l1: float) -> Runner:
    own = {"p": NORMS[method], "cap": CAP} if method in NORMS else {}
    given = {"l1": l1, "loss": "hinge", "step": 1.0, "decay": "sqrt"} | own
    return Runner("hf-fobos" if own else "fobos", given, {}, n_classes=corpus.classes)


def learn(corpus: Corpus, method: str, l1: float, order: np.ndarray) -> tuple[Runner, LearnerState]:
    runner = runner_for(corpus, method, l1)
    d = corpus.X.shape[1]
    state = runner.new_state(d)
    runner.learn(corpus.matrix, corpus.y, order, d, state)
    return runner, state


def predict(corpus: Corpus, W: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Labels by the weights W (copies, d): a score of 0 counts as -1, of equal ones the smallest class wins."""
    scores = corpus.X[rows] @ W.T
    if corpus.classes == 2:
        return np.where(scores[:, 0] > 0.0, 1, -1)
    return scores.argmax(axis=1)


def score(corpus: Corpus, method: str, l1: float, part: Split, rounds: int) -> Score:
    """Learn from a fold's training rows (the first ``rounds`` of them), predict the others.

    Zeros are counted among the features that the training rows have, in all classes' weights.
    """
    runner, state = learn(corpus, method, l1, part.order[:rounds])
    d = corpus.X.shape[1]
    W = runner.weights(state, np.empty(runner.n_vectors * (d + 1))).reshape(runner.n_vectors, d + 1)[:, :d]
    right = predict(corpus, W, part.test) == corpus.y[part.test]
    present = np.bincount(corpus.X[part.train].indices, minlength=d) > 0
    return Score(float(right.mean()), float((W[:, present] == 0.0).mean()))


class Search:
    """The search for one method's lambda on one data set; ``steps`` is what was tried: folds, epochs, accuracies."""

    def __init__(self, corpus: Corpus, method: str, splits: list[Split], epochs: int):
        self.corpus, self.method, self.splits, self.epochs = corpus, method, splits, epochs
        self.known: dict[tuple, Score] = {}  # by lambda, fold, epochs
        self.steps: list[dict] = []

    def scores(self, l1: float, folds: int, epochs: int) -> list[Score]:
        keys = [(l1, fold, epochs) for fold in range(folds)]
        for key in keys:
            if key not in self.known:
                part = self.splits[key[1]]
                self.known[key] = score(self.corpus, self.method, l1, part, len(part.train) * epochs)
        return [self.known[key] for key in keys]

    def best(self, candidates: list[float], count: int, folds: int, epochs: int) -> list[float]:
        """The ``count`` candidates of the highest accuracy; of equal ones the larger lambda, which is the sparser."""
        found = {l1: float(np.mean([one.accuracy for one in self.scores(l1, folds, epochs)])) for l1 in candidates}
        self.steps.append({"folds": folds, "epochs": epochs, "accuracy": {f"{l1:g}": a for l1, a in found.items()}})
        return sorted(found, key=lambda l1: (found[l1], l1), reverse=True)[:count]

    def run(self, grid: tuple[float, ...], plan: Plan) -> dict:
        left = self.best(list(grid), plan.second, plan.folds, plan.epochs(self.epochs))
        left = self.best(left, plan.last, plan.folds, self.epochs)
        chosen = self.best(left, 1, len(self.splits), self.epochs)[0]
        scores = self.scores(chosen, len(self.splits), self.epochs)
        return {"l1": chosen, "accuracy": [one.accuracy for one in scores], "zeros": [one.zeros for one in scores],
                "steps": self.steps}  # fmt: skip


def heights(corpus: Corpus, method: str, l1: float, order: np.ndarray) -> np.ndarray:
    """h_j (copies * d,) after the rounds of ``order``."""
    runner, state = learn(corpus, method, l1, order)
    sums = state.columns.reshape(runner.n_vectors, -1, runner.width)[:, :-1, kernels.COLUMN.powers]
    return np.array([kernels.height(total, runner.parameters) for total in sums.ravel()])


def run_set(corpus: Corpus, folds: int, epochs: int, seed: int, grid: tuple[float, ...]) -> dict[str, dict]:
    """All methods on a data set."""
    splits = split(len(corpus.y), folds, epochs, seed)
    plan = PLANS["two classes" if corpus.classes == 2 else "more classes"]
    return {method: Search(corpus, method, splits, epochs).run(grid, plan) for method in METHODS}


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
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n = len(corpus.y)
    draws = np.random.default_rng([options.seed, n])
    order = np.concatenate([draws.permutation(n) for _ in range(options.epochs)]).astype(np.int32)
    figure, axes = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
    for norm in NORMS:
        h = heights(corpus, norm, found[norm]["l1"], order)
        h = np.sort(h[h > 0.0])[::-1]
        axes.loglog(np.arange(1, len(h) + 1), h, label=norm, lw=1.5)
    axes.set(xlabel="features, for each norm sorted by h_j falling", ylabel="h_j", title=corpus.name)
    axes.legend()
    figure.savefig(options.figure, dpi=130)
    plt.close(figure)


def main() -> None:
    p = parser(__doc__)
    p.add_argument("folder", type=Path)
    p.add_argument("--sets", default=",".join(SETS))
    p.add_argument("--rows-l2", default=",".join(SETS[:4]), help="sets of the second table, of rows of length 1")
    p.add_argument("--folds", type=int, default=10)
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--figure", type=Path, metavar="FILE.png", help="heights by norm, of the first set")
    options = p.parse_args()
    tables = Tables(options)
    for rows, names in {"counts": options.sets, "l2": options.rows_l2}.items():
        tables.begin(f"{options.folds} folds, {options.epochs} epochs, rows: {rows}", "set", "", *METHODS)
        for name in filter(None, names.split(",")):
            corpus = load(options.folder / f"{name}.svm", rows)
            found = run_set(corpus, options.folds, options.epochs, options.seed, GRID)
            for cells in rows_of(name, found):
                tables.row(name, *cells)
            if options.figure and rows == "counts" and name == options.sets.split(",")[0]:
                draw(corpus, found, options)
    tables.end()


if __name__ == "__main__":
    main()
