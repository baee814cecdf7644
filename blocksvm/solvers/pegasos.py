"""Pegasos as a block solver: steps over sub-batches of a block's rows; the average of later iterates, or the last."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from blocksvm.base.errors import option
from blocksvm.base.memory import Budget
from blocksvm.base.settings import Setting, Settings
from blocksvm.kernels.columns import sum_of_squares
from blocksvm.losses import require
from blocksvm.problems.certificate import NOTHING as NO_PRIOR
from blocksvm.problems.problem import Problem, make_problem, problem_settings
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS
from blocksvm.solvers.pegasos_kernels import pegasos_pass, suffix_sum
from blocksvm.solvers.solver import Capabilities, Method, PassResult, SavedRun, Solver, State, StateArray, Task, Visit
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source

LAST = "last"
PEGASOS_SETTINGS = Settings((
    Setting("batch", "rows of a sub-batch", default=1, kind=int, least=1, metavar="N"),
    Setting("dual", "keep dual variables, which certify the result; w is then not projected, and each row takes 32 "
            "bytes more", default=False, kind=bool),
    Setting("iterate", "the result: the average of the later iterates, or the last one", default="average", kind=str,
            choices=("average", LAST)),
))  # fmt: skip
SCALE, NORM, T, SCALE_SUM, STEPS, PREVIOUS_STEPS = range(6)  # entries of state["scalars"]
# the averaged array, the correction of its lazy sum, and the sum between the last two renewals
OF_WEIGHTS, OF_ROWS = ("v", "lagged", "earlier"), ("b", "b_lagged", "b_earlier")
NOTHING = np.empty(0)


class Pegasos(Solver):
    """Shalev-Shwartz et al., Math. Prog. 2011, Fig. 2, with a projection on a ball that holds the optimum: of the hinge
    loss ||w|| <= sqrt(sum C_i) = 1/sqrt(lambda), of other losses of two classes that of P(w) <= P(0).

    The result is the suffix average (Rakhlin, Shamir, Sridharan, ICML 2012): of the iterates since the last renewal and
    of those between it and the one before, which of a long run are between its last fifth and its last third.  The
    steps 1 / (lambda t) of the first epochs are far too long (on a9a they lead to 40 times ||w*||): there the last half
    to three quarters end 1.2 % above the optimum after 50 epochs and 0.41 % after 100, the last fifth to third 0.74 %
    and 0.24 %.
    """

    name = "pegasos"
    packed = True
    needs_output = True
    n_vectors = 1
    capabilities = Capabilities(
        minimises=True, schedules=True, warm_starts=True, takes_weights=True, default_max_outer=100
    )

    def __init__(self, task: Task):
        self.settings = settings_of(task.settings).resolve(task.settings, self.name)
        problem = self.problem = make_problem(self.settings, task.bias, task.source)
        self.dual = self.settings["dual"]
        self.last = self.settings["iterate"] == LAST
        if self.dual:
            require(self.settings["loss"], "conjugate", option("dual"))
            self.capabilities, self.clips_alpha = replace(self.capabilities, certifies=True), True
        self.bias, self.real_targets = problem.bias, problem.real
        self.prior = NO_PRIOR
        self.batch = self.settings["batch"]
        self.lam = 1.0 / problem.total_cost
        self.radius = math.inf if self.dual else radius_of(problem)
        self.objective = problem.objective._replace(costs=problem.cost * (problem.n_samples / problem.total_cost))
        self.state_arrays: tuple[StateArray, ...] = (
            *(StateArray(name, "feature", in_model=False) for name in OF_WEIGHTS), StateArray("scalars", "scalar", 6)
        )  # fmt: skip
        if self.dual:
            more = (StateArray(name, "row", in_model=False) for name in OF_ROWS)
            # filled: the step at which alpha was made
            self.state_arrays += (StateArray("alpha", "row"), StateArray("filled", "scalar", 1, in_model=False), *more)

    def plan_memory(self, budget: Budget, source: Source, saved: Mapping | None = None) -> None:
        if self.dual:
            budget.take("weights of the dual variables", 8 * (source.n_features + 1))  # at each certificate

    def start(self, state: State) -> None:
        state["scalars"][:] = (1.0, 0.0, 1.0, 0.0, 0.0, 0.0)

    def warm_start(self, state: State, saved: SavedRun, blocks: Iterable[Block]) -> None:
        """The other run's w; t runs on from the steps of another pegasos, or as after one pass over the rows."""
        scalars = np.zeros(6)
        lengths = saved.lengths.get(self.name, {})
        if "scalars" in lengths:
            saved.load(self.name, "scalars", scalars)
        if "v" in lengths:
            saved.load(self.name, "v", state["v"])
            state["v"] *= scalars[SCALE]
        elif "w" in saved.lengths.get("dual-cd", {}):
            saved.load("dual-cd", "w", state["v"])
        else:
            saved.load("", "weights", state["v"])
        state["scalars"][NORM] = sum_of_squares(state["v"])
        state["scalars"][T] = max(scalars[T], math.ceil(self.problem.n_samples / self.batch) + 1.0)

    def inner_pass(self, block: Block, state: State, visit: Visit, order: np.ndarray) -> PassResult:
        """Steps over the sub-batches of the block, consecutive in ``order``."""
        scalars = state["scalars"]
        loss, nnz = pegasos_pass(
            block, self.problem.reals(block), order, self.batch, self.objective,
            self.problem.loss.curvature, self.lam, self.radius, state["v"], state["lagged"], state.get("b", NOTHING),
            state.get("b_lagged", NOTHING), scalars[:5],
        )  # fmt: skip
        # a row's cost here is l C_i / sum C, so this is the sum of C_i * loss
        loss *= self.problem.total_cost / self.problem.n_samples
        return PassResult(len(order), nnz, loss if visit.passes == 0 else 0.0, False)

    def end_outer(self, state: State, outer: int) -> None:
        """At a renewal the sum since the last one replaces the sum before that."""
        if not is_renewal(outer):
            return
        scalars = state["scalars"]
        for of, lagged, before in (OF_WEIGHTS, OF_ROWS)[: 1 + self.dual]:
            state[before][:] = 0.0
            suffix_sum(state[of], state[lagged], scalars[SCALE_SUM], state[before])
            state[lagged][:] = 0.0
        scalars[PREVIOUS_STEPS] = scalars[STEPS]
        scalars[SCALE_SUM] = scalars[STEPS] = 0.0

    def result(self, state: State, names: tuple[str, str, str], out: np.ndarray) -> np.ndarray:
        """Write the suffix average of the weights, or of the rows' dual steps, to ``out``; or the last of them."""
        scalars, (of, lagged, before) = state["scalars"], names
        if self.last:
            return np.multiply(state[of], scalars[SCALE], out=out)
        out[:] = state[before]
        suffix_sum(state[of], state[lagged], scalars[SCALE_SUM], out)
        out /= max(1.0, scalars[STEPS] + scalars[PREVIOUS_STEPS])
        return out

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        assert out is not None
        return self.result(state, OF_WEIGHTS, out)

    def dual_variables(self, state: State) -> np.ndarray | None:
        """They may lie beyond a row's bounds, if rows are visited more often than others; a certificate clips them."""
        if not self.dual:
            return None
        step = state["scalars"][T]
        if state["filled"][0] != step:
            state["filled"][0] = step
            self.result(state, OF_ROWS, state["alpha"])
        return state["alpha"]

    def estimates(self, state: State, loss_sum: float, seen: float | None = None) -> tuple[float, None, None]:
        """By the norm of the last iterate, and each row's loss at its visit."""
        return 0.5 * state["scalars"][SCALE] ** 2 * sum_of_squares(state["v"]) + loss_sum, None, None


def settings_of(values: Mapping) -> Settings:
    return problem_settings(values) + PEGASOS_SETTINGS


def radius_of(problem: Problem) -> float:
    """The radius of a ball that contains the optimum; inf where none is known, as for real targets."""
    loss = problem.loss
    if loss.ball is not None:
        return math.sqrt(loss.ball * problem.total_cost)
    if problem.real:
        return math.inf
    return math.sqrt(2.0 * problem.total_cost * max(problem.function.value(0.0, y, 1.0) for y in (-1.0, 1.0)))


def is_renewal(outer: int) -> bool:
    """Whether the average is renewed after this outer iteration: 1, 2, 3, ..., each a quarter after the last."""
    renewal = 1
    while renewal < outer:
        renewal += max(1, renewal // 4)
    return renewal == outer


METHOD = Method(
    "pegasos", "primal subgradient steps on sub-batches; the average of the later iterates",
    PROBLEM_SETTINGS + PEGASOS_SETTINGS, Pegasos.capabilities, Pegasos, ("loss",), settings_of,
)  # fmt: skip
