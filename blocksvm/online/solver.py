"""An online learner as a block solver: a pass predicts each row of the block, then learns from it."""

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import partial

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import SETS, Labels, require_labels, require_numbers
from blocksvm.base.memory import Budget
from blocksvm.base.settings import Settings
from blocksvm.online import loops
from blocksvm.online.costs import CostMatrix
from blocksvm.online.learner import COMMON_SETTINGS, NO_TARGETS, PRIOR, REST, SHARED, WEIGHTS, Learner, of_classes
from blocksvm.online.runner import LearnerState, Runner, known_of
from blocksvm.problems.problem import class_factors, kinds_of, sums_by_class
from blocksvm.solvers.solver import Capabilities, Method, PassResult, Solver, State, StateArray, Task, Visit
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source

# entries of state["epochs"], of which model files have four: rows with a margin not above 0 before this epoch, and in
# the last one, -1 before there was one
BEFORE, LAST = range(2)
EPOCHS_LENGTH = 4


def no_epochs() -> np.ndarray:
    """state["epochs"] before the first one."""
    epochs = np.zeros(EPOCHS_LENGTH)
    epochs[LAST] = -1.0
    return epochs


class RowSolver(Solver):
    """A ``Solver`` that predicts each row, then learns from it.  Its state has a tally and epochs.

    factors: class weights by code, or None; on_mistakes: only mistakes change w.
    """

    needs_output = True
    problem = None
    n_vectors = 1
    on_mistakes = False
    costs: CostMatrix | None = None
    factors: np.ndarray | None = None
    prior = np.empty(0)
    counts = StateArray("tally", "scalar", loops.TALLY_LENGTH), StateArray("epochs", "scalar", EPOCHS_LENGTH)

    @abstractmethod
    def learn(self, block: Block, weights: np.ndarray | None, order: np.ndarray, state: State) -> Iterator[int]:
        """Predict each row of ``order``, then learn from it; yields numbers of rows, those of reports among them."""
        ...

    def start(self, state: State) -> None:
        state["epochs"][:] = no_epochs()

    def row_weights(self, block: Block) -> np.ndarray | None:
        """The rows' weights times those of their classes.  Raises InputError where the solver does not support them."""
        weights = block.weights
        if self.factors is not None:
            factors = self.factors[block.y + (self.n_vectors == 1)]
            weights = factors if weights is None else factors * weights
        if weights is not None and not self.capabilities.takes_weights:
            raise InputError(f"{self.name}: does not support weights of rows; leave them out")
        return weights

    def inner_pass(self, block: Block, state: State, visit: Visit, order: np.ndarray) -> PassResult:
        before = state["tally"].copy()
        rows = self.learn(block, self.row_weights(block), order, state)
        reports = tuple(self.progress(state) for n in rows if is_reported(n))
        done = state["tally"] - before
        return PassResult(len(order), int(done[loops.NONZEROS]), float(done[loops.LOSS_SUM]), True, reports)

    def end_outer(self, state: State, outer: int) -> None:
        epochs, rows = state["epochs"], state["tally"][loops.NOT_POSITIVE]
        epochs[LAST] = rows - epochs[BEFORE]
        epochs[BEFORE] = rows

    def finished(self, state: State) -> bool:
        """Whether only mistakes change w and the last epoch had none."""
        return bool(self.on_mistakes and state["epochs"][LAST] == 0.0)

    def progress(self, state: State) -> dict:
        return progress_of(state["tally"], self.real_targets, self.costs)


class OnlineSolver(RowSolver):
    def __init__(self, learner: Learner, task: Task):
        source, self.name, self.sets = task.source, learner.name, None
        shared = {name: value for name, value in task.settings.items() if name in SHARED}
        targets = shared.get("targets")
        real, labels = not of_classes(targets), source.labels
        if source.label_kind == SETS and not real:
            if targets not in (None, SETS):
                raise InputError(f"{source.name}: its rows have sets of labels; leave {option('targets')} out")
            targets = shared["targets"] = SETS
            labels, self.member, _ = kinds_of(source)
            self.sets = loops.SetTable.of(map(np.flatnonzero, self.member))
        elif targets == SETS:
            what = f"its labels are {source.label_kind}, no sets"
            raise InputError(f"{source.name}: {what}; leave {option('targets')} out")
        elif targets != NO_TARGETS:
            (require_numbers if real else require_labels)(source)
        k = 2 if real else len(labels.values)
        known = known_of(source, task.bias)
        self.factors = factors_by_code(task, learner, targets)
        if shared.get("multiclass") is not None and k == 2 and not (real or self.sets):
            raise InputError(f"{option('multiclass')}: the rows have two classes; leave it out")
        if shared.get("multiclass") != REST and (k > 2 or self.sets):
            known["n_features"] *= k  # the prototypes' features are features of one learner
        settings = {name: value for name, value in task.settings.items() if name not in COMMON_SETTINGS}
        self.runner = runner = Runner(
            learner, settings, known, average=shared.get("average", False), bias=task.bias, n_classes=k,
            rule=shared.get("multiclass"), query=shared.get("query"), targets=targets,
        )  # fmt: skip
        runner.take_costs(source.labels)
        self.capabilities = capabilities_of(runner.learner)
        self.settings = runner.settings | SHARED.resolve(shared, learner.name)
        if self.factors is not None:
            self.settings["class_weight"] = task.settings["class_weight"]
        self.ranks, self.real_targets, self.predicts_rows = runner.ranks, runner.real, runner.predicts_rows
        self.on_mistakes = runner.learner.acts_up_to <= 0.0
        self.n_vectors, self.bias, self.costs = runner.n_vectors, runner.bias, runner.costs
        features = StateArray("features", "feature", columns=runner.feature_numbers)
        self.state_arrays = (features, StateArray("scalars", "scalar", runner.scalar_length), *self.counts)

    def plan_memory(self, budget: Budget, source: Source, saved: Mapping | None = None) -> None:
        if self.sets is not None:
            budget.take("sets of labels", sum(array.nbytes for array in (self.member, *self.sets)))
        if self.runner.costs is not None:
            budget.take("costs", 4 * self.runner.costs.costs.nbytes)

    def learner_state(self, state: State) -> LearnerState:
        return LearnerState(state["features"].reshape(-1), state["scalars"], state["tally"], self.prior)

    def start(self, state: State) -> None:
        self.runner.start(self.learner_state(state))
        super().start(state)

    def learn(self, block: Block, weights: np.ndarray | None, order: np.ndarray, state: State) -> Iterator[int]:
        learned = self.learner_state(state)
        d = len(learned.columns) // self.runner.feature_numbers - 1
        y = np.zeros(block.n_samples) if self.predicts_rows else block.y
        parts = self.runner.learn_in_parts(block.matrix, y, order, d, learned, weights=weights, sets=self.sets)
        return (rows for rows, _ in parts)

    def summary(self, state: State) -> str:
        """What the mistakes of a perceptron show about separability, or the radius of a learner that predicts rows."""
        runner, epochs, tally = self.runner, state["epochs"], state["tally"]
        if self.predicts_rows:
            return f"radius {self.describe(state)['radius']:.6g}"
        if not self.on_mistakes or runner.rule is not None or epochs[LAST] < 0.0:
            return ""
        if epochs[LAST] == 0.0:
            separated = f"the rows are linearly separable{' with a bias' if runner.bias else ''}"
            which = "by the last weights, of which the model keeps the mean" if runner.average else "by these weights"
            return f"the last epoch made no mistake: {separated}, {which}"
        queried = f", {tally[loops.CORRECTED]:,.0f} of them on labels asked for" if math.isfinite(runner.query) else ""
        return (
            f"every epoch made mistakes, {tally[loops.NOT_POSITIVE]:,.0f} in all{queried}: this does not show whether "
            "the rows are separable"
        )

    def weights(self, state: State, out: np.ndarray) -> np.ndarray:
        return self.runner.weights(self.learner_state(state), out)

    def describe(self, state: State) -> dict:
        return self.runner.describe(state["scalars"])


def capabilities_of(learner: Learner) -> Capabilities:
    prior, weights = PRIOR in learner.takes, WEIGHTS in learner.takes
    return Capabilities(continues=True, predicts_first=True, takes_prior=prior, takes_weights=weights)


def method_of(learner: Learner) -> Method:
    choosing = learner.chooser, learner.targets and "targets", "loss" in learner.settings and "loss"
    return Method(
        learner.name, learner.summary, learner.settings + COMMON_SETTINGS, capabilities_of(learner),
        partial(OnlineSolver, learner), tuple(filter(None, choosing)),
        lambda settings: settings_of(learner, settings) + COMMON_SETTINGS,
    )  # fmt: skip


def settings_of(learner: Learner, settings: Mapping) -> Settings:
    """The settings that the learner takes beside these."""
    return learner.of_targets(settings.get("targets")).of(settings).settings_of(settings)


def factors_by_code(task: Task, learner: Learner, targets: str | None = None) -> np.ndarray | None:
    """Class weights by code, or None where all are 1.  Two classes: of the codes -1, 0 and 1 in this order; more: of
    each class, then of rows without one."""
    class_weight, labels = task.settings.get("class_weight"), task.source.labels
    if class_weight is None:
        return None
    check_class_weight(learner, targets)
    return at_codes(class_factors(class_weight, labels, sums_by_class(task.source, labels)), labels)


def check_class_weight(learner: Learner, targets: str | None) -> None:
    if targets == SETS or not of_classes(targets):
        raise InputError(f"{option('class_weight')}: is for rows of one label each; leave it out")
    if WEIGHTS not in learner.takes:
        raise InputError(f"{option('class_weight')}: {learner.name} does not support class weights; leave it out")


def at_codes(factors: tuple[float, ...], labels: Labels) -> np.ndarray:
    """Factors of the classes by code, in the order of ``factors_by_code``."""
    return np.array([factors[0], 1.0, factors[1]] if labels.binary else [*factors, 1.0])


def require_two_classes(source: Source, name: str) -> None:
    require_labels(source)
    if not source.labels.binary:
        raise InputError(f"{name}: learns two classes; {source.name} has {len(source.labels.values)}")


def is_reported(rows: int) -> bool:
    """Progress is reported at doubling numbers of rows."""
    return rows & (rows - 1) == 0


def progress_of(tally: np.ndarray, real: bool, costs=None) -> dict:
    """A tally as a dictionary: rows, cumulative loss, and mistakes or, with numbers, squared errors; the cost of the
    predictions, with costs; labels queried (asked)."""
    return {
        "rows": int(tally[loops.ROWS]),
        "cumulative_loss": float(tally[loops.LOSS_SUM]),
        "mistakes": None if real else int(tally[loops.MISTAKES]),
        "squared_errors": float(tally[loops.SQUARED_ERRORS]) if real else None,
        "cumulative_cost": None if costs is None else float(tally[loops.COST]),
        "asked": int(tally[loops.QUERIED]),
    }
