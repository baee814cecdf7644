"""The outer loop: blocks, certificates, bit-identity of every way to cut the same rows and of any number of threads,
what a problem consists of."""

import math
import os
import re

import h5py
import hdf5plugin  # noqa: F401 (h5py reads Blosc through it)
import numpy as np
import pytest
import reference
import scipy.sparse
from scipy import sparse
from support.training_cases import certified, looped, make_store, opened, random_rows, rows_of_store, train, two_classes

import blocksvm
from blocksvm.base.errors import InputError
from blocksvm.base.threads import Threads, n_processors, slices
from blocksvm.model.model_file import load_model
from blocksvm.sources.block import Arena
from blocksvm.sources.matrix import Matrix
from blocksvm.sources.source import BlockReader
from blocksvm.store.reader import Store
from blocksvm.training.checkpoint import save_result


@pytest.fixture(scope="module")
def rows():
    return random_rows(n=240, d=40, seed=11, dtype=np.float32)


@pytest.fixture(scope="module", params=["float32", "ones", pytest.param("coded", marks=pytest.mark.slow)])
def store(request, tmp_path_factory, rows):
    """A store of some 20 chunks, with values or without, or with few different ones in a row."""
    X, y = rows
    X = X.copy()
    if request.param != "float32":
        X.data = np.ones_like(X.data) if request.param == "ones" else np.round(X.data) + np.float32(0.5)
    dtype = "float64" if request.param == "coded" else "float32"
    return make_store(tmp_path_factory.mktemp("store"), X, y, chunk_nonzeros=128, dtype=dtype)


@pytest.mark.parametrize("loss", reference.LOSSES)
@pytest.mark.parametrize("seed", range(4))
def test_certificate_sums_equal_the_reference_at_any_point(rows, loss, seed):
    """Any alpha in the box; w = w(alpha), where the dual is exact, and any other w, where the primal is."""
    X, y = rows
    rng = np.random.default_rng(seed)
    cost = rng.uniform(0.1, 3.0, 2)
    problem = two_classes(y, loss, 1.0, cost, 0.7)
    Xb, C_rows = reference.with_bias(X, 0.7), cost[(y > 0).astype(int)]
    alpha = rng.random(len(y)) * C_rows * (1.0 if loss == "hinge" else 4.0)
    alpha[rng.random(len(y)) < 0.3] = 0.0
    dual, source = reference.dual(Xb, y, alpha, C_rows, loss), Matrix(X, y, chunk_rows=[0, 100, 101])
    other = rng.standard_normal(Xb.shape[1])
    for w in (reference.weights_of(Xb, y, alpha), other, np.zeros(Xb.shape[1])):
        found = certified(problem, w, alpha, source, exact=False)
        primal = reference.primal(Xb, y, w, C_rows, loss)
        assert found.primal == pytest.approx(primal, rel=1e-12)
        assert found.accuracy == np.mean(reference.predict(Xb, w) == y)
        assert dual <= primal
        if w is not other and w.any():
            assert found.dual == pytest.approx(dual, rel=1e-11)
            assert found.rel_gap == pytest.approx((primal - dual) / primal, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("loss", reference.LOSSES)
@pytest.mark.parametrize("bias", [0.0, 1.3])
def test_the_certificate_is_of_the_weights_and_alpha_saved(store, tmp_path, loss, bias):
    """Recomputed from nothing but the files."""
    settings = {"loss": loss, "C": 0.4, "bias": bias, "class_weight": {-1.0: 2.5}, "schedule": "2", "block_chunks": 3}
    for max_outer in (1, 40):
        path = tmp_path / f"{max_outer}.h5"
        run = train(store, tol=0.0, max_outer=max_outer, **settings)
        with Store(store) as source:
            save_result(path, run.loop.plan, run.loop.state, run.result, source.feature_ids)
        X, y, _ = rows_of_store(store)
        Xb, C_rows = reference.with_bias(X, bias), np.where(y > 0, 0.4, 1.0)
        with h5py.File(path) as file:
            alpha, w = file["state/dual-cd/alpha"][()], file["weights"][()]
        certificate = load_model(path).meta.certificate
        w = w if bias else w[:-1]
        Xb = Xb if bias else X
        assert certificate.dual == pytest.approx(reference.dual(Xb, y, alpha, C_rows, loss), rel=1e-9)
        assert certificate.primal == pytest.approx(reference.primal(Xb, y, w, C_rows, loss), rel=1e-9)
        gap = (certificate.primal - certificate.dual) / certificate.primal
        assert certificate.rel_gap == pytest.approx(gap, rel=1e-9)
        assert certificate.accuracy == np.mean(reference.predict(Xb, w) == y)
    assert 0.0 <= certificate.rel_gap < 0.05


def test_a_limit_that_is_met_at_the_optimum_is_called_converged(rows):
    """The estimates were pessimistic, the last certificate is not."""
    for tol, status in ((0.05, "converged"), (1e-12, "max-outer")):
        run = train(Matrix(*rows), schedule="2", max_outer=1, tol=tol, C=0.01)
        assert run.outer()[0]["rel_gap"] is None
        assert 1e-12 < run.result.certificate.rel_gap <= 0.05
        assert run.result.status == run.events[-1]["status"] == status


def test_estimates_stand_in_the_trace_under_their_own_names(rows):
    run = train(Matrix(*rows), schedule="1", max_outer=4, tol=0.0)
    for event in run.outer():
        assert event["primal"] is event["dual"] is event["rel_gap"] is None
        assert event["dual_estimate"] <= run.result.certificate.primal
        primal, dual = event["primal_estimate"], event["dual_estimate"]
        assert event["gap_estimate"] == pytest.approx((primal - dual) / primal)
    # the dual estimate is that of the maintained w and sums of alpha, so nearly the certified one
    assert dual == pytest.approx(run.result.certificate.dual, rel=1e-9)
    assert run.events[-1]["rel_gap"] == run.result.certificate.rel_gap


def matrix_of(store, **options) -> Matrix:
    X, y, first_rows = rows_of_store(store)
    matrix = Matrix(X, y, chunk_rows=options.pop("chunk_rows", first_rows), **options)
    matrix.shuffled = True  # as the store's rows are
    return matrix


@pytest.mark.parametrize("settings", [
    {"solver": "dual-cd", "schedule": "2"}, {"solver": "pegasos", "schedule": "2"},
    {"solver": "dual-cd", "loss": "squared-hinge", "schedule": "tol:0.1", "C": 0.3},
    {"solver": "pegasos", "schedule": "1", "batch": 7, "class_weight": "balanced", "bias": 1.0},
])  # fmt: skip
@pytest.mark.parametrize("block_chunks", [None, pytest.param(1, marks=pytest.mark.slow), 4])
def test_equal_seeds_give_equal_models_from_a_store_and_from_a_matrix(store, settings, block_chunks):
    settings = settings | {"block_chunks": block_chunks, "max_outer": 5, "tol": 0.0}
    first = train(store, seed=5, **settings)
    assert first.w.any() and first.same(train(store, seed=5, **settings))
    assert not first.same(train(store, seed=6, **settings))
    if settings["solver"] == "dual-cd":
        settings |= {"working_set": "none"}  # which rows it has room for depends on their bytes
    first, other = train(store, seed=5, **settings), train(matrix_of(store), seed=5, **settings)
    assert first.loop.plan.source.packed and not other.loop.plan.source.packed
    assert first.same(other)
    assert first.result.certificate == other.result.certificate


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"loss": "squared-hinge"}, {"solver": "pegasos"}])
def test_in_stored_order_any_cut_gives_the_same_model(store, tmp_path, rows, settings):
    settings = settings | {"order": "stored", "schedule": "1", "max_outer": 6, "tol": 0.0, "class_weight": "balanced"}
    if "solver" not in settings:
        settings |= {"working_set": "none"}  # passes over it come between blocks, so they depend on the cut
    whole = train(store, **settings)
    assert whole.events[0]["resident"]
    n = whole.loop.plan.source.n_samples
    cuts = [train(store, block_chunks=k, **settings) for k in (1, 3, 7)]
    assert [run.events[0]["blocks"] for run in cuts] == [-(-len(whole.loop.plan.source.chunks) // k) for k in (1, 3, 7)]
    cuts.append(train(matrix_of(store, chunk_rows=np.arange(n)), block_chunks=1, **settings))
    assert cuts[-1].events[0]["blocks"] == n
    cuts.append(train(matrix_of(store, chunk_rows=np.arange(n)), block_chunks=7, **settings))
    for run in cuts:
        assert whole.same(run)
        assert run.result.certificate.primal == pytest.approx(whole.result.certificate.primal, rel=1e-12)


def test_more_memory_for_the_same_blocks_changes_nothing(store):
    settings = {"schedule": "2", "block_chunks": 3, "max_outer": 4, "tol": 0.0}
    assert train(store, memory=2_000_000, **settings).same(train(store, memory=200_000_000, **settings))


@pytest.mark.parametrize("block_chunks", [None, 3])
def test_the_trace_counts_what_was_done(store, block_chunks):
    run = train(store, schedule="2", block_chunks=block_chunks, max_outer=4, tol=0.0, solver="pegasos")
    source = run.loop.plan.source
    blocks = 1 if block_chunks is None else -(-len(source.chunks) // 3)
    with Store(store) as fresh:
        fresh.read_block(np.arange(len(fresh.chunks)), None)
        everything = fresh.cost.bytes_read
    for event in run.outer():
        assert (event["blocks"], event["inner_passes"]) == (blocks, 2 * blocks)
        assert event["passes"] == [2] * blocks
        assert event["rows_visited"] == 2 * source.n_samples
        assert event["nnz_visited"] == 2 * source.n_nonzeros
        read_here = everything if block_chunks or event["outer"] == 1 else 0
        assert event["bytes_read"] == read_here
        assert event["seconds_training"] > 0.0
    assert run.result.passes == [2] * blocks * 4
    assert [event["event"] for event in run.events if event["event"] != "visit"][0] == "start"
    assert run.events[-1]["event"] == "end"
    assert run.events[-1]["status"] == run.result.status == "max-outer"


@pytest.mark.parametrize("solver", ["dual-cd", "pegasos"])
def test_balanced_class_weights_are_explicit_ones_and_lambda_is_another_name_for_c(rows, solver):
    X, y = rows
    source, settings = Matrix(X, y), {"solver": solver, "schedule": "2", "max_outer": 3, "tol": 0.0}
    negatives, positives = (y < 0).sum(), (y > 0).sum()
    assert negatives != positives
    explicit = {-1.0: float(240 / (2 * negatives)), 1.0: float(240 / (2 * positives))}
    for given, same in (({"class_weight": "balanced"}, {"class_weight": explicit}), ({"lam": 1 / 120}, {"C": 0.5})):
        run = train(source, **settings, **given)
        assert run.same(train(source, **settings, **same))
        assert not run.same(train(source, **settings))


def test_the_bias_is_an_explicit_constant_column(rows):
    X, y = rows
    settings = {"schedule": "2", "max_outer": 5, "tol": 0.0, "block_chunks": 2}
    chunk_rows = np.arange(0, 240, 30)
    for solver in ("dual-cd", "pegasos"):
        ours = train(Matrix(X, y, chunk_rows=chunk_rows), bias=1.5, solver=solver, **settings)
        X1 = scipy.sparse.csr_matrix(reference.with_bias(X, 1.5))
        column = train(Matrix(X1, y, chunk_rows=chunk_rows), solver=solver, **settings)
        np.testing.assert_allclose(ours.w, column.w[:-1], rtol=1e-8, atol=1e-9)
        assert ours.w[-1] != 0.0 == column.w[-1]
        assert ours.result.certificate.primal == pytest.approx(column.result.certificate.primal, rel=1e-9)


@pytest.mark.parametrize("loss", reference.LOSSES)
def test_small_problems_reach_the_optimum_found_by_another_route(loss):
    """With weights of classes, which go by the user's labels."""
    X, y = random_rows(n=40, d=12, seed=21)
    w, primal = reference.optimum(X, y, np.where(y > 0, 0.5, 2.0), loss)
    matrix = Matrix(X, np.where(y > 0, 7, 3), chunk_rows=np.arange(0, 40, 4))
    for blocks in (None, 3):
        run = train(matrix, loss=loss, C=0.5, class_weight={3.0: 4.0}, schedule="10", tol=1e-9, block_chunks=blocks)
        assert run.result.status == "converged"
        assert run.result.certificate.primal == pytest.approx(primal, rel=1e-8)
        assert run.result.certificate.dual <= primal * (1 + 1e-12)
        np.testing.assert_allclose(run.w[:-1], w, atol=2e-4)


def test_a_matrix_of_zeros_and_rows_without_entries_converge():
    X = scipy.sparse.csr_matrix((30, 5))
    y = np.where(np.arange(30) < 10, 1.0, -1.0)
    for loss in reference.LOSSES:
        run = train(Matrix(X, y), loss=loss, C=2.0, tol=1e-6, schedule="1")
        assert run.result.status == "converged"
        # w = 0, each loss is 1
        assert (run.result.certificate.primal, run.result.certificate.dual) == pytest.approx((60.0, 60.0))
        assert not run.w.any()


@pytest.mark.parametrize(("settings", "expected"), [
    ({"C": 0.0}, "C=0: must be a finite number above 0"), ({"C": math.nan}, "C=nan: must be"),
    ({"lam": 0.0}, "lam=0: must be"), ({"partition": "x"}, "partition=x: choose one of redrawn, fixed"),
    ({"order": "x"}, "order=x: choose one of"), ({"schedule": "tol:0"}, "schedule=tol:0: expected"),
    ({"schedule": "tol:nan"}, "schedule=tol:nan: expected"), ({"bias": -1.0}, "bias=-1: must be"),
    ({"tol": math.nan}, "tol=nan: must be"), ({"solver": "pegasos", "batch": 0}, "batch=0: must be"),
    ({"block_chunks": 0}, "block_chunks=0: must be"), ({"max_outer": 0}, "max_outer=0: must be"),
    ({"max_seconds": 0.0}, "max_seconds=0: must be"),
    ({"batch": 2}, "batch: dual-cd does not accept it; it accepts loss, C, lam, class_weight"),
    ({"solver": "pegasos", "schedule": "tol:0.1"}, "pegasos has not"),
    ({"class_weight": {1.0: math.nan}}, "must be a finite number above 0"),
])  # fmt: skip
def test_settings_that_make_no_sense_are_refused_by_name(rows, settings, expected):
    with pytest.raises(InputError, match=re.escape(expected)):
        looped(Matrix(*rows), **settings)


@pytest.mark.parametrize(("X", "y", "expected"), [
    (np.zeros((0, 3)), np.zeros(0), "has no rows"), (np.array([[1.0, np.nan]]), np.ones(1), "a value is not finite"),
    (np.ones((2, 2)), np.array([1.0, np.inf]), "row 1 of y: the label inf is not a finite number"),
    (np.ones((2, 2)), np.ones(3), "labels must be 2 finite numbers"),
    (np.ones((2, 2)), np.array(["a", 2.0], dtype=object), "labels must be all numbers or all strings"),
    (np.ones((2, 2)), np.array([{}, 2.0], dtype=object), "labels must be numbers or strings"),
])  # fmt: skip
def test_a_matrix_that_cannot_be_trained_on_is_refused(X, y, expected):
    with pytest.raises(InputError, match=expected):
        Matrix(scipy.sparse.csr_matrix(X), y)


def test_a_matrix_is_brought_to_canonical_form_without_touching_the_users():
    """Duplicates are summed, zeros dropped, columns sorted; the user's arrays stay."""
    data, columns = np.array([1.0, 2.0, 0.0, 3.0, 4.0]), np.array([3, 3, 1, 2, 0])
    X = scipy.sparse.csr_matrix((data, columns, [0, 3, 5]), shape=(2, 4))
    kept = X.data.copy(), X.indices.copy(), X.indptr.copy()
    block = Matrix(X, np.array([1.0, 2.0])).read_block(np.arange(1), None)
    assert block.indptr.tolist() == [0, 1, 3]
    assert block.indices.tolist() == [3, 0, 2]
    assert block.values.tolist() == [3.0, 4.0, 3.0]
    assert all(np.array_equal(a, b) for a, b in zip(kept, (X.data, X.indices, X.indptr), strict=True))
    integers = Matrix(scipy.sparse.csr_matrix(np.array([[2, 0], [0, 3]])), np.arange(2))
    assert integers.read_block(np.arange(1), None).values.dtype == np.float64


def test_too_little_memory_is_refused_with_the_need_before_reading(store):
    for settings in ({}, {"solver": "pegasos"}, {"block_chunks": 5}):
        with Store(store) as source:
            memory, needs = 7_000, []
            while len(needs) < 6 and memory:  # what was asked for is enough, or at least brings the next need to light
                try:
                    looped(source, memory=memory, **settings)
                    memory = 0
                except InputError as error:
                    needs += re.findall(rf"memory={memory:_} is too small: ([0-9.]+)MB are needed \(wei", str(error))
                    memory = int(float(needs[-1]) * 1.02e6) + 5000
            assert 0 < len(needs) < 6 and source.cost.blocks == 0


def test_the_plan_stays_within_the_budget_and_covers_the_arrays(store, monkeypatch):
    whole = train(store, max_outer=1, schedule="1").result.memory
    budget = (sum(whole.values()) + whole["weights"] + whole["alpha"]) // 2
    made = []
    monkeypatch.setattr("blocksvm.sources.source.Arena", lambda n_bytes: made.append(n_bytes) or Arena(n_bytes))
    run = train(store, memory=budget, max_outer=2, schedule="1", tol=0.0)
    assert not run.events[0]["resident"]
    assert run.events[0]["blocks"] > 1
    assert sum(run.result.memory.values()) <= budget
    state = sum(array.nbytes for array in run.loop.state.values())
    assert len(made) == 2
    assert sum(made) + state <= sum(run.result.memory.values()) + 16


def test_held_out_rows_of_other_labels_are_refused(rows, tmp_path):
    X, y = rows
    store = make_store(tmp_path, X, y)
    valid = make_store(tmp_path, X, np.where(y > 0, 5, 6), name="valid")
    with Store(store) as source, Store(valid) as held_out, pytest.raises(InputError, match="no row labelled -1 or 1"):
        looped(source, valid=held_out)


@pytest.mark.parametrize("seed", [-1, 2**63, 1.5, "x", float("nan")])
def test_a_seed_is_the_same_everywhere(tmp_path, seed):
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 1:-1\n")
    rows = Matrix(np.array([[1.0], [-1.0]]), [1, -1])
    for refused in (
        lambda: blocksvm.fit(rows, seed=seed),
        lambda: blocksvm.fit(rows, learner="pa1", seed=seed),
        lambda: blocksvm.cross_validate(rows, C=[1.0], seed=seed),
        lambda: blocksvm.maximum_margin(rows, seed=seed),
        lambda: blocksvm.measure_regret(rows, "pa1", seed=seed),
        lambda: blocksvm.Stream(learner="pa1", query=1.0, seed=seed),
        lambda: blocksvm.write_store(tmp_path / "rows.svm", tmp_path / "s.h5", seed=seed),
    ):
        with pytest.raises(InputError, match=rf"^seed={seed}: (is not a whole number|must be from 0 to 2\*\*63 - 1)$"):
            refused()


def test_the_sides_of_many_classes_and_the_weights_of_a_certificate_of_pegasos_are_counted(rows):
    plan = looped(Matrix(rows[0], np.arange(240) % 40)).plan
    table = plan.solver.problem.sides.table
    assert table.nbytes <= 41 * 40  # a byte for a label and a class
    assert plan.memory()["sides of the classes"] >= table.nbytes
    counted, plain = (looped(Matrix(*rows), solver="pegasos", **more).plan.memory() for more in ({"dual": True}, {}))
    assert counted["weights of the dual variables"] == 8 * 41
    assert "weights of the dual variables" not in plain


def test_no_block_is_read_in_vain(rows, monkeypatch):
    source, read = Matrix(*rows, chunk_rows=np.arange(0, 240, 10)), []
    plain = Matrix.read_block
    monkeypatch.setattr(Matrix, "read_block", lambda one, *given: read.append(given) or plain(one, *given))
    loop = looped(source, block_chunks=1, max_outer=1)
    with BlockReader(source, 0, resident=False) as loop.reader:
        assert sum(1 for _ in loop.every_row()) == len(read) == 24


# and no bit of newton's on how the rows are cut
BLOCKS = [(1, {"block_chunks": 1}), (2, {"block_chunks": 4}), (5, {"block_chunks": None}),
          (1, {"block_chunks": 3, "seed": 9, "partition": "fixed"})]  # fmt: skip


class Counting(Threads):
    """shared: how often work was shared."""

    shared = 0

    def map(self, work, parts):
        self.shared += len(parts) > 1 and self.n > 1
        return super().map(work, parts)


@pytest.mark.parametrize(("classes", "settings"), [
    *((2, {"loss": loss}) for loss in ("hinge", "squared-hinge", "logistic", "epsilon-insensitive")),
    (2, {"loss": "hinge", "schedule": "3", "bias": "free"}), (2, {"loss": "hinge", "working_set": "none"}),
    (2, {"solver": "pegasos", "dual": True}), (2, {"solver": "kernel"}), (3, {"loss": "logistic"}),
    (3, {"multiclass": "crammer-singer"}), (20, {"loss": "hinge"}),  # by threads are the lanes of eight classes
    (20, {"loss": "squared-hinge", "working_set": "none"}), (2, {"solver": "newton", "loss": "logistic", "bias": 1.0}),
    (2, {"solver": "newton", "loss": "squared-hinge", "C": 5.0}), (3, {"solver": "newton", "loss": "logistic"}),
    pytest.param(20, {"solver": "newton", "loss": "squared-hinge"}, marks=pytest.mark.slow),
], ids=str)  # fmt: skip
def test_any_number_of_threads_trains_the_same(stores, classes, settings):
    def run(n: int, **blocks):
        with opened(stores[classes]) as source:
            loop = looped(source, **{"block_chunks": 10, "max_outer": 6, "tol": 1e-9, "seed": 3} | settings | blocks)
            loop.plan.solver.threads = threads = Counting(n, piece=50)
            result = loop.run()
            assert threads.pool is None  # they end with the run
            return loop.state, result, threads.shared

    state, result, shared = run(1)
    assert shared == 0
    for n, blocks in [(2, {}), (5, {}), *(BLOCKS if settings.get("solver") == "newton" else ())]:
        there, same, shared = run(n, **blocks)
        assert (shared > 0) == (n > 1)
        assert all(np.array_equal(array, there[name], equal_nan=True) for name, array in state.items())
        assert same.certificate == result.certificate
        assert blocks or (same.passes, same.set_passes) == (result.passes, result.set_passes)


def test_threads_start_with_work_to_share():
    with Threads(3) as threads:
        assert threads.map(lambda x: 2 * x, [4]) == [8] and threads.pool is None
        assert threads.map(lambda x: 2 * x, range(9)) == list(range(0, 18, 2)) and threads.pool is not None
    assert threads.pool is None
    assert Threads(None).n == n_processors() >= 1
    with pytest.raises(ZeroDivisionError):
        threads.map(lambda x: 1 / x, [1, 0, 2])


def test_processors_are_those_that_a_process_may_use(tmp_path, monkeypatch):
    limit = tmp_path / "cpu.max"
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 4, 5}, raising=False)
    assert n_processors(limit) == 4
    for text, n in (("max 100000\n", 4), ("250000 100000\n", 3), ("50000 100000\n", 1), ("900000 100000\n", 4)):
        limit.write_text(text)
        assert n_processors(limit) == n
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert n_processors(limit) == 2


@pytest.mark.parametrize("lengths", [[3, 4, 0, 5], [0, 0, 0], [0, 9, 0, 0, 1], [100], []])
@pytest.mark.parametrize("first", [0, 7])
def test_slices_are_all_rows(lengths, first):
    ends = first + np.append(0, np.cumsum(lengths, dtype=np.int64))
    for each in (1, 4, 1000):
        parts = slices(ends, each)
        rows = [row for part in parts for row in range(part.start, part.stop)]
        assert rows == list(range(len(lengths)))
        assert all(ends[part.stop - 1] - ends[part.start] < each for part in parts if part.stop > part.start + 1)


def test_rows_without_entries_have_scores():
    X, y = sparse.csr_matrix((30, 5)), np.where(np.arange(30) % 2, 1.0, -1.0)
    loop = looped(Matrix(X, y), bias=1.0)
    loop.plan.solver.threads = Threads(2, piece=1)
    assert loop.run().status == "converged"
