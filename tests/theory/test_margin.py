"""The maximum margin: its bounds against a plain solver, rows that no plane separates, the report's figures."""

import csv
import json
import math
import pickle
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import linprog, minimize
from support.refused import refused
from support.training_cases import make_store, svmlight

from blocksvm import Matrix, open_store
from blocksvm.base.memory import TooLittleMemory
from blocksvm.theory import margin
from blocksvm.theory.margin import BINS, SHOWN, Plane, maximum_margin


def plain_margin(X, y, free: bool = True) -> float:
    """max_{w, b} min_i y_i (<w, x_i> + b) / ||w|| by a general solver; -inf where a linear program finds no plane."""
    rows = y[:, None] * np.column_stack([X, np.ones(len(y))]) if free else y[:, None] * X
    feasible = linprog(np.zeros(rows.shape[1]), -rows, -np.ones(len(y)), bounds=(None, None))
    if feasible.status != 0:
        return -math.inf
    d = X.shape[1]
    found = minimize(
        lambda v: 0.5 * v[:d] @ v[:d], feasible.x, jac=lambda v: np.append(v[:d], np.zeros(len(v) - d)),
        constraints={"type": "ineq", "fun": lambda v: rows @ v - 1.0, "jac": lambda v: rows}, method="SLSQP",
        options={"maxiter": 1000, "ftol": 1e-14},
    )  # fmt: skip
    return float((rows @ found.x).min() / np.linalg.norm(found.x[:d]))


def separable_rows(n: int, d: int, seed: int, gap: float = 0.2):
    """Dense rows of two classes apart from each other by a plane that does not go through the origin."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    direction = rng.normal(size=d)
    direction /= np.linalg.norm(direction)
    z = X @ direction + 0.4
    y = np.where(z > 0, 1.0, -1.0)
    X += np.outer(y * gap, direction)
    return X, y


@pytest.mark.parametrize("bias", ["free", 0.0, 0.8])
@pytest.mark.parametrize("seed", range(4))
def test_both_bounds_enclose_the_margin_of_a_plain_solver(bias, seed):
    X, y = separable_rows(60, 6, seed)
    if bias == 0.0:
        y = np.where(X @ np.arange(1.0, 7.0) > 0, 1.0, -1.0)
        X += np.outer(y * 0.1, np.arange(1.0, 7.0))
    report = maximum_margin(Matrix(sparse.csr_matrix(X), y, chunk_rows=range(0, 60, 7)), bias=bias, tol=1e-6)
    extended = np.column_stack([X, np.full(60, bias)]) if isinstance(bias, float) else X
    expected = plain_margin(extended, y, free=bias == "free")
    look = report.look
    assert report.hard and report.settled and report.separable is True
    assert look.lower <= expected * (1 + 1e-9)
    assert look.upper >= expected * (1 - 1e-9)
    assert look.lower >= (1.0 - 1e-6) * look.upper
    # gamma = 1 / ||w|| = (sum alpha)^(-1/2), ||w||^2 = sum alpha
    assert 1.0 / (look.norm * look.scale) == pytest.approx(expected, rel=1e-6)
    # sum alpha = D + 1/2 ||w||^2, and ||w - w*|| <= sqrt(2 gap) <= ||w*|| sqrt(1e-6)
    assert look.sum_alpha**-0.5 == pytest.approx(expected, rel=1e-3)
    assert look.errors == look.at_bound == 0
    assert look.primal_infeasibility <= 1e-12
    assert look.infeasibility == 0.0
    assert look.slackness <= 1e-4 * look.sum_alpha
    assert report.perceptron["mistakes"] <= report.perceptron["bound"]


@pytest.mark.slow
@given(st.integers(0, 2**32 - 1), st.integers(4, 14), st.integers(1, 4))
def test_whatever_the_rows_are_the_bounds_hold(seed, n, d):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(n, d)), 1)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    if rng.random() < 0.6:
        y = np.where(X @ rng.normal(size=d) > 0.1, 1.0, -1.0)
        if len(set(y)) < 2:
            y[0] = -y[0]
    report = maximum_margin(Matrix(sparse.csr_matrix(X), y), tol=1e-3, least_margin=1e-3, epochs=0, max_outer=300)
    expected = plain_margin(X, y)
    assert report.look.upper >= expected * (1 - 1e-9)
    if expected == -math.inf or expected <= 0.0:
        assert report.separable is not True
    if report.separable:
        assert report.look.lower <= expected * (1 + 1e-7)
    if report.separable is False:
        radius = np.linalg.norm(X, axis=1).max()
        assert expected <= 1.1e-3 * radius


@pytest.mark.slow
def test_the_same_out_of_core(tmp_path):
    X, y = separable_rows(300, 12, 5)
    store = store_of(tmp_path, X, y)
    with open_store(store) as source:
        report = maximum_margin(source, tol=1e-5, memory=400_000)
        whole = maximum_margin(source, tol=1e-5)
    assert report.settled and whole.settled
    assert report.gamma == pytest.approx(whole.gamma, rel=1e-5)


def store_of(folder, X, y):
    """A store of text that begins with a comment."""
    text = "# the rows\n" + svmlight(sparse.csr_matrix(X), y)
    return make_store(folder, text, name="s", dtype="float64", chunk_nonzeros=64)


@pytest.mark.parametrize("C", [0.1, 3.0])
@pytest.mark.parametrize("bias", ["free", 0.5])
def test_a_soft_margin_meets_its_conditions(C, bias):
    rng = np.random.default_rng(3)
    X, y = separable_rows(80, 5, 9)
    y[rng.choice(80, 8, replace=False)] *= -1
    source = Matrix(sparse.csr_matrix(X), y, chunk_rows=range(0, 80, 9))
    report = maximum_margin(source, C=C, bias=bias, tol=1e-10, max_outer=20_000, epochs=0)
    look = report.look
    assert report.settled and not report.hard
    assert look.stationarity <= 1e-5
    assert look.slackness <= 1e-4 * C
    assert look.bound_slackness <= 1e-4 * C
    assert look.infeasibility <= 1e-12
    assert look.norm**2 == pytest.approx(look.sum_alpha_slack, rel=1e-5)
    if bias == "free":
        assert look.imbalance <= 1e-12
    assert look.at_zero + look.free + look.at_bound == 80
    assert report.gamma == 1.0 / look.norm


def test_rows_that_differ_in_their_labels_alone_are_found(tmp_path, succeeds):
    X, y = separable_rows(120, 6, 7)
    X[40], y[40], y[90] = X[90], 1.0, -1.0
    store = store_of(tmp_path, X, y)
    with open_store(store) as source:
        report = maximum_margin(source)
        assert report.separable is False and len(report.contradictions) == 1
        pair = report.contradictions[0]
        found = {pair.first: pair.first_label, pair.second: pair.second_label}
        # the text begins with a comment
        assert found == {f"{tmp_path}/s.svm, row 41": 1.0, f"{tmp_path}/s.svm, row 91": -1.0}
    assert report.perceptron["bound"] is None
    out = succeeds("margin", store).out
    assert "separable   no; none has a margin above" in out and "the same but for their labels: " in out
    # without values to compare, too
    ones = (np.random.default_rng(0).random(X.shape) < 0.5).astype(float)
    report = maximum_margin(Matrix(sparse.csr_matrix(np.vstack([ones, ones])), np.concatenate([y, -y])))
    assert report.separable is False and len(report.contradictions) == 5


def test_no_plane_but_no_contradiction_either():
    # four corners of a square, opposite ones alike
    X = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    report = maximum_margin(Matrix(sparse.csr_matrix(X), np.array([1.0, 1.0, -1.0, -1.0])))
    assert report.separable is False
    assert report.contradictions == []
    assert report.look.upper < 1e-3 * math.sqrt(2)


def test_support_vectors_and_the_histogram(tmp_path):
    X, y = separable_rows(200, 5, 11)
    store = store_of(tmp_path, X, y)
    listed = []
    with open_store(store) as source:
        report = maximum_margin(source, tol=1e-6, on_support_vector=listed.append)
    alphas = [one.alpha for one in listed]
    assert [one.alpha for one in report.support] == sorted(alphas, reverse=True)[:SHOWN]
    assert sum(alphas) == pytest.approx(report.look.sum_alpha, rel=1e-9)
    lines = (tmp_path / "s.svm").read_text().splitlines()
    for one in listed:
        name, _, row = one.origin.rpartition(", row ")
        assert name == str(tmp_path / "s.svm")
        assert float(lines[int(row)].split()[0]) == one.label
        assert one.margin >= 1.0 - 1e-9
    w = sum(one.alpha * one.label * X[int(one.origin.rpartition(" ")[2]) - 1] for one in listed)
    margins = y * (X @ w + report.look.bias * report.look.scale)
    np.testing.assert_allclose(margins.min(), 1.0, rtol=1e-4)
    for k, label in enumerate((-1.0, 1.0)):
        own = margins[y == label]
        at_an_edge = np.count_nonzero(np.abs(own[:, None] - BINS).min(axis=1) <= 1e-4)  # as the support vectors are
        assert abs(report.histogram[k] - np.histogram(own, BINS)[0]).sum() <= 2 * at_an_edge < len(own) / 2
        assert report.outside[k].tolist() == [int((own < BINS[0]).sum()), int((own > BINS[-1]).sum())]


def test_a_stop_ends_the_search():
    X, y = separable_rows(100, 5, 13)
    polls = iter(range(10**9))
    assert maximum_margin(Matrix(sparse.csr_matrix(X), y), stop=lambda: next(polls) > 3) is None


def test_a_search_that_may_not_go_on_says_how_far_it_came():
    X, y = separable_rows(100, 20, 14, gap=0.001)
    report = maximum_margin(Matrix(sparse.csr_matrix(X), y), tol=1e-9, max_outer=1, epochs=0)
    assert not report.settled
    assert report.look.lower <= report.look.upper


def test_the_command_writes_what_it_found(tmp_path, succeeds, refusal):
    X, y = separable_rows(150, 5, 15)
    store = store_of(tmp_path, X, y)
    arguments = [store, "--json", tmp_path / "m.json", "--support-vectors", tmp_path / "sv.csv", "--quiet"]
    ended = succeeds("margin", *arguments)
    told = json.loads((tmp_path / "m.json").read_text())
    assert f"{told['look']['lower']:.6g} to {told['look']['upper']:.6g}" in ended.out
    assert "every row lies on its own side" in ended.out
    assert "Novikoff: at most" in ended.out
    rows = list(csv.DictReader((tmp_path / "sv.csv").read_text().splitlines()))
    assert len(rows) == told["look"]["free"]
    assert sum(float(row["alpha"]) for row in rows) == pytest.approx(told["look"]["sum_alpha"])
    assert rows[0]["row"].startswith(f"{tmp_path}/s.svm, row ")
    assert sum(map(sum, told["histogram"]["rows"])) + sum(map(sum, told["histogram"]["outside"])) == 150
    assert "exists already" in refusal("margin", *arguments)
    succeeds("margin", *arguments, "--overwrite", "-C", "1", "--epochs", "0")


def test_what_does_not_fit(tmp_path, monkeypatch, refusal):
    monkeypatch.chdir(tmp_path)
    store = store_of(tmp_path, *separable_rows(30, 3, 18))
    for options, sentence in (
        ("-C 0", "-C 0"),
        ("--tol 1.5", "--tol 1.5"),
        ("--least-margin 0", "--least-margin 0"),
        ("--epochs -1", "--epochs -1"),
        ("--bias no", "--bias no"),
        ("--memory 1kB", "--memory 0.001MB is too small"),
        ("--json nowhere/m.json", "does not exist"),
    ):
        assert sentence in refusal("margin", store, *options.split())


@pytest.mark.parametrize("memory", [1_000, 65_000])
def test_too_little_memory_is_told_with_the_whole_need(memory):
    """And with what the user gave; before and after an exception's way from another process."""
    X, y = separable_rows(300, 40, 18)
    source = Matrix(sparse.csr_matrix(X), y)
    says = rf"^memory={memory:_} is too small: 0.07MB are needed"
    with pytest.raises(TooLittleMemory, match=says) as error_of:
        maximum_margin(source, memory=memory)
    error = pickle.loads(pickle.dumps(error_of.value))
    assert (str(error), error.total) == (str(error_of.value), memory)
    assert error.needs["looking at the plane"] == Plane.n_bytes(source)


def test_labels_that_are_not_two_and_weights(tmp_path):
    X, _ = separable_rows(30, 3, 19)
    refused("has 3 labels", maximum_margin, Matrix(sparse.csr_matrix(X), np.arange(30.0) % 3))
    y = np.where(np.arange(30) % 2, 1.0, -1.0)
    weighted = Matrix(sparse.csr_matrix(X), y, weights=np.linspace(1, 2, 30))
    refused("its rows have weights", maximum_margin, weighted)
    report = maximum_margin(weighted, C=0.5, tol=1e-8, max_outer=5000, epochs=0)
    assert report.look.norm**2 == pytest.approx(report.look.sum_alpha_slack, rel=1e-3)


@pytest.mark.parametrize("C", [None, 1.0])
def test_nothing_of_a_training_is_in_memory_when_the_next_one_begins(C, monkeypatch):
    alone, before = margin.fit, []

    def fit(*arguments, **settings):
        assert not any(one() for one in before)
        fitted = alone(*arguments, **settings)
        before.extend([weakref.ref(fitted), weakref.ref(fitted.plan)])
        return fitted

    monkeypatch.setattr(margin, "fit", fit)
    X, y = separable_rows(60, 6, 0)
    maximum_margin(Matrix(sparse.csr_matrix(X), y), C=C, epochs=3)
    assert len(before) > 2
