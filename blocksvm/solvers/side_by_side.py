"""What dual coordinate descent with several weight vectors has in common: w (d + 1, width), k of whose columns are in
use, and alpha (l, k), side by side in memory (blocksvm/vectors.py), the rows' rests and shares as in ``DualCD``.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from blocksvm.errors import InputError, called
from blocksvm.problems.several import norms_of
from blocksvm.solvers.dual_cd import DualCD, settings_of
from blocksvm.solvers.protocol import SavedRun, State, Task

NOTHING = np.empty((0, 0))  # in the place of a prior


class SideBySide(DualCD):
    """A solver derives from this: it states its problem, of ``n_problems`` vectors, and makes the passes over it.

    prior (d + 1, width) or (0, 0), from ``start`` on.
    """

    capabilities = replace(DualCD.capabilities, free_bias=False, merges=False)
    prior: np.ndarray
    rests_by_vector = False  # a row rests for each vector by itself

    def __init__(self, task: Task):
        if task.free_bias:
            raise InputError(f"{called('bias=free')}: is for two classes; give the value of a constant feature instead")
        self.settings = settings_of(task.settings).resolve(task.settings, self.name)
        self.problem = self.stated(task)
        self.bias, self.real_targets = self.problem.bias, self.problem.real
        self.n_vectors = self.problem.n_problems
        self.prior = NOTHING
        self.declare(task, self.n_vectors if self.rests_by_vector else 1)

    def stated(self, task: Task):
        """The problem of a task."""
        raise NotImplementedError

    def start(self, state: State) -> None:
        """a = 0 is a feasible start, with w = 0 or the prior model's weights, which are laid side by side."""
        if self.prior.size:
            prior = self.prior.reshape(self.n_vectors, -1)
            self.prior = np.zeros_like(state["w"])
            self.prior[:, : self.n_vectors] = prior.T
            state["w"][:] = self.prior

    def load_alpha(self, state: State, saved: SavedRun) -> np.ndarray:
        """Another run's alpha into the state; returns its costs.  InputError where it is of another kind."""
        if self.prior.size:
            raise InputError(f"{called('warm_start')}: not together with {called('prior')}; leave one of them out")
        alpha, cost = state["alpha"], self.problem.cost
        same = saved.lengths.get(self.name, {}).get("alpha") == alpha.size
        if not same or np.shape(saved.meta["cost"]) != cost.shape:
            raise InputError(
                f"{saved.name}: holds no dual variables of {self.n_vectors} classes; dual-cd starts from a model or "
                f"checkpoint of dual-cd on the same rows, with the same {called('multiclass')}"
            )
        saved.load(self.name, "alpha", alpha)
        return np.array(saved.meta["cost"])

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        return state["w"].T[: self.n_vectors]

    def norms(self, state: State) -> np.ndarray:
        """(k, 4), as ``sums_of_columns`` has them."""
        return norms_of(state["w"], self.n_vectors, self.prior)

    def distances_of(self, state: State) -> tuple[float, float]:
        norms = self.norms(state)
        return float(norms[:, 1].sum()), float(norms[:, 3].sum())
