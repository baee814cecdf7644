"""An online learner as a block solver: a pass predicts each row of the block, then learns from it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace

import numpy as np

from blocksvm.errors import InputError, called
from blocksvm.learners.loops import ASKED, LOSS_SUM, MISTAKES, ROWS, TALLY_LENGTH
from blocksvm.learners.runner import LearnerState, Runner, known_of
from blocksvm.problems.problem import Problem
from blocksvm.solvers.protocol import PassResult, State, StateArray
from blocksvm.sources.block import Block

BEFORE, LAST, EPOCHS = range(3)  # of state["epochs"]: mistakes before this epoch, in the last one, epochs done


@dataclass(frozen=True)
class OnlineSettings:
    """Settings of an online learner beside the common ones: its own by name, averaged weights, the rule for more than
    two classes ('prototype' or 'rest'), b of selective sampling (None: every label is asked for)."""

    learner: Mapping = field(default_factory=dict)
    average: bool = False
    multiclass: str | None = None
    query: float | None = None

    def given(self) -> list[str]:
        """The names of the settings that were given, as their caller writes them."""
        own = [called(name) for name, value in self.learner.items() if value is not None]
        return own + [called(f.name) for f in fields(self)[1:] if getattr(self, f.name) not in (None, False)]


class OnlineSolver:
    """The ``Solver`` of any online learner.  The state is the learner's, and what it has counted."""

    visit_arrays = ()
    has_dual = False
    needs_weights_buffer = True
    online = True

    def __init__(self, name: str, problem: Problem, settings: OnlineSettings, source):
        labels = source.labels
        known = known_of(source, problem.bias)
        k = len(labels.values)
        if settings.multiclass is not None and k == 2:
            raise InputError(f"{called('multiclass')}: the rows have two classes; leave it out")
        if settings.multiclass != "rest" and k > 2:
            known["n_features"] *= k  # the prototypes' features are features of one learner
        self.name = name
        self.runner = Runner(
            name, settings.learner, known, average=settings.average, bias=problem.bias, n_classes=k,
            rule=settings.multiclass, query=settings.query,
        )  # fmt: skip
        self.told = self.runner.settings
        self.copies = self.runner.n_vectors
        self.problem = replace(problem, bias=self.runner.bias)
        self.state_arrays = (
            StateArray("features", "feature", columns=self.runner.feature_numbers()),
            StateArray("scalars", "scalar", self.runner.scalar_length()),
            StateArray("tally", "scalar", TALLY_LENGTH),
            StateArray("epochs", "scalar", 3),
        )
        self.prior = np.empty(0)

    def learner_state(self, state: State) -> LearnerState:
        return LearnerState(state["features"], state["scalars"], state["tally"], self.prior)

    def start(self, state: State) -> None:
        self.runner.start(self.learner_state(state))
        state["epochs"][LAST] = -1.0

    def warm_start(self, state, saved: dict, lengths: dict, load, blocks: Iterable[Block], name: str) -> None:
        raise InputError(
            f"{called('warm_start')}: {self.name} goes on from its own models by {called('continue_from')}"
        )

    def start_visit(self, visit: State) -> None:
        pass

    def inner_pass(self, block: Block, state: State, visit: State, order: np.ndarray) -> PassResult:
        own = self.learner_state(state)
        tally = own.tally
        d = len(own.columns) // self.runner.feature_numbers() - 1
        before = tally.copy()
        reports = [
            progress_of(tally)
            for rows in self.runner.learn_in_parts(block.matrix, block.y, order, d, own, weights=block.weights)
            if is_reported(rows)
        ]
        nnz = int(np.diff(block.indptr).sum())
        return PassResult(len(order), nnz, float(tally[LOSS_SUM] - before[LOSS_SUM]), True, tuple(reports))

    def end_outer(self, state: State, outer: int) -> None:
        end_epoch(state)

    def at_rest(self, state: State) -> bool:
        """The last epoch made no mistake: a perceptron does not change any more."""
        return self.name.startswith("perceptron") and state["epochs"][LAST] == 0.0

    def verdict(self, state: State, max_norm: float) -> str:
        """What a perceptron's mistakes show about separability (Novikoff 1962: at most (R / margin)^2 of them)."""
        epochs, mistakes = state["epochs"], state["tally"][MISTAKES]
        if not self.name.startswith("perceptron") or self.runner.rule is not None or epochs[LAST] < 0.0:
            return ""
        with_bias = " with a bias" if self.runner.bias else ""
        if epochs[LAST] == 0.0:
            return f"the last epoch made no mistake: the rows are linearly separable{with_bias}, by these weights"
        told = f"every epoch made mistakes, {mistakes:,.0f} in all: this does not show whether the rows are separable"
        if len(self.prior):
            return told
        radius = math.hypot(max_norm, self.runner.bias)
        return f"{told}{with_bias}, but no plane has a margin above {radius / math.sqrt(mistakes):.3g}"

    def weights(self, state: State, out: np.ndarray) -> np.ndarray:
        return self.runner.weights(self.learner_state(state), out)

    def estimated_primal(self, state: State, loss_sum: float) -> None:
        return None

    def estimated_dual(self, state: State) -> None:
        return None


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
