"""Many classes, one against the others: each class's problem is the problem of two classes, whatever the others do."""

import json

import numpy as np
import pytest
import reference
from reference_losses import dual_of, primal_of
from scipy import sparse
from support.class_cases import CHUNKS, D, K, N, classes
from support.training_cases import looped, make_pass, make_store, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.info import main as info_main
from blocksvm.model.model_file import load_model
from blocksvm.predict import main as predict_main
from blocksvm.solvers.dual_cd import DualCD
from blocksvm.solvers.solver import Task, Visit
from blocksvm.sources.matrix import Matrix
from blocksvm.train import main as train_main

LOSSES = ("hinge", "squared-hinge", "logistic")


@pytest.fixture(scope="module")
def rows():
    return classes()


def side(y, c):
    return np.where(y == c, 1.0, -1.0)


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
@pytest.mark.parametrize(("K", "ended"), [(4, ()), (4, (1,)), (4, (0, 2, 3)), (11, (1, 9)), (18, tuple(range(8, 16)))])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_pass_is_each_problem_s_own_pass(loss, K, ended, weighted):
    """With some problems at their end, few of them, most or all of a lane: they stay as they are."""
    X, y = classes(k=K)
    weights = np.random.default_rng(1).integers(0, 3, N) / 2.0 if weighted else None
    source = Matrix(X, y, weights=weights)
    solver = DualCD(Task({"loss": loss, "C": 0.7}, source, bias=0.5, working_set=True))
    state = {a.name: np.zeros(a.shape(D, N), a.dtype) for a in solver.state_arrays}
    solver.start(state)
    state["certified"].reshape(K, 4)[list(ended)] = 0.0
    state["scale"][:] = np.resize((1.0, 2.0, 0.5, 3.0), K)
    block, XB = source.read_block(np.array([0]), None), reference.with_bias(X, 0.5).toarray()
    W, A = np.zeros((K, D + 1)), np.zeros((K, N))
    C_rows = 0.7 * (np.ones(N) if weights is None else weights)
    live = [c for c in range(K) if c not in ended]
    for k in range(4):
        order = np.random.default_rng(k).permutation(N)
        before = W.copy(), A.copy()
        done = make_pass(solver, block, state, Visit(), order)
        state["rest"][:] = 0
        suffered, there = 0.0, C_rows > 0
        for c in live:
            kept = order[there[order]]
            w, a, told = reference.dual_cd_visit(
                XB[kept], side(y, c)[kept], W[c], A[c][kept], C_rows[kept], loss, [np.arange(len(kept))]
            )
            W[c], A[c][kept] = w, a
            suffered += told["loss_sum"]
        np.testing.assert_allclose(state["alpha"], A.T, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(state["w"][:, :K], W.T, rtol=1e-9, atol=1e-12)
        assert done.loss_sum == pytest.approx(suffered, rel=1e-9)
        grown = sum(
            reference.dual(XB, side(y, c), A[c], C_rows, loss)
            - reference.dual(XB, side(y, c), before[1][c], C_rows, loss)
            for c in live
        )
        assert done.gain == pytest.approx(grown, rel=1e-6, abs=1e-9)
    assert not state["w"][:, [*ended, *range(K, state["w"].shape[1])]].any()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("K", [4, 11])
def test_shares_add_up_to_the_gaps_each_in_units_of_its_problem(loss, K):
    """At w = w(a) the shares of the rows that count are those of the certificate; the others have none of it."""
    X, y = classes(k=K)
    source = Matrix(X, y)
    solver = DualCD(Task({"loss": loss}, source, working_set=True))
    state = {a.name: np.zeros(a.shape(D, N), a.dtype) for a in solver.state_arrays}
    solver.start(state)
    block, sums = source.read_block(np.array([0]), None), None
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
    for given in ({1.0: 3.0, 2.0: 0.5}, "balanced"):
        run = train(Matrix(X, y, weights=weights), class_weight=given, bias=1.0, tol=1e-4, schedule="5", max_outer=2000)
        for c in range(K):
            positive = y == c
            factor = np.where(positive, 1.0 if given == "balanced" else given.get(float(c), 1.0), 1.0)
            if given == "balanced":
                total, own = weights.sum(), weights[positive].sum()
                factor = np.where(positive, 0.5 * total / own, 0.5 * total / (total - own))
            primal = reference.primal(XB, side(y, c), run.w.reshape(K, -1)[c], factor * weights, "hinge")
            assert run.result.certificate.by_class["primal"][c] == pytest.approx(primal, rel=1e-12)


def test_towards_a_prior_model(rows, tmp_path):
    X, y = rows
    fit(X, y, tol=1e-1, bias=1.0).save(tmp_path / "prior.h5")
    prior = load_model(tmp_path / "prior.h5")
    W0 = np.hstack([prior.weights, prior.intercept[:, None]])
    run = train(Matrix(X, y), prior=tmp_path / "prior.h5", bias=1.0, C=0.01, tol=1e-5, schedule="5", max_outer=2000)
    W, XB = run.w.reshape(K, -1), reference.with_bias(X, 1.0).toarray()
    for c in range(K):
        given = np.full(N, 0.01), (), W0[c]
        primal = primal_of("hinge", XB, side(y, c), W[c], *given)
        dual = dual_of("hinge", XB, side(y, c), run.alpha[:, c], *given)
        assert run.result.certificate.by_class["primal"][c] == pytest.approx(primal, rel=1e-12)
        assert run.result.certificate.by_class["dual"][c] == pytest.approx(dual, rel=1e-9)
    assert run.result.status == "converged"


def test_from_the_store_to_predictions(rows, tmp_path, succeeds):
    X, y = rows
    store = make_store(tmp_path, X, y, chunk_nonzeros=64, dtype="float64")
    trace = tmp_path / "t.jsonl"
    err = succeeds(train_main, store, tmp_path / "m.h5", "--tol", "1e-4", "--log", trace).err
    assert load_model(tmp_path / "m.h5").labels == (0.0, 1.0, 2.0, 3.0)
    assert "4 classes, each against the others" in err
    outers = [json.loads(line) for line in trace.read_text().splitlines()]
    assert outers[-2]["classes_done"] == 4
    assert len(outers[-1]["by_class"]["rel_gap"]) == 4
    _, out, err = succeeds(predict_main, tmp_path / "m.h5", tmp_path / "rows.svm")
    right = np.mean(np.array(out.split(), dtype=float) == y)
    assert f"accuracy {right:.6f}" in err
    assert "of 4 problems, the largest relative gap" in succeeds(info_main, tmp_path / "m.h5").out
    names = np.array(["pear", "apple", "fig", "kiwi"])
    in_python = fit(X, names[y], tol=1e-4).model
    assert in_python.labels == ("apple", "fig", "kiwi", "pear")
    assert np.mean(in_python.predict(X) == names[y]) == pytest.approx(right, abs=0.02)


def test_the_memory_for_all_classes_is_told_and_kept_to():
    X = sparse.random(40, 100_000, 0.001, format="csr", random_state=0)
    y = np.arange(40) % 20
    with pytest.raises(InputError, match="weights"):
        fit(X, y, memory=10_000_000)
    run = train(Matrix(X, y), memory=30_000_000)
    # three cache lines a feature
    assert run.result.memory["weights"] == 8 * 24 * 100_001
    assert sum(run.result.memory.values()) <= 30_000_000


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({"bias": "free"}, "is for two classes"), ({"class_weight": {9.0: 2.0}}, "no row has this label"),
     ({"multiclass": "all"}, "multiclass"), ({"solver": "pegasos"}, "has 4 labels"),
     ({"C": 1e60}, "beyond what double precision")],
)  # fmt: skip
def test_what_cannot_be_is_refused(rows, settings, expected):
    with pytest.raises(InputError, match=expected):
        fit(*rows, **settings)


@pytest.mark.parametrize("multiclass", ["rest", "crammer-singer"])
def test_two_classes_need_no_rule(multiclass):
    X, y = classes(k=2)
    with pytest.raises(InputError, match="is for more than two classes"):
        fit(X, y, multiclass=multiclass)
