"""Decision values of text or a store under a model, within a budget of memory, in the order of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from blocksvm.conversion.ids import IdIndex
from blocksvm.errors import InputError
from blocksvm.formats import format_of
from blocksvm.formats.hashing import reader_of
from blocksvm.formats.protocol import EXPANSION, Format, Reading
from blocksvm.formats.recipe import Recipe
from blocksvm.formats.text import LineLimit, TextInputs
from blocksvm.kernels.margins import decision_values
from blocksvm.memory import Budget
from blocksvm.model.files import Model, describe_model, hashed, labels_predicted, load_model, own_format, recipe_of
from blocksvm.rows import RecordCounter, shown_name
from blocksvm.sources.block import Arena
from blocksvm.sources.source import Labels, bytes_of_blocks
from blocksvm.sources.store.reader import Store


@dataclass(frozen=True)
class Scores:
    """Decision values (n,) float64 of consecutive rows, (n, k) of k > 2 classes; their labels (n,) float64, nan where
    there are none."""

    values: np.ndarray
    labels: np.ndarray

    def predictions(self, model: Model) -> np.ndarray:
        """Labels (n,) float64 in the user's numbers; a decision value of 0 gives the negative one."""
        return labels_predicted(self.values, model.labels)


def values_of(matrix: tuple, weights: np.ndarray) -> np.ndarray:
    """Decision values (n,) for weights (d + 1,) whose last entry is the intercept, or (n, k) for (k, d + 1)."""
    values = np.empty((len(matrix[0]) - 1, 1 if weights.ndim == 1 else len(weights)))
    out = np.empty(len(values))
    for c, own in enumerate(np.atleast_2d(weights)):
        decision_values(*matrix, own, 1.0, out)
        values[:, c] = out
    return values[:, 0] if weights.ndim == 1 else values


class TextScorer:
    """Scores text row by row, read by the recipe of the model's training text.

    format: the text's format, None: the recipe's own, 'auto': what its first bytes look like; on_format is told it
    before anything is parsed.
    """

    def __init__(self, model: str | Path, memory: int, format: str | None = None,
                 on_format: Callable[[Format], None] = lambda found: None):  # fmt: skip
        description = describe_model(model)
        d, copies = description["n_features"], description["copies"]
        self.budget = Budget(memory)
        self.piece_bytes = int(min(4_000_000, max(65_536, memory // 64)))
        # a row's text takes two bytes or more
        scores = 4 * copies if copies > 1 else 0
        self.budget.take("text", (EXPANSION + 1 + scores) * self.piece_bytes)
        # ids stay for the look-up; while the index is filled there are two copies of them
        need = 8 * copies * (d + 2) + 8 * copies * (d + 1) + 8 * d + IdIndex.n_bytes(d)
        self.budget.require("the model", need)
        self.budget.take("the model", need)
        # a longer line is there up to three times while it is read, then with what is made of it
        self.line_bytes = EXPANSION + 4 + scores
        self.model = load_model(model)
        self.note = ""
        self.recipe = recipe_of(description, model)
        self.format = format or own_format(self.recipe.format, model)
        self.on_format = on_format
        self.index = IdIndex(d).fill([(0, self.model.feature_ids)])
        # unseen features point at a weight of 0, the last entry is the constant
        constant = np.expand_dims(self.model.intercept, -1)
        self.w = np.concatenate([self.model.weights, np.zeros_like(constant), constant], axis=-1)

    def scores(self, inputs: list[str]) -> Iterator[Scores]:
        """Scores piece by piece; InputError with file and line for bad text."""
        counter = RecordCounter()
        rows = 0
        with TextInputs(inputs) as text:
            found = format_of(text, self.format)
            self.on_format(found)
            reader = reader_of(found, Reading(self.recipe, labelled=False))
            share = EXPANSION / reader.expansion
            for piece in text.pieces(int(share * self.piece_bytes), self._limit(share)):
                batch = reader.parse(piece)
                counter.check(batch)
                positions = self.index.find(batch.ids)
                positions[positions < 0] = self.w.shape[-1] - 2
                values = values_of((batch.indptr, positions, batch.values), self.w)
                rows += len(values)
                yield Scores(values, batch.labels)
        if rows == 0:
            raise InputError(f"{shown_name(inputs[0])}: no rows found; expected lines of {found.lines}")

    def _limit(self, share: float) -> LineLimit:
        """Lines as long as what is left of the memory holds."""
        each = int(self.line_bytes / share)
        taken = self.budget.total - self.budget.left
        return LineLimit(
            max(int(share * self.piece_bytes), self.budget.left // each), lambda n_bytes: taken + each * (n_bytes + 1)
        )


class StoreScorer:
    """Scores a store's rows in the order of their source.

    Rows lie shuffled in a store; where the scores of all do not fit in memory, it is read once for each range of
    source numbers that does.
    """

    def __init__(self, model: str | Path, path: str | Path, memory: int):
        self.path = path
        self.budget = Budget(memory)
        description = describe_model(model)
        d, copies = description["n_features"], description["copies"]
        self.row_bytes = 32 + 16 * copies
        with Store(path) as store:
            need = (8 + 8 * copies) * (d + 1) + IdIndex.n_bytes(d) + 8 * copies * (store.n_features + 1)
            self.budget.require("the model and the matching of its features", need)
            loaded = load_model(model)
            own, trained = Recipe.of_store(store.meta, store.name), loaded.recipe
            self.note = ""
            if own.normalize != trained.normalize:
                self.note = (
                    f"note: the model was trained on rows split with --normalize {trained.normalize}, this store's "
                    f"with {own.normalize}: split it likewise, or its decision values are on another scale"
                )
            self.own = _own_weights(loaded, store)
            # from here on the weights are only needed by the store's own features
            self.model = replace(loaded, feature_ids=np.empty(0, np.int64), weights=np.empty(0))
            most_rows = int(store.chunks.n_rows.max())
            self.arena_bytes = bytes_of_blocks(store, most_rows, int(store.chunks.nnz.max()))
            self.budget.take("weights", self.own.nbytes)
            self.budget.take("one chunk", self.arena_bytes + (48 + 16 * copies) * most_rows)
            self.budget.require("scores", self.row_bytes * min(store.n_samples, 1024))

    def scores(self) -> Iterator[Scores]:
        """Scores of ranges of source numbers, in their order."""
        arena = Arena(self.arena_bytes)
        with Store(self.path) as store:
            store.labels = Labels(tuple(self.model.labels))
            at_once = min(store.n_samples, max(1, self.budget.left // self.row_bytes))
            bounds = _source_bounds(store, at_once)
            for low, high in zip(bounds[:-1], bounds[1:], strict=True):
                yield _scores_between(store, self.own, arena, low, high)


def _own_weights(model: Model, store: Store) -> np.ndarray:
    """The model's weights by the store's features, the intercept last; of more than two classes a row each.

    InputError where the store's features are hashed otherwise than the model's.
    """
    bits = Recipe.of_store(store.meta, store.name).bits
    if bits is not None and bits != model.bits:
        theirs = "none" if model.bits is None else f"--bits {model.bits}"
        raise InputError(
            f"{store.name}: was split with --bits {bits}, the model's text with {theirs}; split it likewise"
        )
    index = IdIndex(len(model.feature_ids)).fill([(0, model.feature_ids)])
    own = np.zeros((*model.weights.shape[:-1], store.n_features + 1))
    for start, ids in store.feature_id_pieces():
        positions = index.find(ids if bits is not None else hashed(ids, model.bits))
        known = positions >= 0
        own[..., start : start + len(ids)][..., known] = model.weights[..., positions[known]]
    own[..., -1] = model.intercept
    return own


def _source_bounds(store: Store, at_once: int) -> list[int]:
    """Source numbers between which there are at most about ``at_once`` rows."""
    n_source = int(store.meta["source_rows"])
    ranges = -(-store.n_samples // at_once)
    return [n_source * k // ranges for k in range(ranges + 1)]


def _scores_between(store: Store, own: np.ndarray, arena: Arena, low: int, high: int) -> Scores:
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for chunk in range(len(store.chunks)):
        rows = store.read_rows(chunk)
        chosen = (rows["source"] >= low) & (rows["source"] < high)
        if not chosen.any():
            continue
        block = store.read_block(np.array([chunk]), arena)
        values = values_of(block.matrix, own)
        found.append((rows["source"][chosen], values[chosen], rows["label"][chosen]))
    if not found:
        return Scores(np.empty(0), np.empty(0))
    source, values, labels = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.argsort(source)
    return Scores(values[order], labels[order])
