"""The task ``trees``: the head of each token of column text, whose last column is the head's number, 0 for the root."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.row_batch import runs, shown_name
from blocksvm.structured.arc_templates import DEFAULT, ArcFeatures, ArcTemplates
from blocksvm.structured.column_text import ColumnText, read_columns
from blocksvm.structured.feature_table import known_features
from blocksvm.structured.labelling import token_lines
from blocksvm.structured.structured_model import StructuredModel
from blocksvm.structured.structured_settings import OF_TOKENS
from blocksvm.structured.task import Examples, StructuredTask
from blocksvm.structured.text_parts import ColumnParts, TextPart
from blocksvm.structured.trees import Trees

WITHOUT_TAGS = "hw[0]|d mw[0]|d hw[0]|mw[0]|d hw.suffix3[0]|mw.suffix3[0]|d hw.shape[0]|mw.shape[0]|d mw.suffix3[0]|d"


@dataclass
class Parsed(Examples):
    """Sentences with the trees that they have."""

    structure: Trees
    text: ColumnText
    gold: np.ndarray | None
    n_columns: int

    def lines(self, outputs) -> Iterator[str]:
        yield from token_lines(self.text, self.n_columns, np.concatenate(outputs).astype(str))


def heads_of(text: ColumnText) -> np.ndarray:
    """(n_tokens,) int32 from the last column; InputError unless the heads of each sentence are a tree."""
    column = text.columns[-1]
    longest = int(np.diff(text.bounds).max())
    values = np.array([int(word) if word.isdecimal() and len(word) < 10 else -1 for word in column.words])
    heads = values[column.codes]
    lengths = np.repeat(np.diff(text.bounds), np.diff(text.bounds))
    wrong = np.flatnonzero((heads < 0) | (heads > lengths))
    if len(wrong):
        token = wrong[0]
        raise InputError(
            f"{text.line_of(token)}: '{column.words[column.codes[token]]}' is no head; the last column is the "
            f"number of another token of the sentence, from 1 to {lengths[token]}, or 0 for the root"
        )
    # the root is its own head: after as many doublings as a path may be long, all have come to it
    root = text.n_tokens
    above = np.append(np.where(heads > 0, np.repeat(text.bounds[:-1], np.diff(text.bounds)) + heads - 1, root), root)
    for _ in range(longest.bit_length() + 1):
        above = above[above]
    unreachable = np.flatnonzero(above != root)
    if len(unreachable):
        raise InputError(
            f"{text.line_of(unreachable[0])}: its heads lead in a circle; every token must hang from the root, 0"
        )
    return heads.astype(np.int32)


def arcs_of(text: ColumnText) -> np.ndarray:
    """(n_sentences,) int64: how many arcs each sentence has."""
    lengths = np.diff(text.bounds)
    return (lengths + 1) * lengths


def arc_bytes(templates: ArcTemplates) -> int:
    """What an arc takes while features are made."""
    return 4 * len(templates) + 120


class ParsedParts(ColumnParts):
    """Sentences with their trees, as many at a time as their arcs' features fit in a part of the memory."""

    learned, kind, with_tags, without_tags = "head", ArcTemplates, DEFAULT, WITHOUT_TAGS

    def __iter__(self):
        for text in self.texts():
            bytes_of = arcs_of(text) * arc_bytes(self.templates)
            longest = int(bytes_of.max())
            if longest > self.memory // 4:
                raise InputError(
                    f"{text.line_of(text.bounds[np.argmax(bytes_of)])}: the arcs of this sentence take "
                    f"{longest / 1e6:,.0f} MB, too much of the {self.memory / 1e6:,.0f} MB of {option('memory')}; "
                    "raise it, or give shorter sentences"
                )
            for a, b in runs(np.append(0, np.cumsum(bytes_of)), self.memory // 4):
                part = text.part(a, b)
                yield TextPart(
                    arcs_of(part), ArcFeatures(self.templates, part).ids, np.diff(part.bounds), heads_of(part)
                )

    def about(self):
        return self.described([])

    def structure(self, table, lengths, answers, sizes):
        return Trees(table, np.append(0, np.cumsum(lengths, dtype=np.int64)), answers, sizes[0])

    def n_weights(self, sizes):
        return sizes[0]


class Parsing(StructuredTask):
    name = "trees"
    measure = "UAS"
    settings = OF_TOKENS

    def parts(self, text_name, settings, memory):
        return ParsedParts(text_name, settings["template"], memory)

    def _templates(self, template: str, n_columns: int, text: ColumnText, memory: int) -> ArcTemplates:
        """InputError where the features of all arcs would not fit in the memory."""
        templates = ArcTemplates(template, n_columns)
        need = int(arcs_of(text).sum()) * arc_bytes(templates)
        if need > memory:
            raise InputError(
                f"{shown_name(text.name)}: the features of all arcs take {need / 1e6:,.0f} MB, more than the memory of "
                f"{memory / 1e6:,.0f} MB; raise it, or give fewer sentences or templates"
            )
        return templates

    def examples(self, model: StructuredModel, text_name: str, memory: int, scoring: Mapping = {}) -> Parsed:
        text = read_columns(text_name, memory)
        n_columns = model.meta["n_columns"]
        gold = heads_of(text) if text.has_target(n_columns, "heads") else None
        arcs = ArcFeatures(self._templates(model.meta["template"], n_columns, text, memory), text)
        table = known_features(arcs.n_arcs, arcs.templates.groups, arcs.ids, [model.feature_ids])
        return Parsed(Trees(table, text.bounds, gold, len(model.feature_ids)), text, gold, n_columns)

    def layout(self, meta):
        return 1, 0

    def figures(self, examples: Parsed, outputs):
        right = np.concatenate(outputs) == examples.gold
        words = examples.text.columns[0]
        counted = np.array([any(c.isalnum() for c in word) for word in words.words])[words.codes]
        whole = np.logical_and.reduceat(right, examples.text.bounds[:-1])
        return {
            "tokens": len(right), "sentences": len(outputs), "UAS": float(right.mean()),
            "UAS without punctuation": float(right[counted].mean()) if counted.any() else 0.0,
            "whole trees": float(whole.mean()),
        }  # fmt: skip


TREES = Parsing()
