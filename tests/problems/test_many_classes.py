"""Many classes: one against the others, each problem that of two classes whatever the others do; and Crammer and
Singer's machine; their passes, certificates and optima."""

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from reference_losses import dual_of, primal_of
from scipy import sparse
from support.class_cases import CHUNKS, D, K, N, classes
from support.refused import refused
from support.training_cases import logged, looped, make_pass, make_store, train

from blocksvm import Matrix, fit, load_model
from blocksvm.problems.crammer_singer_kernels import best_row, row_state
from blocksvm.solvers.dual_cd import CrammerSingerCD, DualCD
from blocksvm.solvers.solver import Task, Visit

LOSSES = ("hinge", "squared-hinge", "logistic")
RULE = {"multiclass": "crammer-singer"}


@pytest.fixture(scope="module")
def rows():
    """One of them has no entry."""
    X, y = classes(seed=4)
    X = X.tolil()
    X[7] = 0.0
    return X.tocsr(), y


def side(y, c):
    return np.where(y == c, 1.0, -1.0)


def begun(make, settings, X, y, weights=None, bias=0.0):
    """(solver, its state at the start, the block of all rows)."""
    source = Matrix(X, y, weights=weights)
    solver = make(Task(settings, source, bias=bias, working_set=True))
    state = {a.name: np.zeros(a.shape(D, N), a.dtype) for a in solver.state_arrays}
    solver.start(state)
    return solver, state, source.read_block(np.array([0]), None)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
@pytest.mark.parametrize(("K", "ended"), [(4, ()), (4, (1,)), (4, (0, 2, 3)), (11, (1, 9)), (18, tuple(range(8, 16)))])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_pass_is_each_problem_s_own_pass(loss, K, ended, weighted):
    """With some problems at their end, few of them, most or all of a lane: they stay as they are."""
    X, y = classes(k=K)
    weights = np.random.default_rng(1).integers(0, 3, N) / 2.0 if weighted else None
    solver, state, block = begun(DualCD, {"loss": loss, "C": 0.7}, X, y, weights, 0.5)
    state["certified"].reshape(K, 4)[list(ended)] = 0.0
    state["scale"][:] = np.resize((1.0, 2.0, 0.5, 3.0), K)
    XB, W, A = reference.with_bias(X, 0.5).toarray(), np.zeros((K, D + 1)), np.zeros((K, N))
    C_rows = 0.7 * (np.ones(N) if weights is None else weights)
    live = [c for c in range(K) if c not in ended]
    for k in range(4):
        order = np.random.default_rng(k).permutation(N)
        before = A.copy()
        done = make_pass(solver, block, state, Visit(), order)
        state["rest"][:] = 0
        suffered, there = 0.0, C_rows > 0
        for c in live:
            kept = order[there[order]]
            rows, passed = (XB[kept], side(y, c)[kept]), [np.arange(len(kept))]
            W[c], A[c][kept], told = reference.dual_cd_visit(*rows, W[c], A[c][kept], C_rows[kept], loss, passed)
            suffered += told["loss_sum"]
        np.testing.assert_allclose(state["alpha"], A.T, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(state["w"][:, :K], W.T, rtol=1e-9, atol=1e-12)
        assert done.loss_sum == pytest.approx(suffered, rel=1e-9)
        old, new = (sum(reference.dual(XB, side(y, c), a[c], C_rows, loss) for c in live) for a in (before, A))
        assert done.gain == pytest.approx(new - old, rel=1e-6, abs=1e-9)
    assert not state["w"][:, [*ended, *range(K, state["w"].shape[1])]].any()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("K", [4, 11])
def test_shares_add_up_to_the_gaps_each_in_units_of_its_problem(loss, K):
    """At w = w(a) the shares of the rows that count are those of the certificate; the others have none of it."""
    X, y = classes(k=K)
    solver, state, block = begun(DualCD, {"loss": loss}, X, y)
    for k in range(3):
        make_pass(solver, block, state, Visit(), np.random.default_rng(k).permutation(N))
    sums = solver.problem_at(state).sums(solver.weights(state, None), solver.prior)
    scores = sums.scores(block)
    np.testing.assert_allclose(scores, X @ state["w"][:-1, :K], atol=1e-12)
    sums.add(scores, block, state["alpha"])
    out = np.empty(N)
    found = sums.certificate().by_class
    for c in range(K):
        state["scale"][:] = 0.0
        state["scale"][c] = 2.0
        solver.shares(block, scores, state, out)
        gap = found["primal"][c] - found["dual"][c]
        assert np.maximum(out, 0.0).sum() == pytest.approx(2.0 * gap, rel=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("working_set", ["auto", "none"])
@pytest.mark.parametrize("blocks", [None, 4])
def test_each_certificate_is_its_own_problem_s(rows, loss, working_set, blocks):
    X, y = rows
    given = {"loss": loss, "C": 0.5, "bias": 1.0, "tol": 1e-6, "max_outer": 5000, "schedule": "3"}
    run = train(Matrix(X, y, chunk_rows=CHUNKS), working_set=working_set, block_chunks=blocks, **given)
    found = run.result.certificate
    assert run.result.status == "converged"
    assert found.rel_gap <= 1e-6
    XB, C_rows = reference.with_bias(X, 1.0).toarray(), np.full(N, 0.5)
    W = run.w.reshape(K, -1)
    for c in range(K):
        alone = train(Matrix(X, side(y, c), chunk_rows=CHUNKS), **given).result.certificate
        primal, dual = found.by_class["primal"][c], found.by_class["dual"][c]
        assert primal - dual <= 1e-6 * primal * (1 + 1e-9)
        assert max(dual, alone.dual) <= min(primal, alone.primal) * (1 + 1e-12)
        if loss != "logistic":
            assert primal == pytest.approx(reference.primal(XB, side(y, c), W[c], C_rows, loss), rel=1e-12)
            assert dual == pytest.approx(reference.dual(XB, side(y, c), run.alpha[:, c], C_rows, loss), rel=1e-10)
    assert found.primal == pytest.approx(sum(found.by_class["primal"]), rel=1e-14)
    assert found.rel_gap == max(found.by_class["rel_gap"])
    assert found.accuracy == np.mean((XB @ W.T).argmax(axis=1) == y)


def test_a_class_that_is_done_is_left_as_it_is(rows):
    X, y = rows
    kept = {}

    def watch(event):
        loop = run.get("loop")
        if event["event"] == "outer" and loop is not None:
            gaps = loop.state["certified"].reshape(K, 4)[:, 2]
            for c in np.flatnonzero(gaps <= 1e-3).tolist():
                own = loop.state["w"][:, c].copy(), loop.state["alpha"][:, c].copy()
                first = kept.setdefault(c, own)
                assert all(np.array_equal(a, b) for a, b in zip(first, own, strict=True))
            seen.append(int((gaps <= 1e-3).sum()))

    run, seen = {}, []
    run["loop"] = looped(
        Matrix(X, y, chunk_rows=CHUNKS), on_event=watch, tol=1e-3, block_chunks=3, max_outer=5000, schedule="1",
        class_weight={3.0: 300.0},
    )  # fmt: skip
    result = run["loop"].run()
    assert result.status == "converged"
    assert any(0 < done < K for done in seen)  # not all at once


def test_a_smaller_tolerance_takes_up_the_classes_again_that_were_done(rows, tmp_path):
    X, y = rows
    kept = tmp_path / "run.ckpt"
    run = {"checkpoint": kept, "block_chunks": 4, "schedule": "2", "max_outer": 3000}
    assert train(Matrix(X, y, chunk_rows=CHUNKS), tol=1e-2, **run).result.status == "converged"
    again = train(Matrix(X, y, chunk_rows=CHUNKS), tol=1e-5, resume=True, **run)
    assert again.result.status == "converged"
    assert max(again.result.certificate.by_class["rel_gap"]) <= 1e-5


def test_weights_of_classes_and_rows(rows):
    """LIBLINEAR's: a class's weight is that of its rows in its own problem; balanced: both sides weigh the same."""
    X, y = rows
    weights = np.random.default_rng(0).integers(0, 3, N) / 2.0
    XB = reference.with_bias(X, 1.0).toarray()
    run = {"bias": 1.0, "tol": 1e-4, "schedule": "5", "max_outer": 2000}
    for chosen in ({1.0: 3.0, 2.0: 0.5}, "balanced"):
        found = train(Matrix(X, y, weights=weights), class_weight=chosen, **run)
        for c in range(K):
            positive = y == c
            factor = np.where(positive, 1.0 if chosen == "balanced" else chosen.get(float(c), 1.0), 1.0)
            if chosen == "balanced":
                total, own = weights.sum(), weights[positive].sum()
                factor = np.where(positive, 0.5 * total / own, 0.5 * total / (total - own))
            primal = reference.primal(XB, side(y, c), found.w.reshape(K, -1)[c], factor * weights, "hinge")
            assert found.result.certificate.by_class["primal"][c] == pytest.approx(primal, rel=1e-12)


def test_from_the_store_to_predictions(rows, tmp_path, succeeds):
    X, y = rows
    store = make_store(tmp_path, X, y, chunk_nonzeros=64, dtype="float64")
    trace = tmp_path / "t.jsonl"
    err = succeeds("train", store, tmp_path / "m.h5", "--tol", "1e-4", "--log", trace).err
    assert load_model(tmp_path / "m.h5").labels == (0.0, 1.0, 2.0, 3.0)
    assert "4 classes, each against the others" in err
    outers = logged(trace)
    assert outers[-2]["classes_done"] == 4
    assert len(outers[-1]["by_class"]["rel_gap"]) == 4
    _, out, err = succeeds("predict", tmp_path / "m.h5", tmp_path / "rows.svm")
    right = np.mean(np.array(out.split(), dtype=float) == y)
    assert f"accuracy {right:.6f}" in err
    assert "of 4 problems, the largest relative gap" in succeeds("info", tmp_path / "m.h5").out
    names = np.array(["pear", "apple", "fig", "kiwi"])
    in_python = fit(X, names[y], tol=1e-4).model
    assert in_python.labels == ("apple", "fig", "kiwi", "pear")
    assert np.mean(in_python.predict(X) == names[y]) == pytest.approx(right, abs=0.02)


def test_the_memory_for_all_classes_is_told_and_kept_to():
    X = sparse.random(40, 100_000, 0.001, format="csr", random_state=0)
    y = np.arange(40) % 20
    refused("weights", fit, X, y, memory=10_000_000)
    run = train(Matrix(X, y), memory=30_000_000)
    # three cache lines a feature
    assert run.result.memory["weights"] == 8 * 24 * 100_001
    assert sum(run.result.memory.values()) <= 30_000_000


numbers = st.integers(-40, 40).map(lambda n: n / 8)


@pytest.mark.slow
@given(st.data())
def test_a_row_s_own_best(data):
    """No feasible a is better: the projected gradient is 0 there, and so is the share of the gap, at the new v."""
    k = data.draw(st.integers(2, 6))
    v = np.array(data.draw(st.lists(numbers, min_size=k, max_size=k)))
    y, c = data.draw(st.integers(0, k - 1)), data.draw(st.sampled_from([0.1, 1.0, 7.0]))
    q = data.draw(st.sampled_from([0.01, 1.0, 50.0]))
    parts = np.array(data.draw(st.lists(st.integers(0, 3), min_size=k, max_size=k)), dtype=float)
    parts[y] = 0.0
    a = -parts * (c / max(1.0, parts.sum())) * data.draw(st.sampled_from([0.0, 0.5, 1.0]))
    a[y] = -a.sum()
    new, edges = np.empty(k), np.empty(k)
    best_row(v, a, y, c, q, edges, new)
    bound = np.where(np.arange(k) == y, c, 0.0)
    assert (new <= bound).all()
    assert abs(new.sum()) <= 1e-12 * max(1.0, np.abs(new).max()) * k
    after = v + q * (new - a)
    _, share, projected, _ = row_state(after, new, y, c)
    scale = 1.0 + np.abs(after).max()
    assert share <= 1e-9 * c * scale * k
    assert projected <= 1e-6 * scale or share <= 1e-12


@pytest.mark.parametrize("weighted", [False, True])
def test_a_pass_is_the_paper_s(rows, weighted):
    X, y = rows
    weights = np.random.default_rng(1).integers(0, 3, N) / 2.0 if weighted else None
    solver, state, block = begun(CrammerSingerCD, {"C": 0.7, **RULE}, X, y, weights, 0.5)
    XB, W, A = reference.with_bias(X, 0.5).toarray(), np.zeros((K, D + 1)), np.zeros((N, K))
    C_rows = 0.7 * (np.ones(N) if weights is None else weights)
    for number in range(4):
        order = np.random.default_rng(number).permutation(N).astype(np.int32)
        before = reference.crammer_singer_dual(XB, y, A)
        reference.crammer_singer_pass(XB, y, A, W, order, C_rows)
        done = make_pass(solver, block, state, Visit(), order)
        state["rest"][:] = 0
        np.testing.assert_allclose(state["alpha"], A, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(state["w"], W.T, rtol=1e-8, atol=1e-9)
        assert done.gain == pytest.approx(reference.crammer_singer_dual(XB, y, A) - before, rel=1e-7, abs=1e-9)
    assert solver.estimates(state, 0.0, 0.0)[1] == pytest.approx(reference.crammer_singer_dual(XB, y, A), rel=1e-9)


def test_a_row_without_entries_has_its_best_a(rows):
    X, y = rows
    run = train(Matrix(X, y), tol=1e-5, max_outer=3000, schedule="3", **RULE)
    assert run.alpha[7, y[7]] == 1.0
    assert run.alpha[7].sum() == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("C", [0.05, 1.0])
@pytest.mark.parametrize("working_set", ["auto", "none"])
@pytest.mark.parametrize("blocks", [None, 4])
def test_the_certificate_is_that_of_the_formulas_and_the_optimum_liblinear_s(rows, C, working_set, blocks):
    X, y = rows
    weights = np.random.default_rng(0).integers(0, 3, N) / 2.0
    source = Matrix(X, y, weights=weights, chunk_rows=CHUNKS)
    given = {"C": C, "bias": 1.0, "tol": 1e-6, "max_outer": 9000, "schedule": "4", **RULE}
    run = train(source, working_set=working_set, block_chunks=blocks, **given)
    found, XB, W = run.result.certificate, reference.with_bias(X, 1.0).toarray(), run.w.reshape(K, -1)
    assert run.result.status == "converged"
    assert found.primal == pytest.approx(reference.crammer_singer_primal(XB, y, W, C * weights), rel=1e-12)
    assert found.dual == pytest.approx(reference.crammer_singer_dual(XB, y, run.alpha), rel=1e-9)
    assert found.by_class is None
    assert found.accuracy == np.mean((XB @ W.T).argmax(axis=1) == y)
    bound = np.where(np.arange(K) == y[:, None], (C * weights)[:, None], 0.0)
    assert (run.alpha <= bound).all()
    np.testing.assert_allclose(run.alpha.sum(axis=1), 0.0, atol=1e-12)


@pytest.mark.parametrize("rule", [{}, RULE], ids=["rest", "crammer-singer"])
def test_towards_a_prior_model_and_with_weights_of_classes(rows, tmp_path, rule):
    """Each against the others is a prior of either."""
    (X, y), model = rows, tmp_path / "prior.h5"
    fit(X, y, tol=1e-1, bias=1.0).save(model)
    prior, XB = load_model(model), reference.with_bias(X, 1.0).toarray()
    W0 = np.hstack([prior.weights, prior.intercept[:, None]])
    given = {"bias": 1.0, "C": 0.02, "tol": 1e-5, "schedule": "5", "max_outer": 4000, "class_weight": {1.0: 4.0}}
    run = train(Matrix(X, y), prior=model, **given, **rule)
    found, W = run.result.certificate, run.w.reshape(K, -1)
    assert run.result.status == "converged"
    if rule:
        primal = reference.crammer_singer_primal(XB, y, W, np.where(y == 1, 0.08, 0.02), W0)
        dual = reference.crammer_singer_dual(XB, y, run.alpha, W0)
    else:
        costs = [np.where((y == 1) & (c == 1), 0.08, 0.02) for c in range(K)]
        primal = sum(primal_of("hinge", XB, side(y, c), W[c], costs[c], (), W0[c]) for c in range(K))
        dual = sum(dual_of("hinge", XB, side(y, c), run.alpha[:, c], costs[c], (), W0[c]) for c in range(K))
    assert found.primal == pytest.approx(primal, rel=1e-12)
    assert found.dual == pytest.approx(dual, rel=1e-9)


@pytest.mark.parametrize(
    ("k", "settings", "expected"),
    [
        (K, {"bias": "free"}, "is for two classes"),
        (K, {"class_weight": {9.0: 2.0}}, "no row has this label"),
        (K, {"multiclass": "all"}, "multiclass"),
        (K, {"solver": "pegasos"}, "has 4 labels"),
        (K, {"C": 1e60}, "beyond what double precision"),
        (K, {"loss": "logistic"} | RULE, "has the hinge loss; leave loss out"),
        (K, {"bias": "free"} | RULE, "is for two classes"),
        (2, {"multiclass": "rest"}, "is for more than two classes"),
        (2, RULE, "is for more than two classes"),
    ],
)
def test_what_cannot_be_is_refused(k, settings, expected):
    refused(expected, fit, *classes(k=k), **settings)
