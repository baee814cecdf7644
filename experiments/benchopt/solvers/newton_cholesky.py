"""scikit-learn's LogisticRegression by Newton's method, with dense rows in memory."""

from benchmark_utils import ByTolerance
from sklearn.linear_model import LogisticRegression


class Solver(ByTolerance):
    name = "newton-cholesky"
    requirements = ["pip::scikit-learn"]

    def skip(self, loss, Y, bias, **other):
        fits = loss == "logistic" and Y.shape[1] == 1 and bias == 0
        return (False, None) if fits else (True, "takes the logistic loss of two classes without a bias here")

    def set_objective(self, X, Y, C, **other):
        self.rows, self.C = (X.toarray(), Y[:, 0]), C

    def run(self, tolerance):
        given = {"C": self.C, "tol": min(tolerance, 1e9), "fit_intercept": False}
        self.coef = LogisticRegression(solver="newton-cholesky", **given).fit(*self.rows).coef_

    def get_result(self):
        return {"coef": self.coef}
