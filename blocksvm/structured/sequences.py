"""Labels of the tokens of a sequence, first order, and the tasks ``tags`` and ``chunks``.

score(y) = sum_t sum_{f of token t} w[f, y_t] + sum_t (w[y_{t-1}, y_t] + sum_{g of pairs at t} w[g, y_{t-1}, y_t]);
rho(y, y') = tokens whose labels differ.

A sequence is a path through the lattice whose nodes are all pairs (token, label): ``Paths`` is what it shares with the
lattices of spans (``lattices.py``).  Its weights: ``width`` for each feature of a node (one for each label, or 1), then
for each feature of a pair one for each two neighbouring kinds, (n_kinds + 1, n_kinds), the last row for what comes
first, then as many for all pairs (``kernels/paths.py``).
"""

from collections.abc import Mapping
from itertools import pairwise

import numpy as np

from blocksvm.structured.kernels.paths import best_paths, column_scores, path_entries
from blocksvm.structured.settings import OF_TOKENS
from blocksvm.structured.structure import Row, Structure, TokenAnswers, row_of
from blocksvm.structured.tasks import AnsweredTokens, Learned, StructuredModel, StructuredTask
from blocksvm.structured.text.columns import ColumnText, codes_in, read_columns
from blocksvm.structured.text.templates import WITH_TAGS, WITHOUT_TAGS, Templates, Tokens


class Paths(Structure):
    """Paths through a lattice, of whose nodes a subclass tells by four methods:

    lattice(i) -> (kinds, starts, ending) as ``best_paths`` takes them; rows(i) -> (the first row of the table of the
    example, how many it has, which of them each node stands on (n_nodes,)); node_costs(i) -> (n_nodes,) float64 whose
    sum along a path is its loss, less what all paths have in common; along(i, output) -> (rows of the table, kinds),
    int32, of the nodes of an output.

    table (n_rows, n_columns) int32: the features of the rows that nodes stand on, -1: none, those of pairs of kinds
    from the column ``plain`` on; n_features, n_pairs: how many there are of the two; width, n_kinds: see above.
    """

    @property
    def offsets(self) -> tuple[int, int]:
        """Where the weights of the pairs' features begin, and those of all pairs."""
        first = self.n_features * self.width
        return first, first + self.n_pairs * pairs_of(self.n_kinds)

    @property
    def n_weights(self) -> int:
        return self.offsets[1] + pairs_of(self.n_kinds)

    def most_violating(self, w, i):
        return self._paths(w, i, self.node_costs(i), 1)[0]

    def k_best(self, w, i, k):
        return self._paths(w, i, 0.0, k)

    def _paths(self, w, i: int, costs, k: int) -> list[np.ndarray]:
        """The nodes of the k best paths, which are the outputs."""
        kinds, starts, ending = self.lattice(i)
        first, n_rows, rows = self.rows(i)
        own, of_all = self.offsets
        scores = np.empty((n_rows, self.width))
        column_scores(self.table, first, 0, self.plain, w, 0, scores)
        scores = scores[rows, kinds if self.width > 1 else 0] + costs
        between = w[of_all:].reshape(1, self.n_kinds + 1, self.n_kinds)
        if self.n_pairs:
            of_rows = np.empty((n_rows, between.size))
            column_scores(self.table, first, self.plain, self.table.shape[1], w, own, of_rows)
            between = of_rows.reshape(n_rows, *between.shape[1:]) + between
        else:
            rows = np.zeros_like(rows)
        paths, lengths = np.empty((k, len(ending) - 2), np.int32), np.empty(k, np.int64)
        n = best_paths(scores, kinds, starts, ending, between, rows, k, paths, lengths)
        return [paths[j, : lengths[j]] for j in range(n)]

    def path(self, i: int, output: np.ndarray) -> np.ndarray:
        """(4, n) int32 of an output's nodes: row, column of the weights, kind before, kind."""
        rows, kinds = self.along(i, output)
        path = np.empty((4, len(rows)), np.int32)
        path[0], path[1], path[3] = rows, kinds if self.width > 1 else 0, kinds
        path[2, 0], path[2, 1:] = self.n_kinds, kinds[:-1]
        return path

    def entries(self, *parts: tuple[np.ndarray, float]) -> Row:
        """The features of paths, each times a factor."""
        capacity = sum(path.shape[1] for path, _ in parts) * (self.table.shape[1] + 1)
        indices, values, n = np.empty(capacity, np.int64), np.empty(capacity), 0
        for path, factor in parts:
            n = path_entries(
                self.table, self.plain, path, self.width, self.n_kinds, self.offsets, factor, indices, values, n
            )
        return row_of(indices[:n], values[:n])

    def features(self, i, output):
        return self.entries((self.path(i, output), 1.0))

    def difference(self, i, output):
        return self.entries((self.path(i, self.gold(i)), 1.0), (self.path(i, output), -1.0))

    def most(self, i):
        n, n_columns = len(self.lattice(i)[2]) - 2, self.table.shape[1]  # a path has n nodes at most
        return n * (n_columns + 2), float(n * (n_columns + 1)), 2.0 * n


def pairs_of(n_kinds: int) -> int:
    return (n_kinds + 1) * n_kinds


class Sequences(TokenAnswers, Paths):
    """Sequences as arrays.

    table (n_tokens, n_columns) int32, -1: none, those of pairs of labels from the column ``plain`` on (None: there are
    none); bounds (n_sequences + 1,) int64; labels (n_tokens,) int32, -1 where one is not among the n_labels, or None;
    n_features, n_pairs: features of tokens, and of pairs of labels.
    """

    def __init__(
        self, table: np.ndarray, bounds: np.ndarray, labels: np.ndarray | None, n_features: int, n_labels: int,
        plain: int | None = None, n_pairs: int = 0,
    ):  # fmt: skip
        self.table = np.ascontiguousarray(table, dtype=np.int32)
        self.plain = self.table.shape[1] if plain is None else plain
        self.bounds, self.answers = np.ascontiguousarray(bounds, dtype=np.int64), labels
        self.n_features, self.n_pairs = n_features, n_pairs
        self.width = self.n_kinds = n_labels
        self.n_examples = len(bounds) - 1
        # the lattice of the longest sequence, of which others take the beginning
        longest = int(np.diff(self.bounds).max(initial=0))
        nodes = np.arange(longest * n_labels, dtype=np.int32)
        self._kinds, self._starts = nodes % np.int32(n_labels), nodes // np.int32(n_labels)
        self._ending = np.append(0, np.arange(longest + 1, dtype=np.int64) * n_labels)

    def lattice(self, i):
        n = self.length(i)
        nodes = n * self.n_kinds
        return self._kinds[:nodes], self._starts[:nodes], self._ending[: n + 2]

    def rows(self, i):
        n = self.length(i)
        return int(self.bounds[i]), n, self._starts[: n * self.n_kinds]

    def node_costs(self, i):
        return (np.arange(self.n_kinds) != self.gold(i)[:, None]).astype(np.float64).reshape(-1)

    def along(self, i, output):
        return np.arange(self.bounds[i], self.bounds[i + 1], dtype=np.int32), output

    def _paths(self, w, i, costs, k):
        return [self._kinds[nodes] for nodes in super()._paths(w, i, costs, k)]

    def difference(self, i, output):
        """Of the tokens whose label, or that of the one before, differs."""
        better, worse = self.path(i, self.gold(i)), self.path(i, output)
        changed = (better != worse).any(axis=0)
        return self.entries((better.compress(changed, axis=1), 1.0), (worse.compress(changed, axis=1), -1.0))


class Labelling(StructuredTask):
    """A label for each token of column text, the last column being the label.  Of ``chunks`` labels are those of the
    beginning, inside and outside of chunks, as B-NP, I-NP and O."""

    settings = OF_TOKENS

    def __init__(self, name: str, chunks: bool):
        self.name, self.chunks = name, chunks

    def learn(self, text_name, settings, memory):
        text = read_columns(text_name, memory)
        n_columns = text.columns_before("label")
        labels = sorted(text.columns[-1].words)
        default = WITH_TAGS if n_columns > 1 else WITHOUT_TAGS
        templates = Templates(default if settings["template"] is None else settings["template"])
        rows = Tokens(text, n_columns)
        templates.require(text_name, "tokens", rows.n_rows, 0, memory)
        table, ids = templates.collected(rows, settings["min_count"], memory)
        gold = codes_in(text.columns[-1], labels)
        structure = self._structure(table, text, gold, ids, len(labels), templates)
        about = {"labels": labels, "template": templates.text, "n_columns": n_columns}
        return Learned(structure, about, ids[0], pair_ids=np.concatenate([ids[0][:0], *ids[1:]]))

    def _structure(self, table, text: ColumnText, gold, ids: list, n_labels: int, templates: Templates) -> Sequences:
        sizes = len(ids[0]), n_labels, templates.groups[0], sum(map(len, ids[1:]))
        return Sequences(table, text.bounds, gold, *sizes)

    def examples(self, model: StructuredModel, text_name: str, memory: int, scoring: Mapping = {}) -> AnsweredTokens:
        text = read_columns(text_name, memory)
        n_columns, templates = model.meta.n_columns, Templates(model.meta.template)
        labels, gold, known = model.meta.labels, None, list(model.meta.labels)
        if text.has_target(n_columns, "labels"):
            known += sorted(set(text.columns[-1].words) - set(labels))
            gold = codes_in(text.columns[-1], known)
        rows, ids = Tokens(text, n_columns), model.groups(len(templates.groups))
        templates.require(text_name, "tokens", rows.n_rows, 0, memory)
        structure = self._structure(templates.known(rows, ids), text, gold, ids, len(labels), templates)
        return AnsweredTokens(structure, text, gold, n_columns, known)

    def layout(self, meta):
        pairs = pairs_of(len(meta.labels))
        return len(meta.labels), pairs, pairs

    def figures(self, examples: AnsweredTokens, outputs):
        predicted = np.concatenate(outputs)
        right = int((predicted == examples.gold).sum())
        figures = {"tokens": len(predicted), "sentences": len(outputs), "accuracy": right / len(predicted)}
        if not self.chunks:
            return figures
        counts = chunk_counts(examples.gold, predicted, examples.text.bounds, examples.known)
        every = counts.pop("")
        of_types = {kind: {**shares(*own), "chunks": own[2]} for kind, own in counts.items()}
        return figures | {"chunks": every[2], **shares(*every), "types": of_types}


TAGS = Labelling("tags", chunks=False)
CHUNKS = Labelling("chunks", chunks=True)


def shares(right: int, predicted: int, gold: int) -> dict[str, float]:
    """Of so many right ones among those that were predicted and those that are there."""
    return {
        "precision": right / predicted if predicted else 0.0,
        "recall": right / gold if gold else 0.0,
        "F1": 2.0 * right / (predicted + gold) if right else 0.0,
    }


def chunks_of(codes: np.ndarray, bounds: np.ndarray, labels: list[str]) -> set[tuple[int, int, str]]:
    """Each chunk's first token, the one after its last, and its type; codes (n_tokens,): positions in ``labels``;
    bounds: as in ``ColumnText``.  A chunk begins with B, or I behind another type or O, and goes on with I of its type
    (conlleval of Tjong Kim Sang and Buchholz, CoNLL-2000)."""
    parts = [label.partition("-")[::2] for label in labels]
    chunks = set()
    for start, stop in pairwise(bounds.tolist()):
        first, kind = -1, ""  # of the chunk that is open, -1: none
        for t, (tag, own) in enumerate([*(parts[code] for code in codes[start:stop]), ("O", "")], start):
            if first >= 0 and (tag != "I" or own != kind):
                chunks.add((first, t, kind))
                first = -1
            if first < 0 and tag != "O":
                first, kind = t, own
    return chunks


def chunk_counts(gold: np.ndarray, predicted: np.ndarray, bounds: np.ndarray, labels: list[str]) -> dict[str, tuple]:
    """How many chunks were right, were predicted, and are there, by type, in alphabetical order, and of all under '';
    gold, predicted: as in ``chunks_of``."""
    ours, theirs = (chunks_of(codes, bounds, labels) for codes in (predicted, gold))
    sets = ours & theirs, ours, theirs
    counts = {"": tuple(map(len, sets))}
    for kind in sorted({kind for _, _, kind in ours | theirs} - {""}):
        counts[kind] = tuple(sum(own == kind for _, _, own in chunks) for chunks in sets)
    return counts
