"""Lattices of spans: a line's words, each perhaps with a tag, as a path through them; and the task ``words``.

score(y) = sum over the words of y of sum_f w[f, tag] + sum over neighbouring words of (w[their kinds] + sum_{g of pairs
at the second} w[g, their tags]);
rho(y, y') = words of y' that are not in y (FP) + words of y that are not in y' (FN).  Words with tags are the same
where their tags are, too.

A line's lattice has the words of a dictionary that occur in it, and all spans of up to ``longest`` characters.  The
dictionary has the words that occur more than once in the training text: words that occur once stand for unknown ones.

A node is a span with a kind.  Of words with tags the kinds are the tags: a word of the dictionary has those that it has
in the training text, any other span those of the words that occur once.  Without tags a word has one kind: each of the
most frequent words is one of its own, the other words are one, and unknown ones; features have one weight each then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.row_batch import shown_name
from blocksvm.conversion.feature_ids import IdIndex
from blocksvm.structured.sequences import Paths, pairs_of, shares
from blocksvm.structured.settings import FEATURES
from blocksvm.structured.tasks import Examples, Learned, StructuredModel, StructuredTask
from blocksvm.structured.text.lines import LineText, Spans, read_lines
from blocksvm.structured.text.templates import BEFORE, Templates

OFTEN = 2  # a word of the dictionary occurs so often
MOST_KINDS = 256  # of words without tags
LONGEST_WORD = 64  # longer words of a dictionary are not looked for
SPAN_BYTES = 80  # of a span, beside its features
SLASH = ord("/")
DEFAULT = (
    "w|w.known w.length|w.known w.types|w.known w.prefix1 w.prefix2 w.prefix3 w.suffix1 w.suffix2 w.suffix3 "
    "before1|w.prefix1 before2|w.prefix1 before1|w.prefix2 before2|w.prefix2 w.suffix1|after1 w.suffix2|after1 "
    "w.suffix1|after2 w.suffix2|after2 before1|w|w.known w|after1|w.known"
)


class Nodes(NamedTuple):
    """The nodes of a line: the number of the span of each among the line's, kinds, starts (n_nodes,) int32; ending."""

    spans: np.ndarray
    kinds: np.ndarray
    starts: np.ndarray
    ending: np.ndarray


class Lattices(Paths):
    """Lattices whose nodes are made of spans when they are needed, since they may be many times as many.

    table (n_spans, n_columns) int32: features of each span, -1: none, those of pairs from the column ``plain`` on;
    sizes: numbers of features, and of those of pairs; spans (n_spans, 3): line, start and stop of each, sorted by line,
    stop and start; sets (n_spans,) int32: which of ``kind_sets``, the kinds that a span may have, is that of each;
    gold_kinds (n_spans,) int32: the kind of a word of the gold path, -1 of others; lengths (n_lines,): positions of
    each line; some path must lead from 0 to each length.  width: weights of a feature, one or ``n_kinds``.  An output
    is the numbers of its nodes within the line.
    """

    def __init__(
        self, table, spans: np.ndarray, lengths, sets, kind_sets: list[list[int]], gold_kinds, sizes: tuple[int, int],
        n_kinds: int, width: int, plain: int,
    ):  # fmt: skip
        lines, starts, stops = spans.T
        self.table = np.ascontiguousarray(table, dtype=np.int32)
        self.starts, self.stops = np.ascontiguousarray(starts, np.int32), np.ascontiguousarray(stops, np.int32)
        self.sets = np.ascontiguousarray(sets, dtype=np.int32)
        self.gold_kinds = np.ascontiguousarray(gold_kinds, dtype=np.int32)
        self.set_bounds = np.append(0, np.cumsum([len(kinds) for kinds in kind_sets])).astype(np.int64)
        self.set_kinds = np.concatenate(kind_sets).astype(np.int32)
        self.span_bounds = np.searchsorted(lines, np.arange(len(lengths) + 1)).astype(np.int64)
        self.lengths = np.asarray(lengths, np.int64)
        self.n_features, self.n_pairs = sizes
        self.plain, self.n_kinds, self.width = plain, n_kinds, width
        self.n_examples = len(lengths)
        self._last: tuple[int, Nodes] | None = None

    def _spans(self, i: int) -> slice:
        return slice(self.span_bounds[i], self.span_bounds[i + 1])

    def nodes(self, i: int) -> Nodes:
        last = self._last  # once: threads share it
        if last is not None and last[0] == i:
            return last[1]
        own = self._spans(i)
        first = self.set_bounds[self.sets[own]]
        counts = self.set_bounds[self.sets[own] + 1] - first
        before = np.append(0, np.cumsum(counts))
        spans = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        kinds = self.set_kinds[np.arange(before[-1]) - np.repeat(before[:-1] - first, counts)]
        ending = before[np.searchsorted(self.stops[own], np.arange(self.lengths[i] + 2))]
        found = Nodes(spans, kinds, self.starts[own][spans], ending)
        self._last = i, found
        return found

    def right(self, i: int) -> np.ndarray:
        """(n_nodes,) bool: those of the gold path."""
        nodes = self.nodes(i)
        return self.gold_kinds[self._spans(i)][nodes.spans] == nodes.kinds

    def gold(self, i):
        return np.flatnonzero(self.right(i)).astype(np.int32)

    def loss(self, i, output):
        right = self.right(i)
        return float(len(output) + np.count_nonzero(right) - 2 * np.count_nonzero(right[output]))

    def node_costs(self, i):
        return np.where(self.right(i), -1.0, 1.0)

    def lattice(self, i):
        return self.nodes(i)[1:]

    def rows(self, i):
        own = self._spans(i)
        return int(own.start), int(own.stop - own.start), self.nodes(i).spans

    def along(self, i, output):
        nodes = self.nodes(i)
        return (self.span_bounds[i] + nodes.spans[output]).astype(np.int32), nodes.kinds[output]


@dataclass(frozen=True)
class TaggedText:
    """Lines of words; tags (n_words,) int32 of each word, positions in ``names``; None where the words have none."""

    lines: LineText
    tags: np.ndarray | None = None
    names: tuple[str, ...] = ()


def read_words(name: str, memory: int, tagged: bool) -> TaggedText:
    """Lines of words, where these are tagged as word/TAG; a tag stands behind the last slash of its word.  Lines
    without blanks have no tags.  InputError where a word has no tag."""
    raw = read_lines(name, memory)
    if not tagged or not raw.divided:
        return TaggedText(raw)
    starts, stops = raw.words
    slashes = np.append(-1, np.flatnonzero(raw.characters == SLASH))
    slash = slashes[np.searchsorted(slashes, stops) - 1]
    wrong = np.flatnonzero((slash <= starts) | (slash >= stops - 1))
    if len(wrong):
        k = wrong[0]
        line = raw.numbers[np.searchsorted(raw.bounds, starts[k], side="right") - 1] + 1
        what = f"{raw.text_of(starts[k], stops[k])!r} has no tag; write word/TAG, or, to predict, lines without blanks"
        raise InputError(f"{shown_name(name)}, line {line}: {what}")
    _, firsts, codes = np.unique(raw.hashes(slash + 1, stops), return_index=True, return_inverse=True)
    found = [raw.text_of(slash[k] + 1, stops[k]) for k in firsts]
    names = sorted(found)
    change = np.zeros(len(raw.characters) + 1, np.int64)
    change[slash] += 1
    np.add.at(change, stops, -1)
    kept = np.cumsum(change[:-1]) == 0
    bounds = np.append(0, np.cumsum(kept))[raw.bounds]
    lines = LineText(name, raw.characters[kept], bounds, raw.begins[kept], raw.numbers, raw.n_file_lines)
    return TaggedText(lines, np.array([names.index(tag) for tag in found], np.int32)[codes], tuple(names))


class Dictionary(NamedTuple):
    """ids (n,) int64 of the words that occur more than once, the most frequent first; sets (n,) int64: which of
    ``kind_sets`` has the kinds of each; the first is that of other words."""

    ids: np.ndarray
    sets: np.ndarray
    kind_sets: list[list[int]]

    @classmethod
    def of(cls, text: TaggedText) -> Dictionary:
        known, word, counts = np.unique(text.lines.word_ids(*text.lines.words), return_inverse=True, return_counts=True)
        often = np.flatnonzero(counts >= OFTEN)
        order = often[np.lexsort((known[often], -counts[often]))]
        if text.tags is None:
            n_kinds = min(len(order), MOST_KINDS - 2) + 2
            sets = np.minimum(np.arange(len(order)) + 1, n_kinds - 1)
            return cls(known[order], sets, [[kind] for kind in range(n_kinds)])
        rare = np.unique(text.tags[counts[word] < OFTEN])
        first = tuple((rare if len(rare) else np.unique(text.tags)).tolist())
        pairs = np.unique(np.stack([word, text.tags], axis=1), axis=0)
        of_word = np.split(pairs[:, 1], np.searchsorted(pairs[:, 0], np.arange(1, len(known))))
        number = {first: 0}
        sets = [number.setdefault(tuple(of_word[w].tolist()), len(number)) for w in order]
        return cls(known[order], np.array(sets, np.int64), [list(kinds) for kinds in number])

    @classmethod
    def in_model(cls, model: StructuredModel) -> Dictionary:
        """InputError unless a model's file has a set of kinds that there are for each word."""
        kind_sets = model.meta.kind_sets
        n_kinds = len(model.meta.labels) or len(kind_sets)
        good = all(kinds and max(kinds) < n_kinds for kinds in kind_sets)
        ids, sets = np.array_split(model.words, 2)
        if not good or not kind_sets or len(ids) != len(sets) or not ((sets >= 0) & (sets < len(kind_sets))).all():
            raise InputError(f"{model.path}: is damaged (its words have kinds that there are not); make it again")
        return cls(ids, sets, kind_sets)


def spans_of(text: LineText, dictionary: np.ndarray, longest: int, with_gold: bool) -> tuple[Spans, np.ndarray]:
    """(the spans of all lines, sorted; the position (n,) int32 of each in the dictionary, -1 for others); with_gold:
    the words between blanks are among them, of any length."""
    index = IdIndex(len(dictionary)).fill([(0, dictionary)])
    end = np.repeat(text.bounds[1:], text.lengths)
    pieces = []
    most = min(int(text.lengths.max()), max(longest, LONGEST_WORD))
    for length in range(1, most + 1):
        starts = np.flatnonzero(np.arange(len(end)) + length <= end)
        numbers = index.find(text.word_ids(starts, starts + length))
        chosen = slice(None) if length <= longest else numbers >= 0
        pieces.append((starts[chosen], np.full(len(starts), length)[chosen], numbers[chosen]))
    starts, lengths, numbers = (np.concatenate(parts) for parts in zip(*pieces, strict=True))
    stops = starts + lengths
    if with_gold:
        gold_starts, gold_stops = text.words
        of_gold, gold_lengths = index.find(text.word_ids(gold_starts, gold_stops)), gold_stops - gold_starts
        missing = (gold_lengths > longest) & ((of_gold < 0) | (gold_lengths > most))
        starts, stops = np.append(starts, gold_starts[missing]), np.append(stops, gold_stops[missing])
        numbers = np.append(numbers, of_gold[missing])
    lines = np.searchsorted(text.bounds, starts, side="right") - 1
    order = np.lexsort((starts, stops))  # lines rise with the stops
    return Spans(text, lines[order], starts[order], stops[order], numbers[order] >= 0), numbers[order]


@dataclass
class Words(Examples):
    """Lines with the words and tags that they have; known: the model's tags."""

    structure: Lattices
    text: TaggedText
    known: list[str]

    @property
    def gold(self) -> np.ndarray | None:
        return self.text.lines.begins if self.text.lines.divided else None

    def predicted(self, outputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(starts, stops, kinds) of all words, counted over the text."""
        found, s = [], self.structure
        for i, output in enumerate(outputs):
            spans, kinds = s.along(i, output)
            first = self.text.lines.bounds[i]
            found.append(np.stack([first + s.starts[spans], first + s.stops[spans], kinds]))
        return tuple(np.concatenate(found, axis=1))

    def lines(self, outputs) -> Iterator[str]:
        starts, _, kinds = self.predicted(outputs)
        begins = np.zeros(len(self.text.lines.characters), bool)
        begins[starts] = True
        yield from self.text.lines.spaced(begins, (self.known[tag] for tag in kinds) if self.known else None)


class Segmenting(StructuredTask):
    """The words of lines that are written without blanks, and, where the training text has tags, their tags."""

    name = "words"
    settings = FEATURES

    def learn(self, text_name, settings, memory):
        text = read_words(text_name, memory, settings["tags"])
        if not text.lines.divided:
            raise InputError(f"{shown_name(text_name)}: has no blank within a line; put one between each two words")
        templates = Templates(DEFAULT if settings["template"] is None else settings["template"])
        if text.tags is None and len(templates.groups) > 1:
            given = option("template", templates.text)
            raise InputError(f"{given}: {BEFORE} is a tag; give {option('tags')}, or leave it out")
        dictionary, longest = Dictionary.of(text), settings["longest"]
        templates.require(text_name, "spans", len(text.lines.characters) * longest, SPAN_BYTES, memory)
        spans, numbers = spans_of(text.lines, dictionary.ids, longest, True)
        gold = spans.gold
        if text.tags is None:
            table, ids = templates.collected(spans, settings["min_count"], memory)
        else:  # only the words' features: those of all spans, each with a weight a tag, would be many times as many
            _, ids = templates.collected(spans.chosen(gold), settings["min_count"], memory)
            table = templates.known(spans, ids)
        structure = self._structure(table, spans, numbers, dictionary, ids, templates, text.names)
        kinds = np.append(dictionary.sets, 0)[numbers[gold]] if text.tags is None else text.tags
        structure.gold_kinds[gold] = kinds
        about = {"labels": list(text.names), "template": templates.text, "n_columns": 1}
        about["kind_sets"] = dictionary.kind_sets
        words, pairs = np.append(dictionary.ids, dictionary.sets), np.concatenate([ids[0][:0], *ids[1:]])
        return Learned(structure, about, ids[0], words, pairs)

    def examples(self, model: StructuredModel, text_name: str, memory: int, scoring: Mapping = {}) -> Words:
        dictionary, tags = Dictionary.in_model(model), model.meta.labels
        text, templates = read_words(text_name, memory, bool(tags)), Templates(model.meta.template)
        longest = FEATURES.restored(model.meta.settings)["longest"]
        templates.require(text_name, "spans", len(text.lines.characters) * longest, SPAN_BYTES, memory)
        spans, numbers = spans_of(text.lines, dictionary.ids, longest, False)
        ids = model.groups(len(templates.groups))
        table = templates.known(spans, ids)
        return Words(self._structure(table, spans, numbers, dictionary, ids, templates, tags), text, tags)

    def _structure(self, table, spans, numbers, dictionary, ids, templates, tags) -> Lattices:
        first, n_kinds = spans.text.bounds[spans.lines], len(tags) or len(dictionary.kind_sets)
        return Lattices(
            table, np.stack([spans.lines, spans.starts - first, spans.stops - first], axis=1), spans.text.lengths,
            np.append(dictionary.sets, 0)[numbers], dictionary.kind_sets, np.full(spans.n_rows, -1),
            (len(ids[0]), sum(map(len, ids[1:]))), n_kinds, n_kinds if len(tags) else 1, templates.groups[0],
        )  # fmt: skip

    def layout(self, meta):
        pairs = pairs_of(len(meta.labels) or len(meta.kind_sets))  # kinds are the tags, or else a set for each
        return len(meta.labels) or 1, pairs, pairs

    def figures(self, examples: Words, outputs):
        text, (starts, stops, kinds) = examples.text, examples.predicted(outputs)
        lines = text.lines
        gold_starts, gold_stops = lines.words
        # words by their first character, of which each begins at most one
        gold_stop = np.full(len(lines.characters), -1)
        gold_stop[gold_starts] = gold_stops
        right = same = gold_stop[starts] == stops
        if text.tags is not None:
            gold_tag = np.full(len(lines.characters), -1)
            gold_tag[gold_starts] = text.tags
            number = {tag: k for k, tag in enumerate(text.names)}
            right = same & (np.array([number.get(tag, -2) for tag in examples.known])[kinds] == gold_tag[starts])
        own, of_words = (shares(int(hits.sum()), len(starts), len(gold_starts)) for hits in (right, same))
        there, found = (np.histogram(of_line, lines.bounds)[0] for of_line in (gold_starts, starts[right]))
        whole = float((there == found).mean())
        figures = {"lines": len(outputs), "words": len(gold_starts), **own, "whole lines": whole}
        return figures if text.tags is None else figures | {"F1 of words": of_words["F1"]}


WORDS = Segmenting()
