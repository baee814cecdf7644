"""Regret with more than two classes, by the multi-prototype rule.  Each round is one of two classes: its row has x in
the place of the row's class and -x in that of the highest wrong class s_t, with the label +1.

The scores of a ``ReplayedRun`` are margins <w_y, x> - <w_s, x>, its ||x||^2 are 2 ||x||^2, and the bounds of two
classes hold with R = sqrt(2) max ||x|| (Crammer et al., JMLR 2006, sec. 7).  A fixed u is judged by the margin to the
wrong class that u itself ranks highest.  Its hinge loss there is no smaller than that to s_t, so every bound that grows
with the losses of u holds with these losses, which are those of Crammer and Singer's machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.learners.engine.learner import Learner
from blocksvm.learners.engine.runner import Runner
from blocksvm.learners.rules.exact import ExactLearner
from blocksvm.model.decision_values import pieces_of_values, rows_of_piece
from blocksvm.theory.learner_theory import theory_of
from blocksvm.theory.replay import ReplayedRun, ReplayRows

COMPARED = {"multiclass": "crammer-singer"}  # the solver of the comparators


def check_of_classes(learner: Learner | ExactLearner, max_rows: int | None) -> None:
    """InputError for learners without bounds for several classes, and for settings that are for two."""
    known = theory_of(learner).passive_aggressive or (learner.acts_up_to <= 0.0 and learner.constant is None)
    if not known:
        raise InputError(
            f"{learner.name}: with more than two labels regret is measured of perceptron, pa, pa1 and pa2; choose "
            "one of them, or a store of two"
        )
    if max_rows is not None:
        raise InputError(f"{option('max_rows')}: is for stores of two labels; leave it out")


def margins(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n,): the value of each row's class y (n,) minus the largest other one; values (n, k)."""
    rows = np.arange(len(y))
    others = values.copy()
    others[rows, y] = -np.inf
    return values[rows, y] - others.max(axis=1)


class ClassRows(ReplayRows):
    """``ReplayRows`` of k classes."""

    def scores(self, w: np.ndarray, bias: float) -> np.ndarray:
        """The margins (T,) of w (k * (d + 1),)."""
        vectors = w.reshape(len(self.source.labels.values), -1)
        scores = np.empty(self.source.n_samples)
        for block, order, first in self:
            block_margins = np.empty(block.n_samples)
            for rows, values in pieces_of_values(block.matrix, vectors, bias):
                block_margins[rows] = margins(values.T, block.y[rows])
            scores[first : first + block.n_samples] = block_margins[order]
        return scores


def replay_classes(runner: Runner, rows: ReplayRows, run: ReplayedRun, tell: Callable[[str], None]) -> ReplayedRun:
    """Fill the run's records by one epoch."""
    state = runner.new_state(run.d)
    step = rows_of_piece(runner.n_classes)
    run.y[:] = 1
    for block, order, first in rows:
        for start in range(0, block.n_samples, step):
            part = order[start : start + step]
            values = np.empty((len(part), runner.n_classes))
            runner.learn(block.matrix, block.y, part, run.d, state, scores=values)
            run.scores[first + start : first + start + len(part)] = margins(values, block.y[part])
        run.sq_norms[first : first + block.n_samples] = 2.0 * block.sq_norms[order]
        tell(f"{runner.name}: {first + block.n_samples:,} of {run.T:,} rows")
    if runner.average:
        run.mean_weights = runner.weights(state, np.empty(runner.n_vectors * (run.d + 1)))
    if not np.isfinite(run.scores).all():
        runner.diverged("in the rows learned from")
    return run
