"""Dependency trees: every token has a head, another token or the root, and each arc has features; the task ``trees``.

score(y) = sum_m sum_{f of the arc (y_m, m)} w[f];   rho(y, y') = tokens whose heads differ.

A sentence of n tokens has (n + 1) n arcs: h n + m - 1 goes from the head h, from 0, the root, to n, to the modifier m,
from 1 to n.
"""

from collections.abc import Mapping

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.structured.kernels.arborescence import best_trees, tags_between
from blocksvm.structured.kernels.paths import column_scores
from blocksvm.structured.settings import OF_TOKENS
from blocksvm.structured.structure import TokenAnswers, row_of
from blocksvm.structured.tasks import AnsweredTokens, Learned, StructuredModel, StructuredTask
from blocksvm.structured.text.columns import ColumnText, read_columns
from blocksvm.structured.text.templates import NOTHING, Part, Templates, Tokens, attribute_hashes, mixed

DISTANCE, BETWEEN = "d", "b"
MOST_BETWEEN = 8  # distinct tags between two tokens that make features
ARC_BYTES = 80  # of an arc, beside its features
LIMITS = np.array([2, 3, 4, 5, 6, 11])  # distances from which on they count as longer
ROOT = np.uint64(0x2545F4914F6CDD1D)  # the root's word and tag
# near those of McDonald, Crammer, Pereira (ACL 2005)
WITH_TAGS = (
    "hw[0]|ht[0]|d hw[0]|d ht[0]|d mw[0]|mt[0]|d mw[0]|d mt[0]|d hw[0]|ht[0]|mw[0]|mt[0] hw[0]|ht[0]|mw[0]|mt[0]|d "
    "ht[0]|mw[0]|mt[0]|d hw[0]|mw[0]|mt[0]|d hw[0]|ht[0]|mt[0]|d hw[0]|ht[0]|mw[0]|d hw[0]|mw[0]|d ht[0]|mt[0]|d "
    "ht[0]|mt[0] ht[0]|ht[1]|mt[-1]|mt[0]|d ht[-1]|ht[0]|mt[-1]|mt[0]|d ht[0]|ht[1]|mt[0]|mt[1]|d "
    "ht[-1]|ht[0]|mt[0]|mt[1]|d ht[0]|mt[-1]|mt[0]|d ht[0]|mt[0]|mt[1]|d ht[0]|ht[1]|mt[0]|d ht[-1]|ht[0]|mt[0]|d "
    "ht[0]|mw[0]|d ht[0]|b|mt[0]|d"
)
WITHOUT_TAGS = "hw[0]|d mw[0]|d hw[0]|mw[0]|d hw.suffix3[0]|mw.suffix3[0]|d hw.shape[0]|mw.shape[0]|d mw.suffix3[0]|d"


def arc_bounds_of(bounds: np.ndarray) -> np.ndarray:
    """(n_sentences + 1,) int64: where the arcs of each sentence begin."""
    lengths = np.diff(bounds)
    return np.append(0, np.cumsum((lengths + 1) * lengths)).astype(np.int64)


class Trees(TokenAnswers):
    """Trees as arrays.

    table (n_arcs, n_columns) int32: features of each arc, -1: none; bounds (n_sentences + 1,) int64; heads (n_tokens,)
    int32, or None.  An output is the heads of a sentence's tokens.
    """

    def __init__(self, table: np.ndarray, bounds: np.ndarray, heads: np.ndarray | None, n_features: int):
        self.table = np.ascontiguousarray(table, dtype=np.int32)
        self.bounds = np.ascontiguousarray(bounds, dtype=np.int64)
        self.arc_bounds, self.answers = arc_bounds_of(self.bounds), heads
        self.n_examples, self.n_weights = len(bounds) - 1, n_features

    def features(self, i, output):
        n = len(output)
        rows = self.arc_bounds[i] + output.astype(np.int64) * n + np.arange(n)
        indices = self.table[rows]
        indices = indices[indices >= 0].astype(np.int64)
        return row_of(indices, np.ones(len(indices)))

    def most(self, i):
        n, n_columns = self.length(i), self.table.shape[1]
        # contracting a cycle changes a weight by two others, at most n times
        return 3 * n * (n_columns + 1), float(n * n_columns), float(n)

    def arc_weights(self, w: np.ndarray, i: int) -> np.ndarray:
        """(n + 1, n + 1) float64: of the arc from h to m, as ``best_tree`` takes them."""
        n = self.length(i)
        scores = np.empty(((n + 1) * n, 1))
        column_scores(self.table, self.arc_bounds[i], 0, self.table.shape[1], w, 0, scores)
        weights = np.zeros((n + 1, n + 1))
        weights[:, 1:] = scores.reshape(n + 1, n)
        return weights

    def most_violating(self, w, i):
        weights, gold = self.arc_weights(w, i), self.gold(i)
        weights[:, 1:] += 1.0
        weights[gold, np.arange(1, len(gold) + 1)] -= 1.0
        return _trees(weights, 1)[0]

    def k_best(self, w, i, k):
        return _trees(self.arc_weights(w, i), k)


def _trees(weights: np.ndarray, k: int) -> list[np.ndarray]:
    trees = np.empty((k, len(weights)), np.int32)
    return [tree[1:] for tree in trees[: best_trees(weights, k, trees)]]


class Arcs:
    """The arcs of a text, which templates make features of.  Names: those of tokens, behind an h of the head or an m of
    the modifier, as hw[0], mt[-1], hw.suffix3[0]; d, direction and distance; b, a tag that occurs between the two ends,
    which makes a feature of each such tag."""

    def __init__(self, text: ColumnText, n_columns: int):
        self.text, self.tokens = text, Tokens(text, n_columns)
        lengths, arc_bounds = np.diff(text.bounds), arc_bounds_of(text.bounds)
        counts, self.n_rows = np.diff(arc_bounds), int(arc_bounds[-1])
        arcs = np.arange(self.n_rows) - np.repeat(arc_bounds[:-1], counts)
        head, modifier = np.divmod(arcs, np.repeat(lengths, counts))
        first = np.repeat(text.bounds[:-1], counts)
        self.root = head == 0
        self.ends = {"h": (first + np.maximum(head - 1, 0)).astype(np.int32), "m": (first + modifier).astype(np.int32)}
        away = head - 1 - modifier
        self.no_arc = away == 0
        buckets = np.searchsorted(LIMITS, np.abs(away), side="right") + (away > 0) * (len(LIMITS) + 1)
        self.distance = buckets.astype(np.uint8)
        self.between = np.empty((self.n_rows, MOST_BETWEEN), np.int8 if n_columns < 2 else np.int32)
        if n_columns > 1:
            tags_between(text.columns[1].codes, text.bounds, arc_bounds, self.between)

    def values(self, part: Part) -> np.ndarray:
        end, name = part.name[0], part.name[1:]
        if part.text == DISTANCE:
            values = mixed(self.distance.astype(np.uint64) + np.uint64(1))
        elif part.text == BETWEEN:
            if self.tokens.n_columns < 2:
                raise InputError(f"{option('template', part.text)}: the text has no column of tags; leave it out")
            tags = self.between[:, part.offset]
            values = np.where(tags < 0, NOTHING, attribute_hashes(self.text.columns[1], "")[np.maximum(tags, 0)])
        elif end not in self.ends or not name:
            raise part.unknown("d, b, and those of tokens behind h (head) or m (modifier), as hw[0] or mt[-1]")
        else:
            values = self.tokens.values(part._replace(name=name))[self.ends[end]]
            if end == "h":
                values[self.root] = ROOT + np.uint64(part.offset + 1000)
        return np.where(self.no_arc, NOTHING, values)


def heads_of(text: ColumnText) -> np.ndarray:
    """(n_tokens,) int32 from the last column; InputError unless the heads of each sentence are a tree."""
    column = text.columns[-1]
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
    root = len(text.lines)
    above = np.append(np.where(heads > 0, np.repeat(text.bounds[:-1], np.diff(text.bounds)) + heads - 1, root), root)
    for _ in range(int(lengths.max()).bit_length() + 1):
        above = above[above]
    unreachable = np.flatnonzero(above != root)
    if len(unreachable):
        raise InputError(
            f"{text.line_of(unreachable[0])}: its heads lead in a circle; every token must hang from the root, 0"
        )
    return heads.astype(np.int32)


class Parsing(StructuredTask):
    """The head of each token of column text, whose last column is the head's number, 0 for the root."""

    name = "trees"
    settings = OF_TOKENS

    def _arcs(self, template: str, text: ColumnText, n_columns: int, memory: int) -> tuple[Templates, Arcs]:
        templates = Templates(template, {BETWEEN: MOST_BETWEEN})
        if len(templates.groups) > 1:
            raise InputError(f"{option('template', templates.text)}: trees have no y[-1]; leave it out")
        templates.require(text.name, "arcs between tokens", int(arc_bounds_of(text.bounds)[-1]), ARC_BYTES, memory)
        return templates, Arcs(text, n_columns)

    def learn(self, text_name, settings, memory):
        text = read_columns(text_name, memory)
        n_columns, heads = text.columns_before("head"), heads_of(text)
        default = WITH_TAGS if n_columns > 1 else WITHOUT_TAGS
        template = default if settings["template"] is None else settings["template"]
        templates, arcs = self._arcs(template, text, n_columns, memory)
        table, (ids,) = templates.collected(arcs, settings["min_count"], memory)
        about = {"labels": [], "template": templates.text, "n_columns": n_columns}
        return Learned(Trees(table, text.bounds, heads, len(ids)), about, ids)

    def examples(self, model: StructuredModel, text_name: str, memory: int, scoring: Mapping = {}) -> AnsweredTokens:
        text, n_columns = read_columns(text_name, memory), model.meta.n_columns
        gold = heads_of(text) if text.has_target(n_columns, "heads") else None
        templates, arcs = self._arcs(model.meta.template, text, n_columns, memory)
        table = templates.known(arcs, [model.feature_ids])
        return AnsweredTokens(Trees(table, text.bounds, gold, len(model.feature_ids)), text, gold, n_columns)

    def figures(self, examples: AnsweredTokens, outputs):
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
