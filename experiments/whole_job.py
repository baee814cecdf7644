"""The whole job, svmlight text to a model to predictions, by blocksvm's commands and by three others.

    python -m experiments.whole_job TEXT.svm [--memory 500] [--repeats 3]

Trained is on nine lines of ten, hinge loss, C = 1, no bias; all lines are predicted, and the accuracy is that on the
tenth lines.  Runs are interleaved, files are in the system's cache; peaks are those of whole processes.  LIBLINEAR
(liblinear-official) and scikit-learn's LinearSVC get rows by scikit-learn's reader of such files, and stop by their own
criteria; Vowpal Wabbit makes one pass over the same rows in its own format, without a cache, and
another one that predicts.  --memory is blocksvm's, in MB.
"""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from experiments.learners import BITS, peak_mb, write_vw
from experiments.runs import begin, command, in_child, outers, read_through, row, split, table, train

PARTS = ("split or read", "train", "read and predict")


def accuracy(labels: np.ndarray, scores: np.ndarray) -> float:
    """That on the tenth lines, of scores (n,) of all rows."""
    return float(((scores > 0) == (labels > 0))[::10].mean())


class Clock:
    """Seconds of the parts so far."""

    def __init__(self):
        self.seconds, self.began = [], time.perf_counter()

    def part(self) -> None:
        self.seconds.append(time.perf_counter() - self.began)
        self.began = time.perf_counter()


def found(clock: Clock, labels: np.ndarray, scores: np.ndarray, **more) -> dict:
    """The measures of a run in this process."""
    return {"seconds": clock.seconds, "peak_mb": peak_mb(), "accuracy": accuracy(labels, scores)} | more


def ours(part: Path, text: Path, labels: np.ndarray, folder: Path, memory: str) -> dict:
    store, model, out = folder / "rows.h5", folder / "model.h5", folder / "out.csv"
    converted = split(part, store, "--memory", memory)
    events, trained = train(store, model, "--memory", memory)
    scored = command("predict", model, text, out, "--overwrite", "--quiet", "--memory", memory)
    runs, proven = (converted, trained, scored), f"gap {outers(events)[-1]['rel_gap']:.0e}, certified"
    return {"seconds": [one.seconds for one in runs], "peak_mb": max(one.peak_mb for one in runs),
            "accuracy": accuracy(labels, np.loadtxt(out)), "proven": proven}  # fmt: skip


def liblinear(part: Path, text: Path, labels: np.ndarray) -> dict:
    from liblinear.liblinearutil import parameter, problem
    from liblinear.liblinearutil import train as fit
    from sklearn.datasets import load_svmlight_file

    clock = Clock()
    X, y = load_svmlight_file(str(part), zero_based=False)
    rows = problem(y, X)
    clock.part()
    model = fit(rows, parameter("-s 3 -c 1 -q"))
    clock.part()
    X, _ = load_svmlight_file(str(text), n_features=model.nr_feature, zero_based=False)
    scores = X @ np.ctypeslib.as_array(model.w, (model.nr_feature,)) * model.label[0]  # its own takes a Python loop
    clock.part()
    return found(clock, labels, scores, proven="nothing: stops at -e 0.1")


def scikit_learn(part: Path, text: Path, labels: np.ndarray) -> dict:
    from sklearn.datasets import load_svmlight_file
    from sklearn.svm import LinearSVC

    clock = Clock()
    X, y = load_svmlight_file(str(part), zero_based=False)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # it takes no others
    clock.part()
    model = LinearSVC(loss="hinge", fit_intercept=False).fit(X, y)
    clock.part()
    X, _ = load_svmlight_file(str(text), n_features=X.shape[1], zero_based=False)
    scores = model.decision_function(X)
    clock.part()
    return found(clock, labels, scores, proven="nothing: stops at tol=1e-4")


def vowpal_wabbit(part: Path, text: Path, labels: np.ndarray, folder: Path) -> dict:
    from vowpalwabbit import Workspace

    clock, model, out = Clock(), str(folder / "model.vw"), str(folder / "out.vw")
    clock.part()
    given = ["--quiet", "--holdout_off", "--noconstant", "--loss_function", "hinge", "-b", str(BITS)]
    Workspace(arg_list=[*given, "-d", str(part), "-f", model]).finish()
    clock.part()
    Workspace(arg_list=["--quiet", "-t", "-i", model, "-d", str(text), "-p", out]).finish()
    clock.part()
    return found(clock, labels, np.loadtxt(out, usecols=0), proven="nothing: one pass")


def measured(text: Path, memory: str, repeats: int, folder: Path) -> None:
    part, vw, vw_part, labels = folder / "train.svm", folder / "all.vw", folder / "train.vw", []
    with open(text, "rb") as lines, open(part, "wb") as kept:
        for number, line in enumerate(lines):
            labels.append(float(line.partition(b" ")[0]))
            if number % 10:
                kept.write(line)
    write_vw(text, vw)
    write_vw(part, vw_part)
    y = np.array(labels)
    ways = {
        "blocksvm": partial(ours, part, text, y, folder, memory),
        "LIBLINEAR -s 3": partial(in_child, liblinear, part, text, y),
        "Vowpal Wabbit, one pass": partial(in_child, vowpal_wabbit, vw_part, vw, y, folder),
        "scikit-learn LinearSVC": partial(in_child, scikit_learn, part, text, y),
    }
    runs: dict[str, list[dict]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, measure in ways.items():
            for file in (vw, vw_part) if way.startswith("Vowpal") else (part, text):
                read_through(file)
            runs[way].append(measure())
    title = f"{text.stem}: {text.stat().st_size / 1e6:,.0f} MB of text, {len(y):,} rows, blocksvm within {memory}"
    table(f"{title}; medians of {repeats}", "program", *PARTS, "seconds in all", "peak MB", "accuracy", "proven")
    for way, results in runs.items():
        parts = [f"{median(one['seconds'][k] for one in results):.2f}" for k in range(len(PARTS))]
        total = median(sum(one["seconds"]) for one in results)
        peak = max(one["peak_mb"] for one in results)
        row(way, *parts, f"{total:.2f}", f"{peak:,.0f}", f"{results[0]['accuracy']:.4f}", results[0]["proven"])


def main() -> None:
    options = begin(__doc__, "texts", memory=500, repeats=3)
    for text in map(Path, options.texts):
        with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as folder:
            measured(text, f"{options.memory}MB", options.repeats, Path(folder))


if __name__ == "__main__":
    main()
