"""Certificates: of exactly the weights and dual variables saved, when one is due, and which weights are delivered."""

import json
import math
from fractions import Fraction

import numpy as np
import pytest
import reference
from scipy import sparse
from support.training_cases import assert_resumed, certified, make_store, random_rows, train, two_classes

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.model.model_file import load_model
from blocksvm.sources.matrix import Matrix
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.record import FIRST_RATIO, CertificatePolicy
from blocksvm.training.settings import TrainSettings


@pytest.mark.parametrize("working_set", ["auto", "none"])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_certificates_are_no_outer_iterations(working_set, C):
    """Each is an event of its own; the iteration's line has the figures of the last one if nothing has moved since."""
    source = Matrix(*random_rows(n=300, d=40, seed=2), chunk_rows=np.arange(0, 300, 10))
    run = train(source, C=C, tol=1e-4, block_chunks=5, max_outer=200, working_set=working_set)
    assert run.result.outer == len(run.outer()) == len(run.result.passes) / 6
    own: list[dict] = []
    for event in run.events:
        if event["event"] == "certificate":
            own.append(event)
        elif event["event"] == "outer":
            assert {one["outer"] for one in own} <= {event["outer"]}
            assert event["certificates"] == len(own)
            assert event["rel_gap"] is None or event["rel_gap"] == own[-1]["rel_gap"]
            own = []
    # at the end of a run that a limit has ended one more is taken
    assert len(own) == (run.result.status == "max-outer" and run.outer()[-1]["rel_gap"] is None)


def test_one_is_due_where_the_estimate_times_the_ratio_is_within_the_tolerance():
    policy = CertificatePolicy()
    assert policy.due("rows", 0.99e-3 / FIRST_RATIO, 1e-3, 100.0)
    assert not policy.due("rows", 1.01e-3 / FIRST_RATIO, 1e-3, 100.0)
    assert policy.due("set", 0.99e-3, 1e-3, 100.0) and not policy.due("set", 1.01e-3, 1e-3, 100.0)
    assert not policy.due("rows", None, 1e-3, 0.0), "there is no estimate"
    assert policy.due("rows", -1e-9, 1e-3, 100.0), "rounding"
    assert not policy.due("rows", 1e-9, 0.0, 100.0)


def exact_gap(X, y, w, prior, alpha):
    """(P, D) of the hinge loss with C = 1 in rational arithmetic; w and prior may have more entries than X columns."""
    fractions = [[Fraction(float(v)) for v in row] for row in X.toarray()]
    u = [sum(Fraction(float(a)) * int(label) * row[j] for a, label, row in zip(alpha, y, fractions, strict=True))
         for j in range(X.shape[1])]  # fmt: skip
    w, prior = ([Fraction(float(v)) for v in vector] for vector in (w, prior))
    d = len(u)
    margins = [int(label) * sum(a * b for a, b in zip(row, w[:d], strict=True))
               for label, row in zip(y, fractions, strict=True)]  # fmt: skip
    primal = sum((a - b) ** 2 for a, b in zip(w, prior, strict=True)) / 2 + sum(max(0, 1 - m) for m in margins)
    cross = sum(a * b for a, b in zip(prior[:d], u, strict=True))
    return primal, sum(Fraction(float(a)) for a in alpha) - sum(v * v for v in u) / 2 - cross


@pytest.mark.parametrize("norm", [1.0, 2e8, 1e12])
@pytest.mark.parametrize("known", [False, True])
def test_a_prior_of_a_large_norm_does_not_cancel(norm, known):
    """Its features may be ones that no row has; or all rows have them, of whose scores they are then nearly all."""
    X, y = random_rows(n=40, d=6, seed=4)
    X = sparse.hstack([X[:, :5], np.full((40, 1), 2.0**-20 * known)], "csr")
    X.eliminate_zeros()
    rng = np.random.default_rng(2)
    prior = np.append(0.1 * rng.standard_normal(5), [norm, 0.0])
    alpha = rng.random(40)
    w = prior.copy()
    w[:6] += X.T @ (alpha * y)
    found = certified(two_classes(y), w, alpha, Matrix(X, y), prior)
    primal, dual = exact_gap(X, y, w[:6], prior[:6], alpha)
    assert float(primal - dual) > 0.05 * float(primal)
    assert found.primal == pytest.approx(float(primal), rel=1e-6)
    assert found.rel_gap == pytest.approx(float((primal - dual) / primal), rel=1e-6)
    assert found.dual == pytest.approx(float(dual), rel=1e-6)


@pytest.mark.parametrize("spoiled", ["w", "alpha", "prior"])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_no_number_certifies_nothing(spoiled, number):
    X, y = random_rows(n=30, seed=1)
    alpha = np.full(30, 0.5)
    arrays = {"alpha": alpha, "w": np.append(X.T @ (alpha * y), 0.0), "prior": np.zeros(X.shape[1] + 1)}
    arrays[spoiled][3] = number
    for known in (arrays, {"w": arrays["w"], "alpha": None})[: 1 + (spoiled == "w")]:
        with np.errstate(all="ignore"), pytest.raises(InputError, match="no certificate: the sums are not finite num"):
            certified(two_classes(y), source=Matrix(X, y), **known)


def test_a_dual_above_the_primal_is_refused():
    """Dual variables outside of their box: twice their bound where the margin is below 1."""
    X, y = random_rows(n=30, seed=1)
    alpha = np.full(30, 2.0)
    w = np.append(X.T @ (alpha * y), 0.0) * 1e-3
    with pytest.raises(InputError, match="no certificate: the dual lies .* above the primal"):
        certified(two_classes(y), w, alpha, Matrix(X, y))


@pytest.mark.parametrize(
    "more", [{}, {"loss": "logistic"}, {"bias": "free"}, {"working_set": "none"}, {"C": 5.0}, {"warm": True}]
)
def test_the_rounding_of_w_is_within_its_bound(tmp_path, more):
    """By the difference of w and w(alpha) in rational arithmetic, which is not 0."""
    X, y = random_rows(n=60, d=8, density=0.6, seed=2)
    X.data = np.round(X.data, 2)
    source, own = Matrix(X, y), {"tol": 1e-6, "max_outer": 5000} | {k: v for k, v in more.items() if k != "warm"}
    if "warm" in more:
        own["warm_start"] = tmp_path / "first.h5"
        fit(source, C=0.5, tol=1e-3).save(own["warm_start"])
    run = train(source, **own)
    assert run.result.status == "converged"
    solver, state = run.loop.plan.solver, run.loop.state
    sums = solver.problem_at(state).sums(solver.weights(state, None), solver.prior)
    block = source.read_block(np.arange(1), None)
    sums.add(sums.scores(block), block, state["alpha"].reshape(-1, 1))
    columns = [[Fraction(float(v)) for v in column] for column in X.toarray().T]
    signed = [Fraction(float(a)) * int(label) for a, label in zip(state["alpha"], y, strict=True)]
    exact = [sum(a * v for a, v in zip(signed, column, strict=True)) for column in columns]
    drift = math.sqrt(sum(float(Fraction(float(w)) - v) ** 2 for w, v in zip(state["w"], exact, strict=False)))
    assert 0.0 < drift <= float(sums._rounding_of_w()[0]) < 1e-9
    state["history"][0] = 0.0
    if "warm" not in more:
        assert drift > sums._rounding_of_w()[0]


def test_accuracy_has_one_definition(tmp_path):
    """A score of 0 is the negative class: in certificates, held-out accuracy, of learners, and in predictions."""
    X, y = random_rows(n=80, d=10, seed=6, zero_rows=20)
    y[np.diff(X.indptr) == 0] = np.resize([-1.0, -1.0, 1.0], (np.diff(X.indptr) == 0).sum())
    source = Matrix(X, y)
    for settings in ({"schedule": "3"}, {"solver": "pegasos"}, {"solver": "pa1"}):
        run = train(source, valid=Matrix(X, y), max_outer=2, tol=0.0, **settings)
        expected = np.mean(reference.predict(X, run.w[:-1]) == y)
        assert run.result.certificate.accuracy == expected
        assert run.outer()[-1]["valid_accuracy"] == expected


def test_a_visit_after_a_certificate_makes_it_out_of_date(monkeypatch):
    """w and alpha have moved when the time runs out, so the result is certified anew."""
    rng = np.random.default_rng(0)
    X = sparse.random(600, 300, 0.05, format="csr", random_state=1)
    y = np.where(X @ rng.normal(size=300) + 0.1 * rng.normal(size=600) > 0, 1.0, -1.0)
    source = Matrix(X, y, chunk_rows=np.arange(0, 600, 60))
    plan = Plan(source, TrainSettings.of(tol=1e-6, C=10.0, schedule="5", max_outer=500, block_chunks=2))
    taken = []

    def watch(event):
        if event["event"] == "certificate" and event["rel_gap"] is not None:
            taken.append(loop.weights().copy())

    loop = OuterLoop(plan, watch)
    stopped = loop._stopped
    monkeypatch.setattr(loop, "_stopped", lambda whole=False: "max-seconds" if taken else stopped(whole))
    result = loop.run()
    assert result.status == "max-seconds"
    assert len(taken) == 2, "one in the course of the run, and one of the result"
    assert np.array_equal(taken[1], result.w)
    assert np.abs(result.w - taken[0]).max() > 0.0
    found = certified(plan.solver.problem, result.w, loop.state["alpha"], source)
    assert result.certificate.rel_gap == pytest.approx(found.rel_gap, rel=1e-9)


@pytest.mark.parametrize("with_prior", [False, True])
@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
def test_what_of_the_drift_is_orthogonal_to_w_is_in_the_gap(loss, with_prior):
    """Of weights that are not those of their dual variables, as where changes of several blocks are added."""
    X, y = random_rows(n=80, d=30, seed=4)
    matrix = Matrix(X, y, chunk_rows=np.arange(0, 80, 20))
    rng = np.random.default_rng(2)
    alpha = rng.uniform(0.1, 0.9, 80)
    prior = np.append(0.1 * rng.standard_normal(30), 0.0) if with_prior else None
    w = np.append(X.T @ (alpha * y), 0.0) + (0.0 if prior is None else prior)
    away = np.append(rng.standard_normal(31)[:-1], 0.0)
    away -= w * (away @ w) / (w @ w)
    w += 0.3 * away / np.linalg.norm(away)
    problem = two_classes(y, loss)
    zero = np.zeros(30) if prior is None else prior[:-1]
    dual = reference.dual(X, y, alpha, np.ones(80), loss) - zero @ (X.T @ (alpha * y))
    found = certified(problem, w, alpha, matrix, prior)
    assert found.dual == pytest.approx(dual, rel=1e-10)
    # by the part along w alone, as where w(alpha) is not added up, the dual would be too large
    assert certified(problem, w, alpha, matrix, prior, exact=False).dual > dual + 0.04


CUT = {"C": 1e3, "max_outer": 45, "schedule": "1", "working_set": "none", "tol": 1e-6}  # whose primal rises and falls


@pytest.fixture(scope="module")
def rows():
    return random_rows(n=60, d=8, density=0.6, seed=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory, rows):
    return make_store(tmp_path_factory.mktemp("store"), *rows, chunk_nonzeros=64)


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_the_smallest_certified_primal_is_delivered(rows, bias):
    X, y = rows
    done = train(Matrix(X, y), **CUT, bias=bias)
    certified = [event for event in done.events if event["event"] == "certificate" and event["primal"] is not None]
    primals = [event["primal"] for event in certified]
    assert min(primals) < primals[-1]  # else this test says nothing
    best, result = certified[int(np.argmin(primals))], done.result
    assert (result.status, result.outer_of_weights) == ("max-outer", best["outer"])
    given = result.certificate
    assert (given.primal, given.accuracy, given.dual) == (best["primal"], best["accuracy"], certified[-1]["dual"])
    assert given.rel_gap == (given.primal - given.dual) / given.primal
    assert done.events[-1]["primal"] == given.primal and done.events[-1]["cause"] is not None
    if not bias:
        w, C_rows = done.w[:-1], np.full(len(y), CUT["C"])
        assert given.primal == pytest.approx(reference.primal(X, y, w, C_rows, "hinge"), rel=1e-12)
        dual = reference.dual(X, y, done.alpha, C_rows, "hinge")
        assert given.dual <= dual * (1 + 1e-12) and np.isclose(dual, given.dual, rtol=1e-6)
        assert given.accuracy == np.mean(reference.predict(X, w) == y)


def test_the_weights_are_kept_where_they_are_few_and_only_used_where_they_are_wanted(rows):
    X, y = rows
    done = train(Matrix(X, y), C=0.1)
    assert (done.result.status, done.result.outer_of_weights) == ("converged", None)
    assert done.loop.plan.memory()["best weights"] == 8 * (X.shape[1] + 1)
    assert train(Matrix(X, y), **CUT | {"max_outer": 13}).result.outer_of_weights is None  # the first certificate
    wide = train(Matrix(*random_rows(n=60, d=900, seed=1)), **CUT | {"memory": 200_000, "max_outer": 1}).loop
    assert "best weights" not in wide.plan.memory() and "best" not in [a.name for a in wide.plan.solver.state_arrays]


def test_a_smaller_primal_whose_weights_were_not_kept_is_named(rows):
    X, y = rows
    labels = np.where(np.arange(60) % 3 == 0, 2.0, y)
    done = train(Matrix(X, labels), **CUT)
    primals = {event["outer"]: event["primal"] for event in done.events if event["event"] == "certificate"}
    outer = min(primals, key=primals.get)
    assert primals[outer] < done.result.certificate.primal  # else this test says nothing
    assert f"after outer iteration {outer} had a smaller primal, {primals[outer]:.6g}" in done.result.note
    assert "not kept" not in train(Matrix(X, labels), **CUT | {"max_outer": outer}).result.note


def test_the_model_says_so_and_another_run_begins_from_its_alpha(store, tmp_path, succeeds):
    words = "-C 1e3 --max-outer 45 --schedule 1 --working-set none --tol 1e-6 --seed 2"
    out = succeeds("train", store, tmp_path / "m.h5", *words.split()).out
    meta = load_model(tmp_path / "m.h5").meta
    assert meta.outer_of_weights is not None
    assert f"the weights are those of outer iteration {meta.outer_of_weights}, whose primal" in out
    assert json.loads(succeeds("info", tmp_path / "m.h5", "--json").out)["outer_of_weights"] == meta.outer_of_weights
    # w of alpha is computed anew, so that this dual is that of the alpha
    again = train(store, **CUT | {"max_outer": 1}, warm_start=tmp_path / "m.h5").result
    assert again.certificate.dual >= meta.certificate.dual * (1 - 1e-9)
    # a run that was stopped and resumed delivers the same
    assert_resumed(store, tmp_path, (5, 20, 40), **CUT | {"seed": 2})  # the best is that of iteration 13
