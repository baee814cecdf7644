"""Packed rows are the rows that were packed, and what is computed of them is what is computed of plain ones."""

import numpy as np
import pytest
from support.packed_rows import DTYPES, FEATURES, N_FEATURES, VALUES, blocks_of, placed, plain_rows
from support.stored_rows import entries_of_row

from blocksvm.kernels.columns import add_rows, decision_values, sizes_of_products
from blocksvm.sources.block_kernels import LOOKED_AT, SOUND, check_words, unpack_rows

KINDS = [(features, values, dtype) for features in FEATURES for values in VALUES for dtype in DTYPES
         if dtype is not None or values == "same"]  # fmt: skip


@pytest.mark.parametrize(("features", "values", "dtype"), KINDS)
def test_rows_come_back_to_the_bit(features, values, dtype):
    """By the kernels, and by a reader that knows nothing of these."""
    lengths, indices, numbers = plain_rows(features, values, dtype)
    plain, words, rows = blocks_of(lengths, indices, numbers)
    value_bytes = 0 if dtype is None else np.dtype(dtype).itemsize
    code, indptr, found_lengths = placed(rows, value_bytes, len(indices))
    assert code == SOUND == check_words(words.entries, N_FEATURES)
    assert indptr.tolist() == words.indptr.tolist() and found_lengths.tolist() == lengths.tolist()
    assert (words.n_nonzeros, words.lengths.tolist()) == (plain.n_nonzeros, lengths.tolist())
    out = np.full(len(indices) + 5, -1, np.int32)
    out_values = None if dtype is None else np.full(len(out), -1, dtype)
    unpack_rows(words.entries, 5, out, out_values)
    assert out[5:].tobytes() == indices.tobytes() and (out[:5] == -1).all()
    assert dtype is None or out_values[5:].tobytes() == numbers.tobytes() and (out_values[:5] == -1).all()
    kind = "ones" if dtype is None else np.dtype(dtype).name
    at = 0
    for i in range(len(lengths)):
        here = slice(plain.indptr[i], plain.indptr[i + 1])
        own, own_values, n_words = entries_of_row(rows.words[at:], kind)
        assert own.tolist() == indices[here].tolist() and n_words == rows.sizes[i]
        assert dtype is None or own_values.tobytes() == numbers[here].tobytes()
        at += n_words
    assert at == len(rows.words)


@pytest.mark.parametrize(("features", "values", "dtype"), KINDS)
def test_values_are_coded_where_that_takes_fewer_bytes(features, values, dtype):
    """Unless none of a row's first values is there twice: rows of measurements are not looked through."""
    lengths, indices, numbers = plain_rows(features, values, dtype)
    plain, words, rows = blocks_of(lengths, indices, numbers)
    heads, coded_rows = rows.words.view(np.uint32), 0
    for i, n in enumerate(lengths.tolist()):
        at = 2 * words.indptr[i]
        coded = bool(heads[at] >> 31)
        if dtype is None or n < 2:
            assert not coded
            continue
        size, own = np.dtype(dtype).itemsize, numbers[plain.indptr[i] : plain.indptr[i + 1]]
        first, count = own[:LOOKED_AT], len(np.unique(own))
        bytes_coded = size * count + (n if count > 1 else 0)
        assert coded == (len(np.unique(first)) < len(first) and count <= 256 and bytes_coded < size * n)
        coded_rows += coded
        if coded:
            assert (heads[at + 1] >> 24) + 1 == count
        n_cold = np.count_nonzero(indices[plain.indptr[i] : plain.indptr[i + 1]] >= 65_536)
        begin = -(-(8 + 4 * n_cold + 2 * (n - n_cold) + (n if coded and count > 1 else 0)) // size)
        assert rows.sizes[i] == -(-size * (begin + (count if coded else n)) // 8)
    assert dtype is None or values == "random" or coded_rows >= 2


@pytest.mark.parametrize("bits", [1, 23])
def test_zeros_of_either_sign_and_neighbouring_values_are_different_values(bits):
    """Values are the same where their bits are."""
    base = np.array([0.0, -0.0, 1.0, np.nextafter(np.float32(1.0), np.float32(2.0))], np.float32)
    numbers = np.resize(base, 40)
    numbers[: 1 + bits] = 1.0
    lengths = np.array([40])
    _, words, rows = blocks_of(lengths, np.arange(40, dtype=np.int32), numbers)
    out, out_values = np.empty(40, np.int32), np.empty(40, np.float32)
    unpack_rows(words.entries, 0, out, out_values)
    assert out_values.tobytes() == numbers.tobytes()
    assert (rows.words.view(np.uint32)[1] >> 24) + 1 == 4


@pytest.mark.parametrize(("features", "values", "dtype"), KINDS)
@pytest.mark.parametrize("width", [1, 4, 8, 24])
def test_products_and_sums_are_those_of_plain_rows(features, values, dtype, width):
    """Bit by bit, but a single product of a row whose features are not all below 65,536: it is summed in two runs."""
    plain, words, _ = blocks_of(*plain_rows(features, values, dtype))
    rng = np.random.default_rng(1)
    w, n = rng.standard_normal((N_FEATURES + 1, width)), plain.n_samples
    steps = rng.standard_normal((n, width)) * (rng.random((n, 1)) < 0.8)
    found = []
    for entries in (plain.entries, words.entries):
        out, sizes, total = np.empty((n, width)), np.empty((n, width)), w.copy()
        decision_values(entries, w, 0.3, out)
        sizes_of_products(entries, w, 0.3, sizes)
        add_rows(entries, steps, 0.3, total)
        found.append((out, sizes, total))
    (out, sizes, total), (out_packed, sizes_packed, total_packed) = found
    assert np.array_equal(sizes, sizes_packed) and np.array_equal(total, total_packed)
    if width == 1 and features == "both":
        np.testing.assert_array_less(np.abs(out - out_packed), 1e-13 * sizes + 1e-300)
    else:
        assert np.array_equal(out, out_packed)
    # and a part of them, by views
    part = words.entries.of_rows(slice(9, 15))
    decision_values(part, w, 0.3, out[:6])
    assert np.array_equal(out[:6], out_packed[9:15])


@pytest.mark.parametrize("dtype", [None, np.float32])
@pytest.mark.parametrize("span", [slice(0, 20), slice(3, 3), slice(5, 17), slice(0, 1), slice(19, 20)])
def test_parts_of_a_block_are_its_rows(dtype, span):
    lengths, indices, values = plain_rows("both", "same" if dtype is None else "few", dtype)
    plain, words, _ = blocks_of(lengths, indices, values)
    here = slice(*np.append(0, np.cumsum(lengths))[[span.start, span.stop]])
    for part in (plain.of_rows(span), words.of_rows(span)):
        n = part.n_nonzeros
        assert part.indptr[0] == 0 and part.lengths.tolist() == lengths[span].tolist() and n == lengths[span].sum()
        assert part.rows.tolist() == part.y.tolist() == np.arange(20)[span].tolist()
        own, own_values = part.indices, part.values
        if part.packed:
            own, own_values = np.empty(n, np.int32), None if dtype is None else np.empty(n, dtype)
            unpack_rows(part.entries, 0, own, own_values)
        assert own.tobytes() == indices[here].tobytes()
        assert own_values is None if dtype is None else own_values.tobytes() == values[here].tobytes()
