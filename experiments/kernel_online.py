"""Online learners with a kernel in one pass over real rows: progressive mistakes, seconds and the last model's accuracy
by kernel and budget, beside scikit-learn's SVC, which passes over the rows until it is at its optimum.

    python -m experiments.kernel_online NAME=TRAIN.svm[:TEST.svm]:GAMMA ... [--cost 0.1] [--budgets 100,1000]
        [--json FILE]

Without a test text a third of the rows, drawn by seed 0, is held out.  Values are divided by each feature's largest.
"""

from __future__ import annotations

import time
from itertools import product

import numpy as np
from scipy import sparse
from sklearn.datasets import load_svmlight_files
from sklearn.svm import SVC

from blocksvm import fit
from experiments.measuring import Tables, parser


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


def main() -> None:
    p = parser(__doc__)
    p.add_argument("data", nargs="+", metavar="NAME=TRAIN[:TEST]:GAMMA")
    p.add_argument("--cost", type=float, default=0.1)
    p.add_argument("--budgets", default="100,1000")
    options = p.parse_args()
    sizes = [int(n) for n in options.budgets.split(",")]
    budgets = [{}] + [{"budget": n, "budget_rule": rule} for n in sizes for rule in ("project", "remove")]
    tables = Tables(options)
    tables.begin(f"one pass, C = {options.cost:g}", "data", "learner", "kernel", "budget", "support vectors",
                 "mistakes", "seconds", "test accuracy")  # fmt: skip
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
            limit = "{budget:,} {budget_rule}".format(**budget) if budget else "none"
            tables.row(name, learner, kernel, limit, f"{len(found.model.support.norms):,}", f"{mistakes / len(y):.2%}",
                       f"{seconds:.2f}", f"{(found.model.predict(X_test) == y_test).mean():.2%}")  # fmt: skip
        began = time.perf_counter()
        peer = SVC(kernel="rbf", C=1.0, gamma=float(gamma), cache_size=300).fit(X, y)
        tables.row(name, "SVC, C = 1", "rbf", "none", f"{len(peer.support_):,}", "",
                   f"{time.perf_counter() - began:.2f}", f"{peer.score(X_test, y_test):.2%}")  # fmt: skip
    tables.end()


if __name__ == "__main__":
    main()
