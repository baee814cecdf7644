"""Chunks decoded by one kernel, without Python, are those that are decoded one by one from Python."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest
from scipy import sparse

from blocksvm.conversion.convert import SplitSettings, split
from blocksvm.errors import InputError
from blocksvm.kernels.decoding import READ, UNPACK
from blocksvm.sources.block import Arena
from blocksvm.sources.source import bytes_of_blocks
from blocksvm.sources.store import decoder
from blocksvm.sources.store.libraries import functions
from blocksvm.sources.store.reader import Store

ARRAYS = ("indptr", "indices", "values", "y", "sq_norms", "rows", "weights")
LABELS = {
    "strings": lambda i: ("ham", "spam")[i % 2],
    "sets": lambda i: ",".join("abc"[: i % 3 + 1]),
    "classes": lambda i: str(i % 4),
}
FORMATS = {"strings": "svmlight-named", "sets": "multilabel"}
KINDS = ("ones", "float32", "float64", "stored", "weighted", *LABELS)


@pytest.fixture(params=KINDS)
def path(request, tmp_path):
    """A store of each kind; its first row has more entries than a part."""
    kind, draw = request.param, np.random.default_rng(3)
    dense = draw.random((500, 900)) * (draw.random((500, 900)) < 0.02)
    dense[0, ::2] = 1.0
    X = sparse.csr_matrix(dense)
    X.data = np.round(4 * X.data) + 1.0
    if kind == "ones":
        X.data[:] = 1.0
    elif kind == "stored":  # does not compress
        X.data = draw.standard_normal(X.nnz)
    label = LABELS.get(kind, lambda i: str(2 * (i % 2) - 1))
    text, weights = tmp_path / "rows.txt", tmp_path / "weights.txt"
    with open(text, "w") as out:
        for i in range(X.shape[0]):
            row = X[[i]]
            pairs = zip((row.indices + 1).tolist(), row.data.tolist(), strict=True)
            out.write(f"{label(i)} {' '.join(f'{j}:{v!r}' for j, v in pairs)}\n")
    weights.write_text("".join(f"{i % 3 + 0.5}\n" for i in range(X.shape[0])))
    settings = SplitSettings(
        chunk_nonzeros=256,
        dtype="float64" if kind in ("float64", "stored") else "float32",
        format=FORMATS.get(kind, "svmlight"),
        weights=str(weights) if kind == "weighted" else None,
    )
    split([str(text)], tmp_path / "rows.h5", settings)
    return tmp_path / "rows.h5"


def bytes_of(block) -> list[bytes | None]:
    return [None if (a := getattr(block, name)) is None else a.tobytes() for name in ARRAYS]


def by_kernel(monkeypatch) -> list[int]:
    """How many chunks the kernel decodes in each call, from now on."""
    counts, kernel = [], decoder.decode_chunks

    def counted(*arguments):
        counts.append(kernel(*arguments))
        return counts[-1]

    monkeypatch.setattr(decoder, "decode_chunks", counted)
    return counts


@pytest.mark.parametrize("real", [False, True])
def test_a_block_is_that_of_plain_decoding(path, real, monkeypatch):
    counts = by_kernel(monkeypatch)
    with Store(path) as store, Store(path) as plain:
        if real and store.label_kind == "numbers":
            store, plain = store.reader(real=True), plain.reader(real=True)
        for one in plain.decoders:
            one.functions = None
        draw = np.random.default_rng(0)
        assert (store.n_parts > 1).any()
        for at_once in (1, 2, 9, len(store.chunks)):
            chunks = draw.permutation(len(store.chunks))[:at_once]
            rows, entries = store.chunks.n_rows[chunks], store.chunks.nnz[chunks]
            arena = Arena(bytes_of_blocks(store, int(rows.sum()), int(entries.sum())))
            arena.memory[:] = 0xA5
            assert bytes_of(store.read_block(chunks, arena)) == bytes_of(plain.read_block(chunks, None))
            assert store.cost.bytes_read == plain.cost.bytes_read
        assert sum(counts) >= at_once  # what was written just now is in memory
        assert plain.cost.seconds_reading > 0.0 and store.cost.seconds_reading > 0.0


@pytest.mark.parametrize("failing", [READ, UNPACK])
def test_chunks_that_fail_are_read_from_python(path, failing, monkeypatch):
    """As where a disk must be waited for: every third call of one function tells of a failure."""
    calls = 0
    kinds = {
        READ: (ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_int),
        UNPACK: (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int),
    }
    kind = ctypes.CFUNCTYPE(*kinds[failing])
    own = kind(int(functions()[failing]))

    @kind
    def sometimes(*arguments):
        nonlocal calls
        calls += 1
        return -1 if calls % 3 == 0 else own(*arguments)

    found = functions().copy()
    found[failing] = ctypes.cast(sometimes, ctypes.c_void_p).value
    counts = by_kernel(monkeypatch)
    with Store(path) as store, Store(path) as plain:
        for one in store.decoders:
            one.functions = found
        for one in plain.decoders:
            one.functions = None
        chunks = np.random.default_rng(0).permutation(len(store.chunks))
        assert bytes_of(store.read_block(chunks, None)) == bytes_of(plain.read_block(chunks, None))
        assert store.cost.bytes_read == plain.cost.bytes_read
    assert 0 < sum(counts) < len(chunks)


def test_without_the_functions_chunks_are_read_from_python(path, monkeypatch):
    functions.cache_clear()
    monkeypatch.setattr(ctypes, "CDLL", lambda name: (_ for _ in ()).throw(OSError("none")))
    counts = by_kernel(monkeypatch)
    try:
        with Store(path) as store:
            assert functions() is None
            assert store.read_block(np.arange(len(store.chunks)), None).n_samples == store.n_samples
    finally:
        functions.cache_clear()
    assert not counts


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="this system does not tell what it has in memory")
def test_where_the_system_cannot_tell_the_kernel_waits(path, monkeypatch):
    counts = by_kernel(monkeypatch)
    with Store(path) as store:
        store.decoders[0].waits = True
        store.read_block(np.arange(len(store.chunks)), None)
        assert sum(counts) == len(store.chunks)
        assert store.cost.seconds_at_hand == 0.0 < store.cost.seconds_reading


@pytest.mark.parametrize("part", ["indices", "values"])
def test_damage_is_told_as_it_is_in_plain_decoding(path, part):
    """A flipped bit: in each chunk the same sentence, whoever found it."""
    with Store(path) as store:
        if part == "values" and store.value_dtype is None:
            return
        chunk = len(store.chunks) // 2
        at = int(store.parts[part + "_offset"][store.first_part[chunk]]) + 17
        raw = bytearray(path.read_bytes())
        raw[at] ^= 4
        path.write_bytes(raw)  # in place: the store's descriptor sees it
        with pytest.raises(
            InputError, match=rf"rows\.h5: chunk {chunk}: checksum does not match; make the store again"
        ):
            store.read_block(np.arange(len(store.chunks)), None)
