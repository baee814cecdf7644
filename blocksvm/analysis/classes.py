"""Regret with more than two classes, by the multi-prototype rule: each round is one of two classes, whose row has x
in the place of the row's class and -x in that of the wrong class s_t ranked highest, with the label +1.

So the scores of a ``Run`` are the margins <w_y, x> - <w_s, x>, its ||x||^2 are 2 ||x||^2, and what is proven of two
classes holds with R = sqrt(2) max ||x|| (Crammer et al., JMLR 2006, sec. 7).  A fixed u is judged by the margin to
the wrong class that it ranks highest itself, whose hinge loss is no smaller than that to s_t: so every bound that
grows with the losses of u holds with these, too, which are those of Crammer and Singer's machine.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.analysis.learner_theory import theory_of
from blocksvm.analysis.replay import Rows, Run
from blocksvm.errors import InputError, called
from blocksvm.learners.exact import ExactLearner
from blocksvm.learners.protocol import Learner
from blocksvm.learners.runner import Runner
from blocksvm.model.values import pieces_of_values, rows_of_piece

COMPARED = {"multiclass": "crammer-singer"}  # the solver of the comparators


def check_of_classes(learner: Learner | ExactLearner, max_rows: int | None) -> None:
    """InputError for learners whose bounds say nothing of several classes, and for settings that are for two."""
    known = theory_of(learner).passive_aggressive or (learner.acts_up_to <= 0.0 and learner.constant is None)
    if not known:
        raise InputError(
            f"{learner.name}: with more than two labels regret is measured of perceptron, pa, pa1 and pa2; choose "
            "one of them, or a store of two"
        )
    if max_rows is not None:
        raise InputError(f"{called('max_rows')}: is for stores of two labels; leave it out")


def margins(values: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n,): how far the value of each row's class y (n,) lies above the largest other one; values (n, k)."""
    rows = np.arange(len(y))
    others = values.copy()
    others[rows, y] = -np.inf
    return values[rows, y] - others.max(axis=1)


class ClassRows(Rows):
    """``Rows`` of k classes."""

    def scores(self, w: np.ndarray, bias: float) -> np.ndarray:
        """The margins (T,) of w (k * (d + 1),)."""
        vectors = w.reshape(len(self.source.labels.values), -1)
        found = np.empty(self.source.n_samples)
        for block, order, first in self:
            own = np.empty(block.n_samples)
            for rows, values in pieces_of_values(block.matrix, vectors, bias):
                own[rows] = margins(values.T, block.y[rows])
            found[first : first + block.n_samples] = own[order]
        return found


def replay_classes(runner: Runner, rows: Rows, run: Run, tell: Callable[[str], None]) -> Run:
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
