"""Snap ML's SupportVectorMachine in memory."""

from __future__ import annotations

import time

from experiments.solvers.child import Outcome, Task, fit_estimator, load_csr, main

LEVELS = (
    "max_iter=3", "max_iter=10", "max_iter=30",
    "max_iter=3,n_jobs=2", "max_iter=10,n_jobs=2", "max_iter=30,n_jobs=2",
)  # fmt: skip
DISTRIBUTION = "snapml"
IMPORTED = "snapml"
BYTES_PER_NONZERO = 24
ABOUT = (
    "SupportVectorMachine(loss='hinge', regularizer=1/C, fit_intercept=False, max_iter=max_iter, tol=0, "
    "n_jobs=n_jobs (default 1), random_state=0) on float32 rows; its documentation gives no formula for the "
    "regularizer: lambda/2 ||w||^2 + sum of hinge was found by comparing optima; tol=0 leaves only max_iter to stop it"
)


def run(task: Task) -> Outcome:
    from snapml import SupportVectorMachine

    began = time.perf_counter()
    X, y = load_csr(task.folder, "values32")
    load_seconds = time.perf_counter() - began
    svm = SupportVectorMachine(
        loss="hinge",
        regularizer=1.0 / task.C,
        fit_intercept=False,
        max_iter=int(task.settings("max_iter")),
        tol=0.0,
        n_jobs=int(task.settings("n_jobs", "1")),
        random_state=0,
    )
    return fit_estimator(svm, X, y, load_seconds)


if __name__ == "__main__":
    main("snap", DISTRIBUTION, IMPORTED, run)
