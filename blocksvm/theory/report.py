"""The regret of a learner on a store, and its bounds: the replay, the comparators and the bounds put together."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, NamedTuple, Unpack

import numpy as np

from blocksvm.api import WithCost
from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import SETS, refuse_weights
from blocksvm.base.memory import Budget
from blocksvm.base.settings import plain
from blocksvm.base.user_code import by_user
from blocksvm.losses import require
from blocksvm.online import LEARNERS, get_learner
from blocksvm.online.exact import EXACT, ExactSolver
from blocksvm.online.learner import NO_TARGETS, NUMBERS
from blocksvm.online.runner import Runner
from blocksvm.online.solver import method_of
from blocksvm.problems.problem import require_two_labels
from blocksvm.solvers.solver import Task
from blocksvm.sources.source import Source, largest_chunk_bytes
from blocksvm.theory.bounds import QUANTITIES, Bound, bounds_of
from blocksvm.theory.comparators import VECTORS, Comparator, FixedWeights, comparators
from blocksvm.theory.rows import SEVERAL, ReplayRows, check_task, in_memory, log_spaced, task_of
from blocksvm.theory.run import MOST_STEPS, RECORD_BYTES, Run, learner_bytes, replay
from blocksvm.theory.settings import MAX_ROWS, REPLAY

SHOWN = "name", "source", "statement", "quantity", "remark", "proven"  # of a bound, in a report
ROUNDING = 1e-8  # what a bound may be exceeded by, relatively, since sums are rounded


class Check(NamedTuple):
    """An assumption of a bound: its text, whether it is met, and the offending figures."""

    text: str
    met: bool
    found: str = ""


@dataclass(frozen=True)
class Judged:
    """A bound on this run.  applies: all assumptions are met; measured, right (K,): the quantity and its bound, both of
    the regret against the best comparator where the bound is on the regret; by: the name of the comparator with the
    least bound, at each time; violated: measured above the bound by more than rounding, which shows a defect."""

    bound: Bound
    checks: list[Check]
    measured: np.ndarray
    right: np.ndarray
    by: list[str]
    violated: bool = False

    @property
    def applies(self) -> bool:
        return len(self.by) > 0

    def failures(self) -> str:
        failed = [f"{c.text} fails{f' ({c.found})' if c.found else ''}" for c in self.checks if not c.met]
        return "; ".join(failed)

    def described(self, times: list[int]) -> dict:
        return {
            **{name: getattr(self.bound, name) for name in SHOWN}, "applies": self.applies, "violated": self.violated,
            "assumptions": [check._asdict() for check in self.checks],
            "table": [{"t": t, "measured": float(a), "bound": plain(float(b)), "comparator": by}
                      for t, a, b, by in zip(times, self.measured, self.right, self.by, strict=False)],
        }  # fmt: skip


@dataclass(frozen=True)
class RegretReport:
    """The regret and its bounds.  best: the comparator of least loss on all rows; least (K,): the least loss of any
    comparator on the rows so far; notes: sentences for the reader; gap_in_ball: of learners in a ball, how far the loss
    of best is from the least in it at most, relatively."""

    run: Run
    comparators: list[Comparator]
    best: Comparator
    least: np.ndarray
    bounds: list[Judged]
    notes: list[str]
    memory: dict[str, int]
    mean: Comparator | None = None

    @property
    def gap_in_ball(self) -> float | None:
        loss, floor = float(self.best.judged[-1]), max(u.floor for u in self.comparators)
        return max(0.0, loss - max(0.0, floor)) / loss if floor > -math.inf and loss > 0.0 else None

    @property
    def regret(self) -> np.ndarray:
        return self.run.judged - self.best.judged

    def table(self) -> list[dict]:
        run, regret = self.run, self.regret
        return [
            {"t": int(t), "loss": float(run.judged[k]), "mistakes": int(run.mistakes[k]),
             "comparator_loss": float(self.best.judged[k]), "least_loss": float(self.least[k]),
             "regret": float(regret[k]), "regret_per_sqrt_t": float(regret[k]) / math.sqrt(t)}
            for k, t in enumerate(run.times.tolist())
        ]  # fmt: skip

    def described(self) -> dict:
        """Everything as plain numbers and strings."""
        run = self.run
        return {
            "learner": run.name, "settings": plain(run.settings), "loss": run.judging.name, "rows": run.T,
            "batch": run.batch, "features": run.d, "loss_sum": float(run.judged[-1]),
            "mistakes": int(run.mistakes[-1]), "regret": float(self.regret[-1]), "comparator": self.best.name,
            "comparator_gap_in_ball": self.gap_in_ball, "notes": self.notes, "table": self.table(),
            "comparators": [_comparator(u) for u in self.comparators],
            "bounds": [judged.described(run.times.tolist()) for judged in self.bounds], "memory": self.memory,
        } | ({} if self.mean is None else {"mean_of_weights": _comparator(self.mean)})  # fmt: skip


def _comparator(u: Comparator) -> dict:
    own = {name: getattr(u, name) for name in ("name", "C", "status", "rel_gap", "norm", "norm_1")}
    loss, mistakes = float(u.judged[-1]), int(u.mistakes[-1])
    return own | {"loss": loss, "mistakes": mistakes, "least_margin": float(u.margin[-1])}


def judge(bound: Bound, run: Run, candidates: list[Comparator], best: Comparator) -> Judged:
    """Check a bound's assumptions, and evaluate it where they are met."""
    about_run, about_u = ([c for c in bound.conditions if c.about_u is of_u] for of_u in (False, True))
    met_by_run = [bool(condition.holds(run)) for condition in about_run]
    checks = [Check(c.text, met, "" if met else c.found(run)) for c, met in zip(about_run, met_by_run, strict=True)]
    admitted: list[Comparator] = []
    if all(met_by_run):
        admitted = [u for u in candidates if all(condition.holds(run, u) for condition in about_u)]
        met, found = bool(admitted), "" if admitted else f"for none of the {len(candidates)} comparators"
        checks += [Check(condition.text, met, found) for condition in about_u]
    if not admitted:
        return Judged(bound, checks, np.zeros(0), np.zeros(0), [])
    rights = np.array([bound.right(run, u) for u in admitted])
    right, measured = rights.min(axis=0), QUANTITIES[bound.quantity](run)
    exceeded = measured > right + ROUNDING * np.maximum(np.abs(measured), np.abs(right)) + 1e-9
    if bound.regret is not None:
        base = getattr(best, bound.regret)
        measured, right = measured - base, right - base
    by = [admitted[k].name for k in rights.argmin(axis=0)]
    return Judged(bound, checks, measured, right, by, bound.proven and bool(exceeded.any()))


def measure_regret(source: Source, learner: str, *, max_rows: int | None = None,
                   on_progress: Callable[[str], None] = lambda text: None,
                   **settings: Unpack[WithCost]) -> RegretReport:  # fmt: skip
    """Replay an online learner over a source and compare it with the best fixed weights in hindsight.  The source has
    two classes, or more, or sets of them, by the multi-prototype rule, or numbers (``targets="numbers"``), or rows
    alone (``targets="none"``).

    max_rows: only so many rows, in the order of the replay; on_progress gets a line about each step; settings: of the
    learner, and ``order`` of the replay ('stored' or 'shuffled' by ``seed``); ``average``: also measure the mean of the
    learner's weights; ``memory``: bytes, or text such as "2GB"; ``batch``: rows of a round, of pegasos.  Raises
    InputError where something does not fit.
    """
    of_learner = {name: value for name, value in settings.items() if value is not None}
    of_replay = {name: of_learner.pop(name, None) for name in REPLAY.names()}
    order, seed, memory, average, batch = REPLAY.resolve(of_replay, "a replay").values()
    learner = LEARNERS.name_of(learner)
    by_user(of_learner, learner=learner)
    max_rows = MAX_ROWS.checked(max_rows)
    refuse_weights(source, "regret")
    source, runner, task = play(source, learner, of_learner, average, max_rows)
    T = min(source.n_samples, max_rows or source.n_samples)
    run = Run(runner, learner)
    require(run.judging.name, "conjugate", "regret")
    check_batch(batch, T, run, average)
    T -= T % batch
    if run.regulariser and run.regulariser.of_each_weight and T * source.n_features > MOST_STEPS:
        raise InputError(
            f"{learner}: its regret with l1 takes all {source.n_features:,} weights in each of {T:,} rounds, more than "
            f"{MOST_STEPS:,} in all; give fewer rows by {option('max_rows')}"
        )
    budget = Budget(memory)
    budget.reserve("records of the rounds", RECORD_BYTES * T)
    rows = (task or ReplayRows)(source, order, seed, budget.left // 2)
    in_blocks = not source.in_memory or order != "stored"
    if T < source.n_samples or (in_blocks and (run.truncated or runner.needs_all_rows)):
        rows = ReplayRows(in_memory(rows, T, budget), "stored", seed, 0)
    run.begin(rows, batch * log_spaced(T // batch), batch)
    vectors = 8 * VECTORS * (run.d + 1) * runner.n_vectors
    budget.require("comparators", vectors)
    for_solver = budget.left - vectors  # the learner is gone when the solver begins
    _plan(rows, budget, learner_bytes(run))
    replay(run, on_progress)
    candidates = comparators(run, for_solver, on_progress)
    best = min(candidates, key=lambda u: (u.judged[-1], u.norm))
    mean = None
    if run.mean is not None:
        on_progress("the mean of the weights")
        mean = Comparator(run, FixedWeights("mean of the weights", run.mean), rows.scores(run.mean, runner.bias))
    judged = [judge(bound, run, candidates, best) for bound in bounds_of(run)]
    least = np.min([u.judged for u in candidates], axis=0)
    return RegretReport(run, candidates, best, least, judged, _notes(run, judged), dict(budget.used), mean)


def play(
    source: Source, learner: str, settings: dict, average: bool, max_rows: int | None
) -> tuple[Source, Runner | ExactSolver, Callable[..., ReplayRows] | None]:
    """(the source as the learner sees it, the runner, the rows of a task other than two classes and numbers)."""
    targets = settings.get("targets")
    if targets == NO_TARGETS:
        check_task(learner, settings, "rows alone", max_rows)
    elif targets != NUMBERS and source.label_kind == SETS:
        check_task(learner, settings, "sets of labels", max_rows)
    elif targets != NUMBERS and source.labels is not None and not source.labels.binary:
        check_task(learner, settings, SEVERAL, max_rows)
    elif targets != NUMBERS:
        require_two_labels(source)
    method = EXACT.get(learner) or method_of(get_learner(learner))
    solver = method.make(Task(settings | ({"average": True} if average else {}), source))
    runner = getattr(solver, "runner", solver)
    return source.reader(real=True) if targets == NUMBERS else source, runner, task_of(runner, solver.member)


def check_batch(batch: int, T: int, run: Run, average: bool) -> None:
    """InputError where rounds of so many of T rows do not fit the learner."""
    if not 1 <= batch <= T:
        raise InputError(f"{option('batch', batch)}: must be from 1 to the number of rows, {T:,}")
    if batch > 1 and (run.regulariser is None or run.regulariser.kind != "l2"):
        raise InputError(f"{option('batch', batch)}: {run.name} learns row by row; leave it out, or take pegasos")
    if batch > 1 and average:
        what = "rounds of several rows have no mean of the weights"
        raise InputError(f"{option('average')}: {what}; leave one of them out")


def _plan(rows: ReplayRows, budget: Budget, n_bytes: int) -> None:
    """Count the learner, and leave the rest to the blocks."""
    source = rows.source
    budget.reserve("the learner", n_bytes)
    if source.in_memory and rows.order == "stored":
        rows.memory = 1 << 60  # blocks are no copies
        return
    largest = largest_chunk_bytes(source)
    budget.require("two blocks", 2 * largest + source.working_bytes())
    whole = 2 * source.shape.block_bytes(source.n_samples, source.size)
    rows.memory = min(budget.left - source.working_bytes(), whole)
    budget.take("two blocks", rows.memory + source.working_bytes())


def _notes(run: Run, judged: list[Judged]) -> list[str]:
    notes = []
    r, rows, followed, judging = run.regulariser, run.rows, run.followed.name, run.judging.name
    if judging != followed:
        notes.append(f"the {followed} loss is judged by the {judging} loss, since its own best u is 0")
    if not run.truncated and (run.settings.get("l1") or run.settings.get("l2")):
        notes += ["loss and regret are of the losses alone: the regulariser's part is not measured for these settings"]
    if run.batch > 1:
        notes.append(
            f"a round is {run.batch:,} rows, predicted by the same weights: losses and regret are sums over rows, "
            f"{run.batch:,} times those of the rounds' means"
        )
    if r is not None and (run.truncated or r.kind in ("l2", "norm")):
        notes.append(f"loss and regret include r(w) of each round, r = {r.text}")
    if run.real or not rows.scales:
        notes.append("a mistake is a round with a loss of 1 or more")
    if rows.uncertified:
        notes.append(f"u is the best of those tried, without a proof that it is the best there is: {rows.uncertified}")
    if not judged:
        notes.append(f"no bound is known here for {run.name}: the regret stands alone")
    return notes


def draw(report: RegretReport, file: IO[bytes]) -> None:
    """Write a PNG: on the left loss, regret and its bounds, on the right other quantities with theirs."""
    from matplotlib.figure import Figure

    def curve(axes, values: np.ndarray, label: str, **style) -> None:
        if (values > 0.0).any():  # what is not has no place on a logarithmic axis
            axes.plot(run.times, np.where(values > 0.0, values, np.nan), label=label, **style)

    run, applied = report.run, [judged for judged in report.bounds if judged.applies]
    others = {judged.bound.quantity: judged.measured for judged in applied if judged.bound.regret is None}
    figure = Figure(figsize=(13 if others else 7.5, 5.5), layout="constrained")
    axes = figure.subplots(1, 2 if others else 1, squeeze=False)[0]
    curve(axes[0], run.judged, f"{run.name}: cumulative loss ({run.judging.name})", color="0.7", linewidth=4)
    curve(axes[0], report.best.judged, f"u: {report.best.name}", color="black", linestyle=":")
    curve(axes[0], report.regret, "regret", marker="o", markersize=3)
    for quantity, values in others.items():
        curve(axes[1], values, quantity, marker="o", markersize=3)
    for judged in applied:
        curve(axes[0 if judged.bound.regret else 1], judged.right, f"bound: {judged.bound.name}", linestyle="--")
    for one in axes:
        one.set(xscale="log", yscale="log", xlabel="rows")
        one.grid(alpha=0.3)
        one.legend(fontsize=8)
    figure.savefig(file, format="png", dpi=150)
