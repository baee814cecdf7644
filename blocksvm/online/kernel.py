"""kernel-perceptron, kernel-pa, kernel-pa1, kernel-pa2: the perceptron and passive-aggressive learners with a kernel.

    w = sum_i a_i phi(x_i),  <w, phi(x)> = sum_i a_i K(x_i, x):  Freund, Schapire, Machine Learning 1999 (perceptron);
    Crammer et al., JMLR 2006, sec. 9 (Passive-Aggressive)

With a budget of N support vectors, a row that cannot be added, or that lies in the span of the others, is projected on
it (the projectron: Orabona, Keshet, Caputo, JMLR 2009).  The step is the best one within the span: the projection's
squared length replaces ||phi(x)||^2 (budgeted PA: Wang, Vucetic, AISTATS 2010, sec. 3).  N^2 operations a step.

A constant feature of value B makes K(x, z) + B^2 of K.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.memory import Budget, megabytes
from blocksvm.base.settings import Setting, Settings
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.kernel_machine_loops import columns_of, kernel_value, products_with
from blocksvm.kernels.rows import value_at
from blocksvm.online.learner import STEP, WEIGHTS, C, Learner
from blocksvm.online.loops import EVEN, LOSS_SUM, ROWS, importance_of, note
from blocksvm.online.rules.passive_aggressive import PA, PA1, PA2
from blocksvm.online.rules.perceptron import PERCEPTRON
from blocksvm.online.runner import known_of
from blocksvm.online.solver import RowSolver, factors_by_code, require_two_classes
from blocksvm.problems.kernel_problem import (
    KERNEL_SETTINGS,
    Expansion,
    Support,
    check_kernel,
    described_kernel,
    function_of,
    known_of_kernel,
)
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS
from blocksvm.solvers.solver import Capabilities, Method, State, StateArray, Task
from blocksvm.sources.block import Block, joined, rows_of
from blocksvm.sources.source import Source

SHARED = KERNEL_SETTINGS + (
    Setting("budget", "most support vectors, on which further rows are projected (default: as many as the memory "
            "holds)", kind=int, least=1, metavar="N"),
    PROBLEM_SETTINGS["class_weight"],
)  # fmt: skip
OF_MEMORY = 0.5  # share of the support vectors in the memory left for them and the blocks
LONGER = 4.0  # largest mean length of the support vectors of a budget, in mean lengths of a row
COEFFICIENTS, POSITIONS = "coefficients", "positions"
HELD, IN_COLUMNS = range(2)  # entries of sizes: support vectors; how many of them are in columns
# A row is in the span of the support vectors if its squared distance to it is at most this fraction of its squared
# length: the distance is below the square root of the rounding of its projection.
IN_SPAN = 1e-10
# bytes of a support vector without its entries: ends, norm, coefficient, row, three numbers of scratch
ROW_BYTES = 7 * 8
ENTRY_BYTES = 2 * (4 + 8)  # an entry is stored by row and by column
LEAST_LOOSE = 256  # so few entries in no columns are not worth sorting


@inlined
def products_with_others(indptr, indices, values, i, ends, sv_indices, sv_values, begin, end, dense, out):
    """``out[p]`` = the inner product of row i with support vector p, begin <= p < end, which are in no columns; dense
    (d,) zeros, and zeros again at the end."""
    if begin == end:
        return
    for k in range(indptr[i], indptr[i + 1]):
        dense[indices[k]] = value_at(values, k)
    for p in range(begin, end):
        # the same bits as products_with: its terms in their order, and zeros
        total = 0.0
        for k in range(ends[p], ends[p + 1]):
            total += dense[sv_indices[k]] * sv_values[k]
        out[p] = total
    for k in range(indptr[i], indptr[i + 1]):
        dense[indices[k]] = 0.0


@inlined
def into_span(factor, n, values, out):
    """Solves L out = values, of the first n rows of the kernel matrix's Cholesky factor L; returns ||out||^2, which is
    the squared length of the projection of a row with these kernel values on their span."""
    total = 0.0
    for p in range(n):
        residual = values[p]
        for m in range(p):
            residual -= factor[p, m] * out[m]
        out[p] = residual / factor[p, p]
        total += out[p] * out[p]
    return total


@inlined
def add_projection(factor, n, step, solved, coefficients):
    """``coefficients += step d`` with L'd = solved: sum_p d_p phi(z_p) is the projection; overwrites ``solved``."""
    for p in range(n - 1, -1, -1):
        d = solved[p] / factor[p, p]
        coefficients[p] += step * d
        for m in range(p):
            solved[m] -= factor[p, m] * d


@inlined
def extend_factor(factor, n, solved, sq_distance):
    """Append the factor's row n: of a row with ``solved`` from ``into_span``, at this squared distance to the span."""
    for m in range(n):
        factor[n, m] = solved[m]
    factor[n, n] = np.sqrt(sq_distance)


@kernel
def learn_by_support(
    indptr, indices, values, sq_norms, rows, y, weights, order, ends, sv_indices, sv_values, norms, coefficients,
    sv_rows, first, owner, held, sizes, positions, factor, kind, gamma, coef0, degree, constant, on_mistakes, most,
    slack, budget, most_loose, dense, products, solved, tally,
):  # fmt: skip
    """Predict each row of ``order``, then learn from it.  Returns how many rows were, fewer than all if the arrays of
    the support vectors are full, or those in no columns have more than ``most_loose`` entries.

    w = sum_p coefficients[p] phi(z_p), <phi(x), phi(z)> = K(x, z) + constant.  A step is w += tau y phi(x), with

        on mistakes     y z <= 0:  tau = most                               (z = <w, phi(x)>)
        else            l = 1 - y z > 0:  tau = min(most, l / (q + slack)),  q = ||phi(x)||^2

    most and 1 / slack times the row's importance.

    Support vector p < sizes[HELD] is row sv_rows[p] of the source; its entries are ends[p] .. ends[p + 1] - 1 of
    (sv_indices, sv_values), its squared norm norms[p].  The first sizes[IN_COLUMNS] are in columns
    (first, owner, held), too, see kernels/kernel_machine_loops.py.  positions (n_samples,) int32: 1 + p of each row of
    the source, 0 for no support vector.  factor (budget, budget): the Cholesky factor of the kernel matrix of the
    support vectors, if rows are projected on their span, else (0, 0).  dense (d,) zeros; products, solved: scratch.
    """
    for r in range(order.shape[0]):
        i = order[r]
        n = sizes[HELD]
        start, stop = indptr[i], indptr[i + 1]
        position = positions[rows[i]] - 1
        projects = factor.shape[0] > 0
        full = projects and n == budget
        if position < 0 and not full and (n == len(norms) or ends[n] + stop - start > len(sv_values)):
            return r
        if ends[n] - ends[sizes[IN_COLUMNS]] > most_loose:
            return r
        products_with(indptr, indices, values, i, first, owner, held, products[: sizes[IN_COLUMNS]])
        products_with_others(
            indptr, indices, values, i, ends, sv_indices, sv_values, sizes[IN_COLUMNS], n, dense, products
        )
        z = 0.0
        for p in range(n):
            products[p] = kernel_value(products[p], sq_norms[i], norms[p], kind, gamma, coef0, degree) + constant
            z += coefficients[p] * products[p]
        label = float(y[i])
        loss = 1.0 - label * z
        if loss < 0.0:  # not max(0, .), which hides that z is no number
            loss = 0.0
        importance = importance_of(weights, i)
        mistake = label * z <= 0.0
        note(tally, importance * loss, 1.0 if mistake else 0.0, mistake, True, z, label, stop - start)
        if importance <= 0.0 or not (mistake if on_mistakes else loss > 0.0):
            continue
        q = kernel_value(sq_norms[i], sq_norms[i], sq_norms[i], kind, gamma, coef0, degree) + constant
        sq_distance = q
        if projects and position < 0:
            span = into_span(factor, n, products, solved)
            sq_distance = q - span
            if full or sq_distance <= IN_SPAN * q:
                q = span
                sq_distance = 0.0
        if q <= 0.0:
            continue
        step = most * importance
        if not on_mistakes:
            step = min(step, loss / (q + slack / importance))
        step *= label
        if position >= 0:
            coefficients[position] += step
        elif sq_distance == 0.0:
            add_projection(factor, n, step, solved, coefficients)
        else:
            if projects:
                extend_factor(factor, n, solved, sq_distance)
            for k in range(start, stop):
                sv_indices[ends[n] + k - start] = indices[k]
                sv_values[ends[n] + k - start] = value_at(values, k)
            ends[n + 1] = ends[n] + stop - start
            norms[n] = sq_norms[i]
            coefficients[n] = step
            sv_rows[n] = rows[i]
            positions[rows[i]] = n + 1
            sizes[HELD] = n + 1
    return order.shape[0]


@kernel
def factorise(ends, sv_indices, sv_values, norms, n, first, owner, held, kind, gamma, coef0, degree, constant,
                products, solved, factor):  # fmt: skip
    """Compute the Cholesky factor of n support vectors, all in columns: the same bits as when it grew row by row."""
    for p in range(n):
        products_with(ends, sv_indices, sv_values, p, first, owner, held, products[:n])
        for m in range(p):
            products[m] = kernel_value(products[m], norms[p], norms[m], kind, gamma, coef0, degree) + constant
        q = kernel_value(norms[p], norms[p], norms[p], kind, gamma, coef0, degree) + constant
        extend_factor(factor, p, solved, q - into_span(factor, p, products, solved))


class SupportVectors:
    """Up to ``most_rows`` rows with up to ``most_entries`` entries of ``n_features`` features.  by_row (n_samples,)
    int32, zeros: ``positions``, of each row of the source among them, see ``learn_by_support``.  projected: with the
    Cholesky factor of their kernel matrix.

    The arrays have their full length from the start; the system gives memory only to pages that are written.
    """

    def __init__(self, n_features: int, most_rows: int, most_entries: int, projected: bool, by_row: np.ndarray):
        self.positions = by_row
        self.sizes = np.zeros(2, np.int64)
        self.ends = np.zeros(most_rows + 1, np.int64)
        self.indices, self.values = np.empty(most_entries, np.int32), np.empty(most_entries)
        self.norms, self.coefficients = np.empty(most_rows), np.empty(most_rows)
        self.rows = np.empty(most_rows, np.int64)
        self.columns = np.zeros(n_features + 2, np.int64), np.empty(most_entries, np.int32), np.empty(most_entries)
        self.dense = np.zeros(n_features)
        self.products, self.solved = np.empty(most_rows), np.empty(most_rows)
        self.factor = np.empty((most_rows, most_rows) if projected else (0, 0))

    @staticmethod
    def n_bytes(n_features: int, n_rows: int, n_entries: int, projected: bool) -> int:
        square = 8 * n_rows * n_rows if projected else 0
        return 16 * (n_features + 2) + ROW_BYTES * (n_rows + 1) + ENTRY_BYTES * n_entries + square

    def __len__(self) -> int:
        return int(self.sizes[HELD])

    @property
    def arrays(self) -> tuple:
        """The arguments of ``learn_by_support`` after the rows."""
        rows = self.ends, self.indices, self.values, self.norms, self.coefficients, self.rows
        return (*rows, *self.columns, self.sizes, self.positions, self.factor)

    @property
    def most_loose(self) -> int:
        """How many entries in no columns are not worth sorting: their cost for later rows balances that of a sort."""
        n = int(self.sizes[IN_COLUMNS])
        length = self.ends[n] / max(1, n)
        return max(LEAST_LOOSE, int(math.sqrt((len(self.dense) + float(self.ends[n])) * length)))

    def sort(self) -> None:
        n = len(self)
        self.columns[0][:] = 0
        columns_of(self.ends[: n + 1], self.indices, self.values, *self.columns)
        self.sizes[IN_COLUMNS] = n

    def require_capacity(self, length: int) -> None:
        """Raise InputError where one more support vector, of ``length`` entries, does not fit after ``sort``."""
        n = len(self)
        if n == len(self.norms) or self.ends[n] + length > len(self.values):
            n_bytes = self.n_bytes(len(self.dense), n, int(self.ends[n]), len(self.factor) > 0)
            raise InputError(
                f"{n:,} support vectors take {megabytes(n_bytes)}, all of the memory for them; raise "
                f"{option('memory')}, or lower {option('budget')}"
            )

    def expansion(self, function: tuple) -> Expansion:
        """The kernel expansion that predicts; valid until the next row is learned from."""
        self.sort()
        n = len(self)
        return Expansion(self.columns, self.norms[:n], self.coefficients[:n], function)

    def support(self, kernel: dict) -> Support:
        self.sort()
        n, nnz = len(self), int(self.ends[len(self)])
        rows = self.ends[: n + 1], self.indices[:nnz], self.values[:nnz]
        return Support(*rows, self.norms[:n], self.coefficients[:n], kernel)

    def restore(self, by_row: np.ndarray, blocks: Callable[[], Iterable[Block]], function: tuple, constant: float):
        """Restore the support vectors from ``positions`` and a checkpoint's coefficients, in one reading of rows."""
        held = joined([rows_of(one, np.flatnonzero(self.positions[one.rows] > 0)) for one in blocks()])
        n = held.n_samples
        if n > len(self.norms) or held.n_nonzeros > len(self.values):
            raise InputError("the checkpoint has more support vectors than there is memory for; start afresh")
        held = rows_of(held, np.argsort(self.positions[held.rows]))
        indptr, indices, values = held.matrix
        self.ends[1 : n + 1], self.indices[: len(indices)] = indptr[1:], indices
        self.values[: len(indices)] = 1.0 if values is None else values
        self.norms[:n], self.rows[:n] = held.sq_norms, held.rows
        self.coefficients[:n] = by_row[self.rows[:n]]
        self.positions[self.rows[:n]] = np.arange(1, n + 1, dtype=np.int32)
        self.sizes[:] = n
        self.sort()
        if len(self.factor):
            factorise(*self.arrays[:4], n, *self.columns, *function, constant, self.products, self.solved, self.factor)


class KernelOnlineSolver(RowSolver):
    """The ``Solver`` of a learner of features, with a kernel.

    State: for each row of the source, positions (0: no support vector, else 1 + its position by age) and coefficients.
    The rows of the support vectors are in ``vectors``, not in the state.
    """

    bias = 1.0
    state_arrays = (
        *RowSolver.counts,
        StateArray(POSITIONS, "row", dtype=np.int32, in_model=False, in_visits=False),
        StateArray(COEFFICIENTS, "row", in_model=False, in_visits=False),
    )

    def __init__(self, learner: Learner, capabilities: Capabilities, task: Task):
        source = task.source
        self.learner, self.name, self.capabilities = learner, learner.name, capabilities
        require_two_classes(source, self.name)
        known_of(source, task.bias)  # refuses rows that are too long
        self.factors = factors_by_code(task, learner)
        self.settings = learner.settings.resolve(task.settings, self.name, known_of_kernel(source))
        check_kernel(self.settings, source, 1.0)
        self.projects = self.settings["budget"] is not None
        self.function = function_of(described_kernel(self.settings))
        self.constant = task.bias**2
        self.on_mistakes = learner.acts_up_to <= 0.0

    def plan_memory(self, budget: Budget, source: Source, saved: Mapping | None = None) -> None:
        """Reserve memory for the support vectors: for as many as the budget has, or as half of the memory holds."""
        n, wanted = source.n_samples, self.settings["budget"]
        longest = int(source.chunks.nnz.max())  # no row is longer than its chunk
        if wanted is None:
            self.most_rows, most_entries = n + 1, source.n_nonzeros + longest
        else:
            self.most_rows = min(n, wanted)
            by_mean = int(LONGER * self.most_rows * source.n_nonzeros / n) + 2 * longest
            most_entries = min(self.most_rows * longest, by_mean, 2 * source.n_nonzeros + longest)
        bytes_of = partial(SupportVectors.n_bytes, source.n_features, self.most_rows, projected=self.projects)
        budget.require("support vectors", bytes_of(min(most_entries, longest)))
        left = OF_MEMORY * budget.left - bytes_of(0)
        self.most_entries = int(min(most_entries, max(longest, left / (bytes_of(1) - bytes_of(0)))))
        budget.take("support vectors", bytes_of(self.most_entries))
        self.n_features = source.n_features

    def start(self, state: State) -> None:
        super().start(state)
        sizes = self.n_features, self.most_rows, self.most_entries
        self.vectors = SupportVectors(*sizes, self.projects, state[POSITIONS])
        self.by_row = state[COEFFICIENTS]

    def resume(self, state: State, blocks: Callable[[], Iterable[Block]]) -> None:
        self.vectors.restore(self.by_row, blocks, self.function, self.constant)

    def learn(self, block: Block, weights: np.ndarray | None, order: np.ndarray, state: State) -> Iterator[int]:
        tally, vectors, done = state["tally"], self.vectors, 0
        rows = *block.matrix, block.sq_norms, block.rows, block.y, EVEN if weights is None else weights
        numbers, budget = self.learner.rule.numbers(self.settings), self.settings["budget"] or self.most_rows
        while done < len(order):
            seen = int(tally[ROWS])
            part = order[done : done + (1 << seen.bit_length()) - seen]  # up to where progress is reported
            learned = learn_by_support(
                *rows, part, *vectors.arrays, *self.function, self.constant, self.on_mistakes, numbers["most"],
                numbers["slack"], budget, vectors.most_loose, vectors.dense, vectors.products, vectors.solved, tally,
            )  # fmt: skip
            done += learned
            if learned == len(part):
                yield int(tally[ROWS])
                continue
            vectors.sort()
            i = part[learned]
            if vectors.positions[block.rows[i]] == 0 and not (self.projects and len(vectors) == budget):
                vectors.require_capacity(int(block.indptr[i + 1] - block.indptr[i]))
        n = len(vectors)
        if not (math.isfinite(tally[LOSS_SUM]) and np.isfinite(vectors.coefficients[:n]).all()):
            raise InputError(f"{self.name}: its weights overflowed; scale the rows to norm 1")
        self.by_row[vectors.rows[:n]] = vectors.coefficients[:n]  # for a checkpoint

    def weights(self, state: State, out: np.ndarray) -> np.ndarray:
        """0 for every feature; the last entry is the share of the constant feature."""
        out[:] = 0.0
        out[-1] = self.constant * float(self.vectors.coefficients[: len(self.vectors)].sum())
        return out

    def completion(self, state: State) -> Expansion:
        return self.vectors.expansion(self.function)

    def support(self, state: State, blocks: Callable[[], Iterable[Block]]) -> Support:
        return self.vectors.support(described_kernel(self.settings))

    def summary(self, state: State) -> str:
        n, budget = len(self.vectors), self.settings["budget"]
        summary = f"{n:,} support vectors" + ("" if budget is None else f" of at most {budget:,}")
        if self.finished(state):
            summary += "; the last epoch made no mistake: the rows are separable with this kernel"
        return summary


def with_kernel(plain: Learner, summary: str, *settings: Setting, **more) -> Method:
    """The method of a learner of features with a kernel; settings: that it has beside ``SHARED``."""
    learner = plain.like(f"kernel-{plain.name}", summary, settings=Settings(settings) + SHARED, **more)
    capabilities = Capabilities(predicts_first=True, takes_weights=WEIGHTS in learner.takes, linear=False)
    make = partial(KernelOnlineSolver, learner, capabilities)
    return Method(learner.name, learner.summary, learner.settings, capabilities, make)


KERNEL_PERCEPTRON = with_kernel(
    PERCEPTRON, "the perceptron with a kernel", STEP, numbers=lambda settings: {"most": settings["step"], "slack": 0.0}
)
KERNEL_PA = with_kernel(PA, "passive-aggressive with a kernel")
KERNEL_PA1 = with_kernel(PA1, "passive-aggressive with a kernel, steps cut off at C", C)
KERNEL_PA2 = with_kernel(PA2, "passive-aggressive with a kernel, steps softened by 1 / (2C)", C)
