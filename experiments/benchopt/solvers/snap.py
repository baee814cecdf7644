"""Snap ML's SupportVectorMachine in memory, on float32 rows.

Its documentation gives no formula for the regularizer: lambda/2 ||w||^2 + sum of hinge was found by comparing optima.
With tol=0 only max_iter ends a run.
"""

import numpy as np
from benchmark_utils import ByIterations
from snapml import SupportVectorMachine


class Solver(ByIterations):
    name = "snapml"
    requirements = ["pip::snapml"]
    parameters = {"n_jobs": [1]}

    def set_objective(self, X, **other):
        super().set_objective(X.astype(np.float32), **other)

    def fitted(self, iterations):
        given = {"loss": "hinge", "regularizer": 1.0 / self.C, "fit_intercept": False, "tol": 0.0}
        svm = SupportVectorMachine(**given, n_jobs=self.n_jobs, random_state=0, max_iter=iterations)
        return svm.fit(self.X, self.y).coef_.ravel()
