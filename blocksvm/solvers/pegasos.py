"""Pegasos as a block solver: sub-batches of the block's rows, t running on, the average of the later iterates."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from blocksvm.errors import InputError, said
from blocksvm.kernels.margins import sum_of_squares
from blocksvm.kernels.pegasos import pegasos_pass, suffix_sum
from blocksvm.problems import get_loss
from blocksvm.problems.problem import Problem
from blocksvm.solvers.protocol import PassResult, State, StateArray, VisitArray
from blocksvm.sources.block import Block

SCALE, NORM, T, SCALE_SUM, STEPS, EARLIER_STEPS = range(6)  # entries of state["scalars"]


class Pegasos:
    """Shalev-Shwartz et al., Math. Prog. 2011, Fig. 2, with the projection on ||w|| <= sqrt(sum C_i) = 1/sqrt(lambda).

    The result is the suffix average (Rakhlin, Shamir, Sridharan, ICML 2012): of the iterates since the last renewal and
    of those between it and the one before, which of a long run are between its last fifth and its last third.  The
    steps 1 / (lambda t) of the first epochs are far too long (on a9a they lead to 40 times ||w*||), so that a longer
    average is dominated by what it should forget: there the last half to three quarters end 1.2 % above the optimum
    after 50 epochs and 0.41 % after 100, the last fifth to third 0.74 % and 0.24 %.
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
    default_max_outer = 100

    def __init__(self, problem: Problem, tolerance: float | None = None, batch: int = 1):
        if problem.loss is not get_loss("hinge"):
            # the step is the hinge's subgradient, and no other loss has the optimum inside of the ball
            raise InputError(f"{said('loss', problem.loss.name)}: pegasos minimises the hinge loss; use dual-cd for it")
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
        self.cost = problem.cost * (problem.n_samples / problem.total_cost)
        self.violating = np.empty(min(batch, problem.n_samples), np.int32)

    def start(self, state: State) -> None:
        state["scalars"][:] = (1.0, 0.0, 1.0, 0.0, 0.0, 0.0)

    def warm_start(self, state, saved: dict, lengths: dict, load, blocks: Iterable[Block], name: str) -> None:
        """The other run's w; t runs on from the steps of another pegasos, or as after one pass over the rows."""
        own = saved["settings"]["solver"] == self.name and lengths.get("scalars") == len(state["scalars"])
        if "w" in lengths:
            load("w", state["v"])
        elif own and "v" in lengths:
            load("v", state["v"])
        else:
            load("weights", state["v"])
        scalars = np.zeros(6)
        if own:
            load("scalars", scalars)
        if own and "v" in lengths:
            state["v"] *= scalars[SCALE]
        state["scalars"][NORM] = sum_of_squares(state["v"])
        state["scalars"][T] = max(scalars[T], math.ceil(self.problem.n_samples / self.batch) + 1.0)

    def start_visit(self, visit: State) -> None:
        visit["passes"][0] = 0

    def inner_pass(self, block: Block, state: State, visit: State, order: np.ndarray) -> PassResult:
        """Steps over the sub-batches of the block, consecutive in ``order``."""
        scalars = state["scalars"]
        loss, nnz, _ = pegasos_pass(
            *block.matrix, block.y, block.weights, order, self.batch, self.problem.bias, self.cost, self.lam,
            self.radius, state["v"], state["lagged"], scalars[:5], self.violating,
        )  # fmt: skip
        first = visit["passes"][0] == 0
        visit["passes"][0] += 1
        # a row's cost here is l C_i / sum C, so this is the sum of C_i * loss
        loss *= self.problem.total_cost / self.problem.n_samples
        return PassResult(len(order), nnz, loss if first else 0.0, False)

    def end_outer(self, state: State, outer: int) -> None:
        """At a renewal what was averaged since the last one becomes the earlier part; what came before is forgotten."""
        if not is_renewal(outer):
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


def is_renewal(outer: int) -> bool:
    """Whether the average is renewed after this outer iteration: 1, 2, 3, ..., each a quarter after the last."""
    renewal = 1
    while renewal < outer:
        renewal += max(1, renewal // 4)
    return renewal == outer
