"""Cross-validation beside as many separate runs, and beside scikit-learn's GridSearchCV.

    python -m experiments.cross_validation TRAIN.svm [--folds 5] [--costs 0.01,...,30] [--tol 1e-3]
        [--peers commands,grid_search]

Ours is the command on a store, at an eighth of the memory for the rows beside the problems' weights, and with room for
all.  The separate commands are as many runs of train at an eighth of the
memory, each on a store of the rows outside of its fold, which is made before.  GridSearchCV is that of LinearSVC
(hinge, no intercept, tol 0.01).  One run each.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

import numpy as np

from experiments.runs import begin, command, described, in_child, parser, read_through, row, split, table, train

COSTS = "0.01,0.03,0.1,0.3,1,3,10,30"


def load(path: Path, folds: int):
    """(X, y, fold of each row)"""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path))
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y, np.random.default_rng(0).permutation(len(y)) % folds


def commands(text: Path, folds: int, costs: list[float], tol: float) -> float:
    """Seconds of train once for each fold and C, on stores of the folds."""
    lines, seconds = text.read_bytes().splitlines(keepends=True), 0.0
    fold = np.random.default_rng(0).permutation(len(lines)) % folds
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        rows, store, model = (Path(name, file) for file in ("rows.svm", "rows.h5", "model.h5"))
        for k in range(folds):
            rows.write_bytes(b"".join(line for line, of in zip(lines, fold, strict=True) if of != k))
            split(rows, store)
            about = described(store)
            memory = 8 * about["n_features"] + 32 * about["n_samples"] + 6_000_000 + about["n_nonzeros"]
            for C in costs:
                seconds += train(store, model, "-C", C, "--tol", tol, "--memory", f"{memory}B")[1].seconds
    return seconds


def grid_search(text: Path, folds: int, costs: list[float], tol: float) -> float:
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import LinearSVC

    X, y, _ = load(text, folds)
    svm = LinearSVC(loss="hinge", fit_intercept=False, tol=0.01, max_iter=10_000)
    began = time.perf_counter()
    GridSearchCV(svm, {"C": costs}, cv=folds, refit=False).fit(X, y)
    return time.perf_counter() - began


PEERS = {
    "commands": ("separate commands, 1/8", commands),
    "grid_search": ("GridSearchCV", grid_search),
}


def ours(store: Path, out: Path, share: str, options) -> dict:
    about, at_once = described(store), 8 * -(-3 * options.folds // 8)  # of three C at once
    rest = 8 * (at_once + 2 * options.folds) * (about["n_features"] + 2 * about["n_samples"]) + 10_000_000
    memory = rest + about["n_nonzeros"] * (16 if share == "all" else 1)
    given = ("--folds", options.folds, "-C", options.costs, "--tol", options.tol, "--memory", f"{memory}B")
    command("cv", store, *given, f"--json={out}", "--quiet", "--overwrite")
    return json.loads(out.read_text())


def main() -> None:
    p = parser(__doc__)
    p.add_argument("text", type=Path, metavar="TRAIN.svm")
    p.add_argument("--folds", type=int, default=5)
    p.add_argument("--costs", default=COSTS)
    p.add_argument("--tol", type=float, default=1e-3)
    p.add_argument("--peers", default=",".join(PEERS))
    options = p.parse_args()
    costs = [float(C) for C in options.costs.split(",")]
    begin()
    table(f"{options.text.stem}, {options.folds} folds, C {options.costs}, gap {options.tol:g}",
          "program", "seconds", "readings")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        store, out = Path(name, "rows.h5"), Path(name, "cv.json")
        split(options.text, store)
        read_through(store)
        ours(store, out, "1/8", options)  # compiles
        for share in ("1/8", "all"):
            found = ours(store, out, share, options)
            row(f"cv, memory {share}", f"{found['seconds']:.1f}", f"{found['readings']:.0f}")
    for name in filter(None, options.peers.split(",")):
        label, peer = PEERS[name]
        row(label, f"{in_child(peer, options.text, options.folds, costs, options.tol):.1f}", "")


if __name__ == "__main__":
    main()
