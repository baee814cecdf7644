"""Training texts that are read part by part: their features go to chunks, on disk where memory is too small.

In the chunks a feature is its place in a table of ids, by first occurrence.  Its number, by frequency, is known after
the last part, and looked up when a chunk is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.row_batch import runs, shown_name
from blocksvm.conversion.feature_ids import IdTable
from blocksvm.store.chunks import Chunks
from blocksvm.structured.column_text import ColumnText, column_parts
from blocksvm.structured.example_blocks import ExampleBlocks, Spooled, Whole
from blocksvm.structured.feature_table import add_features, id_tables, numbered, renumber
from blocksvm.structured.output_structure import Structure

LARGEST, SMALLEST = 1 << 20, 1 << 14  # bytes of a chunk's features
IN_MEMORY = 8  # examples that take one of so many parts of the memory are held in it


@dataclass(frozen=True)
class TextPart:
    """Some examples: rows (n,) int64 of each in the table of features; ids(t): the ids (n_rows,) int64 of template t,
    -1 for none; lengths (n,) int32 of each, and answers int32, those of one example after the other."""

    rows: np.ndarray
    ids: Callable[[int], np.ndarray]
    lengths: np.ndarray
    answers: np.ndarray


class Parts(ABC):
    """A text, part by part.  ``groups``, how many templates there are of features and perhaps of pairs of answers, is
    known from the first part on, ``about`` after the last one."""

    groups: tuple[int, ...]

    @abstractmethod
    def __iter__(self) -> Iterator[TextPart]:
        """The parts, each once."""

    @abstractmethod
    def about(self) -> dict:
        """Their part of the model's description, as in ``Learned``."""

    @abstractmethod
    def structure(self, table: np.ndarray, lengths: np.ndarray, answers: np.ndarray, sizes: list[int]) -> Structure:
        """Examples: table (n_rows, n_templates) int32; lengths and answers as in ``TextPart``; sizes: how many features
        each group has."""

    @abstractmethod
    def n_weights(self, sizes: list[int]) -> int:
        """How many weights there are."""


class ColumnParts(Parts):
    """Column text; the last column is the target.

    learned: its name in messages; kind: of templates; with_tags, without_tags: the default templates of texts with
    several columns of words, and with one.
    """

    learned: str
    kind: type
    with_tags: str
    without_tags: str

    def __init__(self, text_name: str, template: str | None, memory: int):
        self.text_name, self.template, self.memory = text_name, template, memory
        self.templates = None
        self.n_columns = 0

    @property
    def groups(self):
        return self.templates.groups

    def texts(self) -> Iterator[ColumnText]:
        """The sentences, some at a time; the templates are chosen by the first ones."""
        for text in column_parts(self.text_name, self.memory):
            if self.templates is None:
                self._begin(len(text.columns) - 1)
            yield text

    def _begin(self, n_columns: int) -> None:
        if n_columns < 1:
            raise InputError(
                f"{shown_name(self.text_name)}: has one column; the last one is the {self.learned}, put words before it"
            )
        template = self.template
        if template is None:
            template = self.with_tags if n_columns > 1 else self.without_tags
        self.n_columns, self.templates = n_columns, self.kind(template, n_columns)

    def described(self, labels: list[str]) -> dict:
        return {"labels": labels, "template": self.templates.text, "n_columns": self.n_columns}


def collected_parts(
    parts: Parts, min_count: int, memory: int, folder: Path | None, checked: Callable[[Structure], Structure]
) -> tuple[ExampleBlocks, list[np.ndarray]]:
    """The examples of all parts, their structures through ``checked``, and the ids (n_features,) int64 of the features
    of each group, the most frequent first.

    Examples that take more than a part of ``memory`` bytes lie in ``folder`` (None: all are held).  InputError where
    the ids do not fit in the memory, or where no feature occurs ``min_count`` times.
    """
    tables: list[IdTable] = []
    chunks = Chunks(folder, "examples", memory // IN_MEMORY)
    most = max(SMALLEST, min(LARGEST, memory // 512))
    counts: list[int] = []
    lengths: dict[str, list[int]] = {"table": [], "lengths": [], "answers": []}
    for part in parts:
        tables = tables or id_tables(parts.groups, memory)
        table = add_features(tables, parts.groups, int(part.rows.sum()), part.ids)
        rows, tokens = (np.append(0, np.cumsum(n, dtype=np.int64)) for n in (part.rows, part.lengths))
        for a, b in runs(rows * (4 * sum(parts.groups)), most):
            arrays = {
                "table": table[rows[a] : rows[b]].reshape(-1).copy(),
                "lengths": part.lengths[a:b].astype(np.int32),
                "answers": part.answers[tokens[a] : tokens[b]].astype(np.int32),
            }
            chunks.put(len(counts), arrays)
            counts.append(b - a)
            for name, array in arrays.items():
                lengths[name].append(len(array))
    feature_ids, places = zip(*(numbered(table, min_count) for table in tables), strict=True)
    sizes = [len(ids) for ids in feature_ids]

    def read(chunk: int) -> dict[str, np.ndarray]:
        arrays = dict(chunks.get(chunk))
        table = arrays["table"].reshape(-1, sum(parts.groups)).copy()
        renumber(table, parts.groups, places)
        arrays["table"] = table.reshape(-1)
        return arrays

    def build(arrays: dict[str, np.ndarray]) -> Structure:
        table = arrays["table"].reshape(-1, sum(parts.groups))
        return checked(parts.structure(table, arrays["lengths"], arrays["answers"], sizes))

    in_all = {name: np.array(n, np.int64) for name, n in lengths.items()}
    blocks = Spooled(chunks, read, build, np.array(counts), in_all, parts.n_weights(sizes), folder)
    if chunks.file is None:
        structure = blocks.block(np.arange(len(counts))).structure
        chunks.close()
        return Whole(structure, folder), list(feature_ids)
    chunks.spill()  # the memory is for blocks
    blocks.resident_bytes = sum(numbers.nbytes for numbers in places)
    return blocks, list(feature_ids)
