"""libsvm's linear kernel in memory, through scikit-learn's SVC: the bias is not regularised."""

import numpy as np
from benchmark_utils import BY_TOLERANCE, next_tolerance
from benchopt import BaseSolver
from sklearn.svm import SVC


class Solver(BaseSolver):
    name = "libsvm"
    sampling_strategy = "tolerance"
    stopping_criterion = BY_TOLERANCE
    requirements = ["pip::scikit-learn"]
    test_config = {"objective": {"bias": "free"}}

    def skip(self, loss, Y, bias, **other):
        fits = loss == "hinge" and Y.shape[1] == 1 and bias == "free"
        return (False, None) if fits else (True, "takes the hinge loss of two classes and a free bias")

    def set_objective(self, X, Y, C, **other):
        self.X, self.y, self.C = X, Y[:, 0], C

    def get_next(self, tolerance):
        return next_tolerance(tolerance)

    def run(self, tolerance):
        self.svm = SVC(kernel="linear", C=self.C, tol=min(tolerance, 1.0), cache_size=2000).fit(self.X, self.y)

    def get_result(self):
        return {"coef": np.asarray(self.svm.coef_.todense()), "intercept": self.svm.intercept_}
