"""LIBLINEAR's dual coordinate descent in memory, through liblinear-official.

Its time is the call of train alone, after the rows have become its own nodes of 16 bytes.  It ends at 300 iterations,
which is compiled in.  Of sets of labels it makes a run a label.  primal: its Newton's methods.
"""

import ctypes

import numpy as np
from benchmark_utils import ByTolerance
from liblinear.liblinearutil import parameter, problem, train

TYPES = {  # -s
    "hinge": 3, "squared-hinge": 1, "logistic": 7, "crammer-singer": 4,
    "epsilon-insensitive": 13, "squared-epsilon-insensitive": 12,
}  # fmt: skip
PRIMAL = {"squared-hinge": 2, "logistic": 0}


class Solver(ByTolerance):
    name = "liblinear"
    requirements = ["pip::liblinear-official"]
    parameters = {"primal": [False]}

    def skip(self, loss, bias, **other):
        fits = bias != "free" and loss in (PRIMAL if self.primal else TYPES)
        return (False, None) if fits else (True, "regularises its bias, and has primal solvers for smooth losses alone")

    def set_objective(self, X, Y, loss, C, bias, epsilon, multilabel, **other):
        self.bias, self.shape = bias, (Y.shape[1], X.shape[1])
        self.settings = f"-s {(PRIMAL if self.primal else TYPES)[loss]} -c {C!r} -p {epsilon!r} -B {bias or -1} -q"
        targets = Y.T if multilabel or Y.shape[1] == 1 else [Y.argmax(axis=1)]
        self.problems = [problem(y, X, bias or -1) for y in targets]

    def run(self, tolerance):
        ctypes.CDLL(None).srand(1)  # it permutes rows by rand()
        self.models = [train(rows, parameter(f"{self.settings} -e {min(tolerance, 1e9)!r}")) for rows in self.problems]

    def get_result(self):
        W = np.vstack([self.weights(model) for model in self.models])
        d = min(self.shape[1], self.models[0].nr_feature)
        coef = np.zeros(self.shape)
        coef[:, :d] = W[:, :d]
        return {"coef": coef, "intercept": W[:, -1] * self.bias if self.bias else None}

    def weights(self, model):
        """(1 or k, features and perhaps the constant one), in the order of the classes."""
        k = model.nr_class if len(self.problems) == 1 and self.shape[0] > 1 else 1
        width = model.nr_feature + (self.bias > 0)
        W = np.ctypeslib.as_array(model.w, (width * k,)).copy().reshape(width, k).T
        if k > 1:
            return W[np.argsort([model.label[c] for c in range(k)])]
        return -W if model.label and model.label[0] == -1 else W
