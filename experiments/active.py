"""Labels that cost: accuracy against the number of labels asked for.

    python -m experiments.active NAME=TEXT.svm[,C] ... [--seeds 5]

A third of the rows is held out.  Of the others, the pool, labels are asked for
    smallest margins   some at a time: those of the least |<w, x>| by the weights so far (Tong and Koller, JMLR 2001;
                       Schohn and Cohn, ICML 2000), the first ones at random
    at random
    as they pass       one pass in random order, with probability b / (b + |<w, x>|) (Cesa-Bianchi, Gentile, Zaniboni,
                       JMLR 2006): --query of train and stream, for several b
The first two train on all labels so far a machine with hinge loss and this C (0.1), to its optimum; the third learns by
pa1 with this C (the mean of the weights), and so does a pass over labels at random beside it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.sparse

from blocksvm import fit
from experiments.runs import begin, parser, row, table

COUNTS = (50, 100, 200, 500, 1000, 2000, 5000)
QUERIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)


def load(path: str) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """(X, y of +-1) of two classes."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(path, dtype=np.float32)
    return X, np.where(y == y.max(), 1.0, -1.0)


def smallest_margins(scores: np.ndarray, known: np.ndarray, n: int) -> np.ndarray:
    """The n rows of the least |score| that are not ``known`` (bool), of equal ones the first."""
    return np.argsort(np.where(known, np.inf, np.abs(scores)), kind="stable")[: min(n, int((~known).sum()))]


def from_pool(
    train: Callable[[np.ndarray], np.ndarray], X: scipy.sparse.csr_matrix, first: np.ndarray, counts: tuple[int, ...]
) -> list[np.ndarray]:
    """The rows asked for up to each of ``counts``, the smallest margins first; train(rows): w of the labels of these.

    first: the rows asked for before there is a w.  Each step asks for a tenth as many labels as there are, at least 10.
    """
    asked, found = first, []
    for count in counts:
        while len(asked) < count:
            known = np.zeros(X.shape[0], bool)
            known[asked] = True
            n = min(max(10, len(asked) // 10), count - len(asked))
            asked = np.concatenate([asked, smallest_margins(X @ train(asked), known, n)])
        found.append(asked)
    return found


def main() -> None:
    p = parser(__doc__)
    p.add_argument("data", nargs="+", metavar="NAME=TEXT.svm[,C]")
    p.add_argument("--seeds", type=int, default=5)
    options = p.parse_args()
    passes = []
    begin()
    table(f"test accuracy in per cent by the number of labels, means of {options.seeds} draws", "data",
          "labels by", "learner", *(f"{n:,}" for n in COUNTS), "all")  # fmt: skip
    for one in options.data:
        name, _, rest = one.partition("=")
        path, _, C = rest.partition(",")
        C = float(C or 0.1)
        X, y = load(path)
        results: dict[tuple, list] = {}
        for seed in range(options.seeds):
            order = np.random.default_rng(seed).permutation(len(y))
            test, pool = order[: len(y) // 3], order[len(y) // 3 :]
            rows, labels = X[pool], y[pool]

            def note(way: str, learner: str, at, asked: int, w, held_out=X[test], truth=y[test], to=results) -> None:
                right = float(np.mean((held_out @ w > 0.0) == (truth > 0.0)))
                to.setdefault((way, learner, at), []).append((asked, right))

            def train(chosen: np.ndarray, rows=rows, labels=labels, C=C) -> np.ndarray:
                if labels[chosen].min() == labels[chosen].max():  # no machine yet: the mean direction
                    return np.asarray(rows[chosen].T @ labels[chosen]).ravel()
                return fit(rows[chosen], labels[chosen], C=C).model.weights

            online = {"learner": "pa1", "C": C, "order": "stored", "average": True}
            counts = tuple(n for n in COUNTS if n < len(pool))
            for chosen in from_pool(train, rows, np.arange(10), counts):
                note("smallest margins", "machine", len(chosen), len(chosen), train(chosen))
            for count in (*counts, len(pool)):
                at = "all" if count == len(pool) else count
                note("random", "machine", at, count, train(np.arange(count)))
                note("random", "pa1", at, count, fit(rows[:count], labels[:count], **online).model.weights)
            for b in QUERIES:
                events = []
                passed = fit(rows, labels, query=b, seed=seed, on_event=events.append, **online)
                asked = [event["asked"] for event in events if event["event"] == "outer"][-1]
                note("as they pass", "pa1", b, asked, passed.model.weights)
        counted: dict[tuple[str, str], dict] = {}
        for (way, learner, at), found in results.items():
            asked, right = np.array(found).T
            n, mean, deviation = asked.mean(), 100.0 * right.mean(), 100.0 * right.std()
            if way == "as they pass":
                passes.append((name, f"{at:g}", f"{n:,.0f}", f"{mean:.2f} ± {deviation:.2f}"))
            else:
                counted.setdefault((way, learner), {})[at] = f"{mean:.2f}"
        for kind, by_count in counted.items():
            row(name, *kind, *(by_count.get(at, "") for at in (*COUNTS, "all")))
    table("--query b, one pass of pa1", "data", "b", "labels asked for", "test accuracy, %")
    for cells in passes:
        row(*cells)


if __name__ == "__main__":
    main()
