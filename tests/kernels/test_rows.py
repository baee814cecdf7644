"""Packed rows are the rows that were packed, and what is computed of them, and of several weight vectors side by side,
is what is computed of plain ones."""

import numpy as np
import pytest
from support.packed_rows import DTYPES, FEATURES, N_FEATURES, VALUES, blocks_of, plain_rows
from support.stored_rows import entries_of_row
from support.training_cases import random_rows

from blocksvm.base.vectors import on_lines, side_by_side, together, width_of
from blocksvm.kernels.columns import add_rows, decision_values, row_sq_norms, sizes_of_products, squared_norms
from blocksvm.kernels.rows import Entries
from blocksvm.sources.block_kernels import LOOKED_AT, SOUND, check_words, place_rows, unpack_rows

KINDS = [(features, values, dtype) for features in FEATURES for values in VALUES for dtype in DTYPES
         if dtype is not None or values == "same"]  # fmt: skip


@pytest.mark.parametrize(("features", "values", "dtype"), KINDS)
def test_rows_come_back_to_the_bit_and_are_coded_where_that_takes_fewer_bytes(features, values, dtype):
    """By the kernels, and by a reader that knows nothing of these.  Values of a row none of whose first ones is there
    twice are not coded: rows of measurements are not looked through."""
    lengths, indices, numbers = plain_rows(features, values, dtype)
    plain, words, rows = blocks_of(lengths, indices, numbers)
    value_bytes = 0 if dtype is None else np.dtype(dtype).itemsize
    indptr, found_lengths = np.full(len(lengths) + 1, -1), np.full(len(lengths), -1, np.int32)
    longs = rows.words.view(np.uint32)
    code = place_rows(longs, np.uint64(value_bytes), np.int64(len(indices)), indptr, found_lengths)
    assert code == SOUND == check_words(words.entries, N_FEATURES)
    assert indptr.tolist() == words.indptr.tolist() and found_lengths.tolist() == lengths.tolist()
    assert (words.n_nonzeros, words.lengths.tolist()) == (plain.n_nonzeros, lengths.tolist())
    out = np.full(len(indices) + 5, -1, np.int32)
    out_values = None if dtype is None else np.full(len(out), -1, dtype)
    unpack_rows(words.entries, 5, out, out_values)
    assert out[5:].tobytes() == indices.tobytes() and (out[:5] == -1).all()
    assert dtype is None or out_values[5:].tobytes() == numbers.tobytes() and (out_values[:5] == -1).all()
    kind, heads, at, coded_rows = "ones" if dtype is None else np.dtype(dtype).name, rows.words.view(np.uint32), 0, 0
    for i, n in enumerate(lengths.tolist()):
        here = slice(plain.indptr[i], plain.indptr[i + 1])
        own, own_values, n_words = entries_of_row(rows.words[at:], kind)
        assert own.tolist() == indices[here].tolist() and n_words == rows.sizes[i]
        assert dtype is None or own_values.tobytes() == numbers[here].tobytes()
        coded = bool(heads[2 * at] >> 31)
        if dtype is None or n < 2:
            assert not coded
        else:
            first, count = numbers[here][:LOOKED_AT], len(np.unique(numbers[here]))
            bytes_coded = value_bytes * count + (n if count > 1 else 0)
            assert coded == (len(np.unique(first)) < len(first) and count <= 256 and bytes_coded < value_bytes * n)
            assert not coded or (heads[2 * at + 1] >> 24) + 1 == count
            n_cold = np.count_nonzero(own >= 65_536)
            begin = -(-(8 + 4 * n_cold + 2 * (n - n_cold) + (n if coded and count > 1 else 0)) // value_bytes)
            assert n_words == -(-value_bytes * (begin + (count if coded else n)) // 8)
        at, coded_rows = at + n_words, coded_rows + coded
    assert at == len(rows.words) and (dtype is None or values == "random" or coded_rows >= 2)


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


@pytest.mark.parametrize(("k", "width"), [(1, 1), (2, 4), (3, 4), (4, 4), (5, 8), (8, 8), (9, 16), (20, 24)])
def test_vectors_take_whole_lines(k, width):
    assert width_of(k) == width
    w = side_by_side(k, 7)
    assert w.shape == (k, 7) and not w.any()
    assert w.ctypes.data % 64 == 0
    columns = together(w)
    if k == 1:
        assert columns is None
        return
    assert columns.shape == (7, width) and columns.flags.c_contiguous
    w[:] = np.arange(7 * k).reshape(k, 7)
    np.testing.assert_array_equal(columns[:, :k], w.T)
    assert not columns[:, k:].any()
    columns[2, 0] = -1.0  # the same memory
    assert w[0, 2] == -1.0


@pytest.mark.parametrize(
    "w", [np.zeros((3, 7)), np.zeros((7, 3)).T, np.zeros((7, 4), np.float32).T[:3], np.zeros((1, 7))]
)
def test_other_vectors_do_not_lie_together(w):
    assert together(w) is None


@pytest.mark.parametrize("dtype", [np.float64, np.uint8, np.int32])
def test_arrays_begin_on_a_line(dtype):
    for shape in [(3,), (5, 8), (2, 3, 4)]:
        array = on_lines(shape, dtype)
        assert array.shape == shape and array.dtype == dtype and not array.any()
        assert array.ctypes.data % 64 == 0 and array.flags.writeable and array.flags.c_contiguous


# short rows are asked for whole, ahead of time; long ones entry by entry
@pytest.mark.slow
@pytest.mark.parametrize(("n", "d", "per_row"), [(60, 40, 5), (12, 60_000, 6_000)])
@pytest.mark.parametrize("kind", ["ones", "float32", "float64"])
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 10, 17])
def test_kernels_over_lanes_are_plain_sums(n, d, per_row, kind, k):
    rng = np.random.default_rng(k)
    X, _ = random_rows(n, d, per_row / d, dtype=np.float64 if kind == "ones" else kind, ones=kind == "ones")
    matrix = X.indptr.astype(np.int64), X.indices.astype(np.int32), None if kind == "ones" else X.data
    X = X.toarray().astype(np.float64)
    bias = 0.75
    w = on_lines((d + 1, width_of(k)))
    w[:, :k] = rng.standard_normal((d + 1, k))
    out = np.empty((n, k))
    decision_values(Entries(*matrix), w, bias, out)
    XB = np.hstack([X, np.full((n, 1), bias)])
    np.testing.assert_allclose(out, XB @ w[:, :k], rtol=1e-9, atol=1e-9)
    # each sum is that of its own row and column, from the first entry to the last: bit for bit
    for i, c in [(0, 0), (n - 1, k - 1)] if k > 1 else []:
        total = bias * w[-1, c]
        for at in range(matrix[0][i], matrix[0][i + 1]):
            total += (1.0 if matrix[2] is None else float(matrix[2][at])) * w[matrix[1][at], c]
        assert out[i, c] == total
    sq_norms = np.empty(n)
    row_sq_norms(*matrix, sq_norms)
    np.testing.assert_allclose(sq_norms, (X**2).sum(axis=1), rtol=1e-9)
    coefficients = rng.standard_normal((n, k)) * (rng.random((n, k)) < 0.3)
    before = w.copy()
    add_rows(Entries(*matrix), coefficients, bias, w)
    np.testing.assert_allclose(w[:, :k], before[:, :k] + XB.T @ coefficients, rtol=1e-9, atol=1e-9)
    assert not w[:, k:].any()
    prior = np.zeros_like(w)
    prior[:, :k] = rng.standard_normal((d + 1, k))
    for own in (prior, np.empty((0, 0))):
        norms = np.empty((k, 4))
        squared_norms(w, own, norms)
        w0 = own[:, :k] if own.size else 0.0
        W = w[:, :k]
        expected = [(W * W).sum(0), ((W - w0) ** 2).sum(0), (W * (W - w0)).sum(0), (w0 * (W - w0)).sum(0)]
        if not own.size:
            expected[3] = np.zeros(k)
        np.testing.assert_allclose(norms, np.array(expected).T, rtol=1e-9)
