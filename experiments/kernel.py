"""The machine with a kernel and the online learners with one, beside libsvm (scikit-learn's SVC).

    python -m experiments.kernel NAME=TEXT.svm:C:GAMMA ... [--memory 300] [--tol 1e-3] [--repeats 3]
    python -m experiments.kernel NAME=TRAIN.svm[:TEST.svm]:GAMMA ... --online [--cost 0.1] [--budgets 100,1000]

The first: seconds from the store to a certified gap, within less memory (in MB) than the kernel matrix takes, and of
libsvm's training alone in memory with a cache of that size; rbf kernel, a bias that is not regularised; two classes,
the larger label against the others.  online: one pass; progressive mistakes, seconds and the last model's accuracy by
kernel and budget, beside SVC, which passes over the rows until it is at its optimum; without a test text a third of the
rows, drawn by seed 0, is held out; values are divided by each feature's largest.
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
from experiments.runs import begin, described, in_child, listed, parser, row, split, table, train

LEVELS = (0.1, 0.001)  # libsvm's tolerance


def peer(path: str, C: float, gamma: float, tol: float, megabytes: float) -> dict:
    """One run of libsvm."""
    X, y = load_svmlight_files([path])
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # SVC takes no others
    y = np.where(y == y.max(), 1.0, -1.0)
    solver = SVC(kernel="rbf", C=C, gamma=gamma, tol=tol, cache_size=megabytes)
    began = time.perf_counter()
    solver.fit(X, y)
    seconds = time.perf_counter() - began
    f, beta = solver.decision_function(X), np.asarray(solver.dual_coef_.todense()).ravel()
    quadratic = float(beta @ (f[solver.support_] - solver.intercept_[0]))
    return {"seconds": seconds, "primal": 0.5 * quadratic + C * float(np.maximum(0.0, 1.0 - y * f).sum())}


def machines(options) -> None:
    table(f"gap {options.tol:g}, {options.memory:g} MB, medians of {options.repeats}", "data", "rows", "C, gamma",
          "kernel matrix, GB", "solver", "seconds", "primal", "gap")  # fmt: skip
    for one in options.data:
        name, _, rest = one.partition("=")
        text, C, gamma = rest.split(":")
        runs: dict[str, list[dict]] = {}
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder, "rows.h5")
            split(Path(text).resolve(), store)
            n = described(store)["n_samples"]
            given = ("--solver", "kernel", "--gamma", gamma, "-C", C, "--bias", "free", "--tol", options.tol)
            for _ in range(options.repeats):
                events, _ = train(store, Path(folder, "m.h5"), "--memory", f"{options.memory:g}MB", *given)
                runs.setdefault("blocksvm", []).append(events[-1])
                for level in LEVELS:
                    found = in_child(peer, text, float(C), float(gamma), level, options.memory)
                    runs.setdefault(f"libsvm, -e {level:g}", []).append(found)
        for solver, found in runs.items():
            gap = f"{found[-1]['rel_gap']:.1e}" if "rel_gap" in found[-1] else ""
            row(name, f"{n:,}", f"{C}, {gamma}", f"{8e-9 * n**2:.1f}", solver,
                f"{median(one['seconds'] for one in found):.1f}", f"{found[-1]['primal']:.6g}", gap)  # fmt: skip


def load(paths: list[str]):
    """(X, y, X of the test rows, their y); values of each feature divided by its largest absolute one."""
    X, y, *more = load_svmlight_files(paths)
    y = np.where(y == y.max(), 1.0, -1.0)
    if not more:
        order = np.random.default_rng(0).permutation(len(y))
        held_out, rest = np.sort(order[: len(y) // 3]), np.sort(order[len(y) // 3 :])
        more = [X[held_out], y[held_out]]
        X, y = X[rest], y[rest]
    order = np.random.default_rng(1).permutation(len(y))  # texts are often sorted by label
    X, y = X[order], y[order]
    largest = abs(X).max(axis=0).toarray().ravel()
    largest[largest == 0.0] = 1.0
    scaled = [sparse.csr_matrix(one @ sparse.diags(1.0 / largest), dtype=np.float32) for one in (X, more[0])]
    return scaled[0], y, scaled[1], np.where(more[1] == more[1].max(), 1.0, -1.0)


def online(options) -> None:
    budgets = [{}, *({"budget": int(n)} for n in options.budgets)]
    table(f"one pass, C = {options.cost:g}", "data", "learner", "kernel", "budget", "support vectors", "mistakes",
          "seconds", "test accuracy")  # fmt: skip
    for one in options.data:
        name, _, rest = one.partition("=")
        *paths, gamma = rest.split(":")
        X, y, X_test, y_test = load(paths)
        kernels = {
            "linear": {"kernel": "linear"},
            "polynomial": {"kernel": "polynomial", "degree": 2, "coef0": 1.0, "gamma": float(gamma)},
            "rbf": {"kernel": "rbf", "gamma": float(gamma)},
        }
        for learner, kernel, budget in product(("kernel-perceptron", "kernel-pa1", "kernel-pa2"), kernels, budgets):
            if learner != "kernel-pa1" and kernel != "rbf":
                continue
            cost = {} if learner == "kernel-perceptron" else {"C": options.cost}
            given = {"learner": learner, **cost, **kernels[kernel], **budget}
            fit(X[:64], y[:64], **given)  # loads the compiled code
            began, events = time.perf_counter(), []
            found = fit(X, y, order="stored", on_event=events.append, **given)
            seconds = time.perf_counter() - began
            mistakes = [event["mistakes"] for event in events if event["event"] == "outer"][-1]
            row(name, learner, kernel, budget.get("budget", "none"), f"{len(found.model.support.norms):,}",
                f"{mistakes / len(y):.2%}", f"{seconds:.2f}",
                f"{(found.model.predict(X_test) == y_test).mean():.2%}")  # fmt: skip
        began = time.perf_counter()
        svc = SVC(kernel="rbf", C=1.0, gamma=float(gamma), cache_size=300).fit(X, y)
        row(name, "SVC, C = 1", "rbf", "none", f"{len(svc.support_):,}", "", f"{time.perf_counter() - began:.2f}",
            f"{svc.score(X_test, y_test):.2%}")  # fmt: skip


def main() -> None:
    p = parser(__doc__)
    p.add_argument("data", nargs="+", metavar="NAME=...")
    p.add_argument("--online", action="store_true")
    p.add_argument("--memory", type=float, default=300)
    p.add_argument("--tol", type=float, default=1e-3)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--cost", type=float, default=0.1)
    p.add_argument("--budgets", type=listed, default=("100", "1000"))
    options = p.parse_args()
    begin()
    (online if options.online else machines)(options)


if __name__ == "__main__":
    main()
