"""Batch, online and stream on the same rows; data that repeats itself, and data that grows.

    python -m experiments.regimes NAME=TRAIN.svm,TEST.svm[,C] ... [--memory 300] [--repeats 3]
    python -m experiments.regimes NAME=TRAIN.svm,TEST.svm[,C] ... --redundant | --grown

The first: passes over the data, seconds from the text on (of whole commands, the split included where there is a
store), memory, test accuracy; --memory is in MB.  redundant: rows that stand ten times are the same problem with
C / 10; one pass of an online learner over them beside ten over the rows once, and the batch solver on both.  grown: a
fifth of the rows come later; one pass of a learner that goes on, a machine of the new rows near the old model (prior),
and one of all rows.  Passes count each row that was visited, in units of the rows there are.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from blocksvm import fit
from experiments.runs import begin, command, parser, row, split, table, train

LEARNERS = ("pa1 -C 0.1", "arow", "adagrad-rda --l1 1e-6")
TIMES = 10
ONLINE = ({"learner": "pa1", "C": 0.1}, {"learner": "arow"})
LATER = 0.2  # of the rows, which come later


def measure(text: Path, test: Path, memory: str, C: str, folder: Path) -> dict[tuple, tuple]:
    """{(regime, method, passes): (seconds, peak MB, accuracy)}"""
    store, model = folder / "rows.h5", folder / "model.h5"

    def accuracy() -> float:
        return json.loads(command("predict", model, test, folder / "p.txt", "--json", "--overwrite").out)["accuracy"]

    made = split(text, store).seconds
    events, done = train(store, model, "-C", C, "--memory", memory)
    found = {
        ("batch", f"dual-cd, C {C}, gap 1e-3", events[-1]["outer"]): (made + done.seconds, done.peak_mb, accuracy())
    }
    for learner in LEARNERS:
        for epochs in (1, 5):
            given = ("--learner", *learner.split(), "--max-outer", epochs, "--average")
            _, done = train(store, model, *given, "--memory", memory)
            found["online", f"{learner}, averaged", epochs] = made + done.seconds, done.peak_mb, accuracy()
    with open(text, "rb") as file:
        labels = sorted({line.split(None, 1)[0].decode() for line in file})
    for learner in LEARNERS:
        given = ("--learner", *learner.split(), "--average", "--model", model, "--memory", memory)
        more = ("--labels", ",".join(labels)) if len(labels) > 2 else ()
        done = command("stream", text, *given, *more, "--overwrite", "--quiet")
        found["stream", f"{learner}, averaged", 1] = done.seconds, done.peak_mb, accuracy()
    return found


def load(texts: str) -> tuple:
    """(X, y, X_test, y_test) of two classes from 'TRAIN.svm,TEST.svm', rows in random order."""
    from sklearn.datasets import load_svmlight_files

    X, y, X_test, y_test = load_svmlight_files(texts.split(","), dtype=np.float32)
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], np.where(y[order] > 0, 1.0, -1.0), X_test, np.where(y_test > 0, 1.0, -1.0)


def fitted(what: str, X, y, X_test, y_test, **settings):
    """A row of a table: passes over the rows, seconds, percentage of the test rows that are right; the model."""
    events: list = []
    model = fit(X, y, on_event=events.append, **settings)
    outers = [event for event in events if event["event"] == "outer"]
    work = sum(event["nnz_visited"] + event["set_nnz_visited"] + event["certificates"] * X.nnz for event in outers)
    right = (X_test @ model.model.weights > 0.0) == (y_test > 0.0)
    row(what, f"{len(y):,}", f"{work / X.nnz:.1f}", f"{events[-1]['seconds']:.2f}", f"{100.0 * np.mean(right):.2f}")
    return model


COLUMNS = ("method", "rows", "passes over them", "seconds", "test accuracy %")


def redundant(name: str, X, y, X_test, y_test, C: float) -> None:
    order = np.random.default_rng(1).permutation(TIMES * len(y)) % len(y)
    once, repeated = (X, y, X_test, y_test), (X[order], y[order], X_test, y_test)
    table(f"{name}: rows that stand {TIMES} times", *COLUMNS)
    for rows, C_ in ((once, C), (repeated, C / TIMES)):
        fitted(f"batch, C = {C_:g}, gap 1e-3", *rows, C=C_)
    for settings in ONLINE:
        for rows, epochs in ((once, 1), (once, TIMES), (repeated, 1)):
            label = " ".join(map(str, settings.values()))
            fitted(f"{label}, averaged", *rows, **settings, average=True, max_outer=epochs, tol=0.0)


def grown(name: str, X, y, X_test, y_test, C: float) -> None:
    old = int((1.0 - LATER) * len(y))
    first, later = (X[:old], y[:old], X_test, y_test), (X[old:], y[old:], X_test, y_test)
    table(f"{name}: {old:,} rows, then {len(y) - old:,} more", *COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.h5")
        fitted(f"batch, C = {C:g}: the first rows", *first, C=C).save(path)
        fitted("batch: the later rows alone", *later, C=C)
        fitted("batch: the later rows near the first model (--prior)", *later, C=C, prior=path)
        fitted("batch: all rows, from nothing", X, y, X_test, y_test, C=C)
        for number, settings in enumerate(ONLINE):
            label, path = " ".join(map(str, settings.values())), Path(folder, f"{number}.h5")
            fitted(f"{label}: the first rows", *first, **settings, average=True, max_outer=1).save(path)
            fitted(f"{label}: goes on with the later rows", *later, continue_from=path, max_outer=1)


def main() -> None:
    p = parser(__doc__)
    p.add_argument("data", nargs="+", metavar="NAME=TRAIN.svm,TEST.svm[,C]")
    p.add_argument("--memory", type=float, default=300)
    p.add_argument("--repeats", type=int, default=3)
    for what in (redundant, grown):
        p.add_argument(f"--{what.__name__}", dest="what", action="store_const", const=what)
    options = p.parse_args()
    begin()
    sets = [(name, (*rest.split(","), "1")[:3]) for name, _, rest in (one.partition("=") for one in options.data)]
    if options.what:
        for name, (text, test, C) in sets:
            options.what(name, *load(f"{text},{test}"), float(C))
        return
    table(f"--memory {options.memory:g}MB, medians of {options.repeats}", "data", "regime", "method", "passes",
          "seconds", "peak MB", "test accuracy")  # fmt: skip
    for name, (text, test, C) in sets:
        with tempfile.TemporaryDirectory() as folder:
            given = (Path(text).resolve(), Path(test).resolve(), f"{options.memory:g}MB", C, Path(folder))
            repeats = [measure(*given) for _ in range(options.repeats)]
        for key in repeats[0]:
            seconds, peak, accuracy = map(median, zip(*(found[key] for found in repeats), strict=True))
            row(name, *key, f"{seconds:.1f}", f"{peak:.0f}", f"{accuracy:.4f}")


if __name__ == "__main__":
    main()
