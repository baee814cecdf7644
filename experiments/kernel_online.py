"""Online learners with a kernel in one pass over real rows: progressive mistakes, seconds and the last model's accuracy
by kernel and budget, beside scikit-learn's SVC, which passes over the rows until it is at its optimum.

    python -m experiments.kernel_online NAME=TRAIN.svm[:TEST.svm]:GAMMA ... [--cost 0.1] [--budgets 100,1000]

Without a test text a third of the rows, drawn by seed 0, is held out.  Values are divided by each feature's largest.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_files
from sklearn.svm import SVC

from blocksvm.training.fit import fit
from experiments.report import machine


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
    largest = np.maximum(abs(X).max(axis=0).toarray().ravel(), 1e-300)
    scaled = [sparse.csr_matrix(one @ sparse.diags(1.0 / largest), dtype=np.float32) for one in (X, more[0])]
    return scaled[0], y, scaled[1], np.where(more[1] == more[1].max(), 1.0, -1.0)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", nargs="+", metavar="NAME=TRAIN[:TEST]:GAMMA")
    p.add_argument("--cost", type=float, default=0.1)
    p.add_argument("--budgets", default="100,1000")
    options = p.parse_args()
    budgets = [{}] + [
        {"budget": int(n), "budget_rule": rule} for n in options.budgets.split(",") for rule in ("project", "remove")
    ]
    about = machine()
    print(f"{about['cpu']}, {about['cores']} cores, {about['date']}\n")
    print(
        "| data | learner | kernel | budget | support vectors | mistakes | seconds | test accuracy |\n"
        + "|---" * 8
        + "|"
    )
    for asked in options.data:
        name, _, rest = asked.partition("=")
        *paths, gamma = rest.split(":")
        X, y, X_test, y_test = load(paths)
        kernels = {
            "linear": {"kernel": "linear"},
            "polynomial": {"kernel": "polynomial", "degree": 2, "coef0": 1.0, "gamma": float(gamma)},
            "rbf": {"kernel": "rbf", "gamma": float(gamma)},
        }
        for learner in ("kernel-perceptron", "kernel-pa1", "kernel-pa2"):
            own = {} if learner == "kernel-perceptron" else {"C": options.cost}
            for kernel, settings in kernels.items():
                if learner != "kernel-pa1" and kernel != "rbf":
                    continue
                for budget in budgets:
                    fit(X[:64], y[:64], learner=learner, **own, **settings, **budget)  # loads the compiled code
                    began = time.perf_counter()
                    found = fit(X, y, learner=learner, order="stored", **own, **settings, **budget)
                    seconds = time.perf_counter() - began
                    told = found.loop.plan.solver.progress(found.loop.state)
                    right = (found.model.predict(X_test) == y_test).mean()
                    print(
                        f"| {name} | {learner} | {kernel} | "
                        f"{'{budget:,} {budget_rule}'.format(**budget) if budget else 'none'} | "
                        f"{len(found.model.support.norms):,} | {told['mistakes'] / len(y):.2%} | {seconds:.2f} | "
                        f"{right:.2%} |",
                        flush=True,
                    )
        began = time.perf_counter()
        peer = SVC(kernel="rbf", C=1.0, gamma=float(gamma), cache_size=300).fit(X, y)
        seconds = time.perf_counter() - began
        print(
            f"| {name} | SVC, C = 1 | rbf | none | {len(peer.support_):,} | | {seconds:.2f} | "
            f"{peer.score(X_test, y_test):.2%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
