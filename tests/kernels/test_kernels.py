"""The compiled inner loops, and the solvers that call them, against the plain-numpy oracles of reference.py."""

import math

import numpy as np
import pytest
import reference
import scipy.sparse
from support.training_cases import looped, make_pass, opened, random_rows

from blocksvm.api.fit import fit
from blocksvm.conversion.feature_ids import IdIndex, IdTable
from blocksvm.kernels.columns import sum_of_squares
from blocksvm.kernels.rows import packed_entries
from blocksvm.kernels.shuffle import renumber_rows, windowed_order
from blocksvm.losses import get_loss
from blocksvm.problems.problem_kernels import Objective
from blocksvm.solvers.dual_cd import DualCD
from blocksvm.solvers.pegasos import STEPS, Pegasos
from blocksvm.solvers.pegasos_kernels import pegasos_pass
from blocksvm.solvers.solver import Task, Visit
from blocksvm.sources.matrix import Matrix
from blocksvm.store.writer import packed

KINDS = ("float32", "float64", "ones")
LOSSES = reference.LOSSES


def rows_of(kind: str, seed=0, **options):
    """(source, its one block, X, y) with values of the kind."""
    dtype = np.float32 if kind == "float32" else np.float64
    X, y = random_rows(seed=seed, dtype=dtype, ones=kind == "ones", **options)
    source = Matrix(X, y)
    block = source.read_block(np.arange(len(source.chunks)), None)
    assert block.values is None if kind == "ones" else block.values.dtype == kind
    return source, block, X, y


def assert_close(ours, expected, scale=1.0):
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12 * scale)


def visited(source, block, settings, bias, w, alpha, orders, tolerance=None):
    """(state, results of the passes) of a visit of the real solver from a given (w, alpha)."""
    solver = DualCD(Task(settings, source, bias, tolerance))
    state = {a.name: np.zeros(a.length or len(alpha), a.dtype) for a in solver.state_arrays}
    solver.start(state)
    state |= {"w": w.copy(), "alpha": alpha.copy()}
    visit, results = Visit(), []
    for order in orders:
        results.append(make_pass(solver, block, state, visit, order))
        if results[-1].finished:
            break
    return state, results


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize(("weights", "bias"), [((1.0, 1.0), 0.0), ((0.3, 2.5), 0.0), ((2.0, 0.7), 1.5)])
@pytest.mark.parametrize("start", ["cold", "warm"])
def test_dual_cd_equals_the_oracle(kind, loss, weights, bias, start):
    source, block, X, y = rows_of(kind, seed=3)
    assert (block.sq_norms == 0).any()
    settings = {"loss": loss, "C": 0.8, "class_weight": dict(zip((-1.0, 1.0), weights, strict=True))}
    Xb, C_rows = reference.with_bias(X, bias), 0.8 * np.where(y > 0, weights[1], weights[0])
    alpha = np.zeros(len(y))
    if start == "warm":  # in the middle of a run: w(alpha) of a random alpha, with some at each bound
        bound = reference.box(loss, C_rows)[0]
        of_bound = np.clip(np.random.default_rng(5).uniform(-0.5, 1.5, len(y)), 0.0, 1.0)
        alpha = np.where(np.isinf(bound), 3.0, bound) * of_bound
    w = reference.weights_of(Xb, y, alpha)
    rng = np.random.default_rng(1)
    orders = [rng.permutation(len(y)) for _ in range(12)]
    state, results = visited(source, block, settings, bias, w, alpha, orders)
    for passes in (1, 2, 5, 12):
        w_ref, alpha_ref, info = reference.dual_cd_visit(Xb, y, w, alpha, C_rows, loss, orders[:passes])
        assert sum(r.rows_visited for r in results[:passes]) == info["rows_visited"]
        constants = info["rows_visited"] if bias else 0  # the reference counts the constant feature as an entry
        assert sum(r.nnz_visited for r in results[:passes]) == info["nnz_visited"] - constants
        assert_close(math.fsum(r.loss_sum for r in results[:passes]), info["loss_sum"], info["loss_sum"])
    assert info["rows_visited"] < 12 * len(y), "nothing was shrunk: the case shows less than it should"
    assert_close(state["w"], w_ref)
    assert_close(state["alpha"], alpha_ref)
    gain = math.fsum(r.gain for r in results)
    duals = [reference.dual(Xb, y, a, C_rows, loss) for a in (alpha, alpha_ref)]
    assert_close(gain, duals[1] - duals[0], 1.0 + abs(duals[1]))
    # the running sum moved by exactly the change of alpha
    diagonal = reference.box(loss, C_rows)[1]
    conjugates = [-a.sum() + 0.5 * diagonal @ a**2 for a in (alpha, alpha_ref)]
    assert_close(state["conjugates"][0], conjugates[1] - conjugates[0], 1.0 + np.abs(conjugates).max())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("tolerance", [0.5, 0.01])
def test_dual_cd_ends_a_visit_by_tolerance_where_the_oracle_does(loss, tolerance):
    source, block, X, y = rows_of("float64", seed=4)
    rng = np.random.default_rng(2)
    orders, Xb = [rng.permutation(len(y)) for _ in range(300)], reference.with_bias(X, 0.0)
    start = np.zeros(Xb.shape[1]), np.zeros(len(y))
    w, alpha, info = reference.dual_cd_visit(Xb, y, *start, np.full(len(y), 0.5), loss, orders, eps=tolerance)
    assert 2 < info["passes"] < 300
    state, results = visited(source, block, {"loss": loss, "C": 0.5}, 0.0, *start, orders, tolerance)
    assert [r.finished for r in results] == [False] * (info["passes"] - 1) + [True]
    assert sum(r.rows_visited for r in results) == info["rows_visited"]
    assert_close(state["w"], w)
    assert_close(state["alpha"], alpha)


@pytest.mark.parametrize("C", [0.01, 1.0, 1000.0])
def test_the_average_stands_the_first_steps_of_a_large_c(C):
    """There w is projected at every step: the scale falls by hundreds of orders, the average must not fall with it."""
    source, block, X, y = rows_of("float64", seed=13, n=1500, d=12, density=0.5)
    lam, radius = 1.0 / (1500 * C), math.sqrt(1500 * C)
    solver = Pegasos(Task({"loss": "hinge", "C": C, "batch": 1}, source))
    state = {a.name: np.zeros(a.length or X.shape[1] + 1) for a in solver.state_arrays}
    solver.start(state)
    order = np.random.default_rng(0).permutation(1500).astype(np.int32)
    steps = reference.pegasos_of_any_loss(X, y, lam, order[:, None], "hinge", np.ones(1500), radius)
    iterates = [w for w, _ in steps]
    for steps in (order[:700], order[700:]):
        make_pass(solver, block, state, Visit(), steps)
        iterates_so_far = iterates[: int(state["scalars"][STEPS])]
        average = solver.weights(state, np.empty(13))
        expected = np.mean(iterates_so_far, axis=0)
        np.testing.assert_allclose(average[:-1], expected, rtol=1e-7, atol=1e-7 * np.abs(expected).max())
    solver.end_outer(state, 1)
    np.testing.assert_allclose(solver.weights(state, average)[:-1], expected, atol=1e-7 * np.abs(expected).max())


def test_pegasos_norm_is_summed_anew():
    """||v||^2 is exact at a t that is a multiple of 2^20, whatever had become of it."""
    _, block, X, y = rows_of("float64", seed=6)
    v, lagged = np.random.default_rng(0).standard_normal((2, X.shape[1] + 1))
    scalars = np.array([1.0, 12345.0, float(1 << 20), 0.0, 0.0])
    objective = Objective(0.0, np.ones((1, 2)), None, get_loss("hinge").at({}))
    pegasos_pass(
        block, None, np.zeros(1, np.int32), 1, objective, 0.0, 1e-3, 1e9,
        v, lagged, np.empty(0), np.empty(0), scalars,
    )  # fmt: skip
    assert_close(scalars[1], v @ v)
    assert scalars[STEPS] == 1


@pytest.mark.parametrize("length", [0, 1, 2, 3, 4, 5, 8, 13])
def test_sum_of_squares_of_any_length(length):
    x = np.random.default_rng(length).standard_normal(length)
    assert_close(sum_of_squares(x), float(x @ x))


def drawn_order(key, sizes, window=0):
    order = np.full(sum(sizes), -1, np.int32)
    windowed_order(np.uint64(key), np.array(sizes), window, order, np.empty(len(sizes), np.int32))
    return order


@pytest.mark.parametrize("sizes", [[1], [7], [100], [30, 30, 30, 10], [32, 32, 32], [1] * 50, [5]])
@pytest.mark.parametrize("window", [0, 8])
def test_windowed_order(sizes, window):
    n = sum(sizes)
    order, parts = drawn_order(17, sizes, window), np.repeat(np.arange(len(sizes)), sizes)
    assert sorted(order) == list(range(n))
    assert np.array_equal(order, drawn_order(17, sizes, window))
    if window == 0:
        assert np.count_nonzero(np.diff(parts[order])) + 1 == len(sizes), "rows of one part do not stay together"
    else:  # the rows of each window are those of one part, or of some that are neighbours in the draw
        drawn = drawn_order(17, sizes)
        drawn = np.concatenate([np.flatnonzero(parts == part) for part in dict.fromkeys(parts[drawn].tolist())])
        assert all(set(order[k : k + window]) == set(drawn[k : k + window]) for k in range(0, n, window))
    if n > 10:
        assert not np.array_equal(order, drawn_order(18, sizes, window))
        assert not np.array_equal(order, np.arange(n))


def test_windowed_order_is_uniform():
    """Each of the 24 orders of 4 rows comes about equally often (chi-squared, far beyond chance)."""
    counts: dict = {}
    draws = 4800
    for key in range(draws):
        order = tuple(drawn_order(key, [4]).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    chi = sum((count - draws / 24) ** 2 / (draws / 24) for count in counts.values())
    assert chi < 60  # 23 degrees of freedom: 1 in 30,000


@pytest.mark.parametrize("later", [None, 0, 50_000, 2**63 - 1])
@pytest.mark.parametrize("beside", [0, 500_000])
def test_table_of_ids_equals_a_dict(later, beside):
    """In order of first occurrence, counted, in pieces: large ids, over several growths of the slots; and small ones as
    their own slots, until one is larger than the budget (1 MB) allows, or others hold what they would take."""
    rng = np.random.default_rng(0)
    few = np.concatenate([rng.integers(0, 60, 200), [0, 2**63 - 1]])
    ids = rng.choice(np.concatenate([rng.integers(0, 2**63 - 1, 30_000), np.repeat(few, 100)]), 60_000)
    if later is not None:
        ids = np.concatenate([rng.integers(0, most, 9_000) for most in (100, 20_000, 45_000)])
        ids[15_000] = max(later, ids[15_000])
    table, expected = IdTable(10_000_000 if later is None else 1_000_000), {}
    pieces = np.array_split(ids, 7)
    positions = [table.add(piece) for piece in pieces[:5]]
    assert bool(table.n_small) == (later == 0)
    table.hold("others", beside)
    positions = np.concatenate([*positions, *map(table.add, pieces[5:])])
    assert bool(table.n_small) == (later == 0 and beside == 0)
    for i in ids.tolist():
        expected.setdefault(i, len(expected))
    assert len(table) == len(expected) > 10_000
    assert table.known[: len(table)].tolist() == list(expected)
    assert positions.tolist() == [expected[i] for i in ids.tolist()]
    assert np.array_equal(table.counted(), np.bincount(positions))


def test_index_of_ids_equals_a_dict():
    rng = np.random.default_rng(1)
    wide = [(n, 2**63 - 1, 10**6) for n in (0, 1, 2, 5000)]
    for n, most, spare in [*wide, (20_000, 9_000, 0), (5000, 50_000, 180_000)]:
        known = np.unique(np.concatenate([rng.integers(0, most, n), np.arange(min(n, 100)) * 64]))
        rng.shuffle(known)
        index = IdIndex(len(known), spare).fill((k, known[k : k + 999]) for k in range(0, len(known), 999))
        assert n < 5000 or (index.small == (most < 10**6) and 0 <= index.more_bytes <= spare)
        asked = np.concatenate([known[:2000], rng.integers(0, 2**63 - 1, 1000), [0, 2**63 - 1]])
        expected = {i: position for position, i in enumerate(known.tolist())}
        assert index.find(asked).tolist() == [expected.get(i, -1) for i in asked.tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("n_features", [3, 256, 257, 70_000, 20_000_000])
@pytest.mark.parametrize("values", [None, np.float32, np.float64])
def test_rows_are_renumbered_and_sorted(n_features, values):
    rng, n_known = np.random.default_rng(5), 20_000
    new_index = rng.permutation(n_features)[:n_known].astype(np.int32) if n_features > n_known else np.arange(n_known)
    new_index = np.where((rng.random(n_known) < 0.2) | (new_index >= n_features), -1, new_index).astype(np.int32)
    new_index = np.append(new_index, np.full(max(0, n_features - n_known), -1, np.int32))
    lengths = np.array([0, 1, 2, 23, 24, 25, 64, 300, 4000])
    indptr = np.append(0, np.cumsum(lengths))
    positions = np.concatenate([rng.choice(n_known, n, replace=False) for n in lengths]).astype(np.int32)
    stored = None if values is None else rng.normal(size=len(positions)).round(2).astype(values)  # some rows coded
    order = rng.permutation(len(lengths))
    out_lengths, indices = np.empty(len(lengths), np.int64), np.empty(len(positions), np.int32)
    out_values = None if values is None else np.empty_like(stored)
    sq_norms, keys = np.empty(len(lengths)), np.empty((2, lengths.max()), np.uint64)
    all_values = np.ones(len(positions)) if stored is None else stored
    rows = packed(lengths, positions, all_values, hot=0)
    entries = packed_entries(np.append(0, np.cumsum(rows.sizes, dtype=np.int64)), rows.words, values or np.float64)
    nnz = renumber_rows(entries, order, new_index, out_lengths, indices, out_values, sq_norms, keys)
    assert nnz == out_lengths.sum()
    ends = np.cumsum(out_lengths)
    for t, i in enumerate(order):
        row, of_row = (a[indptr[i] : indptr[i + 1]] for a in (positions, all_values))
        expected = sorted((int(new_index[j]), float(v)) for j, v in zip(row, of_row, strict=True) if new_index[j] >= 0)
        found = slice(ends[t] - out_lengths[t], ends[t])
        assert indices[found].tolist() == [j for j, _ in expected]
        if out_values is not None:
            assert out_values[found].tolist() == [v for _, v in expected]
        assert sq_norms[t] == pytest.approx(sum(v * v for _, v in expected), rel=1e-12)


@pytest.mark.parametrize("values", [False, True])
def test_passes_over_rows_whose_entries_lie_anywhere_have_the_same_bits(values):
    """Where the order of a row's entries changes no sum: each row has two, one of them its own."""
    n, d = 40, 40_000
    rng = np.random.default_rng(0)
    columns = np.stack([rng.integers(0, 10, n), 39_000 + np.arange(n)], axis=1).astype(np.int32)
    data = rng.uniform(0.5, 1.5, (n, 2)) if values else np.ones((n, 2))
    y = np.where(np.arange(n) % 3, 1.0, -1.0)
    found = []
    for side in (slice(None), slice(None, None, -1)):
        matrix = scipy.sparse.csr_matrix(
            (data[:, side].ravel().copy(), columns[:, side].ravel().copy(), np.arange(0, 2 * n + 1, 2)), shape=(n, d)
        )
        matrix.has_sorted_indices = matrix.has_canonical_format = True  # no one sorts them
        found.append(fit(Matrix(matrix, y), C=1.0, tol=1e-6, schedule="3"))
        assert np.diff(matrix.indices[:2])[0] * (1 if side.step is None else -1) > 0
    np.testing.assert_array_equal(found[0].model.weights, found[1].model.weights)
    assert found[0].certificate == found[1].certificate


def test_the_rows_of_the_set_come_in_another_order_at_every_visit():
    """Whatever outer iteration they belong to: the visits to the set are counted through the run."""
    orders = []
    with opened(Matrix(*random_rows(n=240, d=40, seed=6), chunk_rows=range(0, 240, 8))) as source:
        loop = looped(source, block_chunks=6, tol=1e-9, C=10.0, max_outer=6, schedule="1")
        partition = loop.plan.blocks.partition
        plain = partition.set_order

        def noted(first, second, inner_pass, out):
            plain(first, second, inner_pass, out)
            if inner_pass == 0:
                orders.append(((first, second), tuple(out.tolist())))

        partition.set_order = noted
        loop.run()
    assert len(orders) > 6
    assert len({key for key, _ in orders}) == len(orders)
    assert len({order for _, order in orders}) == len(orders)
