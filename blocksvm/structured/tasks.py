"""The protocol of tasks: text to examples of a structure, outputs to lines of text, figures of outputs; a training run
of a learner, and predictions; and a model's file: weights, the ids of their features, and how text becomes these."""

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from msgspec import structs

from blocksvm.base.errors import InputError, option, printable
from blocksvm.base.memory import Budget
from blocksvm.base.settings import Settings
from blocksvm.base.threads import Threads
from blocksvm.base.user_code import by_user, names_of
from blocksvm.files.paths import Location
from blocksvm.model.events import versions
from blocksvm.store.arrays import read_array, write_arrays
from blocksvm.store.descriptions import StructureMeta, typed
from blocksvm.store.hdf5_files import create_hdf5, opened, write_meta
from blocksvm.structured import TASKS, get_learner, get_task
from blocksvm.structured.learners import Report, order_of
from blocksvm.structured.settings import OF_TASKS, RUN
from blocksvm.structured.structure import CheckedStructure, Structure
from blocksvm.structured.text.columns import ColumnText

INT64, FLOAT64 = np.dtype(np.int64), np.dtype(np.float64)
NONE = np.empty(0, np.int64)
PART = 256  # examples that a thread predicts at once


@dataclass
class Examples(ABC):
    """Examples of a text: their structure; gold: the right outputs, None where the text has none."""

    structure: Structure

    @abstractmethod
    def lines(self, outputs: list[np.ndarray]) -> Iterator[str]:
        """The text of predictions, in pieces that end with a line."""


@dataclass
class AnsweredTokens(Examples):
    """Sentences with the answers that they have, a number for each token; known: the model's labels, then others that
    the text has, by these numbers, where the answers are labels."""

    text: ColumnText
    gold: np.ndarray | None
    n_columns: int
    known: Sequence[str] = ()

    def lines(self, outputs) -> Iterator[str]:
        answers = np.concatenate(outputs)
        names = np.array([printable(label) for label in self.known], dtype=object)
        yield from self.text.answered(self.n_columns, names[answers] if self.known else answers.astype(str))


@dataclass(frozen=True)
class Learned:
    """A training text: its examples, their part of the model's description (labels, template, n_columns), the ids of
    the features, the hashes of the words of a dictionary, and the ids of the features of pairs of answers."""

    structure: Structure
    about: dict
    feature_ids: np.ndarray
    words: np.ndarray = field(default_factory=lambda: NONE)
    pair_ids: np.ndarray = field(default_factory=lambda: NONE)


@dataclass(frozen=True)
class StructuredModel:
    """meta: task, learner, settings, labels, template, certificate.

    feature_ids (n_features,), pair_ids (n_pairs,) int64, distinct: of features, and of those of pairs of answers; words
    (n_words,) int64: a task's dictionary; weights (n_weights,) float64.
    """

    path: str
    meta: StructureMeta
    feature_ids: np.ndarray
    words: np.ndarray
    weights: np.ndarray
    pair_ids: np.ndarray = field(default_factory=lambda: NONE)

    def groups(self, n: int) -> list[np.ndarray]:
        """The ids of the first n groups of templates."""
        return [self.feature_ids, self.pair_ids][:n]


class StructuredTask(ABC):
    """name; settings: those that it takes, which are options of the command; ``learn`` gets their values, and those of
    ``OF_TASKS`` that it does not take by default."""

    name: str
    settings: Settings = Settings()

    @abstractmethod
    def learn(self, text_name: str, settings: dict, memory: int) -> Learned:
        """Examples to learn from, with their features; InputError, before any are taken, where they do not fit."""

    @abstractmethod
    def examples(self, model: StructuredModel, text_name: str, memory: int, scoring: Mapping = {}) -> Examples:
        """Examples of another text, with the features of the model; scoring: settings of ``SCORING``."""

    def layout(self, meta: StructureMeta) -> tuple[int, int, int]:
        """(weights of each feature, which come first; of each feature of pairs of answers; number of the others, which
        come last) of a model of this description."""
        return 1, 0, 0

    @abstractmethod
    def figures(self, examples: Examples, outputs: list[np.ndarray]) -> dict:
        """The figures of predicted outputs, for examples with gold outputs."""


def resolved(learner: str, task: str, settings: dict, of_task: dict, run: dict) -> tuple[dict, dict, dict]:
    """All settings of learner, task and run from those that were given; InputError for what does not fit."""
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
    return FittedStructure(weights, machine.certified, epoch, time.perf_counter() - began, budget)


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


def learned_from(name: str, text_name: str, settings: dict, memory: int) -> Learned:
    by_user(settings, task=name)
    found = get_task(name).learn(text_name, settings, memory)
    return replace(found, structure=checked(found.structure, name))


def checked(structure: Structure, task: str) -> Structure:
    """The structure; of a task outside the package with all its results checked."""
    return structure if task in TASKS else CheckedStructure(structure, task)


def structured_model(
    task: str, learned: Learned, learner: str, settings: dict, fitted: FittedStructure, text: str
) -> StructuredModel:
    """The model of a training, without the features whose weights are all 0; settings: all of them."""
    described = {
        "task": task, "learner": learner, "settings": settings, "n_features": len(learned.feature_ids),
        "n_weights": len(fitted.weights), "n_words": len(learned.words), **learned.about,
        "certificate": fitted.certificate, "trained_on": text, "epochs": fitted.epochs, "seconds": fitted.seconds,
        "versions": versions(),
    }  # fmt: skip
    meta = typed(described, StructureMeta)
    each, of_pairs, _ = get_task(task).layout(meta)
    ends = np.cumsum([len(learned.feature_ids) * each, len(learned.pair_ids) * of_pairs])
    own, pairs, others = np.split(fitted.weights, ends)
    own, pairs = own.reshape(-1, each), pairs.reshape(-1, of_pairs or 1)
    used, used_pairs = own.any(axis=1), pairs.any(axis=1)
    used[:1] |= not used.any()  # a model has a feature
    ids, pair_ids = learned.feature_ids[used], learned.pair_ids[used_pairs]
    weights = np.concatenate([own[used].reshape(-1), pairs[used_pairs].reshape(-1), others])
    meta = structs.replace(meta, n_features=len(ids), n_weights=len(weights), n_pairs=len(pair_ids))
    return StructuredModel("", meta, ids, learned.words, weights, pair_ids)


def save_structured(path: Location, model: StructuredModel, overwrite: bool) -> None:
    """Write a model; InputError where there is a file of that name and ``overwrite`` does not allow to replace it."""
    with create_hdf5([path], "structure", overwrite) as (file,):
        pairs = {"pair_ids": model.pair_ids} if len(model.pair_ids) else {}
        write_arrays(file, {"ids": model.feature_ids, "words": model.words, "weights": model.weights, **pairs})
        write_meta(file, model.meta)


def load_structured(path: str | Location) -> StructuredModel:
    """Open a model made by ``blocksvm structure``; InputError where it is not one or is damaged."""
    with opened(path, "structure") as (file, meta):
        ids, words = read_array(file, "ids", INT64, meta.n_features), read_array(file, "words", INT64, meta.n_words)
        pair_ids = read_array(file, "pair_ids", INT64, meta.n_pairs) if meta.n_pairs else NONE
        weights = read_array(file, "weights", FLOAT64, meta.n_weights)
    if not np.isfinite(weights).all():
        raise InputError(f"{path}: a weight is not a number; train the model again")
    return StructuredModel(os.fspath(path), meta, ids, words, weights, pair_ids)


def opened_model(path: str | Location, task_name: str | None = None) -> tuple[StructuredModel, StructuredTask]:
    """A model and its task, ``task_name`` if given; InputError where it has not the weights that its features need."""
    model = load_structured(path)
    name = model.meta.task
    if task_name not in (None, name):
        raise InputError(f"{path}: was trained for the task {name}, not {task_name}; leave {option('task')} out")
    by_user(task=task_name)
    with names_of(path):
        task = get_task(name)
    each, of_pairs, others = task.layout(model.meta)
    if len(model.feature_ids) * each + len(model.pair_ids) * of_pairs + others != len(model.weights):
        raise InputError(f"{path}: is damaged (its weights are not as many as its labels need); make it again")
    return model, task
