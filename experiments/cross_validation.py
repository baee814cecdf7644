"""Cross-validation beside scikit-learn's GridSearchCV.

    python -m experiments.cross_validation TRAIN.svm [--folds 5] [--costs 0.01,...,30]

Ours is the command on a store, at an eighth of the memory for the rows beside the problems' weights, and with room for
all, to gaps of 1e-3.  GridSearchCV is that of LinearSVC (hinge, no intercept, tol 0.01).  One run each.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np

from experiments.runs import begin, command, described, in_child, read_through, row, split, table

COSTS = ("0.01", "0.03", "0.1", "0.3", "1", "3", "10", "30")


def grid_search(text: Path, folds: int, costs: tuple[str, ...]) -> float:
    from sklearn.datasets import load_svmlight_file
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import LinearSVC

    X, y = load_svmlight_file(str(text))
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    svm = LinearSVC(loss="hinge", fit_intercept=False, tol=0.01, max_iter=10_000)
    began = time.perf_counter()
    GridSearchCV(svm, {"C": list(map(float, costs))}, cv=folds, refit=False).fit(X, y)
    return time.perf_counter() - began


def ours(store: Path, out: Path, share: str, folds: int, costs: tuple[str, ...]) -> dict:
    about, at_once = described(store), 8 * -(-3 * folds // 8)  # of three C at once
    rest = 8 * (at_once + 2 * folds) * (about["n_features"] + 2 * about["n_samples"]) + 10_000_000
    memory = rest + about["n_nonzeros"] * (16 if share == "all" else 1)
    given = ("--folds", folds, "-C", ",".join(costs), "--memory", memory)
    command("cv", store, *given, f"--json={out}", "--quiet", "--overwrite")
    return json.loads(out.read_text())


def main() -> None:
    options = begin(__doc__, "text", folds=5, costs=COSTS)
    text = Path(options.text[0])
    table(f"{text.stem}, {options.folds} folds, C {', '.join(options.costs)}, gap 1e-3", "program", "seconds",
          "readings")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        folder, given = Path(name), (options.folds, options.costs)
        store, out = folder / "rows.h5", folder / "cv.json"
        split(text, store)
        read_through(store)
        ours(store, out, "1/8", *given)  # compiles
        for share in ("1/8", "all"):
            found = ours(store, out, share, *given)
            row(f"cv, memory {share}", f"{found['seconds']:.1f}", f"{found['readings']:.0f}")
        row("GridSearchCV", f"{in_child(grid_search, text, *given):.1f}", "")


if __name__ == "__main__":
    main()
