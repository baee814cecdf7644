"""The working set: which rows are in it, and that nothing but the number of readings depends on it; rows at rest."""

import copy
import gc
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import reference
import reference_losses
from hypothesis import given, strategies
from scipy import sparse
from support.training_cases import SlowMatrix, make_pass, make_store, random_rows, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.base.threads import Threads
from blocksvm.kernels.loss_functions import NEAR
from blocksvm.solvers.dual_cd import REST_VISITS, DualCD
from blocksvm.solvers.dual_cd_kernels import Limits, PassArrays
from blocksvm.solvers.screening import screened_pass
from blocksvm.solvers.solver import SHARE, Task, Visit
from blocksvm.sources.block import Arena
from blocksvm.sources.matrix import Matrix
from blocksvm.sources.source import BlockReader
from blocksvm.store.descriptions import PartitionMeta
from blocksvm.store.reader import open_store
from blocksvm.training.plan import Plan
from blocksvm.training.schedule import MOST_PASSES
from blocksvm.training.settings import TrainSettings
from blocksvm.training.working_set import LOWERED, WorkingSet

LOSSES = ("hinge", "squared-hinge", "logistic")
CHUNK_ROWS = np.arange(0, 200, 8)


def begun(source, loss: str, working_set=True, **given):
    """(a solver, its state at the start)"""
    solver = DualCD(Task({"loss": loss, **given}, source, working_set=working_set))
    shape = source.n_features, source.n_samples
    return solver, {a.name: np.zeros(a.shape(*shape), a.dtype) for a in solver.state_arrays}


@pytest.mark.parametrize("loss", LOSSES)
def test_shares_of_the_gap_are_the_terms_of_its_sum(rows, loss):
    X, y = rows
    rng = np.random.default_rng(3)
    weights = rng.integers(0, 3, len(y)) / 2.0
    source = Matrix(X, y, weights=weights)
    solver, state = begun(source, loss, C=1.5)
    block = source.read_block(np.array([0]), None)
    C = 1.5 * weights
    alpha = rng.uniform(size=len(y)) * C
    if loss != "logistic":
        alpha[rng.uniform(size=len(y)) < 0.3] = 0.0
        at_bound = rng.uniform(size=len(y)) < 0.3
        alpha[at_bound] = C[at_bound]
    z = X @ (X.T @ (alpha * y))
    state |= {"alpha": alpha, "rest": np.full(len(y), 2, np.uint8), "pauses": np.ones(len(y), np.uint8)}
    share = np.empty(len(y))
    solver.start(state)
    solver.shares(block, z.reshape(-1, 1), state, share)
    expected = reference_losses.shares_of_gap(loss, z, y, alpha, C, NEAR)
    np.testing.assert_allclose(share, expected, rtol=1e-9, atol=1e-12)
    assert np.array_equal(share < 0.0, expected < 0.0)
    # a row that can move is at rest no longer, the others are where they were
    assert np.array_equal(state["rest"] == 0, expected >= 0.0)
    if loss == "logistic":
        assert (share[C > 0] >= 0.0).all()
    else:
        assert 0 < np.count_nonzero(share < 0.0) < len(y)


@pytest.mark.parametrize("loss", LOSSES)
def test_a_visit_tells_each_share_as_it_was_before_the_rows_own_step(rows, loss):
    X, y = rows
    source = Matrix(X, y)
    solver, state = begun(source, loss)
    block = source.read_block(np.array([0]), None)
    solver.start(state)
    for _ in range(3):
        visit = Visit()
        for i in range(len(y)):
            z, a = X[i] @ state["w"][:-1], state["alpha"][i]
            expected = reference_losses.shares_of_gap(loss, z, y[i], a, 1.0, NEAR)
            result = solver.inner_pass(block, state, visit, np.array([i], np.int32))
            assert visit.arrays[SHARE][i] == pytest.approx(expected[0], rel=1e-8, abs=1e-12)
            assert result.seen == max(0.0, visit.arrays[SHARE][i])


class PlainSet:
    """What ``WorkingSet`` does, with a dictionary: {row number: share} of the members."""

    def __init__(self, sizes, capacity, slots):
        self.sizes, self.capacity, self.slots = sizes, capacity, slots
        self.least, self.members = 0.0, {}
        self.seen = self.left_out = 0.0

    def begin_reading(self, reset):
        self.least *= LOWERED
        self.seen = self.left_out = 0.0
        if reset:
            self.members = {}

    def offer(self, numbers, share):
        shares = dict(zip(numbers, share, strict=True))
        self.seen += sum(max(s, 0.0) for s in shares.values())
        self.left_out += sum(max(s, 0.0) for s in shares.values() if s < self.least)
        both = {i: shares.get(i, s) for i, s in self.members.items()} | shares
        both = {i: s for i, s in both.items() if i not in shares or s >= self.least}
        if len(both) > self.slots or sum(self.sizes[i] for i in both) > self.capacity:
            first = sorted(both, key=lambda i: (-max(both[i], 0.0), i))
            sizes = np.cumsum([self.sizes[i] for i in first])
            kept = first[: min(int(np.count_nonzero(sizes <= self.capacity)), self.slots)]
            self.left_out += sum(max(both[i], 0.0) for i in first[len(kept) :])
            self.least = max(self.least, min((max(both[i], 0.0) for i in kept), default=np.inf))
            both = {i: both[i] for i in kept}
        self.members = both


@pytest.mark.slow
@given(strategies.integers(0, 2**32 - 1))
def test_members_are_those_of_the_plain_rule_and_hold_the_rows(seed):
    rng = np.random.default_rng(seed)
    X, y = random_rows(n=60, d=20, seed=seed % 1000, ones=bool(rng.integers(2)))
    weights = rng.uniform(1.0, 2.0, 60) if rng.integers(2) else None
    X = X.astype(rng.choice([np.float32, np.float64]))
    source = Matrix(X, y, chunk_rows=np.arange(0, 60, 5), weights=weights)
    n_bytes = int(rng.integers(1200, 9000))
    ours = WorkingSet(source, n_bytes)
    arrays = [a for a in vars(ours).values() if isinstance(a, np.ndarray)] + [
        a for a in (getattr(ours.held, name) for name in ours.held.__slots__) if isinstance(a, np.ndarray)
    ]
    assert sum({id(a): a.nbytes for a in arrays}.values()) <= max(n_bytes, 1200)
    sizes = np.diff(X.indptr)
    plain = PlainSet(sizes, ours.capacity, len(ours.member))
    for _ in range(4):
        reset = bool(rng.integers(2))
        ours.begin_reading(reset)
        plain.begin_reading(reset)
        for chunks in np.split(rng.permutation(12), 4):
            block = source.read_block(chunks, None)
            share = rng.choice([-1.0, 0.0, 1e-290, rng.uniform(), 1.0, 3.0], block.n_samples)
            ours.offer(block, share)
            plain.offer(block.rows.tolist(), share.tolist())
            held = ours.block
            assert sorted(held.rows[ours.members].tolist()) == sorted(plain.members)
            assert ours.n_nonzeros == sum(sizes[i] for i in plain.members)
            assert ours.seen == pytest.approx(plain.seen)
            assert ours.left_out == pytest.approx(plain.left_out)
            for slot in ours.members.tolist():
                row = int(held.rows[slot])
                span, own = slice(*held.indptr[slot : slot + 2]), slice(*X.indptr[row : row + 2])
                assert ours.share[slot] == plain.members[row]
                assert np.array_equal(held.indices[span], X.indices[own])
                assert held.values is None or np.array_equal(held.values[span], X.data[own])
                assert (held.y[slot], held.sq_norms[slot]) == (source.y[row], source.sq_norms[row])
                assert weights is None or held.weights[slot] == weights[row]
            if rng.integers(4) == 0:  # saved, and the same rows again in the same slots
                saved = copy.deepcopy(ours.saved())
                again = WorkingSet(source, n_bytes)
                again.restore(saved, (source.read_block(np.array([k]), None) for k in range(12)))
                assert all(np.array_equal(array, again.saved()[name]) for name, array in saved.items())
                assert np.array_equal(again.members, ours.members)
                assert np.array_equal(again.block.indices, held.indices)
                ours = again
        ours.end_reading()


@pytest.mark.slow
@given(strategies.integers(0, 2**32 - 1))
def test_a_set_that_is_chosen_anew_is_the_same_if_the_reading_was_broken_off(seed):
    """The same rows in the same slots, so that passes over them have the same order."""
    rng = np.random.default_rng(seed)
    source = Matrix(*random_rows(n=60, d=20, seed=seed % 1000), chunk_rows=np.arange(0, 60, 5))
    n_bytes = int(rng.integers(1200, 6000))
    made = WorkingSet(source, n_bytes)
    blocks = [source.read_block(np.array([k]), None) for k in range(12)]
    shares = rng.choice([-1.0, 0.0, 0.5, 1.0, 3.0], (4, 60))

    def read(reset: bool, share, n_blocks: int):
        made.begin_reading(reset)
        for block in blocks[:n_blocks]:
            made.offer(block, share[block.rows])

    for share in shares[:3]:
        read(False, share, 12)
    before = copy.deepcopy(made.saved())
    read(True, shares[3], 12)
    wanted = copy.deepcopy(made.saved())
    for stopped in range(1, 13):
        made = WorkingSet(source, n_bytes)
        made.restore(before, iter(blocks))
        read(True, shares[3], stopped)
        read(True, shares[3], 12)
        assert all(np.array_equal(array, wanted[name]) for name, array in made.saved().items())


def test_a_saved_set_of_other_rows_is_refused(rows):
    source = Matrix(*rows, chunk_rows=CHUNK_ROWS)
    made = WorkingSet(source, 20_000)
    made.begin_reading(reset=False)
    blocks = [source.read_block(np.array([k]), None) for k in range(len(CHUNK_ROWS))]
    for block in blocks:
        made.offer(block, np.arange(block.n_samples, dtype=float))
    saved = made.saved()
    assert len(saved["rows"]) > 10
    for name, wrong in [
        *((name, None) for name in saved),  # missing
        ("rows", saved["rows"] + 1000), ("rows", np.append(saved["rows"][:-1], saved["rows"][:1])),
        ("lengths", saved["lengths"] + 1), ("lengths", -saved["lengths"]), ("share", saved["share"][1:]),
        ("member", saved["member"][1:]), ("sums", np.zeros(2)), ("rows", saved["rows"] + 0.0),
        ("lengths", saved["lengths"] + 2**62), ("lengths", saved["lengths"] + 0.0), ("share", saved["member"]),
    ]:  # fmt: skip
        changed = {key: array for key, array in saved.items() if key != name}
        changed |= {} if wrong is None else {name: np.ascontiguousarray(wrong)}
        with pytest.raises(InputError, match="the checkpoint's working set"):
            WorkingSet(source, 20_000).restore(changed, iter(blocks))
    with pytest.raises(InputError, match="the checkpoint's working set"):
        WorkingSet(source, 20_000).restore(saved, iter(blocks[1:]))


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("more", [
    {}, {"working_set": "0.3"}, {"partition": "fixed"}, {"order": "stored"}, {"schedule": "tol:0.1"},
    {"schedule": "overlap"}, {"schedule": "auto"}, {"bias": 0.7, "class_weight": "balanced"}, {"block_chunks": None},
], ids=str)  # fmt: skip
def test_the_optimum_is_that_without_a_set(rows, loss, more):
    X, y = rows
    weights = np.random.default_rng(1).integers(1, 4, len(y)) / 2.0
    options = {"loss": loss, "tol": 1e-5, "schedule": "2", "block_chunks": 4, "memory": 60_000} | more
    if options["block_chunks"] is None:
        options["memory"] = 10**8
    run = train(Matrix(X, y, chunk_rows=CHUNK_ROWS, weights=weights), **options)
    none = train(Matrix(X, y, chunk_rows=CHUNK_ROWS, weights=weights), **options | {"working_set": "none"})
    assert run.result.status == "converged"
    # both certify the one optimum (without a set, fixed blocks do not reach the tolerance within the default limit)
    found, other = run.result.certificate, none.result.certificate
    assert other.rel_gap < 1e-3
    assert other.dual <= found.primal * (1 + 1e-12)
    assert found.dual <= other.primal * (1 + 1e-12)
    assert run.events[0]["resident"] == (options["block_chunks"] is None)
    assert any(event["set_rows"] for event in run.outer())
    assert all(event["set_rows"] is None and not event["set_passes"] for event in none.outer())
    bias = options.get("bias", 0.0)
    share = np.where(y > 0, weights[y > 0].sum(), weights[y < 0].sum()) / weights.sum()  # of the row's class
    C = weights / (2.0 * share) if "class_weight" in more else weights
    P = reference.primal(reference.with_bias(X, bias), y, run.w, C, loss) if loss != "logistic" else None
    assert P is None or P == pytest.approx(run.result.certificate.primal, rel=1e-9)


def easy_rows():
    """Most rows lie far from the plane: after a few readings they do not move."""
    rng = np.random.default_rng(7)
    X, _ = random_rows(n=600, d=60, density=0.3, seed=7, zero_rows=0)
    y = np.where(X @ rng.normal(size=60) > 0.0, 1.0, -1.0)
    return X, y


@pytest.mark.slow
def test_it_saves_readings(rows):
    X, y = easy_rows()
    source = Matrix(X, y, chunk_rows=np.arange(0, 600, 10))
    options = {"block_chunks": 6, "schedule": "1", "tol": 1e-3, "C": 1.0}
    with_set, without = train(source, **options), train(source, **options, working_set="none")
    assert with_set.result.status == without.result.status == "converged"
    assert 3 * with_set.result.outer < without.result.outer
    event = with_set.outer()[-1]
    assert 0 < event["set_rows"] < 600
    assert 0 < event["set_nonzeros"] < X.nnz
    assert 0.0 < event["set_share"] <= 1.0
    # by counts alone: at most one pass between two blocks, more behind the last one and where the set was chosen anew
    for event in with_set.outer():
        blocks, passes = event["blocks"], event["set_passes"]
        assert blocks <= len(passes) <= blocks + event["certificates"]
        assert set(passes[: blocks - 1]) <= {0, 1}
        assert max(passes) <= MOST_PASSES


@pytest.mark.slow
def test_tiny_blocks_do_not_multiply_the_passes():
    """The set is passed over after blocks that come to its nonzeros, however many these are."""
    X, y = easy_rows()
    source = SlowMatrix(X, y, chunk_rows=np.arange(0, 600, 5), seconds=0.0003)
    settings = {"block_chunks": 1, "working_set": "0.5", "memory": 10**8, "tol": 0.0, "max_outer": 3, "C": 10.0}
    run = train(source, **settings)
    tiny = 0
    for event in run.outer()[1:]:  # the set is full
        after = sum(passes > 0 for passes in event["set_passes"][: event["blocks"] - 1])
        assert 0 < after * event["set_nonzeros"] <= 1.5 * X.nnz
        tiny += event["nnz_visited"] / event["blocks"] < 0.1 * event["set_nonzeros"]
    assert tiny, "blocks are far smaller than the set"


def test_in_memory_its_rows_are_copied_where_there_is_room():
    X, y = easy_rows()
    options = {"schedule": "1", "tol": 1e-4, "max_outer": 9}
    ample = train(Matrix(X, y), memory=10**8, **options)
    counted = ample.result.memory
    tight = train(Matrix(X, y), memory=sum(counted.values()) - counted["working set"], **options)
    assert ample.events[0]["resident"] and tight.events[0]["resident"]
    assert any(event["set_rows"] and sum(event["set_passes"]) for event in ample.outer())
    assert max(event["set_nonzeros"] for event in ample.outer()) <= 0.25 * X.nnz
    assert counted["working set"] > 0
    assert tight.loop.working_set is None and "working set" not in tight.result.memory


def test_a_resumed_run_counts_what_it_counted_when_it_was_begun():
    """Of many classes a visit to the working set takes more than its rows."""
    X, y = random_rows(n=2000, d=60, seed=3)
    source = Matrix(X, np.arange(2000.0) % 12, chunk_rows=np.arange(0, 2000, 50))
    whole = sum(Plan(source, TrainSettings(memory=10**9)).memory().values())
    for memory in (10**9, whole // 2):
        first = Plan(source, TrainSettings(memory=memory))
        counted, partition = first.memory(), PartitionMeta(**first.describe()["partition"])
        saved = SimpleNamespace(partition=partition, arrays={})
        assert counted["visits to the working set"] > 10_000
        assert Plan(source, TrainSettings(memory=memory), resume=saved).memory() == counted
        with pytest.raises(InputError, match="is too small.*visits to the working set"):
            Plan(source, TrainSettings(memory=sum(counted.values()) - 10_000), resume=saved)


def holders_of_rows() -> int:
    gc.collect()
    return sum(isinstance(one, Arena | WorkingSet | BlockReader) for one in gc.get_objects())


@pytest.mark.slow
@pytest.mark.parametrize("own", [
    {"memory": 10**9}, {"memory": 10**7}, {"memory": 10**7, "learner": "arow"},
    {"memory": 10**7, "solver": "newton", "loss": "logistic"},
])  # fmt: skip
def test_what_was_fitted_keeps_no_rows(tmp_path, own):
    X = sparse.random(20_000, 60, density=0.5, random_state=1, format="csr")
    path = make_store(tmp_path, X, np.where(X @ np.ones(60) > 15.0, 1.0, -1.0))
    with open_store(path) as store:
        fit(store, max_outer=1, **own)  # what is compiled and cached
        before = holders_of_rows()
        tracemalloc.start()
        fitted = fit(store, max_outer=2, **own)
        kept, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert kept < 1_500_000 < 4_000_000 < most
    assert holders_of_rows() == before
    fitted.save(tmp_path / "m.h5")


def test_blocks_with_a_set_are_better_than_all_rows_without_one():
    """A little less memory than all rows and a set need: rows are read again, but the set is there."""
    X = sparse.random(4_000, 60, density=0.2, random_state=1, format="csr")
    y = np.where(X @ np.ones(60) > 6.0, 1.0, -1.0)
    ample = train(Matrix(X, y), memory=10**8, tol=1e-2, max_outer=9)
    needed = sum(ample.result.memory.values())
    less = train(Matrix(X, y), memory=needed - 1000, tol=1e-2, max_outer=9)
    assert ample.events[0]["resident"] and len(ample.loop.plan.source.chunks) > 4
    assert not less.events[0]["resident"] and less.loop.working_set is not None
    assert sum(less.result.memory.values()) < needed


def test_a_prior_and_a_warm_start(tmp_path, store):
    with open_store(store) as source:
        fit(source, C=0.1, tol=1e-6).save(tmp_path / "m.h5")
    options = {"block_chunks": 3, "tol": 1e-5, "schedule": "1", "loss": "squared-hinge"}
    for more in ({"prior": tmp_path / "m.h5"}, {"warm_start": tmp_path / "m.h5"}):
        run, none = train(store, **options, **more), train(store, **options, **more, working_set="none")
        assert run.result.status == "converged"
        assert run.result.certificate.primal == pytest.approx(none.result.certificate.primal, rel=2e-5)


def test_what_the_setting_takes(store, refusal):
    words, expected = ("train", store, "m.h5", "--working-set"), "expected auto, none, or a share of the memory be"
    for wrong in ("some", "0", "1", "-0.5", "nan"):
        assert f"--working-set {wrong}: {expected}tween 0 and 1" in refusal(*words, wrong)
    assert "--working-set: pegasos does not accept it" in refusal(*words, "0.2", "--solver", "pegasos")
    assert train(store, solver="pegasos", working_set="auto", max_outer=2).result.set_passes == []


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize(("working_set", "least"), [(False, 1), (True, 1), (True, 20), (True, 60)])
def test_rows_at_rest_lie_beyond_their_bounds_and_come_back(loss, passes, working_set, least):
    """They are left out of some outer iterations; least: rows of a screened batch.  With a working set rests grow."""
    X, y = random_rows(n=60, d=30, density=0.3, seed=8)
    X.data = np.round(X.data, 3)
    rng, source = np.random.default_rng(1), Matrix(X, y)
    solver, state = begun(source, loss, working_set)
    if working_set:
        solver.threads = Threads(1, piece=-(-least * source.n_nonzeros // 60))
    block, upper = source.read_block(np.array([0]), None), 1.0 if loss == "hinge" else np.inf
    solver.start(state)
    rests = []
    for k in range(40):
        asleep, before, visit = state["rest"] > 1, state["alpha"].copy(), Visit()
        done = [make_pass(solver, block, state, visit, rng.permutation(60)) for _ in range(passes)]
        assert done[0].rows_visited == 60 - asleep.sum()
        np.testing.assert_array_equal(state["alpha"][asleep], before[asleep])
        fell = (state["rest"] > 1) & ~asleep
        assert np.isin(state["alpha"][fell], (0.0, upper)).all() and (k >= REST_VISITS or not fell.any())
        rests += (state["rest"][fell] - 1).tolist()
        assert working_set or not (state["rest"][~asleep] == 1).any(), "further passes of a visit leave none out"
        if not working_set and passes == 1:
            dual = state["alpha"].sum() - 0.5 * state["w"] @ state["w"]
            dual -= 0.0 if loss == "hinge" else 0.25 * np.sum(state["alpha"] ** 2)
            assert solver.estimates(state, done[0].loss_sum)[1] == pytest.approx(dual, rel=1e-9)
        solver.end_outer(state, k + 1)
    assert len(rests) > 10 and set(rests) <= ({3, 9, 21, 45} if working_set else {REST_VISITS})
    assert not working_set or max(rests) >= 9
    np.testing.assert_allclose(state["w"][:30], X.T @ (y * state["alpha"]), rtol=1e-9, atol=1e-12)


def test_a_screened_pass_takes_memory_of_its_rows_alone():
    """Of rows nearly all without entries a piece of work has many more than there are."""

    def step(order, limits, arrays, moving):
        if len(moving):
            moving[:] = order
        return 0.0, 0.0, 0, len(order), 0.0, 0.0, 0.0, 0.0, len(order)

    arrays = PassArrays(*[np.zeros(3)] * len(PassArrays._fields))
    for n in (0, 3):
        done = screened_pass(step, Threads(1), np.arange(n, dtype=np.int32), 10**15, (Limits(), arrays, True))
        assert done[3] == n
