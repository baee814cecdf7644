"""The problems of a cross-validation: for each C and fold the rows of the other folds, all read together.

Problem (C, fold, class) lies at position (number of C * folds + fold) * classes + class, where folds are those that are
trained, and two classes, and real targets, are one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import SETS
from blocksvm.losses import require
from blocksvm.problems.certificate import LEAST, CertificateSums, norms_of
from blocksvm.problems.problem import Problem, Sides, each_against_the_rest, make_problem
from blocksvm.solvers.dual_cd import DualCD
from blocksvm.solvers.newton import Newton
from blocksvm.solvers.solver import Solver, State, StateArray, Task
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
    """What a solver of such problems has beside its own; previous: where the path before has ended."""

    problem: HeldOutProblems
    row_matrices = (HELD,)

    def __init__(self, task: Task, path: Sequence[float], folds: Folds, previous: tuple | None = None):
        self.path, self.folds, self.previous = path, folds, previous
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
        """A problem at C begins with f times what its own at C', the last one before, has ended with.  With f = C / C'
        all is homogeneous in (a, C), since the loss is C times that of C = 1; where the conjugates are parabolas

            D(f a) = f B - f^2 (Q C' / C + 1/2 ||w||^2),    B = sum a_i, Q = sum_i conjugate(a_i) + B,

        is largest at f = B / (2 Q C' / C + ||w||^2), but f a must stay within its bounds."""
        super().start(state)
        if self.previous is None:
            return
        w, alpha, conjugates, history, C = self.previous
        width = w.shape[1]
        parabola = curvature_of(self.problem)
        factors = np.empty((len(self.path), width))
        total, norms = alpha.sum(axis=0), norms_of(w, width)
        for number, C_now in enumerate(self.path):
            columns, ratio = slice(number * width, (number + 1) * width), C_now / C
            factor, curved = np.full(width, ratio), conjugates + total
            if parabola is not None:
                curvature = 2.0 * curved / ratio + norms[:, 0]
                best = np.divide(total, curvature, out=np.full(width, ratio), where=curvature > 0.0)
                # where the conjugates are lines, a is bounded by the cost
                factor = np.clip(best, 0.0, ratio if parabola == 0.0 else None)
                state["conjugates"][columns] = factor * factor * curved / ratio - factor * total
            else:
                state["conjugates"][columns] = ratio * conjugates
            factors[number] = factor
            self.history(state)[:, columns] = ratio * history  # f and the root of the ratio of the losses are no larger
        for before, name in ((w, "w"), (alpha, "alpha")):
            copies = self.columns(state, name)[:, : factors.size].reshape(len(before), *factors.shape)  # a view
            np.multiply(before[:, None], factors, out=copies)
        self.history(state)[LEAST] = np.maximum(0.0, -self.duals(state)[1])

    def last(self, state: State) -> tuple:
        """``previous`` for the next part of the path."""
        width = self.n_vectors // len(self.path)
        first = self.n_vectors - width
        w, alpha = (self.columns(state, name)[:, first : self.n_vectors].copy() for name in ("w", "alpha"))
        return w, alpha, state["conjugates"][first:].copy(), self.history(state)[:, first:].copy(), float(self.path[-1])


def curvature_of(problem: Problem) -> float | None:
    """Of a conjugate that is a parabola, -a and a multiple of a^2: 0 where that is 0, else above; None of any other."""
    if problem.loss.of_numbers:
        return None
    whole, half = (4.0 * (problem.function.conjugate(4.0 * a, 1.0, 4.0) / 4.0 + a) for a in (0.5, 0.25))
    return whole if abs(half - 0.25 * whole) <= 1e-12 else None
