"""Batch, online and stream on the same rows; and data that repeats itself.

    python -m experiments.regimes NAME=TRAIN.svm,TEST.svm[,C] ... [--memory 300] [--repeats 3]
    python -m experiments.regimes NAME=TRAIN.svm,TEST.svm[,C] ... --redundant

The first: passes over the data, seconds from the text on (of whole commands, the split included where there is a
store), memory, test accuracy; --memory is in MB.  redundant: rows that stand ten times are the same problem with
C / 10; one pass of an online learner over them beside ten over the rows once, and the batch solver on both.  Passes
count each row that was visited, in units of the rows there are.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from blocksvm import fit
from experiments.runs import begin, command, outers, predicted, row, split, table, train

LEARNERS = ("pa1 -C 0.1", "arow", "adagrad-rda --l1 1e-6")
TIMES = 10
ONLINE = {"pa1 0.1": {"learner": "pa1", "C": 0.1}, "arow": {"learner": "arow"}}


def measure(text: Path, test: Path, C: str, memory: str, folder: Path) -> dict[tuple, tuple]:
    """{(regime, method, passes): (seconds, peak MB, accuracy)}"""
    store, model, found = folder / "rows.h5", folder / "model.h5", {}
    made = split(text, store).seconds

    def note(regime: str, method: str, passes: int, seconds: float, peak_mb: float) -> None:
        found[regime, method, passes] = seconds, peak_mb, predicted(model, test)["accuracy"]

    events, done = train(store, model, "-C", C, "--memory", memory)
    note("batch", f"dual-cd, C {C}, gap 1e-3", events[-1]["outer"], made + done.seconds, done.peak_mb)
    for learner in LEARNERS:
        given = ("--learner", *learner.split(), "--average", "--memory", memory)
        for epochs in (1, 5):
            _, done = train(store, model, *given, "--max-outer", epochs)
            note("online", f"{learner}, averaged", epochs, made + done.seconds, done.peak_mb)
        done = command("stream", text, "--model", model, *given, "--overwrite", "--quiet")
        note("stream", f"{learner}, averaged", 1, done.seconds, done.peak_mb)
    return found


def load(text: str, test: str) -> tuple:
    """(X, y, X_test, y_test) of two classes, rows in random order."""
    from sklearn.datasets import load_svmlight_files

    X, y, X_test, y_test = load_svmlight_files([text, test], dtype=np.float32)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], np.where(y[order] > 0, 1.0, -1.0), X_test, np.where(y_test > 0, 1.0, -1.0)


def fitted(name: str, what: str, X, y, X_test, y_test, **settings) -> None:
    """A row of a table: passes over the rows, seconds, percentage of the test rows that are right."""
    events: list[dict] = []
    model = fit(X, y, on_event=events.append, **settings)
    work = sum(e["nnz_visited"] + e["set_nnz_visited"] + e["certificates"] * X.nnz for e in outers(events))
    right = (X_test @ model.model.weights > 0.0) == (y_test > 0.0)
    row(name, what, f"{len(y):,}", f"{work / X.nnz:.1f}", f"{events[-1]['seconds']:.2f}", f"{100 * np.mean(right):.2f}")


def redundant(name: str, X, y, X_test, y_test, C: float) -> None:
    order = np.random.default_rng(1).permutation(TIMES * len(y)) % len(y)
    once, repeated = (X, y, X_test, y_test), (X[order], y[order], X_test, y_test)
    for rows, C_ in ((once, C), (repeated, C / TIMES)):
        fitted(name, f"batch, C = {C_:g}, gap 1e-3", *rows, C=C_)
    for label, settings in ONLINE.items():
        for rows, epochs in ((once, 1), (once, TIMES), (repeated, 1)):
            fitted(name, f"{label}, averaged", *rows, **settings, average=True, max_outer=epochs, tol=0.0)


def main() -> None:
    options = begin(__doc__, "data", memory=300, repeats=3, redundant=False)
    sets = [(name, (*rest.split(","), "1")[:3]) for name, _, rest in (one.partition("=") for one in options.data)]
    if options.redundant:
        table("rows that stand ten times", "data", "method", "rows", "passes over them", "seconds", "test accuracy %")
        for name, (text, test, C) in sets:
            redundant(name, *load(text, test), float(C))
        return
    table(f"--memory {options.memory}MB, medians of {options.repeats}", "data", "regime", "method", "passes",
          "seconds", "peak MB", "test accuracy")  # fmt: skip
    for name, (text, test, C) in sets:
        with tempfile.TemporaryDirectory() as folder:
            given = (Path(text).resolve(), Path(test).resolve(), C, f"{options.memory}MB", Path(folder))
            repeats = [measure(*given) for _ in range(options.repeats)]
        for key in repeats[0]:
            seconds, peak, accuracy = map(median, zip(*(found[key] for found in repeats), strict=True))
            row(name, *key, f"{seconds:.1f}", f"{peak:.0f}", f"{accuracy:.4f}")


if __name__ == "__main__":
    main()
