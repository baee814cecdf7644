"""The protocol of tasks: text to examples of a structure, outputs to lines of text, and figures of outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from blocksvm.base.settings import Settings
from blocksvm.base.user_code import by_user
from blocksvm.store.descriptions import StructureMeta
from blocksvm.structured import TASKS, get_task
from blocksvm.structured.structure import CheckedStructure, Structure

if TYPE_CHECKING:
    from blocksvm.structured.model import StructuredModel


@dataclass
class Examples(ABC):
    """Examples of a text: their structure; gold: the right outputs, None where the text has none."""

    structure: Structure

    @abstractmethod
    def lines(self, outputs: list[np.ndarray]) -> Iterator[str]:
        """The text of predictions, in pieces that end with a line."""


@dataclass(frozen=True)
class Learned:
    """A training text: its examples, their part of the model's description (labels, template, n_columns), the ids of
    the features, the hashes of the words of a dictionary, and the ids of the features of pairs of answers."""

    structure: Structure
    about: dict
    feature_ids: np.ndarray
    words: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    pair_ids: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))


class StructuredTask(ABC):
    """name; settings: those that it takes, which are options of the command; ``learn`` gets their values, and those of
    ``OF_TASKS`` that it does not take by default."""

    name: str
    settings: Settings = Settings()

    @abstractmethod
    def learn(self, text_name: str, settings: dict, memory: int) -> Learned:
        """Examples to learn from, with the features that they bring; InputError where ``memory`` bytes do not suffice,
        before they are taken."""

    @abstractmethod
    def examples(self, model: StructuredModel, text_name: str, memory: int, scoring: Mapping = {}) -> Examples:
        """Examples of another text, with the features of the model; scoring: settings of ``SCORING``."""

    @abstractmethod
    def layout(self, meta: StructureMeta) -> tuple[int, int, int]:
        """(weights of each feature, which come first; of each feature of pairs of answers; number of the others, which
        come last) of a model of this description."""

    @abstractmethod
    def figures(self, examples: Examples, outputs: list[np.ndarray]) -> dict:
        """The figures of predicted outputs, for examples with gold outputs."""


def learned_from(name: str, text_name: str, settings: dict, memory: int) -> Learned:
    """The training examples of the task of this name."""
    by_user(settings, task=name)
    found = get_task(name).learn(text_name, settings, memory)
    return Learned(checked(found.structure, name), found.about, found.feature_ids, found.words, found.pair_ids)


def checked(structure: Structure, task: str) -> Structure:
    """The structure; of a task outside the package with all its results checked."""
    return structure if task in TASKS else CheckedStructure(structure, task)
