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
from functools import partial
from types import MappingProxyType

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.kernels.columns import add_rows, decision_values
from blocksvm.online.loops import SetTable
from blocksvm.online.runner import Runner
from blocksvm.sources.block import Block
from blocksvm.theory.comparators import FixedWeights
from blocksvm.theory.rows import ReplayRows, distances
from blocksvm.theory.theories import THEORIES

CENTRES = 10  # steps towards the best centre
NO_PAIR = 1e100
SEVERAL = "more than two labels"


def best_of_others(values: np.ndarray, taken: np.ndarray) -> np.ndarray:
    """(m,) the largest of the values (m, k) that are not taken (m, k) bool."""
    return np.where(taken, -np.inf, values).max(axis=1)


class Classes(ReplayRows):
    """``ReplayRows`` of a task, of more than two classes; scores are 1 - l, squares q."""

    solver = MappingProxyType({"multiclass": "crammer-singer"})

    def __init__(self, runner: Runner, *of_rows):
        super().__init__(*of_rows)
        self.n_vectors = runner.n_vectors

    def targets(self, block: Block) -> np.ndarray:
        return np.ones(block.n_samples, np.int8)

    def margins(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        own = np.arange(values.shape[1]) == block.y[rows][:, None]
        return values[own] - best_of_others(values, own)

    def squares(self, block: Block) -> np.ndarray:
        return 2.0 * block.sq_norms


class Sets(Classes):
    """member (m, k) bool: which classes each code of a row has."""

    solver = MappingProxyType({})
    uncertified = "each class is trained against the others"

    def __init__(self, runner: Runner, member: np.ndarray, *of_rows):
        super().__init__(runner, *of_rows)
        self.member, self.sets = member, SetTable.of(map(np.flatnonzero, member))

    def margins(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        own = self.member[block.y[rows]]
        # the largest number where there is no pair: a loss of 0, however the weights are scaled
        return np.minimum(NO_PAIR, -best_of_others(-values, ~own) - best_of_others(values, own))


class Costs(Classes):
    uncertified = "it is trained without the costs"
    scales = False

    def __init__(self, runner: Runner, *of_rows):
        super().__init__(runner, *of_rows)
        self.costs = runner.costs
        self.stretched = float(self.costs.roots.max()) or 1.0

    def margins(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        y, each = block.y[rows], np.arange(len(values))
        losses = values - values[each, y][:, None] + self.costs.roots[y]
        losses[each, y] = 0.0
        if fixed or self.costs.max_loss:
            return 1.0 - losses.max(axis=1)
        return 1.0 - losses[each, values.argmax(axis=1)]


class Unlabelled(Classes):
    """Rows without labels, which w predicts; values (m, 1): the distances."""

    solver = MappingProxyType({})
    uncertified = "steps towards the centre of the rows"
    scales = labelled = False

    def __init__(self, runner: Runner, *of_rows):
        super().__init__(runner, *of_rows)
        self.epsilon = runner.settings["epsilon"]

    def margins(self, values: np.ndarray, block: Block, rows: np.ndarray | slice, fixed: bool) -> np.ndarray:
        return 1.0 - np.maximum(0.0, values[:, 0] - self.epsilon)

    def squares(self, block: Block) -> np.ndarray:
        return np.ones(block.n_samples)

    def fixed(self, tell: Callable[[str], None]) -> Iterator[FixedWeights]:
        """Fixed w (d + 1,) that lie near to the rows: their mean, and steps towards the least sum of max(0, ||w - x|| -
        epsilon), each the mean of the rows outside, weighed by 1 / ||w - x|| (Weiszfeld, Tohoku Mathematical Journal
        43, 1937)."""
        w = np.zeros(self.source.n_features + 1)
        for step in range(CENTRES + 1):
            tell(f"comparator: centre {step + 1} of {CENTRES + 1}")
            total, weight = np.zeros(len(w)), 0.0
            for block, _, _ in self:
                factors = np.ones(block.n_samples)
                if step > 0:
                    decision_values(block.entries, w.reshape(-1, 1), 0.0, factors.reshape(-1, 1))
                    apart = distances(factors, block.sq_norms, float(w @ w))
                    factors = np.divide(1.0, apart, out=np.zeros(len(apart)), where=apart > self.epsilon)
                add_rows(block.entries, factors.reshape(-1, 1), 0.0, total.reshape(-1, 1))
                weight += float(factors.sum())
            if weight == 0.0:  # all rows lie inside
                return
            w = total / weight
            yield FixedWeights("the rows' mean" if step == 0 else f"centre {step}", w)


def task_of(runner: Runner, member: np.ndarray | None) -> Callable[..., Classes] | None:
    """What makes the rows of the runner's task of what ``ReplayRows`` takes, None of two classes or of numbers; member:
    of sets."""
    if runner.predicts_rows:
        return partial(Unlabelled, runner)
    if member is not None:
        return partial(Sets, runner, member)
    if runner.costs is not None:
        return partial(Costs, runner)
    return partial(Classes, runner) if runner.n_vectors > 1 else None


def check_task(learner: str, settings: Mapping, what: str, max_rows: int | None) -> None:
    """InputError for learners without bounds for a task, and for settings that are for two classes."""
    passive_aggressive = learner in THEORIES and THEORIES[learner].passive_aggressive
    if not (passive_aggressive or (learner == "perceptron" and what == SEVERAL)):
        raise InputError(
            f"{learner}: with {what} regret is measured of {'perceptron, ' * (what == SEVERAL)}pa, pa1 and pa2; "
            "choose one of them"
        )
    if settings.get("learn_radius"):
        raise InputError(
            f"{option('learn_radius')}: begins at a weight that is not 0, and the bounds here are of learners that "
            "begin at 0; leave it out"
        )
    if max_rows is not None:
        raise InputError(f"{option('max_rows')}: with {what} all rows are replayed; leave it out, or split fewer rows")
