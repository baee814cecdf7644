"""blocksvm's estimator LinearSVC, in memory on the matrix that its peers have."""

from benchmark_utils import BY_TOLERANCE, next_tolerance
from benchopt import BaseSolver

from blocksvm.estimators import LinearSVC


class Solver(BaseSolver):
    name = "blocksvm-estimator"
    sampling_strategy = "tolerance"
    stopping_criterion = BY_TOLERANCE
    requirements = ["pip::blocksvm", "pip::scikit-learn"]

    def skip(self, loss, Y, bias, **other):
        fits = loss in ("hinge", "squared-hinge") and Y.shape[1] == 1 and bias != "free"
        return (False, None) if fits else (True, "takes hinge losses of two classes and a regularised bias here")

    def set_objective(self, X, Y, loss, C, bias, **other):
        self.X, self.y, self.bias = X, Y[:, 0], bias
        self.settings = {"loss": loss.replace("-", "_"), "C": C, "fit_intercept": bias > 0}
        self.settings |= {"intercept_scaling": float(bias)} if bias > 0 else {}

    def warm_up(self):
        self.run_once(1e-6)  # compiles what is used below 1e-4, too

    def get_next(self, tolerance):
        return next_tolerance(tolerance)

    def run(self, tolerance):
        self.svm = LinearSVC(**self.settings, tol=min(tolerance, 1.0)).fit(self.X, self.y)

    def get_result(self):
        dual = self.svm.objective_ - self.svm.dual_gap_
        return {"coef": self.svm.coef_, "intercept": self.svm.intercept_, "dual": dual}
