"""scikit-learn's LinearSVC (LIBLINEAR inside) in memory; its time includes the copy into LIBLINEAR's nodes."""

import warnings

import numpy as np
from benchmark_utils import ByTolerance
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC


class Solver(ByTolerance):
    name = "LinearSVC"
    requirements = ["pip::scikit-learn"]
    parameters = {"max_iter": [10_000]}

    def skip(self, loss, bias, **other):
        fits = loss in ("hinge", "squared-hinge") and bias != "free"
        return (False, None) if fits else (True, "takes hinge losses and a regularised bias")

    def set_objective(self, X, Y, loss, C, bias, **other):
        self.X, self.y = X, Y[:, 0] if Y.shape[1] == 1 else (Y > 0).astype(int)
        self.settings = {"loss": loss.replace("-", "_"), "C": C, "dual": True, "max_iter": self.max_iter}
        self.settings |= {"fit_intercept": bias > 0, "intercept_scaling": float(bias or 1), "random_state": 0}

    def run(self, tolerance):
        svm = LinearSVC(**self.settings, tol=min(tolerance, 1e9))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the objective tells how far it has come
            self.svm = (svm if self.y.ndim == 1 else OneVsRestClassifier(svm)).fit(self.X, self.y)

    def get_result(self):
        parts = getattr(self.svm, "estimators_", [self.svm])
        intercept = np.hstack([part.intercept_ + np.zeros(1) for part in parts])
        return {"coef": np.vstack([part.coef_ for part in parts]), "intercept": intercept}
