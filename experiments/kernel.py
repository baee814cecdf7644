"""The machine with a kernel and the online learners with one, beside libsvm (scikit-learn's SVC).

    python -m experiments.kernel NAME=TEXT.svm:GAMMA ... [--memory 300] [--repeats 3]
    python -m experiments.kernel NAME=TRAIN.svm[:TEST.svm]:GAMMA ... --online

The first: seconds from the store to a certified gap of 1e-3, within less memory (in MB) than the kernel matrix takes,
and of libsvm's training alone in memory with a cache of that size; rbf kernel, C = 1, a bias that is not regularised.
online: one pass, C = 0.1, beside SVC at its optimum; without a test text a third of the rows is held out; values are
divided by each feature's largest.
"""

from functools import partial
from itertools import product

import numpy as np
from scipy import sparse
from sklearn.svm import SVC

from blocksvm import fit
from experiments import runs
from experiments.runs import Clock, row, script, split, table, train

LEVELS = (0.1, 0.001)  # libsvm's tolerance
BUDGETS = ({}, {"budget": 100})


def peer(text: str, gamma: float, tol: float, megabytes: int) -> dict:
    """One run of libsvm."""
    (X, y), solver = runs.rows_of(text), SVC(kernel="rbf", gamma=gamma, tol=tol, cache_size=megabytes)
    clock = Clock()
    solver.fit(X, y)
    seconds = clock.part()
    f, beta = solver.decision_function(X), np.asarray(solver.dual_coef_.todense()).ravel()
    quadratic = float(beta @ (f[solver.support_] - solver.intercept_[0]))
    return {"seconds": seconds, "primal": 0.5 * quadratic + float(np.maximum(0.0, 1.0 - y * f).sum())}


def machines(options) -> None:
    table(f"gap 1e-3, {options.memory} MB, medians of {options.repeats}", "data", "rows", "C, gamma",
          "kernel matrix, GB", "solver", "seconds", "primal", "gap")  # fmt: skip
    for name, text, gamma in (one.replace("=", ":").split(":") for one in options.data):
        with runs.scratch() as folder:
            store = folder / "rows.h5"
            split(text, store)
            n = runs.described(store)["n_samples"]
            given = "--solver", "kernel", "--gamma", gamma, "--bias", "free", "--memory", f"{options.memory}MB"
            ways = {"blocksvm": lambda store=store, given=given: train(store, store.with_name("m.h5"), *given)[0][-1]}
            ways |= {f"libsvm, -e {level:g}": partial(runs.in_child, peer, text, float(gamma), level, options.memory)
                     for level in LEVELS}  # fmt: skip
            for solver, found in runs.in_turn(ways, options.repeats).items():
                row(name, f"{n:,}", f"1, {gamma}", f"{8e-9 * n**2:.1f}", solver, f"{found['seconds']:.1f}",
                    f"{found['primal']:.6g}", f"{found['rel_gap']:.1e}" if "rel_gap" in found else "")  # fmt: skip


def load(*texts: str):
    """(X, y, X of the test rows, their y); values of each feature divided by its largest absolute one."""
    X, y, *test = runs.rows_of(*texts)
    order = np.random.default_rng(0).permutation(len(y))  # texts are often sorted by label
    held_out, order = (order[:0], order) if test else (order[: len(y) // 3], order[len(y) // 3 :])
    X_test, y_test = test or (X[held_out], y[held_out])
    largest = abs(X[order]).max(axis=0).toarray().ravel()
    scale = sparse.diags(1.0 / np.where(largest == 0.0, 1.0, largest))
    X, X_test = (sparse.csr_matrix(one @ scale, dtype=np.float32) for one in (X[order], X_test))
    return X, y[order], X_test, y_test


def online(options) -> None:
    table("one pass, C = 0.1", "data", "learner", "kernel", "budget", "support vectors", "mistakes", "seconds",
          "test accuracy")  # fmt: skip
    for name, *texts, gamma in (one.replace("=", ":").split(":") for one in options.data):
        X, y, X_test, y_test = load(*texts)
        rbf = {"kernel": "rbf", "gamma": float(gamma)}
        polynomial = rbf | {"kernel": "polynomial", "degree": 2, "coef0": 1.0}
        ways = [("kernel-perceptron", rbf), *(("kernel-pa1", one) for one in ({"kernel": "linear"}, polynomial, rbf)),
                ("kernel-pa2", rbf)]  # fmt: skip
        for (learner, kernel), budget in product(ways, BUDGETS):
            given = {"learner": learner, **kernel, **budget}
            given |= {} if learner == "kernel-perceptron" else {"C": 0.1}
            fit(X[:64], y[:64], **given)  # loads the compiled code
            events: list[dict] = []
            clock = Clock()
            model = fit(X, y, order="stored", on_event=events.append, **given).model
            row(name, learner, kernel["kernel"], budget.get("budget", "none"), f"{len(model.support.norms):,}",
                f"{runs.outers(events)[-1]['mistakes'] / len(y):.2%}", f"{clock.part():.2f}",
                f"{(model.predict(X_test) == y_test).mean():.2%}")  # fmt: skip
        clock = Clock()
        svc = SVC(kernel="rbf", gamma=float(gamma), cache_size=300).fit(X, y)
        row(name, "SVC, C = 1", "rbf", "none", f"{len(svc.support_):,}", "", f"{clock.part():.2f}",
            f"{svc.score(X_test, y_test):.2%}")  # fmt: skip


@script("data+", online=False, memory=300, repeats=3)
def main(options) -> None:
    (online if options.online else machines)(options)
