"""The objective of all solvers: P(W) = 1/2 ||W||^2 + C sum_i loss(y_i, W x_i + b), in float64 with numpy and scipy.

Two classes and targets of a regression have one row of W; more classes, or sets of labels, one row a class, whose
losses are added up (``crammer-singer``: one loss a row).  Nothing of any solver that is measured is imported.
"""

from functools import lru_cache

import numpy as np
from benchmark_utils import forget_peak, peak_mb
from benchopt import BaseObjective
from sklearn.datasets import load_svmlight_file
from sklearn.metrics import f1_score

LOSSES = {
    "hinge": lambda y, z, e: np.maximum(0.0, 1.0 - y * z),
    "squared-hinge": lambda y, z, e: np.maximum(0.0, 1.0 - y * z) ** 2,
    "logistic": lambda y, z, e: np.logaddexp(0.0, -y * z),
    "epsilon-insensitive": lambda y, z, e: np.maximum(0.0, np.abs(y - z) - e),
    "squared-epsilon-insensitive": lambda y, z, e: np.maximum(0.0, np.abs(y - z) - e) ** 2,
    "crammer-singer": lambda y, z, e: (z + (y < 0)).max(axis=1) - z[y > 0],
}


@lru_cache(4)  # benchopt asks for them again for each repetition of each solver
def read(text, n_features=None, multilabel=False):
    """(X CSR float64 with int32 indices, labels) of svmlight text; column j is the feature of id j."""
    X, labels = load_svmlight_file(text, n_features=n_features, zero_based=True, multilabel=multilabel)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, labels


def targets(labels, classes, multilabel, regression):
    """Y (n, k) float64: +-1 for two classes (the larger is 1), for each of more, for each label; or the target."""
    if regression:
        return labels[:, None]
    if multilabel:
        return np.where([np.isin(classes, row) for row in labels], 1.0, -1.0)
    return np.where(labels[:, None] == (classes[1:] if len(classes) == 2 else classes), 1.0, -1.0)


class Objective(BaseObjective):
    name = "linear"
    min_benchopt_version = "1.6"
    requirements = ["pip::scikit-learn"]
    before_mb = np.nan  # until a solver gets the objective
    # bias: 0 (none), the value of a constant feature whose weight is regularised, or "free"
    parameters = {"loss": ["hinge"], "C": [1.0], "bias": [0], "epsilon": [0.5]}

    def skip(self, text, **other):
        return (True, "has no text: -d 'svmlight[text=FILE.svm]'") if text is None else (False, None)

    def set_data(self, text, test, multilabel):
        self.text, self.multilabel = text, multilabel
        self.regression = self.loss.endswith("epsilon-insensitive")
        self.X, labels = read(text, multilabel=multilabel)
        self.classes = np.unique(np.concatenate(labels) if multilabel else labels)
        if not self.regression and len(self.classes) < 2:
            raise ValueError(f"{text}: needs two different labels")
        self.Y = targets(labels, self.classes, multilabel, self.regression)
        self.rows = {"train": (self.X, self.Y)}
        if test is not None:
            X, labels = read(test, self.X.shape[1], multilabel)
            self.rows["test"] = X, targets(labels, self.classes, multilabel, self.regression)

    def get_objective(self):
        X = self.X  # a solver begins, and solvers follow each other in one process
        self.before_mb = forget_peak() - (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 1e6
        names = ("text", "X", "Y", "loss", "C", "bias", "epsilon", "classes", "multilabel")
        return {name: getattr(self, name) for name in names}

    def evaluate_result(self, coef, intercept=None, dual=None, seconds=None, readings=None, memory_mb=None):
        """coef (k, d) and intercept (k,); what only some solvers report is None elsewhere.

        ``seconds``: the solver's own clock where benchopt's includes the start of a process; ``dual``: its certified
        lower bound of P; ``memory_mb``: the peak of a process of its own, where a solver has one.  Of a solver that
        trains in this process it is what it adds to the process, with the rows in CSR.
        """
        memory_mb = peak_mb() - self.before_mb if memory_mb is None else memory_mb
        coef = np.atleast_2d(np.asarray(coef, np.float64))
        b = np.zeros(len(coef)) if intercept is None else np.asarray(intercept, np.float64)
        regularised = b / float(self.bias) if self.bias not in (0, "free") else 0.0 * b
        loss = float(LOSSES[self.loss](self.Y, self.X @ coef.T + b, self.epsilon).sum())
        value = 0.5 * float((coef**2).sum() + (regularised**2).sum()) + self.C * loss
        figures = {"dual": dual, "seconds": seconds, "readings": readings, "peak_mb": memory_mb}
        figures = {name: np.nan if figure is None else float(figure) for name, figure in figures.items()}
        for rows, (X, Y) in self.rows.items():
            figures |= self.scores(Y, X @ coef.T + b, rows)
        forget_peak()  # of what was taken here
        return {"value": value} | figures

    def scores(self, Y, Z, rows):
        """RMSE of a regression; accuracy (of sets: the whole set is right), and macro F1 of more than two classes."""
        if self.regression:
            return {f"{rows}_rmse": float(np.sqrt(((Y - Z) ** 2).mean()))}
        if Y.shape[1] == 1 or self.multilabel:
            predicted = Z > 0.0
        else:
            predicted = np.arange(Z.shape[1]) == Z.argmax(axis=1)[:, None]
        scores = {f"{rows}_accuracy": float((predicted == (Y > 0.0)).all(axis=1).mean())}
        if Y.shape[1] > 1:
            scores[f"{rows}_f1_macro"] = f1_score(Y > 0.0, predicted, average="macro", zero_division=0.0)
        return scores

    def get_one_result(self):
        return {"coef": np.zeros((self.Y.shape[1], self.X.shape[1]))}
