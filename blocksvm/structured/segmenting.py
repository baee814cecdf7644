"""The task ``words``: the words of lines that are written without blanks between them.

A line's lattice has as nodes the words of a dictionary that occur in it, and all spans of up to ``longest`` characters.
The dictionary has the words that occur more than once in the training text: words that occur once stand for unknown
ones.  Each of the most frequent words is a kind of node; all others have two kinds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.row_batch import shown_name
from blocksvm.conversion.feature_ids import IdIndex
from blocksvm.structured.character_lines import DEFAULT, LineText, Spans, SpanTemplates, read_lines
from blocksvm.structured.evaluation import Counts
from blocksvm.structured.feature_table import collected, known_features
from blocksvm.structured.lattices import Lattices
from blocksvm.structured.structured_model import StructuredModel
from blocksvm.structured.structured_settings import FEATURES
from blocksvm.structured.task import Examples, Learned, StructuredTask
from blocksvm.structured.templates import BEFORE

OFTEN = 2  # a word of the dictionary occurs so often
MOST_KINDS = 256
LONGEST_WORD = 64  # longer words of a dictionary are not looked for


@dataclass
class Segmented(Examples):
    """Lines with the segmentations that they have."""

    structure: Lattices
    text: LineText

    @property
    def gold(self) -> np.ndarray | None:
        return self.text.begins if self.text.divided else None

    def begins(self, outputs) -> np.ndarray:
        """(n_characters,) bool: those that begin a word."""
        s = self.structure
        begins = np.zeros(len(self.text.characters), bool)
        for i, output in enumerate(outputs):
            begins[self.text.bounds[i] + s.starts[s.node_bounds[i] + output]] = True
        return begins

    def lines(self, outputs) -> Iterator[str]:
        yield from spaced_lines(self.text, self.begins(outputs))


def spaced_lines(text: LineText, begins: np.ndarray, tags: Iterator[str] | None = None) -> Iterator[str]:
    """The lines of a text with blanks before the characters that begin a word, and perhaps with /TAG behind words."""
    place = 0
    for s in range(len(text.lengths)):
        yield "\n" * int(text.places[s] - place)
        place = text.places[s] + 1
        characters = slice(text.bounds[s], text.bounds[s + 1])
        after = np.flatnonzero(begins[characters])[1:]
        line = np.insert(text.characters[characters], after, 32).tobytes().decode("utf-32-le")
        if tags is not None:
            line = " ".join(f"{word}/{next(tags)}" for word in line.split(" "))
        yield line + "\n"
    yield "\n" * int(text.n_file_lines - place)


def words_of(text: LineText) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(lines, starts, stops) of a text's words; places count over all characters."""
    starts = np.flatnonzero(text.begins)
    stops = np.append(starts[1:], len(text.characters))
    return np.searchsorted(text.bounds, starts, side="right") - 1, starts, stops


def word_ids(text: LineText, starts: np.ndarray, stops: np.ndarray) -> np.ndarray:
    """(n,) int64: by which the dictionary knows words."""
    return (text.span_hashes(starts, stops) >> np.uint64(1)).astype(np.int64)


class Segmenting(StructuredTask):
    name = "words"
    measure = "F1"
    settings = FEATURES

    def learn(self, text_name, settings, memory):
        text = read_lines(text_name, memory)
        if not text.divided:
            raise InputError(f"{shown_name(text_name)}: has no blank within a line; put one between each two words")
        template = DEFAULT if settings["template"] is None else settings["template"]
        templates = SpanTemplates(template)
        if templates.n_pair_templates:
            raise InputError(
                f"{option('template', template)}: {BEFORE} is for tags, which this task has not; leave it out"
            )
        _, starts, stops = words_of(text)
        known, counts = np.unique(word_ids(text, starts, stops), return_counts=True)
        often = np.flatnonzero(counts >= OFTEN)
        dictionary = known[often[np.lexsort((known[often], -counts[often]))]]
        longest = settings["longest"]
        spans, places = spans_of(text, dictionary, longest, True)
        require_spans(text, len(spans.starts), len(templates), memory)
        table, (ids,) = collected(
            len(spans.starts), (len(templates),), lambda t: templates.ids(spans, t), settings["min_count"],
            memory - 80 * len(spans.starts)
        )  # fmt: skip
        about = {"labels": [], "template": templates.text, "n_columns": 1}
        structure = lattices_of(spans, places, table, len(ids), len(dictionary))
        return Learned(Segmented(structure, text), about, ids, dictionary)

    def examples(self, model: StructuredModel, text_name: str, memory: int, scoring: Mapping = {}) -> Segmented:
        text = read_lines(text_name, memory)
        templates = SpanTemplates(model.meta["template"])
        longest = FEATURES.restored(model.meta["settings"])["longest"]
        spans, places = spans_of(text, model.words, longest, False)
        require_spans(text, len(spans.starts), len(templates), memory)
        table = known_features(
            len(spans.starts), (len(templates),), lambda t: templates.ids(spans, t), [model.feature_ids]
        )  # fmt: skip
        return Segmented(lattices_of(spans, places, table, len(model.feature_ids), len(model.words)), text)

    def layout(self, meta):
        n_kinds = n_kinds_of(meta["n_words"])
        return 1, (n_kinds + 1) * n_kinds

    def figures(self, examples: Segmented, outputs):
        text = examples.text
        begins = examples.begins(outputs)
        # a word is right where it begins and ends as one of the gold words does
        same = begins == text.begins
        after = np.append(text.begins[1:], True)
        ours = np.append(begins[1:], True)
        word = np.cumsum(text.begins) - 1
        wrong = np.bincount(word, weights=~same | (after != ours), minlength=int(word[-1]) + 1)
        counts = Counts(int((wrong == 0).sum()), int(begins.sum()), int(text.begins.sum()))
        whole = np.logical_and.reduceat(same, text.bounds[:-1])
        return {
            "lines": len(outputs), "words": counts.gold, "precision": counts.precision, "recall": counts.recall,
            "F1": counts.f1, "whole lines": float(whole.mean()),
        }  # fmt: skip


def require_spans(text: LineText, n_spans: int, n_templates: int, memory: int) -> None:
    """InputError where the features of the spans do not fit in the memory."""
    need = n_spans * (4 * n_templates + 80)
    if need > memory:
        raise InputError(
            f"{shown_name(text.name)}: the features of all spans take {need / 1e6:,.0f} MB, more than the memory "
            f"of {memory / 1e6:,.0f} MB; raise it, or give fewer lines or templates, or a smaller longest"
        )


def n_kinds_of(n_words: int) -> int:
    """Kinds of nodes: each of the most frequent words, the other words, and unknown ones."""
    return min(n_words, MOST_KINDS - 2) + 2


def spans_of(text: LineText, dictionary: np.ndarray, longest: int, with_gold: bool) -> tuple[Spans, np.ndarray]:
    """(the nodes of all lines, sorted; the place (n,) int32 of each in the dictionary, -1 for others).

    with_gold: the words between blanks are among them, of any length.
    """
    index = IdIndex(len(dictionary)).fill([(0, dictionary)])
    end = np.repeat(text.bounds[1:], text.lengths)
    pieces = []
    most = min(int(text.lengths.max()), max(longest, LONGEST_WORD))
    for length in range(1, most + 1):
        starts = np.flatnonzero(np.arange(len(end)) + length <= end)
        places = index.find(word_ids(text, starts, starts + length))
        chosen = slice(None) if length <= longest else places >= 0
        pieces.append((starts[chosen], np.full(len(starts), length)[chosen], places[chosen]))
    starts, lengths, places = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    stops = starts + lengths
    if with_gold:
        _, gold_starts, gold_stops = words_of(text)
        unknown = index.find(word_ids(text, gold_starts, gold_stops)) < 0
        missing = (gold_stops - gold_starts > longest) & (unknown | (gold_stops - gold_starts > most))
        starts, stops = np.append(starts, gold_starts[missing]), np.append(stops, gold_stops[missing])
        places = np.append(places, index.find(word_ids(text, gold_starts[missing], gold_stops[missing])))
    lines = np.searchsorted(text.bounds, starts, side="right") - 1
    order = np.lexsort((starts, stops))  # lines rise with the stops
    return Spans(text, lines[order], starts[order], stops[order], places[order] >= 0), places[order]


def lattices_of(spans: Spans, places: np.ndarray, table: np.ndarray, n_features: int, n_words: int) -> Lattices:
    """places (n,): in the dictionary, the most frequent word first, -1 for others."""
    n_kinds = n_kinds_of(n_words)
    kinds = np.where(places < 0, n_kinds - 1, np.minimum(places, n_kinds - 2))
    text = spans.text
    first = text.bounds[spans.lines]
    return Lattices(
        table, kinds, spans.lines, spans.starts - first, spans.stops - first, text.lengths, gold_spans(spans),
        n_features, n_kinds,
    )  # fmt: skip


def gold_spans(spans: Spans) -> np.ndarray:
    """(n_spans,) bool: those that are words of the text."""
    text = spans.text
    # a span is right where a word begins at its start, the next one at its stop, and none between
    ends = np.append(np.cumsum(text.begins), 0)
    ends_word = np.append(text.begins, True)[spans.stops] | (spans.stops == text.bounds[spans.lines + 1])
    return text.begins[spans.starts] & ends_word & (ends[spans.starts] == ends[spans.stops - 1])


WORDS = Segmenting()
