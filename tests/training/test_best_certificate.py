"""A run of dual-cd that is cut short delivers the w of the smallest primal that it has certified."""

import json

import numpy as np
import pytest
from support.training_cases import assert_resumed, looped, make_store, opened, random_rows, train

from blocksvm.info import main as info_main
from blocksvm.model.model_file import load_model
from blocksvm.sources.matrix import Matrix
from blocksvm.train import main as train_main

CUT = {"C": 1e3, "max_outer": 45, "schedule": "1", "working_set": "none", "tol": 1e-6}  # whose primal rises and falls


@pytest.fixture(scope="module")
def rows():
    return random_rows(n=60, d=8, density=0.6, seed=1)


@pytest.fixture(scope="module")
def store(tmp_path_factory, rows):
    return make_store(tmp_path_factory.mktemp("store"), *rows, chunk_nonzeros=64)


def figures_of(X, y, C, w, alpha):
    """(P(w), D(alpha), accuracy) of the hinge loss, in plain numpy."""
    w, values = w[:-1], X @ w[:-1]
    of_alpha = X.T @ (alpha * y)
    primal = 0.5 * w @ w + C * np.maximum(0.0, 1.0 - y * values).sum()
    return primal, alpha.sum() - 0.5 * of_alpha @ of_alpha, np.mean(np.where(values > 0, 1, -1) == y)


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
        primal, dual, accuracy = figures_of(X.toarray(), y, CUT["C"], done.w, done.alpha)
        assert np.isclose(primal, given.primal, rtol=1e-12)
        assert given.dual <= dual * (1 + 1e-12) and np.isclose(dual, given.dual, rtol=1e-6)
        assert accuracy == given.accuracy


def test_the_weights_are_kept_where_they_are_few_and_only_used_where_they_are_wanted(rows):
    X, y = rows
    done = train(Matrix(X, y), C=0.1)
    assert (done.result.status, done.result.outer_of_weights) == ("converged", None)
    assert done.loop.plan.memory()["best weights"] == 8 * (X.shape[1] + 1)
    assert train(Matrix(X, y), **CUT | {"max_outer": 13}).result.outer_of_weights is None  # the first certificate
    wide = looped(Matrix(*random_rows(n=60, d=900, seed=1)), **CUT | {"memory": 200_000})
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


def test_a_run_that_was_stopped_and_resumed_delivers_the_same(store, tmp_path):
    settings = CUT | {"seed": 2}  # the best is that of iteration 13
    whole = train(store, **settings)
    assert whole.result.outer_of_weights is not None
    assert_resumed(store, tmp_path, (5, 20, 40), whole, **settings)


def test_the_model_says_so_and_another_run_begins_from_its_alpha(store, tmp_path, succeeds):
    words = "-C 1e3 --max-outer 45 --schedule 1 --working-set none --tol 1e-6 --seed 2"
    out = succeeds(train_main, store, tmp_path / "m.h5", *words.split()).out
    meta = load_model(tmp_path / "m.h5").meta
    assert meta.outer_of_weights is not None
    assert f"the weights are those of outer iteration {meta.outer_of_weights}, whose primal" in out
    assert json.loads(succeeds(info_main, tmp_path / "m.h5", "--json").out)["outer_of_weights"] == meta.outer_of_weights
    # w of alpha is computed anew, so that this dual is that of the alpha
    with opened(store) as source:
        loop = looped(source, **CUT | {"max_outer": 1}, warm_start=tmp_path / "m.h5")
        result = loop.run()
    assert result.certificate.dual >= meta.certificate.dual * (1 - 1e-9)
