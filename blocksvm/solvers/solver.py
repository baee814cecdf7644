"""The protocol of solvers: their capabilities, the state that they declare, and passes over one block.

The loop asks for capabilities, never for names.  It owns the state: counts it against the budget, hands a visit the
block's part of it, and writes it to files under the solver's name.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.memory import Budget
from blocksvm.base.settings import Settings
from blocksvm.base.threads import ALONE, Threads
from blocksvm.base.vectors import as_columns
from blocksvm.problems.certificate import NOTHING, Certificate
from blocksvm.problems.kernel_problem import Expansion, Support
from blocksvm.problems.problem import Problem, each_against_the_rest, has_classes, make_problem
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source
from blocksvm.store.descriptions import RunMeta


@dataclass(frozen=True)
class Capabilities:
    certifies: bool = False  # it keeps dual variables, so its result has a duality gap
    minimises: bool = False  # it has a primal objective
    schedules: bool = False  # further passes over a block make sense; else a row is seen once in an outer iteration
    warm_starts: bool = False  # it begins from another run's end
    continues: bool = False  # it goes on exactly where a previous model of its own stopped
    takes_prior: bool = False  # it can be regularised towards a model
    takes_weights: bool = False  # rows may have weights
    predicts_first: bool = False  # each row is predicted before it is learned from, and the loss of that is reported
    # its weights are made of dual variables: it tells which rows can still move, may pass over some rows of a block
    # alone, and end a visit where a block's projected gradients lie within a range
    working_set: bool = False
    free_bias: bool = False  # the constant feature's weight may go without regularisation
    linear: bool = True  # its result is a vector of weights, one a feature
    in_order: bool = False  # it is given the rows in the order of the source, whatever that of the run
    default_max_outer: int = 1  # outer iterations

    def require(self, capability: str, name: str, setting: str, instead: str = "leave it out") -> None:
        """InputError where the solver lacks a capability that a setting of the run asks for."""
        if not getattr(self, capability):
            raise InputError(f"{option(setting)}: {name} does not accept it; {instead}")


@dataclass(frozen=True)
class StateArray:
    """A named array of the state.  axis 'feature': an entry for each feature, and the constant one; 'row': one a row;
    'scalar': ``length`` entries, of which visits have a copy; 'matrix': ``length`` entries."""

    name: str
    axis: str
    length: int = 0
    dtype: type = np.float64
    in_model: bool = True  # which keeps it, for later runs
    columns: int = 1  # numbers in an entry; more than one make the array two-dimensional
    in_visits: bool = True  # which get it

    def shape(self, n_features: int, n_samples: int) -> tuple[int, ...]:
        entries = {"feature": n_features + 1, "row": n_samples, "scalar": self.length, "matrix": self.length}[self.axis]
        return (entries,) if self.columns == 1 else (entries, self.columns)

    def n_bytes(self, n_features: int, n_samples: int) -> int:
        return int(np.prod(self.shape(n_features, n_samples), dtype=np.int64)) * np.dtype(self.dtype).itemsize

    @property
    def entry_bytes(self) -> int:
        return self.columns * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class PassResult:
    rows_visited: int
    nnz_visited: int
    loss_sum: float  # weighted, of the margins seen before each row's own step
    finished: bool  # nothing is left to do on this block, for schedules that stop by tolerance
    reports: tuple[dict, ...] = ()  # of a solver that predicts first, its progress at doubling numbers of rows
    gain: float = 0.0  # increase of the dual
    seen: float = 0.0  # with a working set, the sum of the rows' shares of the gap, each before its own step


BEST = "best"  # the state's array of the w whose certified primal is the smallest so far
SHARE = "share"  # the array of a visit by which a solver tells the rows that can still move, see ``Solver.shares``
State = dict[str, np.ndarray]
Figures = tuple[float | None, float | None, float | None]


@dataclass
class Visit:
    """The working space of a visit: arrays and memo are what the solver stores from pass to pass."""

    arrays: State = field(default_factory=dict)
    of_the_set: bool = False  # it is to the working set's rows, else to a block's
    passes: int = 0  # done
    memo: Any = None


@dataclass(frozen=True)
class SavedRun:
    """The end of a previous run, for a warm start."""

    name: str  # of its file
    cost: list | None  # C by class
    lengths: dict[str, dict[str, int]]  # of the arrays that it has, {solver: {array: entries}}
    load: Callable[[str, str, np.ndarray], None]  # (solver, array, out); solver '' has 'weights'
    meta: RunMeta | None = None


@dataclass(frozen=True)
class Task:
    settings: dict  # its own
    source: Source
    bias: float = 0.0  # value of the constant feature
    tolerance: float | None = None  # the range of projected gradients at which a visit may end
    working_set: bool = False  # rows are kept between readings, so it shall tell which can still move
    free_bias: bool = False  # the constant feature's weight is not regularised
    tol: float = 0.0  # the relative gap at which a problem is at its end
    previous: tuple | None = None  # where the problems before it on a path have ended


class Solver(ABC):
    """Minimises over one block at a time, or learns from it row by row.

    ``state`` holds the feature and scalar arrays whole, and of row arrays the block's part.  A pass updates what it is
    given, and nothing else is remembered from one visit to the next.
    """

    name: str
    capabilities: Capabilities
    settings: dict
    problem: Any  # what is minimised (a ``Problem``, or one of the same methods), None where nothing is
    bias: float  # value of the constant feature
    n_vectors: int  # weight vectors, 1 or one a class
    state_arrays: tuple[StateArray, ...]
    visit_bytes: int = 0  # of a visit's arrays, a row
    with_set: bool = False  # among these is ``SHARE``
    needs_output: bool  # ``weights`` computes into ``out``
    prior: np.ndarray  # weights (n_vectors * (d + 1),) that it is regularised towards, or (0,), set before ``start``
    n_features: int | None = None  # d, where its features are others than the source's, with ids from 0 to d - 1
    member: np.ndarray | None = None  # (m, k) bool: the labels of each of the rows' m sets, where there is no problem
    ranks: bool = False  # decision values order the labels of a set; nothing parts those in it from those outside
    real_targets: bool = False  # the labels are real numbers, else classes
    predicts_rows: bool = False  # it looks at no labels, and its weights predict none
    threads: Threads = ALONE  # for work whose result does not depend on how many they are
    passes_like_decoding: bool = False  # in time, of the next block: one of the threads is left to that
    # w is not made of the dual variables, which may lie beyond their bounds: certificates move them there, and add up
    # w(alpha)
    clips_alpha: bool = False
    packed: bool = False  # it takes packed rows, too
    row_matrices: tuple[str, ...] = ()  # of the state, with an entry for each row, which certificates fill in

    def plan_memory(self, budget: Budget, source: Source, saved: Mapping | None = None) -> None:
        """Take what is held beside state and blocks from the budget; saved: a resumed run's (type, length) by array."""
        return

    @abstractmethod
    def start(self, state: State) -> None:
        """The state of a run that begins, in arrays of zeros."""

    def warm_start(self, state: State, saved: SavedRun, blocks: Iterable[Block]) -> None:
        """Begin from another run's end; blocks: all rows, once."""
        self.capabilities.require("warm_starts", self.name, "start_from")

    def begin_outer(self, state: State) -> None:
        """All rows will be visited, as none has been since the last outer iteration."""
        return

    @abstractmethod
    def inner_pass(self, block: Block, state: State, visit: Visit, order: np.ndarray) -> PassResult:
        """One pass over the rows of the block in ``order`` (n,) int32, which it may change."""

    def end_outer(self, state: State, outer: int) -> None:
        """Every row has been visited once more."""
        return

    @abstractmethod
    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        """w (n_vectors * (d + 1),) or (n_vectors, d + 1), of each vector the constant feature's weight last."""

    def dual_variables(self, state: State) -> np.ndarray | None:
        """alpha (n_samples,) of a solver that certifies, else None."""
        return None

    def estimates(self, state: State, loss_sum: float, seen: float | None = None) -> Figures:
        """(primal, dual, relative gap) as the visits of an outer iteration suggest them, by the losses suffered there
        or the shares of the gap ``seen``; of several problems the gap that half of those under way are not above."""
        return None, None, None

    def describe(self, state: State) -> dict:
        """The solver's part of the model's description."""
        return {}

    def progress(self, state: State) -> dict:
        """For a trace: what a solver that predicts first has suffered; how many of several problems are done."""
        return {}

    def problem_at(self, state: State) -> Any:
        """What certificates are about: it knows which of several problems are at their end."""
        return self.problem

    def certified(self, state: State, certificate: Certificate) -> float | None:
        """A certificate of the state has been taken; the relative gap that stands beside that of ``estimates``."""
        return certificate.rel_gap

    def finished(self, state: State) -> bool:
        """Another outer iteration would change nothing."""
        return False

    def summary(self, state: State) -> str:
        """A sentence about what the run has shown, or ''."""
        return ""

    def shares(self, block: Block, scores: np.ndarray, state: State, out: np.ndarray) -> None:
        """``out`` (n,) float64: the shares of the gap of the block's rows at decision values ``scores`` (n, k), below 0
        for a row that cannot move soon.  The visit array ``SHARE`` has them after a visit, each as it was before the
        row's own step: to a block in the first pass, to a working set in the last."""
        raise NotImplementedError

    def count_seen(self, state: State, added: Mapping) -> None:
        """Rows of a reading were looked at elsewhere, and have added so much of the gap to ``CertificateSums``."""
        return

    def certificate(self, state: State) -> Certificate | None:
        """At the end of a reading, of a solver that keeps what a certificate needs, so that none takes a reading."""
        return None

    def settle(self, state: State, blocks: Callable[[], Iterable[Block]]) -> None:
        """Make ``certificate`` true after a reading that was broken off; blocks(): all rows, once."""
        return

    def resume(self, state: State, blocks: Callable[[], Iterable[Block]]) -> None:
        """What is held as it was when a run was broken off, whose state is there again; blocks(): all rows, once."""
        return

    def support(self, state: State, blocks: Callable[[], Iterable[Block]]) -> Support | None:
        """The rows that the result stands on, where it is no vector of weights."""
        return None

    def completion(self, state: State) -> Expansion | None:
        """What makes decision values of <w, x>; None where they are that."""
        return None


class ColumnSolver(Solver):
    """Of k vectors side by side: the first columns of w (d + 1, width); prior like it or (0, 0) from ``start`` on."""

    problem: Problem
    needs_output = False
    prior = NOTHING

    def __init__(self, task: Task):
        self.problem = problem = self.stated(task)
        self.n_vectors = problem.n_problems
        if task.free_bias and self.n_vectors > 1:
            one = "is for two classes or real targets; give the value of a constant feature"
            raise InputError(f"{option('bias=free')}: {one}")
        self.bias, self.real_targets = problem.bias, problem.real

    def stated(self, task: Task) -> Problem:
        """The problem of a task."""
        if has_classes(self.settings, task.source):
            return each_against_the_rest(self.settings, task.bias, task.source, task.tol)
        bias = self.constant_value(task.source) if task.free_bias else task.bias
        problem = make_problem(self.settings, bias, task.source)
        return replace(problem, free_bias=task.free_bias, tol=task.tol)

    @staticmethod
    def constant_value(source: Source) -> float:
        """Of the feature whose weight is a bias that is not regularised."""
        return 1.0

    def plan_memory(self, budget: Budget, source: Source, saved: Mapping | None = None) -> None:
        if self.problem.sides is not None:
            budget.take("sides of the classes", self.problem.sides.n_bytes)

    def columns(self, state: State, name: str) -> np.ndarray:
        """(n, .): an array of features or rows."""
        return as_columns(state[name])

    @abstractmethod
    def live(self, state: State) -> np.ndarray:
        """(t,) int32: the problems that are not at their end."""

    def begin_at_prior(self, w: np.ndarray) -> None:
        """w (d + 1, width), zeros, becomes the prior model's weights where there is one, laid side by side."""
        if self.prior.size:
            prior = self.prior.reshape(self.n_vectors, -1)
            self.prior = np.zeros_like(w)
            self.prior[:, : self.n_vectors] = prior.T
            w[:] = self.prior
        if self.problem.free_bias:
            self.prior[-1:] = 0.0  # it is no more than where the bias begins

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        return state["w"] if self.n_vectors == 1 else state["w"].T[: self.n_vectors]

    def progress(self, state: State) -> dict:
        return {"classes_done": self.n_vectors - len(self.live(state))} if self.n_vectors > 1 else {}


@dataclass(frozen=True)
class Method:
    """A solver before there are rows; make(task) raises InputError where settings or rows do not fit; choices: settings
    that decide about others (a loss, a mirror map), and choose(values): what it takes at these values."""

    name: str
    summary: str
    settings: Settings
    capabilities: Capabilities
    make: Callable[[Task], Solver]
    choices: tuple[str, ...] = ()
    choose: Callable[[Mapping], Settings] | None = None

    def takes(self, values: Mapping) -> Settings:
        """The settings that it takes at the values of some."""
        return self.settings if self.choose is None else self.choose(values)
