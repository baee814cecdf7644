"""The whole job, svmlight text to a model to predictions, by blocksvm's commands and by three others; and choosing C.

    python -m experiments.whole_job TEXT.svm [--memory 500] [--repeats 3]
    python -m experiments.whole_job TEXT.svm --folds 5 [--costs 0.01,...,30]

The first: trained is on nine lines of ten, hinge loss, C = 1, no bias; all lines are predicted, and the accuracy is
that on the tenth lines.  Runs are interleaved, files are in the system's cache; peaks are those of whole processes.
LIBLINEAR and scikit-learn's LinearSVC get rows by scikit-learn's reader of such files, and stop by their own criteria;
Vowpal Wabbit makes one pass over the same rows in its own format, without a cache, and another one that predicts.
--memory is blocksvm's, in MB.  folds: cross-validation from a store, at an eighth of the memory for the rows beside the
problems' weights, and with room for all, to gaps of 1e-3, beside GridSearchCV of LinearSVC (hinge, no intercept, tol
0.01).  One run each.
"""

import json
from functools import partial
from pathlib import Path

import numpy as np

from experiments import runs
from experiments.learners import BITS, write_vw
from experiments.runs import Clock, row, script, split, table, train

COSTS = ("0.01", "0.03", "0.1", "0.3", "1", "3", "10", "30")
PARTS = ("split or read", "train", "read and predict")


def found(seconds: list[float], peak: float, labels: np.ndarray, scores: np.ndarray, proven: str) -> dict:
    """The figures of a run by the scores (n,) of all rows."""
    right = (scores > 0) == (labels > 0)
    return {**dict(zip(PARTS, seconds, strict=True)), "seconds in all": sum(seconds), "peak": peak,
            "accuracy": f"{right[::10].mean():.4f}", "proven": proven}  # fmt: skip


def ours(part: Path, text: Path, labels: np.ndarray, folder: Path, memory: str) -> dict:
    store, model, out = folder / "rows.h5", folder / "model.h5", folder / "out.csv"
    converted = split(part, store, "--memory", memory)
    events, trained = train(store, model, "--memory", memory)
    done = converted, trained, runs.command("predict", model, text, out, "--overwrite", "--quiet", "--memory", memory)
    return found([one.seconds for one in done], max(one.peak_mb for one in done), labels, np.loadtxt(out),
                 f"gap {runs.outers(events)[-1]['rel_gap']:.0e}, certified")  # fmt: skip


def in_memory(part: Path, text: Path, labels: np.ndarray, program: str) -> dict:
    from liblinear.liblinearutil import parameter, problem
    from liblinear.liblinearutil import train as fit
    from sklearn.svm import LinearSVC

    clock = Clock()
    X, y = runs.rows_of(part)
    rows = problem(y, X) if program == "LIBLINEAR" else X
    clock.part()
    if program == "LIBLINEAR":
        model, proven = fit(rows, parameter("-s 3 -c 1 -q")), "nothing: stops at -e 0.1"
        w = np.ctypeslib.as_array(model.w, (model.nr_feature,)) * model.label[0]  # its own scores take a Python loop
    else:
        model, proven = LinearSVC(loss="hinge", fit_intercept=False).fit(X, y), "nothing: stops at tol=1e-4"
        w = model.coef_[0]
    clock.part()
    scores = runs.rows_of(text, n_features=len(w))[0] @ w
    clock.part()
    return found(clock.seconds, runs.peak_mb(), labels, scores, proven)


def vowpal_wabbit(part: Path, text: Path, labels: np.ndarray, folder: Path) -> dict:
    from vowpalwabbit import Workspace

    clock, model, out = Clock(), str(folder / "model.vw"), str(folder / "out.vw")
    given = ["--quiet", "--holdout_off", "--noconstant", "--loss_function", "hinge", "-b", str(BITS)]
    Workspace(arg_list=[*given, "-d", str(part), "-f", model]).finish()
    clock.part()
    Workspace(arg_list=["--quiet", "-t", "-i", model, "-d", str(text), "-p", out]).finish()
    clock.part()
    return found([0.0, *clock.seconds], runs.peak_mb(), labels, np.loadtxt(out, usecols=0), "nothing: one pass")


def jobs(options) -> None:
    memory = f"{options.memory}MB"
    for text in map(Path, options.texts):
        with runs.scratch() as folder:
            part, vw, vw_part = folder / "train.svm", folder / "all.vw", folder / "train.vw"
            lines = text.read_bytes().splitlines(keepends=True)
            part.write_bytes(b"".join(line for number, line in enumerate(lines) if number % 10))
            labels = np.array([float(line.partition(b" ")[0]) for line in lines])
            del lines
            write_vw(text, vw)
            write_vw(part, vw_part)
            ways = {
                "blocksvm": partial(ours, part, text, labels, folder, memory),
                "LIBLINEAR -s 3": partial(runs.in_child, in_memory, part, text, labels, "LIBLINEAR"),
                "Vowpal Wabbit, one pass": partial(runs.in_child, vowpal_wabbit, vw_part, vw, labels, folder),
                "scikit-learn LinearSVC": partial(runs.in_child, in_memory, part, text, labels, "LinearSVC"),
            }
            found_by_way = runs.in_turn(ways, options.repeats, part, text, vw, vw_part)
        title = f"{text.stem}: {text.stat().st_size / 1e6:,.0f} MB, {len(labels):,} rows, blocksvm within {memory}"
        table(f"{title}; medians of {options.repeats}", "program", *PARTS, "seconds in all", "peak MB", "accuracy",
              "proven")  # fmt: skip
        for way, one in found_by_way.items():
            row(way, *(f"{one[part]:.2f}" for part in (*PARTS, "seconds in all")), f"{one['peak']:,.0f}",
                one["accuracy"], one["proven"])  # fmt: skip


def grid_search(text: Path, folds: int, costs: tuple[str, ...]) -> float:
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import LinearSVC

    X, y = runs.rows_of(text)
    svm, clock = LinearSVC(loss="hinge", fit_intercept=False, tol=0.01, max_iter=10_000), Clock()
    GridSearchCV(svm, {"C": list(map(float, costs))}, cv=folds, refit=False).fit(X, y)
    return clock.part()


def cross_validation(options) -> None:
    text, folds = Path(options.texts[0]), options.folds
    table(f"{text.stem}, {folds} folds, C {', '.join(options.costs)}, gap 1e-3", "program", "seconds", "readings")
    with runs.scratch() as folder:
        store, out = folder / "rows.h5", folder / "cv.json"
        split(text, store)
        runs.read_through(store)
        about, at_once = runs.described(store), 8 * -(-3 * folds // 8)  # of three C at once
        rest = 8 * (at_once + 2 * folds) * (about["n_features"] + 2 * about["n_samples"]) + 10_000_000
        for name, share in (("", 1), ("1/8", 1), ("all", 16)):
            given = ("--folds", folds, "-C", ",".join(options.costs), "--memory", rest + share * about["n_nonzeros"])
            runs.command("cv", store, *given, f"--json={out}", "--quiet", "--overwrite")
            found = json.loads(out.read_text())
            if name:  # the first one compiles
                row(f"cv, memory {name}", f"{found['seconds']:.1f}", f"{found['readings']:.0f}")
    row("GridSearchCV", f"{runs.in_child(grid_search, text, folds, options.costs):.1f}", "")


@script("texts+", memory=500, repeats=3, folds=0, costs=COSTS)
def main(options) -> None:
    (cross_validation if options.folds else jobs)(options)
