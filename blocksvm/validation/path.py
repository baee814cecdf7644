"""K folds along a path of C: as many problems at once as the memory holds, each reading of the rows shared by all, the
next ones begun where the last ones ended; each row is scored by the models that did not see it, in the reading of their
last certificate."""

import gc
import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Unpack

import numpy as np

from blocksvm.api import SettingKeywords
from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import label_text
from blocksvm.base.settings import n_threads, plain
from blocksvm.base.threads import Threads
from blocksvm.cluster import makers
from blocksvm.kernels.loss_functions import SUMS
from blocksvm.losses import get_loss
from blocksvm.model.decision_values import area_under_curve
from blocksvm.problems.certificate import predicted
from blocksvm.problems.problem_kernels import Objective, certificate_sums
from blocksvm.sources.source import Source
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings
from blocksvm.validation.folds import MOST_FOLDS, Folds, HeldOutProblems, folds_of, held_out_method, targets_of

PATH = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
AT_ONCE = 3  # of C: fewer readings with more of them, but more work, since less of the path is begun near its end
ROWS_SHARE = 0.1  # of what all rows take: the problems leave at least so much of the memory to the rows
FIGURES = ("accuracy", "loss", "auc", "rmse", "rel_gap")


@dataclass
class CrossValidation:
    """Scores of held-out rows: for each C of ``path`` and each fold (n_C, folds) their figures, nan where
    there are none: accuracy, loss (the mean over the rows' weights, C = 1), auc, rmse; rel_gap: the certified gap of
    the problem (the largest of its classes').  status: of the last part of the path."""

    path: list[float]
    folds: int
    rows: np.ndarray  # (folds,): held out
    accuracy: np.ndarray
    loss: np.ndarray
    auc: np.ndarray
    rmse: np.ndarray
    rel_gap: np.ndarray
    settings: dict = field(default_factory=dict)
    status: str = "converged"
    seconds: float = 0.0
    parts: list[int] = field(default_factory=list)  # how many C at once
    readings: float = 0.0

    @property
    def real(self) -> bool:
        return not np.isnan(self.rmse).all()

    def add(self, problem: HeldOutProblems, held: np.ndarray, y: np.ndarray, weights: np.ndarray | None, folds: Folds,
            positions: slice) -> None:  # fmt: skip
        """Score each row by the models of its own fold, of the C at these positions; held (n_samples, n_C, classes):
        its decision values; y, weights: as ``targets_of`` has them."""
        n_C, classes = held.shape[1:]
        k, real = n_C * classes, problem.real
        sides = None if classes == 1 else np.tile(2 * np.eye(classes + 1, classes, dtype=np.int8) - 1, n_C)
        objective = Objective(0.0, np.ones((k, 2)), sides, problem.function)
        for fold in range(folds.count):
            rows = np.flatnonzero(folds.of_rows == fold)
            targets, z, sums = y[rows], held[rows], np.zeros((k, SUMS))
            importance = None if weights is None else weights[rows]
            of_rows = z.reshape(-1, k), np.zeros((len(rows), k)), targets, targets if real else None, importance
            certificate_sums(*of_rows, objective, np.arange(k, dtype=np.int32), None, sums)
            losses = np.cumsum(sums[:, 0].reshape(n_C, classes), axis=1)[:, -1]
            self.loss[positions, fold] = losses / max(len(rows) if importance is None else importance.sum(), 1e-300)
            for number, values in enumerate(z.transpose(1, 2, 0), positions.start):
                if real:
                    self.rmse[number, fold] = math.sqrt(np.square(values[0] - targets).mean())
                    continue
                self.accuracy[number, fold] = np.mean(predicted(values) == targets)
                if classes == 1:
                    self.auc[number, fold] = area_under_curve(values[0], targets > 0)

    def mean(self, name: str) -> np.ndarray:
        """(n_C,) over the folds that it can be measured on, each by its rows; nan where there are none."""
        values = getattr(self, name)
        weights = np.where(np.isnan(values), 0, self.rows)
        totals = weights.sum(axis=1)
        sums = np.where(weights > 0, values * weights, 0.0).sum(axis=1)
        return np.divide(sums, totals, out=np.full(len(values), math.nan), where=totals > 0)

    def best(self, by: str | None = None) -> int:
        """The position of the best C: of the largest accuracy or auc, or the least loss or rmse; of equals the first.
        InputError where no fold has such a figure."""
        by = by or ("rmse" if self.real else "accuracy")
        values = self.mean(by)
        if np.isnan(values).all():
            given = option("select", by)
            raise InputError(f"{given}: no fold has rows of two classes to measure it by; choose another")
        return int(np.nanargmin(values if by in ("loss", "rmse") else -values))

    def described(self) -> dict:
        rows = {name: getattr(self, name).tolist() for name in FIGURES}
        figures = {name: [[None if math.isnan(x) else x for x in row] for row in rows[name]] for name in FIGURES}
        known = {"rows": self.rows.tolist(), "best": self.path[self.best()], "settings": plain(self.settings)}
        return vars(self) | figures | known


def trains_on_numbers(settings: TrainSettings) -> bool:
    return get_loss(settings.method.get("loss") or "hinge").of_numbers


def check_folds(source: Source, folds: Folds, y: np.ndarray, train_settings: TrainSettings) -> None:
    """InputError where a fold has no rows, or the rows outside of it lack a class; y (n_samples,): their targets."""
    counts = np.bincount(folds.of_rows, minlength=folds.count)
    if not counts.all():
        empty = int(np.argmin(counts)) + 1
        raise InputError(f"{source.name}: fold {empty} of {folds.count} has no rows; choose fewer folds")
    if trains_on_numbers(train_settings) or source.labels is None:
        return
    labels = source.labels
    labelled = y != labels.unknown
    codes = (y[labelled] + 1) // 2 if labels.binary else y[labelled]
    inside = np.zeros((folds.count, len(labels.values)), np.int64)  # rows of each class in each fold
    np.add.at(inside, (folds.of_rows[labelled], codes), 1)
    outside = inside.sum(axis=0) - inside
    if (outside == 0).any():
        fold, position = np.argwhere(outside == 0)[0].tolist()
        raise InputError(
            f"{source.name}: all rows of label {label_text(labels.values[position])} are in fold {fold + 1} of "
            f"{folds.count}, so that a model would be trained without them; it takes two such rows or more, or "
            "other groups of rows"
        )


def cross_validate(source: Source, C: Sequence[float] = PATH, folds: int = 5, *, groups: str | None = None,
                   at_once: int = AT_ONCE, on_event: Callable[[dict], None] = lambda event: None,
                   stop: Callable[[], bool] = lambda: False, cluster=None,
                   **settings: Unpack[SettingKeywords]) -> CrossValidation:  # fmt: skip
    """Train on the rows outside of each of ``folds`` folds at each of the costs ``C``, and score those in it.

    settings: as ``fit`` takes them for dual-cd and newton; at_once: how many C are trained at once, where the memory
    allows it (the more, the fewer readings); groups: a file with a line for each row, of which equal ones
    are held out together; on_event, stop, cluster: as ``fit`` has them.  Raises InputError where a fold lacks a class.

        >>> with blocksvm.open_store("rows.h5") as store:
        ...     result = blocksvm.cross_validate(store, C=(0.1, 1.0), folds=3)
        >>> result.path[result.best()], result.mean("accuracy")
        (0.1, array([1., 1.]))
    """
    if isinstance(C, str) or not np.size(C) or not all(0.0 < float(value) < math.inf for value in np.ravel(C)):
        raise InputError(f"{option('C')}: needs finite numbers above 0, e.g. C=(0.1, 1, 10)")
    path = sorted({float(value) for value in np.ravel(C)})
    if not 2 <= folds <= MOST_FOLDS:
        raise InputError(f"{option('folds', folds)}: must be from 2 to {MOST_FOLDS}")
    if at_once < 1:
        raise InputError(f"{option('at_once', at_once)}: must be 1 or more")
    threads = Threads(n_threads(settings.pop("n_jobs", None)))
    train_settings = TrainSettings.of(**settings).settled(source)
    if not (train_settings.capabilities.working_set or train_settings.solver == "newton"):
        given = option("solver", train_settings.solver)
        raise InputError(f"{given}: cross-validation uses dual-cd or newton; leave it out")
    if train_settings.free_bias:
        raise InputError(
            f"{option('bias', 'free')}: the problems of all folds are trained side by side, which needs a constant "
            f"feature; choose C with {option('bias', 1)}, whose regularisation matters little where rows are many, and "
            f"train with {option('bias', 'free')} at that C"
        )
    began, done, previous, real = time.perf_counter(), 0, None, trains_on_numbers(train_settings)
    chosen = folds_of(source, folds, train_settings.seed, groups, real)
    targets = targets_of(source, real)
    check_folds(source, chosen, targets[0], train_settings)
    rows = np.bincount(chosen.of_rows, minlength=folds)
    scores = CrossValidation(path, folds, rows, **{name: np.full((len(path), folds), math.nan) for name in FIGURES})
    classes = 1 if source.labels is None or source.labels.binary else len(source.labels.values)
    # of ``HeldOutCD.last``; and of folds, targets, weights, and what scoring a fold takes
    end_bytes, fold_bytes = 8 * folds * classes * (source.n_features + 1 + source.n_samples), 48 * source.n_samples

    def plan_part(rest: list[float]) -> tuple[Plan, list[float]]:
        """The plan of as many C at once, the first of the rest, as leave the rows enough memory, or one; and these."""
        for count in range(min(at_once, len(rest)), 0, -1):
            method = held_out_method(train_settings.solver, rest[:count], chosen)
            ends = (previous is not None) + (count < len(rest))  # of the part before, and of this one
            besides = {"folds": fold_bytes + ends * end_bytes}
            try:
                plan = make_plan(source, train_settings, method=method, previous=previous, besides=besides)
            except InputError:
                if count == 1:
                    raise
                continue
            rows = plan.source.shape.block_bytes(source.n_samples, plan.source.size)
            left = plan.budget.total - sum(plan.budget.used[name] for name in ("weights", "alpha", "folds"))
            if count == 1 or left >= ROWS_SHARE * rows:
                return plan, rest[:count]
        raise AssertionError("a path has one C or more")

    def count_readings(event: dict) -> None:
        if event["event"] == "outer":
            scores.readings += (event["blocks"] > 0) + event["certificates"]
        on_event(event)

    cluster, make_plan, make_loop = makers(cluster, source)
    with nullcontext() if cluster is None else cluster.opened():
        while done < len(path):
            plan, part = plan_part(path[done:])
            plan.share_work(threads)
            on_event({"event": "part", "path": part, "of": len(path), "done": done})
            loop = make_loop(plan, count_readings, stop)
            result = loop.run()
            scores.settings = dict(plan.solver.settings) | train_settings.run_settings()
            scores.settings.pop("C")
            scores.status = result.status
            if result.status == "interrupted":
                return scores
            scores.parts.append(len(part))
            positions = slice(done, done + len(part))
            held = plan.solver.held(loop.state)[:, : len(part)]
            gaps = np.array(result.certificate.by_class["rel_gap"]).reshape(-1, folds, held.shape[2])
            scores.rel_gap[positions] = gaps[: len(part)].max(axis=2)
            scores.add(plan.solver.problem, held, *targets, chosen, positions)
            scores.seconds = time.perf_counter() - began
            done += len(part)
            previous = plan.solver.last(loop.state) if done < len(path) else None
            del loop, plan, result, held
            gc.collect()  # they refer to each other, and hold the memory that the next part takes
    return scores
