"""Pegasos as a block solver: sub-batches of the block's rows, t running on, the average of the later iterates."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from blocksvm.errors import InputError, said
from blocksvm.kernels.margins import sum_of_squares
from blocksvm.kernels.pegasos import pegasos_pass, suffix_sum
from blocksvm.problems.problem import make_problem
from blocksvm.problems.settings import PROBLEM_SETTINGS
from blocksvm.settings import Setting
from blocksvm.solvers.protocol import (
    Capabilities,
    Method,
    PassResult,
    SavedRun,
    Solver,
    State,
    StateArray,
    Task,
    VisitArray,
)
from blocksvm.sources.block import Block

SETTINGS = PROBLEM_SETTINGS + (
    Setting("batch", "rows in a sub-batch", default=1, kind=int, least=1, metavar="N"),
)  # fmt: skip
SCALE, NORM, T, SCALE_SUM, STEPS, EARLIER_STEPS = range(6)  # entries of state["scalars"]


class Pegasos(Solver):
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
    needs_output = True
    n_vectors = 1
    capabilities = Capabilities(
        minimises=True, schedules=True, warm_starts=True, takes_weights=True, default_max_outer=100
    )

    def __init__(self, task: Task):
        self.settings = SETTINGS.resolve(task.settings, self.name)
        if self.settings["loss"] != "hinge":
            # the step is the hinge's subgradient, and no other loss has the optimum inside of the ball
            raise InputError(
                f"{said('loss', self.settings['loss'])}: pegasos minimises the hinge loss; dual-cd has more"
            )
        problem = self.problem = make_problem(self.settings, task.bias, task.source)
        self.bias = problem.bias
        self.prior = np.empty(0)
        batch = self.batch = self.settings["batch"]
        self.lam = 1.0 / problem.total_cost
        self.radius = math.sqrt(problem.total_cost)
        self.cost = problem.cost_by_sign() * (problem.n_samples / problem.total_cost)
        self.violating = np.empty(min(batch, problem.n_samples), np.int32)

    def start(self, state: State) -> None:
        state["scalars"][:] = (1.0, 0.0, 1.0, 0.0, 0.0, 0.0)

    def warm_start(self, state: State, saved: SavedRun, blocks: Iterable[Block]) -> None:
        """The other run's w; t runs on from the steps of another pegasos, or as after one pass over the rows."""
        scalars = np.zeros(6)
        own = saved.lengths.get(self.name, {})
        if "scalars" in own:
            saved.load(self.name, "scalars", scalars)
        if "v" in own:
            saved.load(self.name, "v", state["v"])
            state["v"] *= scalars[SCALE]
        elif "w" in saved.lengths.get("dual-cd", {}):
            saved.load("dual-cd", "w", state["v"])
        else:
            saved.load("", "weights", state["v"])
        state["scalars"][NORM] = sum_of_squares(state["v"])
        state["scalars"][T] = max(scalars[T], math.ceil(self.problem.n_samples / self.batch) + 1.0)

    def start_visit(self, visit: State, whole: bool = True) -> None:
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

    def estimates(self, state: State, loss_sum: float, seen: float | None = None) -> tuple[float, None, None]:
        """P of the iterates as they went by: the last one's norm, the losses as they were seen."""
        return 0.5 * state["scalars"][SCALE] ** 2 * sum_of_squares(state["v"]) + loss_sum, None, None


def is_renewal(outer: int) -> bool:
    """Whether the average is renewed after this outer iteration: 1, 2, 3, ..., each a quarter after the last."""
    renewal = 1
    while renewal < outer:
        renewal += max(1, renewal // 4)
    return renewal == outer


METHOD = Method(
    "pegasos",
    "primal subgradient steps on sub-batches; the average of the later iterates",
    SETTINGS,
    Pegasos.capabilities,
    Pegasos,
)
