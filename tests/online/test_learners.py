"""Learners compiled, and as data: settings in every file, rows of different importance, divergence, those of others."""

import json
import math
import mmap
from dataclasses import replace

import numpy as np
import pytest
from support.online_cases import CASES, agree, has_mean, rows, taught
from support.plain_learners import LEARNERS as PLAIN
from support.plain_learners import LOSSES, plain_runner
from support.refused import refused
from support.stream_cases import text_of
from support.training_cases import logged, make_store, random_rows

from blocksvm import Matrix, fit
from blocksvm.base.user_code import by_user
from blocksvm.kernels import inlined
from blocksvm.model.model_file import describe_model
from blocksvm.online import LEARNERS, get_learner
from blocksvm.online.learner import NUMBERS, STEP, WEIGHTS, Learner, Rule, Settings
from blocksvm.online.loops import LOSS_SUM, ROWS, SetTable, loops_of
from blocksvm.online.memory import layout
from blocksvm.online.runner import Runner
from blocksvm.store.descriptions import as_json
from blocksvm.testing import check_learner

pytestmark = pytest.mark.usefixtures("plain_loops")
MAP_NORESERVE = 0x4000  # of Linux; mmap has it from Python 3.14 on
ROUNDED = {"hf-fobos": 1e-12}  # a cube root or a power


@pytest.mark.parametrize("name", LEARNERS)
def test_compiled_it_has_the_bits_of_plain_python(name):
    """But for exponentials and powers, which numpy and the compiler round otherwise."""
    (X, y), case, found = rows(n=60, d=15, density=0.4), CASES[name][0], []
    runner = Runner(name, case, {}, average=has_mean(name, case))
    for loops in (loops_of(runner.learner.rule), runner.loops):  # compiled, and not
        runner.loops = loops
        found.append(taught(runner, X, y))
    tolerance = ROUNDED.get(name, 1e-12 if {"loss", "mirror", "p"} & set(case) else 0.0)
    for what in ("columns", "scalars", "tally"):
        agree(*(getattr(state, what) for state, _, _ in found), tolerance)
    agree(found[0][2], found[1][2], tolerance)
    assert found[0][2].any()


def test_classes_times_features_may_exceed_two_to_the_31():
    """In 26 GB of memory that is promised by nobody, of which some pages are used."""
    d, k = (1 << 30) + 5, 3
    runner = Runner("perceptron", {}, {}, n_classes=k, rule="prototype")
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE
    columns = np.frombuffer(mmap.mmap(-1, 8 * k * (d + 1), flags), np.float64)
    runner.loops, state = loops_of(runner.learner.rule), runner.new_state(0)
    state.columns = columns
    matrix = np.array([0, 2], np.int64), np.array([3, d - 1], np.int32), np.array([1.0, 2.0], np.float32)
    runner.learn(matrix, np.array([2], np.int16), np.zeros(1, np.int32), d, state)
    right, wrong = 2 * (d + 1), 0
    assert columns[[right + 3, right + d - 1]].tolist() == [1.0, 2.0]
    assert columns[[wrong + 3, wrong + d - 1]].tolist() == [-1.0, -2.0]
    assert columns[d + 1 : 2 * (d + 1) : 1 << 20].sum() == 0.0


GIVEN = [
    ("hf-fobos", ("--p", "inf", "--cap", "2"), {"p": "inf", "cap": 2.0}),
    ("omd", ("--mirror", "p-norm", "--p", "200"), {"mirror": "p-norm", "p": 200.0}),
    ("pa2", ("-C", "1e-40"), {"C": 1e-40}),
    ("cw-var", ("--variance", "1e40"), {"variance": 1e40}),
    ("nag", ("--average",), {"average": True}),
]


@pytest.mark.parametrize(("name", "options", "expected"), GIVEN)
def test_settings_are_in_models_checkpoints_and_logs(tmp_path, name, options, expected, succeeds):
    X, y = random_rows(n=40, seed=3, dtype=np.float32)
    store, text = make_store(tmp_path, X, y), text_of(tmp_path, X, y)
    made = {}
    for command, arguments in (
        ("train", (store, "MODEL", "--solver", name, "--checkpoint", tmp_path / "c", "--log", "LOG")),
        ("stream", (text, "--learner", name, "--model", "MODEL", "--log", "LOG")),
    ):
        names = {"MODEL": tmp_path / f"{command}.h5", "LOG": tmp_path / f"{command}.jsonl"}
        arguments = [names.get(one, one) for one in arguments]
        succeeds(command, *arguments, *options)
        assert logged(names["LOG"])[0]["event"] == "start"
        made[command] = json.loads(succeeds("info", names["MODEL"], "--json").out)["method"]
        assert as_json(describe_model(names["MODEL"]).method) == made[command]
    assert made["train"] == made["stream"]
    assert expected.items() <= made["train"]["settings"].items()
    succeeds("train", store, tmp_path / "again.h5", "--solver", name, *options, "--checkpoint", tmp_path / "c",
        "--resume", "--max-outer", 2)  # fmt: skip


WEIGHED = [name for name in LEARNERS if WEIGHTS in get_learner(name).takes]
OF_A_SETTING = {name: ("C", 1.0) for name in ("pa1", "pa2", "scw1", "scw2")} | {
    "arow": ("r", -1.0),
    "perceptron": ("step", 1.0),
    "perceptron-bias": ("step", 1.0),
}
IMPORTANCES = (0.0, 0.3, 1.0, 7.0)


def of_rows(name, given, X, y, weights, average=False):
    """(state, scores before learning, weights) after all rows, in plain Python."""
    runner = plain_runner(name, given, {"n_features": X.shape[1]}, average=average)
    return taught(runner, X, y, dtype=np.float64, weights=weights)


@pytest.mark.parametrize("name", LEARNERS)
def test_importance_multiplies_the_loss_of_a_row(name):
    X, y = rows(n=120, d=15, seed=2)
    given = CASES[name][0]
    if name not in WEIGHED:
        refused(f"{name}: does not support weights of rows; leave", of_rows, name, given, X, y, np.ones(len(y)))
        return
    plain, even = (of_rows(name, given, X, y, weights)[0] for weights in (None, np.ones(len(y))))
    for what in ("columns", "scalars", "tally"):
        assert np.array_equal(getattr(plain, what), getattr(even, what))
    weights = np.random.default_rng(3).choice(IMPORTANCES, len(y))
    state, scores, _ = of_rows(name, given, X, y, weights)
    assert state.tally[ROWS] == len(y)
    loss = LOSSES[given.get("loss", "hinge")]
    suffered = sum(h * loss(z, label)[0] for z, label, h in zip(scores, y, weights, strict=True))
    assert state.tally[LOSS_SUM] == pytest.approx(suffered, rel=1e-9)


@pytest.mark.parametrize("name", OF_A_SETTING)
def test_the_importance_of_a_row_is_that_of_its_setting(name):
    """h C, h step or r / h: each row from the same state."""
    X, y = rows(n=60, d=15, seed=2)
    setting, power = OF_A_SETTING[name]
    given = {setting: 0.2} | ({"max_norm": 2.0} if name == "perceptron-bias" else {})
    learner = PLAIN[name](15, **given)
    for x, label, h in zip(X, y, np.random.default_rng(3).choice(IMPORTANCES[1:], len(y)), strict=True):
        other = PLAIN[name](15, **given | {setting: 0.2 * h**power})
        other.state.columns[:], other.state.scalars[:] = learner.state.columns, learner.state.scalars
        other.learn(x, label)
        learner.learn(x, label, h)
        np.testing.assert_allclose(learner.state.columns, other.state.columns, rtol=1e-12, atol=1e-15)
    assert learner.w.any()


@pytest.mark.parametrize("name", [name for name in WEIGHED if name not in (*OF_A_SETTING, "nag", "coin", "auto")])
def test_importance_multiplies_a_gradient(name):
    """With the perceptron's loss as a factor of the row does; a row of no importance is as one that is not there."""
    X, y = rows(n=120, d=15, seed=2)
    weights, given = np.random.default_rng(3).choice(IMPORTANCES, len(y)), CASES[name][0] | {"loss": "perceptron"}
    average = has_mean(name, given)
    found, there = of_rows(name, given, X, y, weights, average)[2], weights > 0.0
    expected = of_rows(name, given, weights[there, None] * X[there], y[there], None, average)[2]
    assert found.any()
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_learner_that_diverges_says_so_and_saves_nothing(tmp_path, refusal):
    X, y = random_rows(n=200, seed=4, dtype=np.float32)
    X = X * np.float32(100.0)
    store, text = make_store(tmp_path, X, y), text_of(tmp_path, X, y)
    options = ("--loss", "squared", "--decay", "constant")
    model, figures = tmp_path / "m.h5", tmp_path / "r.json"
    for main, arguments in (
        ("train", (store, model, "--solver", "ogd", *options, "--max-outer", 5)),
        ("stream", (text, "--learner", "ogd", *options, "--model", model)),
        ("regret", (store, "--learner", "ogd", *options, "--json", figures)),
    ):
        last = refusal(main, *arguments)
        assert "ogd: its weights overflowed" in last and "lower --step, or scale the rows" in last
        assert not model.exists() and not figures.exists()
    for bad in (("--bias", "nan"), ("--bias", "inf"), ("--step", "1e308"), ("--step", "nan")):
        for main, arguments in (("train", (store, model, "--solver", "ogd")), ("stream", (text, "--learner", "ogd"))):
            assert bad[0] in refusal(main, *arguments, *bad)


def test_a_score_that_is_none_counts_as_a_loss_that_is_none():
    """Or a hinge loss would hide it: nan is below no margin."""
    runner = plain_runner("ogd", {}, {})
    state = runner.new_state(2)
    state.columns[0] = math.nan
    refused("ogd: its weights overflowed by row 1", taught, runner, np.ones((1, 2)), np.ones(1), state)
    refused("its weights overflowed", runner.weights, state, np.empty(3))


def test_a_learner_from_outside_the_package_is_named_by_its_place():
    by_user(learner="blocksvm.online.rules.gradient:OGD,no.such.module:X,blocksvm.online.rules.gradient:move")
    found = get_learner("blocksvm.online.rules.gradient:OGD")
    assert found is get_learner("ogd")
    for name, what in (
        ("nobody", "nobody: no such learner"),
        ("no.such.module:X", "cannot be imported"),
        ("blocksvm.online.rules.gradient:move", "is not a learner"),
    ):
        refused(what, get_learner, name)


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_declares_all_of_itself(name):
    learner = get_learner(name)
    assert isinstance(learner, Learner) and learner.name == learner.example.split()[0] == name
    assert learner.summary and learner.source


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
    state, order = runner.new_state(D), np.random.default_rng(0).permutation(80)
    state.prior = np.linspace(-0.1, 0.1, (D + 1) * runner.n_vectors)
    state, scores, W = taught(runner, X, y, state, order, sets=sets, weights=weights)
    return W, scores, state.tally


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
def test_it_does_what_the_same_rule_of_the_package_does(y, options):
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


@inlined
def twice(j, memory):
    return 2.0 * memory.columns[j * memory.width]


def test_the_check_finds_a_mean_and_a_score_of_other_weights():
    pa = get_learner("pa")
    with pytest.raises(AssertionError, match="the mean is not"):
        check_learner(pa.like(mean=pa.rule.current))
    with pytest.raises(AssertionError, match="a score is not"):
        check_learner(pa.like(current=twice))


C, EPSILON = 0.3, 0.25
KINDS = {"pa": {}, "pa1": {"C": C}, "pa2": {"C": C}}
LARGE = 1e9  # of C, in the place of infinity: no step is as long
SAME = [  # the learner, loss and C of the batch problem whose step it is
    ("pa1", "hinge", C), ("pa2", "squared-hinge", C), ("pa", "hinge", LARGE),
    ("pa1", "epsilon-insensitive", C), ("pa2", "squared-epsilon-insensitive", C), ("pa", "epsilon-insensitive", LARGE),
]  # fmt: skip


@pytest.mark.parametrize("block_chunks", [1, 40])
@pytest.mark.parametrize(("kind", "loss", "cost"), SAME)
def test_the_first_reading_of_dual_coordinate_descent_is_an_epoch_of_the_learner(kind, loss, cost, block_chunks):
    """Every dual variable begins at 0, so one pass over the rows in their order makes PA's steps."""
    X, y = random_rows(n=40, seed=12)
    real = "epsilon" in loss
    more = {"epsilon": EPSILON} if real else {}
    source = Matrix(X, np.random.default_rng(13).standard_normal(40) if real else y, chunk_rows=np.arange(40))
    own = KINDS[kind] | ({"targets": "numbers"} if real else {}) | more
    online = fit(source, learner=kind, order="stored", max_outer=1, **own)
    batch = fit(source, C=cost, loss=loss, order="stored", max_outer=1, tol=0.0, schedule="1", working_set="none",
                block_chunks=block_chunks, **more)  # fmt: skip
    assert batch.status == "max-outer"
    np.testing.assert_allclose(batch.model.weights, online.model.weights, rtol=1e-9, atol=1e-12)
