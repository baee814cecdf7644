"""Rounds of several rows of Pegasos, and what is checked in each round, against slow dense computations."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from support.online_cases import agree
from support.plain_learners import LOSSES
from support.regret_cases import Dense, compared, judged, replayed, sample, slack_of_round

from blocksvm.base.errors import InputError
from blocksvm.online.runner import Runner
from blocksvm.sources.matrix import Matrix
from blocksvm.theory import report
from blocksvm.theory.comparators import Comparator, FixedWeights
from blocksvm.theory.replay import replay_batches
from blocksvm.theory.rows import ReplayRows, log_spaced
from blocksvm.theory.run import Run

PEGASOS = [{"lam": 0.05}, {"lam": 0.05, "unprojected": True}, {"lam": 0.3, "loss": "squared"},
           {"lam": 0.1, "loss": "epsilon-insensitive", "epsilon": 0.3}]  # fmt: skip


def batched(X, y, case, size, chunk_rows=None):
    source = Matrix(scipy.sparse.csr_matrix(X), y, chunk_rows=chunk_rows)
    runner = Runner("pegasos", case, {})
    rows = ReplayRows(source, memory=1 << 40 if chunk_rows is None else 8_000)
    return replay_batches(Run(runner).begin(rows, size * log_spaced(len(y) // size), size), lambda text: None)


@pytest.mark.parametrize("case", PEGASOS, ids=str)
@pytest.mark.parametrize("size", [1, 4, 60])
def test_rounds_of_several_rows_are_the_definition(case, size):
    X, y, plane = sample(n=60, seed=3, noise=0.2, zeros=2)
    run, w = batched(X, y, case, size), np.zeros(X.shape[1])
    loss, lam, T = LOSSES[case.get("loss", "hinge")], case["lam"], len(y)
    at_0 = 2.0 * loss(0.0, 1.0, case.get("epsilon", 0.1))[0] if "loss" in case else 1.0
    radius = math.inf if case.get("unprojected") else math.sqrt(at_0 / lam)
    values, norms, gradients, scores = np.empty(T), np.empty(T), np.empty(T), np.empty(T)
    for start in range(0, T, size):
        part = slice(start, start + size)
        scores[part] = X[part] @ w
        found = [loss(z, label, case.get("epsilon", 0.1)) for z, label in zip(scores[part], y[part], strict=True)]
        values[part] = [value for value, _ in found]
        norms[part] = w @ w
        mean = np.mean([slope * x for (_, slope), x in zip(found, X[part], strict=True)], axis=0)
        gradients[part] = np.sum((lam * w + mean) ** 2)
        t = start // size + 1
        w = (1.0 - 1.0 / t) * w - mean / (lam * t)
        w = w * min(1.0, radius / max(np.linalg.norm(w), 1e-300))
    at = run.times - 1
    agree(run.scores, scores)
    agree(run.loss, np.cumsum(values + lam / 2 * norms)[at])
    agree(run.gradients, gradients)
    # Theorem 1 of Shalev-Shwartz et al. 2011, of the rounds' means
    u = 0.3 * plane
    if run.ball is not None:  # the bounds are about weights there
        u *= min(1.0, 0.9 * run.ball[1] / np.linalg.norm(u))
    made = Comparator(run, FixedWeights("u", np.append(u, 0.0)), X @ u)
    bounds = judged(run, [made])
    R, rounds = np.linalg.norm(X, axis=1).max(), T // size
    largest = {"Pegasos, projected": (math.sqrt(lam) + R) ** 2, "Pegasos, no projection": 4 * R**2,
               "strongly convex, largest gradient": gradients.max()}  # fmt: skip
    told = {name: bound for name, bound in bounds.items() if bound.applies}
    assert {"strongly convex, steps 1 / (lambda t)", "strongly convex, largest gradient"} <= set(told)
    for name, c in largest.items():
        if name in told:
            agree(told[name].right[-1] / size, c * (1 + math.log(rounds)) / (2 * lam))
            agree(told[name].measured[-1], run.loss[-1] - made.loss[-1])


def test_rounds_are_the_same_in_any_blocks_and_of_one_row_those_of_the_learner():
    X, y, _ = sample(n=60, seed=4, noise=0.2)
    whole = batched(X, y, PEGASOS[0], 7)
    for chunk_rows in (np.arange(60), np.arange(0, 60, 11)):
        parts = batched(X, y, PEGASOS[0], 7, chunk_rows)
        assert np.array_equal(parts.scores[:56], whole.scores[:56])
        assert np.array_equal(parts.gradients, whole.gradients)
        assert np.array_equal(parts.penalty, whole.penalty)
    for case in PEGASOS:
        one, plain = batched(X, y, case, 1), replayed(X, y, "pegasos", case)
        agree(one.scores, plain.scores)
        agree(one.loss, plain.loss)
        agree(one.gradients, plain.gradients)


def test_the_report_of_rounds_has_a_certified_comparator():
    X, y, _ = sample(n=83, seed=5, noise=0.2)
    made = report.measure_regret(Matrix(scipy.sparse.csr_matrix(X), y), "pegasos", lam=0.05, batch=8)
    assert made.run.T == 80 and made.run.times.tolist() == [8, 16, 40, 80]
    assert made.best.rel_gap <= 1e-3 and made.described()["batch"] == 8
    assert any("a round is 8 rows" in note for note in made.notes)
    by_name = {one.bound.name: one for one in made.bounds}
    assert by_name["Pegasos, projected"].applies and not any(one.violated for one in made.bounds)
    assert (
        by_name["strongly convex, largest gradient"].right[-1]
        >= (by_name["strongly convex, steps 1 / (lambda t)"].right[-1])
    )


@pytest.mark.parametrize(
    ("name", "case"), [("fobos", {"l1": 0.05, "half_steps": "next"}), ("hf-fobos", {"l1": 0.1, "p": 1.0, "cap": 0.5})]
)
def test_the_inequality_is_checked_in_each_round(name, case):
    X, y, plane = sample(n=50, seed=2, noise=0.1, zeros=3)
    run = replayed(X, y, name, case, np.arange(1, 51))
    dense = Dense(X, y, name, case)
    for u in (plane, 0.0 * plane, 5.0 * plane):
        made = Comparator(run, FixedWeights("u", np.append(u, 0.0)), X @ u)
        each = [slack_of_round(dense, u, case, s) for s in range(50)]
        agree(made.slack, np.minimum.accumulate(each))
        assert made.slack[-1] >= 0.0
    # with nothing for the gradients on the right side the first step from w = 0 alone violates it
    run.sq_norms = np.zeros(50)
    run.settings["l1"] = 1e-9
    wrong = Comparator(run, FixedWeights("u", np.zeros(X.shape[1] + 1)), np.zeros(50))
    one = judged(run, [wrong])["FOBOS, HF-FOBOS: inequality of each round"]
    assert one.violated and wrong.slack[-1] < 0.0


@pytest.mark.slow
def test_what_takes_too_many_steps_is_said():
    X, y, _ = sample(n=20_001, noise=0.1)
    rows = scipy.sparse.csr_matrix(X)
    rows.resize(20_001, 1_000_000)  # most features do not occur
    source = Matrix(rows, y)
    with pytest.raises(InputError, match="takes all 1,000,000 weights in each of 20,001 rounds.* give fewer rows by"):
        report.measure_regret(source, "subgradient", l1=0.1)
    assert report.measure_regret(source, "subgradient", l1=0.1, max_rows=49).run.T == 49


@given(seed=st.integers(0, 10**6), size=st.sampled_from([2, 5, 20]), case=st.sampled_from(PEGASOS),
       scale=st.sampled_from([0.05, 1.0, 20.0]))  # fmt: skip
def test_no_bound_of_rounds_is_violated(seed, size, case, scale):
    X, y, plane = sample(n=60, seed=seed, noise=0.2)
    run = batched(X, y, case, size)
    for u in compared(run, X, scale * plane):
        for name, bound in judged(run, [u]).items():
            assert not bound.violated, name
