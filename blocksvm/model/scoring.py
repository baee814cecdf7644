"""Decision values of text or a store under a model, within a budget of memory, in the order of the source."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import structs

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import LABEL_BYTES, has_label
from blocksvm.base.memory import Budget
from blocksvm.base.row_batch import RecordCounter, RowBatch, shown_name
from blocksvm.base.user_code import by_user, names_of
from blocksvm.base.vectors import side_by_side, width_of
from blocksvm.conversion.feature_ids import IdIndex
from blocksvm.conversion.parallel_parsing import ordered_map, parsed_in_order
from blocksvm.files.input import open_input
from blocksvm.files.paths import Location, location
from blocksvm.formats import cut_between_records, get_format, settled
from blocksvm.formats.choices import BESIDE, KEEP, PREDICTED, carried, merge_options
from blocksvm.formats.file_reader import HDF5, inputs_of, magic_of
from blocksvm.formats.format import EXPANSION, ReaderOptions
from blocksvm.formats.hashing import reader_of
from blocksvm.formats.text.text_source import LineLimit
from blocksvm.kernels.rows import Entries
from blocksvm.model.decision_values import classes_of, decision_pieces, piece_bytes, rows_of_piece
from blocksvm.model.explanations import Contributions, Explainer, contributions_wanted
from blocksvm.model.held_out import stranger_note
from blocksvm.model.model_file import (
    FACTOR_BYTES,
    Model,
    describe_scoring,
    factors_of_model,
    hashed,
    labels_predicted,
    load_model,
    support_bytes,
)
from blocksvm.model.sparse_weights import BY_FEATURE_BYTES, ENTRY_BYTES, WeightsByFeature
from blocksvm.problems.expansion import Expansion
from blocksvm.sources.block import Arena
from blocksvm.sources.source import largest_chunk_bytes
from blocksvm.store.descriptions import ModelMeta
from blocksvm.store.hdf5_files import MAKERS, open_hdf5, text_attribute
from blocksvm.store.reader import Store

if TYPE_CHECKING:
    from blocksvm.formats.arrow_tables import TableInputs

SMALLEST_PIECE = 1 << 16  # bytes of text


@dataclass(frozen=True)
class Scores:
    """Decision values and classes of consecutive rows.

    values (m,) float64: their decision values, (m, k) of k > 2 classes, or None where only classes are wanted;
    classes (m,): the position of each row's label among the model's, a decision value of 0 is the first one's;
    labels (m,): the rows' own labels, float64 with nan or objects with None where there are none; contributions: the
    largest ones to the decision value of that class, where they are wanted; kept: as of ``RowBatch``.
    """

    values: np.ndarray | None
    classes: np.ndarray
    labels: np.ndarray
    contributions: Contributions | None = None
    kept: Any = None

    def predictions(self, model: Model) -> np.ndarray:
        """The user's labels (m,), or where targets are real numbers the decision values; sets of labels as tuples."""
        if model.multilabel:
            return labels_predicted(self.values, model.labels, True, model.ranks)
        return np.array(model.labels)[self.classes] if model.labels else self.values


class ScoredRows(NamedTuple):
    """Rows of a store's chunk (m,), in its order: their source numbers, labels as the store has them, the classes
    predicted, decision values (m, k) and contributions, where these are wanted; how many entries they have, and how
    many of these are of features that the model does not know."""

    source: np.ndarray
    label: np.ndarray
    classes: np.ndarray
    values: np.ndarray | None
    contributions: Contributions | None
    n_entries: int
    n_unknown: int


# score(chunks, low, high, take): take(rows) those of the chunks whose source numbers are low .. high - 1
ScoreChunks = Callable[[Sequence[int], int, int, Callable[[ScoredRows], None]], None]
Sharing = Callable[[Store], AbstractContextManager[ScoreChunks]]


Explained = Iterator[tuple[slice, np.ndarray, Contributions | None]]  # rows, decision values (k, m), contributions


class Coverage:
    """Counts of the rows that a model scored: entries, those of features that it does not know, and rows with a label;
    notes: sentences on what was left out."""

    def __init__(self, model):
        self.model = model
        self.entries: int | None = None  # of rows that are read by their features
        self.unknown = self.labels = 0
        self.notes: list[str] = []
        self.counting = Lock()

    def count(self, entries: int, unknown: int) -> None:
        with self.counting:  # threads that score a store's chunks come here at once
            self.entries = (self.entries or 0) + entries
            self.unknown += unknown

    def figures(self) -> dict:
        return {"entries": self.entries, "unknown_entries": self.unknown, "notes": self.notes}

    def warning(self) -> str:
        """The sentence where nothing was known; ''."""
        if self.entries is None or self.unknown < self.entries:
            return ""
        what = f"of the {self.entries:,} entries none is" if self.entries else "no row has an entry"
        return (
            f"warning: {what} of a feature that {self.model} knows, so that all rows score alike; check that the rows "
            "are read as those that it was trained on were (their form, names and separators)"
        )


class Scorer:
    """What is had of a model to score rows: its description, then its weights by the rows' features.

    explain: number of contributions of each row.  empty: lines of the text without a row, blank ones and comments, once
    it is read; a store has none.
    """

    empty = 0

    def __init__(self, model: str | Path, memory: int, explain: int | None):
        self.description = describe_scoring(model)
        self.budget = Budget(memory)
        self.note = ""
        self.n_explained = contributions_wanted(explain, self.description, model)
        self.explainer: Explainer | None = None

    def scores(self) -> Iterator[Scores]:
        raise NotImplementedError

    def _explain_by(self, path: str | Path | Location) -> None:
        """The file whose features have the names that contributions are told by."""
        self.explainer = Explainer(self.n_explained, path, self.budget) if self.n_explained else None

    def _take_model(self, loaded: Model, w: np.ndarray, positions: np.ndarray, n_features: int) -> None:
        """w (k, n_features + 1): the weights by the rows' features; positions: those of the model's among them."""
        support = loaded.support
        self.w = w
        self.completion = None if support is None else Expansion.of(support, positions, n_features)
        # from here on the weights are only needed in this order
        self.model = replace(loaded, feature_ids=np.empty(0, np.int64), weights=np.empty(0), support=None)

    def _values(self, entries: Entries) -> Explained:
        explainer = self.explainer
        for rows, values in decision_pieces(entries, self.w, 1.0, self.completion, 2 * self.n_explained):
            largest = explainer and explainer.contributions(entries.of_rows(rows), classes_of(values), self.w)
            yield rows, values, largest


class TextScorer(Scorer):
    """Scores text row by row, read by the recipe of the model's training text.

    format: the text's format, None: the recipe's own, 'auto': what its first bytes look like; options: settings of the
    format that are others for this text (of ``choices.PREDICTED``); n_jobs: threads that parse; keep: columns that are
    wanted beside the scores; skip_bad: go on after malformed lines, of which notes tell.
    """

    def __init__(self, model: str | Path, inputs: list[str] | TableInputs, memory: int, format: str | None = None,
                 options: Mapping = {}, n_jobs: int = 1, explain: int | None = None, keep: str | None = None,
                 skip_bad: bool = False):  # fmt: skip
        super().__init__(model, memory, explain)
        self.inputs, self.keep, self.skip_bad = inputs, keep, skip_bad
        self.counter = RecordCounter()
        description = self.description
        by_user(format=format)
        d, n_vectors = description.n_features, description.n_vectors
        # pieces for any number of threads take what one takes of a single thread, so that lines may be as long
        self.n_jobs = n_jobs = max(1, min(n_jobs, memory // (64 * SMALLEST_PIECE) - 1))
        self.n_pieces = n_pieces = n_jobs + 1 if n_jobs > 1 else 1  # one for each thread, and one that waits for it
        self.piece_bytes = int(max(SMALLEST_PIECE, min(4_000_000, memory // 64) // n_pieces))
        # a row's text takes two bytes or more
        self.budget.take("text", (EXPANSION * n_pieces + 1) * self.piece_bytes)
        values = piece_bytes(n_vectors, 2 * self.n_explained) + self.piece_bytes  # those that wait for their turn
        self.budget.take("decision values", n_pieces * values)
        self._explain_by(model)
        # ids stay for the look-up; while the index is filled there are two copies of them
        need = weight_bytes(description, d + 2) + bytes_of_reading(description) + 8 * d + IdIndex.n_bytes(d)
        need += support_bytes(description.kernel, d)
        need += FACTOR_BYTES * d * bool(description.text.factor)
        self.budget.reserve("the model", need)
        loaded = load_model(model)
        self.recipe = description.text
        if format is None:
            with names_of(model):
                get_format(self.recipe.format)
        elif format != self.recipe.format:
            before, known = self.recipe.format, self.recipe.options
            self.recipe = structs.replace(self.recipe, format=format, options=carried(before, format, known))
        self.recipe = structs.replace(self.recipe, options=merge_options(self.recipe.options, options, PREDICTED))
        self.label, self.likely = options.get("label"), format is None
        self.coverage = Coverage(loaded.path)
        self.index = IdIndex(d, self.budget.left // 4).fill([(0, loaded.feature_ids)])
        self.budget.take("the model", self.index.more_bytes)
        self.factors = factors_of_model(model, self.index.find) if self.recipe.factor else None
        # unseen features point at a weight of 0, the last entry is the constant
        if description.sparse is not None:
            w = WeightsByFeature(loaded.weights, np.atleast_1d(loaded.intercept), np.arange(d), d + 1)
        else:
            w = side_by_side(n_vectors, d + 2)
            w[:, :-2] = loaded.weights
            w[:, -1:] = np.expand_dims(loaded.intercept, -1)
        self._take_model(loaded, w, np.arange(d), d)

    def scores(self, inputs: list[str] | None = None) -> Iterator[Scores]:
        """Scores piece by piece, of all inputs, or of some of them, of which there is one piece at least, be it of no
        rows; InputError with file and line for bad text."""
        rows, kept, counter = 0, None, self.counter
        pool = ThreadPoolExecutor(self.n_jobs, thread_name_prefix="blocksvm-predict")
        with inputs_of(inputs or self.inputs, self.recipe, likely=self.likely) as text, pool:
            recipe = settled(text, self.recipe, self.budget.total)
            reader = reader_of(ReaderOptions(recipe, labelled=False, factors=self.factors, keep=self.keep))
            if self.keep is not None:
                if recipe.format not in BESIDE:
                    formats = ", ".join(BESIDE)
                    raise InputError(f"{option(KEEP)}: {recipe.format} has no columns; it is for {formats}")
                text.options = {**text.options, KEEP: self.keep}
            if self.skip_bad:
                cut_between_records(text, recipe)
            self.format = recipe.format
            share = EXPANSION / reader.expansion
            n_bytes = int(share * self.piece_bytes)
            pieces = text.pieces(n_bytes, self._limit(share), digested=False)
            for batch, scores in parsed_in_order(
                reader, pieces, pool, self.n_pieces - 1, n_bytes, n_bytes, self._scored, self.skip_bad
            ):
                counter.check(batch)
                rows, kept = rows + len(batch), batch.kept
                self.empty += batch.origin.n_records - len(batch)
                self.coverage.labels += int(np.count_nonzero(has_label(batch.label_array())))
                left_out = 0 if batch.left_out is None else len(batch.left_out)
                self.coverage.count(left_out, left_out)
                yield from scores
        if recipe.options.get("header") == "yes":  # one a file that is not empty
            self.empty = max(0, self.empty - len(text.names))
        self.coverage.notes = counter.notes()
        if self.label is not None and not self.coverage.labels:
            self.coverage.notes.append(f"no row has a label in {self.label}, which {option('label')} names")
        if rows == 0 and inputs is None:
            raise InputError(
                f"{shown_name(text.names[0])}: no rows found; expected lines of {get_format(recipe.format).lines}"
            )
        if rows == 0:  # what is kept of no rows has its columns
            yield Scores(self.model.no_values(), np.empty(0, np.int64), np.empty(0), None, kept)

    def _scored(self, batch: RowBatch) -> tuple[RowBatch, Iterable[Scores]]:
        """A batch and its scores: made by the thread that parses it where they take little memory."""
        scores = self._scores_of(batch) if batch.fault is None else iter(())
        small = 8 * len(batch) * (self.description.n_vectors + 2 * self.n_explained) <= self.piece_bytes
        return batch, list(scores) if small else scores

    def _scores_of(self, batch: RowBatch) -> Iterator[Scores]:
        positions = self.index.find(batch.ids)
        unknown = positions < 0
        self.coverage.count(len(positions), int(np.count_nonzero(unknown)))
        positions[unknown] = self.description.n_features
        labels = batch.label_array().copy()  # its memory is used again
        for rows, values, contributions in self._values(Entries(batch.indptr, positions, batch.values)):
            of_rows = values[0].copy() if len(values) == 1 else values.T.copy()
            kept = None if batch.kept is None else batch.kept.slice(rows.start, len(of_rows))
            yield Scores(of_rows, classes_of(values), labels[rows], contributions, kept)

    def _limit(self, share: float) -> LineLimit:
        """Lines as long as what is left of the memory holds."""
        # a longer one is there up to three times while it is read, then with what is made of it, alone
        each = int((EXPANSION + 4) / share)
        used = self.budget.total - self.budget.left
        longest = max(int(share * self.piece_bytes), self.budget.left // each)
        return LineLimit(longest, lambda n_bytes: used + each * (n_bytes + 1))


class StoreScorer(Scorer):
    """Scores a store's rows in the order of their source.

    Rows lie shuffled in a store; where what is wanted of all rows (their classes, or all their decision values) does
    not fit in memory, it is read once for each range of source numbers that does.  with_values: whether decision
    values are wanted, too; n_jobs: threads that decode chunks and score their rows; explain: number of contributions of
    each row.
    """

    def __init__(self, model: str | Path, path: str | Location, memory: int, with_values: bool = True,
                 n_jobs: int = 1, explain: int | None = None):  # fmt: skip
        super().__init__(model, memory, explain)
        self.path, self.with_values = path, with_values
        description, n_explained = self.description, self.n_explained
        d, n_vectors = description.n_features, description.n_vectors
        self.n_values = n_vectors
        # source number, label, class; the numbers are sorted with a second copy of them
        self.row_bytes = 8 + 8 + 8 + 4 + (8 * self.n_values if with_values else 0)
        self.row_bytes += 16 * n_explained + 8 * (n_explained > 0)
        with Store(path) as store:
            of_store = weight_bytes(description, store.n_features + 1)
            need = 8 * (d + 1) + bytes_of_reading(description) + IdIndex.n_bytes(d) + of_store + store.n_features + 1
            need += GATHERED_BYTES + support_bytes(description.kernel, store.n_features)
            need += 8 * d * (description.kernel is not None)
            self.budget.require("the model and the matching of its features", need)
            loaded = load_model(model)
            recipe, trained = store.meta.recipe, loaded.recipe
            if recipe.normalize != trained.normalize:
                self.note = (
                    f"note: the model was trained on rows split with {option('normalize', trained.normalize)}, this "
                    f"store's with {recipe.normalize}: split it likewise, or its decision values are on another scale"
                )
            elif (description.idf_fingerprint or "") != store.meta.idf_fingerprint:
                self.note = (
                    "note: the model's values were multiplied by other factors than this store's: split it with "
                    f"{option('like', description.store)}, or its decision values are on another scale"
                )
            self.coverage = Coverage(loaded.path)
            if trained_on := description.fingerprint:
                stranger = stranger_note(store, trained_on, description.holdout_fingerprint)
                self.coverage.notes += [stranger] if stranger else []
            w, positions, self.unknown = _matched_weights(loaded, store)
            self._take_model(loaded, w, positions, store.n_features)
            self._explain_by(path)
            self.some_unknown = bool(self.unknown.any())
            self.arena_bytes = largest_chunk_bytes(store)
            self.budget.take("weights", of_store + store.n_features + 1)
            self.budget.take("labels", LABEL_BYTES * store.meta.n_labels)
            chunk = self.arena_bytes + 48 * int(store.chunks.n_rows.max())
            chunk += 2 * int(store.chunks.nnz.max()) * self.some_unknown
            values = piece_bytes(n_vectors, 2 * n_explained)
            # further threads, each with decoders of its own, as far as half of what is left holds them
            further = self.budget.left // (2 * (chunk + values + store.working_bytes()))
            self.n_jobs = min(n_jobs, 1 + max(0, further))
            self.budget.take("chunks", self.n_jobs * chunk + (self.n_jobs - 1) * store.working_bytes())
            self.budget.take("decision values", self.n_jobs * values)
            self.budget.require("predictions", self.row_bytes * min(store.n_samples, 1024))

    def scores(self, sharing: Sharing | None = None) -> Iterator[Scores]:
        """Scores of consecutive rows of the source, piece by piece; sharing: who scores chunks, None: threads."""
        with Store(self.path) as store, (sharing or self.by_threads)(store) as score_chunks:
            at_once = min(store.n_samples, max(1, self.budget.left // self.row_bytes))
            ranges = -(-store.n_samples // at_once)  # of source numbers, each with at most about so many rows
            bounds = [store.meta.source_rows * k // ranges for k in range(ranges + 1)]
            for low, high in zip(bounds[:-1], bounds[1:], strict=True):
                yield from self._between(store, score_chunks, low, high)

    @contextmanager
    def by_threads(self, store: Store) -> Iterator[ScoreChunks]:
        """Chunks are scored by this process's threads."""
        with ThreadPoolExecutor(self.n_jobs, thread_name_prefix="blocksvm-predict") as pool:
            readers: SimpleQueue[tuple[Store, Arena]] = SimpleQueue()
            for _ in range(self.n_jobs):
                readers.put((store.reader(), Arena(self.arena_bytes)))

            def score_chunks(chunks: Sequence[int], low: int, high: int, take: Callable[[ScoredRows], None]) -> None:
                def score(chunk: int) -> None:
                    reader, arena = readers.get()
                    try:
                        for rows in self._scored(reader, arena, chunk, low, high):
                            take(rows)
                    finally:
                        readers.put((reader, arena))

                for _ in ordered_map(pool, score, chunks, self.n_jobs):
                    pass

            yield score_chunks

    def _scored(self, reader: Store, arena: Arena, chunk: int, low: int, high: int) -> Iterator[ScoredRows]:
        """The rows of a chunk with source numbers low .. high - 1."""
        rows = reader.read_rows(chunk)
        chosen = (rows["source"] >= low) & (rows["source"] < high)
        if not chosen.any():
            return
        block = reader.read_block(np.array([chunk]), arena)
        indptr, indices, _ = block.matrix
        for part, values, contributions in self._values(block.entries):
            selected = chosen[part]
            lengths, n_unknown = np.diff(indptr[part.start : part.stop + 1]), 0
            if self.some_unknown:
                unknown = self.unknown[indices[indptr[part.start] : indptr[part.stop]]]
                n_unknown = int(np.count_nonzero(unknown & np.repeat(selected, lengths)))
            explained = None if contributions is None else Contributions(*(array[selected] for array in contributions))
            yield ScoredRows(
                rows["source"][part][selected], rows["label"][part][selected],
                classes_of(values)[selected].astype(np.int32), values.T[selected] if self.with_values else None,
                explained, int(lengths[selected].sum()), n_unknown,
            )  # fmt: skip

    def _between(self, store: Store, score_chunks: ScoreChunks, low: int, high: int) -> Iterator[Scores]:
        """Scores of the rows with source numbers low .. high - 1."""
        sources = _sources_between(store, low, high)
        labels, classes = np.empty(len(sources)), np.empty(len(sources), np.int32)
        k = self.n_values
        all_values = np.empty((len(sources), k)) if self.with_values else None
        n = self.explainer.n if self.explainer else 0
        explained = Contributions.empty(len(sources) if n else 0, n)

        def take(rows: ScoredRows) -> None:
            """Each row to its place, which no other has."""
            self.coverage.count(rows.n_entries, rows.n_unknown)
            places = np.searchsorted(sources, rows.source)
            labels[places], classes[places] = rows.label, rows.classes
            if all_values is not None:
                all_values[places] = rows.values
            for array, of_rows in zip(explained, rows.contributions or (), strict=False):
                array[places] = of_rows

        score_chunks(range(len(store.chunks)), low, high, take)
        step = rows_of_piece(k + 2 * n)
        for start in range(0, len(sources), step):
            part = slice(start, start + step)
            # a copy: whoever has these at the next range would keep all of this one's
            values = None if all_values is None else (all_values[part, 0] if k == 1 else all_values[part]).copy()
            contributions = Contributions(*(array[part] for array in explained)) if n else None
            yield Scores(values, classes[part], store.coding.labels_of_rows(labels[part]), contributions)


def scorer_of(model: str | Path, inputs: list[str] | TableInputs, memory: int, format: str | None = None,
              options: Mapping = {}, n_jobs: int = 1, explain: int | None = None, with_values: bool = True,
              keep: str | None = None, skip_bad: bool = False) -> TextScorer | StoreScorer:  # fmt: skip
    """The scorer of the rows of text, of ``TableInputs``, or of a store, whose text was read when it was made:
    InputError for settings of it, and for a store among other files."""
    store = next(filter(is_store, inputs), None) if isinstance(inputs, list) else None
    if store is None:
        return TextScorer(model, inputs, memory, format, options, n_jobs, explain, keep, skip_bad)
    if len(inputs) > 1:
        raise InputError(f"{store}: is a store, and predicted alone; name it, or text without stores")
    for setting in [*options, *(["skip_bad"] if skip_bad else [])]:
        raise InputError(f"{option(setting)}: {store} is a store, which was read already; leave it out")
    return StoreScorer(model, store, memory, with_values, n_jobs, explain)


def scored_at_once(scorer: Scorer) -> tuple[np.ndarray, list[str]]:
    """(the decision values of all rows, sentences on what may not be meant)"""
    values = np.concatenate([scores.values for scores in scorer.scores()])
    remarks = [text.partition(": ")[2] for text in (scorer.note, scorer.coverage.warning()) if text]
    return values, remarks + scorer.coverage.notes


def is_store(name: str) -> bool:
    """The input is a store and not text; InputError where it is another file of ours, or there is none."""
    path = location(name)
    if name == "-":
        return False
    if not path.exists():
        raise InputError(f"{name}: no such file")
    if not path.is_file():
        return False
    with open_input(name) as file:
        if file.read(8) != HDF5 or magic_of(name) is not None:
            return False
    with open_hdf5(path, *MAKERS) as file:
        kind = text_attribute(file, "blocksvm")
    if kind != "store":
        raise InputError(f"{name}: is a {kind}, and rows are predicted; give text, or a store")
    return True


GATHERED_BYTES = 3 * 8 * (1 << 17)  # ids, positions and weights of a stored piece of ids


def _matched_weights(model: Model, store: Store) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The model's weights (k, d + 1) by the store's features, the intercept last; k = 1 for two classes.  Of a machine
    with a kernel which of the store's features each of the model's is, -1 for none.  And which of the store's features
    the model does not know, (d,) bool.

    InputError where the store's features are hashed otherwise than the model's.
    """
    bits = check_hashes(model, store)
    index = IdIndex(len(model.feature_ids)).fill([(0, model.feature_ids)])
    sparse = model.meta.sparse is not None
    places = np.full(len(model.feature_ids) if sparse or model.support is not None else 0, -1)
    theirs = [] if sparse else np.atleast_2d(model.weights)
    gathered, unknown = side_by_side(len(theirs), store.n_features + 1), np.ones(store.n_features, bool)
    for start, ids in store.feature_id_pieces():
        positions = index.find(ids if bits is not None else hashed(ids, model.bits))
        known = np.flatnonzero(positions >= 0)
        unknown[start + known] = False
        if len(places):
            places[positions[known]] = start + known
        for mine, weights in zip(gathered, theirs, strict=True):
            mine[start + known] = weights[positions[known]]
    if sparse:
        intercepts = np.atleast_1d(model.intercept)
        return WeightsByFeature(model.weights, intercepts, places, store.n_features), places, unknown
    gathered[:, -1] = model.intercept
    return gathered, places, unknown


def weight_bytes(description: ModelMeta, n_features: int) -> int:
    """Memory for a model's weights by so many features."""
    if description.sparse is not None:
        return BY_FEATURE_BYTES * description.sparse.n_weights + 8 * (n_features + description.n_vectors)
    return 8 * width_of(description.n_vectors) * n_features


def bytes_of_reading(description: ModelMeta) -> int:
    """Besides, while they are made of those in the file."""
    if description.sparse is not None:
        return ENTRY_BYTES * description.sparse.n_weights + 16 * (description.n_features + description.n_vectors)
    return 8 * description.n_vectors * (description.n_features + 1)


def check_hashes(model: Model, store: Store) -> int | None:
    """The bits that a store's ids are hashed to; InputError where they are hashed otherwise than the model's."""
    bits = store.meta.recipe.bits
    if bits is not None and bits != model.bits:
        theirs = f"without {option('bits')}" if model.bits is None else f"with {option('bits', model.bits)}"
        raise InputError(
            f"{store.name}: was split with {option('bits', bits)}, the model's text {theirs}; split it likewise"
        )
    if model.support is not None and bits is None and model.bits is not None:
        raise InputError(
            f"{store.name}: was split without {option('bits')}, the model's text with {option('bits', model.bits)}; "
            "split it likewise"
        )
    return bits


def _sources_between(store: Store, low: int, high: int) -> np.ndarray:
    """The source numbers from low to high - 1 that the store has, rising."""
    pieces = []
    for chunk in range(len(store.chunks)):
        sources = store.read_rows(chunk)["source"]
        if len(sources) and int(sources.max()) >= store.meta.source_rows:
            raise InputError(f"{store.path}: chunk {chunk}: a row's number is beyond the source; make the store again")
        pieces.append(sources[(sources >= low) & (sources < high)])
    sources = np.concatenate(pieces)
    sources.sort()
    if (sources[1:] == sources[:-1]).any():
        raise InputError(f"{store.path}: two rows have one number in the source; make the store again")
    return sources
