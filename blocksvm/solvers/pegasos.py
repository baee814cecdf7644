"""Pegasos as a block solver: sub-batches of the block's rows, t running on, the average of the later iterates."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from blocksvm.errors import InputError
from blocksvm.kernels.margins import sum_of_squares
from blocksvm.kernels.pegasos import pegasos_pass, suffix_sum
from blocksvm.problems.problem import Problem
from blocksvm.solvers.protocol import PassResult, State, StateArray, VisitArray
from blocksvm.sources.block import Block

SCALE, NORM, T, SCALE_SUM, STEPS, EARLIER_STEPS = range(6)  # entries of state["scalars"]


class Pegasos:
    """Shalev-Shwartz et al., Math. Prog. 2011, Fig. 2, with the projection on ||w|| <= sqrt(sum C_i) = 1/sqrt(lambda).

    The result is the suffix average: of the iterates since outer iteration 2^p, and of those of the half before it,
    so that it always covers between the last half and three quarters of the run.
    """

    name = "pegasos"
    state_arrays = (
        StateArray("v", "feature", in_model=False),
        StateArray("lagged", "feature", in_model=False),
        StateArray("earlier", "feature", in_model=False),
        StateArray("scalars", "scalar", 6),
    )
    visit_arrays = (VisitArray("passes", length=1),)
    has_dual = False
    needs_weights_buffer = True
    online = False
    copies = 1
    default_max_outer = 50

    def __init__(self, problem: Problem, tolerance: float | None = None, batch: int = 1):
        if problem.loss.power != 1:
            raise InputError("pegasos minimises the hinge loss; use --solver dual-cd for --loss " + problem.loss.name)
        if tolerance is not None:
            raise InputError(
                "--schedule tol: needs projected gradients, which pegasos has not; give a number of passes"
            )
        if batch < 1:
            raise InputError("--batch must be 1 or more")
        self.problem = problem
        self.prior = np.empty(0)
        self.batch = batch
        self.lam = 1.0 / problem.total_cost
        self.radius = math.sqrt(problem.total_cost)
        self.weight = problem.cost * (problem.n_samples / problem.total_cost)
        self.violating = np.empty(min(batch, problem.n_samples), np.int32)

    def start(self, state: State) -> None:
        state["scalars"][:] = (1.0, 0.0, 1.0, 0.0, 0.0, 0.0)

    def warm_start(self, state, saved: dict, lengths: dict, load, blocks: Iterable[Block], name: str) -> None:
        """The other run's w; t runs on from its steps, or as after one pass over the rows."""
        if "w" in lengths:
            load("w", state["v"])
        elif "v" in lengths:
            load("v", state["v"])
        else:
            load("weights", state["v"])
        scalars = np.zeros(6)
        if "scalars" in lengths:
            load("scalars", scalars)
        if "v" in lengths:
            state["v"] *= scalars[SCALE]
        state["scalars"][NORM] = sum_of_squares(state["v"])
        state["scalars"][T] = max(scalars[T], math.ceil(self.problem.n_samples / self.batch) + 1.0)

    def start_visit(self, visit: State) -> None:
        visit["passes"][0] = 0

    def inner_pass(self, block: Block, state: State, visit: State, order: np.ndarray) -> PassResult:
        """Steps over the sub-batches of the block, consecutive in ``order``."""
        scalars = state["scalars"]
        loss, nnz, _ = pegasos_pass(
            *block.matrix, block.y, order, self.batch, self.problem.bias, self.weight, self.lam, self.radius,
            state["v"], state["lagged"], scalars[:5], self.violating,
        )  # fmt: skip
        first = visit["passes"][0] == 0
        visit["passes"][0] += 1
        # weight_i = l C_i / sum C, so this is the sum of C_i * loss
        loss *= self.problem.total_cost / self.problem.n_samples
        return PassResult(len(order), nnz, loss if first else 0.0, False)

    def end_outer(self, state: State, outer: int) -> None:
        """At outer iterations 1, 2, 4, 8, ... what was averaged since the last of them becomes the earlier half."""
        if outer & (outer - 1):
            return
        scalars = state["scalars"]
        state["earlier"][:] = 0.0
        suffix_sum(state["v"], state["lagged"], scalars[SCALE_SUM], state["earlier"])
        scalars[EARLIER_STEPS] = scalars[STEPS]
        state["lagged"][:] = 0.0
        scalars[SCALE_SUM] = 0.0
        scalars[STEPS] = 0.0

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        """The suffix average, in ``out``."""
        scalars = state["scalars"]
        out[:] = state["earlier"]
        suffix_sum(state["v"], state["lagged"], scalars[SCALE_SUM], out)
        out /= max(1.0, scalars[STEPS] + scalars[EARLIER_STEPS])
        return out

    def estimated_primal(self, state: State, loss_sum: float) -> float:
        """P of the iterates as they went by: the last one's norm, the losses as they were seen."""
        return 0.5 * state["scalars"][SCALE] ** 2 * sum_of_squares(state["v"]) + loss_sum

    def estimated_dual(self, state: State) -> None:
        return None
