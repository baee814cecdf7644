"""Base of dual coordinate descent with several weight vectors: w (d + 1, width), k of whose columns are in
use, and alpha (l, k), side by side in memory (blocksvm/base/vectors.py), the rows' rests and shares as in ``DualCD``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.kernels.several_loops import add_rows_to_several
from blocksvm.problems.several_problems import norms_of
from blocksvm.solvers.dual_cd import CONJUGATE, DualCD, settings_of
from blocksvm.solvers.solver import SavedRun, State, Task
from blocksvm.sources.block import Block

NOTHING = np.empty((0, 0))  # in the place of a prior


class SideBySide(DualCD):
    """A solver derives from this: it states its problem, of ``n_problems`` vectors, and makes the passes over it.

    prior (d + 1, width) or (0, 0), from ``start`` on.
    """

    capabilities = replace(DualCD.capabilities, free_bias=False)
    prior: np.ndarray
    passes_like_decoding = False  # those of several problems take longer
    rests_by_vector = False  # a row rests for each vector by itself

    def __init__(self, task: Task):
        if task.free_bias:
            raise InputError(
                f"{option('bias=free')}: is for two classes or real targets; give the value of a constant feature"
            )
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

    def live(self, state: State) -> np.ndarray:
        """The vectors that are not at their end."""
        return np.arange(self.n_vectors)

    def warm_start(self, state: State, saved: SavedRun, blocks: Iterable[Block]) -> None:
        """The other run's a, scaled in each problem and class by the ratio of C, then into each row's own bounds."""
        if self.prior.size:
            raise InputError(f"{option('warm_start')}: not together with {option('prior')}; leave one of them out")
        alpha, cost = state["alpha"], self.problem.cost
        same = saved.lengths.get(self.name, {}).get("alpha") == alpha.size
        if not same or np.shape(saved.cost or ()) != cost.shape:
            raise InputError(
                f"{saved.name}: holds no dual variables of {self.n_vectors} classes; dual-cd starts from a model or "
                f"checkpoint of dual-cd on the same rows, with the same {option('multiclass')}"
            )
        saved.load(self.name, "alpha", alpha)
        self._sum_rows(state, blocks, cost / np.array(saved.cost))

    def rebuild(self, state: State, blocks: Iterable[Block]) -> None:
        """w_c = w0_c + sum a_i direction_i x_i from a alone, of the live vectors, in one reading of all rows."""
        self._sum_rows(state, blocks)
        if self.prior.size:
            live = self.live(state)
            state["w"][:, live] += self.prior[:, live]

    def _sum_rows(self, state: State, blocks: Iterable[Block], ratio: np.ndarray | None = None) -> None:
        w = state["w"]
        w[:, self.live(state)] = 0.0
        self.forget_conjugates(state)
        for block in blocks:
            alpha = state["alpha"][block.rows]
            coefficients = self.coefficients(block, state, alpha, ratio)
            if ratio is not None:
                state["alpha"][block.rows] = alpha
            add_rows_to_several(*block.matrix, coefficients, self.bias, w.reshape(-1), w.shape[1])

    def forget_conjugates(self, state: State) -> None:
        """Set the sums of the live vectors' conjugates to 0."""
        state["sums"][CONJUGATE] = 0.0

    def coefficients(self, block: Block, state: State, alpha: np.ndarray, ratio: np.ndarray | None) -> np.ndarray:
        """(n, k): by which the block's rows are added to w; the conjugates are added up.  alpha (n, k) of its rows is
        multiplied by ``ratio``, where that is given, and made feasible, in place."""
        raise NotImplementedError

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        return state["w"].T[: self.n_vectors]

    def norms(self, state: State) -> np.ndarray:
        """(k, 4), as ``sums_of_columns`` has them."""
        return norms_of(state["w"], self.n_vectors, self.prior)

    def distances_of(self, state: State) -> tuple[float, float]:
        norms = self.norms(state)
        return float(norms[:, 1].sum()), float(norms[:, 3].sum())
