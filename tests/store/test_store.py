"""The store as a file: readable by h5py alone, and never wrong without saying so."""

import faulthandler
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
import scipy.sparse
from support.paths import ROOT
from support.stored_rows import content
from support.training_cases import quick_model
from xxhash import xxh3_64

from blocksvm.base.errors import InputError
from blocksvm.conversion.convert import SplitSettings, extend, settings_of_store, split_rows
from blocksvm.store import codec
from blocksvm.store.arrays import read_array, write_array
from blocksvm.store.decoder import Decoder
from blocksvm.store.reader import Store

TEXT = "".join(f"{1 if i % 3 else -1} {i % 7 + 1}:{i % 5 + 0.5} {i % 11 + 20}:2\n" for i in range(40))
TEXT += "1 " + " ".join(f"{i}:{i + 1}" for i in range(50)) + "\n-1\n"


@pytest.fixture(scope="module")
def small_store(tmp_path_factory) -> Path:
    """42 rows in several chunks, one of them longer than an HDF5 chunk."""
    folder = tmp_path_factory.mktemp("store")
    (folder / "rows.svm").write_text(TEXT)
    split_rows([str(folder / "rows.svm")], folder / "s.h5", SplitSettings(chunk_nonzeros=16))
    return folder / "s.h5"


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
        rows = scipy.sparse.csr_matrix((block.values, block.indices, block.indptr), (len(block.y), store.n_features))
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
    for length in [*range(0, 100), *range(100, len(data), 67), len(data) - 1]:
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
    [
        (1, repeated_values),
        (2, lambda rng: np.sort(rng.integers(0, 3000, (1024, 64)), axis=1).astype(np.uint16).reshape(-1)),
        (4, lambda rng: rng.integers(70_000, 300_000, 32_768).astype(np.uint32)),
    ],
)
def test_words_are_compressed_as_takes_the_fewest_bytes(item, make):
    """As they stand, or with the bytes of so many neighbours apart; what hardly shrinks is stored as it is."""
    rng = np.random.default_rng(3)
    words = make(rng).view(np.uint64)
    raw, mask, _ = codec.encode(words)
    lengths = {}
    with codec.one_thread():
        for other in codec.SHUFFLED:
            shuffle = codec.blosc.SHUFFLE if other > 1 else codec.blosc.NOSHUFFLE
            lengths[other] = len(codec.blosc.compress(words.view(f"u{other}"), b"lz4", codec.LEVEL, shuffle))
    assert mask == 0 and len(raw) == lengths[item] == min(lengths.values()) < 0.9 * words.nbytes
    out = np.zeros_like(words)
    codec.decode(raw, out)
    assert out.tobytes() == words.tobytes()


def test_words_that_hardly_shrink_are_stored_as_they_are():
    rng = np.random.default_rng(3)
    noise = rng.random(32_768).astype(np.float32) + rng.integers(0, 200, 32_768).astype(np.float32)
    assert codec.encode(noise.view(np.uint64))[:2] == (noise.tobytes(), codec.STORED)


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


@pytest.fixture(scope="module")
def many_chunks(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("chunks")
    text = "".join(f"{i % 2} {i % 13 + 1}:{i + 1} {i % 7 + 20}:1 {i % 5 + 30}:3\n" for i in range(3_000))
    (folder / "rows.svm").write_text(text)
    split_rows([str(folder / "rows.svm")], folder / "s.h5", SplitSettings(chunk_nonzeros=256))
    return folder / "s.h5"


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_a_block_is_the_same_whoever_decodes_its_runs(many_chunks, tmp_path, monkeypatch, n, packed, damaged):
    """Of two threads or more one helps; each waits until all have a run.  What is told is the first damage."""
    monkeypatch.setattr("blocksvm.store.reader.n_processors", lambda: n)
    path = shutil.copy(many_chunks, tmp_path / "s.h5")
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
                raw[int(store.parts.records["offset"][chunk]) + 18] ^= 4
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


@pytest.mark.parametrize(("n", "memory"), [(1, 0), (40, 0), (7, 2_000_000), (40, 2_000_000), (40, 20_000_000)])
def test_decoders_live_in_their_part_of_the_memory(many_chunks, monkeypatch, n, memory):
    """As many as are asked for and fit; what is counted for them does not depend on that, nor what they read."""
    monkeypatch.setattr("blocksvm.store.reader.n_processors", lambda: 64)
    with Store(many_chunks) as store:
        chunks = np.random.default_rng(0).permutation(len(store.chunks))
        expected = store.read_block(chunks, None)
        counted = store.working_bytes(memory)
        store.decode_by(n, memory)
        block = store.read_block(chunks, None)
        held = [decoder.compressed.nbytes + decoder.words.nbytes for decoder in store.decoders]
        assert len(held) == max(2, min(n, {0: 3, 2_000_000: 11, 20_000_000: 16}[memory]))
        assert sum(held) > 0
        assert sum(held) <= counted == store.working_bytes(memory)
        assert counted <= memory / 32 or not memory
        # nor more than a container gives processors, however many the machine has
        monkeypatch.setattr("blocksvm.store.reader.n_processors", lambda: 5)
        store.decode_by(n, memory)
        assert len(store.decoders) == max(2, min(len(held), 5))
    for name in ("indptr", "indices", "values", "y", "sq_norms", "rows"):
        assert getattr(block, name).tobytes() == getattr(expected, name).tobytes()


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
