"""blocksvm's command ``train``, from a store on disk within a budget of memory, to a certified relative gap.

The budget ``memory`` is a share of the rows as they are decoded beside the vectors of the model (1/8, 1/32, all), or a
size (64MB).  benchopt's time is that of the whole command; ``seconds`` that from the opening of the store to the last
certificate.  The store is made before, by ``split``.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from benchmark_utils import BY_TOLERANCE, next_tolerance
from benchopt import BaseSolver

import blocksvm
from experiments.runs import drop_from_cache, readings, split, train


def budget(X, k, share):
    """Bytes: 8 a nonzero for the rows (24 with ``all``) by the share, and what w, alpha and tables take."""
    n, d = X.shape[0], len(np.unique(X.indices))
    width = 1 if k == 1 else 4 if k <= 4 else 8 * -(-k // 8)
    vectors = 16 * d + 20 * n if k == 1 else 8 * width * d + (5 + 19 * k) * n
    if share == "all":
        return 32 * X.nnz + 4 * vectors + (40 + 24 * k) * n + 20_000_000
    return 8 * X.nnz // int(share.removeprefix("1/")) + vectors + 5_000_000


class Solver(BaseSolver):
    name = "blocksvm"
    sampling_strategy = "tolerance"
    stopping_criterion = BY_TOLERANCE
    requirements = ["pip::blocksvm"]
    parameters = {"memory": ["1/8"], "solver": ["dual-cd"], "working_set": ["auto"], "cold": [False]}

    def set_objective(self, text, X, Y, loss, C, bias, epsilon, classes, multilabel):
        self.folder, self.shape = TemporaryDirectory(), (Y.shape[1], X.shape[1])
        self.store, self.model = (Path(self.folder.name, name) for name in ("store.h5", "model.h5"))
        split(text, self.store, *(["--format", "multilabel"] if multilabel else []))
        memory = self.memory
        if memory[-1] != "B":
            hessians = 20 * 8 * X.shape[1] ** 2 if self.solver == "newton" else 0
            memory = f"{budget(X, Y.shape[1], memory) + hessians}B"
        self.given = ["--memory", memory, "-C", C, "--bias", bias, "--solver", self.solver]
        self.given += ["--working-set", self.working_set] if self.solver == "dual-cd" else []
        if loss == "crammer-singer":
            self.given += ["--multiclass", loss]
        else:
            self.given += ["--loss", loss, *(["--epsilon", epsilon] if loss.endswith("insensitive") else [])]

    def warm_up(self):
        self.run_once(1.0)  # compiles kernels

    def get_next(self, tolerance):
        return 1e-2 if tolerance > 1.0 else next_tolerance(tolerance)

    def pre_run_hook(self, tolerance):
        if self.cold:
            drop_from_cache(self.store)

    def run(self, tolerance):
        self.events, self.ran = train(self.store, self.model, *self.given, "--tol", min(tolerance, 1.0))

    def get_result(self):
        model, coef, end = blocksvm.load_model(self.model), np.zeros(self.shape), self.events[-1]
        known = model.feature_ids < self.shape[1]
        coef[:, model.feature_ids[known]] = np.atleast_2d(model.weights)[:, known]
        return {"coef": coef, "intercept": np.broadcast_to(model.intercept, self.shape[0]), "dual": end["dual"],
                "seconds": end["seconds"], "readings": readings(self.events),
                "memory_mb": self.ran.peak_mb}  # fmt: skip
