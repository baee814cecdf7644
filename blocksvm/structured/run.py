"""A training run of a structured learner, and predictions of its model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blocksvm.errors import InputError, called
from blocksvm.memory import Budget
from blocksvm.model.structured import StructuredModel, load_structured
from blocksvm.model.versions import versions
from blocksvm.structured import get_learner
from blocksvm.structured.learner import Report
from blocksvm.structured.protocol import Structure
from blocksvm.structured.settings import RUN
from blocksvm.structured.task import Learned, Task, get_task, own_task


@dataclass(frozen=True)
class Fitted:
    """weights (n_weights,); certificate: None, or primal, dual and rel_gap of exactly these; epochs; interrupted."""

    weights: np.ndarray
    certificate: dict | None
    epochs: int
    seconds: float
    interrupted: bool
    budget: Budget


def fit_structure(
    structure: Structure,
    learner: str,
    settings: dict,
    run: dict,
    on_epoch: Callable[[int, Report, float], None] = lambda number, report, seconds: None,
    stop: Callable[[], bool] = lambda: False,
) -> Fitted:
    """Train weights of a structure; settings: the learner's own, run: those of ``RUN``, where they are not the
    defaults.

    on_epoch(number, report, seconds) is called behind each epoch; where stop() says True the run ends with what there
    is.  Raises InputError for settings that the learner does not take, and where memory does not suffice.
    """
    began = time.perf_counter()
    found = get_learner(learner)
    settings = found.settings.resolve(settings, learner)
    run = RUN.resolve(run, "structure")
    budget = Budget(run["memory"])
    budget.take("the examples", structure.n_bytes)
    machine = found.make(structure, settings, run, budget)
    epochs = 0
    while epochs < run["epochs"] and not machine.done and not stop():
        report = machine.epoch(epochs, stop)
        epochs += 1
        on_epoch(epochs, report, time.perf_counter() - began)
    interrupted = stop()
    weights = machine.weights()
    certificate = None if interrupted else machine.certificate()
    return Fitted(weights, certificate, epochs, time.perf_counter() - began, interrupted, budget)


def structured_model(task: str, learned: Learned, learner: str, settings: dict, fitted: Fitted, text: str):
    """The ``StructuredModel`` of a training, without the features whose weights are all 0; settings: all of them."""
    each, others = get_task(task).layout({**learned.about, "n_words": len(learned.words)})
    n = len(learned.feature_ids)
    used = fitted.weights[: n * each].reshape(n, each).any(axis=1)
    used[:1] |= not used.any()  # a model has a feature
    weights = np.append(fitted.weights[: n * each].reshape(n, each)[used].reshape(-1), fitted.weights[n * each :])
    ids = learned.feature_ids[used]
    meta = {
        "task": task,
        "learner": learner,
        "settings": settings,
        "n_features": len(ids),
        "n_weights": len(weights),
        "n_words": len(learned.words),
        **learned.about,
        "certificate": fitted.certificate,
        "trained_on": text,
        "epochs": fitted.epochs,
        "seconds": fitted.seconds,
        "versions": versions(),
    }
    return StructuredModel("", meta, ids, learned.words, weights)


def opened_model(path: str | Path, task_name: str | None = None) -> tuple[StructuredModel, Task]:
    """A model and its task, which must be ``task_name`` where that is given; InputError where its weights are not as
    many as its features and labels need."""
    model = load_structured(path)
    name = model.meta["task"]
    if task_name not in (None, name):
        raise InputError(f"{path}: was trained for the task {name}, not {task_name}; leave {called('task')} out")
    task = get_task(own_task(name, path) if task_name is None else task_name)
    if task.n_weights(model.meta) != len(model.weights):
        raise InputError(f"{path}: is damaged (its weights are not as many as its labels need); make it again")
    return model, task


def predicted(structure: Structure, weights: np.ndarray, stop: Callable[[], bool] = lambda: False) -> list[np.ndarray]:
    """The best output of each example; fewer, where stop() says True."""
    outputs = []
    for i in range(structure.n_examples):
        if stop():
            break
        outputs.append(structure.best(weights, i))
    return outputs
