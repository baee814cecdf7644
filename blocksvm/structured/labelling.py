"""The tasks ``tags`` and ``chunks``: a label for each token of column text, the last column being the label."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from blocksvm.base.errors import InputError, printable
from blocksvm.base.row_batch import shown_name
from blocksvm.structured.column_text import ColumnText, codes_in, read_columns
from blocksvm.structured.evaluation import chunk_counts
from blocksvm.structured.feature_table import known_features
from blocksvm.structured.sequences import Sequences
from blocksvm.structured.structured_model import StructuredModel
from blocksvm.structured.structured_settings import OF_TOKENS
from blocksvm.structured.task import Examples, StructuredTask
from blocksvm.structured.templates import WITH_TAGS, WITHOUT_TAGS, Templates
from blocksvm.structured.text_parts import ColumnParts, TextPart

MOST_LABELS = 1000


@dataclass
class LabelledExamples(Examples):
    """Sentences with the labels that they have; known: the model's labels, then others that the text has."""

    structure: Sequences
    text: ColumnText
    gold: np.ndarray | None
    known: list[str]
    n_columns: int

    def lines(self, outputs) -> Iterator[str]:
        labels = np.array([printable(label) for label in self.known], dtype=object)[np.concatenate(outputs)]
        yield from token_lines(self.text, self.n_columns, labels)


def token_lines(text: ColumnText, n_columns: int, answers: np.ndarray) -> Iterator[str]:
    """A text's first columns with ``answers`` (n_tokens,), str, after them, a sentence at a time."""
    words = [np.array(c.words, dtype=object)[c.codes] for c in text.columns[:n_columns]]
    tokens = list(map(" ".join, zip(*words, answers, strict=True)))
    for s in range(text.n_sentences):
        yield "\n".join(tokens[text.bounds[s] : text.bounds[s + 1]]) + "\n\n"


class LabelledParts(ColumnParts):
    """Labelled sentences of a text; answers are places among the labels in the order of their first occurrence."""

    learned, kind, with_tags, without_tags = "label", Templates, WITH_TAGS, WITHOUT_TAGS

    def __init__(self, text_name: str, template: str | None, memory: int):
        super().__init__(text_name, template, memory)
        self.places: dict[str, int] = {}  # label -> its place

    def __iter__(self):
        for text in self.texts():
            codes = [self.places.setdefault(label, len(self.places)) for label in text.columns[-1].words]
            if len(self.places) > MOST_LABELS:
                raise InputError(
                    f"{shown_name(self.text_name)}: has {len(self.places):,} distinct labels or more in its last "
                    f"column, of which there may be {MOST_LABELS:,}; check that the last column is the label"
                )
            lengths = np.diff(text.bounds)
            answers = np.array(codes, np.int32)[text.columns[-1].codes]
            yield TextPart(lengths, partial(self.templates.ids, text), lengths, answers)

    @property
    def labels(self) -> list[str]:
        return sorted(self.places)

    def about(self):
        return self.described(self.labels)

    def structure(self, table, lengths, answers, sizes):
        number = {label: k for k, label in enumerate(self.labels)}
        numbers = np.array([number[label] for label in self.places], np.int32)
        bounds = np.append(0, np.cumsum(lengths, dtype=np.int64))
        return Sequences(table, bounds, numbers[answers], sizes[0], len(number), self.groups[0], sum(sizes[1:]))

    def n_weights(self, sizes):
        each, pairs = len(self.places), pairs_of(len(self.places))
        return sizes[0] * each + sum(sizes[1:]) * pairs + pairs


def pairs_of(n_labels: int) -> int:
    """Weights of the pairs of neighbouring labels."""
    return (n_labels + 1) * n_labels


class Labelling(StructuredTask):
    """Of ``chunks`` labels are those of the beginning, inside and outside of chunks, as B-NP, I-NP and O."""

    settings = OF_TOKENS

    def __init__(self, name: str, chunks: bool):
        self.name, self.chunks = name, chunks
        self.measure = "F1" if chunks else "accuracy"

    def parts(self, text_name, settings, memory):
        return LabelledParts(text_name, settings["template"], memory)

    def examples(self, model: StructuredModel, text_name: str, memory: int, scoring: Mapping = {}) -> LabelledExamples:
        text = read_columns(text_name, memory)
        n_columns = model.meta["n_columns"]
        with_labels = text.has_target(n_columns, "labels")
        templates = Templates(model.meta["template"], n_columns)
        features = known_features(
            text.n_tokens, templates.groups, lambda t: templates.ids(text, t), model.groups(len(templates.groups))
        )  # fmt: skip
        labels, gold, known = model.meta["labels"], None, list(model.meta["labels"])
        if with_labels:
            known += sorted(set(text.columns[-1].words) - set(labels))
            gold = codes_in(text.columns[-1], known)
        structure = Sequences(
            features, text.bounds, gold, len(model.feature_ids), len(labels), templates.groups[0], len(model.pair_ids)
        )
        return LabelledExamples(structure, text, gold, known, n_columns)

    def layout(self, meta):
        return len(meta["labels"]), pairs_of(len(meta["labels"]))

    def pair_weights(self, meta):
        return pairs_of(len(meta["labels"]))

    def figures(self, examples: LabelledExamples, outputs):
        predicted = np.concatenate(outputs)
        right = int((predicted == examples.gold).sum())
        figures = {"tokens": len(predicted), "sentences": examples.text.n_sentences, "accuracy": right / len(predicted)}
        if not self.chunks:
            return figures
        counts = chunk_counts(examples.gold, predicted, examples.text.bounds, examples.known)
        every = counts.pop("")
        figures |= {"chunks": every.gold, "precision": every.precision, "recall": every.recall, "F1": every.f1}
        return figures | {"types": {kind: {"precision": c.precision, "recall": c.recall, "F1": c.f1, "chunks": c.gold}
                                 for kind, c in counts.items()}}  # fmt: skip


TAGS = Labelling("tags", chunks=False)
CHUNKS = Labelling("chunks", chunks=True)
