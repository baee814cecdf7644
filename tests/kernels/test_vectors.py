"""Several weight vectors side by side, and the kernels over them, beside plain numpy."""

import numpy as np
import pytest
from scipy import sparse

from blocksvm.base.vectors import on_lines, side_by_side, together, width_of
from blocksvm.kernels.columns import add_rows, decision_values, row_sq_norms, squared_norms
from blocksvm.kernels.rows import Entries


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


def rows(n, d, per_row, kind, seed=0):
    X = sparse.random(n, d, per_row / d, format="csr", random_state=seed)
    X.data -= 0.5
    values = {"ones": None, "float32": X.data.astype(np.float32), "float64": X.data}[kind]
    dense = (X != 0).astype(np.float64).toarray() if kind == "ones" else X.toarray().astype(values.dtype)
    return X.indptr.astype(np.int64), X.indices.astype(np.int32), values, dense.astype(np.float64)


# short rows are asked for whole, ahead of time; long ones entry by entry
@pytest.mark.slow
@pytest.mark.parametrize(("n", "d", "per_row"), [(60, 40, 5), (12, 60_000, 6_000)])
@pytest.mark.parametrize("kind", ["ones", "float32", "float64"])
@pytest.mark.parametrize("k", [1, 2, 3, 5, 8, 10, 17])
def test_kernels_over_lanes_are_plain_sums(n, d, per_row, kind, k):
    rng = np.random.default_rng(k)
    *matrix, X = rows(n, d, per_row, kind)
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
