"""The fold in which each row is held out, and the problems of a cross-validation.

A row's fold is a keyed hash of its number in its input, or of its group; a class that this would spread unevenly is
dealt out in equal parts.  For each C and fold a problem has the rows of the other folds, all read together.  Problem
(C, fold, class) lies at position (number of C * folds + fold) * classes + class; two classes, or real targets, are one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import SETS
from blocksvm.base.row_batch import shown_name
from blocksvm.formats.text.text_source import LineLimit, TextInputs
from blocksvm.kernels.shuffle import line_keys, row_keys
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

MOST_FOLDS = 100
PIECE_BYTES = 1 << 18
LONGEST_LINE = 1 << 16  # bytes of a group's name
HELD = "held"  # the array of the state
MOST_KINDS = 32_000  # of rows: folds times classes
SALT = 0x5F01D5  # so that folds have nothing to do with the order of the store


@dataclass(frozen=True)
class Folds:
    of_rows: np.ndarray  # (n_samples,) uint8: the fold of each row, by its position in the source
    count: int


def folds_of(source: Source, count: int, seed: int, groups: str | None = None, real: bool = False) -> Folds:
    """Folds of a source's rows.  groups: a file with a line for each row of the source's input; rows of equal lines are
    held out together; real: labels are numbers.  InputError where the file has another number of lines."""
    of_rows, keys = np.empty(source.n_samples, np.uint8), np.empty(source.n_samples if groups is None else 0, np.uint64)
    classes = np.zeros(len(keys), np.int16)
    key = np.uint64((seed ^ SALT) % 2**64)
    by_input = None if groups is None else _of_groups(groups, count, key)
    wanted = getattr(getattr(source, "meta", None), "source_rows", source.n_samples)
    if by_input is not None and len(by_input) != wanted:
        lines, rows = f"has {len(by_input):,} lines", f"{source.name} was made of {wanted:,} rows"
        raise InputError(f"{shown_name(groups)}: {lines}, and {rows}; {option('groups')} needs one a row")
    for rows, numbers, labels, _ in _records(source):
        if by_input is not None:
            of_rows[rows] = by_input[numbers]
            continue
        row_keys(numbers, key, keys[rows])
        if not real and source.labels is not None:
            classes[rows] = labels + 1
    if by_input is None:
        of_rows[:] = keys % np.uint64(count)
        deal_evenly(of_rows, count, keys, classes)
    return Folds(of_rows, count)


def deal_evenly(of_rows: np.ndarray, count: int, keys: np.ndarray, classes: np.ndarray) -> None:
    """Deal out the rows of each class of which some fold has less than half of its share, in the order of their keys
    and beginning with the fold that has the fewest rows; classes (n,) from 0 on."""
    counts = np.zeros((int(classes.max(initial=0)) + 1, count), np.int64)
    np.add.at(counts, (classes, of_rows), 1)
    uneven = np.flatnonzero(2 * count * counts.min(axis=1) < counts.sum(axis=1))
    sizes = counts.sum(axis=0) - counts[uneven].sum(axis=0)
    for code in uneven.tolist():
        rows = np.flatnonzero(classes == code)
        rows = rows[np.argsort(keys[rows], kind="stable")]
        of_rows[rows] = np.argsort(sizes, kind="stable")[np.arange(len(rows)) % count]
        sizes += np.bincount(of_rows[rows], minlength=count)


def targets_of(source: Source, real: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """(y, weights) (n_samples,) of all rows, as blocks hold them; real: labels are numbers; weights None: all are 1."""
    source = source.reader(real=True) if real else source
    y = np.empty(source.n_samples, source.coding.y_dtype)
    weights = np.empty(source.n_samples) if source.weighted else None
    for rows, _, labels, weight in _records(source):
        y[rows] = labels
        if weights is not None:
            weights[rows] = weight
    return y, weights


def _records(source: Source) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray | None]]:
    """(which rows, their numbers in the input, their y and weights), chunk by chunk; no entry of a row is read."""
    chunks = source.chunks
    for chunk, (first, n) in enumerate(zip(chunks.first_row.tolist(), chunks.n_rows.tolist(), strict=True)):
        rows = slice(first, first + n)
        if source.in_memory:
            yield rows, np.arange(first, first + n), source.y[rows], source.weights[rows] if source.weighted else None
        else:
            records = source.read_rows(chunk)
            weights = records["weight"] if source.weighted else None
            yield rows, records["source"].astype(np.int64), source.coding.y(records["label"]), weights


def _of_groups(name: str, count: int, key: np.uint64) -> np.ndarray:
    """(lines,) uint8: the fold of each line's group."""
    parts = []
    for piece in TextInputs([name]).pieces(PIECE_BYTES, LineLimit(LONGEST_LINE, lambda n_bytes: 4 * n_bytes)):
        keys = np.empty(piece.end, np.uint64)
        n = line_keys(piece.text, piece.end, key, keys)
        parts.append((keys[:n] % np.uint64(count)).astype(np.uint8))
    return np.concatenate(parts) if parts else np.empty(0, np.uint8)


class HeldOutSums(CertificateSums):
    """A certificate's sums; the problem's ``held`` gains each row's decision values by the models of its own fold."""

    def add(self, scores: np.ndarray, block: Block, alpha: np.ndarray | None, within: np.ndarray | None = None) -> None:
        super().add(scores, block, alpha, within)
        held, folds = self.problem.held, self.problem.folds
        _, n_C, classes = held.shape
        by_fold = scores.reshape(block.n_samples, n_C, folds.count, classes)
        held[block.rows] = by_fold[np.arange(block.n_samples), :, folds.of_rows[block.rows]]


@dataclass(frozen=True)
class HeldOutProblems(Problem):
    """folds: of all rows; held (n_samples, n_C, classes): takes their decision values with a certificate."""

    folds: Folds | None = None
    held: np.ndarray | None = None

    sums_type = HeldOutSums


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
        """(n_samples, n_C, classes): decision values by the models of the rows' folds, at the last certificate."""
        return state[HELD].reshape(len(state[HELD]), len(self.path), -1)

    def problem_at(self, state: State) -> HeldOutProblems:
        return replace(super().problem_at(state), held=self.held(state))

    def stated(self, task: Task) -> HeldOutProblems:
        """For each C of the path and each fold: trained on the rows of all other folds."""
        settings = dict(self.settings)
        if settings["lam"] is not None:
            raise InputError(f"{option('lam')}: cross-validation goes along a path of C; leave it out")
        if settings.get("multiclass") is not None:
            together = "cross-validation trains each class against the others"
            raise InputError(f"{option('multiclass')}: {together}; leave it out")
        source, path, folds, bias = task.source, self.path, self.folds, task.bias
        if source.label_kind == SETS:
            raise InputError(f"{source.name}: its rows have sets of labels; cross-validation takes one a row")
        real, count = require(settings["loss"], "conjugate", "cross-validation").of_numbers, folds.count
        # one fit of all rows at C = 1, of which the folds' problems are made; of two classes, or real targets, one
        at_one = settings | {"C": 1.0, "lam": None}
        if not real and (source.labels is None or not source.labels.binary):
            whole = each_against_the_rest(at_one, bias, source, 0.0)
        else:
            sides = Sides(2 if real else 3, 1, lambda table: table[-1].fill(1))
            whole = replace(make_problem(at_one, bias, source), sides=sides)
        kinds, classes = whole.sides.n_kinds - 1, whole.n_problems
        if count * kinds > MOST_KINDS:
            raise InputError(f"{source.name}: {kinds:,} classes are too many for {count} folds; choose fewer folds")
        k = len(path) * count * classes
        cost = np.einsum("j,f,cs->jfcs", np.array(path), np.ones(count), whole.cost).reshape(k, 2)

        def fill(table: np.ndarray) -> None:
            by_fold = table.reshape(count, kinds, len(path), count, classes)
            by_fold[:] = whole.sides.table[:-1, None, None]
            for fold in range(count):
                by_fold[fold, :, :, fold] = 0

        def code(block: Block) -> np.ndarray:
            kinds_of_rows = folds.of_rows[block.rows].astype(np.int16) * np.int16(kinds)
            if real:
                return kinds_of_rows
            return kinds_of_rows + ((block.y + 1) // 2 if kinds == 2 else block.y).astype(np.int16)

        sides = Sides(count * kinds + 1, k, fill)
        return HeldOutProblems(
            whole.loss, cost, bias, source.n_samples, whole.function, sides, unit=whole.unit, tol=task.tol, kinds=code,
            folds=folds,
        )  # fmt: skip


class HeldOutNewton(HeldOut, Newton):
    """Begun at ``previous``: (w (d + 1, c),), one column for each fold and class."""

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
    """Begun at ``previous``: (w (d + 1, c), alpha (l, c), conjugates (c,), history (3, c), C), as ``HeldOutNewton``."""

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
