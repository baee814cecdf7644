"""A training run of a structured learner, and predictions of its model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.memory import Budget
from blocksvm.base.threads import Threads
from blocksvm.base.user_code import by_user, names_of
from blocksvm.model.versions import versions
from blocksvm.structured import get_learner, get_task
from blocksvm.structured.example_blocks import ExampleBlocks, Whole
from blocksvm.structured.output_structure import CheckedStructure, Structure
from blocksvm.structured.structured_learner import EXAMPLES, Machine, Report
from blocksvm.structured.structured_model import StructuredModel, load_structured
from blocksvm.structured.structured_settings import OF_TASKS, RUN
from blocksvm.structured.task import StructuredTask, TrainingExamples

PART = 256  # examples that a thread predicts at once
AT_ONCE = 1 << 14  # features whose weights are compared with 0 at once


@dataclass(frozen=True)
class StructuredSettings:
    """The settings of a training: those of the learner that were given, and of learner, task and run all."""

    learner: dict
    learner_resolved: dict
    task: dict
    run: dict

    @classmethod
    def of(cls, learner: str, task: str, settings: dict, of_task: dict, run: dict) -> StructuredSettings:
        """From those that were given; InputError for what does not fit."""
        declared = get_learner(learner).settings
        checked = declared.checked(settings, learner)
        takes = get_task(task).settings
        values = OF_TASKS.without(*takes.names()).resolve({}, "structure") | takes.resolve(of_task, f"the task {task}")
        return cls(checked, declared.resolve(checked, learner), values, RUN.resolve(run, "structure"))

    def all(self) -> dict:
        return self.learner_resolved | self.task | self.run


@dataclass(frozen=True)
class FittedStructure:
    """weights (n_weights,), None where the run was interrupted; certificate: None, or primal, dual and rel_gap of
    exactly these; epochs; interrupted."""

    weights: np.ndarray | None
    certificate: dict | None
    epochs: int
    seconds: float
    interrupted: bool
    budget: Budget


@dataclass
class StructuredProgress:
    """How far a run has come: complete epochs, the blocks (rising chunks each) of the current one, how many of them
    have been visited, the report of these, and the seconds so far."""

    epoch: int = 0
    plan: list[np.ndarray] | None = None
    visit: int = 0
    report: Report = field(default_factory=Report)
    seconds: float = 0.0


class StructuredSaver(Protocol):
    """Saves a run's state: ``due()``, ``save(machine, progress)``; ``restore(machine)`` gives the progress."""

    def due(self) -> bool: ...

    def save(self, machine: Machine, progress: StructuredProgress) -> None: ...

    def restore(self, machine: Machine) -> StructuredProgress: ...


def fit_structure(
    examples: Structure | ExampleBlocks,
    learner: str,
    settings: dict,
    run: dict,
    on_epoch: Callable[[int, Report, float], None] = lambda number, report, seconds: None,
    stop: Callable[[], bool] = lambda: False,
    saver: StructuredSaver | None = None,
) -> FittedStructure:
    """Train weights on examples; settings: of the learner; run: of ``RUN``; both where they are not the defaults.

    on_epoch(number, report, seconds) is called after each epoch; where stop() becomes true the run ends without
    weights: at once, or, where its state is saved, after the visit of the block.  Raises InputError for settings that
    the learner does not accept, and where memory does not suffice.
    """
    began = time.perf_counter()
    blocks = examples if isinstance(examples, ExampleBlocks) else Whole(examples)
    method = get_learner(learner)
    settings = method.settings.resolve(settings, learner)
    run = RUN.resolve(run, "structure")
    budget = Budget(run["memory"])
    budget.take("the examples", blocks.resident_bytes)
    budget.require(EXAMPLES, int(blocks.sizes.max()))
    machine = method.make(blocks, settings, run, budget)
    progress = StructuredProgress() if saver is None else saver.restore(machine)
    began -= progress.seconds

    def save() -> None:
        progress.seconds = time.perf_counter() - began
        saver.save(machine, progress)

    at_once = stop if saver is None else lambda: False
    while progress.epoch < run["epochs"] and not machine.done and not stop():
        if progress.plan is None:
            progress.plan = blocks.partition(machine.costs(blocks), machine.capacity, run["seed"], progress.epoch)
        while progress.visit < len(progress.plan) and not stop():
            block = blocks.block(progress.plan[progress.visit])
            progress.report.add(machine.visit(block, progress.epoch, progress.visit, at_once))
            progress.visit += 1
            if saver is not None and saver.due():
                save()
        if progress.visit < len(progress.plan) or at_once():
            break
        machine.end_epoch(progress.report)
        report = progress.report
        progress.epoch, progress.plan, progress.visit, progress.report = progress.epoch + 1, None, 0, Report()
        on_epoch(progress.epoch, report, time.perf_counter() - began)
    if saver is not None:
        save()
    interrupted = stop()
    # both would read all examples, in vain after an interruption
    weights = None if interrupted else machine.weights()
    certificate = None if interrupted else machine.certificate()
    machine.close()
    return FittedStructure(weights, certificate, progress.epoch, time.perf_counter() - began, interrupted, budget)


def structured_model(
    task: str, learned: TrainingExamples, learner: str, settings: dict, fitted: FittedStructure, text: str
):
    """The ``StructuredModel`` of a training, without the features whose weights are all 0; settings: all of them.
    Takes the weights over."""
    about = {**learned.about, "n_words": len(learned.words)}
    each, _ = get_task(task).layout(about)
    groups = [(len(learned.feature_ids), each), (len(learned.pair_ids), get_task(task).pair_weights(about))]
    (used, used_pairs), weights = _used(fitted.weights, groups)
    ids, pair_ids = learned.feature_ids[used], learned.pair_ids[used_pairs]
    meta = {
        "task": task,
        "learner": learner,
        "settings": settings,
        "n_features": len(ids),
        "n_weights": len(weights),
        "n_words": len(learned.words),
        "n_pairs": len(pair_ids),
        **learned.about,
        "certificate": fitted.certificate,
        "trained_on": text,
        "epochs": fitted.epochs,
        "seconds": fitted.seconds,
        "versions": versions(),
    }
    return StructuredModel("", meta, ids, learned.words, weights, pair_ids)


def _used(weights: np.ndarray, groups: list[tuple[int, int]]) -> tuple[list[np.ndarray], np.ndarray]:
    """(of each group of features, given by their number and the weights of each, a mask of those with a weight; the
    weights of these and the others after them, moved to the front of the same memory)."""
    masks, begin, end = [], 0, 0
    for n, each in groups:
        table = weights[begin : begin + n * each].reshape(n, each)
        used = np.zeros(n, bool)
        for start in range(0, n, AT_ONCE):
            rows = table[start : start + AT_ONCE]
            used[start : start + AT_ONCE] = rows.any(axis=1)
            if not masks and start + AT_ONCE >= n:
                used[:1] |= not used.any()  # a model has a feature
            rows = rows[used[start : start + AT_ONCE]].reshape(-1)
            weights[end : end + len(rows)] = rows
            end += len(rows)
        masks.append(used)
        begin += n * each
    others = weights[begin:].copy()
    weights[end : end + len(others)] = others
    return masks, weights[: end + len(others)]


def opened_model(path: str | Path, task_name: str | None = None) -> tuple[StructuredModel, StructuredTask]:
    """A model and its task, which must be ``task_name`` where that is given; InputError where its weights are not as
    many as its features and labels need."""
    model = load_structured(path)
    name = model.meta["task"]
    if task_name not in (None, name):
        raise InputError(f"{path}: was trained for the task {name}, not {task_name}; leave {option('task')} out")
    by_user(task_name)
    with names_of(path):
        task = get_task(name)
    if task.n_weights(model.meta) != len(model.weights):
        raise InputError(f"{path}: is damaged (its weights are not as many as its labels need); make it again")
    return model, task


def predicted(
    structure: Structure, weights: np.ndarray, stop: Callable[[], bool] = lambda: False, threads: int | None = 1
) -> list[np.ndarray]:
    """The best output of each example, by so many threads (None: one a processor); fewer, where stop() says True.  The
    code of a structure from outside the package runs in one."""
    n = structure.n_examples

    def best(first: int) -> list[np.ndarray]:
        return [structure.best(weights, i) for i in range(first, min(first + PART, n)) if not stop()]

    with Threads(1 if isinstance(structure, CheckedStructure) else threads) as shared:
        return [output for part in shared.map(best, range(0, n, PART)) for output in part]
