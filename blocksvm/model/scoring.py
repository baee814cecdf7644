"""Decision values of text or a store under a model, within a budget of memory, in the order of the source."""

from __future__ import annotations

import warnings
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

from blocksvm.base.errors import InputError, InputWarning, option
from blocksvm.base.labels import LABEL_BYTES
from blocksvm.base.memory import Budget
from blocksvm.base.row_batch import RecordCounter, RowBatch, shown_name
from blocksvm.base.user_code import by_user, names_of
from blocksvm.base.vectors import side_by_side, width_of
from blocksvm.conversion.feature_ids import IdIndex
from blocksvm.conversion.parallel_parsing import ordered_map, parsed_in_order
from blocksvm.files.input import open_input
from blocksvm.files.paths import Location, location
from blocksvm.formats import get_format, settled
from blocksvm.formats.choices import BESIDE, KEEP, PREDICTED, carried, merge_options
from blocksvm.formats.file_reader import HDF5, inputs_of, magic_of
from blocksvm.formats.format import EXPANSION, ReaderOptions
from blocksvm.formats.text.text_source import LineLimit
from blocksvm.formats.weighing import reader_of
from blocksvm.kernels.rows import Entries
from blocksvm.model.decision_values import classes_of, decision_pieces, piece_bytes, rows_of_piece
from blocksvm.model.explanations import Contributions, Explainer, contributions_wanted, largest_contributions
from blocksvm.model.held_out import stranger_note
from blocksvm.model.model_file import describe_model, factors_of_model, hashed, load_model, require_scores
from blocksvm.model.sparse_weights import BY_FEATURE_BYTES, ENTRY_BYTES
from blocksvm.sources.block import INDEX_BYTES, Arena
from blocksvm.sources.source import largest_chunk_bytes
from blocksvm.store.hdf5_files import MAKERS, open_hdf5
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


class ScoredRows(NamedTuple):
    """Rows of a store's chunk (m,), in its order: their source numbers, labels as the store has them, the classes
    predicted, decision values (m, k) and contributions, where wanted; their entries, and those of unknown features."""

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


class Coverage:
    """Of scored rows: entries, those of features that the model does not know, rows with a label, and notes."""

    def __init__(self, model):
        self.model = model
        self.entries: int | None = None  # of rows that are read by their features
        self.unknown = self.labels = 0
        self.notes: list[str] = []
        self.counting = Lock()

    def count(self, entries: int, unknown: int) -> None:
        with self.counting:  # threads that score a store's chunks come here at once
            self.entries, self.unknown = (self.entries or 0) + entries, self.unknown + unknown

    def figures(self) -> dict:
        return {"entries": self.entries, "unknown_entries": self.unknown, "notes": self.notes}

    def warning(self) -> str:
        """The sentence where nothing was known; ''."""
        if self.entries is None or self.unknown < self.entries:
            return ""
        what = f"of the {self.entries:,} entries none is" if self.entries else "no row has an entry"
        cure = "check that the rows are read as those that it was trained on were (their form, names and separators)"
        return f"warning: {what} of a feature that {self.model} knows, so that all rows score alike; {cure}"


class Scorer:
    """A model's description, then its weights by its own features, of which one more stands for all that it does not
    know.  explain: number of contributions of each row; empty: lines of text without a row, once it is read."""

    empty = 0

    def __init__(self, model: str | Path, memory: int, explain: int | None):
        self.path, self.description = model, describe_model(model)
        require_scores(self.description, model)
        self.budget, self.note = Budget(memory), ""
        self.n_explained = contributions_wanted(explain, self.description, model)

    def _load(self, named_by: str | Path | Location) -> IdIndex:
        """Load the model; the positions of its ids.  named_by: the file by whose features contributions are told."""
        description = self.description
        d, k = description.n_features, description.n_vectors
        self.explainer = Explainer(self.n_explained, named_by, self.budget) if self.n_explained else None
        # weights by features and one more, and those in the file, of which they are made
        need, more = 8 * width_of(k) * (d + 2), 8 * k * (d + 1)
        if description.sparse is not None:
            n = description.sparse.n_weights
            need, more = BY_FEATURE_BYTES * n + 8 * (d + k), ENTRY_BYTES * n + 16 * (d + k)
        need += IdIndex.n_bytes(d) + 8 * d * bool(description.text.factor)
        if (kernel := description.kernel) is not None:  # support vectors, read and in columns of so many features
            need += 40 * kernel.n_nonzeros + 48 * kernel.n_support + 8 * (d + 2)
        self.budget.require("the model", need + more + 8 * d)
        self.budget.take("the model", need)
        loaded = load_model(self.path)
        self.w, self.completion = loaded.weights_to_score()
        self.coverage = Coverage(loaded.path)
        index = IdIndex(d, self.budget.left // 4).fill([(0, loaded.feature_ids)])
        # from here on the weights are only needed in this order
        self.model = replace(loaded, feature_ids=np.empty(0, np.int64), weights=np.empty(0), support=None)
        return index

    def _values(self, entries: Entries) -> Iterator[tuple[slice, np.ndarray, Contributions | None]]:
        """(rows, their decision values (k, m), and contributions)"""
        explainer = self.explainer
        for rows, values in decision_pieces(entries, self.w, 1.0, self.completion, 2 * self.n_explained):
            of_rows = entries.of_rows(rows)
            yield rows, values, explainer and largest_contributions(of_rows, self.w, classes_of(values), explainer.n)


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
        self.inputs, self.keep, self.skip_bad, self.counter = inputs, keep, skip_bad, RecordCounter()
        description = self.description
        by_user(format=format)
        # pieces for any number of threads take what one takes of a single thread, so that lines may be as long
        self.n_jobs = n_jobs = max(1, min(n_jobs, memory // (64 * SMALLEST_PIECE) - 1))
        self.n_pieces = n_pieces = n_jobs + 1 if n_jobs > 1 else 1  # one for each thread, and one that waits for it
        self.piece_bytes = int(max(SMALLEST_PIECE, min(4_000_000, memory // 64) // n_pieces))
        # a row's text takes two bytes or more
        self.budget.take("text", (EXPANSION * n_pieces + 1) * self.piece_bytes)
        values = piece_bytes(description.n_vectors, 2 * self.n_explained) + self.piece_bytes  # those that wait
        self.budget.take("decision values", n_pieces * values)
        self.index = self._load(model)
        self.budget.take("the model", self.index.more_bytes)
        recipe = description.text
        if format is None:
            with names_of(model):
                get_format(recipe.format)
        elif format != recipe.format:
            known = carried(recipe.format, format, recipe.options)
            recipe = structs.replace(recipe, format=format, options=known)
        self.recipe = recipe = structs.replace(recipe, options=merge_options(recipe.options, options, PREDICTED))
        self.label, self.likely = options.get("label"), format is None
        self.factors = factors_of_model(model, self.index.find) if recipe.factor else None

    def scores(self, inputs: list[str] | None = None) -> Iterator[Scores]:
        """Scores piece by piece, of all inputs, or of some of them, of which there is one piece at least."""
        rows, kept, counter = 0, None, self.counter
        pool = ThreadPoolExecutor(self.n_jobs, thread_name_prefix="blocksvm-predict")
        with inputs_of(inputs or self.inputs, self.recipe, likely=self.likely) as text, pool:
            recipe = settled(text, self.recipe, self.budget.total, self.skip_bad)
            reader = reader_of(ReaderOptions(recipe, labelled=False, factors=self.factors, keep=self.keep))
            if self.keep is not None and recipe.format not in BESIDE:
                raise InputError(f"{option(KEEP)}: {recipe.format} has no columns; it is for {', '.join(BESIDE)}")
            text.options, self.format = {**recipe.options, KEEP: self.keep}, recipe.format
            share = EXPANSION / reader.expansion
            n_bytes = int(share * self.piece_bytes)
            # lines may be as long as what is left of the memory holds: one is there up to three times while it is
            # read, then with what is made of it, alone
            each, used = int((EXPANSION + 4) / share), self.budget.total - self.budget.left
            longest = max(n_bytes, self.budget.left // each)
            limit = LineLimit(longest, lambda n: used + each * (n + 1))
            pieces = text.pieces(n_bytes, limit, digested=False)
            for batch, scores in parsed_in_order(
                reader, pieces, pool, self.n_pieces - 1, n_bytes, n_bytes, self._scored, self.skip_bad
            ):
                counter.check(batch)
                rows, kept = rows + len(batch), batch.kept
                self.empty += batch.origin.n_records - len(batch)
                self.coverage.labels += batch.n_labelled
                left_out = 0 if batch.left_out is None else len(batch.left_out)
                self.coverage.count(left_out, left_out)
                yield from scores
        if recipe.options.get("header") == "yes":  # one a file that is not empty
            self.empty = max(0, self.empty - len(text.names))
        self.coverage.notes = counter.notes()
        if self.label is not None and not self.coverage.labels:
            self.coverage.notes.append(f"no row has a label in {self.label}, which {option('label')} names")
        if rows == 0 and inputs is None:
            expected = f"expected lines of {get_format(recipe.format).lines}"
            raise InputError(f"{shown_name(text.names[0])}: no rows found; {expected}")
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


class StoreScorer(Scorer):
    """Scores a store's rows in the order of their source.

    Rows lie shuffled in a store; where what is wanted of all rows does not fit in memory, it is read once for each
    range of source numbers that does.  with_values: whether decision values are wanted beside classes; n_jobs: threads
    that decode chunks and score their rows.
    """

    def __init__(self, model: str | Path, path: str | Location, memory: int, with_values: bool = True,
                 n_jobs: int = 1, explain: int | None = None):  # fmt: skip
        super().__init__(model, memory, explain)
        self.store, self.with_values = path, with_values
        description, n_explained, k = self.description, self.n_explained, self.description.n_vectors
        # source number, sorted with a second copy, label, class, value, contributions
        self.row_bytes = 8 + 8 + 8 + 4 + 8 * k * with_values + 16 * n_explained + 8 * (n_explained > 0)
        with Store(path) as store:
            self.budget.reserve("the store's features", INDEX_BYTES * store.n_features)
            bits, of_model = store.meta.recipe.bits, description.text.bits
            if bits != of_model and (bits is not None or description.kernel is not None):
                both = bits, of_model
                how = [f"without {option('bits')}" if n is None else f"with {option('bits', n)}" for n in both]
                raise InputError(f"{store.name}: was split {how[0]}, the model's text {how[1]}; split it likewise")
            index = self._load(path)
            self.positions = np.empty(store.n_features, np.int32)
            for start, ids in store.feature_id_pieces():
                found = index.find(ids if bits is not None else hashed(ids, of_model))
                self.positions[start : start + len(ids)] = np.where(found < 0, description.n_features, found)
            if n_explained:  # by the store's features, of which the model may know several by one hash
                self.budget.reserve("weights by the store's features", 16 * width_of(k) * (store.n_features + 1))
                by_model, self.w = self.w, side_by_side(k, store.n_features + 1)
                self.w[:, :-1], self.w[:, -1] = by_model[:, self.positions], by_model[:, -1]
            recipe, trained = store.meta.recipe, self.model.recipe
            other, cure = "", "likewise"
            if recipe.normalize != trained.normalize:
                theirs = option("normalize", trained.normalize)
                other = f"the model was trained on rows split with {theirs}, this store's with {recipe.normalize}"
            elif (description.idf_fingerprint or "") != store.meta.idf_fingerprint:
                other = "the model's values were multiplied by other factors than this store's"
                cure = f"with {option('like', description.store)}"
            self.note = other and f"note: {other}: split it {cure}, or its decision values are on another scale"
            if trained_on := description.fingerprint:
                stranger = stranger_note(store, trained_on, description.holdout_fingerprint)
                self.coverage.notes += [stranger] if stranger else []
            self.arena_bytes = largest_chunk_bytes(store)
            self.budget.take("labels", LABEL_BYTES * store.meta.n_labels)
            chunk = self.arena_bytes + 48 * int(store.chunks.n_rows.max()) + 12 * int(store.chunks.nnz.max())
            values = piece_bytes(k, 2 * n_explained)
            # further threads, each with decoders of its own, as far as half of what is left holds them
            further = self.budget.left // (2 * (chunk + values + store.working_bytes()))
            self.n_jobs = min(n_jobs, 1 + max(0, further))
            self.budget.take("chunks", self.n_jobs * chunk + (self.n_jobs - 1) * store.working_bytes())
            self.budget.take("decision values", self.n_jobs * values)
            self.budget.require("predictions", self.row_bytes * min(store.n_samples, 1024))

    def scores(self, sharing: Sharing | None = None) -> Iterator[Scores]:
        """Scores of consecutive rows of the source, piece by piece; sharing: who scores chunks, None: threads."""
        with Store(self.store) as store, (sharing or self.by_threads)(store) as score_chunks:
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
                    reader_and_arena = readers.get()
                    try:
                        for rows in self._scored(*reader_and_arena, chunk, low, high):
                            take(rows)
                    finally:
                        readers.put(reader_and_arena)

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
        indptr, indices, values_of_rows = block.matrix
        positions = self.positions[indices]
        entries = Entries(indptr, indices if self.n_explained else positions, values_of_rows)
        for part, values, contributions in self._values(entries):
            selected = chosen[part]
            lengths = np.diff(indptr[part.start : part.stop + 1])
            unknown = positions[indptr[part.start] : indptr[part.stop]] == self.description.n_features
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
        m, n, k = len(sources), self.n_explained, self.description.n_vectors
        labels, classes, all_values = np.empty(m), np.empty(m, np.int32), np.empty((m, k)) if self.with_values else None
        explained = Contributions.empty(m if n else 0, n)

        def take(rows: ScoredRows) -> None:
            self.coverage.count(rows.n_entries, rows.n_unknown)
            targets = np.searchsorted(sources, rows.source)
            labels[targets], classes[targets] = rows.label, rows.classes
            if all_values is not None:
                all_values[targets] = rows.values
            for array, of_rows in zip(explained, rows.contributions or (), strict=False):
                array[targets] = of_rows

        score_chunks(range(len(store.chunks)), low, high, take)
        step = rows_of_piece(k + 2 * n)
        for start in range(0, m, step):
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


def scored_at_once(scorer: TextScorer | StoreScorer, name: str, stacklevel: int) -> np.ndarray:
    """The decision values of all rows; warns of what may not be meant.  name: what the model is called then."""
    scorer.coverage.model = name
    values = np.concatenate([scores.values for scores in scorer.scores()])
    remarks = [text.partition(": ")[2] for text in (scorer.note, scorer.coverage.warning()) if text]
    for remark in remarks + scorer.coverage.notes:
        warnings.warn(remark, InputWarning, stacklevel=stacklevel + 1)
    return values


def is_store(name: str) -> bool:
    """The input is a store and not text; InputError where it is another file of ours, or there is none."""
    path = location(name)
    if name != "-" and not path.exists():
        raise InputError(f"{name}: no such file")
    if name == "-" or not path.is_file():
        return False
    with open_input(name) as file:
        if file.read(8) != HDF5 or magic_of(name) is not None:
            return False
    with open_hdf5(path, *MAKERS) as opened:
        if opened.kind != "store":
            raise InputError(f"{name}: is a {opened.kind}, and rows are predicted; give text, or a store")
    return True


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
