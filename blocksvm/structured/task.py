"""The protocol of tasks: text to examples of a structure, outputs to lines of text, and figures of outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from blocksvm.base.settings import Settings
from blocksvm.base.user_code import by_user
from blocksvm.structured import TASKS, get_task
from blocksvm.structured.example_blocks import ExampleBlocks, Whole
from blocksvm.structured.output_structure import CheckedStructure, Structure
from blocksvm.structured.structured_model import StructuredModel
from blocksvm.structured.text_parts import Parts, collected_parts


@dataclass
class Examples(ABC):
    """Examples of a text: their structure; gold: the right outputs, None where the text has none."""

    structure: Structure

    @abstractmethod
    def lines(self, outputs: list[np.ndarray]) -> Iterator[str]:
        """The text of predictions, in pieces that end with a line."""


@dataclass(frozen=True)
class Learned:
    """A training text: examples, their part of the model's description (labels, template, n_columns), the ids of the
    features, the hashes of the words of a dictionary, and the ids of the features of pairs of answers."""

    examples: Examples
    about: dict
    feature_ids: np.ndarray
    words: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    pair_ids: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class TrainingExamples:
    """Blocks of examples, with the other fields of ``Learned``."""

    blocks: ExampleBlocks
    about: dict
    feature_ids: np.ndarray
    words: np.ndarray
    pair_ids: np.ndarray


class StructuredTask(ABC):
    """name; measure: the main figure of predictions; settings: those that it takes, which are options of the command.
    A task has ``learn``, or ``parts`` where a text may be larger than the memory; both get their values, and those
    of ``OF_TASKS`` that it does not take by default."""

    name: str
    measure: str
    settings: Settings = Settings()

    def learn(self, text_name: str, settings: dict, memory: int) -> Learned:
        """Examples to learn from, with the features that they bring."""
        raise NotImplementedError

    def parts(self, text_name: str, settings: dict, memory: int) -> Parts | None:
        """The same, part by part; None where the task has ``learn``."""
        return None

    @abstractmethod
    def examples(self, model: StructuredModel, text_name: str, memory: int, scoring: Mapping = {}) -> Examples:
        """Examples of another text, with the features of the model; scoring: settings of ``SCORING``."""

    @abstractmethod
    def layout(self, meta: dict) -> tuple[int, int]:
        """(weights of each feature, which come first; number of the others, which come last) of a model of this
        description."""

    def pair_weights(self, meta: dict) -> int:
        """Weights of each feature of pairs of answers, which come between the two."""
        return 0

    def n_weights(self, meta: dict) -> int:
        """How many weights a model of this description must have."""
        each, others = self.layout(meta)
        return meta["n_features"] * each + meta.get("n_pairs", 0) * self.pair_weights(meta) + others

    @abstractmethod
    def figures(self, examples: Examples, outputs: list[np.ndarray]) -> dict:
        """The figures of predicted outputs, for examples with gold outputs."""


def training_of(name: str, text_name: str, settings: dict, memory: int, folder: Path | None = None) -> TrainingExamples:
    """The training examples of the task of this name; folder: for examples that do not fit in the memory."""
    by_user(name, settings)
    task = get_task(name)
    parts = task.parts(text_name, settings, memory)
    if parts is None:
        learned = task.learn(text_name, settings, memory)
        blocks = Whole(checked(learned.examples.structure, name), folder)
        return TrainingExamples(blocks, learned.about, learned.feature_ids, learned.words, learned.pair_ids)
    none = np.empty(0, np.int64)
    blocks, ids = collected_parts(
        parts, settings["min_count"], memory, folder, lambda structure: checked(structure, name)
    )
    return TrainingExamples(blocks, parts.about(), ids[0], none, ids[1] if len(ids) > 1 else none)


def checked(structure: Structure, task: str) -> Structure:
    """The structure; of a task outside the package with all its results checked."""
    return structure if task in TASKS else CheckedStructure(structure, task)
