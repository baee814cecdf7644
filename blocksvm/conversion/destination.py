"""Rows on their way to one store: features and labels numbered, rows ordered and written after those it has.

The external shuffle: rows go to buckets by the upper bits of their keys, in memory first, then on disk.  The final
order is by (key, row number); buckets only cut that into pieces that fit in memory, so their number changes nothing.
"""

from __future__ import annotations

import errno
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from blocksvm.base.errors import Bytes, InputError, option
from blocksvm.base.labels import LabelTable, RowError
from blocksvm.base.row_batch import RowBatch
from blocksvm.conversion.existing_rows import ExistingRows
from blocksvm.conversion.feature_counts import Selection, StoreFactors
from blocksvm.conversion.feature_ids import IdIndex, IdTable, NameTable
from blocksvm.conversion.parallel_parsing import ordered_map
from blocksvm.files.input import named_errors
from blocksvm.formats.format import EXPANSION
from blocksvm.formats.kernels.closing import weigh_rows
from blocksvm.formats.weighing import BEYOND, FeatureFactors
from blocksvm.kernels.rows import packed_entries
from blocksvm.kernels.shuffle import gather_rows, renumber_rows
from blocksvm.sources.source import chunk_nonzeros
from blocksvm.store.descriptions import ROW, WEIGHTED_ROW, StoreMeta
from blocksvm.store.writer import StoreWriter, packed

NONE = np.empty(0, np.int64)
SMALLEST_TABLE = 1_000_000  # bytes for each table of ids
MARGIN_BYTES = 64_000_000  # disk space that is left alone
# of a row: its number in the source, its key in the order, its label as ``LabelTable.keep`` gives it, its weight, and
# how many entries and words it has
SPOOLED = np.dtype([("number", np.int64), ("key", np.uint64), ("label", np.float64), ("weight", np.float64),
                    ("length", np.uint32), ("size", np.uint32)])  # fmt: skip
RAW = np.dtype((np.void, SPOOLED.itemsize))  # numpy joins records field by field, which takes longer


class Shares(NamedTuple):
    """The shares of a split's memory, in bytes: of a piece of text, of rows being written to disk, of the table of ids
    and the shuffle of a store together, and of a bucket of its rows, which is in memory as it was spooled and as it is
    written, for each job and the one being cut."""

    piece: int
    spool: int
    store: int
    bucket: int

    @classmethod
    def of(cls, memory: int, jobs: int, n_stores: int) -> Shares:
        """Text with what is parsed from it, an eighth for buckets being written, the rest for each store."""
        piece = int(min(8_000_000, max(65_536, memory // (40 * (jobs + 2)))))
        text, spool = EXPANSION * (jobs + 2) * piece, memory // (8 * n_stores)
        store = (memory - text - memory // 8) // n_stores
        if store - spool < SMALLEST_TABLE:
            wrong = f"is too small for {jobs} threads, which take {text / 1e6:.0f}MB for text"
            cure = f"lower {option('n_jobs')} or raise {option('memory')}"
            raise InputError(f"{option('memory', Bytes(memory))} {wrong}; {cure}")
        return cls(piece, spool, store, max(500_000, memory // (8 * (jobs + 1))))


@dataclass(frozen=True)
class SpooledRows:
    """Rows on their way: records (n,) ``SPOOLED``, words (m,) uint64: positions of ids, and values, none hot."""

    records: np.ndarray
    words: np.ndarray

    @property
    def n_bytes(self) -> int:
        return self.records.nbytes + self.words.nbytes


class Spool:
    """Rows in ``2**bits`` buckets by the upper ``bits`` of their keys below ``skipped`` bits.  Holds up to ``memory``
    bytes (which the owner may change at any time), then appends to one file a bucket in ``folder``: half of it is
    written by ``writer``, one job at a time, while the other half fills.  The files have no names, so that the system
    takes them back however this process ends; ``opened`` closes those that were not read."""

    def __init__(
        self, folder: Path, opened: ExitStack, bits: int, memory: int, writer: ThreadPoolExecutor, skipped: int = 0
    ):
        self.folder, self.opened, self.writer, self.bits = folder, opened, writer, bits
        self.skipped, self.memory = skipped, memory
        self.held: list[list[SpooledRows]] = [[] for _ in range(1 << bits)]
        self.held_bytes = 0
        self.writing: Future | None = None
        self.writing_bytes = 0
        self.sizes = np.zeros(1 << bits, np.int64)
        self.files: dict[int, IO[bytes]] = {}  # of buckets
        self.n_rows = 0
        self.n_nonzeros = 0

    def add(self, rows: SpooledRows) -> None:
        buckets, records = 1 << self.bits, rows.records
        if len(records) == 0:
            return
        self.n_rows += len(records)
        self.n_nonzeros += int(records["length"].sum(dtype=np.int64))
        if buckets == 1:
            self._hold(0, rows)
        else:
            target = (records["key"] << np.uint64(self.skipped) >> np.uint64(64 - self.bits)).astype(np.uint16)
            starts = np.append(0, np.cumsum(np.bincount(target, minlength=buckets)))
            order = np.argsort(target, kind="stable")  # by counting, as they are of 16 bits
            indptr = np.append(0, np.cumsum(records["size"], dtype=np.int64))
            sizes, words = np.empty(len(records), np.uint32), np.empty_like(rows.words)
            gather_rows(indptr, rows.words, order, sizes, words)
            records, ends = np.take(records, order), np.append(0, np.cumsum(sizes, dtype=np.int64))[starts]
            for bucket in np.flatnonzero(np.diff(starts)).tolist():
                part = records[starts[bucket] : starts[bucket + 1]]
                self._hold(bucket, SpooledRows(part, words[ends[bucket] : ends[bucket + 1]]))
        if self.writing is not None and self.writing.done():
            self.settle()
        if self.held_bytes > self.memory / 2 and self.held_bytes + self.writing_bytes > self.memory:
            self._spill()

    def _hold(self, bucket: int, rows: SpooledRows) -> None:
        self.held[bucket].append(rows)
        self.held_bytes += rows.n_bytes
        self.sizes[bucket] += rows.n_bytes

    def _spill(self) -> None:
        """Begin to write what is held, when the last time's is written."""
        self.settle()
        cure = f"name a larger folder with {option('temp')}"
        require_space(self.folder, self.held_bytes, "the external shuffle", cure)
        self.writing = self.writer.submit(self._append, self.held)
        self.writing_bytes, self.held_bytes = self.held_bytes, 0
        self.held = [[] for _ in self.held]

    def settle(self) -> None:
        """Wait for what is being written; its errors are raised here."""
        if self.writing is not None:
            writing, self.writing, self.writing_bytes = self.writing, None, 0
            writing.result()

    def _append(self, held: list[list[SpooledRows]]) -> None:
        for bucket, parts in enumerate(held):
            if not parts:
                continue
            if len(held) > 1:
                # in one piece: many small ones are slow to read back (a single bucket's are large, and read in turn)
                parts = [join(parts)]
            with named_errors(self.folder):
                if bucket not in self.files:
                    file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115
                    self.files[bucket] = self.opened.enter_context(file)
                for rows in parts:
                    for array in (np.array([len(rows.records), len(rows.words)]), rows.records, rows.words):
                        self.files[bucket].write(np.ascontiguousarray(array).view(np.uint8).data)
                self.files[bucket].flush()
            held[bucket] = []

    def read(self, bucket: int) -> Iterator[SpooledRows]:
        """The rows of a bucket in the order they were added, once; once it is settled, in any thread."""
        self.settle()
        if bucket in self.files:
            with self.files.pop(bucket) as file:
                end = file.tell()
                file.seek(0)
                take = partial(self._take, file)
                while file.tell() < end:
                    n, n_words = take(np.int64, 2).tolist()
                    yield SpooledRows(take(SPOOLED, n), take(np.uint64, n_words))
        parts, self.held[bucket] = self.held[bucket], []
        yield from parts

    def _take(self, file: IO[bytes], dtype, n: int) -> np.ndarray:
        """The next n elements of a file."""
        array = np.empty(n, dtype)
        with named_errors(self.folder):
            if file.readinto(array.view(np.uint8)) != array.nbytes:  # type: ignore[attr-defined]
                raise OSError(errno.EIO, "a temporary file is shorter than what was written to it")
        return array


def join(parts: list[SpooledRows]) -> SpooledRows:
    """One after the other."""
    if len(parts) == 1:
        return parts[0]
    records = np.concatenate([p.records.view(RAW) for p in parts]).view(SPOOLED)
    return SpooledRows(records, np.concatenate([p.words for p in parts]))


def require_space(folder: Path, n_bytes: int, purpose: str, cure: str) -> None:
    """InputError where the disk under ``folder`` has less than ``n_bytes`` free, and a margin."""
    free = shutil.disk_usage(folder).free
    if free < n_bytes + MARGIN_BYTES:
        need = f"{(n_bytes + MARGIN_BYTES) / 1e6:,.0f} MB"
        raise InputError(f"{folder}: {free / 1e6:,.0f} MB free, but {purpose} needs {need}; {cure}")


class Destination:
    """Rows that go to one store: their ids, names and labels, their shuffle, whether any value or weight is not 1.
    existing: the rows that it has already, or None; their features and labels come first.  factors: what its values are
    multiplied by, or None; selection: which features it keeps, None: all."""

    def __init__(self, path: Path, n_bytes: int, spool: Spool, placer: ThreadPoolExecutor, dtype: str, min_count: int,
                 existing: ExistingRows | None = None, factors: StoreFactors | None = None,
                 selection: Selection | None = None):  # fmt: skip
        """n_bytes: for the table and the rows of ``spool`` together; what the table does not take holds rows; placer:
        the thread in which rows are added to the shuffle while the features of the next ones are numbered."""
        self.path, self.n_bytes = path, n_bytes
        self.table = IdTable(n_bytes - spool.memory)
        self.spool, self.placer = spool, placer
        self.placing: Future | None = None
        self.dtype = np.dtype(dtype)
        self.min_count = min_count
        self.labels = LabelTable()
        self.names: NameTable | None = None
        self.ones = True
        self.weighted = False
        self.existing, self.factors, self.selection = existing, factors, selection
        self.order = np.empty(0, np.int32)  # of the features' positions, once it is written
        if existing is not None:
            self._take_over(existing)

    def _take_over(self, existing: ExistingRows) -> None:
        self.ones, self.weighted = existing.ones, existing.weighted
        self.labels.keep(existing.labels)
        for ids, names in existing.features():
            self._numbered(ids, names)
        self.table.hold("the labels", self.labels.n_bytes)
        self.spool.memory = self.n_bytes - self.table.most_bytes()

    def add(self, numbers: np.ndarray, keys: np.ndarray, batch: RowBatch) -> None:
        """Add the rows of a batch, with their source numbers and their keys in the stored order; InputError where one
        of them has no sound weight, RowError, with its number, where labels of two kinds meet."""
        if batch.weights is not None:
            wrong = np.flatnonzero(~(np.isfinite(batch.weights) & (batch.weights >= 0.0)))
            if len(wrong):
                row, weight = numbers[wrong[0]] + 1, batch.weights[wrong[0]]
                raise InputError(f"row {row}: the weight {weight:g} is not a finite number of 0 or more; mend it")
        positions = self._numbered(batch.ids, batch.names)
        if self.factors is not None:
            self.factors.count(self.table, positions, batch.values)
        try:
            codes = self.labels.keep(batch.labels)
        except RowError as error:
            raise RowError(int(numbers[error.row]), str(error)) from None
        self.table.hold("the labels", self.labels.n_bytes)
        if self.selection is not None:
            self.selection.count(self.table, batch.labels, codes, batch.indptr, positions)
        self.spool.memory = self.n_bytes - self.table.most_bytes()
        values = batch.values
        self.ones = self.ones and (values is None or bool((values == 1.0).all()))
        self.weighted = self.weighted or (batch.weights is not None and bool((batch.weights != 1.0).any()))
        self.placed()
        records = np.empty(len(batch), SPOOLED)  # now: the next batch may take that memory
        records["number"], records["key"], records["label"] = numbers, keys, codes
        records["weight"] = 1.0 if batch.weights is None else batch.weights
        records["length"] = np.diff(batch.indptr)
        self.placing = self.placer.submit(self._place, records, positions, values)

    def _place(self, records: np.ndarray, positions: np.ndarray, values: np.ndarray | None) -> None:
        """Add rows to the shuffle, in a form that takes half the bytes."""
        values = np.ones(len(positions), self.dtype) if values is None else values.astype(self.dtype, copy=False)
        words, records["size"], _ = packed(records["length"].copy(), positions, values, hot=0)
        self.spool.add(SpooledRows(records, words))

    def placed(self) -> None:
        """Wait until the rows that were added are in the shuffle; its errors are raised here."""
        if self.placing is not None:
            self.placing.result()

    def _numbered(self, ids: np.ndarray, names: tuple | None) -> np.ndarray:
        """Positions of ids in the table, each counted; the names (see ``RowBatch``) of those that are new are kept."""
        before = len(self.table)
        positions = self.table.add(ids)
        if self.names is None and names is not None:
            self.names = NameTable(len(self.table.known))
            self.names.add(None, positions[:0], before)
        if self.names is not None:
            self.names.add(names, positions, len(self.table))
            self.table.hold("the features' names", self.names.n_bytes)
        return positions

    def write(
        self, file, settings, shares: Shares, pool: ThreadPoolExecutor, described: dict, report: Callable[[float], None]
    ) -> StoreMeta:
        """Write the store into a new file; returns its description.  described: what this says beside what the rows
        tell; report(fraction) is called as it goes on."""
        n_existing = 0 if self.existing is None else self.existing.n_rows
        n_rows = n_existing + self.spool.n_rows
        first = 0 if self.existing is None else self.existing.n_features
        if self.selection is not None:
            self.selection.keep(self.table, self.min_count)
        if self.factors is None:
            order, new_index = self.table.ranking(self.min_count, first)
        else:
            order, new_index = self.factors.ranked(self.table, self.min_count, first, n_rows)
        known = any(one is not None and one.known is not None for one in (self.selection, self.factors))
        if len(order) == 0 and len(self.table) and not known:
            wrong = f"none of the {len(self.table):,} features occurs in so many rows"
            raise InputError(f"{option('min_count', self.min_count)}: {wrong}; lower it")
        labels, new_label = self.labels.sorted()
        chunk_nnz = settings.chunk_nonzeros or chunk_nonzeros(self.spool.n_nonzeros, self.spool.n_rows)
        counted = self.factors is not None and not self.factors.weighed
        by_feature = self.factors.by_feature if counted else None
        dtype = None if self.ones and not counted else self.dtype
        numbering = new_index, new_label, self.weighted, settings, self.dtype, dtype is None, by_feature
        part_words = None if self.existing is None else self.existing.part_words(dtype)
        writer = StoreWriter(
            file, n_rows, chunk_nnz, dtype, pool, settings.n_jobs, self.weighted, part_words, settings.codec
        )
        if self.existing is not None:
            self.existing.write(writer, new_label, lambda done: report(done / n_rows))
        done = n_existing
        loads = (in_stored_order if settings.keep_order else in_key_order)(self.spool, shares)
        for rows, of_rows in ordered_map(pool, lambda load: _renumbered(load(), *numbering), loads, settings.n_jobs):
            writer.append(rows, of_rows)
            done += len(rows)
            report(done / n_rows)
        known = self.table.known
        names = None if self.names is None else self.names.in_order(order)
        factors = None
        if self.factors is not None:
            factors, described = self.factors.by_feature, described | {"idf_fingerprint": self.factors.fingerprint}
        self.order = order
        return writer.finish(len(order), lambda a, b: known[order[a:b]], described, labels, names, factors)

    def ids(self) -> np.ndarray:
        """Those of its features, once it is written."""
        return self.table.known[self.order]

    def counted_factors(self) -> FeatureFactors:
        """What its features were found to have, once it is written; for other rows."""
        ids = self.ids()
        self.table.known, self.order = np.empty(0, np.int64), self.order[:0]
        index = IdIndex(len(ids)).fill([(0, ids)])
        return FeatureFactors(index.find, self.factors.by_feature, self.factors.fingerprint)


def in_key_order(spool: Spool, shares: Shares) -> Iterator[Callable[[], SpooledRows]]:
    """Buckets in the order of their keys, each to be loaded once; one too large for the memory is distributed again."""
    spool.settle()
    for bucket in range(1 << spool.bits):
        size = int(spool.sizes[bucket])
        if size == 0:
            continue
        if size <= shares.bucket or spool.skipped + spool.bits > 48:
            yield lambda bucket=bucket: join(list(spool.read(bucket)))
            continue
        bits = int(min(6, np.ceil(np.log2(size / shares.bucket)) + 1))  # few files more are open
        finer = Spool(spool.folder, spool.opened, bits, shares.spool // 2, spool.writer, spool.skipped + spool.bits)
        for rows in spool.read(bucket):
            finer.add(rows)
        yield from in_key_order(finer, shares)


def in_stored_order(spool: Spool, shares: Shares) -> Iterator[Callable[[], SpooledRows]]:
    """The rows of the one bucket as they came, in pieces that fit in memory."""
    parts: list[SpooledRows] = []
    size = 0
    for rows in spool.read(0):
        parts.append(rows)
        size += rows.n_bytes
        if size > shares.bucket:
            yield partial(join, parts)
            parts, size = [], 0
    if parts:
        yield partial(join, parts)


def _renumbered(
    loaded: SpooledRows, new_index: np.ndarray, new_label: np.ndarray | None, weighted: bool, settings,
    dtype: np.dtype, ones: bool, factors: np.ndarray | None,
):  # fmt: skip
    """(row records, packed rows) of a bucket, in their final order and numbering.  new_index: of a position in the
    table of ids, -1: dropped; new_label: likewise of labels, None of numbers; dtype: of spooled values; ones: all are
    1; factors (d,): of each feature's values, or None."""
    records, n = loaded.records, len(loaded.records)
    order = np.arange(n) if settings.keep_order else np.lexsort((records["number"], records["key"]))
    indptr = np.append(0, np.cumsum(records["size"], dtype=np.int64))
    nnz = int(records["length"].sum(dtype=np.int64))
    lengths, indices, sq_norms = np.empty(n, np.int64), np.empty(nnz, np.int32), np.empty(n)
    values = None if ones else np.empty(nnz, dtype)
    keys = np.empty((2, int(records["length"].max(initial=0))), np.uint64)
    entries = packed_entries(indptr, loaded.words, dtype)
    nnz = renumber_rows(entries, order, new_index, lengths, indices, values, sq_norms, keys)
    if factors is not None:
        row_ends = np.append(0, np.cumsum(lengths))
        single, l2 = values.dtype == np.float32, settings.recipe.l2
        done = weigh_rows(row_ends, indices, indices, values, factors, l2, single, sq_norms, NONE)
        if done < n:
            number = int(records["number"][order[done]]) + 1
            raise InputError(f"row {number}: {BEYOND.format(values.dtype)}")
        lengths, nnz = np.diff(row_ends), row_ends[-1]
    rows = np.empty(n, WEIGHTED_ROW if weighted else ROW)
    records = np.take(records, order)
    labels = records["label"]
    if new_label is not None:
        absent = np.isnan(labels)
        labels = np.where(absent, np.nan, new_label[np.where(absent, 0, labels).astype(np.int64)])
    rows["label"] = labels
    if weighted:
        rows["weight"] = records["weight"]
    rows["sq_norm"] = sq_norms
    rows["source"] = records["number"]
    return rows, packed(lengths, indices[:nnz], None if values is None else values[:nnz])
