"""scikit-learn's SGDClassifier in memory."""

from __future__ import annotations

import time

from experiments.solvers.child import Outcome, Task, fit_estimator, load_csr, main

LEVELS = ("epochs=1", "epochs=5", "epochs=20")
DISTRIBUTION = "scikit-learn"
IMPORTED = "sklearn.linear_model"
BYTES_PER_NONZERO = 14
ABOUT = (
    "SGDClassifier(loss='hinge', penalty='l2', alpha=1/(C rows), learning_rate='optimal', max_iter=epochs, tol=None, "
    "fit_intercept=False, random_state=0); its objective, alpha/2 ||w||^2 + mean hinge, is P / (C rows)"
)


def run(task: Task) -> Outcome:
    from sklearn.linear_model import SGDClassifier

    began = time.perf_counter()
    X, y = load_csr(task.folder)
    load_seconds = time.perf_counter() - began
    sgd = SGDClassifier(
        loss="hinge",
        penalty="l2",
        alpha=1.0 / (task.C * X.shape[0]),
        learning_rate="optimal",
        max_iter=int(task.settings("epochs")),
        tol=None,
        fit_intercept=False,
        random_state=0,
    )
    return fit_estimator(sgd, X, y, load_seconds)


if __name__ == "__main__":
    main("sgd", DISTRIBUTION, IMPORTED, run)
