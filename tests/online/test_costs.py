"""Passive-aggressive learners where predictions cost differently: the rules, the files of costs, the commands."""

import json
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from support.online_cases import agree, learned_in_parts, rows
from support.passive_aggressive import COSTS, costing, played
from support.plain_learners import plain_runner
from support.refused import refused
from support.training_cases import assert_resumed, make_store, run_in_process, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.base.labels import Labels
from blocksvm.info import main as info_main
from blocksvm.model.model_file import describe_model, load_model
from blocksvm.online import loops
from blocksvm.online.costs import COSTS as SETTING
from blocksvm.predict import main as predict_main
from blocksvm.stream import main as stream_main
from blocksvm.train import main as train_main

pytestmark = pytest.mark.usefixtures("plain_loops")

D, K = 12, 4
LEARNERS = ("pa", "pa1", "pa2")


def classes(seed=0, n=150):
    X, _ = rows(n=n, d=D, seed=seed, density=0.5)
    rng = np.random.default_rng(seed)
    return X, np.argmax(X @ rng.standard_normal((D, K)) + 0.5 * rng.standard_normal((n, K)), axis=1)


def plainly(learner, X, y, max_loss):
    """(W, sum of losses, mistakes, cost) by the rule as it is written."""
    W, before, (losses, _, _) = played(learner, 0.3, np.zeros((K, D)), X, y, partial(costing, max_loss=max_loss))
    predicted = np.array([np.argmax(W_t @ x) for W_t, x in zip(before, X, strict=True)])
    return W, losses.sum(), (predicted != y).sum(), COSTS[y, predicted].sum()


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("rule", [None, "prediction", "max-loss"])
def test_the_rule_is_the_published_one(learner, rule):
    X, y = classes()
    W, losses, mistakes, cost = plainly(learner, X, y, rule == "max-loss")
    given = {"costs": COSTS, "cost_rule": rule} | ({} if learner == "pa" else {"C": 0.3})
    runner = plain_runner(learner, given, {}, n_classes=K)
    runner.take_costs(Labels((1.0, 2.0, 3.0, 4.0)))
    state = learned_in_parts(runner, X, y)
    agree(runner.weights(state, np.empty(K * (D + 1))).reshape(K, D + 1)[:, :D], W)
    found = state.tally[[loops.LOSS_SUM, loops.MISTAKES, loops.COST]]
    assert found == pytest.approx([losses, mistakes, cost], rel=1e-10)


def test_a_file_is_a_matrix_as_text_or_npy(tmp_path):
    path, saved = tmp_path / "costs.txt", tmp_path / "costs.npy"
    path.write_text("# what it costs\n0, 0.5\t4\n\n1 0 0  # a row\n9,1,0\n")
    np.save(saved, [[0.0, 0.5, 4.0], [1.0, 0.0, 0.0], [9.0, 1.0, 0.0]])
    assert SETTING.checked(path) == SETTING.checked(str(saved)) == [[0.0, 0.5, 4.0], [1.0, 0.0, 0.0], [9.0, 1.0, 0.0]]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "has the shape"),
        ("0 1 1\n1 0 1\n", r"has the shape \(2, 3\)"),
        ("0 1\n1\n", "costs.txt: is no matrix of costs"),
        ("0 x\n1 0\n", "costs.txt: is no matrix of costs .*'x'"),
        ("0 nan\n1 0\n", "in row 1, the cost nan is no finite number of 0 or more"),
        ("0 1\n-1 0\n", "in row 2, the cost -1 is no finite number"),
        ("0 1\n1 3\n", "in row 2, the right label costs 3; it must cost 0"),
    ],
)
def test_what_is_wrong_in_a_file_is_told(tmp_path, text, what):
    (tmp_path / "costs.txt").write_text(text)
    refused(what, SETTING.checked, tmp_path / "costs.txt")


@pytest.fixture(scope="module")
def given(tmp_path_factory):
    """(folder, store, X, y); labels 1 .. k, rows in their order."""
    folder = tmp_path_factory.mktemp("costs")
    X, y = classes()
    store = make_store(folder, scipy.sparse.csr_matrix(X), y + 1.0, chunk_nonzeros=128, keep_order=True)
    np.savetxt(folder / "costs.txt", COSTS)
    return folder, store, X, y


def test_commands_learn_with_costs_and_show_them(given, tmp_path, capsys, succeeds, refusal):
    folder, store, X, y = given
    W, _, mistakes, cost = plainly("pa1", X, y, True)
    own = ("--learner", "pa1", "-C", "0.3", "--costs", folder / "costs.txt", "--cost-rule", "max-loss")
    err = succeeds(train_main, store, tmp_path / "m.h5", *own, "--order", "stored", "--log", tmp_path / "t").err
    assert "cost" in err
    model = load_model(tmp_path / "m.h5")
    agree(model.weights[:, np.argsort(model.feature_ids)], W)
    events = [json.loads(line) for line in (tmp_path / "t").read_text().split("\n")[:-1]]
    assert events[0]["costs"] == COSTS.tolist()
    last = [event for event in events if event["event"] == "outer"][-1]
    assert last["cumulative_cost"] == pytest.approx(cost, rel=1e-12)
    assert "C 0.3, cost_rule max-loss, costs of 4 labels" in run_in_process(capsys, info_main, tmp_path / "m.h5")[1]
    text = folder / "rows.svm"
    labels = ("--labels", "1,2,3,4", "--model", tmp_path / "s.h5")
    out = succeeds(stream_main, text, *own, *labels).out
    assert f"mistakes {mistakes / len(y):.4%}, average cost {cost / len(y):.6f}" in out
    assert describe_model(tmp_path / "s.h5").method == describe_model(tmp_path / "m.h5").method
    succeeds(stream_main, text, "--from", tmp_path / "s.h5")
    predictions = tmp_path / "p.txt"
    out = succeeds(predict_main, tmp_path / "m.h5", text, predictions, "--json", "-").out
    mean_cost = COSTS[y, np.loadtxt(predictions, dtype=int) - 1].mean()
    assert mean_cost == pytest.approx(COSTS[y, np.argmax(X @ W.T, axis=1)].mean(), rel=1e-12)
    assert json.loads(out)["mean_cost"] == pytest.approx(mean_cost, rel=1e-12)
    out = run_in_process(capsys, predict_main, tmp_path / "m.h5", text, predictions, "--overwrite")[1]
    assert f"mean cost {mean_cost:.6f}" in out
    np.save(folder / "few.npy", 1.0 - np.eye(3))
    wrong = (*own[:4], "--costs", folder / "few.npy")
    for arguments in ((train_main, store, tmp_path / "n.h5", *wrong), (stream_main, text, *wrong, *labels[:2])):
        assert "--costs: has 3 rows, where the rows have 4 labels" in refusal(*arguments)


def test_a_run_with_costs_resumes_with_the_same_ones(given, tmp_path):
    _, store, _, _ = given
    run = {"learner": "pa1", "costs": COSTS, "block_chunks": 1, "max_outer": 3}
    assert_resumed(store, tmp_path, (9,), **run)
    with pytest.raises(InputError, match=r"was begun with costs=.{1,80}, but .{1,80} is given now"):
        train(store, checkpoint=tmp_path / "9.ckpt", resume=True, **run | {"costs": 2.0 * COSTS})


def test_what_cannot_be_is_refused():
    X, y = classes()
    X = scipy.sparse.csr_matrix(X)
    for options, what in (
        ({"cost_rule": "max-loss"}, "is a rule for costs; give costs"),
        ({"costs": COSTS[:3, :3]}, "has 3 rows, where the rows have 4 labels"),
        ({"costs": [["a"]]}, "expected a file's name, or a matrix"),
        ({"costs": COSTS, "multiclass": "rest"}, "compares the labels, which multiclass=rest learns apart"),
        ({"costs": COSTS, "targets": "numbers"}, "does not accept it"),
    ):
        refused(what, fit, X, y, learner="pa1", **options)
    refused("is for three labels or more", fit, X, y > 1, learner="pa1", costs=COSTS[:2, :2])
    refused("not for sets of them", fit, X, [{int(c)} for c in y], learner="pa1", costs=COSTS)
    refused("does not accept it", fit, X, y, learner="arow", costs=COSTS)
