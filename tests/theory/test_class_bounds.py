"""The bounds of the perceptron and the passive-aggressive learners with several classes and sets of them: against any
u, and by the command."""

from __future__ import annotations

import json
import math
from functools import partial

import numpy as np
import pytest
import reference_online as oracle
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from support.training_cases import make_store, run_in_process

from blocksvm.api.fit import fit
from blocksvm.commands.regret import main as regret_main
from blocksvm.sources.matrix import Matrix
from blocksvm.theory.regret_report import measure_regret

D, K, C = 3, 3, 0.4
numbers = st.integers(-16, 16).map(lambda n: n / 8.0)
vectors = st.lists(numbers, min_size=D, max_size=D)
records = st.lists(st.tuples(vectors, st.sets(st.integers(0, K - 1))), min_size=1, max_size=15)
matrices = st.lists(vectors, min_size=K, max_size=K)


def worst(scores, own):
    """score_r - score_s of the pair that is ranked worst, None of an empty or complete set."""
    inside = np.isin(np.arange(K), sorted(own))
    return None if inside.all() or not inside.any() else scores[inside].min() - scores[~inside].max()


def played(learner, case, rounds):
    """Per round with a pair (x of any length): loss, mistake, tau, squared norm of the direction."""
    dense = oracle.MultiPrototype(partial(oracle.LEARNERS[learner], **case), K, D)
    found = []
    for x, own in rounds:
        before = dense.W.copy()
        z = dense.learn_set(np.array(x), own)
        q = 2.0 * np.dot(x, x)
        if z is not None:
            tau = np.linalg.norm(dense.W - before) / math.sqrt(q) if q else 0.0
            found.append((max(0.0, 1.0 - z), z <= 0.0, tau, q))
    return np.array(found).reshape(-1, 4).T


def of_u(U, rounds):
    margins = [worst(U @ np.array(x), own) for x, own in rounds]
    return np.array([max(0.0, 1.0 - z) for z in margins if z is not None])


@pytest.mark.slow
@given(records, matrices)
def test_bounds_hold_against_any_u(rounds, U):
    """Lemma 1 and Theorems 2 to 5 of Crammer et al. 2006, and the perceptron's, with the squared norm 2 ||x||^2."""
    U = np.array(U)
    own, norm = of_u(U, rounds), (U**2).sum()
    for learner, case in (("pa", {}), ("pa1", {"C": C}), ("pa2", {"C": C})):
        loss, mistake, tau, q = played(learner, case, rounds)
        R2 = q.max(initial=0.0)
        assert (tau * (2 * loss - tau * q - 2 * own)).sum() <= norm + 1e-9 * (1 + norm)
        if learner == "pa" and not own.any():
            assert (loss**2).sum() <= R2 * norm * (1 + 1e-9) + 1e-9
        if learner == "pa1" and (q > 0.0).all():
            assert mistake.sum() <= max(R2, 1 / C) * (norm + 2 * C * own.sum()) * (1 + 1e-9) + 1e-9
        if learner == "pa2":
            # a row of zeros takes no step, and has its loss of 1 with any u
            assert (loss[q > 0] ** 2).sum() <= (R2 + 0.5 / C) * (norm + 2 * C * (own**2).sum()) * (1 + 1e-9) + 1e-9
    loss, mistake, _, q = played("perceptron", {}, rounds)
    M = mistake.sum()
    assert M - own.sum() <= math.sqrt(q.max(initial=0.0) * norm * M) + 1e-9


@pytest.mark.slow
@given(records, matrices)
def test_rows_of_one_length(rounds, U):
    """Theorem 3 with directions of squared norm 1: sum l^2 <= (||u|| + 2 sqrt(sum l*^2))^2."""
    rounds = [(np.array(x) / (math.sqrt(2.0) * np.linalg.norm(x)), own) for x, own in rounds if any(x)]
    loss, _, _, _ = played("pa", {}, rounds)
    own, norm = of_u(np.array(U), rounds), np.linalg.norm(U)
    assert (loss**2).sum() <= (norm + 2 * math.sqrt((own**2).sum())) ** 2 * (1 + 1e-9) + 1e-9


def classes(n=120, k=4, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((n, 6)) * (rng.random((n, 6)) < 0.7), 3)
    X[np.arange(n), rng.integers(0, 6, n)] += 1.0
    return X, np.argmax(X @ rng.standard_normal((6, k)) + noise * rng.standard_normal((n, k)), axis=1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learner", "case"), [("perceptron", {}), ("pa", {}), ("pa1", {"C": 0.3}), ("pa2", {"C": 0.3})]
)
def test_what_regret_measures(learner, case):
    X, y = classes()
    found = measure_regret(Matrix(scipy.sparse.csr_matrix(X), y), learner, **case)
    dense = oracle.MultiPrototype(partial(oracle.LEARNERS[learner], **case), 4, 6)
    losses = [max(0.0, 1.0 - dense.learn_set(x, {c})) for x, c in zip(X, y, strict=True)]
    assert found.run.judged[-1] == pytest.approx(sum(losses), rel=1e-10)
    assert found.run.R[-1] ** 2 == pytest.approx(2.0 * (X**2).sum(axis=1).max(), rel=1e-12)
    # the losses that are measured of u are those that the solver made least
    u = found.comparators[1]
    machine = fit(scipy.sparse.csr_matrix(X), y, C=u.C, multiclass="crammer-singer", tol=1e-7, max_outer=1000)
    least = machine.certificate.dual
    assert least <= 0.5 * u.norm**2 + u.C * u.hinge[-1] <= least * (1.0 + 2e-3)
    assert found.best.judged[-1] < found.run.judged[-1]
    shown = {judged.bound.name: judged for judged in found.bounds}
    assert not any(judged.violated for judged in found.bounds)
    name = {"perceptron": "perceptron, hinge of u", "pa": "PA, lemma", "pa1": "PA-I", "pa2": "PA-II"}[learner]
    assert shown[name].applies
    u = found.best
    if learner == "pa2":
        expected = (found.run.R[-1] ** 2 + 1 / 0.6) * (u.norm**2 + 0.6 * u.hinge_squares[-1])
        assert shown[name].right[-1] <= expected * (1 + 1e-12)
        assert shown[name].measured[-1] == pytest.approx(sum(loss**2 for loss in losses), rel=1e-10)
    if learner == "pa":
        assert not shown["PA, separable"].applies


@pytest.mark.slow
def test_separable_classes_and_the_command(tmp_path, capsys):
    X, y = classes(noise=0.0)
    store = make_store(tmp_path, scipy.sparse.csr_matrix(X), y + 1.0, keep_order=True, dtype="float64")
    for learner, bound in (("pa", "PA, separable"), ("perceptron", "perceptron, separable")):
        path = tmp_path / f"{learner}.json"
        code, out, err = run_in_process(capsys, regret_main, store, "--learner", learner, "--json", path)
        assert code == 0, err
        told = {one["name"]: one for one in json.loads(path.read_text())["bounds"]}
        assert (told[bound]["applies"], told[bound]["violated"]) == (True, False)
        assert "does not apply: ||x|| = 1 fails" in out or learner == "perceptron"
    for options, what in ((("--learner", "arow"), "regret is measured of perceptron, pa, pa1 and pa2"),
                          (("--learner", "ftl"), "regret is measured of perceptron, pa, pa1 and pa2"),
                          (("--learner", "pa", "--max-rows", 50), "with more than two labels all rows")):  # fmt: skip
        code, out, err = run_in_process(capsys, regret_main, store, *options)
        assert (code, what in err.splitlines()[-1]) == (2, True), err
