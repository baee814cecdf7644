"""Learners of several classes: sets of labels, predictions that cost differently, MIRA; from text to rankings."""

import itertools
import json
from functools import partial

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from support.online_cases import agree, learned_in_parts, rows, taught
from support.passive_aggressive import COSTS, costing, played, ranked
from support.plain_learners import plain_runner
from support.refused import refused
from support.stream_cases import SMALL_PIECES, learned
from support.training_cases import assert_resumed, logged, make_store, svmlight, text_of_sets, train

from blocksvm import Matrix, fit, open_store
from blocksvm.base.labels import Labels
from blocksvm.model.decision_values import misordered, prediction_lines
from blocksvm.model.measures import SetMeasures
from blocksvm.model.model_file import describe_model, load_model
from blocksvm.model.scoring import Scores
from blocksvm.online import loops
from blocksvm.online.costs import COSTS as SETTING
from blocksvm.online.loops import SetTable
from blocksvm.online.rules.mira import SCALAR

N, D, K, C = 150, 12, 4, 0.3
PLAIN = pytest.mark.usefixtures("plain_loops")
RULES = [(learner, rule) for rule in (None, "prediction", "max-loss") for learner in ("pa", "pa1", "pa2")]
RULES += [(learner, "sets") for learner in ("pa", "pa1", "pa2", "perceptron")]
LABELS = (0.0, 10.0, 20.0, 30.0)  # of sets


def given_rows(sets=False):
    """(X, its classes, or sets of these, of which some are empty, some complete)."""
    X, _ = rows(n=N, d=D, density=0.5)
    rng = np.random.default_rng(0)
    scores = X @ rng.standard_normal((D, K))
    if not sets:
        return X, np.argmax(scores + 0.5 * rng.standard_normal((N, K)), axis=1)
    member = scores + rng.standard_normal((N, K)) > rng.standard_normal((N, 1))
    member[:4], member[4:8] = False, True
    return X, [tuple(np.flatnonzero(own).tolist()) for own in member]


def plainly(learner, X, targets, loss_of):
    """(W after all rows, losses, scores before each row) by the rule as it is written."""
    W, before, (losses, _, _) = played(learner, C, np.zeros((K, D)), X, targets, loss_of)
    return W, losses, np.array([W_t @ x for W_t, x in zip(before, X, strict=True)])


@PLAIN
@pytest.mark.parametrize(("learner", "rule"), RULES)
def test_the_rule_is_the_published_one(learner, rule):
    """Of sets the right class of the lowest score and the wrong one of the highest move by tau x and -tau x; nothing
    where no class, or every one, is right."""
    X, targets = given_rows(rule == "sets")
    loss_of = ranked if rule == "sets" else partial(costing, max_loss=rule == "max-loss")
    W, losses, scores = plainly(learner, X, targets, loss_of)
    case, more = {"C": C} if learner in ("pa1", "pa2") else {}, {}
    if rule == "sets":
        distinct = sorted(set(targets))
        y, more = np.array([distinct.index(own) for own in targets]), {"sets": SetTable.of(distinct)}
        runner = plain_runner(learner, case, {}, n_classes=K, targets="sets")
        mistakes, cost = (losses >= 1.0).sum(), 0.0
    else:
        y, predicted = targets, scores.argmax(axis=1)
        runner = plain_runner(learner, case | {"costs": COSTS, "cost_rule": rule}, {}, n_classes=K)
        runner.take_costs(Labels((1.0, 2.0, 3.0, 4.0)))
        mistakes, cost = (predicted != y).sum(), COSTS[y, predicted].sum()
    state, found = learned_in_parts(runner, X, y, **more)
    agree(found, W)
    tally = state.tally[[loops.LOSS_SUM, loops.MISTAKES, loops.COST, loops.ROWS]]
    assert tally == pytest.approx([losses.sum(), mistakes, cost, N], rel=1e-10)


def by_id(path):
    model = load_model(path)
    return model, model.weights[:, np.argsort(model.feature_ids)]


def test_a_file_of_costs_is_a_matrix_as_text_or_npy(tmp_path):
    path, saved = tmp_path / "costs.txt", tmp_path / "costs.npy"
    path.write_text("# what it costs\n0, 0.5\t4\n\n1 0 0  # a row\n9,1,0\n")
    np.save(saved, [[0.0, 0.5, 4.0], [1.0, 0.0, 0.0], [9.0, 1.0, 0.0]])
    assert SETTING.checked(path) == SETTING.checked(str(saved)) == [[0.0, 0.5, 4.0], [1.0, 0.0, 0.0], [9.0, 1.0, 0.0]]
    for text, what in (
        ("", "has the shape"),
        ("0 1 1\n1 0 1\n", r"has the shape \(2, 3\)"),
        ("0 1\n1\n", "costs.txt: is no matrix of costs"),
        ("0 x\n1 0\n", "costs.txt: is no matrix of costs .*'x'"),
        ("0 nan\n1 0\n", "in row 1, the cost nan is no finite number of 0 or more"),
        ("0 1\n-1 0\n", "in row 2, the cost -1 is no finite number"),
        ("0 1\n1 3\n", "in row 2, the right label costs 3; it must cost 0"),
    ):
        path.write_text(text)
        refused(what, SETTING.checked, path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Stores and texts of the same rows in their order: classes 1 .. k, sets of 0, 10, ...; a file of costs."""
    folder = tmp_path_factory.mktemp("classes")
    X, y = given_rows()
    make_store(folder, scipy.sparse.csr_matrix(X), y + 1.0, "classes", chunk_nonzeros=128, keep_order=True)
    text = text_of_sets(X, [[10 * c for c in own] for own in given_rows(sets=True)[1]])
    make_store(folder, text, name="sets", chunk_nonzeros=128, keep_order=True, format="multilabel")
    np.savetxt(folder / "costs.txt", COSTS)
    return folder


@pytest.fixture
def store(folder):
    return folder / "sets.h5"


@PLAIN
def test_commands_learn_with_costs_and_show_them(folder, tmp_path, succeeds, refusal):
    store, text, (X, y) = folder / "classes.h5", folder / "classes.svm", given_rows()
    W, _, scores = plainly("pa1", X, y, partial(costing, max_loss=True))
    cost, mistakes = COSTS[y, scores.argmax(axis=1)].sum(), (scores.argmax(axis=1) != y).sum()
    own = ("--learner", "pa1", "-C", C, "--costs", folder / "costs.txt", "--cost-rule", "max-loss")
    err = succeeds("train", store, tmp_path / "m.h5", *own, "--order", "stored", "--log", tmp_path / "t").err
    assert "cost" in err
    agree(by_id(tmp_path / "m.h5")[1], W)
    assert logged(tmp_path / "t")[0]["costs"] == COSTS.tolist()
    assert logged(tmp_path / "t", "outer")[-1]["cumulative_cost"] == pytest.approx(cost, rel=1e-12)
    assert "C 0.3, cost_rule max-loss, costs of 4 labels" in succeeds("info", tmp_path / "m.h5").out
    labels = ("--labels", "1,2,3,4", "--model", tmp_path / "s.h5")
    out = succeeds("stream", text, *own, *labels).out
    assert f"mistakes {mistakes / N:.4%}, average cost {cost / N:.6f}" in out
    assert describe_model(tmp_path / "s.h5").method == describe_model(tmp_path / "m.h5").method
    succeeds("stream", text, "--from", tmp_path / "s.h5")
    predictions = tmp_path / "p.txt"
    out = succeeds("predict", tmp_path / "m.h5", text, predictions, "--json", "-").out
    mean_cost = COSTS[y, np.loadtxt(predictions, dtype=int) - 1].mean()
    assert mean_cost == pytest.approx(COSTS[y, np.argmax(X @ W.T, axis=1)].mean(), rel=1e-12)
    assert json.loads(out)["mean_cost"] == pytest.approx(mean_cost, rel=1e-12)
    out = succeeds("predict", tmp_path / "m.h5", text, predictions, "--overwrite").out
    assert f"mean cost {mean_cost:.6f}" in out
    np.save(folder / "few.npy", 1.0 - np.eye(3))
    wrong = (*own[:4], "--costs", folder / "few.npy")
    for arguments in (("train", store, tmp_path / "n.h5", *wrong), ("stream", text, *wrong, *labels[:2])):
        assert "--costs: has 3 rows, where the rows have 4 labels" in refusal(*arguments)


@pytest.mark.parametrize(
    ("name", "run"),
    [("classes", {"learner": "pa1", "costs": COSTS, "max_outer": 3}),
     ("sets", {"learner": "pa2", "C": 0.1, "max_outer": 4})],
)  # fmt: skip
def test_stopped_resumed_and_continued_to_the_same_bits(folder, tmp_path, name, run):
    path, run = folder / f"{name}.h5", run | {"block_chunks": 1}
    whole = train(path, **run)
    assert_resumed(path, tmp_path, (9,), whole, **run)
    with open_store(path) as source:
        fit(source, **run | {"max_outer": run["max_outer"] - 2}).save(tmp_path / "m.h5")
        again = fit(source, start_from=tmp_path / "m.h5", block_chunks=1, max_outer=2)
    assert np.array_equal(again.result.w, whole.w)
    if "costs" in run:
        other = run | {"costs": 2.0 * COSTS, "checkpoint": tmp_path / "9.ckpt", "resume": True}
        refused(r"was begun with costs=.{1,80}, but .{1,80} is given now", train, path, **other)


def test_one_learner_a_class_on_sets():
    X, sets = given_rows(sets=True)
    W, mistakes = np.zeros((K, D)), 0
    for x, own in zip(X, sets, strict=True):
        sides = np.where(np.isin(np.arange(K), own), 1, -1)
        margins = sides * (W @ x)
        mistakes += (margins <= 0.0).any()
        if x.any():
            W += np.outer(sides * np.clip((1.0 - margins) / (x @ x), 0.0, C), x)
    matrix = scipy.sparse.csr_matrix(X.astype(np.float32))
    fitted = fit(matrix, sets, learner="pa1", C=C, multiclass="rest", order="stored")
    agree(fitted.model.weights, W)
    assert fitted.plan.solver.progress(fitted.state)["mistakes"] == mistakes
    assert list(fitted.model.predict(matrix)) == [tuple(np.flatnonzero(row)) for row in X @ W.T > 0.0]
    # sets of one are single labels
    single = np.array([own[0] if own else 3 for own in sets])
    alone, as_sets = (fit(matrix, y, learner="pa1", order="stored") for y in (single, [{c} for c in single.tolist()]))
    assert np.array_equal(alone.model.weights, as_sets.model.weights)


def test_from_text_to_rankings(store, tmp_path, succeeds):
    X, sets = given_rows(sets=True)
    W, losses, _ = plainly("pa1", X, sets, ranked)
    arguments = (store, tmp_path / "m.h5", "--learner", "pa1", "-C", C, "--order", "stored", "--valid", store,
                 "--log", tmp_path / "t.jsonl")  # fmt: skip
    succeeds("train", *arguments)
    model, found = by_id(tmp_path / "m.h5")
    assert (model.labels, model.multilabel, model.ranks) == (LABELS, True, True)
    agree(found, W)
    scores = X @ W.T
    member = np.array([np.isin(np.arange(K), own) for own in sets])
    expected = [(10.0 * c,) for c in scores.argmax(axis=1)]
    assert list(model.predict(X)) == expected
    _, out, err = succeeds("predict", tmp_path / "m.h5", store)
    assert [tuple(map(float, line.split(","))) for line in out.split()] == expected
    perfect = np.mean([not own.any() or own.all() or s[own].min() > s[~own].max()
                       for s, own in zip(scores, member, strict=True)])  # fmt: skip
    assert f"perfect rankings {perfect:.6f}" in err
    assert "sets of 0, 10, 20, 30" in succeeds("info", tmp_path / "m.h5").out
    last = logged(tmp_path / "t.jsonl", "outer")[-1]
    assert (last["mistakes"], last["rows"]) == ((losses >= 1.0).sum(), N)
    assert last["cumulative_loss"] == pytest.approx(losses.sum(), rel=1e-6)
    assert last["valid_accuracy"] == perfect


def test_what_an_order_is_worth_is_as_scikit_learn_has_it():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    true, values = rng.random((80, 5)) < 0.4, rng.integers(0, 6, (80, 5)).astype(float)
    true[:2], true[2:4] = False, True
    own = np.empty(80, dtype=object)
    own[:] = [tuple("abcde"[c] for c in np.flatnonzero(row)) for row in true]
    measures = SetMeasures(tuple("abcde"), ranks=True)
    for part in (slice(0, 7), slice(7, 80)):
        measures.count(Scores(values[part], None, own[part]))
    assert f"ranking loss {metrics.label_ranking_loss(true, values):.6f}" in measures.sentences()[2]
    said = np.eye(5, dtype=bool)[values.argmax(axis=1)]
    assert f"micro F1 {metrics.f1_score(true, said, average='micro'):.6f}" in measures.sentences()[1]
    assert f"one-error {np.mean(true.any(axis=1) & ~(true & said).any(axis=1)):.6f}" in measures.sentences()[2]
    pairs = [sum(v[a] <= v[b] for a in np.flatnonzero(t) for b in np.flatnonzero(~t))
             for v, t in zip(values, true, strict=True)]  # fmt: skip
    assert misordered(values, true).tolist() == pairs


def test_what_cannot_be_is_refused(store):
    X, y = given_rows()
    X, eye, single = scipy.sparse.csr_matrix(X), scipy.sparse.csr_matrix(np.eye(3)), "is for rows of one label each"
    with open_store(store) as source:
        for arguments, options, what in (
            ((X, y), {"cost_rule": "max-loss"}, "is a rule for costs; give costs"),
            ((X, y), {"costs": COSTS[:3, :3]}, "has 3 rows, where the rows have 4 labels"),
            ((X, y), {"costs": [["a"]]}, "expected a file's name, or a matrix"),
            ((X, y), {"costs": COSTS, "multiclass": "rest"}, "compares the labels, which multiclass=rest learns apart"),
            ((X, y), {"costs": COSTS, "targets": "numbers"}, "does not accept it"),
            ((X, y > 1), {"costs": COSTS[:2, :2]}, "is for three labels or more"),
            ((X, [{int(c)} for c in y]), {"costs": COSTS}, "not for sets of them"),
            ((X, y), {"costs": COSTS, "learner": "arow"}, "does not accept it"),
            ((source,), {"query": 1.0}, single),
            ((source,), {"class_weight": "balanced"}, single),
            ((source,), {"targets": "classes"}, "its rows have sets of labels; leave targets out"),
            ((source,), {"targets": "numbers"}, "regression needs numbers"),
            ((eye, [1, 2, 3]), {"targets": "sets"}, "its labels are numbers, no sets"),
            ((eye, [{1}, {1}, set()]), {}, "its sets have 1 label in all"),
            ((eye, [{1}, {"a"}, set()]), {}, "all numbers or all strings"),
            ((eye, [{1}, 2, {1}]), {}, "stands among sets"),
            ((eye, [{1}, {2}]), {}, "must be 3"),
            ((eye, [{1}, {float("inf")}, set()]), {}, "finite"),
            ((eye, [{1}, None, {2}]), {}, "have no set of labels, not even an empty one"),
        ):
            refused(what, fit, *arguments, **{"learner": "pa1"} | options)


def test_a_stream_of_sets_is_training_in_stored_order(store, tmp_path, succeeds, refusal):
    X, sets = given_rows(sets=True)
    path = store.with_suffix(".svm")
    own = (path, "--format", "multilabel", "--learner", "pa1", "-C", C)
    more = ("--model", tmp_path / "m.h5", "--predictions", tmp_path / "p", "--scores", "--log", tmp_path / "t")
    out = succeeds("stream", *own, "--targets", "sets", "--labels", "0,10,20,30", *more).out
    W, losses, scores = plainly("pa1", X, sets, ranked)
    assert f"average loss {losses.mean():.6f}, mistakes {np.mean(losses >= 1.0):.4%}" in out
    model, found = by_id(tmp_path / "m.h5")
    assert (model.labels, model.multilabel, model.ranks) == (LABELS, True, True)
    agree(found, W)
    np.testing.assert_allclose(np.loadtxt(tmp_path / "p"), scores, rtol=1e-6, atol=1e-9)
    # and it is gone on with, by another stream and by training
    again = ("--from", tmp_path / "m.h5", "--model", tmp_path / "n.h5", "--format", "multilabel")
    succeeds("stream", path, *again)
    with open_store(store) as source:
        fit(source, start_from=tmp_path / "m.h5", order="stored").save(tmp_path / "t.h5")
    agree(by_id(tmp_path / "n.h5")[1], by_id(tmp_path / "t.h5")[1], 1e-12)
    told = refusal("stream", *own, "--labels", "0,10,20,30")
    assert "not one of 0 and 10 and 20 and 30; name the labels with --labels, or its sets with --targets sets" in told
    told = refusal("stream", *own, "--targets", "sets")
    assert "name the labels that sets may hold with --labels" in told


def test_sets_that_do_not_fit_are_told_or_skipped(tmp_path):
    text = tmp_path / "rows.svm"
    text.write_text("10,20 1:1\n10,7 2:1\n 3:1\n20 1:1\n")
    options = {"targets": "sets", "labels": LABELS, "format": "multilabel"}
    refused("rows.svm:2: the set holds the label 7, which is not one of 0, 10, 20, 30", learned, text, "pa1", **options)
    stream, reports = learned(text, "pa1", skip_bad=True, **options)
    assert (reports[-1].rows, reports[-1].skipped, stream.targets.unlabelled) == (3, 1, 0)
    text.write_text("10 1:1\n")
    options["format"] = "svmlight"
    refused("rows.svm:1: the label 10 is no set of labels; read them with format", learned, text, "pa1", **options)


def test_many_sets_in_a_piece(tmp_path):
    """Of more sets in a piece than sixteen bits count, the places are wider."""
    text, sets = tmp_path / "rows.svm", list(itertools.combinations(range(60), 3))
    assert len(sets) > 1 << 15
    text.write_text("".join(f"{a},{b},{c} {k % 9}:1\n" for k, (a, b, c) in enumerate(sets)))
    options = {"targets": "sets", "labels": tuple(map(float, range(60))), "format": "multilabel"}
    few, _ = learned(text, "pa1", memory=SMALL_PIECES, **options)
    many, _ = learned(text, "pa1", **options)
    assert few.leading.state.columns.tobytes() == many.leading.state.columns.tobytes()


def test_predicted_sets_as_text(store):
    stream, _ = learned(store.with_suffix(".svm"), "pa1", targets="sets", labels=LABELS, format="multilabel")
    values, labels = np.array([[1.0, -1.0, 2.0, 0.0], [-1.0] * 4]), stream.targets.known_classes().values
    assert "".join(prediction_lines(labels, values, sets=True)) == "0,20\n\n"


eighths = st.lists(st.integers(-20, 20).map(lambda n: n / 8.0), min_size=5, max_size=5)


@pytest.mark.slow
@PLAIN
@given(st.lists(eighths, min_size=3, max_size=3), eighths, st.integers(0, 2))
def test_a_step_of_mira_meets_the_conditions_of_its_minimum(W, x, c):
    """Feasible; a wrong class of a score below the right one's is left alone; no feasible exchange with the right class
    is shorter; the norm does not grow."""
    W, x = np.array(W), np.array(x)
    runner = plain_runner("mira", {}, {}, n_classes=3)
    state = runner.new_state(5)
    state.columns[:], state.scalars[SCALAR.started] = np.pad(W, ((0, 0), (0, 1))).ravel(), 1.0
    new, q = taught(runner, x[None], [c], state)[2], x @ x
    if q == 0.0:
        assert np.array_equal(new, W)
        return
    tau, scores = (new - W) @ x / q, W @ x
    own = np.arange(3) == c
    assert tau.sum() == pytest.approx(0.0, abs=1e-9)
    assert (tau <= own + 1e-9).all()
    assert (tau[~own] <= 1e-9).all()
    assert (np.abs(tau[scores < scores[c] - 1e-6]) <= 1e-9).all()
    gradient = new @ x  # equal among those that may still move, not above elsewhere
    free = tau < own - 1e-9
    if free.any():
        theta = gradient[free].mean()
        np.testing.assert_allclose(gradient[free], theta, atol=1e-7)
        assert (gradient <= theta + 1e-7).all()
    assert np.linalg.norm(new) <= np.linalg.norm(W) + 1e-9


@PLAIN
def test_the_first_row_with_entries_makes_the_start_of_mira():
    X, y = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 3.0]]), np.array([1, 1, 0])
    runner = plain_runner("mira", {}, {}, n_classes=3)
    state, _, W = taught(runner, X[:1], y[:1])
    assert not W.any()
    start = taught(runner, X[1:2], y[1:2], state)[2].copy()
    agree(start, [[-1.0, 0.0], [2.0, 0.0], [-1.0, 0.0]])
    # all scores are 0, so there is nothing to make smaller
    assert np.array_equal(taught(runner, X[2:], y[2:], state)[2], start)
    assert state.tally[loops.MISTAKES] == 2 + 0


def mira_plainly(X, y, k):
    """(W, its mean, mistakes): tau_r = [r = c] - max(0, B_r - theta) with B = W x / ||x||^2 + [r = c] and theta such
    that sum tau = 0; the first row with entries takes tau_c = 1, the others -1 / (k - 1)."""
    W, total, mistakes = np.zeros((k, X.shape[1])), 0.0, 0
    for x, c in zip(X, y, strict=True):
        own = np.arange(k) == c
        mistakes += np.argmax(W @ x) != c
        if x.any():
            tau = np.where(own, 1.0, -1.0 / (k - 1))
            if W.any():
                edges = W @ x / (x @ x) + own
                thetas = (np.cumsum(np.sort(edges)[::-1]) - 1.0) / np.arange(1, k + 1)
                tau = own - np.maximum(edges - thetas.max(), 0.0)
            W = W + np.outer(tau, x)
        total = total + W
    return W, total / len(y), mistakes


@PLAIN
def test_mira_from_python_and_from_a_stream(tmp_path, succeeds):
    # no row twice: a step ends in equal scores, and of these rounding tells which is the highest
    rng = np.random.default_rng(6)
    X = rng.standard_normal((150, 5)).astype(np.float32).astype(float)
    y = np.argmax(X @ rng.standard_normal((5, K)), axis=1)
    W, mean, mistakes = mira_plainly(X, y, K)
    X = scipy.sparse.csr_matrix(X.astype(np.float32))
    agree(fit(X, y, learner="mira", order="stored").model.weights, W)
    agree(fit(X, y, learner="mira", order="stored", average=True).model.weights, mean)
    blocks = [train(Matrix(X, y, chunk_rows=first), learner="mira", order="stored", max_outer=2, block_chunks=1)
              for first in (np.arange(150), np.arange(0, 150, 7), np.zeros(1, int))]  # fmt: skip
    assert blocks[0].same(blocks[1])
    assert blocks[0].same(blocks[2])
    text, model = tmp_path / "rows.svm", tmp_path / "m"
    text.write_text(svmlight(X, y, first_id=0))
    out = succeeds("stream", text, "--learner", "mira", "--labels", "0,1,2,3", "--model", model).out
    assert f"mistakes {mistakes / 150:.4%}" in out
    agree(by_id(model)[1], W)
    # two classes are two opposite prototypes
    X, y = rows(n=120, d=5, seed=2)
    w = taught(plain_runner("mira", {}, {}), X, y)[2]
    agree(np.array([-w, w]), mira_plainly(X, (y > 0.0).astype(int), 2)[0])
