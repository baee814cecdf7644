"""Certificates: what is known of the gap before all rows are read, and attempts that are broken off by it."""

import math
from fractions import Fraction

import numpy as np
import pytest
import reference
from scipy import sparse
from support.training_cases import random_rows, train
from support.weighted_rows import solver_of

from blocksvm.base.errors import InputError
from blocksvm.losses import get_loss
from blocksvm.problems.problem import Problem
from blocksvm.solvers.dual_cd import DualCD
from blocksvm.sources.matrix import Matrix
from blocksvm.training.certificate import FIRST_RATIO, CertificatePolicy, RejectedEarly, certify, enough_gap
from blocksvm.training.loop import OuterLoop, Watch
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings


@pytest.mark.parametrize("loss", reference.LOSSES)
def test_the_gap_is_a_sum_of_terms_of_the_rows_and_an_attempt_ends_when_they_are_enough(loss):
    X, y = random_rows(n=80, seed=3)
    matrix = Matrix(X, y, chunk_rows=np.arange(0, 80, 4))
    C = np.array([0.7, 1.9])
    rng = np.random.default_rng(1)
    C_rows = C[(y > 0).astype(int)]
    alpha = rng.uniform(0.0, C_rows) * (rng.random(80) < 0.7)
    w = np.append(X.T @ (alpha * y), 0.0)
    problem = Problem(get_loss(loss), C, 0.0, 80, (int((y < 0).sum()), int((y > 0).sum())), get_loss(loss).at({}))
    gap = reference.primal(X, y, w[:-1], C_rows, loss) - reference.dual(X, y, alpha, C_rows, loss)

    def attempt(enough):
        read = []

        def blocks():
            for k in range(len(matrix.chunks)):
                read.append(k)
                yield matrix.read_block(np.array([k]), None)

        return certify(problem.sums(w), alpha, blocks(), lambda: False, enough), len(read)

    (certificate, _), read = attempt(math.inf)
    assert read == 20
    assert certificate.primal - certificate.dual == pytest.approx(gap, rel=1e-10)
    parts = []
    for share in (0.0, 0.2, 0.4, 0.6):
        missed, read = attempt(share * gap)
        assert isinstance(missed, RejectedEarly)
        assert missed.gap > share * gap
        assert missed.share == read / 20 < 1.0
        parts.append((read, missed.gap))
    assert parts == sorted(parts)
    assert parts[-1][1] <= gap * (1 + 1e-12)
    assert not isinstance(attempt(gap * (1 + 1e-9))[0], RejectedEarly)


@pytest.mark.slow
@pytest.mark.parametrize("loss", reference.LOSSES)
def test_attempts_broken_off_change_nothing_but_what_is_read(monkeypatch, loss):
    source = Matrix(*random_rows(n=300, d=40, seed=2), chunk_rows=np.arange(0, 300, 10))
    settings = {"loss": loss, "tol": 1e-3, "schedule": "5", "block_chunks": 5, "max_outer": 500}
    settings |= {"working_set": "none"}  # with one, no reading for a certificate is in vain
    monkeypatch.setattr(CertificatePolicy, "due", lambda *arguments: True)  # the first attempts come too early
    broken_off = train(source, **settings)
    attempts = [event for event in broken_off.events if event["event"] == "certificate"]
    assert min(event["share"] for event in attempts) < 1.0 == attempts[-1]["share"]
    assert broken_off.result.status == "converged"
    # one that is broken off has failed; where the last block decides, it is whole
    for event in attempts[:-1]:
        assert 0.0 < event["share"] <= 1.0
        assert (event["rel_gap"] is None) == (event["share"] < 1.0)
        assert event["rel_gap"] is None or event["rel_gap"] > settings["tol"]
    for event, outer in zip(attempts, broken_off.outer(), strict=True):
        assert event["outer"] == outer["outer"]
        assert (outer["certificates"], outer["certificate_share"]) == (1, event["share"])
        assert outer["rel_gap"] == event["rel_gap"], "nothing has moved since"
    whole = train(source, **(settings | {"tol": 0.0, "max_outer": broken_off.result.outer}))
    assert whole.same(broken_off)
    assert whole.result.certificate == broken_off.result.certificate


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
            assert 0.0 < event["share"] <= 1.0
            own.append(event)
        elif event["event"] == "outer":
            assert {one["outer"] for one in own} <= {event["outer"]}
            assert event["certificates"] == len(own)
            assert event["certificate_share"] == (sum(one["share"] for one in own) if own else None)
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


@pytest.mark.parametrize("tol", [1e-4, 0.3, 0.9])
def test_the_gap_from_which_on_an_attempt_is_in_vain(tol):
    enough = enough_gap(8.0, tol)
    assert enough / (8.0 + enough) == pytest.approx(min(tol, 0.5), rel=1e-5)
    assert enough / (8.0 + enough) > min(tol, 0.5)
    assert enough_gap(None, tol) == enough_gap(0.0, tol) == enough_gap(-1.0, tol) == math.inf


def exact_gap(X, y, w, prior, alpha):
    """(P, D) of the hinge loss with C = 1 in rational arithmetic; w and prior may have more entries than X columns."""
    fractions = [[Fraction(float(v)) for v in row] for row in X.toarray()]
    u = [sum(Fraction(float(a)) * int(label) * row[j] for a, label, row in zip(alpha, y, fractions, strict=True))
         for j in range(X.shape[1])]  # fmt: skip
    w, prior = ([Fraction(float(v)) for v in vector] for vector in (w, prior))
    d = X.shape[1]
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
    X = X.tolil()
    X[:, 5] = 2.0**-20 if known else 0.0
    X = X.tocsr()
    rng = np.random.default_rng(2)
    prior = np.append(0.1 * rng.standard_normal(5), [norm, 0.0])
    alpha = rng.random(40)
    w = prior.copy()
    w[:6] += X.T @ (alpha * y)
    problem = Problem(
        get_loss("hinge"), np.ones(2), 0.0, 40, (int((y < 0).sum()), int((y > 0).sum())), get_loss("hinge").at({})
    )
    blocks = [Matrix(X, y).read_block(np.arange(1), None)]
    found, drift = certify(problem.sums(w, prior), alpha, blocks, lambda: False)
    primal, dual = exact_gap(X, y, w[:6], prior[:6], alpha)
    assert float(primal - dual) > 0.05 * float(primal)
    assert found.primal == pytest.approx(float(primal), rel=1e-6)
    assert found.rel_gap == pytest.approx(float((primal - dual) / primal), rel=1e-6)
    assert found.dual == pytest.approx(float(dual), rel=1e-6)
    assert drift <= 1e-9


@pytest.mark.parametrize("spoiled", ["w", "alpha", "prior"])
@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_what_is_no_number_certifies_nothing(spoiled, number):
    X, y = random_rows(n=30, seed=1)
    alpha = np.full(30, 0.5)
    arrays = {"alpha": alpha, "w": np.append(X.T @ (alpha * y), 0.0), "prior": np.zeros(X.shape[1] + 1)}
    arrays[spoiled][3] = number
    problem = Problem(
        get_loss("hinge"), np.ones(2), 0.0, 30, (int((y < 0).sum()), int((y > 0).sum())), get_loss("hinge").at({})
    )
    blocks = [Matrix(X, y).read_block(np.arange(1), None)]
    with np.errstate(all="ignore"), pytest.raises(InputError, match="no certificate: the sums are not finite numbers"):
        certify(problem.sums(arrays["w"], arrays["prior"]), arrays["alpha"], blocks, lambda: False)
    if spoiled == "w":
        with np.errstate(all="ignore"), pytest.raises(InputError, match="no certificate: the sums are not finite"):
            certify(problem.sums(arrays["w"]), None, blocks, lambda: False)


def test_a_dual_above_the_primal_is_refused():
    """Dual variables outside of their box: twice their bound where the margin is below 1."""
    X, y = random_rows(n=30, seed=1)
    problem = Problem(
        get_loss("hinge"), np.ones(2), 0.0, 30, (int((y < 0).sum()), int((y > 0).sum())), get_loss("hinge").at({})
    )
    alpha = np.full(30, 2.0)
    w = np.append(X.T @ (alpha * y), 0.0) * 1e-3
    blocks = [Matrix(X, y).read_block(np.arange(1), None)]
    with pytest.raises(InputError, match="no certificate: the dual lies .* above the primal"):
        certify(problem.sums(w), alpha, blocks, lambda: False)


def test_a_certificate_belongs_to_the_weights_that_it_was_computed_for(monkeypatch):
    """Weights that drifted are rebuilt before they are certified, and not once more after it."""
    X, y = random_rows(n=60, seed=2)
    rebuild, rebuilt = DualCD.rebuild, []

    def spoiled(self, state, blocks):
        rebuild(self, state, blocks)
        state["w"][0] += 1.0 + len(rebuilt)
        rebuilt.append(state["w"].copy())

    monkeypatch.setattr(DualCD, "rebuild", spoiled)
    inner_pass = DualCD.inner_pass

    def drifting(self, block, state, visit, order):
        result = inner_pass(self, block, state, visit, order)
        state["w"] *= 1.1
        return result

    monkeypatch.setattr(DualCD, "inner_pass", drifting)
    run = train(Matrix(X, y), schedule="1", max_outer=2, tol=0.0)
    assert len(rebuilt) == 1
    expected = reference.primal(X, y, run.w[:-1], np.ones(60), "hinge")
    assert run.result.certificate.primal == pytest.approx(expected, rel=1e-12)


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


def test_the_dual_estimate_is_of_sums_in_a_fixed_order():
    """Row after row: a library's sum depends on the machine's width and threads, and so would what follows from it."""
    X, y = random_rows(n=300, d=20, seed=3)
    matrix = Matrix(X, y, chunk_rows=np.arange(0, 300, 100))
    problem = Problem(get_loss("squared-hinge"), np.array([0.3, 0.7]), 0.0, 300,
                      (int((y < 0).sum()), int((y > 0).sum())), get_loss("squared-hinge").at({}))  # fmt: skip
    solver = solver_of(DualCD, problem)
    state = {a.name: np.zeros(a.shape(20, 300), a.dtype) for a in solver.state_arrays}
    state["alpha"][:] = np.random.default_rng(0).random(300)
    solver.rebuild(state, (matrix.read_block(np.array([k]), None) for k in range(3)))
    total = 0.0
    for rows in np.split(np.arange(300), 3):
        of_block = 0.0
        for i in rows.tolist():
            a = float(state["alpha"][i])
            of_block += a * a / (4.0 * (0.7 if y[i] > 0 else 0.3)) - a
        total += of_block
    assert state["sums"][0] == total


def test_a_visit_after_a_certificate_makes_it_out_of_date(monkeypatch):
    """w and alpha have moved when the time runs out, so the result is certified anew."""
    rng = np.random.default_rng(0)
    X = sparse.random(600, 300, 0.05, format="csr", random_state=1)
    y = np.where(X @ rng.normal(size=300) + 0.1 * rng.normal(size=600) > 0, 1.0, -1.0)
    source = Matrix(X, y, chunk_rows=np.arange(0, 600, 60))
    plan = Plan(source, TrainSettings.of(tol=1e-6, C=10.0, schedule="5", max_outer=500, block_chunks=2))
    certified = []

    def watch(event):
        if event["event"] == "certificate" and event["rel_gap"] is not None:
            certified.append(loop.weights().copy())

    loop = OuterLoop(plan, Watch(watch))
    stopped = loop._stopped
    monkeypatch.setattr(loop, "_stopped", lambda whole=False: "max-seconds" if certified else stopped(whole))
    result = loop.run()
    assert result.status == "max-seconds"
    assert len(certified) == 2, "one in the course of the run, and one of the result"
    assert np.array_equal(certified[1], result.w)
    assert np.abs(result.w - certified[0]).max() > 0.0
    block = source.read_block(np.arange(len(source.chunks)), None)
    found, _ = certify(plan.solver.problem.sums(result.w), loop.state["alpha"], [block], lambda: False)
    assert result.certificate.rel_gap == pytest.approx(found.rel_gap, rel=1e-9)
