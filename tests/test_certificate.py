"""Certificates: what is known of the gap before all rows are read, and attempts that are broken off by it."""

from __future__ import annotations

import math

import numpy as np
import pytest
import reference
from training_cases import random_rows, train

from blocksvm.problems import get_loss
from blocksvm.problems.problem import Problem
from blocksvm.sources.matrix import Matrix
from blocksvm.training import certificate, certifier
from blocksvm.training.certificate import Attempts, Missed, certify


@pytest.mark.parametrize("loss", reference.LOSSES)
def test_the_gap_is_a_sum_of_terms_of_the_rows_and_an_attempt_ends_when_they_are_enough(loss):
    X, y = random_rows(n=80, seed=3)
    matrix = Matrix(X, y, chunk_rows=np.arange(0, 80, 4))
    C = np.array([0.7, 1.9])
    rng = np.random.default_rng(1)
    C_rows = C[(y > 0).astype(int)]
    alpha = rng.uniform(0.0, C_rows) * (rng.random(80) < 0.7)
    w = np.append(X.T @ (alpha * y), 0.0)
    problem = Problem(get_loss(loss), C, 0.0, 80, (int((y < 0).sum()), int((y > 0).sum())))
    gap = reference.primal(X, y, w[:-1], C_rows, loss) - reference.dual(X, y, alpha, C_rows, loss)

    def attempt(enough):
        read = []

        def blocks():
            for k in range(len(matrix.chunks)):
                read.append(k)
                yield matrix.read_block(np.array([k]), None)

        return certify(problem, w, alpha, blocks(), lambda: False, enough), len(read)

    (certificate, _), read = attempt(math.inf)
    assert read == 20
    assert certificate.primal - certificate.dual == pytest.approx(gap, rel=1e-10)
    parts = []
    for share in (0.0, 0.2, 0.4, 0.6):
        missed, read = attempt(share * gap)
        assert isinstance(missed, Missed)
        assert missed.gap > share * gap
        assert missed.share == read / 20 < 1.0
        parts.append((read, missed.gap))
    assert parts == sorted(parts)
    assert parts[-1][1] <= gap * (1 + 1e-12)
    assert not isinstance(attempt(gap * (1 + 1e-9))[0], Missed)


@pytest.mark.parametrize("loss", reference.LOSSES)
def test_attempts_broken_off_change_nothing_but_what_is_read(monkeypatch, loss):
    source = Matrix(*random_rows(n=300, d=40, seed=2), chunk_rows=np.arange(0, 300, 10))
    settings = {"loss": loss, "tol": 1e-3, "schedule": "5", "block_chunks": 5, "max_outer": 500}
    monkeypatch.setattr(Attempts, "worthwhile", lambda *arguments: True)  # the first attempts come too early
    shares = []

    def watched(*arguments):
        found = certify(*arguments)
        shares.append(found.share if isinstance(found, Missed) else 1.0)
        return found

    monkeypatch.setattr(certifier, "certify", watched)
    broken_off = train(source, **settings)
    assert min(shares) < 1.0 == shares[-1]
    assert broken_off.result.status == "converged"
    # one that is broken off has failed; where the last block decides, it is whole
    for event, share in zip(broken_off.outer()[:-1], shares, strict=False):
        assert (event["rel_gap"] is None) == (share < 1.0)
        assert event["rel_gap"] is None or event["rel_gap"] > settings["tol"]
    whole = train(source, **(settings | {"tol": 0.0, "max_outer": broken_off.result.outer}))
    assert whole.same(broken_off)
    assert whole.result.certificate == broken_off.result.certificate


def test_many_rows_tell_when_an_attempt_is_hopeless(monkeypatch):
    X, y = random_rows(n=200, seed=5, zero_rows=0)
    matrix = Matrix(X, y, chunk_rows=np.arange(0, 200, 10))
    problem = Problem(get_loss("hinge"), np.ones(2), 0.0, 200, (int((y < 0).sum()), int((y > 0).sum())))
    w, alpha = np.zeros(X.shape[1] + 1), np.zeros(200)  # every row has a gap of 1

    def share(enough):
        blocks = (matrix.read_block(np.array([k]), None) for k in range(20))
        found = certify(problem, w, alpha, blocks, lambda: False, enough)
        return found.share if isinstance(found, Missed) else 1.0

    monkeypatch.setattr(certificate, "SAMPLE", 50)
    assert share(200 / certificate.HOPELESS - 1) == 0.25
    assert share(200 / certificate.HOPELESS + 1) > 0.7
    assert share(200) == 1.0


def test_what_a_missed_certificate_has_seen_is_learned():
    attempts = Attempts()
    assert attempts.worthwhile(3, 2e-3, 1e-3)
    attempts.learn(3, 2e-3, 1.8e-3)
    assert not attempts.worthwhile(4, 1.3e-3, 1e-3)
    assert attempts.worthwhile(4, 1.1e-3, 1e-3)
