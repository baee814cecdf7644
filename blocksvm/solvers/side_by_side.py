"""What dual coordinate descent with several weight vectors has in common: w (d + 1, k) and alpha (l, k), side by side
in memory, and the rows' rests and shares as ``DualCD`` keeps them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from blocksvm.errors import InputError, called
from blocksvm.kernels.several import sums_of_columns
from blocksvm.solvers.dual_cd import REST_VISITS, RESTING, DualCD, settings_of
from blocksvm.solvers.protocol import SHARE, SavedRun, State, StateArray, Task, VisitArray

NOTHING = np.empty((0, 0))  # in the place of a prior


class SideBySide(DualCD):
    """A solver derives from this: it states its problem, of ``n_problems`` vectors, and makes the passes over it.

    prior (d + 1, k) or (0, 0), from ``start`` on.
    """

    capabilities = replace(DualCD.capabilities, free_bias=False, screens=False)

    def __init__(self, task: Task):
        if task.free_bias:
            raise InputError(f"{called('bias=free')}: is for two classes; give the value of a constant feature instead")
        self.settings = settings_of(task.settings).resolve(task.settings, self.name)
        self.problem = self.stated(task)
        self.bias = self.problem.bias
        self.n_vectors = k = self.problem.n_problems
        self.tolerance = task.tolerance
        self.prior = NOTHING
        self.with_set = task.working_set
        self.state_arrays = (
            StateArray("w", "feature", columns=k, in_model=False),
            StateArray("alpha", "row", columns=k),
            StateArray("rest", "row", dtype=np.uint8, in_model=False),
            StateArray("sums", "scalar", RESTING + REST_VISITS + 1),
        )
        self.visit_arrays = (VisitArray("active", np.uint8), VisitArray("range", length=4))
        if self.with_set:
            self.state_arrays += (StateArray("pauses", "row", dtype=np.uint8, in_model=False),)
            self.visit_arrays = (VisitArray("active", np.uint8), VisitArray("range", length=5), VisitArray(SHARE))

    def stated(self, task: Task):
        """The problem of a task."""
        raise NotImplementedError

    def start(self, state: State) -> None:
        """a = 0 is a feasible start, with w = 0 or the prior model's weights, which are laid side by side."""
        if self.prior.size:
            self.prior = np.ascontiguousarray(self.prior.reshape(self.n_vectors, -1).T)
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
        return state["w"].T

    def norms(self, state: State) -> np.ndarray:
        """(k, 4), as ``sums_of_columns`` has them."""
        found = np.empty((self.n_vectors, 4))
        sums_of_columns(state["w"], self.prior, found)
        return found

    def distances_of(self, state: State) -> tuple[float, float]:
        norms = self.norms(state)
        return float(norms[:, 1].sum()), float(norms[:, 3].sum())
