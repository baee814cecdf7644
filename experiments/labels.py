"""Labels that cost, few labels near an earlier model, and training again after rows were added.

    python -m experiments.labels TEXT.svm[,C] ... [--seeds 5]
    python -m experiments.labels FIRST.svm SECOND.svm --prior [--by FEATURE] [--seeds 20]
    python -m experiments.labels TEXT.svm ... --added [--tol 1e-3]

The first: of two thirds of the rows, the pool, labels are asked for some at a time, those of the least |<w, x>| by the
weights so far (Tong and Koller, JMLR 2001; Schohn and Cohn, ICML 2000); at random; or as they pass, with probability
b / (b + |<w, x>|) (Cesa-Bianchi, Gentile, Zaniboni, JMLR 2006): --query of train and stream.  A machine with hinge loss
and this C, or pa1 (the mean of its weights), is tested on the others.
prior: two texts of one numbering of features, or (--by) the rows of one with and without a feature, are domains.  In
each direction a model of all rows of one domain, and some labels of the other, whose other rows are the test; rows have
length 1, C = 1.
added: a store of the first lines in a random order is trained on; then more are added (--append), and it is trained on
again to the same gap, with --from and without, at an eighth of the memory.  Work is nonzeros visited.
"""

import random
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import scipy.sparse

from blocksvm import fit
from experiments.runs import budget, command, outers, row, rows_of, scratch, script, split, table, train

COUNTS = (50, 100, 200, 500, 1000, 2000, 5000)
QUERIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
FEW = (10, 20, 50, 100, 200, 500, 1000)  # labels of the second domain
WAYS = ("its labels alone", "the other domain's model", "near that model (--prior)", "both domains' rows together")
ADDED = (0.01, 0.1, 0.5)  # of the rows that there are

load = partial(rows_of, dtype=np.float32)


def right(w: np.ndarray, X, y: np.ndarray) -> float:
    """Percentage of the rows on the right side."""
    return 100.0 * float(np.mean((X @ w > 0.0) == (y > 0.0)))


def machine(X, y: np.ndarray, C: float, chosen: np.ndarray) -> np.ndarray:
    """The weights by the labels of some rows; while these are of one class, the mean direction."""
    if y[chosen].min() == y[chosen].max():
        return np.asarray(X[chosen].T @ y[chosen]).ravel()
    return fit(X[chosen], y[chosen], C=C).model.weights


def from_pool(train: Callable[[np.ndarray], np.ndarray], X, counts: tuple[int, ...]) -> list[np.ndarray]:
    """The weights by so many labels, the smallest margins first; train(rows): w of the labels of these.  The first ten
    rows come first; each step asks for a tenth as many labels as there are, at least 10."""
    asked, found = np.arange(10), []
    for count in counts:
        while len(asked) < count:
            margins = np.abs(X @ train(asked))
            margins[asked] = np.inf
            n = min(max(10, len(asked) // 10), count - len(asked))
            asked = np.append(asked, np.argsort(margins, kind="stable")[:n])
        found.append(train(asked))
    return found


def active(options) -> None:
    passes = defaultdict(list)
    table(f"test accuracy in per cent by the number of labels, means of {options.seeds} draws", "data", "labels by",
          "learner", *(f"{n:,}" for n in COUNTS), "all")  # fmt: skip
    for text, _, given in (one.partition(",") for one in options.data):
        (X, y), C, name, found = load(text), float(given or 1.0), Path(text).stem, defaultdict(list)
        for seed in range(options.seeds):
            order = np.random.default_rng(seed).permutation(len(y))
            test, pool = order[: len(y) // 3], order[len(y) // 3 :]
            rows, labels = X[pool], y[pool]
            online = {"learner": "pa1", "C": C, "order": "stored", "average": True}
            counts = tuple(n for n in COUNTS if n < len(pool))
            for n, w in zip(counts, from_pool(partial(machine, rows, labels, C), rows, counts), strict=True):
                found["smallest margins", "machine", n].append(right(w, X[test], y[test]))
            for at, n in (*zip(counts, counts, strict=True), ("all", len(pool))):
                first = fit(rows[:n], labels[:n], **online).model.weights
                for learner, w in (("machine", machine(rows, labels, C, np.arange(n))), ("pa1", first)):
                    found["random", learner, at].append(right(w, X[test], y[test]))
            for b in QUERIES:
                events: list[dict] = []
                w = fit(rows, labels, query=b, seed=seed, on_event=events.append, **online).model.weights
                passes[name, b].append((outers(events)[-1]["asked"], right(w, X[test], y[test])))
        for way in (("smallest margins", "machine"), ("random", "machine"), ("random", "pa1")):
            row(name, *way, *(f"{np.mean(found[*way, at]):.2f}" if (*way, at) in found else ""
                              for at in (*COUNTS, "all")))  # fmt: skip
    table("--query b, one pass of pa1", "data", "b", "labels asked for", "test accuracy, %")
    for (name, b), pairs in passes.items():
        asked, scores = np.array(pairs).T
        row(name, f"{b:g}", f"{asked.mean():,.0f}", f"{scores.mean():.2f} ± {scores.std():.2f}")


def domains(texts: list[str], feature: int) -> dict[str, tuple]:
    """Two domains of rows of length 1, by name."""
    from sklearn.preprocessing import normalize

    if feature:
        (X, y), name = load(texts[0]), Path(texts[0]).stem
        has = X[:, feature - 1].toarray().ravel() != 0.0
        both = {f"{name} with {feature}": (X[has], y[has]), f"{name} without": (X[~has], y[~has])}
    else:
        names, rows = [Path(text).stem.rpartition("-")[2] for text in texts], load(*texts)
        both = dict(zip(names, zip(rows[::2], rows[1::2], strict=True), strict=True))
    return {name: (normalize(X), y) for name, (X, y) in both.items()}


def prior(options) -> None:
    both = domains(options.data, options.by)
    for name, other_name in (tuple(both), tuple(reversed(both))):
        (X, y), (X_other, y_other) = both[name], both[other_name]
        table(f"{other_name} to {name}: test accuracy %, means of {options.seeds} draws ± their deviation", "labels",
              *WAYS)  # fmt: skip
        with scratch() as folder:
            fitted, model = fit(X_other, y_other), folder / "model.h5"
            fitted.save(model)
            for n in FEW:
                found = []
                for seed in range(options.seeds):
                    order = np.random.default_rng([seed, n]).permutation(len(y))
                    # as many of each class: with ten labels chance decides which else there are
                    known = np.concatenate([order[y[order] == side][: n // 2] for side in (-1.0, 1.0)])
                    test = np.setdiff1d(order, known)
                    together = scipy.sparse.vstack([X_other, X[known]]).tocsr(), np.append(y_other, y[known])
                    ways = (fit(X[known], y[known]), fitted, fit(X[known], y[known], prior=model), fit(*together))
                    found.append([right(one.model.weights, X[test], y[test]) for one in ways])
                pairs = zip(np.mean(found, axis=0), np.std(found, axis=0), strict=True)
                row(n, *(f"{mean:.1f} ± {deviation:.1f}" for mean, deviation in pairs))


def added(options) -> None:
    table(f"to {options.tol:g}: from the earlier model / from nothing", "data", "change", "its seconds", "readings",
          "work", "seconds")  # fmt: skip
    for text in map(Path, options.data):
        lines = text.read_bytes().splitlines(keepends=True)
        random.Random(5).shuffle(lines)
        with scratch() as folder:
            first, more, store, model, new = (folder / file for file in ("a.svm", "b.svm", "a.h5", "m.h5", "new.h5"))

            def trained(model: Path, *how: object, store=store) -> dict:
                events, _ = train(store, model, "--memory", budget(store, "8"), "--tol", options.tol, *how)
                work = sum(event.get(key, 0) for event in outers(events) for key in ("nnz_visited", "set_nnz_visited"))
                return {"readings": len(outers(events)), "work": work, "seconds": events[-1]["seconds"]}

            for share in ADDED:
                n = round(len(lines) / (1.0 + share))
                first.write_bytes(b"".join(lines[:n]))
                more.write_bytes(b"".join(lines[n:]))
                split(first, store)
                trained(model)
                seconds = command("split", more, store, "--append", "--quiet").seconds
                cold, warm = trained(new), trained(new, "--from", model)
                cells = (f"{warm[key]:.3g} / {cold[key]:.3g} = {warm[key] / cold[key]:.2f}" for key in cold)
                row(text.stem, f"{share:.0%} more rows", f"{seconds:.1f}", *cells)


@script("data+", prior=False, added=False, by=0, seeds=5, tol=1e-3)
def main(options) -> None:
    (prior if options.prior else added if options.added else active)(options)
