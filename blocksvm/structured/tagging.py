"""The task ``tagged-words``: the words of lines that are written without blanks between them, and a tag for each.

Text to learn from has lines of word/TAG with blanks between them; a tag stands behind the last slash of its word.  The
lattice has the spans of the task ``words``, each with the tags that it may have: a word of the dictionary those that it
has in the training text, any other span those of the words that occur there once.  Features are those of words of the
training text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.row_batch import shown_name
from blocksvm.structured.character_lines import LineText, Spans, SpanTemplates, read_lines
from blocksvm.structured.evaluation import Counts
from blocksvm.structured.feature_table import collected, known_features
from blocksvm.structured.labelling import MOST_LABELS, pairs_of
from blocksvm.structured.segmenting import (
    OFTEN,
    gold_spans,
    require_spans,
    spaced_lines,
    spans_of,
    word_ids,
    words_of,
)
from blocksvm.structured.structured_model import StructuredModel
from blocksvm.structured.structured_settings import FEATURES
from blocksvm.structured.tagged_lattices import TaggedLattices
from blocksvm.structured.task import Examples, Learned, StructuredTask

SLASH = ord("/")
DEFAULT = (
    "word|known length|known types|known first1 first2 first3 last1 last2 last3 before1|first1 before2|first1 "
    "before1|first2 last1|after1 last2|after1 last1|after2 word|after1|known"
)


@dataclass(frozen=True)
class TaggedText:
    """Lines of words; tags (n_words,) int32 of each word, places in ``names``, or None where the lines have no tags."""

    lines: LineText
    tags: np.ndarray | None
    names: list[str]


def read_tagged(name: str, memory: int) -> TaggedText:
    """Lines of word/TAG, or lines without blanks, which have no tags.  InputError where a word has no tag, and for too
    many distinct ones."""
    raw = read_lines(name, memory)
    if not raw.divided:
        return TaggedText(raw, None, [])
    of_line, starts, stops = words_of(raw)
    slashes = np.append(-1, np.flatnonzero(raw.characters == SLASH))
    slash = slashes[np.searchsorted(slashes, stops) - 1]
    wrong = np.flatnonzero((slash <= starts) | (slash >= stops - 1))
    if len(wrong):
        k = wrong[0]
        raise InputError(
            f"{shown_name(name)}, line {raw.places[of_line[k]] + 1}: {text_of(raw, starts[k], stops[k])!r} has no tag; "
            "write word/TAG, or, to predict, lines without blanks"
        )
    _, firsts, codes = np.unique(raw.span_hashes(slash + 1, stops), return_index=True, return_inverse=True)
    if len(firsts) > MOST_LABELS:
        raise InputError(
            f"{shown_name(name)}: has {len(firsts):,} distinct tags, of which there may be {MOST_LABELS:,}; check that "
            "what stands behind the last slash of a word is its tag"
        )
    found = [text_of(raw, slash[k] + 1, stops[k]) for k in firsts]
    names = sorted(found)
    numbers = np.array([names.index(tag) for tag in found], np.int32)
    change = np.zeros(len(raw.characters) + 1, np.int64)
    change[slash] += 1
    np.add.at(change, stops, -1)
    kept = np.cumsum(change[:-1]) == 0
    bounds = np.append(0, np.cumsum(kept))[raw.bounds]
    lines = LineText(name, raw.characters[kept], bounds, raw.begins[kept], raw.places, raw.n_file_lines)
    return TaggedText(lines, numbers[codes], names)


def text_of(text: LineText, start: int, stop: int) -> str:
    return text.characters[start:stop].tobytes().decode("utf-32-le")


@dataclass
class TaggedWords(Examples):
    """Lines with the words and tags that they have; known: the model's tags."""

    structure: TaggedLattices
    text: TaggedText
    known: list[str]

    @property
    def gold(self) -> np.ndarray | None:
        return self.text.tags

    def predicted(self, outputs) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """(first characters, characters behind the last, of all words, counted over the text; each line's tags)."""
        starts, stops, tags = [], [], []
        s = self.structure
        for i, output in enumerate(outputs):
            nodes = s.nodes(i)
            spans = s.span_bounds[i] + nodes.spans[output]
            starts.append(self.text.lines.bounds[i] + s.starts[spans])
            stops.append(self.text.lines.bounds[i] + s.stops[spans])
            tags.append(nodes.kinds[output])
        return np.concatenate(starts), np.concatenate(stops), tags

    def lines(self, outputs) -> Iterator[str]:
        starts, _, tags = self.predicted(outputs)
        begins = np.zeros(len(self.text.lines.characters), bool)
        begins[starts] = True
        yield from spaced_lines(self.text.lines, begins, (self.known[tag] for own in tags for tag in own))


class Tagging(StructuredTask):
    name = "tagged-words"
    measure = "F1"
    settings = FEATURES

    def learn(self, text_name, settings, memory):
        text = read_tagged(text_name, memory)
        lines = text.lines
        if text.tags is None:
            raise InputError(f"{shown_name(text_name)}: has no blank within a line; write word/TAG word/TAG ...")
        templates = SpanTemplates(DEFAULT if settings["template"] is None else settings["template"])
        dictionary, sets, tag_sets = dictionary_of(text)
        spans, places = spans_of(lines, dictionary, settings["longest"], True)
        require_spans(lines, len(spans.starts), len(templates), memory)
        n, right = len(spans.starts), gold_spans(spans)
        # features of the words alone: those of all spans, each with a weight a tag, would be many times as many
        _, ids = collected(
            int(right.sum()), templates.groups, lambda t: templates.ids(spans, t)[right], settings["min_count"],
            memory - 80 * n,
        )  # fmt: skip
        table = known_features(n, templates.groups, lambda t: templates.ids(spans, t), ids)
        gold_tags = np.full(n, -1, np.int32)
        gold_tags[right] = text.tags
        sizes = [len(of_group) for of_group in ids]
        structure = lattices_of(
            spans, table, span_sets(places, sets), tag_sets, gold_tags, sizes, len(text.names), templates
        )  # fmt: skip
        about = {"labels": text.names, "template": templates.text, "n_columns": 1, "tag_sets": tag_sets}
        examples = TaggedWords(structure, text, text.names)
        return Learned(examples, about, ids[0], np.append(dictionary, sets), ids[1] if len(ids) > 1 else ids[0][:0])

    def examples(self, model: StructuredModel, text_name: str, memory: int, scoring: Mapping = {}) -> TaggedWords:
        text = read_tagged(text_name, memory)
        templates = SpanTemplates(model.meta["template"])
        check_sets(model)
        dictionary, sets = np.split(model.words, 2)
        spans, places = spans_of(text.lines, dictionary, FEATURES.restored(model.meta["settings"])["longest"], False)
        require_spans(text.lines, len(spans.starts), len(templates), memory)
        table = known_features(
            len(spans.starts), templates.groups, lambda t: templates.ids(spans, t), model.groups(len(templates.groups))
        )  # fmt: skip
        sizes, tags = [len(model.feature_ids), len(model.pair_ids)], model.meta["labels"]
        none = np.full(len(spans.starts), -1, np.int32)
        structure = lattices_of(
            spans, table, span_sets(places, sets), model.meta["tag_sets"], none, sizes, len(tags), templates
        )  # fmt: skip
        return TaggedWords(structure, text, tags)

    def layout(self, meta):
        return len(meta["labels"]), pairs_of(len(meta["labels"]))

    def pair_weights(self, meta):
        return pairs_of(len(meta["labels"]))

    def figures(self, examples: TaggedWords, outputs):
        text = examples.text
        starts, stops, tags = examples.predicted(outputs)
        _, gold_starts, gold_stops = words_of(text.lines)
        place = {tag: k for k, tag in enumerate(text.names)}
        ours = np.array([place.get(tag, -1) for tag in examples.known], np.int64)[np.concatenate(tags)]
        # words by their first character, of which each begins at most one
        gold_stop, gold_tag = (np.full(len(text.lines.characters), -1, np.int64) for _ in range(2))
        gold_stop[gold_starts], gold_tag[gold_starts] = gold_stops, text.tags
        same = gold_stop[starts] == stops
        words = Counts(int(same.sum()), len(starts), len(gold_starts))
        tagged = Counts(int((same & (gold_tag[starts] == ours)).sum()), len(starts), len(gold_starts))
        return {
            "lines": len(outputs), "words": len(gold_starts), "precision": tagged.precision, "recall": tagged.recall,
            "F1": tagged.f1, "F1 of words": words.f1,
        }  # fmt: skip


def dictionary_of(text: TaggedText) -> tuple[np.ndarray, np.ndarray, list[list[int]]]:
    """(ids (n,) int64 of the words that occur more than once, the most frequent first; the set (n,) int64 of tags of
    each; the sets, rising, of which the first is that of other words)."""
    _, starts, stops = words_of(text.lines)
    known, word, counts = np.unique(word_ids(text.lines, starts, stops), return_inverse=True, return_counts=True)
    often = np.flatnonzero(counts >= OFTEN)
    order = often[np.lexsort((known[often], -counts[often]))]
    rare = np.unique(text.tags[counts[word] < OFTEN])
    tag_sets = [(rare if len(rare) else np.unique(text.tags)).tolist()]
    number = {tuple(tag_sets[0]): 0}
    pairs = np.unique(np.stack([word, text.tags], axis=1), axis=0)
    of_word = np.split(pairs[:, 1], np.searchsorted(pairs[:, 0], np.arange(1, len(known))))
    sets = np.empty(len(order), np.int64)
    for k, w in enumerate(order):
        tags = tuple(of_word[w].tolist())
        if tags not in number:
            number[tags] = len(tag_sets)
            tag_sets.append(list(tags))
        sets[k] = number[tags]
    return known[order], sets, tag_sets


def check_sets(model: StructuredModel) -> None:
    """InputError unless the dictionary of a model's file has a set of the model's tags for each word."""
    n_tags, tag_sets = len(model.meta["labels"]), model.meta.get("tag_sets")
    good = isinstance(tag_sets, list) and all(
        isinstance(tags, list) and tags and all(type(tag) is int and 0 <= tag < n_tags for tag in tags)
        for tags in tag_sets
    )
    sets = model.words[len(model.words) // 2 :]
    if not good or not tag_sets or len(model.words) % 2 or not ((sets >= 0) & (sets < len(tag_sets))).all():
        raise InputError(f"{model.path}: is damaged (its words have sets of tags that there are not); make it again")


def span_sets(places: np.ndarray, sets: np.ndarray) -> np.ndarray:
    """(n_spans,) the set of tags of each span; places in the dictionary, -1 for others."""
    return np.append(sets, 0)[places]


def lattices_of(
    spans: Spans, table: np.ndarray, sets: np.ndarray, tag_sets: list[list[int]], gold_tags: np.ndarray,
    sizes: list[int], n_tags: int, templates: SpanTemplates,
) -> TaggedLattices:  # fmt: skip
    text = spans.text
    first = text.bounds[spans.lines]
    return TaggedLattices(
        table, np.stack([spans.lines, spans.starts - first, spans.stops - first], axis=1), text.lengths, sets, tag_sets,
        gold_tags, (sizes[0], sum(sizes[1:])), n_tags, templates.groups[0],
    )  # fmt: skip


TAGGED_WORDS = Tagging()
