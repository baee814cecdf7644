"""Forgetting: what a learner has gathered fades in each round, of all features, whether a row names them or not."""

from __future__ import annotations

import numpy as np
import pytest
import reference_online as oracle
from support.online_cases import CASES, agree, csr, rows
from support.stream_cases import learned, text_of
from support.training_cases import make_store, random_rows, train

from blocksvm.base.errors import InputError
from blocksvm.learners import LEARNERS, get_learner
from blocksvm.learners.engine.runner import Runner
from blocksvm.streaming.stream_saving import save_stream

F = 0.05
# learner -> what fades of the oracle: name -> what it began with
FADES = {
    "perceptron": {"w": 0.0},
    "pa": {"w": 0.0},
    "pa1": {"w": 0.0},
    "pa2": {"w": 0.0},
    "cw-var": {"precision": 5.0},  # 1 / 0.2
    "cw-stdev": {"variance": 0.2},
    "arow": {"variance": 3.0},
    "scw1": {"variance": 1.0},
    "scw2": {"variance": 1.0},
    "nag": {"G": 0.0},
    "coin": {"theta": 0.0, "total": 0.0},
}


class Forgetful:
    """A dense learner whose numbers fade after each round."""

    def __init__(self, learner, fades):
        self.learner, self.fades, self.d = learner, fades, learner.d

    @property
    def w(self):
        return self.learner.w

    def score(self, x):
        return self.learner.score(x)

    def learn(self, x, y):
        self.learner.learn(x, y)
        for name, begun in self.fades.items():
            now = getattr(self.learner, name)
            setattr(self.learner, name, begun + (1.0 - F) * (now - begun))


class ForgetfulAuto(oracle.Auto):
    """Of the two members what they gather fades; so do their charges, before a round adds to them."""

    def learn(self, x, y, h=1.0):
        self.charged = [(1.0 - F) * charge for charge in self.charged]
        super().learn(x, y, h)
        nag, coin = self.members
        nag.G = (1.0 - F) * nag.G
        coin.theta, coin.total = (1.0 - F) * coin.theta, (1.0 - F) * coin.total


def forgetful(name, case, d):
    if name == "auto":
        return ForgetfulAuto(d)
    return Forgetful(oracle.LEARNERS[name](d, **case), FADES[name])


def test_every_learner_with_a_rule_is_tried():
    declared = {name for name in LEARNERS if get_learner(name).fades}
    assert declared == {*FADES, "auto", "perceptron-bias"}


@pytest.mark.parametrize("name", [*FADES, "auto"])
def test_a_forgetful_learner_equals_its_dense_rule(name):
    d, case = 20, CASES[name][-1]
    X, y = rows(n=200, d=d)
    runner = Runner(name, case, {}, forget=F)
    state = runner.new_state(d)
    scores, found = np.empty(len(y)), np.empty(d + 1)
    dense = forgetful(name, case, d)
    before, w, _ = oracle.run(dense, X, y)
    for part in np.array_split(np.arange(len(y), dtype=np.int32), [1, 8, 90]):
        own = np.empty(len(part))
        runner.learn(csr(X), y.astype(np.int16), part, d, state, scores=own)
        scores[part] = own
    agree(scores, before)
    agree(runner.weights(state, found)[:d], w)
    other = Runner(name, case, {})
    without = other.new_state(d)
    other.learn(csr(X), y.astype(np.int16), np.arange(len(y), dtype=np.int32), d, without)
    assert np.abs(other.weights(without, np.empty(d + 1))[:d] - w).max() > 1e-6


@pytest.mark.parametrize("rule", ["prototype", "rest"])
def test_of_several_classes(rule):
    d, k = 15, 3
    X, _ = rows(n=90, d=d, seed=3)
    y = np.arange(90) % k
    runner = Runner("arow", {}, {}, n_classes=k, rule=rule, forget=F)
    state = runner.new_state(d)
    runner.learn(csr(X), y.astype(np.int16), np.arange(len(y), dtype=np.int32), d, state)
    made = {"prototype": oracle.MultiPrototype, "rest": oracle.OneVsRest}[rule]
    fades = {"variance": 1.0}
    dense = made(lambda width: Forgetful(oracle.AROW(width), fades), k, d)
    for x, c in zip(X, y, strict=True):
        dense.learn(x, c)
    agree(runner.weights(state, np.empty(k * (d + 1))).reshape(k, -1)[:, :d], dense.W)


def test_training_streams_and_going_on_agree(tmp_path):
    X, y = random_rows(n=120, d=30, seed=1, dtype=np.float32)
    text = text_of(tmp_path, X, y)
    stream, _ = learned(text, "pa1", forget=0.01)
    store = make_store(tmp_path, X, y, name="store", keep_order=True)
    run = train(store, solver="pa1", order="stored", forget=0.01)
    tally = run.loop.state["tally"]
    np.testing.assert_allclose(stream.leading.state.tally, tally, rtol=1e-9)
    save_stream(tmp_path / "m.h5", stream)
    twice, _ = learned(text, "", continue_from=tmp_path / "m.h5")
    again = train(store, solver="pa1", order="stored", forget=0.01, max_outer=2)
    np.testing.assert_allclose(twice.leading.state.tally, again.loop.state["tally"], rtol=1e-9)


def test_what_drifts_is_followed():
    """Labels that turn round half way: who forgets is right again soon."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4_000, 10))
    y = np.where(X @ rng.standard_normal(10) * np.where(np.arange(4_000) < 2_000, 1.0, -1.0) > 0.0, 1, -1)
    wrong = []
    for forget in (None, 0.02):
        runner = Runner("arow", {}, {}, forget=forget)
        scores, order = np.empty(4_000), np.arange(4_000, dtype=np.int32)
        runner.learn(csr(X), y.astype(np.int16), order, 10, runner.new_state(10), scores=scores)
        wrong.append(np.sum(scores[2_000:] * y[2_000:] <= 0.0))
    assert wrong[1] < 0.25 * wrong[0]


@pytest.mark.parametrize(
    ("name", "options", "what"),
    [
        ("ogd", {"forget": 0.1}, "forget: ogd does not support it"),
        ("pa1", {"forget": 0.1, "average": True}, "average: forget is given, too"),
        ("pa1", {"forget": 1.0}, "forget=1: must be"),
        ("pa1", {"forget": 0.0}, "forget=0: must be"),
    ],
)
def test_what_cannot_be_is_refused(name, options, what):
    with pytest.raises(InputError, match=what):
        Runner(name, {}, {}, **options)
