"""The machine with a kernel beside libsvm (scikit-learn's SVC): seconds from the store to a certified gap, within less
memory than the kernel matrix takes, and of libsvm's training alone in memory with a cache of that size.

    python -m experiments.kernel NAME=TEXT.svm:C:GAMMA ... [--memory 300] [--tol 1e-3] [--repeats 3] [--json FILE]

rbf kernel, a bias that is not regularised; two classes, the larger label against the others; --memory is in MB.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from experiments.measuring import Tables, in_child, parser, split, train

LEVELS = (0.1, 0.001)  # libsvm's tolerance


def load(path: str):
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(path)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # SVC takes no others
    return X, np.where(y == y.max(), 1.0, -1.0)


def peer(path: str, C: float, gamma: float, tol: float, megabytes: float) -> dict:
    """One run of libsvm."""
    from sklearn.svm import SVC

    X, y = load(path)
    solver = SVC(kernel="rbf", C=C, gamma=gamma, tol=tol, cache_size=megabytes)
    began = time.perf_counter()
    solver.fit(X, y)
    seconds = time.perf_counter() - began
    f, beta = solver.decision_function(X), np.asarray(solver.dual_coef_.todense()).ravel()
    quadratic = float(beta @ (f[solver.support_] - solver.intercept_[0]))
    return {"seconds": seconds, "primal": 0.5 * quadratic + C * float(np.maximum(0.0, 1.0 - y * f).sum())}


def main() -> None:
    p = parser(__doc__)
    p.add_argument("data", nargs="+", metavar="NAME=TEXT.svm:C:GAMMA")
    p.add_argument("--memory", type=float, default=300)
    p.add_argument("--tol", type=float, default=1e-3)
    p.add_argument("--repeats", type=int, default=3)
    options = p.parse_args()
    tables = Tables(options)
    tables.begin(f"gap {options.tol:g}, {options.memory:g} MB, medians of {options.repeats}", "data", "rows",
                 "C, gamma", "kernel matrix, GB", "solver", "seconds", "primal", "gap")  # fmt: skip
    for one in options.data:
        name, _, rest = one.partition("=")
        text, C, gamma = rest.split(":")
        runs: dict[str, list[dict]] = {}
        with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as folder:
            from sklearn.datasets import dump_svmlight_file

            X, y = load(text)
            dump_svmlight_file(X, y, f"{folder}/rows.svm")
            store = Path(folder, "rows.h5")
            split(Path(folder, "rows.svm"), store)
            given = ("--solver", "kernel", "--gamma", gamma, "-C", C, "--bias", "free", "--tol", options.tol)
            for _ in range(options.repeats):
                events, _ = train(store, Path(folder, "m.h5"), "--memory", f"{options.memory:g}MB", *given)
                runs.setdefault("blocksvm", []).append(events[-1])
                for level in LEVELS:
                    found = in_child(peer, text, float(C), float(gamma), level, options.memory)
                    runs.setdefault(f"libsvm, -e {level:g}", []).append(found)
        for solver, found in runs.items():
            gap = f"{found[-1]['rel_gap']:.1e}" if "rel_gap" in found[-1] else ""
            tables.row(name, f"{len(y):,}", f"{C}, {gamma}", f"{8e-9 * len(y) ** 2:.1f}", solver,
                       f"{median(one['seconds'] for one in found):.1f}", f"{found[-1]['primal']:.6g}", gap)  # fmt: skip
    tables.end()


if __name__ == "__main__":
    main()
