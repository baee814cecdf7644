"""Regret of the passive-aggressive learners where targets are not two classes, and the perceptron's with more of them:
a loss of each round for each kind of targets, of the learner's decision values and of fixed weights u.

Crammer, Dekel, Keshet, Shalev-Shwartz, Singer (JMLR 2006) prove their bounds for every task alike: with the loss l_t of
the round, l*_t that of u, and the squared norm q_t of the direction of a step in the place of ||x_t||^2.  So a round
here is one of two classes whose label is +1 and whose score is 1 - l_t: its hinge loss is l_t, and a mistake a round
with a loss of 1 or more.

    classes    l = 1 - (<w_y, x> - <w_s, x>), s the highest wrong class; q = 2 ||x||^2 (sec. 7)
    sets       the same with the lowest class r of the set in the place of y; 0 for an empty or a complete set
    costs      l = <w_s, x> - <w_y, x> + sqrt(cost(y, s)), s the predicted class, 0 where that is y; or s of the largest
               such loss.  u is judged by the latter (sec. 8)
    rows       l = max(0, ||w - x|| - epsilon); q = 1 (sec. 6)

The loss of u is no smaller than that with the s of the learner's round, so every bound that grows with the losses of u
holds with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.kernels.margins import add_rows, decision_values
from blocksvm.model.decision_values import pieces_of_values, rows_of_piece
from blocksvm.online.exact import ExactLearner
from blocksvm.online.learner import Learner
from blocksvm.online.loops import SetTable
from blocksvm.online.runner import Runner
from blocksvm.sources.block import Block
from blocksvm.theory.learner_theory import theory_of
from blocksvm.theory.replay import ReplayedRun, ReplayRows

CENTRES = 10  # steps towards the best centre
NO_PAIR = 1e100
SEVERAL = "more than two labels"


class TaskLoss(Protocol):
    """The loss of a round.  solver: settings of the batch solver that makes comparators; uncertified: why these need
    not be the best, '' where they are; scales: the scores of scaled weights are the scaled scores; stretched: a factor
    of weights that are compared, too; unlabelled: rows have no labels, w predicts them."""

    solver: Mapping
    uncertified: str
    scales: bool
    stretched: float
    unlabelled: bool

    def scores(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        """1 - l (m,) of these rows of a block by their decision values (m, k), of fixed weights or of a learner."""
        ...

    def sq_norms(self, block: Block) -> np.ndarray:
        """q (n,)."""
        ...


def best_of_others(values: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """(m,) the largest of the values (m, k) that are not taken (m, k) bool."""
    return np.where(taken, -np.inf, values).max(axis=1)


@dataclass(frozen=True)
class Classes:
    solver: Mapping = field(default_factory=lambda: {"multiclass": "crammer-singer"})
    uncertified: str = ""
    scales: bool = True
    stretched: float = 1.0
    unlabelled: bool = False

    def scores(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        y = block.y[rows]
        own = np.arange(values.shape[1]) == y[:, None]
        return values[own] - best_of_others(values, own)

    def sq_norms(self, block: Block) -> np.ndarray:
        return 2.0 * block.sq_norms


@dataclass(frozen=True)
class Sets(Classes):
    """member (m, k) bool: which classes each code of a row has."""

    member: np.ndarray = field(default_factory=lambda: np.zeros((0, 0), bool))
    solver: Mapping = field(default_factory=dict)
    uncertified: str = "each class is trained against the others"

    def scores(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        own = self.member[block.y[rows]]
        # the largest number where there is no pair: a loss of 0, however the weights are scaled
        return np.minimum(NO_PAIR, -best_of_others(-values, ~own) - best_of_others(values, own))


@dataclass(frozen=True)
class Costs(Classes):
    """roots (k, k): the square roots of the costs of predicting a class for another; max_loss: the learner's rule."""

    roots: np.ndarray = field(default_factory=lambda: np.zeros((0, 0)))
    max_loss: bool = False
    uncertified: str = "it is trained without the costs"
    scales: bool = False

    def scores(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        y = block.y[rows]
        place = np.arange(len(y))
        losses = values - values[place, y][:, None] + self.roots[y]
        losses[place, y] = 0.0
        if fixed or self.max_loss:
            return 1.0 - losses.max(axis=1)
        return 1.0 - losses[place, values.argmax(axis=1)]


@dataclass(frozen=True)
class UnlabelledRows:
    """Rows without labels, which w predicts; values (m, 1): of a learner the distances, of fixed u <u, x>."""

    epsilon: float
    solver: Mapping = field(default_factory=dict)
    uncertified: str = "steps towards the centre of the rows"
    scales: bool = False
    stretched: float = 1.0
    unlabelled: bool = True

    def scores(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        return 1.0 - np.maximum(0.0, values[:, 0] - self.epsilon)

    def sq_norms(self, block: Block) -> np.ndarray:
        return np.ones(block.n_samples)


def distances(products: np.ndarray, sq_norms: np.ndarray, sq_norm: float) -> np.ndarray:
    """||u - x|| by <u, x>, ||x||^2 and ||u||^2."""
    return np.sqrt(np.maximum(0.0, sq_norm - 2.0 * products + sq_norms))


def task_of(runner: Runner, member: np.ndarray | None) -> TaskLoss | None:
    """The loss of what the runner learns, None of two classes or of numbers; member: of sets."""
    if runner.predicts_rows:
        return UnlabelledRows(runner.settings["epsilon"])
    if member is not None:
        return Sets(member=member)
    if runner.costs is not None:
        roots = runner.costs.roots
        return Costs(roots=roots, max_loss=runner.costs.max_loss, stretched=float(roots.max()) or 1.0)
    return Classes() if runner.n_classes > 2 else None


def check_task(learner: Learner | ExactLearner, settings: Mapping, what: str, max_rows: int | None) -> None:
    """InputError for learners without bounds for a task, and for settings that are for two classes."""
    counts_mistakes = learner.acts_up_to <= 0.0 and "max_norm" not in learner.settings
    if not (theory_of(learner).passive_aggressive or (counts_mistakes and what == SEVERAL)):
        raise InputError(
            f"{learner.name}: with {what} regret is measured of {'perceptron, ' * (what == SEVERAL)}pa, pa1 and pa2; "
            "choose one of them"
        )
    if settings.get("learn_radius"):
        raise InputError(
            f"{option('learn_radius')}: begins at a weight that is not 0, and the bounds here are of learners that "
            "begin at 0; leave it out"
        )
    if max_rows is not None:
        raise InputError(f"{option('max_rows')}: with {what} all rows are replayed; leave it out, or split fewer rows")


class TaskRows(ReplayRows):
    """``ReplayRows`` of a task."""

    def __init__(self, source, order: str, seed: int, memory: int, task: TaskLoss, n_vectors: int):
        super().__init__(source, order, seed, memory)
        self.task, self.n_vectors = task, n_vectors
        self.scales, self.stretched, self.solver = task.scales, task.stretched, task.solver
        self.uncertified = task.uncertified

    def fixed(self, tell: Callable[[str], None]) -> Iterator[tuple[str, np.ndarray]] | None:
        return centres(self, tell) if self.task.unlabelled else None

    def scores(self, w: np.ndarray, bias: float) -> np.ndarray:
        """1 - l (T,) of fixed w (k * (d + 1),)."""
        vectors = w.reshape(self.n_vectors, -1)
        scores = np.empty(self.source.n_samples)
        for block, order, first in self:
            of_block = np.empty(block.n_samples)
            for rows, values in pieces_of_values(block.matrix, vectors, bias):
                values = values.T
                if self.task.unlabelled:
                    values = distances(values, block.sq_norms[rows][:, None], float(w @ w))
                of_block[rows] = self.task.scores(values, block, rows, True)
            scores[first : first + block.n_samples] = of_block[order]
        return scores


def replay_task(runner: Runner, rows: TaskRows, run: ReplayedRun, tell: Callable[[str], None]) -> ReplayedRun:
    """Fill the run's records by one epoch."""
    task = rows.task
    state = runner.new_state(run.d)
    step = rows_of_piece(runner.n_vectors)
    table = SetTable.of_membership(task.member) if isinstance(task, Sets) else None
    run.y[:] = 1
    for block, order, first in rows:
        y = np.zeros(block.n_samples) if task.unlabelled else block.y
        for start in range(0, block.n_samples, step):
            part = order[start : start + step]
            values = np.empty((len(part), runner.n_vectors))
            out = values[:, 0] if runner.rule is None else values
            runner.learn(block.matrix, y, part, run.d, state, scores=out, sets=table)
            if not np.isfinite(values).all():
                runner.diverged("in the rows learned from")
            run.scores[first + start : first + start + len(part)] = task.scores(values, block, part, False)
        run.sq_norms[first : first + block.n_samples] = task.sq_norms(block)[order]
        tell(f"{runner.name}: {first + block.n_samples:,} of {run.T:,} rows")
    if runner.average:
        run.mean_weights = runner.weights(state, np.empty(runner.n_vectors * (run.d + 1)))
    return run


def centres(rows: TaskRows, tell: Callable[[str], None]) -> Iterator[tuple[str, np.ndarray]]:
    """Fixed w (d + 1,) that lie near to the rows: their mean, and steps towards the least sum of max(0, ||w - x|| -
    epsilon), each the mean of the rows outside, weighed by 1 / ||w - x|| (Weiszfeld, Tohoku Mathematical Journal 43,
    1937)."""
    epsilon = rows.task.epsilon  # type: ignore[attr-defined]
    d = rows.source.n_features
    w = np.zeros(d + 1)
    for step in range(CENTRES + 1):
        tell(f"comparator: centre {step + 1} of {CENTRES + 1}")
        total, weight = np.zeros(d + 1), 0.0
        for block, _, _ in rows:
            factors = np.ones(block.n_samples)
            if step > 0:
                decision_values(*block.matrix, w, 0.0, factors)
                apart = distances(factors, block.sq_norms, float(w @ w))
                factors = np.divide(1.0, apart, out=np.zeros(len(apart)), where=apart > epsilon)
            add_rows(*block.matrix, factors, 0.0, total)
            weight += float(factors.sum())
        if weight == 0.0:  # all rows lie inside
            return
        w = total / weight
        yield "the rows' mean" if step == 0 else f"centre {step}", w
