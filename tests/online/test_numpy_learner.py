"""A learner that is a function of numpy arrays, and the check that outsiders run on theirs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.online_cases import agree, csr, rows

from blocksvm.online import get_learner
from blocksvm.online.learner import NUMBERS, STEP, Learner, Rule, Settings
from blocksvm.online.loops import SetTable
from blocksvm.online.memory import layout
from blocksvm.online.runner import Runner
from blocksvm.testing import check_learner

D = 20


def perceptron(w, x, y, z, state):
    return w + state.settings["step"] * state.importance * y * x if y * z <= 0.0 else w


def adagrad(w, x, y, z, state):
    g = -state.importance * y * x * (y * z < 1.0)
    state.squares += g * g
    state.steps += 1.0
    return w - state.settings["step"] * g / (1.0 + np.sqrt(state.squares))


PERCEPTRON = Learner(name="numpy-perceptron", update_numpy=perceptron, settings=Settings((STEP,)))
ADAGRAD = Learner(
    name="numpy-adagrad",
    update_numpy=adagrad,
    settings=Settings((STEP,)),
    rule=Rule(columns=layout("weight", "squares", averaging=("lagged",)), scalars=layout("rounds", "steps")),
    targets={NUMBERS: lambda learner: replace(learner, targets={}, loss="squared")},
)


def learned(learner, y, sets=None, weights=None, **options):
    X, _ = rows(n=80, d=D, density=0.4)
    runner = Runner(learner, {"step": 0.5}, {}, key=3, **options)
    state, scores = runner.new_state(D), np.empty((80, runner.n_vectors) if runner.rule else 80)
    order = np.random.default_rng(0).permutation(80).astype(np.int32)
    state.prior = np.linspace(-0.1, 0.1, (D + 1) * runner.n_vectors)
    runner.learn(csr(X), y, order, D, state, scores=scores, sets=sets, weights=weights)
    return runner.weights(state, np.empty((D + 1) * runner.n_vectors)), scores, state.tally


SIGNS = rows(n=80, d=D, density=0.4)[1].astype(np.int16)
THREE = (np.arange(80) % 3).astype(np.int16)
TABLE = SetTable.of([(0,), (0, 2), (1, 2)])


@pytest.mark.parametrize(
    ("y", "options"),
    [
        (SIGNS, {}),
        (SIGNS, {"average": True, "bias": 0.5, "weights": np.arange(80) % 4 / 2.0}),
        (SIGNS, {"query": 0.3}),
        (THREE, {"n_classes": 3, "average": True}),
        (THREE, {"n_classes": 3, "rule": "rest", "bias": 1.0}),
        (THREE, {"n_classes": 3, "targets": "sets", "sets": TABLE}),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_it_does_what_the_same_rule_does_compiled(y, options):
    for found, expected in zip(learned(PERCEPTRON, y, **options), learned("perceptron", y, **options), strict=True):
        agree(found, expected, 1e-12)


@pytest.mark.parametrize("learner", [PERCEPTRON, ADAGRAD], ids=["perceptron", "adagrad"])
def test_it_keeps_what_a_learner_promises(learner):
    check_learner(learner, {"step": 0.5})
    if learner.targets:
        check_learner(learner, {"step": 0.1}, targets="numbers")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("what", ["nothing was learned", "a number is not finite|overflowed", "one by one"])
def test_the_check_finds_what_is_broken(what):
    calls = []

    def update(w, x, y, z, state):
        calls.append(0)
        return {"n": w, "a": w + np.inf, "o": w + len(calls) * y * x}[what[0]]

    with pytest.raises((AssertionError, ValueError), match=what):
        check_learner(Learner(name="broken", update_numpy=update))


def test_the_check_finds_a_mean_and_a_score_of_other_weights():
    pa = get_learner("pa")
    with pytest.raises(AssertionError, match="the mean is not"):
        check_learner(pa.like(mean=pa.rule.current))
    with pytest.raises(AssertionError, match="a score is not"):
        check_learner(pa.like(current=pa.rule.mean))
