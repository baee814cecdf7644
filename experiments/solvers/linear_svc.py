"""scikit-learn's LinearSVC (LIBLINEAR inside) in memory."""

from __future__ import annotations

import time

from experiments.solvers.child import Outcome, Task, fit_estimator, load_csr, main

LEVELS = ("tol=1", "tol=0.1", "tol=0.01")
DISTRIBUTION = "scikit-learn"
IMPORTED = "sklearn.svm"
BYTES_PER_NONZERO = 28
ABOUT = (
    "LinearSVC(loss='hinge', dual=True, C=C, tol=tol, fit_intercept=False, max_iter=1000, random_state=0), or with "
    "another max_iter; seconds are fit: its checks and its copy into LIBLINEAR's nodes are included"
)


def run(task: Task) -> Outcome:
    from sklearn.svm import LinearSVC

    began = time.perf_counter()
    X, y = load_csr(task.folder)
    load_seconds = time.perf_counter() - began
    tol = float(task.settings("tol"))
    iterations = int(task.settings("max_iter", "1000"))
    svc = LinearSVC(
        loss="hinge", dual=True, C=task.C, tol=tol, fit_intercept=False, max_iter=iterations, random_state=0
    )
    return fit_estimator(svc, X, y, load_seconds)


if __name__ == "__main__":
    main("linear_svc", DISTRIBUTION, IMPORTED, run)
