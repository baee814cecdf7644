"""The rows that a store has already, which a conversion copies into the store that replaces it."""

import fcntl
import io
import os
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import CodedLabels
from blocksvm.conversion.feature_ids import BYTES_AN_ID, FULLEST, NameTable
from blocksvm.files.input import open_input
from blocksvm.files.paths import Location, ObjectUrl, absolute_name, file_size
from blocksvm.formats.file_reader import fingerprint_of_input
from blocksvm.sources.block import WORD_BYTES
from blocksvm.store import codec
from blocksvm.store.arrays import PIECE
from blocksvm.store.decoder import Truncated
from blocksvm.store.descriptions import WEIGHTED_ROW
from blocksvm.store.reader import Store
from blocksvm.store.writer import StoreWriter, packed

# what the description of a changed store has from before
INHERITED = ("settings", "recipe", "idf_from", "holdout_fingerprint", "training_fingerprint")


class ExistingRows:
    """A store's rows, open until ``close``.  labels: those that occur, as a reader gives them; n_features: all
    keep their numbers; ones: every value is 1; weighted: some row has another weight."""

    def __init__(self, path: Location):
        self.path = path
        self.state = _state_of(path)
        self.store = Store(path)
        self.lock: io.BufferedReader | None = None
        try:
            self._lock()
        except BaseException:
            self.close()
            raise
        store = self.store
        self.n_rows, self.n_features = store.n_samples, store.n_features
        table = store.coding.source_labels
        # a store's table has the labels that occur, and no others
        one = np.zeros(min(1, store.n_samples - store.n_unlabelled))
        self.labels = one if table is None else CodedLabels.of(table)
        self.ones = store.value_bytes == 0
        self.weighted = store.weighted

    def _lock(self) -> None:
        """Hold the store for as long as it is open; InputError where another command changes it.  Between a last look
        at it and the new one's rename another change could be lost."""
        self.lock = open_input(self.path)  # of its own: HDF5 gives a process one descriptor for all that open a file
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{self.path}: {self._held_by()}; it stays as it is now, try again") from None
        except OSError:  # a file system without locks
            pass
        self.require_unchanged()

    def _held_by(self) -> str:
        """Who has locked it: our commands by a lock of their own, h5py by one that readers share."""
        try:
            fcntl.flock(self.lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return "is being changed by another command"
        return "is open for reading in another program, which locks it (h5py does unless locking=False); close it there"

    def close(self) -> None:
        self.store.close()
        if self.lock is not None:
            self.lock.close()

    def added(self, inputs: list[str]) -> list[str]:
        """Those of the inputs whose rows were added before: files of the same name, size and content."""
        known: dict[tuple[str, int | None], list[str]] = {}
        for source in self.store.meta.sources:
            key = absolute_name(source.name), source.bytes
            known.setdefault(key, []).append(source.fingerprint)
        same = {name: known.get((absolute_name(name), file_size(name)), ()) for name in inputs if name != "-"}
        return [name for name, those in same.items() if those and fingerprint_of_input(name) in those]

    def require_memory(self, n_bytes: int, beside: int) -> None:
        """InputError, before any is read, where the features, and ``beside`` bytes for each, take more than these."""
        d, names = self.n_features, self.store.name_bytes
        need = NameTable.bytes_of(names, d if names else 0) + int((BYTES_AN_ID + 4 / FULLEST + beside) * d)
        if need > n_bytes:
            what, memory = "features with their names" if names else "features", option("memory")
            left = f"more than the {n_bytes / 1e6:,.0f} MB that {memory} leaves for them; raise {memory}"
            raise InputError(f"{self.path}: its {d:,} {what} take {need / 1e6:,.0f} MB, {left}")

    def features(self) -> Iterator[tuple[np.ndarray, tuple | None]]:
        """(ids, their names as ``RowBatch`` has them or None) of the features in their order, piece by piece."""
        for start in range(0, self.n_features, PIECE):
            stop = min(start + PIECE, self.n_features)
            texts = self.store.feature_texts(start, stop)
            names = None if texts is None else (texts[0], texts[1][:-1], texts[1][1:])
            yield self.store.feature_ids(start, stop), names

    def write(self, writer: StoreWriter, new_label: np.ndarray | None, report: Callable[[int], None]) -> None:
        """The rows into a writer.  new_label: of a position in the table of labels, as it was begun with ``labels``;
        report(rows) is called as they are written."""
        store, done = self.store, 0
        repacked = self.ones and writer.value_dtype is not None
        for chunk in range(len(store.chunks)):
            rows = self._records(store.read_rows(chunk), new_label, writer.weighted)
            if repacked:
                block = store.read_block(np.array([chunk]), None)
                ones = np.ones(block.n_nonzeros, writer.value_dtype)
                writer.append(rows, packed(block.lengths, block.indices, ones))
            else:
                records = store.parts.of_chunk(chunk)
                nnz, n_words = int(store.chunks.nnz[chunk]), int(store.chunks.words[chunk])
                writer.copy(rows, nnz, n_words, [partial(self._part, chunk, *record) for record in records])
            done += len(rows)
            report(done)

    def part_words(self, value_dtype) -> int | None:
        """Of parts that can be copied into a store of such values."""
        return None if self.ones and value_dtype is not None else self.store.part_words

    def _records(self, rows: np.ndarray, new_label, weighted: bool) -> np.ndarray:
        if weighted and not self.weighted:
            records, rows = rows, np.empty(len(rows), WEIGHTED_ROW)
            for name in records.dtype.names:
                rows[name] = records[name]
            rows["weight"] = 1.0
        if self.store.coding.source_labels is not None:
            labelled = ~np.isnan(rows["label"])
            rows["label"][labelled] = new_label[rows["label"][labelled].astype(np.int64)]
        return rows

    def _part(self, chunk: int, offset: int, size: int, checksum: int) -> tuple[memoryview, int, int]:
        """A part as it is stored, verified; in any thread."""
        try:
            raw = self.store.bytes.read(offset, memoryview(bytearray(size)))
        except Truncated:
            raise InputError(f"{self.path}: chunk {chunk}: is truncated; make the store again") from None
        if codec.checksum(raw) != checksum:
            raise InputError(f"{self.path}: chunk {chunk}: checksum does not match; make the store again")
        return raw, codec.STORED if size == self.store.part_words * WORD_BYTES else 0, checksum

    def require_unchanged(self) -> None:
        """InputError where the store has been replaced since it was opened: its place is not taken then."""
        if _state_of(self.path) != self.state:
            raise InputError(f"{self.path}: was changed by another program meanwhile; it stays as it is now, try again")


def _state_of(path: Location) -> tuple | None:
    try:
        if isinstance(path, ObjectUrl):
            from blocksvm.files.remote import RemoteObject

            return RemoteObject(path.url).identity()  # whatever state it is in now
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
