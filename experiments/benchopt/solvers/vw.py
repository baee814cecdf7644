"""Vowpal Wabbit from text on disk, through its Python package; its time is parsing and learning.

There are enough bits for every id to have its own weight.  It shrinks w by l2 only on rows with a loss, so that its
limit is not quite the optimum.  Its memory is what it takes beside Python and the rows, which it does not need.
``update`` default: adaptive, normalized, invariant.
"""

import numpy as np
from benchmark_utils import BY_ITERATIONS, forget_peak, peak_mb, scratch_folder
from benchopt import BaseSolver
from vowpalwabbit import Workspace


class Solver(BaseSolver):
    name = "vowpal-wabbit"
    sampling_strategy = "iteration"
    stopping_criterion = BY_ITERATIONS
    requirements = ["pip::vowpalwabbit"]
    parameters = {"update": ["default", "sgd"]}

    def skip(self, loss, Y, bias, **other):
        fits = loss == "hinge" and Y.shape[1] == 1 and bias == 0
        return (False, None) if fits else (True, "takes the hinge loss of two classes without a bias here")

    def set_objective(self, X, Y, C, **other):
        self.folder, self.n_features = scratch_folder(), X.shape[1]
        text = self.folder / "rows.vw"
        with open(text, "w") as out:
            for i, y in enumerate(Y[:, 0]):
                part = slice(X.indptr[i], X.indptr[i + 1])
                pairs = (f"{j}:{v!r}" for j, v in zip(X.indices[part].tolist(), X.data[part].tolist(), strict=True))
                out.write(f"{y:g} | {' '.join(pairs)}\n")
        bits = max(18, (self.n_features - 1).bit_length())
        settings = f"--loss_function hinge --noconstant --holdout_off --quiet -b {bits} --l2 {1.0 / (C * len(Y))!r}"
        self.settings = [*settings.split(), *(["--sgd"] if self.update == "sgd" else []), "-d", str(text)]
        self.before_mb = forget_peak()

    def get_next(self, passes):
        return max(1, 2 * passes)

    def run(self, passes):
        self.coef = np.zeros(self.n_features)
        if passes:
            cache = ["--cache_file", str(self.folder / f"{passes}.cache")] if passes > 1 else []
            self.workspace = Workspace(arg_list=[*self.settings, "--passes", str(passes), *cache])
        else:
            self.workspace = None

    def get_result(self):
        if self.workspace is not None:
            weights = (self.workspace.get_weight(j) for j in range(self.n_features))
            w = np.fromiter(weights, np.float64, self.n_features)
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
