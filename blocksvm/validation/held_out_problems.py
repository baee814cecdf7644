"""The problems of a cross-validation: for each C and fold the rows of the other folds, all read together.

Problem (C, fold, class) lies at position (number of C * folds + fold) * classes + class, where folds are those that are
trained, and two classes, and real targets, are one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import SETS
from blocksvm.losses import require
from blocksvm.losses.box import Margin
from blocksvm.online.methods import get_method
from blocksvm.problems.certificate import LEAST, CertificateSums
from blocksvm.problems.problem import Problem, Sides, each_against_the_rest, make_problem
from blocksvm.solvers.dual_cd import LARGEST_FACTOR, DualCD
from blocksvm.solvers.newton import Newton
from blocksvm.solvers.solver import Method, Solver, State, StateArray, Task
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source
from blocksvm.validation.folds import Folds

HELD = "held"  # the array of the state
MOST_KINDS = 32_000  # of rows: folds times classes


def whole_of(settings: Mapping, bias: float, source: Source) -> Problem:
    """One fit of all rows at C = 1, which the folds' problems are made of; of two classes, or real targets, one
    problem.  InputError where the rows are none that the loss can be trained on."""
    settings_at_one = dict(settings) | {"C": 1.0, "lam": None}
    if source.label_kind == SETS:
        raise InputError(f"{source.name}: its rows have sets of labels; cross-validation takes one a row")
    loss = require(settings["loss"], "conjugate", "cross-validation")
    real = loss.of_numbers
    if not real and (source.labels is None or not source.labels.binary):
        return each_against_the_rest(settings_at_one, bias, source, 0.0)

    def fill(table: np.ndarray) -> None:
        table[-1] = 1

    return replace(make_problem(settings_at_one, bias, source), sides=Sides(2 if real else 3, 1, fill))


class HeldOutSums(CertificateSums):
    """A certificate's sums; the problem's ``held`` gains, for each row, the decision values by the models of its own
    fold."""

    def add(self, scores: np.ndarray, block: Block, alpha: np.ndarray | None, within: np.ndarray | None = None) -> None:
        super().add(scores, block, alpha, within)
        held, folds = self.problem.held, self.problem.folds
        _, n_C, classes = held.shape
        by_fold = scores.reshape(block.n_samples, n_C, folds.count, classes)
        held[block.rows] = by_fold[np.arange(block.n_samples), :, folds.of_rows[block.rows]]


@dataclass(frozen=True)
class HeldOutProblems(Problem):
    """folds: of all rows; held (n_samples, n_C, classes): takes the decision values of the held-out rows while a
    certificate is taken."""

    folds: Folds | None = None
    held: np.ndarray | None = None

    sums_type = HeldOutSums


def held_out_problems(
    settings: Mapping, path: Sequence[float], folds: Folds, bias: float, source: Source, tol: float
) -> HeldOutProblems:
    """For each C of the path and each fold: trained on the rows of all other folds."""
    whole, count = whole_of(settings, bias, source), folds.count
    loss, kinds, classes = whole.loss, whole.sides.n_kinds - 1, whole.n_problems
    if count * kinds > MOST_KINDS:
        raise InputError(f"{source.name}: {kinds:,} classes are too many for {count} folds; choose fewer folds")
    real = loss.of_numbers
    C = np.array(path)
    k = len(C) * count * classes
    cost = np.einsum("j,f,cs->jfcs", C, np.ones(count), whole.cost).reshape(k, 2)

    def fill(table: np.ndarray) -> None:
        by_fold = table.reshape(count, kinds, len(C), count, classes)
        by_fold[:] = whole.sides.table[:-1, None, None]
        for fold in range(count):
            by_fold[fold, :, :, fold] = 0

    def code(block: Block) -> np.ndarray:
        kinds_of_rows = folds.of_rows[block.rows].astype(np.int16) * np.int16(kinds)
        if real:
            return kinds_of_rows
        return kinds_of_rows + ((block.y + 1) // 2 if kinds == 2 else block.y).astype(np.int16)

    return HeldOutProblems(
        loss, cost, bias, source.n_samples, whole.function, Sides(count * kinds + 1, k, fill), unit=whole.unit, tol=tol,
        kinds=code, folds=folds,
    )  # fmt: skip


class HeldOut(Solver):
    """What a solver of such problems has beside its own."""

    problem: HeldOutProblems
    row_matrices = (HELD,)

    def __init__(self, task: Task, path: Sequence[float], folds: Folds):
        self.path, self.folds, self.previous = path, folds, task.previous
        super().__init__(task)  # type: ignore[call-arg]
        of_a_row = self.n_vectors // folds.count
        self.state_arrays += (StateArray(HELD, "matrix", task.source.n_samples, columns=of_a_row, in_model=False),)

    def held(self, state: State) -> np.ndarray:
        """(n_samples, n_C, classes): the rows' decision values by the models of their own folds, at the last
        certificate."""
        return state[HELD].reshape(len(state[HELD]), len(self.path), -1)

    def problem_at(self, state: State) -> HeldOutProblems:
        return replace(super().problem_at(state), held=self.held(state))

    def stated(self, task: Task) -> HeldOutProblems:
        settings = dict(self.settings)
        if settings["lam"] is not None:
            raise InputError(f"{option('lam')}: cross-validation goes along a path of C; leave it out")
        if settings.get("multiclass") is not None:
            raise InputError(
                f"{option('multiclass')}: cross-validation trains each class against the others; leave it out"
            )
        return held_out_problems(settings, self.path, self.folds, task.bias, task.source, task.tol)


class HeldOutNewton(HeldOut, Newton):
    """``Newton`` on such problems, begun at ``previous``: (w (d + 1, c),), one column for each fold and class."""

    def start(self, state: State) -> None:
        super().start(state)
        if self.previous is not None:
            (w,) = self.previous
            self.columns(state, "trial")[:, : self.n_vectors] = np.tile(w, len(self.path))

    def last(self, state: State) -> tuple:
        """``previous`` for the next part of the path."""
        first = self.n_vectors - self.n_vectors // len(self.path)
        return (self.columns(state, "trial")[:, first : self.n_vectors].copy(),)


class HeldOutCD(HeldOut, DualCD):
    """``DualCD`` on such problems, begun at the end of the path before: columns of ``previous`` (w (d + 1, c),
    alpha (l, c), conjugates (c,), history (3, c), C), one for each fold and class."""

    def start(self, state: State) -> None:
        """A problem at C begins with f C / C' times what its own at C', the last one before, has ended with: all is
        homogeneous in (a, C), since the loss is C times that of C = 1.  f is the best factor, as of a warm start,
        where the conjugates are parabolas: sum_i conjugate(f a_i) = f^2 Q - f B with B = sum a_i."""
        super().start(state)
        if self.previous is None:
            return
        w, alpha, conjugates, history, C = self.previous
        ratios = np.array(self.path) / C
        # of the history f and the root of the ratio of the losses are no larger
        now = self.columns(state, "w"), self.columns(state, "alpha"), self.history(state)
        for before, copies in zip((w, alpha, history), now, strict=True):
            shaped = copies[:, : self.n_vectors].reshape(len(before), len(ratios), -1)  # a view
            np.multiply(before[:, None], ratios[:, None], out=shaped)
        total, sums = (np.outer(ratios, of_each).ravel() for of_each in (alpha.sum(axis=0), conjugates))
        half = quarter = np.zeros_like(sums)
        bounded = True
        if isinstance(self.problem.function, Margin):
            half, quarter = (f * f * (sums + total) - f * total for f in (0.5, 0.25))
            bounded = np.isfinite(self.problem.function.slope)
        largest = np.full_like(sums, 1.0 if bounded else LARGEST_FACTOR)
        self.scale_dual(state, np.stack([sums, half, quarter], axis=1), largest)
        self.history(state)[LEAST] = np.maximum(0.0, -self.duals(state)[1])

    def last(self, state: State) -> tuple:
        """``previous`` for the next part of the path."""
        width = self.n_vectors // len(self.path)
        first = self.n_vectors - width
        w, alpha = (self.columns(state, name)[:, first : self.n_vectors].copy() for name in ("w", "alpha"))
        return w, alpha, state["conjugates"][first:].copy(), self.history(state)[:, first:].copy(), float(self.path[-1])


def held_out_method(solver: str, path: Sequence[float], folds: Folds) -> Method:
    """A solver, of such problems."""
    kind = HeldOutNewton if solver == "newton" else HeldOutCD
    return replace(get_method(solver), make=partial(kind, path=path, folds=folds))
