"""Snap ML's SupportVectorMachine in memory, on float32 rows.

Its documentation gives no formula for the regularizer: lambda/2 ||w||^2 + sum of hinge was found by comparing optima.
With tol=0 only max_iter ends a run.
"""

import numpy as np
from benchmark_utils import BY_ITERATIONS
from benchopt import BaseSolver
from snapml import SupportVectorMachine


class Solver(BaseSolver):
    name = "snapml"
    sampling_strategy = "iteration"
    stopping_criterion = BY_ITERATIONS
    requirements = ["pip::snapml"]
    parameters = {"n_jobs": [1]}

    def skip(self, loss, Y, bias, **other):
        fits = loss == "hinge" and Y.shape[1] == 1 and bias == 0
        return (False, None) if fits else (True, "takes the hinge loss of two classes without a bias here")

    def set_objective(self, X, Y, C, **other):
        self.X, self.y = X.astype(np.float32), Y[:, 0]
        self.settings = {"loss": "hinge", "regularizer": 1.0 / C, "fit_intercept": False, "tol": 0.0}
        self.settings |= {"n_jobs": self.n_jobs, "random_state": 0}

    def get_next(self, iterations):
        return max(1, 2 * iterations)

    def run(self, iterations):
        self.coef = np.zeros(self.X.shape[1])
        if iterations:
            svm = SupportVectorMachine(**self.settings, max_iter=iterations)
            self.coef = svm.fit(self.X, self.y).coef_.ravel()

    def get_result(self):
        return {"coef": self.coef}
