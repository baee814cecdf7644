"""Rows that a gap has decided for good: that none of them ever moves, and that nothing but the reading is spared."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import reference
import scipy.sparse
from hypothesis import given, settings, strategies
from training_cases import Run, command, make_store, random_rows, run_in_process, stop_after, svmlight, train

from blocksvm.kernels.screening import BINS, ONE, PER_OCTAVE
from blocksvm.problems.problem import Certificate
from blocksvm.solvers.dual_cd import DualCD
from blocksvm.solvers.protocol import Task
from blocksvm.sources.matrix import Matrix
from blocksvm.sources.remainder import KeptRows
from blocksvm.sources.store.reader import open_store
from blocksvm.sources.store.remainder import smaller_store
from blocksvm.train import main as train_main
from blocksvm.training.certificate import certify
from blocksvm.training.screening import WORTHWHILE, Screening, first_bin

# -- what is decided -----------------------------------------------------------------------------------------------


def looked_at(source, loss, alpha, w, C=1.0, bias=0.0):
    """(block, its screening after a certificate of w and alpha, decision values)."""
    solver = DualCD(Task({"loss": loss, "C": C}, source, bias, working_set=True))
    block = source.read_block(np.arange(len(source.chunks)), None)
    looked = Screening(solver, source.n_samples, source.n_features, source.max_norm)
    z = csr(block) @ w[:-1] + bias * w[-1]
    looked.begin()
    looked.look(block, z, alpha)
    return block, looked, z


def csr(block):
    values = np.ones(len(block.indices)) if block.values is None else block.values.astype(float)
    return scipy.sparse.csr_matrix((values, block.indices, block.indptr), shape=(block.n_samples, block.n_features))


@settings(deadline=None, max_examples=60)
@given(strategies.integers(0, 2**32 - 1), strategies.sampled_from(["hinge", "squared-hinge"]))
def test_no_row_that_is_decided_ever_moves(seed, loss):
    """By as many exact steps as are wanted, from certificates taken now and then; w goes no farther than is allowed."""
    rng = np.random.default_rng(seed)
    X, y = random_rows(n=40, d=12, density=0.4, seed=seed)
    X = X.multiply(1.0 / np.maximum(1e-9, np.sqrt(X.multiply(X).sum(axis=1)))).tocsr()
    weights = rng.integers(0, 4, 40) / 2.0
    C = float(rng.choice([0.05, 1.0, 20.0]))
    bias = float(rng.choice([0.0, 0.5]))
    prior = rng.normal(size=13) * rng.choice([0.0, 0.3])
    source = Matrix(X, y, weights=weights)
    XB = np.hstack([X.toarray(), np.full((40, 1), bias)])
    U, D = reference.box(loss, C * weights)
    alpha, w = np.zeros(40), prior.copy()
    snapshots = []
    moved_since: list[set[int]] = []
    for sweep in range(int(rng.integers(2, 60))):
        if rng.uniform() < 0.4 or sweep < 2:
            gap = max(0.0, gap_of(XB, y, C * weights, w, alpha, loss)) + 1e-10 * (1.0 + U[U < np.inf].sum())
            _, looked, z = looked_at(source, loss, alpha.copy(), w, C=C, bias=bias)
            decided = looked.bins >= first_bin(np.sqrt(2.0 * gap))
            snapshots.append((np.flatnonzero(decided), np.sign(z), gap, w.copy()))
            moved_since.append(set())
        for i in rng.permutation(40):
            if weights[i] == 0.0:
                continue
            g = y[i] * (XB[i] @ w) - 1.0 + D[i] * alpha[i]
            q = XB[i] @ XB[i] + D[i]
            new = min(max(alpha[i] - g / q, 0.0), U[i]) if q > 0.0 else U[i]
            if new != alpha[i]:
                for moved in moved_since:
                    moved.add(i)
                w = w + (new - alpha[i]) * y[i] * XB[i]
                alpha[i] = new
            for (_, _, gap, start), _ in zip(snapshots, moved_since, strict=True):
                assert np.linalg.norm(w - start) <= np.sqrt(2.0 * gap)
    for (decided, sign, _, _), moved in zip(snapshots, moved_since, strict=True):
        assert not moved & set(decided.tolist())
        assert np.array_equal(np.sign(XB @ w)[decided], sign[decided])


def gap_of(X, y, C, w, alpha, loss):
    """P(w) - D(alpha) for w = prior + sum alpha y x, as the sum of the rows' shares."""
    z = X @ w
    used = C > 0.0
    suffered = C * np.maximum(0.0, 1.0 - y * z) ** (1 if loss == "hinge" else 2)
    diagonal = 0.0 if loss == "hinge" else np.divide(0.25 * alpha**2, C, out=np.zeros_like(C), where=used)
    return float(np.sum((suffered + diagonal - alpha + alpha * y * z)[used]))


def test_the_bound_is_reached():
    """All of the gap may be the distance between w and w(alpha): then it is sqrt(2 gap), no less."""
    source = Matrix(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]))
    solver = DualCD(Task({"loss": "hinge"}, source))
    w = np.array([2.0, 0.0])
    blocks = [source.read_block(np.array([0]), None)]
    found, _ = certify(solver.problem, w, np.zeros(2), blocks, lambda: False)
    assert np.sqrt(2.0 * (found.primal - found.dual)) == pytest.approx(np.linalg.norm(w))


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge", "logistic"])
def test_distances_are_in_the_bins_of_their_definition(loss):
    X, y = random_rows(n=200, d=20, density=0.3, seed=3)
    rng = np.random.default_rng(5)
    weights = rng.integers(0, 3, 200) / 2.0
    alpha = np.where(rng.uniform(size=200) < 0.5, 0.0, weights)
    free = rng.uniform(size=200) < 0.2
    alpha[free] = 0.5 * weights[free]
    w = rng.normal(size=21)
    block, looked, z = looked_at(Matrix(X, y, weights=weights), loss, alpha, w, bias=0.7)
    norms = np.sqrt(block.sq_norms + 0.49)
    D = np.divide(0.5, weights, out=np.zeros(200), where=weights > 0) if loss == "squared-hinge" else np.zeros(200)
    g = y * z - 1.0 + D * alpha
    beyond = np.where(alpha == 0.0, g, np.where((alpha == weights) & (loss == "hinge"), -g, 0.0))
    beyond = np.minimum(np.maximum(beyond, 0.0), np.abs(z)) / norms
    beyond = np.where(weights == 0.0, np.abs(z) / norms, beyond if loss != "logistic" else 0.0)
    edge = 2.0 ** ((looked.bins.astype(float) - ONE) / PER_OCTAVE)
    some = looked.bins > 0
    assert np.array_equal(some, beyond > 2.0 ** (-ONE / PER_OCTAVE))
    assert (edge[some] <= beyond[some]).all()
    assert (beyond[some] <= edge[some] * 2.0 ** (1.0 / PER_OCTAVE) * (1 + 1e-8)).all()
    assert looked.counts.shape == (BINS, 2)
    np.testing.assert_array_equal(looked.counts[:, 0], np.bincount(looked.bins, minlength=BINS))
    lengths = np.diff(block.indptr)
    np.testing.assert_array_equal(looked.counts[:, 1], np.bincount(looked.bins, lengths, BINS).astype(int))
    for radius in (0.0, 1e-9, 0.3, 1.0, 7.0, 1e9):
        decided = looked.bins >= first_bin(radius)
        assert (beyond[decided] > radius).all()
        assert (beyond[~decided] <= max(radius, 2.0 ** (-ONE / PER_OCTAVE)) * 2.0 ** (2.0 / PER_OCTAVE)).all()


# -- the rows that are kept ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "ones", "weighted", "long rows"])
def test_kept_rows_are_the_rows(tmp_path, kind):
    X, y = random_rows(n=90, d=300, density=0.1, seed=2, ones=kind == "ones", dtype=np.float32)
    text, options = X, {}
    if kind == "weighted":
        pairs = [line.split(maxsplit=1) for line in svmlight(X, y).splitlines()]
        text = "".join(f"{label[0]} {k % 4 / 2} | {(label + [''])[1]}\n" for k, label in enumerate(pairs))
        options = {"format": "vw"}
    length = 16 if kind == "long rows" else 256
    store = make_store(tmp_path, text, y, chunk_nonzeros=length, **options)
    rng = np.random.default_rng(0)
    with open_store(store) as source:
        whole = source.reader().read_block(np.arange(len(source.chunks)), None)
        keep = rng.uniform(size=90) < 0.4
        keep[0] = True

        def pieces():
            for chunks in np.array_split(np.arange(len(source.chunks)), 2):
                block = source.read_block(chunks, None)
                yield block, np.flatnonzero(keep[block.rows]).astype(np.int32)

        n, nnz = int(keep.sum()), int(np.diff(whole.indptr)[keep].sum())
        smaller = smaller_store(source, n, pieces(), tmp_path)
        assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []
        with smaller:
            for kept in (KeptRows(source, n, nnz, pieces()), smaller):
                assert (kept.n_samples, kept.n_nonzeros, kept.n_features) == (n, nnz, source.n_features)
                block = kept.reader().read_block(np.arange(len(kept.chunks)), None)
                assert np.array_equal(block.rows, np.flatnonzero(keep))
                for field in dataclasses.fields(block):
                    found, expected = getattr(block, field.name), getattr(whole, field.name)
                    if field.name in ("y", "sq_norms", "weights") and expected is not None:
                        assert np.array_equal(found, expected[keep])
                    elif field.name == "values":
                        assert (found is None) == (expected is None)
                assert (csr(block) != csr(whole)[np.flatnonzero(keep)]).nnz == 0


# -- runs ----------------------------------------------------------------------------------------------------------


def easy_rows(n=400, d=60):
    """Most rows lie far from the plane."""
    X, _ = random_rows(n=n, d=d, density=0.3, seed=7, zero_rows=0)
    X = X.multiply(1.0 / np.sqrt(X.multiply(X).sum(axis=1))).tocsr()
    y = np.where(X @ np.random.default_rng(7).normal(size=d) > 0.0, 1.0, -1.0)
    return X, y


CASES = {
    "in memory from the start": {"memory": 10**8, "C": 10.0},
    "kept in memory": {"memory": 110_000, "working_set": "0.5", "C": 10.0},
    "in a smaller store": {"memory": 110_000, "working_set": "0.12", "C": 10.0},
    "in a smaller store, fixed blocks": {"memory": 110_000, "working_set": "0.12", "C": 10.0, "partition": "fixed"},
    "squared hinge": {"memory": 110_000, "working_set": "0.12", "C": 10.0, "loss": "squared-hinge"},
    "bias and class weights": {"memory": 110_000, "working_set": "0.5", "C": 10.0, "bias": 1.0,
                               "class_weight": "balanced"},
}  # fmt: skip


@pytest.fixture(scope="module")
def easy(tmp_path_factory):
    X, y = easy_rows()
    return X, y, make_store(tmp_path_factory.mktemp("easy"), X, y, chunk_nonzeros=128, dtype="float64")


@pytest.mark.parametrize("case", CASES)
def test_what_is_left_out_is_in_the_certificate(easy, case):
    X, y, store = easy
    options = {"schedule": "1", "tol": 1e-8, "max_outer": 4000} | CASES[case]
    run = train(store, **options)
    left = [event for event in run.events if event["event"] == "left-out"]
    assert left, "no row was left out"
    assert left[0]["in_memory"] == ("smaller" not in case and case != "squared hinge")
    assert left[0]["rows"] <= 200
    assert run.outer()[-1]["rows_read"] == left[-1]["rows"]
    assert run.result.status == "converged"
    with open_store(store) as source:
        whole = source.read_block(np.arange(len(source.chunks)), None)
        cost = run.loop.plan.solver.problem.cost_by_sign()
    # the figures over all rows, from the alpha and the w that are saved
    bias, loss = options.get("bias", 0.0), options.get("loss", "hinge")
    XB = reference.with_bias(csr(whole), bias)
    C = np.where(whole.y > 0, cost[2], cost[0])
    found = run.result.certificate
    dual = reference.dual(XB, whole.y, run.alpha, C, loss)
    assert found.primal == pytest.approx(reference.primal(XB, whole.y, run.w, C, loss), rel=1e-12)
    assert found.dual == pytest.approx(dual, rel=1e-11)
    assert dual <= found.primal * (1 + 1e-12)
    assert found.rel_gap <= 1e-8
    z = XB @ run.w
    assert found.accuracy == np.mean(np.where(z > 0, 1, -1) == whole.y)
    none = train(store, **options | {"tol": 1e-4, "working_set": "none"}).result.certificate
    assert found.dual <= none.primal
    assert none.dual <= found.primal


@pytest.mark.parametrize("case", ["in memory from the start", "kept in memory", "in a smaller store"])
def test_a_run_that_is_stopped_anywhere_goes_on_to_the_same_bits(tmp_path, easy, case):
    store = easy[2]
    options = {"schedule": "1", "tol": 1e-8} | CASES[case]
    whole = train(store, **options)
    polls_in_all = counted_polls(store, options)
    resumed = 0
    for polls in np.unique(np.linspace(2, polls_in_all - 1, 8).astype(int)).tolist():
        checkpoint = tmp_path / f"{polls}.ckpt"
        first = train(store, checkpoint=checkpoint, stop=stop_after(polls), **options)
        assert first.result.status == "interrupted"
        second = train(store, checkpoint=checkpoint, resume=True, **options)
        assert second.same(whole), f"stopped at question {polls}"
        assert second.result.certificate == whole.result.certificate
        resumed += any(event["event"] == "left-out" for event in first.events)
    assert resumed > 1, "some were stopped after rows had been left out"


def counted_polls(store, options) -> int:
    asked = [0]

    def stop() -> bool:
        asked[0] += 1
        return False

    train(store, stop=stop, **options)
    return asked[0]


def test_a_run_by_the_clock_replays(easy, capsys, tmp_path):
    store = easy[2]
    options = {"schedule": "auto", "tol": 1e-7} | CASES["in a smaller store"]
    run: Run = train(store, **options)
    assert any(event["event"] == "left-out" for event in run.events)
    again = train(store, replay=(run.result.passes, run.result.set_passes), **options)
    assert again.same(run)
    assert again.result.certificate == run.result.certificate
    # at another tolerance other rows are read
    trace = tmp_path / "t.jsonl"
    trace.write_text("".join(json.dumps(e) + "\n" for e in run.events if e["event"] in ("start", "outer", "end")))
    more = ["--memory", "110000", "--working-set", "0.12", "-C", "10", "--replay", trace]
    code, _, err = run_in_process(capsys, train_main, store, tmp_path / "m.h5", "--tol", "1e-3", *more)
    assert code == 2
    assert "is of a run that left out the rows that the gap decides" in err.splitlines()[-1]


def test_nothing_is_left_out_without_a_set_or_for_a_larger_gap(easy):
    store = easy[2]
    for more in ({"working_set": "none", "max_outer": 60}, {"tol": 2e-5}):
        run = train(store, **{"schedule": "1", "tol": 1e-8, "max_outer": 4000} | CASES["kept in memory"] | more)
        assert not any(event["event"] == "left-out" for event in run.events)
        assert run.events[0]["decided_bytes"] is None
        assert "decided rows" not in run.loop.plan.memory()


def test_nothing_is_left_out_where_that_would_take_the_blocks_memory(easy):
    """A run to a small gap wants no more memory than one to a large gap does."""
    X, y, _ = easy
    wide = scipy.sparse.csr_matrix((X.data, X.indices, X.indptr), shape=(X.shape[0], 20_000))
    for budget, screened in ((230_000, False), (10**7, True)):
        run = train(Matrix(wide, y, chunk_rows=np.arange(0, 400, 10)), memory=budget, tol=1e-6, max_outer=2)
        assert ("decided rows" in run.loop.plan.memory()) == screened
        assert sum(run.loop.plan.memory().values()) <= budget


def test_logistic_rows_are_never_decided(easy):
    options = CASES["kept in memory"] | {"loss": "logistic", "tol": 1e-7, "schedule": "1", "max_outer": 4000}
    run = train(easy[2], **options)
    assert run.result.status == "converged"
    assert not any(event["event"] == "left-out" for event in run.events)
    # one certificate was taken to see it
    gaps = [event["rel_gap"] for event in run.outer() if event["rel_gap"] is not None]
    assert sum(gap > 1e-7 for gap in gaps) <= 3


def test_the_command_says_what_it_leaves_out_and_where(easy, tmp_path):
    options = ["--memory", "110000", "--working-set", "0.12", "-C", "10", "--tol", "1e-7", "--schedule", "1"]
    done = command(easy[2], tmp_path / "m.h5", *options, "--temp", tmp_path / "none")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(f"{tmp_path / 'none'}: no such folder; --temp names an existing one")
    done = command(easy[2], tmp_path / "m.h5", *options)
    assert done.returncode == 0
    assert "the gap has decided all but" in done.stderr
    assert "in a smaller store" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["m.h5"]


def test_too_few_decided_rows_are_not_worth_a_reading(easy):
    with open_store(easy[2]) as source:
        solver = DualCD(Task({"loss": "hinge"}, source, working_set=True))
        looked = Screening(solver, source.n_samples, source.n_features, 1.0)
        blocks = train(easy[2], tol=1e-6, max_outer=1, **CASES["kept in memory"]).loop.plan.blocks
        certificate = Certificate(1.0, 1.0 - 0.5 * 2.0 ** (-2 * 4 / PER_OCTAVE), 0.5 ** (1 + 8 / PER_OCTAVE), 1.0)
        first = first_bin(2.0 ** (-4 / PER_OCTAVE) * (1 + 1e-8))
        for share, wanted in ((0.4, 0), (0.6, first)):
            looked.counts[:] = 0
            looked.counts[first] = int(100 * share), int(1000 * share)
            looked.counts[first - 1] = 100 - int(100 * share), 1000 - int(1000 * share)
            assert looked.first_decided(certificate, blocks) == wanted
    assert WORTHWHILE == 0.5
