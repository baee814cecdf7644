"""Newton's method by readings, for smooth losses: a reading at one w adds up P, its gradient and its Hessian, and
certifies w; then a step of -H^-1 grad P.

    H = I + sum_i second_derivative_i x_i x_i^T,    a_i = -derivative_i / direction_i,    P(w) - D(a) = 1/2 ||grad P||^2

(Mangasarian, Optim. Methods Softw. 17, 2002; Keerthi, DeCoste, JMLR 6, 2005; where the second derivative jumps, either
of its values).  Nothing is held a row: a is a function of w.  Where features are few, so that H fits into the memory,
some eight readings are enough whatever C is.  Gradients are added up chunk by chunk, and a Gram matrix row by row, each
of its strips by one thread: no bit depends on the number of threads, on the memory or on the blocks.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.memory import Budget
from blocksvm.base.threads import n_processors
from blocksvm.base.vectors import LINE, side_by_side, width_of
from blocksvm.losses import require
from blocksvm.problems.certificate import (
    CERTIFIED,
    REL_GAP,
    Certificate,
    CertificateSums,
    at_their_end,
    certificate_of,
    overflowed,
)
from blocksvm.problems.problem import Problem, problem_settings
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS
from blocksvm.solvers.newton_kernels import PANEL, add_gram, duals_and_curvatures, factorise, half_curvature, solve
from blocksvm.solvers.solver import (
    Capabilities,
    ColumnSolver,
    Method,
    PassResult,
    SavedRun,
    State,
    StateArray,
    Task,
    Visit,
)
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source, first_chunk

NO_GAP = float(np.finfo(np.float64).max)  # the gap of a point that has not been evaluated; checkpoints hold finite ones
SEARCH = VALUE, SLOPE, _ = range(3)  # of each problem: P at the point, its slope along the step, a power of EARLIER
MEASURES = 4  # accuracy, root of the mean squared error, the two factors of a free bias
# Of the curvature that has shortened steps, in the step after the next accepted point.  It is needed where P has
# curvature that the point lacks, as of the squared hinge loss where a plane separates the rows: to a gap of 1e-3
# mushrooms take 20 readings at C = 1 and 83 at C = 100, with nothing kept 109 and more than 200.
EARLIER = 0.25
DECREASE = 1e-4  # c_1 of the Armijo condition (Nocedal, Wright, Numerical Optimization, 2nd ed., sec. 3.1)
IN_A_PANEL = 32  # products that a panel takes in the time of one by itself: 16 within the caches, 60 beyond


class Newton(ColumnSolver):
    """Newton's method with the Armijo condition, of one problem, or of one for each class, of which as many as there is
    memory for are worked on at once, the first that are not at their end: the ``slots``.  State, beside the arrays
    below: hessian (slots p, p): the rows' sum at the trial, p features with the constant one, in whole lines;
    curvature: H of the quadratic model at the point.  w, certified (k, 4), measures: of the point with the smallest gap
    so far, of several problems with the smallest of their largest gaps."""

    name = "newton"
    packed = True
    capabilities = Capabilities(
        certifies=True, minimises=True, warm_starts=True, takes_prior=True, takes_weights=True, free_bias=True,
        in_order=True, default_max_outer=200
    )  # fmt: skip

    def __init__(self, task: Task):
        self.settings = problem_settings(task.settings).resolve(task.settings, self.name)
        for part in ("second_derivative", "conjugate"):
            require(self.settings["loss"], part, self.name)
        source = task.source
        super().__init__(task)
        self.tol = task.tol
        self.fingerprint, self.first_rows = source.fingerprint, source.chunks.first_row
        self.n_columns = source.n_features
        self.order = -(-(source.n_features + 1) // LINE) * LINE
        self.at_once, self.slots = 1, 1  # chunks under way, and Hessians: as the memory is planned
        k, width = self.n_vectors, width_of(self.n_vectors)
        self.additions = len(source.chunks) + int(source.chunks.n_rows.max())
        self.state_arrays: tuple[StateArray, ...] = (
            StateArray("w", "feature", columns=width, in_model=False, in_visits=False),
            StateArray("trial", "feature", columns=width, in_model=False),  # the point that this reading evaluates
            StateArray("gradient", "feature", columns=width, in_model=False),  # w(a) - w0, then that of P at the trial
            StateArray("point", "feature", columns=width, in_model=False, in_visits=False),  # the last one accepted,
            StateArray("before", "feature", columns=width, in_model=False, in_visits=False),  # and its gradient
            StateArray("search", "scalar", k * len(SEARCH), in_model=False, in_visits=False),
            StateArray("sums", "scalar", len(numbers_of(self.problem.sums(side_by_side(k, 1)))), in_model=False),
            StateArray("figures", "scalar", k * len(CERTIFIED), in_model=False),  # of the points evaluated last
            StateArray("certified", "scalar", k * len(CERTIFIED), in_model=False, in_visits=False),
            StateArray("measures", "scalar", MEASURES, in_model=False, in_visits=False),
        )
        self.hot = hot_features(first_chunk(source), self.order)

    def plan_memory(self, budget: Budget, source: Source, saved: Mapping | None = None) -> None:
        """Hessians, as many as half of what is left holds, or as a resumed run had; panels; chunks under way."""
        super().plan_memory(budget, source)
        k, square = self.n_vectors, self.order**2
        slots = max(1, min(k, budget.left // (32 * square)))
        if saved is not None and "hessian" in saved:
            slots = max(1, saved["hessian"][1] // square)
        budget.reserve("Hessians", self.take_slots(slots))
        budget.take("panels", n_processors() * 8 * PANEL * self.hot)
        of_row = 8 * (2 + 5 * k)  # offsets, scores, their errors, a, coefficients, curvatures
        each = 2 * int(source.chunks.n_rows.max()) * of_row + 8 * (source.n_features + 1) * width_of(k)
        self.at_once = max(1, min(2 * n_processors(), budget.left // (8 * each)))
        budget.take("chunks under way", self.at_once * each)

    def take_slots(self, n: int) -> int:
        """Work on so many problems at once; the bytes of their Hessians."""
        self.slots = n
        arrays = tuple(
            StateArray(name, "matrix", n * self.order, columns=self.order, in_model=False, in_visits=name == "hessian")
            for name in ("hessian", "curvature")
        )
        self.state_arrays += arrays
        return sum(array.n_bytes(0, 0) for array in arrays)

    def by_problem(self, state: State, name: str) -> np.ndarray:
        """(k, .): a scalar array."""
        return state[name].reshape(self.n_vectors, -1)

    def live(self, state: State) -> np.ndarray:
        return np.flatnonzero(~at_their_end(self.by_problem(state, "figures"), self.tol)).astype(np.int32)

    def started(self, state: State) -> bool:
        return bool(self.by_problem(state, "figures")[:, REL_GAP].max() < NO_GAP)

    def evaluated(self, state: State) -> np.ndarray:
        """(t,) int32: the problems that this reading evaluates, of which the first ``slots`` have a Hessian: all that
        are live in the first reading; later those whose point has moved, or can move from here on."""
        return self.live(state)[: self.slots if self.started(state) else None]

    def problem_at(self, state: State) -> Problem:
        several = self.n_vectors > 1
        return replace(self.problem, certified=self.by_problem(state, "figures")) if several else self.problem

    def start(self, state: State) -> None:
        for name in ("figures", "certified"):
            self.by_problem(state, name)[:, REL_GAP] = NO_GAP
        self.by_problem(state, "search")[:, VALUE] = NO_GAP
        self.begin_at_prior(self.columns(state, "trial"))

    def warm_start(self, state: State, saved: SavedRun, blocks: Iterable[Block]) -> None:
        trial = state["trial"]
        for space, name in ((self.name, "w"), ("dual-cd", "w"), ("", "weights")):
            n_entries = saved.lengths.get(space, {}).get(name)
            if n_entries is not None:
                break
        vectors = self.columns(state, "trial").T[: self.n_vectors]
        fits = n_entries == (trial.size if space else vectors.size)
        # class after class: where features have been added since, a class's numbers lie elsewhere
        apart = self.n_vectors > 1 and not space and (saved.meta is None or saved.meta.fingerprint != self.fingerprint)
        if not fits or apart:
            starts = f"{self.name} starts from a model of the same features and labels"
            raise InputError(
                f"{saved.name}: holds no weights of {self.n_vectors:,} vectors of these features; {starts}"
            )
        if space:
            saved.load(space, name, trial)
        else:
            weights = np.empty(vectors.shape)
            saved.load(space, name, weights)
            vectors[:] = weights

    def begin_outer(self, state: State) -> None:
        for name in ("gradient", "sums", "hessian"):
            state[name][:] = 0

    def inner_pass(self, block: Block, state: State, visit: Visit, order: np.ndarray) -> PassResult:
        """Add the block's chunks, some at once, while other threads add the Gram matrices of those before them."""
        live = self.evaluated(state)
        first = self.first_rows - (block.rows[0] if block.n_samples else 0)
        bounds = [0, *first[(first > 0) & (first < block.n_samples)].tolist(), block.n_samples]
        parts = [slice(*ends) for ends in zip(bounds[:-1], bounds[1:], strict=True)]
        grams: list[Callable[[], Any]] = []
        for start in range(0, len(parts), self.at_once):
            chunks = map(block.of_rows, parts[start : start + self.at_once])
            some: list[Callable[[], Any]] = [partial(self.chunk_sums, chunk, state, live) for chunk in chunks]
            done = self.threads.map(lambda work: work(), grams + some)[len(grams) :]
            for sums, _, _ in done:
                state["sums"] += numbers_of(sums)
                self.columns(state, "gradient")[:] += sums.rebuilt
            grams = self.gram_tasks([(part, curvatures) for _, part, curvatures in done], state, live)
        self.threads.map(lambda work: work(), grams)
        return PassResult(block.n_samples, block.n_nonzeros, 0.0, True)

    def chunk_sums(self, chunk: Block, state: State, live: np.ndarray) -> tuple[CertificateSums, Block, np.ndarray]:
        """(its sums with its part of w(a) - w0, the chunk, curvatures (slots, n) of its rows) at the trial."""
        trial = self.columns(state, "trial")
        sums = self.sums(state, live, np.zeros_like(trial))
        scores = sums.scores(chunk)
        alpha, curvatures = np.zeros_like(scores), np.zeros_like(scores)
        rows = self.problem.rows(chunk)
        duals_and_curvatures(scores, *rows, self.problem.columns(live), alpha, curvatures)
        sums.add(scores, chunk, alpha)
        return sums, chunk, np.ascontiguousarray(curvatures[:, live[: self.slots]].T)

    def gram_tasks(self, chunks: list[tuple[Block, np.ndarray]], state: State, live: np.ndarray) -> list[Callable]:
        """What adds the chunks, with their curvatures (slots, n), to the Hessians: strips of each by themselves."""
        p, groups = self.order, max(1, min(self.threads.n, self.order // (8 * LINE)))
        hessians = state["hessian"].reshape(self.slots, p * p)

        def add(slot: int, group: int) -> None:
            panel = np.zeros(self.hot * PANEL)
            for chunk, curvatures in chunks:
                add_gram(
                    chunk.entries, curvatures[slot], self.n_columns, self.bias, self.hot, panel, group, groups, p,
                    hessians[slot],
                )  # fmt: skip

        return [partial(add, s, g) for s in range(len(live[: self.slots])) for g in range(groups)]

    def sums(self, state: State, live: np.ndarray, rebuilt: np.ndarray) -> CertificateSums:
        """For a certificate of the ``live`` problems at the trial; rebuilt: w(a) - w0."""
        sums = self.problem_at(state).sums(self.columns(state, "trial").T[: self.n_vectors], self.prior)
        sums.live, sums.rebuilt, sums.additions = live, rebuilt, self.additions
        return sums

    def end_outer(self, state: State, outer: int) -> None:
        """The certificate of the point; then the next one."""
        live, gradient = self.evaluated(state), self.columns(state, "gradient")
        sums = self.sums(state, live, gradient)
        take_numbers(sums, state["sums"])
        certificate = sums.certificate()
        self.by_problem(state, "figures")[:] = certificate.of_each
        self.keep_best(state, certificate)
        gradient[:] = self.columns(state, "trial") - (self.prior if self.prior.size else 0.0) - gradient
        if self.problem.free_bias:
            gradient[-1] -= self.columns(state, "trial")[-1]
        still = set(self.live(state).tolist())
        for slot, c in enumerate(live[: self.slots].tolist()):
            if c in still:
                self.move(state, c, slot)

    def keep_best(self, state: State, certificate: Certificate) -> None:
        """Keep the trial where its gaps are the smallest so far: the largest of them, then their sum."""
        now, best = self.by_problem(state, "figures"), self.by_problem(state, "certified")
        ranks = [(gaps.max(), math.fsum(np.minimum(gaps, 1.0))) for gaps in (now[:, REL_GAP], best[:, REL_GAP])]
        if ranks[0] < ranks[1] or at_their_end(now, self.tol).all():
            best[:] = now
            state["w"][:] = state["trial"]
            measures = certificate.accuracy, certificate.rmse, *(certificate.alpha_factors or (1.0, 1.0))
            state["measures"][:] = [0.0 if one is None else one for one in measures]

    def move(self, state: State, c: int, slot: int) -> None:
        """Accept the trial of problem c, or not, and take a step from the last point that was accepted.  Where P is
        larger at the trial, there is curvature there that the point has not: both are added, and raised until the
        quadratic model is no lower there than P is."""
        gradient, search = self.columns(state, "gradient")[:, c], self.by_problem(state, "search")[c]
        trial, point, before = (self.columns(state, name)[:, c] for name in ("trial", "point", "before"))
        hessian, curvature = (state[of].reshape(self.slots, self.order, -1)[slot] for of in ("hessian", "curvature"))
        primal, _, _, rounding = self.by_problem(state, "figures")[c].tolist()
        value, slope, kept = search.tolist()
        columns = np.append(np.arange(self.n_columns), len(trial) - 1)
        regularise(hessian, self.n_columns, not self.problem.free_bias)
        moved = trial - point
        # where the slope still falls at the trial, P does, whatever was rounded
        if value < NO_GAP and gradient @ moved > 0.0 and primal > value + DECREASE * slope + abs(rounding * primal):
            curvature += hessian
            model = value + slope + half_curvature(curvature, moved[columns])
            if model < primal:
                curvature *= (primal - value - slope) / (model - value - slope)
            kept = 1.0
        else:
            kept *= EARLIER
            curvature *= kept
            curvature += hessian
            point[:], before[:], value = trial, gradient, primal
        moved = newton_step(curvature, before[columns], hessian)
        trial[:] = point
        trial[columns] += moved
        search[:] = value, float(before[columns] @ moved), kept

    def settle(self, state: State, blocks: Callable[[], Iterable[Block]]) -> None:
        """A run that was broken off in its first reading has no point that is certified: evaluate it."""
        if self.started(state):
            return
        self.begin_outer(state)
        for block in blocks():
            self.inner_pass(block, state, Visit({}), np.empty(0, np.int32))
        self.end_outer(state, 1)

    def certificate(self, state: State) -> Certificate:
        """Of the best point; no rows are needed."""
        accuracy, rmse, *factors = state["measures"].tolist()
        predicts, real = self.problem.predicts is not None, self.real_targets
        return certificate_of(
            self.by_problem(state, "certified"), accuracy if predicts else None, rmse if real else None,
            (factors[0], factors[1]) if self.problem.free_bias else None, each=self.n_vectors > 1,
        )  # fmt: skip


def hot_features(chunk: Block, order: int) -> int:
    """How many features go through panels, by what the rows of a chunk would take: none, all, or 8, 64, 512, ... ."""
    sizes = np.diff(chunk.indptr).astype(np.float64)

    def products(hot: int) -> float:
        below = np.append(0, np.cumsum(chunk.matrix[1] < hot))[chunk.indptr]
        dense = chunk.n_samples * float(hot) ** 2 / IN_A_PANEL
        return dense + float((sizes**2 - np.diff(below).astype(np.float64) ** 2).sum())

    return min(0, *(8**e for e in range(1, 10) if 8**e < order - LINE), order, key=products)


def regularise(hessian: np.ndarray, constant: int, of_constant: bool) -> None:
    """Add the Hessian of 1/2 ||w||^2; of_constant: the constant feature's weight is part of it."""
    diagonal = np.einsum("ii->i", hessian)
    rows = diagonal[constant]
    diagonal += 1.0
    if not of_constant and rows > 0.0:
        diagonal[constant] = rows
    if not np.isfinite(diagonal).all():
        raise overflowed()


def newton_step(hessian: np.ndarray, gradient: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """-H^-1 gradient (d,); hessian (p, p): H on its diagonal and right of it; factor (p, p): working space.  H has its
    diagonal scaled to 1, at which Cholesky's method does not mind the features' sizes (Higham, Accuracy and Stability,
    2002, sec. 10.1.1), and which is raised as little as lets it succeed where features are nearly collinear."""
    p, d, raised = len(hessian), len(gradient), 0.0
    scale = 1.0 / np.sqrt(np.einsum("ii->i", hessian))
    while not factorise(hessian, scale, raised, p, factor.reshape(-1)):
        raised = max(4.0 * raised, p * np.finfo(np.float64).eps)
    step = np.zeros(p)
    step[:d] = -gradient * scale[:d]
    solve(factor.reshape(-1), p, step)
    return scale[:d] * step[:d]


def numbers_of(sums: CertificateSums) -> np.ndarray:
    """(m,) float64: what they have added up."""
    return np.concatenate([np.ravel(part) for part in sums.added().values() if part is not None])


def take_numbers(sums: CertificateSums, numbers: np.ndarray) -> None:
    """Add what ``numbers_of`` was of others."""
    parts = {name: part for name, part in sums.added().items() if part is not None}
    each = np.split(numbers, np.cumsum([np.size(part) for part in parts.values()])[:-1])
    sums.merge({name: some.reshape(np.shape(parts[name])) for name, some in zip(parts, each, strict=True)})


METHOD = Method(
    "newton", "Newton's method for smooth losses and few features, to a certified duality gap in some eight readings",
    PROBLEM_SETTINGS, Newton.capabilities, Newton, ("loss",), problem_settings,
)  # fmt: skip
