"""Rows to a store: one streaming pass over them, an external shuffle, then features renumbered and chunks written."""

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import RowError, label_fault
from blocksvm.base.log import LOG
from blocksvm.base.memory import MEMORY, too_small
from blocksvm.base.row_batch import RecordCounter, RowBatch, shown_name
from blocksvm.base.user_code import by_user, names_of
from blocksvm.conversion import SPLIT, feature_counts
from blocksvm.conversion.destination import Destination, Shares, Spool, require_space
from blocksvm.conversion.existing_rows import INHERITED, ExistingRows
from blocksvm.conversion.feature_ids import IdIndex
from blocksvm.conversion.parallel_parsing import RowWeights, as_stored, parsed_in_order
from blocksvm.files.output import check_output, temporary_folder
from blocksvm.files.paths import READ_AHEAD, Location, is_url, location, one_run
from blocksvm.formats import AUTO, get_format, said_of_columns, settled
from blocksvm.formats.choices import OF_INPUTS, OF_LINES, merge_options
from blocksvm.formats.file_reader import inputs_given, inputs_of
from blocksvm.formats.format import EXPANSION, ReaderOptions
from blocksvm.formats.text.text_source import LineLimit, TextSource
from blocksvm.formats.weighing import reader_of
from blocksvm.kernels.shuffle import row_keys
from blocksvm.store import codec
from blocksvm.store.descriptions import SourceMeta, StepMeta, StoreMeta, StoreSettingsMeta
from blocksvm.store.hdf5_files import create_hdf5, open_hdf5, read_meta, write_meta
from blocksvm.store.reader import Store
from blocksvm.store.recipe import FACTORS, UNCHANGED, Recipe

SMALLEST_MEMORY = 16_000_000
HOLDOUT_SALT = 0x686F6C646F7574  # the draw of held-out rows is another one than the draw of positions
LARGEST_EXPANSION = 6  # text is at most about this much larger than its compressed file, for the estimate of space
OFFERS = ("duplicates", "dtype", "bits")  # settings of the recipe that messages may advise
SPOOLED_PER_TEXT = 0.75  # bytes in the shuffle for a byte of text, likewise


@dataclass(frozen=True)
class SplitSettings:
    """The settings of a split.  memory in bytes; format, bits, duplicates, idf, scale, normalize, dtype: the recipe of
    the features (format 'auto': what the first bytes look like; options: the format's own settings); holdout: fraction
    of rows for a second store; temp: folder for the shuffle (None: beside the store); weights: a file with each row's
    weight, a number a line; like: a store whose recipe and factors are taken (``settings_of_store``).  n_jobs: threads
    that parse; codec: 'lz4' or 'none'; skip_bad: go on after malformed lines, of which notes tell."""

    memory: int = 1_000_000_000
    n_jobs: int = 1
    seed: int = 0
    keep_order: bool = False
    dtype: str = "float32"
    duplicates: str = "error"
    normalize: str = "none"
    min_count: int = 1
    top_features: int | None = None
    holdout: float = 0.0
    temp: str | Path | None = None
    overwrite: bool = False
    chunk_nonzeros: int | None = None
    format: str = AUTO
    bits: int | None = None
    weights: str | Path | None = None
    options: Mapping = field(default_factory=dict)
    idf: str = UNCHANGED
    scale: str = UNCHANGED
    like: Path | None = None
    codec: str = codec.CODEC
    skip_bad: bool = False

    def __post_init__(self):
        object.__setattr__(self, "memory", MEMORY.checked(self.memory))
        for name in ("seed", "codec", "min_count", "top_features"):
            object.__setattr__(self, name, SPLIT[name].checked(getattr(self, name)))
        by_user(format=self.format)
        _ = self.recipe  # its settings are checked

    @property
    def recipe(self) -> Recipe:
        made = self.format, self.duplicates, self.bits, self.normalize, self.dtype
        return Recipe(*made, self.options, self.idf, self.scale)


@dataclass(frozen=True)
class SplitProgress:
    """The progress of a split: phase 'reading' or 'writing', rows and text bytes so far, fraction (None: unknown)."""

    phase: str
    rows: int
    text_bytes: int
    fraction: float | None
    seconds: float


def split_rows(inputs: str | Path | Iterable[str | Path], store: str | Path,
               settings: SplitSettings = SplitSettings(), holdout_store: str | Path | None = None,
               progress: Callable[[SplitProgress], None] | None = None) -> StoreMeta:  # fmt: skip
    """``api.files.write_store`` with settings that are made already; returns the store's description."""
    given = inputs_given(inputs)
    names, table = (given, None) if isinstance(given, list) else (["-"], given)
    return _convert(names, None, store, settings, holdout_store, progress, None, table)


def store_batches(batches: Iterable[RowBatch], store: str | Path, settings: SplitSettings = SplitSettings(),
                  holdout_store: str | Path | None = None) -> StoreMeta:  # fmt: skip
    """A store of rows that come in batches, as ``split`` makes one of text; returns the store's description."""
    return _convert([], batches, store, settings, holdout_store)


# settings of a store that all of its rows have in common, as the options are called
COMMON = ("seed", "keep_order", "dtype", "normalize", "min_count", "top_features", "format", "bits", "duplicates",
          "idf", "scale")  # fmt: skip
OF_POSITIONS = ("seed", "keep_order", "min_count")  # of these, what says nothing of what a feature's value is


def settings_from(chosen: Mapping, **others) -> SplitSettings:
    """A split's settings: those of ``COMMON`` by name, None for the default of one; others: of ``SplitSettings``."""
    chosen = {name: value for name, value in chosen.items() if value is not None}
    return SplitSettings(**chosen, **others)


def settings_of_store(
    store: str | Location, requested: Mapping, options: Mapping = {}, like: bool = False, **machine
) -> SplitSettings:
    """The settings by which rows are added to a store: those of the store.  requested: name -> value of some of
    ``COMMON``, None for what is not; these and the format's ``options`` must agree with the store's, else InputError.
    machine: those of ``SplitSettings`` that are free.  like: for another store, of rows to be predicted, which are read
    and made alike."""
    path = location(store)
    with open_hdf5(path, "store") as file:
        meta = read_meta(file)
    recipe, saved = meta.recipe, meta.settings
    stored: dict = {name: getattr(recipe if hasattr(recipe, name) else saved, name, None) for name in COMMON}
    stored["keep_order"] = saved.order == "stored"
    if like:
        stored |= {name: requested.get(name) for name in OF_POSITIONS}
    free = {"format"} if AUTO in (requested.get("format"), stored["format"]) else set()
    free |= {*OF_INPUTS, *OF_LINES}
    for name, value in (*requested.items(), *options.items()):
        before = stored[name] if name in requested else recipe.options.get(name)
        if value is not None and value != before and name not in free:
            wrong = f"{path}: was split with {option(name, before)}, but {value} is given now"
            raise InputError(f"{wrong}; leave it out, or split all rows anew")
    if stored["format"] == AUTO and requested.get("format"):
        stored["format"] = requested["format"]
    machine |= {"like": path} if like else {"overwrite": True}
    by_user(format=requested.get("format"))
    with names_of(path):
        get_format(stored["format"]) if stored["format"] != AUTO else None
        return settings_from(stored, **machine, options=merge_options(recipe.options, options))


def extend(inputs: list[str], store: str | Path, settings: SplitSettings | None = None,
           progress: Callable[[SplitProgress], None] | None = None,
           once: bool = False) -> tuple[StoreMeta, list[str]]:  # fmt: skip
    """Add the rows of some text to a store; returns its new description, and the inputs that were skipped.  inputs: as
    ``split`` takes them; settings: those of the store (the default); once: inputs that were added before are skipped,
    not refused, and where no other is left the store stays as it is.  The changed store, into which chunks are copied
    as they are, takes the name of the old one when it is whole: after any fault there is one of them."""
    path = location(store)
    if not inputs:
        raise InputError(f"{path}: nothing to do; give text whose rows are added")
    settings = settings_of_store(path, {}) if settings is None else settings
    with closing(ExistingRows(path)) as existing:
        feature_counts.require_counted_factors(existing.store, inputs)
        skipped = existing.added(inputs)
        if skipped and not once:
            wrong = f"{skipped[0]}: was added to {path} before (the same name, size and content)"
            cure = f"leave it out, or add what is new alone by {option('append_once', True)}"
            raise InputError(f"{wrong}; {cure}; under another name its rows are added once more")
        new = [name for name in inputs if name not in skipped]
        if skipped and settings.weights is not None:
            wrong = f"was added to {path} before, and {option('weights')} has a line for each row of all files"
            raise InputError(f"{skipped[0]}: {wrong}; leave the file out, and its lines")
        if skipped and not new:
            return existing.store.meta, skipped
        return _convert(new, None, path, settings, None, progress, existing), skipped


@one_run()
def _convert(*given, **more) -> StoreMeta:
    return _Split(*given, **more).run()


class _Split:
    def __init__(self, inputs, batches, store, settings: SplitSettings, holdout_store, progress=None,
                 existing: ExistingRows | None = None, table=None):  # fmt: skip
        """batches: rows that come from elsewhere than the inputs, or None; existing: those that the store has already;
        table: in memory, which is read in the place of standard input."""
        self.inputs, self.table, self.batches, self.existing = inputs, table, batches, existing
        self.settings, self.progress, self.recipe = settings, progress, settings.recipe
        self.outputs: list = [location(path) for path in (store, holdout_store) if path is not None]
        if len({path.resolve() for path in self.outputs}) < len(self.outputs):
            raise InputError(f"{self.outputs[0]}: the store and its held-out rows need two names")
        read_from = {location(name).resolve() for name in inputs if name != "-"}
        for path in self.outputs:
            check_output(path, settings.overwrite, "store")
            if path.resolve() in read_from:
                raise InputError(f"{path}: is also an input; choose another name for the store")
        if settings.memory < SMALLEST_MEMORY:
            raise too_small(settings.memory, "a split", SMALLEST_MEMORY)
        self.temp = Path(settings.temp) if settings.temp is not None else temporary_folder(self.outputs[0])
        if not self.temp.is_dir():
            raise InputError(f"{self.temp}: no such folder; {option('temp')} names an existing one")
        # the factors by which rows are weighed as they are read
        self.known = None if settings.like is None else feature_counts.factors_like(settings.like)
        weighed = bool(self.recipe.factor) and existing is not None
        self.began = time.perf_counter()
        self.first = 0 if existing is None else existing.store.meta.source_rows
        self.rows = self.first  # that were read in the whole life of the store
        self.counter = RecordCounter()
        self.notes: list[str] = []  # on what the first lines decided
        self.left_out = np.empty(0, np.int64)  # ids of features without a factor, as many as are counted
        self.most_left_out = settings.memory // 2048
        self.weights = None if settings.weights is None else RowWeights(str(settings.weights))
        self.sources: list[tuple[TextSource, int]] = []  # and the number of its first row
        memory, jobs = settings.memory - READ_AHEAD * any(map(is_url, inputs or ())), settings.n_jobs
        self.shares = Shares.of(memory, jobs, len(self.outputs))
        if existing is not None:
            beside = (feature_counts.BYTES_KNOWN + feature_counts.BYTES_COUNTED) * weighed
            existing.require_memory(self.shares.store - self.shares.spool, beside)
            self.known = feature_counts.known_factors(existing.store) if weighed else None

    def run(self) -> StoreMeta:
        settings = self.settings
        expected = None if self.batches is not None else expected_text(self.inputs)
        if expected:
            for folder in {self.temp, temporary_folder(self.outputs[0], self.temp)}:
                require_space(folder, int(0.3 * expected), "the split", "free some space or choose another folder")
        with ExitStack() as stack:
            # each store takes its name only when all of them are whole; until then no other run makes it
            files = stack.enter_context(create_hdf5(self.outputs, "store", settings.overwrite, self.temp))
            spooled = stack.enter_context(ExitStack())
            pool = stack.enter_context(ThreadPoolExecutor(settings.n_jobs, thread_name_prefix="blocksvm-split"))
            self.writer = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="blocksvm-spool"))
            placer = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="blocksvm-place"))
            destinations, factor = [], self.recipe.factor
            for k, path in enumerate(self.outputs):
                spool = Spool(self.temp, spooled, self._bits(expected), self.shares.spool, self.writer)
                # rows that are held out are weighed by what is counted on the others
                kind = getattr(self.recipe, factor) if factor and k == 0 else ""
                factors = feature_counts.StoreFactors(kind, self.known) if factor else None
                least, selection = settings.min_count if k == 0 else 1, self._selection(k == 0)
                common = self.shares.store, spool, placer, settings.dtype
                destinations.append(Destination(path, *common, least, self.existing, factors, selection))
            with closing(self._read(pool) if self.batches is None else (batch for batch in self.batches)) as batches:
                self._spool(batches, destinations)
            self._require_rows(destinations)
            metas: list[StoreMeta] = []
            for destination, file in zip(destinations, files, strict=True):
                if metas and destination.selection is not None and settings.like is None:
                    destination.selection.known = IdIndex(len(ids := destinations[0].ids())).fill([(0, ids)])
                if metas and destination.factors is not None and self.known is None:
                    destination.factors.known = destinations[0].counted_factors()
                metas.append(self._write(destination, file, pool))
            if len(metas) > 1:  # each names the other
                metas[0].holdout_fingerprint = metas[1].fingerprint
                metas[1].training_fingerprint = metas[0].fingerprint
            for file, meta in zip(files, metas, strict=True):
                write_meta(file, meta)
            if self.existing is not None:
                self.existing.require_unchanged()
        about = metas[0]
        LOG.info("%d rows, %d features in %s", about.n_samples, about.n_features, self.outputs[0])
        for note in [*about.notes, *feature_counts.factor_notes(about, self.outputs[0])]:
            LOG.warning("%s", note)
        return about

    def _selection(self, first: bool) -> feature_counts.Selection | None:
        """Of the first store; rows that are held out get its features, as those that are added or like others do."""
        settings, existing = self.settings, self.existing
        if settings.top_features is None:
            return None
        counting = first and existing is None and settings.like is None
        selection = feature_counts.Selection(settings.top_features, counting)
        if existing is not None:
            selection.known = IdIndex(existing.n_features).fill(existing.store.feature_id_pieces())
        elif settings.like is not None:
            with Store(settings.like) as store:
                selection.known = IdIndex(store.n_features).fill(store.feature_id_pieces())
        return selection

    def _require_rows(self, destinations: list[Destination]) -> None:
        for destination, what in zip(destinations, ("the store", "the held-out store"), strict=False):
            if destination.spool.n_rows:
                continue
            name = "the inputs" if self.inputs else "the batches"
            name = shown_name(self.inputs[0]) if len(self.inputs) == 1 else name
            if self.rows == self.first:
                lines = f"; expected lines of {get_format(self.recipe.format).lines}" if self.batches is None else ""
                raise InputError(f"{name}: no rows found{lines}")
            wrong = f"{name}: no row was drawn for {what}; choose another {option('holdout')} or {option('seed')}"
            raise InputError(wrong)

    def _write(self, destination: Destination, file, pool: ThreadPoolExecutor) -> StoreMeta:
        settings = self.settings
        old = None if self.existing is None else self.existing.store.meta
        sources = [
            SourceMeta(shown_name(s.name), s.text_bytes, n, s.stored_bytes, s.fingerprint) for s, n in self.sources
        ]
        notes = self.notes + self.counter.notes()
        described: dict = {"source_rows": self.rows}
        if self.known is not None and self.inputs:
            n = len(self.left_out)
            described |= {"features_left_out": n, "more_left_out": n >= self.most_left_out}
        if old is None:
            same = ("seed", "top_features", "duplicates", "normalize", "dtype", "holdout", *FACTORS)
            described["settings"] = StoreSettingsMeta(
                order="stored" if settings.keep_order else "shuffled",
                min_count=destination.min_count,
                weights=None if settings.weights is None else str(settings.weights),
                **{name: getattr(settings, name) for name in same},
            )
            described["recipe"] = self.recipe.without(OF_INPUTS)
            counted_on = settings.like if settings.like is not None else self.outputs[0]
            if destination.factors is not None and destination.path != counted_on:
                described["idf_from"] = str(counted_on)
        else:
            settings = replace(settings, chunk_nonzeros=old.chunk_nonzeros)
            described |= {name: getattr(old, name) for name in INHERITED}
            sources, notes = old.sources + sources, old.notes + notes
            described["history"] = [*old.history, StepMeta(old.fingerprint, old.n_samples)]
        described |= {"sources": sources, "notes": notes}
        report = partial(self._report, "writing")
        return destination.write(file, settings, self.shares, pool, described, report)

    def _bits(self, expected: int | None) -> int:
        if self.settings.keep_order:
            return 0
        if expected is None:
            return 6
        buckets = max(1.0, expected * SPOOLED_PER_TEXT / self.shares.bucket)
        return int(min(8, np.ceil(np.log2(buckets))))

    def _report(self, phase: str, fraction: float | None) -> None:
        if self.progress is not None:
            text_bytes = sum(source.text_bytes for source, _ in self.sources)
            seconds = time.perf_counter() - self.began
            self.progress(SplitProgress(phase, self.rows - self.first, text_bytes, fraction, seconds))

    def _read(self, pool: ThreadPoolExecutor) -> Generator[RowBatch, None, None]:
        """Batches of the inputs' rows, in their order."""
        settings = self.settings
        with inputs_of(self.inputs if self.table is None else self.table, self.recipe) as text:
            self.recipe = settled(text, self.recipe, settings.memory, settings.skip_bad)
            if self.existing is None:
                self.notes = said_of_columns(self.recipe)[1]
            reader = reader_of(ReaderOptions(self.recipe, named=True, offers=OFFERS, factors=self.known))
            # pieces are cut so that their rows fit in what is planned for text
            share = EXPANSION / reader.expansion
            limit = LineLimit.share(settings.memory, int(20 * (settings.n_jobs + 2) / share))
            n_bytes = int(share * self.shares.piece)
            with closing(text.pieces(n_bytes, limit)) as pieces:
                stored, skip = partial(as_stored, dtype=settings.dtype), settings.skip_bad
                parsed = parsed_in_order(reader, pieces, pool, settings.n_jobs, n_bytes, stored=stored, skip_bad=skip)
                with closing(parsed) as batches:
                    for batch in batches:
                        self.counter.check(batch)
                        if not self.sources or self.sources[-1][0] is not batch.origin.source:
                            self.sources.append((batch.origin.source, self.rows))
                        if batch.left_out is not None and len(batch.left_out):
                            self.left_out = np.union1d(self.left_out, batch.left_out)[: self.most_left_out]
                        yield batch

    def _spool(self, batches: Iterable[RowBatch], destinations: list[Destination]) -> None:
        """Read all batches, and send their rows to the shuffle of their store."""
        for batch in batches:
            wrong = None if self.batches is None else label_fault(batch.labels)  # text was looked at as it was read
            if wrong is not None:
                raise InputError(f"row {self.rows + wrong[0]} of the batches: {wrong[1]}")
            try:
                self._distribute(self._weighted(batch), destinations)
            except RowError as error:
                if self.batches is not None:
                    raise
                record = int(batch.origin.records[error.row - (self.rows - len(batch))])
                raise InputError(self.counter.at(batch, record - batch.origin.n_records, str(error))) from None
            destinations[0].table.hold("the features that are left out", 3 * self.left_out.nbytes)  # as they are joined
            self._report("reading", batch.origin.fraction)
        for destination in destinations:
            destination.placed()
        if self.weights is not None:
            self.weights.finish()

    def _weighted(self, batch: RowBatch) -> RowBatch:
        """The batch with the weights that its rows have in the file of weights, if there is one."""
        if self.weights is None:
            return batch
        if batch.weights is not None and (batch.weights != 1.0).any():
            wrong = f"the rows of {shown_name(batch.origin.source.name)} have weights of their own"
            raise InputError(f"{option('weights', self.settings.weights)}: {wrong}; leave one of them out")
        return replace(batch, weights=self.weights.take(len(batch)))

    def _distribute(self, batch: RowBatch, destinations: list[Destination]) -> None:
        settings = self.settings
        n = len(batch)
        if n == 0:
            return
        numbers = np.arange(self.rows, self.rows + n)
        self.rows += n
        keys = np.empty(n, np.uint64)
        if settings.keep_order:
            keys[:] = numbers
        else:
            row_keys(numbers, settings.seed, keys)
        if len(destinations) == 1:
            destinations[0].add(numbers, keys, batch)
            return
        draw = np.empty(n, np.uint64)
        row_keys(numbers, settings.seed ^ HOLDOUT_SALT, draw)
        held_out = draw < np.uint64(int(settings.holdout * 2.0**64))
        for destination, chosen in zip(destinations, (~held_out, held_out), strict=True):
            order = np.flatnonzero(chosen)
            destination.add(numbers[order], keys[order], rows_of(batch, order))


def rows_of(batch: RowBatch, order: np.ndarray) -> RowBatch:
    lengths, values, weights, names = np.diff(batch.indptr)[order], batch.values, batch.weights, batch.names
    indptr = np.append(0, np.cumsum(lengths))
    entries = np.arange(indptr[-1]) + np.repeat(batch.indptr[order] - indptr[:-1], lengths)
    return replace(
        batch, labels=batch.labels[order], indptr=indptr, ids=batch.ids[entries],
        values=None if values is None else values[entries], weights=None if weights is None else weights[order],
        names=None if names is None else (names[0], names[1][entries], names[2][entries]),
    )  # fmt: skip


def expected_text(inputs: list[str]) -> int | None:
    """Bytes of text that the inputs may have; None where one of them does not tell."""
    total = 0
    for name in inputs:
        path = location(name)
        if name == "-" or not path.is_file():
            return None
        compressed = path.suffix in (".gz", ".bz2", ".xz", ".zst")
        total += path.stat().st_size * (LARGEST_EXPANSION if compressed else 1)
    return total
