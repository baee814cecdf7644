"""L-BFGS as a block solver of smooth losses: a reading evaluates P and its gradient at one point, and certifies it.

Rows are read in the order of the source, and added up in that order (row_gradients.py): no bit depends on the number of
threads, on the memory or on the blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import SETS
from blocksvm.base.memory import Budget
from blocksvm.base.vectors import width_of
from blocksvm.losses import require
from blocksvm.problems.certificate import (
    CERTIFIED,
    NOTHING,
    REL_GAP,
    Certificate,
    at_their_end,
    certificate_of,
    certified,
    rounding_of_sums,
    with_bounds,
)
from blocksvm.problems.problem import each_against_the_rest, make_problem, problem_settings
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS
from blocksvm.solvers.lbfgs_kernels import TERMS, add_up, gradient_of, scale_by
from blocksvm.solvers.quasi_newton import PAIRS, SEARCH, Evaluation, Search, SearchArrays, over_features
from blocksvm.solvers.row_gradients import RowGradients
from blocksvm.solvers.solver import (
    Capabilities,
    Method,
    PassResult,
    SavedRun,
    Solver,
    State,
    StateArray,
    Task,
    Visit,
    VisitArray,
)
from blocksvm.sources.block import Block
from blocksvm.sources.source import Source

NO_GAP = float(np.finfo(np.float64).max)  # the gap of a point that has not been evaluated; checkpoints hold finite ones


class LBFGS(Solver):
    """L-BFGS (Nocedal, Wright, Numerical Optimization, 2nd ed., sec. 7.2) of one problem, or of one for each class.

    With a_i = -derivative_i / direction_i no row has a share of the gap, and P(w) - D(a) = 1/2 ||grad P(w)||^2.

    State, of k vectors side by side: trial, the point that this reading evaluates; gradient, w(a) - w0 as the rows are
    added, then that of P there; fresh, its dual variables; point, before: the last point that was accepted, and its
    gradient; scale, pairs, gram: as solvers/lbfgs_kernels.py has them; search (k, .): as ``Search`` has it; sums (2, 7
    k): of the rows' terms, and of what their additions rounded off; counts: rows whose label is predicted, rows with
    one; figures (k, 4): primal, dual, relative gap and its rounding of the points evaluated last.  w, alpha, certified
    (k, 4), measures (accuracy, root of the mean squared error): of the point with the smallest gap so far, of several
    problems with the smallest of their largest gaps."""

    name = "lbfgs"
    needs_output = False
    capabilities = Capabilities(
        certifies=True,
        minimises=True,
        warm_starts=True,
        takes_prior=True,
        takes_weights=True,
        in_order=True,
        default_max_outer=1000,
    )

    def __init__(self, task: Task):
        self.settings = problem_settings(task.settings).resolve(task.settings, self.name)
        loss = require(self.settings["loss"], "second_derivative", self.name)
        require(self.settings["loss"], "conjugate", self.name)
        source, labels = task.source, task.source.labels
        more = source.label_kind == SETS or (labels is not None and not labels.binary)
        self.problem: Any = (
            each_against_the_rest(self.settings, task.bias, source, task.tol)
            if more and not loss.of_numbers
            else make_problem(self.settings, task.bias, source)
        )
        self.fingerprint = source.fingerprint
        self.tol, self.bias, self.real_targets = task.tol, self.problem.bias, self.problem.real
        k = self.n_vectors = self.problem.n_problems
        self.several = k > 1
        self.prior = NOTHING
        width = width_of(k)
        self.state_arrays: tuple[StateArray, ...] = (
            StateArray("w", "feature", columns=width, in_model=False, in_visits=False),
            StateArray("alpha", "row", columns=k, in_visits=False),
            StateArray("trial", "feature", columns=width, in_model=False),
            StateArray("gradient", "feature", columns=width, in_model=False),
            StateArray("fresh", "row", columns=k, in_model=False),
            StateArray("point", "feature", columns=width, in_model=False, in_visits=False),
            StateArray("before", "feature", columns=width, in_model=False, in_visits=False),
            StateArray("scale", "feature", columns=width, in_model=False),
            StateArray("pairs", "feature", columns=2 * PAIRS * k, in_model=False, in_visits=False),
            StateArray("gram", "scalar", k * (2 * PAIRS) ** 2, in_model=False, in_visits=False),
            StateArray("search", "scalar", k * len(SEARCH), in_model=False, in_visits=False),
            StateArray("sums", "scalar", 2 * TERMS * k, in_model=False),
            StateArray("counts", "scalar", 2, np.int64, in_model=False),
            StateArray("figures", "scalar", k * len(CERTIFIED), in_model=False),
            StateArray("certified", "scalar", k * len(CERTIFIED), in_model=False, in_visits=False),
            StateArray("measures", "scalar", 2, in_model=False, in_visits=False),
        )
        self.visit_arrays = VisitArray("terms", copies=TERMS * k), VisitArray("curvatures", copies=k)

    def plan_memory(self, budget: Budget, source: Source) -> None:
        if self.several:
            budget.take("sides of the classes", self.problem.sides.n_bytes)

    def columns(self, state: State, name: str) -> np.ndarray:
        """(d + 1, width): a feature array."""
        return state[name].reshape(len(state[name]), -1)

    def by_problem(self, state: State, name: str) -> np.ndarray:
        """(k, .): a scalar array."""
        return state[name].reshape(self.n_vectors, -1)

    def live(self, state: State) -> np.ndarray:
        """The problems that are not at their end: the points of the others stay."""
        return np.flatnonzero(~at_their_end(self.by_problem(state, "figures"), self.tol))

    def started(self, state: State) -> bool:
        """A point has been evaluated."""
        return bool(self.by_problem(state, "figures")[:, REL_GAP].max() < NO_GAP)

    def start(self, state: State) -> None:
        """At w = 0, or the prior model's weights, which are laid side by side."""
        for name in ("figures", "certified"):
            self.by_problem(state, name)[:, REL_GAP] = NO_GAP
        if self.prior.size:
            prior = self.prior.reshape(self.n_vectors, -1)
            self.prior = np.zeros_like(self.columns(state, "trial"))
            self.prior[:, : self.n_vectors] = prior.T
            self.columns(state, "trial")[:] = self.prior

    def warm_start(self, state: State, saved: SavedRun, blocks: Iterable[Block]) -> None:
        """At the other run's w."""
        trial = state["trial"]
        for space, name in ((self.name, "w"), ("dual-cd", "w"), ("", "weights")):
            n_entries = saved.lengths.get(space, {}).get(name)
            if n_entries is not None:
                break
        vectors = self.columns(state, "trial").T[: self.n_vectors]
        fits = n_entries == (trial.size if space else vectors.size)
        # class after class: where features have been added since, a class's numbers lie elsewhere
        apart = self.several and not space and (saved.meta is None or saved.meta.fingerprint != self.fingerprint)
        if not fits or apart:
            raise InputError(
                f"{saved.name}: holds no weights of {self.n_vectors:,} vectors of these features; lbfgs starts from a "
                "model of the same features and labels"
            )
        if space:
            saved.load(space, name, trial)
        else:
            weights = np.empty(vectors.shape)
            saved.load(space, name, weights)
            vectors[:] = weights

    # -- a reading -----------------------------------------------------------------------------------------------------

    def begin_outer(self, state: State) -> None:
        for name in ("gradient", "sums", "counts", *(() if self.started(state) else ("scale",))):
            state[name][:] = 0

    def inner_pass(self, block: Block, state: State, visit: Visit, order: np.ndarray) -> PassResult:
        """Add the block's rows to the gradient and the sums, in the order of the source."""
        terms, k = visit.arrays["terms"], self.n_vectors
        trial, gradient, scale = (self.columns(state, name) for name in ("trial", "gradient", "scale"))
        diagonal = None if self.started(state) else scale
        rows = RowGradients(self.problem, self.live(state), trial, gradient, diagonal, self.threads)
        state["counts"] += rows.add(
            block, state["fresh"].reshape(-1, k), terms, visit.arrays["curvatures"].reshape(-1, k)
        )
        add_up(terms, *state["sums"].reshape(2, -1))
        return PassResult(block.n_samples, block.n_nonzeros, 0.0, True)

    def end_outer(self, state: State, outer: int) -> None:
        """The gap of the point; then the next one."""
        live, figures = self.live(state), self.by_problem(state, "figures")
        first = not self.started(state)
        totals = state["sums"].reshape(2, -1).sum(axis=0).reshape(-1, TERMS)
        evaluated = {}
        for c in live.tolist():
            if first:
                over_features(self.threads, scale_by, (self.columns(state, "scale"), c))
            trial, point, gradient = (self.columns(state, name) for name in ("trial", "point", "gradient"))
            arguments = trial, point, self.prior, gradient, c
            distance, square, along = over_features(self.threads, gradient_of, arguments, np.zeros(3)).tolist()
            loss, of_rows, magnitude, more, wider, lengths, _ = totals[c].tolist()
            # the gradient is the sum of the rows, one after the other, and what is subtracted from it
            rounded = rounding_of_sums(self.problem.n_samples, lengths)
            rounded += rounding_of_sums(len(trial), math.sqrt(distance))
            terms = loss, of_rows, 0.0, magnitude, more, wider  # what their additions rounded off is in them
            bounds = with_bounds(terms, 0, len(trial), distance, math.sqrt(square), square, rounded)
            figures[c] = certified(*bounds)
            evaluated[c] = Evaluation(bounds.primal, square, along)
        self.keep_best(state, float(totals[0, TERMS - 1]))
        for c in self.live(state).tolist():
            Search(self.search_arrays(state, c), self.threads).move(evaluated[c])

    def keep_best(self, state: State, squared_error: float) -> None:
        """Keep the trial where its gap is the smallest so far."""
        now, best = self.by_problem(state, "figures"), self.by_problem(state, "certified")
        if now[:, REL_GAP].max() < best[:, REL_GAP].max() or at_their_end(now, self.tol).all():
            best[:] = now
            state["w"][:] = state["trial"]
            state["alpha"][:] = state["fresh"]
            right, labelled = state["counts"].tolist()
            state["measures"][:] = right / max(1, labelled), math.sqrt(squared_error / self.problem.n_samples)

    def search_arrays(self, state: State, c: int) -> SearchArrays:
        """What the search of problem c changes."""
        trial, gradient, point, before = (
            self.columns(state, name) for name in ("trial", "gradient", "point", "before")
        )
        scale, pairs = self.columns(state, "scale"), self.columns(state, "pairs")
        gram = self.by_problem(state, "gram")[c].reshape(2 * PAIRS, 2 * PAIRS)
        return SearchArrays(c, trial, gradient, point, before, scale, pairs, gram, self.by_problem(state, "search")[c])

    # -- the result ----------------------------------------------------------------------------------------------------

    def settle(self, state: State, blocks: Callable[[], Iterable[Block]]) -> None:
        """A run that was broken off in its first reading has no point that is certified: evaluate it."""
        if self.started(state):
            return
        self.begin_outer(state)
        for block in blocks():
            visit = Visit({array.name: array.zeros(block.n_samples) for array in self.visit_arrays})
            part = {**state, "fresh": state["fresh"][block.rows]}
            self.inner_pass(block, part, visit, np.arange(block.n_samples, dtype=np.int32))
            state["fresh"][block.rows] = part["fresh"]
        self.end_outer(state, 1)

    def certificate(self, state: State) -> Certificate:
        """Of the best point; no rows are needed."""
        figures = self.by_problem(state, "certified")
        accuracy, rmse = state["measures"].tolist()
        right, error = (None, rmse) if self.real_targets else (accuracy, None)
        return certificate_of(figures, right, error, each=self.several)

    def dual_variables(self, state: State) -> np.ndarray:
        return state["alpha"]

    def weights(self, state: State, out: np.ndarray | None) -> np.ndarray:
        return state["w"].T[: self.n_vectors] if self.several else state["w"]

    def progress(self, state: State) -> dict:
        return {"classes_done": self.n_vectors - len(self.live(state))} if self.several else {}


METHOD = Method(
    "lbfgs",
    "the limited-memory BFGS method for smooth losses, to a certified duality gap",
    PROBLEM_SETTINGS,
    LBFGS.capabilities,
    LBFGS,
    ("loss",),
    problem_settings,
)
