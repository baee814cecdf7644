"""scikit-learn's SGDClassifier in memory: alpha/2 ||w||^2 + mean hinge with alpha = 1/(C n) is P / (C n)."""

from benchmark_utils import ByIterations
from sklearn.linear_model import SGDClassifier


class Solver(ByIterations):
    name = "SGDClassifier"
    requirements = ["pip::scikit-learn"]

    def fitted(self, epochs):
        given = {"loss": "hinge", "alpha": 1.0 / (self.C * len(self.y)), "tol": None, "fit_intercept": False}
        return SGDClassifier(**given, max_iter=epochs, random_state=0).fit(self.X, self.y).coef_
