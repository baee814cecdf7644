"""Data that repeats itself, that grows, and that drifts.

    python -m experiments.new_data redundant|grown NAME=TRAIN.svm,TEST.svm[,C] ... [--json FILE]
    python -m experiments.new_data drift NAME=STREAM.svm ... [--forgets 1e-6,1e-5,...] [--json FILE]

redundant: rows that stand ten times are the same problem with C / 10; one pass of an online learner over them beside
ten over the rows once, and the batch solver on both.  grown: a fifth of the rows come later; one pass of a learner
that goes on (``--continue-from``), a machine of the new rows near the old model (``--prior``), and one of all rows.
drift: ``stream --forget F`` on rows in their order, each predicted before it is learned from.  Passes count each row
that was visited, in units of the rows there are.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

from blocksvm import fit
from experiments.measuring import Tables, command, listed, parser

TIMES = 10
ONLINE = ({"learner": "pa1", "C": 0.1}, {"learner": "arow"})
LATER = 0.2  # of the rows, which come later
LEARNERS = ("pa1 -C 0.1", "arow", "nag")


def load(texts: str) -> tuple:
    """(X, y, X_test, y_test) of two classes from 'TRAIN.svm,TEST.svm', rows in random order."""
    from sklearn.datasets import load_svmlight_files

    X, y, X_test, y_test = load_svmlight_files(texts.split(","), dtype=np.float32)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], np.where(y[order] > 0, 1.0, -1.0), X_test, np.where(y_test > 0, 1.0, -1.0)


class Measured:
    """Runs of ``fit``: passes over the rows, seconds, percentage of the test rows that are right."""

    def __init__(self, X_test, y_test):
        self.X_test, self.y_test = X_test, y_test

    def run(self, X, y, **settings) -> tuple:
        events: list = []
        fitted = fit(X, y, on_event=events.append, **settings)
        outers = [event for event in events if event["event"] == "outer"]
        work = sum(event["nnz_visited"] + event["set_nnz_visited"] + event["certificates"] * X.nnz for event in outers)
        right = (self.X_test @ fitted.model.weights > 0.0) == (self.y_test > 0.0)
        return fitted, f"{work / X.nnz:.1f}", f"{events[-1]['seconds']:.2f}", f"{100.0 * np.mean(right):.2f}"


def redundant(tables: Tables, name: str, rows: tuple, C: float) -> None:
    X, y, *test = rows
    measured = Measured(*test)
    order = np.random.default_rng(1).permutation(TIMES * len(y)) % len(y)
    repeated = X[order], y[order]
    tables.begin(f"{name}: rows that stand {TIMES} times", "method", "rows", "passes over them", "seconds",
                 "test accuracy %")  # fmt: skip
    for X_, y_, C_ in ((X, y, C), (*repeated, C / TIMES)):
        tables.row(f"batch, C = {C_:g}, gap 1e-3", f"{len(y_):,}", *measured.run(X_, y_, C=C_)[1:])
    for settings in ONLINE:
        label = " ".join(map(str, settings.values()))
        for X_, y_, epochs in ((X, y, 1), (X, y, TIMES), (*repeated, 1)):
            cells = measured.run(X_, y_, **settings, average=True, max_outer=epochs, tol=0.0)[1:]
            tables.row(f"{label}, averaged", f"{len(y_):,}", *cells)


def grown(tables: Tables, name: str, rows: tuple, C: float) -> None:
    X, y, *test = rows
    measured, old = Measured(*test), int((1.0 - LATER) * len(y))
    first, later = (X[:old], y[:old]), (X[old:], y[old:])
    tables.begin(f"{name}: {old:,} rows, then {len(y) - old:,} more", "method", "rows", "passes over them", "seconds",
                 "test accuracy %")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as folder:

        def row(what: str, rows: tuple, **settings) -> Path:
            fitted, *cells = measured.run(*rows, **settings)
            tables.row(what, f"{len(rows[1]):,}", *cells)
            path = Path(folder, f"{len(list(Path(folder).iterdir()))}.h5")
            fitted.save(path)
            return path

        model = row(f"batch, C = {C:g}: the first rows", first, C=C)
        row("batch: the later rows alone", later, C=C)
        row("batch: the later rows near the first model (--prior)", later, C=C, prior=model)
        row("batch: all rows, from nothing", rows[:2], C=C)
        for settings in ONLINE:
            label = " ".join(map(str, settings.values()))
            model = row(f"{label}: the first rows", first, **settings, average=True, max_outer=1)
            row(f"{label}: goes on with the later rows", later, continue_from=model, max_outer=1)


def drift(tables: Tables, name: str, text: Path, forgets: tuple[str, ...]) -> None:
    tables.begin(f"{name}: area under the curve (mistakes, %) of predictions before each row is learned", "learner",
                 *(f"--forget {forget}" if forget != "0" else "never forgets" for forget in forgets))  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as folder:
        log = Path(folder, "log.jsonl")
        for learner in LEARNERS:
            cells = []
            for forget in forgets:
                how = ("--forget", forget) if forget != "0" else ()
                command("stream", text, "--learner", *learner.split(), *how, "--log", log, "--overwrite", "--quiet")
                end = json.loads(log.read_text().splitlines()[-1])
                cells.append(f"{end['auc']:.4f} ({100.0 * end['mistakes'] / end['rows']:.2f})")
            tables.row(f"`{learner}`", *cells)


def main() -> None:
    p = parser(__doc__)
    p.add_argument("what", choices=("redundant", "grown", "drift"))
    p.add_argument("data", nargs="+", metavar="NAME=...")
    p.add_argument("--forgets", type=listed, default=("0", "1e-6", "1e-5", "1e-4", "1e-3", "1e-2"))
    options = p.parse_args()
    tables = Tables(options)
    for one in options.data:
        name, _, rest = one.partition("=")
        if options.what == "drift":
            drift(tables, name, Path(rest).resolve(), options.forgets)
            continue
        train, test, C = (*rest.split(","), "1")[:3]
        {"redundant": redundant, "grown": grown}[options.what](tables, name, load(f"{train},{test}"), float(C))
    tables.end()


if __name__ == "__main__":
    main()
