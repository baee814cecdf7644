"""A training run of a structured learner, and predictions of its model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from blocksvm.base.memory import Budget
from blocksvm.base.threads import Threads
from blocksvm.structured import get_learner, get_task
from blocksvm.structured.learners import Report, order_of
from blocksvm.structured.settings import OF_TASKS, RUN
from blocksvm.structured.structure import CheckedStructure, Structure

PART = 256  # examples that a thread predicts at once


def resolved(learner: str, task: str, settings: dict, of_task: dict, run: dict) -> tuple[dict, dict, dict]:
    """All settings of a training, of the learner, the task, and the run, from those that were given; InputError for
    what does not fit."""
    takes = get_task(task).settings
    values = OF_TASKS.without(*takes.names()).resolve({}, "structure") | takes.resolve(of_task, f"the task {task}")
    return get_learner(learner).settings.resolve(settings, learner), values, RUN.resolve(run, "structure")


@dataclass(frozen=True)
class FittedStructure:
    """weights (n_weights,), None where the run was interrupted; certificate: None, or primal, dual and rel_gap of
    exactly these; epochs; seconds; budget: what was used of the memory."""

    weights: np.ndarray | None
    certificate: dict | None
    epochs: int
    seconds: float
    budget: Budget


def fit_structure(structure: Structure, learner: str, settings: dict, run: dict,
                  on_epoch: Callable[[int, Report, float], None] = lambda number, report, seconds: None,
                  stop: Callable[[], bool] = lambda: False) -> FittedStructure:  # fmt: skip
    """Train weights on examples; settings: of the learner; run: of ``RUN``; both where they are not the defaults.

    on_epoch(number, report, seconds) is called after each epoch; where stop() becomes true the run ends without
    weights.  Raises InputError for settings that the learner does not accept, and where memory does not suffice.
    """
    began = time.perf_counter()
    method = get_learner(learner)
    settings, run = method.settings.resolve(settings, learner), RUN.resolve(run, "structure")
    budget = Budget(run["memory"])
    budget.reserve("the examples", structure.n_bytes)
    machine = method.make(structure, settings, run, budget)
    epoch = 0
    while epoch < run["epochs"] and not machine.done:
        report = machine.epoch(order_of(structure.n_examples, run["seed"], epoch), stop)
        if stop():
            return FittedStructure(None, None, epoch, time.perf_counter() - began, budget)
        epoch += 1
        on_epoch(epoch, report, time.perf_counter() - began)
    weights = machine.weights()
    return FittedStructure(weights, machine.certificate(), epoch, time.perf_counter() - began, budget)


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
