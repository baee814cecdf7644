"""An online learner as a block solver: a pass predicts each row of the block, then learns from it."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from blocksvm.errors import InputError, called
from blocksvm.kernels.online.loops import ASKED, LOSS_SUM, MISTAKES, ROWS, TALLY_LENGTH
from blocksvm.learners.protocol import LearnerSettings
from blocksvm.learners.runner import Machine, Memory, known_of
from blocksvm.settings import Setting, Settings
from blocksvm.solvers.protocol import (
    CLASSES,
    TWO_CLASSES,
    Capabilities,
    Method,
    PassResult,
    Solver,
    State,
    StateArray,
    Task,
)
from blocksvm.sources.block import Block

COMMON = Settings((
    Setting("average", "the mean of the weights after each row, not the last", default=False, kind=bool),
    Setting("multiclass", "the rule for more than two labels: prototype (default) or rest", kind=str,
            choices=("prototype", "rest"), metavar="RULE"),
    Setting("query", "ask for a label with probability B / (B + |margin|)", above=0.0, metavar="B"),
))  # fmt: skip

BEFORE, LAST, EPOCHS = range(3)  # of state["epochs"]: mistakes before this epoch, in the last one, epochs done


class OnlineSolver(Solver):
    """The ``Solver`` of any online learner.  The state is the learner's memory, and what it has counted."""

    visit_arrays = ()
    needs_output = True
    problem = None

    def __init__(self, learner, capabilities: Capabilities, task: Task):
        source = task.source
        known = known_of(source, task.bias)
        k = len(source.labels.values)
        common = COMMON.resolve({n: v for n, v in task.settings.items() if n in COMMON}, learner.name)
        if common["multiclass"] is not None and k == 2:
            raise InputError(f"{called('multiclass')}: the rows have two classes; leave it out")
        if common["multiclass"] != "rest" and k > 2:
            known["n_features"] *= k  # the prototypes' features are features of one learner
        self.name = learner.name
        self.capabilities = capabilities
        own = LearnerSettings(**{n: v for n, v in task.settings.items() if n not in COMMON})
        self.machine = Machine(
            learner.name, own, known, average=common["average"], bias=task.bias, n_classes=k,
            rule=common["multiclass"], query=common["query"],
        )  # fmt: skip
        self.settings = self.machine.settings | common
        self.n_vectors = self.machine.copies
        self.bias = self.machine.bias
        self.max_norm = source.max_norm
        self.state_arrays = (
            StateArray("features", "feature", columns=self.machine.feature_numbers()),
            StateArray("scalars", "scalar", self.machine.scalar_length()),
            StateArray("tally", "scalar", TALLY_LENGTH),
            StateArray("epochs", "scalar", 3),
        )
        self.prior = np.empty(0)

    def memory(self, state: State) -> Memory:
        return Memory(state["features"].reshape(-1), state["scalars"], state["tally"], self.prior)

    def start(self, state: State) -> None:
        self.machine.start(self.memory(state))
        state["epochs"][LAST] = -1.0

    def inner_pass(self, block: Block, state: State, visit: State, order: np.ndarray) -> PassResult:
        memory = self.memory(state)
        tally = memory.tally
        d = len(memory.features) // self.machine.feature_numbers() - 1
        before = tally.copy()
        reports = [
            progress_of(tally)
            for rows in self.machine.learn_in_parts(block.matrix, block.y, order, d, memory)
            if is_reported(rows)
        ]
        nnz = int(np.diff(block.indptr).sum())
        return PassResult(len(order), nnz, float(tally[LOSS_SUM] - before[LOSS_SUM]), True, tuple(reports))

    def end_outer(self, state: State, outer: int) -> None:
        end_epoch(state)

    def finished(self, state: State) -> bool:
        """The last epoch made no mistake: a perceptron does not change any more."""
        return self.name.startswith("perceptron") and state["epochs"][LAST] == 0.0

    def summary(self, state: State) -> str:
        """What a perceptron's mistakes show about separability (Novikoff 1962: at most (R / margin)^2 of them)."""
        epochs, mistakes = state["epochs"], state["tally"][MISTAKES]
        if not self.name.startswith("perceptron") or self.machine.rule is not None or epochs[LAST] < 0.0:
            return ""
        with_bias = " with a bias" if self.machine.bias else ""
        if epochs[LAST] == 0.0:
            return f"the last epoch made no mistake: the rows are linearly separable{with_bias}, by these weights"
        told = f"every epoch made mistakes, {mistakes:,.0f} in all: this does not show whether the rows are separable"
        if len(self.prior):
            return told
        radius = math.hypot(self.max_norm, self.machine.bias)
        return f"{told}{with_bias}, but no plane has a margin above {radius / math.sqrt(mistakes):.3g}"

    def weights(self, state: State, out: np.ndarray) -> np.ndarray:
        return self.machine.weights(self.memory(state), out)

    def progress(self, state: State) -> dict:
        return progress_of(state["tally"])


def method_of(learner) -> Method:
    """A learner as the training loop knows it."""
    capabilities = Capabilities(targets=(TWO_CLASSES, CLASSES), continues=True, takes_prior=True, predicts_first=True)
    own = Settings(tuple(Setting(name, name, kind=lambda value: value) for name in learner.settings))
    return Method(learner.name, learner.name, own + COMMON, capabilities, partial(OnlineSolver, learner, capabilities))


def end_epoch(state: State) -> None:
    """Count an epoch, and the mistakes made in it."""
    epochs, mistakes = state["epochs"], state["tally"][MISTAKES]
    epochs[LAST] = mistakes - epochs[BEFORE]
    epochs[BEFORE] = mistakes
    epochs[EPOCHS] += 1.0


def is_reported(rows: int) -> bool:
    """Progress is told at doubling numbers of rows."""
    return rows & (rows - 1) == 0


def progress_of(tally: np.ndarray) -> dict:
    """What a tally tells: rows, cumulative loss and mistakes, labels asked for."""
    return {
        "rows": int(tally[ROWS]),
        "cumulative_loss": float(tally[LOSS_SUM]),
        "mistakes": int(tally[MISTAKES]),
        "asked": int(tally[ASKED]),
    }
