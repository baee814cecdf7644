"""Packed rows in a store: they come back whatever they are, and no kernel sees words that are none of rows."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from support.packed_rows import DTYPES, FEATURES, LENGTHS, N_FEATURES, VALUES, blocks_of, plain_rows

from blocksvm.base.errors import InputError
from blocksvm.sources.block_kernels import unpack_rows
from blocksvm.store.descriptions import ROW
from blocksvm.store.hdf5_files import create_hdf5, write_meta
from blocksvm.store.reader import Store
from blocksvm.store.writer import PackedRows, StoreWriter


def store_of(path, rows: PackedRows, dtype, chunk_nnz: int, n_features: int = N_FEATURES):
    """A store of these words, whatever they hold; its checksums are theirs."""
    records = np.zeros(len(rows.lengths), ROW)
    records["label"], records["source"] = np.arange(len(records)) % 2, np.arange(len(records))
    with create_hdf5([path], "store") as (file,), ThreadPoolExecutor(1) as pool:
        writer = StoreWriter(file, len(records), chunk_nnz, dtype, pool, 1)
        writer.append(records, rows)
        meta = {"settings": {"order": "stored"}, "sources": [], "source_rows": len(records)}
        write_meta(file, writer.finish(n_features, lambda start, stop: np.arange(start, stop), meta))
    return path


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("features", "values"), [(features, values) for features in FEATURES for values in VALUES])
def test_rows_of_every_kind_come_back(tmp_path, features, values, dtype):
    """Many of them have more words than a part, in chunks in any order, packed or not."""
    lengths, indices, numbers = plain_rows(features, values, dtype, np.tile(LENGTHS, 2))
    plain, _, rows = blocks_of(lengths, indices, numbers)
    with Store(store_of(tmp_path / "s.h5", rows, dtype, 32)) as store:
        store.verify()
        assert store.parts.n_parts.max() > 5 and len(store.chunks) > 10
        chunks = np.random.default_rng(0).permutation(len(store.chunks))
        unpacked, packed = store.read_block(chunks, None), store.reader(packed=True).read_block(chunks, None)
    assert packed.n_nonzeros == unpacked.n_nonzeros == len(indices)
    found = np.empty(len(indices), np.int32), None if dtype is None else np.empty(len(indices), dtype)
    unpack_rows(packed.entries, 0, *found)
    assert found[0].tobytes() == unpacked.indices.tobytes()
    assert dtype is None or found[1].tobytes() == unpacked.values.tobytes()
    for name in ("y", "sq_norms", "rows"):
        assert getattr(packed, name).tobytes() == getattr(unpacked, name).tobytes()
    assert packed.lengths.tolist() == np.diff(unpacked.indptr).tolist()
    for i, row in enumerate(unpacked.rows.tolist()):
        ours, theirs = unpacked.of_rows(slice(i, i + 1)), plain.of_rows(slice(row, row + 1))
        assert ours.indices.tobytes() == theirs.indices.tobytes()
        assert dtype is None or ours.values.tobytes() == theirs.values.tobytes()


N_HOT, N_COLD = 12, 8
ENTRIES = N_HOT + N_COLD


def three_rows(dtype) -> tuple[PackedRows, np.ndarray]:
    """Of the same features; the values of one are coded, of one as they are, and of one all the same.  Their words, and
    where each begins among them."""
    features = np.r_[np.arange(N_HOT) * 3, 70_000 + np.arange(N_COLD) * 3].astype(np.int32)
    few, differing = np.resize([1.0, 2.0, 3.0], ENTRIES), np.sqrt(2.0 + np.arange(ENTRIES))
    values = np.concatenate([few, differing, np.full(ENTRIES, 5.0)])
    lengths = np.full(3, ENTRIES)
    plain = None if dtype is None else values.astype(dtype)
    rows = blocks_of(lengths, np.tile(features, 3), plain)[2]
    return rows, np.append(0, np.cumsum(rows.sizes, dtype=np.int64))[:-1]


class Row:
    """The arrays of a packed row."""

    def __init__(self, words: np.ndarray, at: int, dtype):
        self.head = words.view(np.uint32)[2 * at : 2 * at + 2]
        self.cold = words.view(np.uint32)[2 * at + 2 :][:N_COLD]
        self.hot = words.view(np.uint16)[4 * at + 4 + 2 * N_COLD :][:N_HOT]
        end = 8 * at + 8 + 4 * N_COLD + 2 * N_HOT
        self.codes = words.view(np.uint8)[end : end + ENTRIES]
        coded = self.head[0] >> 31 and self.head[1] >> 24
        if dtype is not None:
            self.values = words.view(dtype)[-(-(end + ENTRIES * bool(coded)) // np.dtype(dtype).itemsize) :]


def put(array: str, k, value):
    def change(row: Row):
        getattr(row, array)[k] = value

    return change


FALL = "the features of a row do not rise, or are out of range"
WORDS, NONZEROS = "rows and their words disagree", "rows and nonzeros disagree"
CODED, PLAIN, SAME = range(3)
FAULTS = {
    "more hot features than there are": (CODED, put("head", 0, (1 << 31) + 1_000), WORDS),
    "as many hot ones as can be told": (PLAIN, put("head", 0, (1 << 31) - 1), WORDS),
    "more others than there are": (PLAIN, put("head", 1, 1_000), WORDS),
    "as many others as can be told": (PLAIN, put("head", 1, (1 << 32) - 1), WORDS),
    "as many of coded ones": (CODED, put("head", 1, (1 << 32) - 1), WORDS),
    "more of the last row": (SAME, put("head", 0, (1 << 31) + 1_000), WORDS),
    "fewer of the last row": (SAME, put("head", 0, 1 << 31), WORDS),
    "not coded, but so stored": (SAME, put("head", 0, N_HOT), (WORDS, FALL)),
    "more values than there are": (CODED, put("head", 1, N_COLD + (200 << 24)), WORDS),
    "a hot feature that falls": (CODED, put("hot", 5, 0), FALL),
    "a hot feature twice": (PLAIN, put("hot", 5, 12), FALL),
    "one of the others that falls": (PLAIN, put("cold", 5, 70_000), FALL),
    "one of the others twice": (SAME, put("cold", 5, 70_012), FALL),
    "one of the others out of range": (CODED, put("cold", N_COLD - 1, N_FEATURES), FALL),
    "one of the others far out of range": (CODED, put("cold", N_COLD - 1, (1 << 32) - 1), FALL),
    "one of the others that is hot": (PLAIN, put("cold", 0, 65_535), FALL),
    "a code of no value": (CODED, put("codes", 7, 3), WORDS),
    "a code far from all values": (CODED, put("codes", ENTRIES - 1, 255), WORDS),
    "a coded value that is none": (CODED, put("values", 2, np.nan), "a value is not finite"),
    "a value that is none": (PLAIN, put("values", ENTRIES - 1, -np.inf), "a value is not finite"),
    "the only value, which is none": (SAME, put("values", 0, np.inf), "a value is not finite"),
}


def refused(path, says, run_in_process) -> None:
    """By both readers, at every time, in one line of a command."""
    says = (says,) if isinstance(says, str) else says
    with Store(path) as store:
        for reader in (store, store.reader(packed=True), store):
            with pytest.raises(InputError) as refusal:
                reader.read_block(np.arange(1), None)
            assert str(refusal.value) in [f"{path}: chunk 0: {what}; make the store again" for what in says]
    told = run_in_process("info", path, "--verify", "--quiet")
    assert told.code == 2 and told.err == f"blocksvm info: error: {refusal.value}\n"


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("fault", FAULTS)
def test_words_that_are_none_of_rows_are_refused(tmp_path, run_in_process, fault, dtype):
    rows, starts = three_rows(dtype)
    number, change, says = FAULTS[fault]
    with Store(store_of(tmp_path / "sound.h5", rows, dtype, 1_000)) as store:
        store.verify()
    change(Row(rows.words, int(starts[number]), dtype))
    refused(store_of(tmp_path / "s.h5", rows, dtype, 1_000), says, run_in_process)


def test_a_hot_feature_out_of_range_is_refused(tmp_path, run_in_process):
    lengths = np.array([3, 2])
    rows = blocks_of(lengths, np.array([0, 1, 9, 2, 7], np.int32), None)[2]
    with Store(store_of(tmp_path / "sound.h5", rows, None, 1_000, n_features=10)) as store:
        store.verify()
    refused(store_of(tmp_path / "s.h5", rows, None, 1_000, n_features=9), FALL, run_in_process)


@pytest.mark.parametrize(
    ("change", "says"),
    [(put("head", 0, (1 << 31) + N_HOT), WORDS), (put("head", 0, N_HOT + 1), (NONZEROS, WORDS)),
     (put("head", 1, N_COLD - 1), (NONZEROS, WORDS)), (put("head", 0, 0), (NONZEROS, WORDS)),
     (put("cold", 0, 3), FALL), (put("hot", 0, 65_535), FALL)],
)  # fmt: skip
def test_words_of_a_store_of_ones_that_are_none_of_rows_are_refused(tmp_path, run_in_process, change, says):
    """A coded row among them, too."""
    rows, starts = three_rows(None)
    change(Row(rows.words, int(starts[1]), None))
    refused(store_of(tmp_path / "s.h5", rows, None, 1_000), says, run_in_process)


def test_words_beside_those_of_the_rows_are_refused(tmp_path, run_in_process):
    """More of them, or fewer, than what the rows tell of themselves."""
    rows, _ = three_rows(np.float32)
    more = PackedRows(np.append(rows.words, np.uint64(0)), rows.sizes + np.array([0, 0, 1], np.uint32), rows.lengths)
    fewer = PackedRows(rows.words[:-1], rows.sizes - np.array([0, 0, 1], np.uint32), rows.lengths)
    for name, wrong in (("more", more), ("fewer", fewer)):
        refused(store_of(tmp_path / f"{name}.h5", wrong, np.float32, 1_000), WORDS, run_in_process)
    lengths = rows.lengths + np.array([0, 1, 0])
    refused(store_of(tmp_path / "n.h5", rows._replace(lengths=lengths), np.float32, 1_000), NONZEROS, run_in_process)
