"""Blocks of a store are what HDF5 itself reads from it, whatever the chunks, and damage is told."""

import contextlib
import os

import numpy as np
import pytest
from scipy import sparse
from support.stored_rows import entries_of_chunk

from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.sources.block import Arena
from blocksvm.store import codec
from blocksvm.store.reader import Store

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
        with open(text, "w") as out:
            for i in range(X.shape[0]):
                row = X[[i]]
                pairs = zip((row.indices + 1).tolist(), row.data.tolist(), strict=True)
                out.write(f"{label(i)} {' '.join(f'{j}:{v!r}' for j, v in pairs)}\n")
        weights.write_text("".join(f"{i % 3 + 0.5}\n" for i in range(X.shape[0])))
        settings = SplitSettings(chunk_nonzeros=256, dtype="float64" if kind in ("float64", "stored") else "float32",
                                 format=FORMATS.get(kind, "svmlight"),
                                 weights=str(weights) if kind == "weighted" else None)  # fmt: skip
        split_rows([str(text)], folder / f"{kind}.h5", settings)
    return folder


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


def test_blosc_has_one_thread_until_the_last_of_our_calls_ends(monkeypatch):
    monkeypatch.setattr(codec.blosc, "use_threads", True)
    with contextlib.ExitStack() as later:
        with codec.one_thread():
            later.enter_context(codec.one_thread())
        assert codec.blosc.use_threads is False
    assert codec.blosc.use_threads is True
