"""The support vector machine with a kernel, in blocks: the dual in alpha alone, the kernel matrix never whole.

    max_a  sum_i a_i - 1/2 sum_ij a_i a_j y_i y_j K(x_i, x_j),     0 <= a_i <= C_i,  with a free bias  sum_i a_i y_i = 0

It keeps every row's score f_i = sum_j a_j y_j K(x_j, x_i).  Before a reading the dual is maximised over some thousand
rows whose kernel matrix is in memory (sequential minimal optimisation; Joachims 1999, chapter 11 of Advances in Kernel
Methods, for the decomposition); while all rows pass by, their scores take in what has changed there, each needing only
its own products with the rows that moved, and those that violate optimality most are copied for the next time.
At the end of a reading scores and dual variables belong together, so that primal and dual are sums over them:

    P - D = sum_i [C_i max(0, 1 - y_i (f_i + b)) + a_i (y_i (f_i + b) - 1)],     b the best one for these scores.

The rows in memory and their matrix are a cache: a row that is chosen again, or for which there is room, stays.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.memory import Budget
from blocksvm.base.settings import Setting
from blocksvm.kernels.kernel_machine_loops import columns_of, kernel_rows, pairs, singles
from blocksvm.kernels.loss_functions import UNIT_ROUNDOFF
from blocksvm.kernels.rows import Entries
from blocksvm.problems.certificate import Certificate
from blocksvm.problems.kernel_problem import (
    KERNEL_SETTINGS,
    Expansion,
    Support,
    certificate_of,
    check_kernel,
    described_kernel,
    errors_of_values,
    function_of,
    known_of_kernel,
)
from blocksvm.problems.problem import make_problem
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS
from blocksvm.solvers.solver import Capabilities, Method, PassResult, Solver, State, StateArray, Task, Visit
from blocksvm.sources.block import Block, joined, rows_of
from blocksvm.sources.source import Source

SETTINGS = PROBLEM_SETTINGS.without("loss") + KERNEL_SETTINGS + (
    Setting("matrix_rows", "rows whose kernel matrix is in memory (default: as many as half of the remaining "
            "memory holds, at most 4096)", kind=int, least=2, metavar="N"),
)  # fmt: skip
# More converge in fewer readings, each of which costs more: on a9a 1,000 take 122 and 4,096 take 23, in the same time.
MOST_ROWS = 4_096
OF_MEMORY = 0.5  # for the rows and their matrix
INNER = 0.1  # of what the rows in memory violate, is left to the next time
WITHIN = 1e-12  # of the margin: nearer to it there is rounding alone
MOST_STEPS = 100  # a row and visit
LEAST_ROWS = 64  # of a piece of work
NO_ROWS = Block(Entries(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0)), np.empty(0), np.empty(0),
                np.empty(0, np.int64), 0)  # fmt: skip


class Candidates:
    """Copies of the rows that violate optimality most: of those whose a y may rise the ones of the largest slopes, and
    of those where it may fall the ones of the smallest, ``most_rows`` of each as far as half of ``most_entries`` holds
    them, in whatever order they come.  standing (3, m): as ``slopes_of`` has it."""

    def __init__(self, most_rows: int, most_entries: int):
        self.most_rows, self.most_entries = most_rows, most_entries
        self.clear()

    def clear(self) -> None:
        self.held, self.standing = NO_ROWS, np.empty((3, 0))
        # of either direction the first row whose entries did not fit, as (rank, row): neither it nor any row
        # behind it can stay, whatever comes or goes before them
        self.barriers = [(np.inf, -1), (np.inf, -1)]

    def add(self, block: Block, chosen: np.ndarray, standing: np.ndarray) -> None:
        # of these alone no others can stay
        best = self._best(standing, block.rows[chosen], block.lengths[chosen])
        if not len(best):
            return
        self.held = joined([self.held, rows_of(block, chosen[best])])
        self.standing = np.append(self.standing, standing[:, best], axis=1)
        if self.held.n_samples > 3 * self.most_rows or self.held.n_nonzeros > self.most_entries:
            self.prune()

    def prune(self) -> None:
        order = self._best(self.standing, self.held.rows, self.held.lengths)
        self.held, self.standing = rows_of(self.held, order), self.standing[:, order]

    def _best(self, standing: np.ndarray, rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Positions of the rows that stay, rising."""
        best = np.zeros(len(rows), bool)
        for k, order in enumerate(by_violation(standing, rows)):
            ranks = standing[0] if k else -standing[0]
            rank, row = self.barriers[k]
            order = order[(ranks[order] < rank) | ((ranks[order] == rank) & (rows[order] < row))][: self.most_rows]
            fitting = max(1, int(np.searchsorted(np.cumsum(lengths[order]), self.most_entries // 2, side="right")))
            if fitting < len(order):
                self.barriers[k] = float(ranks[order[fitting]]), int(rows[order[fitting]])
            best[order[:fitting]] = True
        return np.flatnonzero(best)


def by_violation(standing: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions of rows that may rise by falling slope, and of those that may fall by rising slope; equals in order."""
    slopes, rising, falling = standing[0], np.flatnonzero(standing[1]), np.flatnonzero(standing[2])
    return (rising[np.lexsort((rows[rising], -slopes[rising]))], falling[np.lexsort((rows[falling], slopes[falling]))])


def best_pairs(standing, rows, lengths, most_rows: int, most_entries: int) -> np.ndarray:
    """Positions of the chosen rows: in turn the next one that rises and the next that falls, as long as rows and
    entries fit. The pair that violates optimality most is always among them."""
    rising, falling = by_violation(standing, rows)
    n = max(len(rising), len(falling))
    turns = np.full((n, 2), -1)
    turns[: len(rising), 0], turns[: len(falling), 1] = rising, falling
    in_turn = turns[turns >= 0]
    _, first = np.unique(in_turn, return_index=True)
    chosen = in_turn[np.sort(first)][:most_rows]
    return chosen[: max(2, int(np.searchsorted(np.cumsum(lengths[chosen]), most_entries, side="right")))]


class KernelRows:
    """Rows, held, with their kernel matrix (most_rows, most_rows), of which the first rows and columns count."""

    ROW_BYTES = 3 * 80  # of a row in memory or among twice as many candidates, beside its entries and the matrix
    # copies of an entry at the same time: here, as a candidate, in columns, and while rows are exchanged
    ENTRY_BYTES = 8 * 12

    def __init__(self, n_features: int, most_rows: int, most_entries: int):
        self.n_features, self.most_rows, self.most_entries = n_features, most_rows, most_entries
        self.held, self.matrix = NO_ROWS, np.empty((most_rows, most_rows))

    @staticmethod
    def n_bytes(n_rows: int, n_entries: int) -> int:
        return 8 * n_rows * n_rows + KernelRows.ROW_BYTES * n_rows + KernelRows.ENTRY_BYTES * n_entries

    def columns(self, chosen: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(first, owner, held) of some of the rows (None: all), see kernels/kernel_machine_loops.py."""
        some = self.held if chosen is None else rows_of(self.held, chosen)
        n = some.n_nonzeros
        columns = np.zeros(self.n_features + 2, np.int64), np.empty(n, np.int32), np.empty(n)
        columns_of(*some.matrix, *columns)
        return columns

    def exchange(self, gone: np.ndarray, candidates: Candidates, wanted: np.ndarray) -> np.ndarray:
        """Put some candidates into the positions of the rows that go, and behind the last one; where more go than come,
        the last rows move into what is left.  Returns the positions whose kernel values are to be computed."""
        n, n_new = self.held.n_samples, len(wanted)
        gone = np.sort(gone)
        positions = np.concatenate([gone[:n_new], np.arange(n, n + max(0, n_new - len(gone)))])
        source = np.arange(max(n, n + n_new - len(gone)))  # what comes to each position
        source[positions] = n + np.arange(n_new)
        empty = gone[n_new:]
        if len(empty):
            stay = n - len(empty)
            last = np.setdiff1d(np.arange(stay, n), empty)
            moved = empty[empty < stay]
            source[moved] = last
            source = source[:stay]
            self.matrix[moved] = self.matrix[last]
            self.matrix[:, moved] = self.matrix[:, last]
        self.held = rows_of(joined([self.held, rows_of(candidates.held, wanted)]), source)
        return positions


class KernelMachine(Solver):
    """scores (n,): f without b; sides (n,): y_i C_i; change (n,): what the last visit to the rows in memory added to
    a_i y_i; fresh (n,): the row's score has taken the changes in; position (n,): of a row in memory, else -1; moved: of
    all visits the sums of sum_i |change_i|, of that times their additions, and of 1, by which scores may be rounded."""

    name = "kernel"
    needs_output = True
    n_vectors = 1
    bias = 1.0
    capabilities = Capabilities(
        certifies=True, minimises=True, takes_weights=True, free_bias=True, linear=False, default_max_outer=1000
    )
    state_arrays = (
        StateArray("alpha", "row"),
        StateArray("scores", "row", in_model=False),
        StateArray("sides", "row", in_model=False),
        StateArray("change", "row", in_model=False),
        StateArray("fresh", "row", dtype=np.uint8, in_model=False),
        StateArray("position", "row", dtype=np.int32, in_model=False),
        StateArray("bias", "scalar", 1, in_model=False),
        StateArray("moved", "scalar", 3, in_model=False),
    )

    def __init__(self, task: Task):
        source = task.source
        self.settings = SETTINGS.resolve(task.settings, self.name, known_of_kernel(source))
        problem = make_problem({**self.settings, "loss": "hinge"}, task.bias, source)
        check_kernel(self.settings, source, problem.total_cost)
        self.problem = replace(problem, free_bias=task.free_bias)
        self.width = source.n_features
        self.prior = np.empty(0)
        self.kernel = described_kernel(self.settings)
        self.function = function_of(self.kernel)
        self.constant = 0.0 if task.free_bias else task.bias**2
        self.largest, self.off = errors_of_values(self.settings, source, self.constant)

    def plan_memory(self, budget: Budget, source: Source, saved: Mapping | None = None) -> None:
        """As many rows with their matrix as half of the memory holds."""
        columns = 16 * (source.n_features + 2)  # of the rows in memory, and of those that have moved
        chunk = int(source.chunks.nnz.max())
        mean = source.n_nonzeros / source.n_samples
        sorted_scores = 40 * source.n_samples  # the best bias sorts them
        n_bytes = OF_MEMORY * (budget.left - columns - sorted_scores)
        wanted = self.settings["matrix_rows"]
        most = min(source.n_samples, wanted or MOST_ROWS)
        each = KernelRows.ROW_BYTES + 1.5 * mean * KernelRows.ENTRY_BYTES  # longer rows are chosen, too
        n_bytes -= 2 * chunk * KernelRows.ENTRY_BYTES
        fitting = int((math.sqrt(each * each + 32.0 * max(n_bytes, 0.0)) - each) / 16.0)  # 8 q^2 + each q <= n_bytes
        n_rows = max(2, min(most, fitting)) if wanted is None else most
        n_entries = int(1.5 * mean * n_rows) + 2 * chunk
        need = columns + sorted_scores + KernelRows.n_bytes(n_rows, n_entries)
        budget.reserve("the kernel matrix of some rows", need)
        self.limits = n_rows, n_entries

    def start(self, state: State) -> None:
        state["position"][:] = -1
        self.in_memory = KernelRows(self.width, *self.limits)
        self.candidates = Candidates(*self.limits)

    def resume(self, state: State, blocks: Callable[[], Iterable[Block]]) -> None:
        """The rows in memory, their matrix and the candidates as they were, in one reading."""
        members = np.flatnonzero(state["position"] >= 0)
        if len(members) > self.limits[0]:
            raise InputError("the checkpoint has more rows in memory than there is room for; start afresh")
        copies = Candidates(len(members) + 1, 2 * self.in_memory.most_entries + 2)
        for block in blocks():
            part = {a.name: state[a.name][block.rows] for a in self.state_arrays if a.axis == "row"}
            if not ((part["alpha"] >= 0.0) & (part["alpha"] <= np.abs(self.sides_of(block)))).all():
                raise InputError("the checkpoint holds dual variables beyond their bounds; start afresh")
            chosen = np.flatnonzero(part["position"] >= 0)
            copies.add(block, chosen, np.ones((3, len(chosen))))
            self.gather(block, part, part["fresh"] > 0)
        order = np.argsort(state["position"][copies.held.rows])
        self.fill(self.in_memory.exchange(np.empty(0, np.int64), copies, order))
        self.moved = self.of_moved(state)

    moved: Expansion | None = None  # what the rows that have moved add to scores

    def begin_outer(self, state: State) -> None:
        self.choose(state)
        self.candidates.clear()
        state["fresh"][:] = 0
        state["change"][:] = 0.0
        members = self.in_memory.held.rows
        if len(members):
            sides = state["sides"][members]
            beta = signed(state["alpha"][members], sides)
            scores, before = state["scores"][members], beta.copy()
            maximise = pairs if self.problem.free_bias else singles
            dual = self.in_memory.matrix, len(members), sides, beta, scores
            _, apart = maximise(*dual, np.inf, 0)
            within = max(WITHIN, INNER * apart) if math.isfinite(apart) else WITHIN
            maximise(*dual, within, MOST_STEPS * len(members))
            change = beta - before
            state["alpha"][members], state["change"][members] = np.abs(beta), change
            moved = float(np.abs(change).sum())
            state["moved"] += moved, moved * (2.0 + np.count_nonzero(change)), 1.0
        self.moved = self.of_moved(state)

    def choose(self, state: State) -> None:
        """Take the candidates that violate optimality most into memory, in the place of rows that do not."""
        in_memory, candidates = self.in_memory, self.candidates
        candidates.prune()
        members, lengths, theirs = in_memory.held.rows, in_memory.held.lengths, candidates.held
        standing = slopes_of({name: state[name][members] for name in ("alpha", "scores", "sides")})
        both = np.append(standing, candidates.standing, axis=1), np.append(members, theirs.rows)
        chosen = best_pairs(*both, np.append(lengths, theirs.lengths), in_memory.most_rows, in_memory.most_entries)
        wanted = chosen[chosen >= len(members)] - len(members)
        if len(wanted) == 0:
            return
        # rows in memory that are not chosen go, those farthest from being so first, as far as room is wanted
        slopes, up, down = standing
        beyond = np.where(up * down > 0.0, 0.0, np.abs(slopes - state["bias"][0]))
        spare = np.setdiff1d(np.arange(len(members)), chosen)
        spare = spare[np.lexsort((members[spare], beyond[spare]))][::-1]
        rows = len(members) + len(wanted) - in_memory.most_rows
        entries = int(lengths.sum()) + int(theirs.lengths[wanted].sum()) - in_memory.most_entries
        freed = np.append(0, np.cumsum(lengths[spare]))
        gone = spare[: max(rows, int(np.searchsorted(freed, entries)), 0)]
        state["position"][members[gone]] = -1
        new = in_memory.exchange(gone, candidates, wanted)
        state["position"][in_memory.held.rows] = np.arange(in_memory.held.n_samples, dtype=np.int32)
        self.fill(new)

    def fill(self, new: np.ndarray) -> None:
        """The matrix's rows and columns of these positions."""
        held, matrix, columns = self.in_memory.held, self.in_memory.matrix, self.in_memory.columns()

        def rows(part: slice) -> None:
            work = np.empty(held.n_samples)
            kernel_rows(held.entries, held.sq_norms, new[part], columns, self.function, self.constant, work, matrix)

        self.share_out(len(new), rows)

    def of_moved(self, state: State) -> Expansion | None:
        held = self.in_memory.held
        change = state["change"][held.rows]
        moved = np.flatnonzero(change)
        if not len(moved):
            return None
        return Expansion(self.in_memory.columns(moved), held.sq_norms[moved], change[moved], self.function)

    def inner_pass(self, block: Block, state: State, visit: Visit, order: np.ndarray) -> PassResult:
        """Bring the scores of the block's rows up to date, and gather those that violate optimality most."""
        state["sides"][:] = self.sides_of(block)
        self.update(block, state)
        self.gather(block, state, np.ones(block.n_samples, bool))
        return PassResult(block.n_samples, block.n_nonzeros, 0.0, True)

    def sides_of(self, block: Block) -> np.ndarray:
        """(n,): y_i C_i."""
        y, (below, above) = block.y, self.problem.cost[0]
        sides = np.where(y > 0, above, np.where(y < 0, -below, 0.0))
        return sides if block.weights is None else sides * block.weights

    def update(self, block: Block, state: State) -> None:
        if (moved := self.moved) is not None:

            def add(part: slice) -> None:
                moved.add(block.entries.of_rows(part), block.sq_norms[part], state["scores"][part])

            self.share_out(block.n_samples, add)
            state["scores"] += self.constant * float(moved.coefficients.sum())
        state["fresh"][:] = 1

    def share_out(self, n: int, work: Callable[[slice], None]) -> None:
        """Work on n rows, which do not depend on each other, by all threads."""
        n_parts = min(self.threads.n, max(1, n // LEAST_ROWS))
        bounds = [n * k // n_parts for k in range(n_parts + 1)]
        self.threads.map(work, [slice(*ends) for ends in zip(bounds[:-1], bounds[1:], strict=True)])

    def gather(self, block: Block, part: State, checked: np.ndarray) -> None:
        standing = slopes_of(part)
        positions = np.flatnonzero(standing[1:].any(axis=0) & checked & (part["position"] < 0))
        self.candidates.add(block, positions, standing[:, positions])

    def settle(self, state: State, blocks: Callable[[], Iterable[Block]]) -> None:
        """Bring the scores up to date of the rows that a reading broken off has not come to."""
        if state["fresh"].all():
            return
        for block in blocks():
            part = {name: state[name][block.rows] for name in ("scores", "fresh", "sides")}
            late = part["fresh"] == 0
            if late.any():
                before = part["scores"].copy()
                state["sides"][block.rows] = self.sides_of(block)
                self.update(block, part)
                state["scores"][block.rows] = np.where(late, part["scores"], before)
                state["fresh"][block.rows] = 1

    def certificate(self, state: State) -> Certificate:
        """Of the scores and dual variables at the end of a reading; no rows are needed."""
        # each visit adds up its changes, and that sum to the score
        moved, added, visits = state["moved"].tolist()
        within = moved * self.off + UNIT_ROUNDOFF * (added + moved * visits) * self.largest
        arrays = state["scores"], state["sides"], state["alpha"]
        certificate, bias = certificate_of(self.problem.free_bias, *arrays, within)
        state["bias"][0] = bias
        return certificate

    def dual_variables(self, state: State) -> np.ndarray:
        return state["alpha"]

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        """No feature has a weight of its own; the last entry is b, and what a regularised bias adds to it."""
        assert out is not None
        out[:] = 0.0
        out[-1] = state["bias"][0] + self.constant * float(signed(state["alpha"], state["sides"]).sum())
        return out

    def support(self, state: State, blocks: Callable[[], Iterable[Block]]) -> Support:
        """The rows with a > 0, in the order of the source; the matrix is given back for them."""
        self.in_memory.matrix = np.empty((0, 0))
        alpha, beta = state["alpha"], signed(state["alpha"], state["sides"])
        held = joined([rows_of(block, np.flatnonzero(alpha[block.rows] > 0.0)) for block in blocks()])
        values = np.ones(held.n_nonzeros) if held.values is None else held.values.astype(np.float64)
        assert held.indices is not None  # kernel machines read plain rows
        return Support(held.indptr, held.indices, values, held.sq_norms, beta[held.rows], self.kernel)

    def summary(self, state: State) -> str:
        alpha, cost = state["alpha"], np.abs(state["sides"])
        n, at_bound = int((alpha > 0.0).sum()), int(((alpha > 0.0) & (alpha == cost)).sum())
        return f"{n:,} support vectors, {at_bound:,} of them at the bound"


def signed(alpha: np.ndarray, sides: np.ndarray) -> np.ndarray:
    """a_i y_i."""
    return np.where(sides >= 0.0, alpha, -alpha)


def slopes_of(part: State) -> np.ndarray:
    """(3, m): y - score of rows, and 1 or 0: whether a y may rise, and fall."""
    sides, alpha = part["sides"], part["alpha"]
    positive, more, less = sides > 0.0, alpha < np.abs(sides), alpha > 0.0
    slopes = np.where(positive, 1.0, -1.0) - part["scores"]
    return np.stack([slopes, np.where(positive, more, less), np.where(positive, less, more)])


METHOD = Method(
    "kernel", "the support vector machine with a kernel: sequential minimal optimisation in blocks, certified",
    SETTINGS, KernelMachine.capabilities, KernelMachine,
)  # fmt: skip
