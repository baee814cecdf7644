"""The machine with a kernel and the online learners with one, beside libsvm (scikit-learn's SVC).

    python -m experiments.kernel NAME=TEXT.svm:GAMMA ... [--memory 300] [--repeats 3]
    python -m experiments.kernel NAME=TRAIN.svm[:TEST.svm]:GAMMA ... --online

The first: seconds from the store to a certified gap of 1e-3, within less memory (in MB) than the kernel matrix takes,
and of libsvm's training alone in memory with a cache of that size; rbf kernel, C = 1, a bias that is not regularised;
two classes, the larger label against the others.  online: one pass, C = 0.1; progressive mistakes, seconds and the last
model's accuracy by kernel and budget, beside SVC at its optimum; without a test text a third of the rows, drawn by seed
0, is held out; values are divided by each feature's largest.
"""

from __future__ import annotations

import tempfile
import time
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_files
from sklearn.svm import SVC

from blocksvm import fit
from experiments.runs import begin, described, in_child, outers, row, split, table, train

LEVELS = (0.1, 0.001)  # libsvm's tolerance
BUDGETS = ({}, {"budget": 100})


def peer(path: str, gamma: float, tol: float, megabytes: int) -> dict:
    """One run of libsvm."""
    X, y = load_svmlight_files([path])
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # SVC takes no others
    y = np.where(y == y.max(), 1.0, -1.0)
    solver = SVC(kernel="rbf", gamma=gamma, tol=tol, cache_size=megabytes)
    began = time.perf_counter()
    solver.fit(X, y)
    seconds = time.perf_counter() - began
    f, beta = solver.decision_function(X), np.asarray(solver.dual_coef_.todense()).ravel()
    quadratic = float(beta @ (f[solver.support_] - solver.intercept_[0]))
    return {"seconds": seconds, "primal": 0.5 * quadratic + float(np.maximum(0.0, 1.0 - y * f).sum())}


def machines(options) -> None:
    table(f"gap 1e-3, {options.memory} MB, medians of {options.repeats}", "data", "rows", "C, gamma",
          "kernel matrix, GB", "solver", "seconds", "primal", "gap")  # fmt: skip
    for name, _, rest in (one.partition("=") for one in options.data):
        text, gamma = rest.split(":")
        runs: dict[str, list[dict]] = {}
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder, "rows.h5")
            split(Path(text).resolve(), store)
            n = described(store)["n_samples"]
            given = ("--solver", "kernel", "--gamma", gamma, "--bias", "free", "--memory", f"{options.memory}MB")
            for _ in range(options.repeats):
                runs.setdefault("blocksvm", []).append(train(store, Path(folder, "m.h5"), *given)[0][-1])
                for level in LEVELS:
                    found = in_child(peer, text, float(gamma), level, options.memory)
                    runs.setdefault(f"libsvm, -e {level:g}", []).append(found)
        for solver, found in runs.items():
            gap = f"{found[-1]['rel_gap']:.1e}" if "rel_gap" in found[-1] else ""
            seconds = median(one["seconds"] for one in found)
            row(name, f"{n:,}", f"1, {gamma}", f"{8e-9 * n**2:.1f}", solver, f"{seconds:.1f}",
                f"{found[-1]['primal']:.6g}", gap)  # fmt: skip


def load(paths: list[str]):
    """(X, y, X of the test rows, their y); values of each feature divided by its largest absolute one."""
    X, y, *more = load_svmlight_files(paths)
    n, rng = len(y), np.random.default_rng(0)
    if not more:
        order = rng.permutation(n)
        held_out, rest = np.sort(order[: n // 3]), np.sort(order[n // 3 :])
        X, y, *more = X[rest], y[rest], X[held_out], y[held_out]
    order = np.random.default_rng(1).permutation(len(y))  # texts are often sorted by label
    largest = abs(X).max(axis=0).toarray().ravel()
    scale = sparse.diags(1.0 / np.where(largest == 0.0, 1.0, largest))
    X, X_test = (sparse.csr_matrix(one @ scale, dtype=np.float32) for one in (X[order], more[0]))
    y, y_test = (np.where(one == one.max(), 1.0, -1.0) for one in (y[order], more[1]))
    return X, y, X_test, y_test


def online(options) -> None:
    table("one pass, C = 0.1", "data", "learner", "kernel", "budget", "support vectors", "mistakes", "seconds",
          "test accuracy")  # fmt: skip
    for name, _, rest in (one.partition("=") for one in options.data):
        *paths, gamma = rest.split(":")
        X, y, X_test, y_test = load(paths)
        rbf = {"kernel": "rbf", "gamma": float(gamma)}
        polynomial = {"kernel": "polynomial", "degree": 2, "coef0": 1.0, "gamma": float(gamma)}
        ways = [("kernel-perceptron", rbf), ("kernel-pa1", {"kernel": "linear"}), ("kernel-pa1", polynomial),
                ("kernel-pa1", rbf), ("kernel-pa2", rbf)]  # fmt: skip
        for (learner, kernel), budget in product(ways, BUDGETS):
            given = {"learner": learner, **kernel, **budget}
            given |= {} if learner == "kernel-perceptron" else {"C": 0.1}
            fit(X[:64], y[:64], **given)  # loads the compiled code
            events: list[dict] = []
            began = time.perf_counter()
            model = fit(X, y, order="stored", on_event=events.append, **given).model
            seconds = time.perf_counter() - began
            row(name, learner, kernel["kernel"], budget.get("budget", "none"), f"{len(model.support.norms):,}",
                f"{outers(events)[-1]['mistakes'] / len(y):.2%}", f"{seconds:.2f}",
                f"{(model.predict(X_test) == y_test).mean():.2%}")  # fmt: skip
        began = time.perf_counter()
        svc = SVC(kernel="rbf", gamma=float(gamma), cache_size=300).fit(X, y)
        row(name, "SVC, C = 1", "rbf", "none", f"{len(svc.support_):,}", "", f"{time.perf_counter() - began:.2f}",
            f"{svc.score(X_test, y_test):.2%}")  # fmt: skip


def main() -> None:
    options = begin(__doc__, "data", online=False, memory=300, repeats=3)
    (online if options.online else machines)(options)


if __name__ == "__main__":
    main()
