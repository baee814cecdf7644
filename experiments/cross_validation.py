"""Cross-validation beside scikit-learn's GridSearchCV.

    python -m experiments.cross_validation TRAIN.svm [--folds 5] [--costs 0.01,...,30]

Ours is the command on a store, at an eighth of the memory for the rows beside the problems' weights, and with room for
all, to gaps of 1e-3.  GridSearchCV is that of LinearSVC (hinge, no intercept, tol 0.01).  One run each.
"""

import json
from pathlib import Path

from experiments import runs
from experiments.runs import Clock, row, script, split, table

COSTS = ("0.01", "0.03", "0.1", "0.3", "1", "3", "10", "30")


def grid_search(text: Path, folds: int, costs: tuple[str, ...]) -> float:
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import LinearSVC

    X, y = runs.rows_of(text)
    svm, clock = LinearSVC(loss="hinge", fit_intercept=False, tol=0.01, max_iter=10_000), Clock()
    GridSearchCV(svm, {"C": list(map(float, costs))}, cv=folds, refit=False).fit(X, y)
    return clock.part()


@script("text", folds=5, costs=COSTS)
def main(options) -> None:
    text, folds = Path(options.text[0]), options.folds
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
