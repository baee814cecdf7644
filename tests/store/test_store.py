"""The store as a file: readable by h5py alone, its blocks are what HDF5 reads whatever the chunks, packed rows come
back whatever they are, and no kernel sees words that are none of rows."""

import contextlib
import faulthandler
import os
import pickle
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import numpy as np
import pytest
from scipy import sparse
from support.packed_rows import DTYPES, FEATURES, LENGTHS, N_FEATURES, VALUES, blocks_of, plain_rows
from support.paths import ROOT
from support.stored_rows import content, entries_of_chunk
from support.training_cases import quick_model, svmlight
from xxhash import xxh3_64

from blocksvm.base.errors import InputError
from blocksvm.conversion.convert import SplitSettings, extend, settings_of_store, split_rows
from blocksvm.sources.block import Arena
from blocksvm.sources.block_kernels import unpack_rows
from blocksvm.store import codec
from blocksvm.store.arrays import read_array, write_array
from blocksvm.store.decoder import Decoder
from blocksvm.store.descriptions import ROW
from blocksvm.store.hdf5_files import create_hdf5, write_meta
from blocksvm.store.reader import Store
from blocksvm.store.writer import PackedRows, StoreWriter

ARRAYS = ("indptr", "indices", "values", "y", "sq_norms", "rows", "weights")
LABELS = {"strings": lambda i: ("ham", "spam")[i % 2], "sets": lambda i: ",".join("abc"[: i % 3 + 1]),
          "classes": lambda i: str(i % 4)}  # fmt: skip
FORMATS = {"strings": "svmlight-named", "sets": "multilabel"}
KINDS = ("ones", "float32", "float64", "stored", "weighted", *LABELS)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """A store of each kind; its first row has more entries than a part."""
    folder = tmp_path_factory.mktemp("stores")
    for kind in KINDS:
        draw = np.random.default_rng(3)
        dense = draw.random((500, 900)) * (draw.random((500, 900)) < 0.02)
        dense[0, ::2] = 1.0
        X = sparse.csr_matrix(dense)
        X.data = np.round(4 * X.data) + 1.0
        if kind == "ones":
            X.data[:] = 1.0
        elif kind == "stored":  # does not compress
            X.data = draw.standard_normal(X.nnz)
        label = LABELS.get(kind, lambda i: str(2 * (i % 2) - 1))
        text, weights = folder / "rows.txt", folder / "weights.txt"
        text.write_text(svmlight(X, [label(i) for i in range(X.shape[0])]))
        weights.write_text("".join(f"{i % 3 + 0.5}\n" for i in range(X.shape[0])))
        settings = SplitSettings(chunk_nonzeros=256, dtype="float64" if kind in ("float64", "stored") else "float32",
                                 format=FORMATS.get(kind, "svmlight"),
                                 weights=str(weights) if kind == "weighted" else None)  # fmt: skip
        split_rows([str(text)], folder / f"{kind}.h5", settings)
    return folder


@pytest.fixture(scope="module")
def small_store(stores) -> Path:
    return stores / "float32.h5"


@pytest.mark.process
def test_the_lines_of_the_documentation_read_a_store(small_store, tmp_path):
    """Runs the very lines of docs/files.md in a process that knows nothing of blocksvm."""
    lines = (ROOT / "docs" / "files.md").read_text().split("```python")[1].split('with h5py.File("model.h5")')[0]
    (tmp_path / "store.h5").symlink_to(small_store)
    program = lines + "import sys\nassert 'blocksvm' not in sys.modules\nprint(ids.tolist(), X.toarray().tolist())\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert done.stderr == ""
    with Store(small_store) as store:
        block = store.read_block(np.arange(len(store.chunks)), None)
        rows = sparse.csr_matrix((block.values, block.indices, block.indptr), (len(block.y), store.n_features))
        ids = store.feature_ids(0, store.n_features).tolist()
    assert done.stdout == f"{ids} {rows.toarray().tolist()}\n"


def test_a_store_is_plain_hdf5(small_store):
    with h5py.File(small_store) as file:
        assert sorted(file) == ["chunks", "features", "meta", "parts", "rows", "words"]
        found = []
        file.visititems(lambda name, item: found.append((name, getattr(item, "is_virtual", False))))
        assert not any(virtual for _, virtual in found)
        assert all(isinstance(file.get(name, getlink=True), h5py.HardLink) for name, _ in found)
        # text in a heap is under no checksum: a flipped bit there makes HDF5 run for ever
        for name in file.attrs:
            kind = h5py.check_string_dtype(file.attrs.get_id(name).dtype)
            assert kind is None or kind.length is not None


@pytest.mark.parametrize("length", [0, 1, 5, 131_072, 131_073])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_arrays_come_back(tmp_path, length, dtype):
    data = np.random.default_rng(0).integers(-(2**62), 2**62, length).astype(dtype)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        write_array(file, "x", data)
        assert read_array(file, "x", np.dtype(dtype), length).tobytes() == data.tobytes()
        assert file["x"][()].tobytes() == data.tobytes()
        for wrong in (length + 1, length - 1):
            with pytest.raises(InputError, match="/x: does not have"):
                read_array(file, "x", np.dtype(dtype), wrong) if wrong >= 0 else read_array(file, "x", data.dtype, 7)


@pytest.fixture
def watchdog():
    """A hang inside HDF5 cannot be interrupted: end the whole run, and say where."""
    faulthandler.dump_traceback_later(100, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def test_truncated_stores_are_found(small_store, tmp_path, watchdog):
    data = small_store.read_bytes()
    path = tmp_path / "cut.h5"
    for length in [*range(0, 100), *range(100, len(data), len(data) // 300), len(data) - 1]:
        path.write_bytes(data[:length])
        with pytest.raises(InputError, match="cut.h5"):
            Store(path)
    path.write_bytes(data + b"more")  # what lies behind is not the store's
    assert content(path) == content(small_store)


def test_other_files_are_refused_by_what_they_are(tmp_path):
    path = tmp_path / "f.h5"
    for data in (b"", b"1 1:1\n", b"\x89HDF\r\n\x1a\n", b"\x89HDF\r\n\x1a\n" + bytes(2000)):
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"f\.h5: is (not a blocksvm store|truncated or damaged)"):
            Store(path)
    path.unlink()
    quick_model(path)
    with pytest.raises(InputError, match=r"f\.h5: is a model, but a store is needed here; make one with .*split"):
        Store(path)
    with h5py.File(path, "w") as file:
        file["x"] = 1
    with pytest.raises(InputError, match=r"f\.h5: is not a blocksvm store"):
        Store(path)
    with pytest.raises(InputError, match="nowhere.h5: no such file"):
        Store(tmp_path / "nowhere.h5")
    with pytest.raises(InputError, match="is a folder"):
        Store(tmp_path)


def repeated_values(rng) -> np.ndarray:
    """Counts over the norm of their row."""
    counts = rng.geometric(0.6, 32_768).astype(np.float32)
    return counts / np.repeat(np.sqrt(rng.integers(50, 900, 64)), 512).astype(np.float32)


@pytest.mark.parametrize(
    ("item", "make"),
    [(1, repeated_values),
     (2, lambda rng: np.sort(rng.integers(0, 3000, (1024, 64)), axis=1).astype(np.uint16).reshape(-1)),
     (4, lambda rng: rng.integers(70_000, 300_000, 32_768).astype(np.uint32)),
     (None, lambda rng: (rng.random(32_768) + rng.integers(0, 200, 32_768)).astype(np.float32))],
)  # fmt: skip
def test_words_are_compressed_as_takes_the_fewest_bytes(item, make):
    """As they stand, or with the bytes of so many neighbours apart; what hardly shrinks is stored as it is."""
    rng = np.random.default_rng(3)
    words = make(rng).view(np.uint64)
    raw, mask, _ = codec.encode(words)
    if item is None:
        assert (raw, mask) == (words.tobytes(), codec.STORED)
        return
    lengths = {}
    with codec.one_thread():
        for other in codec.SHUFFLED:
            shuffle = codec.blosc.SHUFFLE if other > 1 else codec.blosc.NOSHUFFLE
            lengths[other] = len(codec.blosc.compress(words.view(f"u{other}"), b"lz4", codec.LEVEL, shuffle))
    assert mask == 0 and len(raw) == lengths[item] == min(lengths.values()) < 0.9 * words.nbytes
    out = np.zeros_like(words)
    codec.decode(raw, out)
    assert out.tobytes() == words.tobytes()


@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.float64])
def test_the_codec_is_exact_and_refuses_other_lengths(dtype):
    data = np.random.default_rng(0).integers(0, 30, 800 // np.dtype(dtype).itemsize).astype(dtype).view(np.uint64)
    raw, mask, _ = codec.encode(data)
    assert mask == 0
    out = np.empty_like(data)
    codec.decode(raw, out)
    assert out.tobytes() == data.tobytes()
    for length in (99, 101, 0):
        with pytest.raises(ValueError, match="were expected"):
            codec.decode(raw, np.empty(length, np.uint64))
    # Blosc believes what a buffer says of its length, and would read beyond its end
    for wrong in (raw[:-10], raw[:20], raw[:16], raw[:12], b"", raw + b"more"):
        with pytest.raises(ValueError, match="compressed data"):
            codec.decode(wrong, out)
    assert codec.checksum(raw) == xxh3_64(raw).intdigest()


def bytes_of(block) -> list[bytes | None]:
    return [None if (a := getattr(block, name)) is None else a.tobytes() for name in ARRAYS]


def plain(store, chunks) -> tuple[np.ndarray, np.ndarray | None, list[int], np.ndarray]:
    """Indices, values, lengths and records of rows of these chunks, as HDF5 and its own filters give them."""
    found = [entries for chunk in store.file["chunks"][:][chunks] for entries in entries_of_chunk(store.file, chunk)]
    indices, values = (np.concatenate(arrays) for arrays in zip(*found, strict=True))
    lengths = [len(features) for features, _ in found]
    records = store.file["rows"][:][numbers(store, chunks)]
    return indices, None if store.value_dtype is None else values, lengths, records


def numbers(store, chunks) -> np.ndarray:
    """The places of these chunks' rows in the store."""
    starts = store.chunks.first_row[chunks]
    return np.concatenate([s + np.arange(n) for s, n in zip(starts, store.chunks.n_rows[chunks], strict=True)])


@pytest.mark.parametrize(("kind", "real"), [*((kind, False) for kind in KINDS), ("float32", True)])
def test_a_block_is_what_hdf5_reads(stores, kind, real):
    with Store(stores / f"{kind}.h5") as source:
        assert (source.parts.n_parts > 1).any()
        store = source.reader(real=True) if real else source
        draw = np.random.default_rng(0)
        for at_once in (1, 2, 9, len(store.chunks)):
            chunks = draw.permutation(len(store.chunks))[:at_once]
            rows, sizes = store.chunks.n_rows[chunks], store.sizes[chunks]
            arena = Arena(store.shape.block_bytes(int(rows.sum()), int(sizes.sum())))
            arena.memory[:] = 0xA5
            block = store.read_block(chunks, arena)
            indices, values, lengths, records = plain(source, chunks)
            assert block.indices.tolist() == indices.tolist()
            assert (block.values is None) == (values is None)
            assert values is None or block.values.tobytes() == values.tobytes()
            assert np.diff(block.indptr).tolist() == lengths
            assert block.sq_norms.tobytes() == records["sq_norm"].tobytes()
            assert block.y.tolist() == store.coding.y(records["label"]).tolist()
            assert block.rows.tolist() == numbers(store, chunks).tolist()
            if store.weighted:
                assert block.weights.tolist() == records["weight"].tolist()


def test_short_reads_are_continued(stores, monkeypatch):
    """The system may give fewer bytes than were asked for, in any of the buffers."""
    with Store(stores / "stored.h5") as store:
        chunks, preadv = np.arange(len(store.chunks)), os.preadv
        whole = bytes_of(store.read_block(chunks, None))
        bytes_read = store.cost.bytes_read
        monkeypatch.setattr(os, "preadv", lambda fd, buffers, offset: preadv(fd, [buffers[0][:97]], offset))
        assert bytes_of(store.read_block(chunks, None)) == whole
        assert store.cost.bytes_read == 2 * bytes_read
        assert store.cost.seconds_reading > 0.0 and store.cost.seconds_decoding > 0.0


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_block_is_the_same_whoever_decodes_its_runs(small_store, tmp_path, monkeypatch, n, packed, damaged):
    """Of two threads or more one helps; each waits until all have a run.  What is told is the first damage."""
    monkeypatch.setattr("blocksvm.store.reader.n_processors", lambda: n)
    path = shutil.copy(small_store, tmp_path / "s.h5")
    decode, all_of_them, begun = Decoder.decode, threading.Barrier(n), set()

    def together(self, *arguments):
        if self not in begun:
            begun.add(self)
            all_of_them.wait(20.0)
        decode(self, *arguments)

    with Store(path) as opened, opened.reader(packed=packed) as store:
        store.decode_by(n, 2_000_000)
        chunks = np.random.default_rng(0).permutation(len(store.chunks))
        alone = store.read_block(chunks, None)
        middle = len(chunks) // 2
        if damaged:
            raw = bytearray(path.read_bytes())
            for chunk in chunks[[middle, -1]]:
                raw[store.parts.of_chunk(chunk)[0][0] + 18] ^= 4
            path.write_bytes(raw)  # in place: the store's descriptor sees it
        monkeypatch.setattr(Decoder, "decode", together)

        def helped():
            with ThreadPoolExecutor(1) as pool:
                reading = pool.submit(store.read_block, chunks, None)
                while n > 1 and not reading.done() and not store.help():
                    pass
                return reading.result()

        if damaged:
            with pytest.raises(InputError, match=f"chunk {chunks[middle]}: checksum does not match"):
                helped()
            return
        block = helped()
        assert len(begun) == n
    assert pickle.dumps(block) == pickle.dumps(alone)


@pytest.mark.parametrize(("n", "memory"), [(1, 0), (40, 0), (7, 1_000_000), (40, 1_000_000), (40, 20_000_000)])
def test_decoders_live_in_their_part_of_the_memory(small_store, monkeypatch, n, memory):
    """As many as are asked for and fit; what is counted for them does not depend on that, nor what they read."""
    monkeypatch.setattr("blocksvm.store.reader.n_processors", lambda: 64)
    with Store(small_store) as store:
        chunks = np.random.default_rng(0).permutation(len(store.chunks))
        expected = store.read_block(chunks, None)
        counted = store.working_bytes(memory)
        store.decode_by(n, memory)
        block = store.read_block(chunks, None)
        held = [decoder.compressed.nbytes + decoder.words.nbytes for decoder in store.decoders]
        assert len(held) == max(2, min(n, {0: 3, 1_000_000: 13, 20_000_000: 16}[memory]))
        assert sum(held) > 0
        assert sum(held) <= counted == store.working_bytes(memory)
        assert counted <= memory / 32 or not memory
        # nor more than a container gives processors, however many the machine has
        monkeypatch.setattr("blocksvm.store.reader.n_processors", lambda: 5)
        store.decode_by(n, memory)
        assert len(store.decoders) == max(2, min(len(held), 5))
    assert bytes_of(block) == bytes_of(expected)


def test_blosc_has_one_thread_until_the_last_of_our_calls_ends(monkeypatch):
    monkeypatch.setattr(codec.blosc, "use_threads", True)
    with contextlib.ExitStack() as later:
        with codec.one_thread():
            later.enter_context(codec.one_thread())
        assert codec.blosc.use_threads is False
    assert codec.blosc.use_threads is True


def test_rows_are_compressed_or_as_they_are(tmp_path):
    """Uncompressed rows take their words; the blocks are the same, also of a store to which others were added."""
    rng, texts = np.random.default_rng(5), []
    for name in ("a", "b"):
        rows = (sorted(rng.choice(300, 20, replace=False) + 1) for _ in range(400))
        texts.append(tmp_path / f"{name}.svm")
        texts[-1].write_text("".join(f"{i % 2} {' '.join(f'{j}:0.5' for j in row)}\n" for i, row in enumerate(rows)))
    found = []
    for name in codec.CODECS:
        store, mixed = tmp_path / f"{name}.h5", tmp_path / f"mixed-{name}.h5"
        split_rows(texts, store, SplitSettings(codec=name))
        split_rows(texts[:1], mixed, SplitSettings(codec=name))
        other = next(one for one in codec.CODECS if one != name)
        extend([str(texts[1])], mixed, settings_of_store(mixed, {}, codec=other))
        for path in (store, mixed):
            with Store(path) as opened:
                block = opened.reader(packed=True).read_block(np.arange(len(opened.chunks)), None)
                found.append((path is mixed, block.words.tobytes(), block.y.tobytes()))
                stored = opened.parts.records["size"] == 8 * opened.part_words
            assert stored.any() == (path is mixed or name == codec.NONE)
            assert stored.all() == (path is store and name == codec.NONE)
    assert len(set(found)) == 2
    with pytest.raises(InputError, match="zstd: choose one of lz4, none"):
        SplitSettings(codec="zstd")


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
OF_ONES = {
    "a coded row": (put("head", 0, (1 << 31) + N_HOT), WORDS),
    "more hot features": (put("head", 0, N_HOT + 1), (NONZEROS, WORDS)),
    "fewer others": (put("head", 1, N_COLD - 1), (NONZEROS, WORDS)),
    "no hot features": (put("head", 0, 0), (NONZEROS, WORDS)),
    "one of the others among the hot ones": (put("cold", 0, 3), FALL),
    "a hot feature that falls behind it": (put("hot", 0, 65_535), FALL),
}
CASES = [(fault, dtype) for fault in FAULTS for dtype in (np.float32, np.float64)]
CASES += [(fault, None) for fault in OF_ONES]


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


@pytest.mark.parametrize(("fault", "dtype"), CASES)
def test_words_that_are_none_of_rows_are_refused(tmp_path, run_in_process, fault, dtype):
    rows, starts = three_rows(dtype)
    number, change, says = FAULTS[fault] if dtype else (PLAIN, *OF_ONES[fault])
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


def test_words_beside_those_of_the_rows_are_refused(tmp_path, run_in_process):
    """More of them, or fewer, than what the rows tell of themselves."""
    rows, _ = three_rows(np.float32)
    more = PackedRows(np.append(rows.words, np.uint64(0)), rows.sizes + np.array([0, 0, 1], np.uint32), rows.lengths)
    fewer = PackedRows(rows.words[:-1], rows.sizes - np.array([0, 0, 1], np.uint32), rows.lengths)
    for name, wrong in (("more", more), ("fewer", fewer)):
        refused(store_of(tmp_path / f"{name}.h5", wrong, np.float32, 1_000), WORDS, run_in_process)
    lengths = rows.lengths + np.array([0, 1, 0])
    refused(store_of(tmp_path / "n.h5", rows._replace(lengths=lengths), np.float32, 1_000), NONZEROS, run_in_process)
