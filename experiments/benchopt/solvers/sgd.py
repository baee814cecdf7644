"""scikit-learn's SGDClassifier in memory: alpha/2 ||w||^2 + mean hinge with alpha = 1/(C n) is P / (C n)."""

import numpy as np
from benchmark_utils import BY_ITERATIONS
from benchopt import BaseSolver
from sklearn.linear_model import SGDClassifier


class Solver(BaseSolver):
    name = "SGDClassifier"
    sampling_strategy = "iteration"
    stopping_criterion = BY_ITERATIONS
    requirements = ["pip::scikit-learn"]

    def skip(self, loss, Y, bias, **other):
        fits = loss == "hinge" and Y.shape[1] == 1 and bias == 0
        return (False, None) if fits else (True, "takes the hinge loss of two classes without a bias here")

    def set_objective(self, X, Y, C, **other):
        self.X, self.y = X, Y[:, 0]
        self.settings = {"loss": "hinge", "alpha": 1.0 / (C * X.shape[0]), "tol": None, "fit_intercept": False}

    def get_next(self, epochs):
        return max(1, 2 * epochs)

    def run(self, epochs):
        self.coef = np.zeros(self.X.shape[1])
        if epochs:
            sgd = SGDClassifier(**self.settings, max_iter=epochs, random_state=0)
            self.coef = sgd.fit(self.X, self.y).coef_

    def get_result(self):
        return {"coef": self.coef}
