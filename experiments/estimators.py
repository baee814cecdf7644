"""LinearSVC of blocksvm.estimators beside scikit-learn's, both in memory on the same matrix: seconds of ``fit``, in
brackets those of the processor, and how far the primal objective, which is the same problem's (squared hinge,
regularised intercept), lies from the best one found.

    python -m experiments.estimators NAME=TEXT.svm ... [-C 1] [--dtype float64|float32] [--repeats 3]

Of two labels the larger against the other, of more the larger half against the others.  Runs are interleaved; kernels
are loaded before, and memory is at hand; a time is the median of the repeats.  Both use one thread, so on a machine
that is not alone the processor's seconds say more: ratios are made of these.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

import numpy as np

from experiments.processes import touch_memory
from experiments.report import machine

OURS = (1e-3, 1e-4, 1e-6, 1e-7, 1e-8, 1e-9)  # the default is 1e-4
THEIRS = (0.1, 1e-2, 1e-4)  # LIBLINEAR's own default is 0.1, scikit-learn's 1e-4


def primal(X, y: np.ndarray, model, C: float) -> float:
    """1/2 ||w||^2 + b^2 / 2 + C sum max(0, 1 - y f)^2, in float64."""
    w, b = model.coef_[0], float(model.intercept_[0])
    slack = np.maximum(0.0, 1.0 - y * (X @ w + b))
    return 0.5 * float(w @ w) + 0.5 * b * b + C * float(slack @ slack)


def load(path: str, dtype: str) -> tuple:
    """(X CSR, y of +-1)."""
    from sklearn.datasets import load_svmlight_file

    X, labels = load_svmlight_file(path, dtype=np.dtype(dtype))
    # scikit-learn's LinearSVC takes no other indices
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    found = np.unique(labels)
    return X, np.where(labels >= found[len(found) // 2], 1.0, -1.0)


def measured(X, y: np.ndarray, C: float, repeats: int) -> dict:
    """{(which, tol): (median seconds, of the processor, primal)}."""
    from sklearn.svm import LinearSVC as Theirs

    from blocksvm.estimators import LinearSVC as Ours

    makers = [(("ours", tol), lambda tol=tol: Ours(C=C, tol=tol)) for tol in OURS]
    makers += [(("theirs", tol), lambda tol=tol: Theirs(C=C, tol=tol, max_iter=10_000)) for tol in THEIRS]
    for tol in (1e-3, 1e-6):  # what is compiled or loaded once
        Ours(tol=tol).fit(X[:2000], y[:2000])
    found: dict = {}
    for _ in range(repeats):
        for key, make in makers:
            model = make()
            touch_memory()
            began, worked = time.perf_counter(), time.process_time()
            model.fit(X, y)
            seconds, work = time.perf_counter() - began, time.process_time() - worked
            found.setdefault(key, []).append((seconds, work, primal(X, y, model, C)))
    return {key: tuple(map(statistics.median, zip(*runs, strict=True))) for key, runs in found.items()}


def row_of(name: str, X, found: dict) -> str:
    """A data set's line: every run's seconds and distance to the best primal, then how many times as long the peer
    takes as the first of ours whose primal is no larger, but for a part in 10^9."""
    best = min(value for *_, value in found.values())
    cells = [name, f"{X.nnz / 1e6:.1f} M"]
    cells += [f"{s:.2f} ({work:.2f}) s, {(value - best) / best:.0e}" for s, work, value in found.values()]
    for tol in THEIRS:
        _, work, value = found["theirs", tol]
        reached = [found["ours", own][1] for own in OURS if found["ours", own][2] <= value * (1.0 + 1e-9)]
        cells.append(f"{work / min(reached):.2f}" if reached else "not reached")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", nargs="+", metavar="NAME=TEXT.svm")
    p.add_argument("-C", type=float, default=1.0)
    p.add_argument("--dtype", choices=("float64", "float32"), default="float64")
    p.add_argument("--repeats", type=int, default=3)
    options = p.parse_args()
    warnings.simplefilter("ignore")
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)  # others would wait in a busy loop after each product, and count
    about = machine()
    print(f"{about['cpu']}, {about['cores']} cores, {about['date']}; C = {options.C:g}, {options.dtype}, "
          f"{options.repeats} repeats\n")  # fmt: skip
    heads = ["data", "nonzeros", *(f"ours, {tol:g}" for tol in OURS), *(f"scikit-learn, {tol:g}" for tol in THEIRS)]
    heads += [f"times as long, to the primal of {tol:g}" for tol in THEIRS]
    print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|", flush=True)
    for one in options.data:
        name, _, path = one.partition("=")
        X, y = load(path, options.dtype)
        print(row_of(name, X, measured(X, y, options.C, options.repeats)), flush=True)


if __name__ == "__main__":
    main()
