"""The protocol of solvers: their capabilities, the state that they declare, and passes over one block.

The loop asks for capabilities, never for names.  It owns the state: counts it against the budget, hands a visit the
block's part of it, and writes it to files under the solver's name.  So a block may be one row, a visit can be repeated,
tested alone or made elsewhere, and a solver is one file.
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
from blocksvm.problems.expansion import Expansion, Support
from blocksvm.problems.problem import Problem, each_against_the_rest, has_classes, make_problem
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source
from blocksvm.store.descriptions import RunMeta


@dataclass(frozen=True)
class Capabilities:
    """What a solver can do and what it needs.

    certifies: it keeps dual variables, so its result has a duality gap; minimises: it has a primal objective, whose
    value is estimated and measured; schedules: further passes over a block in memory make sense (else each row is seen
    once in an outer iteration); warm_starts: it begins from another run's end; continues: it goes on exactly where a
    previous model of its own stopped; takes_prior: it can be regularised towards a model; takes_weights: rows may have
    weights; predicts_first: each row is predicted before it is learned from, and the loss of that is reported;
    working_set: it has dual variables with weights made of them, so that it tells which rows can still move, passes
    over some rows of a block alone make sense, and a visit may end where a block's projected gradients lie within a
    range; free_bias: the weight of the constant feature may go without regularisation; linear: its result is a vector
    of weights, one a feature; in_order: it is given the rows in the order of the source, whatever the order of the run;
    default_max_outer: outer iterations by default.
    """

    certifies: bool = False
    minimises: bool = False
    schedules: bool = False
    warm_starts: bool = False
    continues: bool = False
    takes_prior: bool = False
    takes_weights: bool = False
    predicts_first: bool = False
    working_set: bool = False
    free_bias: bool = False
    linear: bool = True
    in_order: bool = False
    default_max_outer: int = 1

    def require(self, capability: str, name: str, setting: str, instead: str = "leave it out") -> None:
        """InputError where the solver lacks a capability that a setting of the run asks for."""
        if not getattr(self, capability):
            raise InputError(f"{option(setting)}: {name} does not accept it; {instead}")


@dataclass(frozen=True)
class StateArray:
    """A named array of the state.

    axis 'feature': one entry a feature and one for the constant feature; 'row': one a row; 'scalar': ``length``
    entries, of which visits have a copy; 'matrix': ``length`` entries.  columns: numbers in an entry; more than one
    make the array two-dimensional.  in_model: a later run can start from it, so the model keeps it.  in_visits: visits
    use it; else they do not get the block's part of it.
    """

    name: str
    axis: str
    length: int = 0
    dtype: type = np.float64
    in_model: bool = True
    columns: int = 1
    in_visits: bool = True

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
    """The result of an inner pass.  loss_sum: weighted loss of the margins seen before each row's own step; finished:
    nothing is left to do on this block (for schedules that stop by tolerance); reports: of a solver that predicts
    first, its progress at doubling numbers of rows; gain: increase of the dual; seen: sum of the rows' shares of the
    gap (of a solver with a working set), each before its own step."""

    rows_visited: int
    nnz_visited: int
    loss_sum: float
    finished: bool
    reports: tuple[dict, ...] = ()
    gain: float = 0.0
    seen: float = 0.0


BEST = "best"  # the state's array of the w whose certified primal is the smallest so far
SHARE = "share"  # the array of a visit by which a solver tells the rows that can still move, see ``Solver.shares``
State = dict[str, np.ndarray]


@dataclass
class Visit:
    """The working space of a visit, which ends with it.

    arrays: of the solver, which the first pass makes; of_the_set: the visit is to the working set's rows, else to a
    block's; passes: done; memo: what else the solver stores from pass to pass.
    """

    arrays: State = field(default_factory=dict)
    of_the_set: bool = False
    passes: int = 0
    memo: Any = None


@dataclass(frozen=True)
class SavedRun:
    """The end of a previous run, for a warm start: name of the file, its C by class, lengths of the arrays that it has
    for each solver, {solver: {array: entries}}, ``load(solver, array, out)``, where solver '' has 'weights'; and the
    file's description."""

    name: str
    cost: list | None
    lengths: dict[str, dict[str, int]]
    load: Callable[[str, str, np.ndarray], None]
    meta: RunMeta | None = None


@dataclass(frozen=True)
class Task:
    """The task of a solver.

    settings: its own, all resolved; source: the rows; bias: value of the constant feature; tolerance: the range of
    projected gradients at which a visit may end, or None; working_set: rows are kept between readings, so it shall tell
    which can still move; free_bias: the constant feature's weight is not regularised; tol: the relative gap at which a
    problem is at its end; previous: where the problems before it on a path have ended.
    """

    settings: dict
    source: Source
    bias: float = 0.0
    tolerance: float | None = None
    working_set: bool = False
    free_bias: bool = False
    tol: float = 0.0
    previous: tuple | None = None


class Solver(ABC):
    """Minimises over one block at a time, or learns from it row by row.

    ``state`` holds the feature and scalar arrays whole, and of row arrays the block's part.  A pass updates what it is
    given, and nothing else is remembered from one visit to the next.

    settings: resolved; problem: what is minimised (a ``Problem``, or one of the same methods), None where nothing is;
    bias: value of the constant feature; n_vectors: weight vectors, 1 or one a class; needs_output: ``weights``
    computes into ``out``; prior: weights (n_vectors * (d + 1),) that it is regularised towards, or (0,), set before
    ``start``; n_features: d, where its features are others than the source's: 0 .. d - 1 are then their ids; member
    (m, k) bool: the labels of each of the rows' m sets, of a solver that has no problem; ranks: the decision values
    order the labels of a set, and nothing parts those in it from those outside; real_targets: the rows' labels are
    taken as real numbers, else they are classes; predicts_rows: it looks at no labels, and its
    weights predict none; threads: for work whose result does not depend on how many they are;
    clips_alpha: its w is not made of its dual variables, which may lie beyond their bounds: certificates move them
    there, and add up w(alpha);
    visit_bytes: of a visit's arrays, a row; with_set: among them is ``SHARE``;
    passes_like_decoding: a pass over a block takes about as long as decoding the next one, to which one of the threads
    is left; packed: it takes packed rows, too; row_matrices: names of matrices of the state that have an entry
    for each row of the source, which certificates fill in.
    """

    name: str
    capabilities: Capabilities
    settings: dict
    problem: Any
    bias: float
    n_vectors: int
    state_arrays: tuple[StateArray, ...]
    visit_bytes: int = 0
    with_set: bool = False
    needs_output: bool
    prior: np.ndarray
    n_features: int | None = None
    member: np.ndarray | None = None
    ranks: bool = False
    real_targets: bool = False
    predicts_rows: bool = False
    threads: Threads = ALONE
    passes_like_decoding: bool = False
    clips_alpha: bool = False
    packed: bool = False
    row_matrices: tuple[str, ...] = ()

    def plan_memory(self, budget: Budget, source: Source, saved: Mapping | None = None) -> None:
        """Take what is held beside the state and the blocks from the budget, before these are planned; saved: type and
        length by name of the arrays of the run that is resumed."""
        return

    @abstractmethod
    def start(self, state: State) -> None:
        """The state of a run that begins, in arrays of zeros."""
        ...

    def warm_start(self, state: State, saved: SavedRun, blocks: Iterable[Block]) -> None:
        """Begin from another run's end; blocks: all rows, once."""
        self.capabilities.require("warm_starts", self.name, "start_from")

    def begin_outer(self, state: State) -> None:
        """All rows will be visited, as none has been since the last outer iteration."""
        return

    @abstractmethod
    def inner_pass(self, block: Block, state: State, visit: Visit, order: np.ndarray) -> PassResult:
        """One pass over the rows of the block in ``order`` (n,) int32, which it may change."""
        ...

    def end_outer(self, state: State, outer: int) -> None:
        """Every row has been visited once more."""
        return

    @abstractmethod
    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        """w (n_vectors * (d + 1),) or (n_vectors, d + 1), the last entry of each vector the weight of the constant
        feature."""
        ...

    def dual_variables(self, state: State) -> np.ndarray | None:
        """alpha (n_samples,) of a solver that certifies, else None."""
        return None

    def estimates(
        self, state: State, loss_sum: float, seen: float | None = None
    ) -> tuple[float | None, float | None, float | None]:
        """(primal, dual, relative gap) as the visits of an outer iteration suggest them, by the losses suffered there
        or, with a working set, the shares of the gap ``seen``; None for what there is not.  Of several problems the
        relative gap is the one that half of those under way are not above."""
        return None, None, None

    def describe(self, state: State) -> dict:
        """The solver's part of the model's description."""
        return {}

    def progress(self, state: State) -> dict:
        """For a trace.  Of a solver that predicts first: rows, cumulative loss, mistakes so far; of one of several
        problems: how many classes are done; else nothing."""
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

    # -- dual variables with weights made of them, w = w0 + sum_i a_i direction_i x_i: a working set may be kept ------

    def shares(self, block: Block, scores: np.ndarray, state: State, out: np.ndarray) -> None:
        """``out`` (n,) float64: the shares of the gap of the block's rows at decision values ``scores`` (n, k), below 0
        for a row that cannot move soon.  The visit array ``SHARE`` has them after a visit, each as it was before the
        row's own step: to a block in the first pass, to a working set in the last.  state: as a visit gets it."""
        raise NotImplementedError

    def count_seen(self, state: State, added: Mapping) -> None:
        """Rows of a reading were looked at elsewhere; added: to a certificate's sums (``CertificateSums.added``).  A
        solver that counts the gap seen in a reading problem by problem takes it from there."""
        return

    # -- what some keep beside the state, or instead of weights --------------------------------------------------------

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
    """Of a problem's k vectors side by side: w (d + 1, width) of the state, whose first k columns are theirs; prior of
    that shape or (0, 0), from ``start`` on."""

    problem: Problem
    needs_output = False
    prior = NOTHING

    def __init__(self, task: Task):
        self.problem = problem = self.stated(task)
        self.n_vectors = problem.n_problems
        if task.free_bias and self.n_vectors > 1:
            raise InputError(
                f"{option('bias=free')}: is for two classes or real targets; give the value of a constant feature"
            )
        self.bias, self.real_targets = problem.bias, problem.real

    def stated(self, task: Task) -> Problem:
        """The problem of a task."""
        if has_classes(self.settings, task.source):
            return each_against_the_rest(self.settings, task.bias, task.source, task.tol)
        bias = self.constant_value(task.source) if task.free_bias else task.bias
        problem = make_problem(self.settings, bias, task.source)
        return replace(problem, free_bias=task.free_bias, tol=task.tol)

    def constant_value(self, source: Source) -> float:
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
        ...

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
    """A solver as the registry knows it, before there are rows: its settings with their help, what it can do, and
    ``make(task)``, which raises InputError where settings or rows do not fit.

    choices: settings that decide about others and about the functions compiled (a loss, a mirror map); choose(values):
    the settings that it takes at these values.
    """

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
