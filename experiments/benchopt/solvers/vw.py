"""Vowpal Wabbit from text on disk, through its Python package; its time is parsing and learning.

There are enough bits for every id to have its own weight.  It shrinks w by l2 only on rows with a loss, so that its
limit is not quite the optimum.  Its memory is what it takes beside Python and the rows, which it does not need.
``update`` default: adaptive, normalized, invariant.
"""

from tempfile import TemporaryDirectory

import numpy as np
from benchmark_utils import ByIterations, forget_peak, peak_mb
from vowpalwabbit import Workspace

from experiments.learners import write_vw


class Solver(ByIterations):
    name = "vowpal-wabbit"
    requirements = ["pip::vowpalwabbit"]
    parameters = {"update": ["default", "sgd"]}

    def set_objective(self, text, X, Y, C, **other):
        super().set_objective(X, Y, C)
        self.folder = TemporaryDirectory()
        rows = f"{self.folder.name}/rows.vw"
        write_vw(text, rows)
        bits = max(18, (X.shape[1] - 1).bit_length())
        settings = f"--loss_function hinge --noconstant --holdout_off --quiet -b {bits} --l2 {1.0 / (C * len(Y))!r}"
        self.settings = [*settings.split(), *(["--sgd"] if self.update == "sgd" else []), "-d", rows]
        self.before_mb = forget_peak()

    def fitted(self, passes):
        cache = ["--cache_file", f"{self.folder.name}/{passes}.cache"] if passes > 1 else []
        self.workspace = Workspace(arg_list=[*self.settings, "--passes", str(passes), *cache])

    def get_result(self):
        if self.coef is None:  # weights are asked for outside of the time
            weights = (self.workspace.get_weight(j) for j in range(self.X.shape[1]))
            w = np.fromiter(weights, np.float64, self.X.shape[1])
            self.coef = w * self.contraction(w)
            self.workspace.finish()
        return {"coef": self.coef, "memory_mb": peak_mb() - self.before_mb}

    def contraction(self, w):
        """The factor that l2 has brought to all weights, which get_weight leaves out: by one prediction within +-1."""
        largest = int(np.abs(w).argmax())
        if w[largest] == 0.0:
            return 1.0
        value = 0.5 / abs(float(w[largest]))
        return float(self.workspace.predict(f"| {largest}:{value!r}")) / (float(w[largest]) * value)
