"""Online learners on sets of labels: the pair ranked worst, from text, stores, streams and Python."""

import itertools
import json

import numpy as np
import pytest
import scipy.sparse
from support.online_cases import agree, learned_in_parts, rows
from support.passive_aggressive import played, ranked
from support.plain_learners import plain_runner
from support.stream_cases import SMALL_PIECES, learned
from support.training_cases import assert_resumed, make_store, text_of_sets, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.info import main as info_main
from blocksvm.model.decision_values import misordered, prediction_lines
from blocksvm.model.measures import SetMeasures
from blocksvm.model.model_file import load_model
from blocksvm.model.scoring import Scores
from blocksvm.online import loops
from blocksvm.online.loops import SetTable
from blocksvm.predict import main as predict_main
from blocksvm.store.reader import open_store
from blocksvm.stream import main as stream_main
from blocksvm.train import main as train_main

N, D, K = 150, 12, 4


def given_sets(seed=0):
    """(X, sets): some sets are empty, some complete."""
    X, _ = rows(n=N, d=D, seed=seed, density=0.5)
    rng = np.random.default_rng(seed)
    member = X @ rng.standard_normal((D, K)) + rng.standard_normal((N, K)) > rng.standard_normal((N, 1))
    member[:4], member[4:8] = False, True
    return X, [tuple(np.flatnonzero(own).tolist()) for own in member]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ranking")
    return make_store(folder, text(), chunk_nonzeros=128, keep_order=True, format="multilabel")


def text() -> str:
    X, sets = given_sets()
    return text_of_sets(X, [[10 * c for c in own] for own in sets])


def plainly(learner, C, X, sets):
    """(W after all rows, losses, mistakes, scores before each row) as it is written: the right class of the lowest
    score and the wrong one of the highest move by tau x and -tau x; nothing where no class, or every one, is right."""
    W, before, (losses, _, _) = played(learner, C, np.zeros((K, D)), X, sets, ranked)
    return W, losses.sum(), (losses >= 1.0).sum(), np.array([W_t @ x for W_t, x in zip(before, X, strict=True)])


@pytest.mark.parametrize(
    ("learner", "case"), [("pa", {}), ("pa1", {"C": 0.05}), ("pa2", {"C": 0.05}), ("perceptron", {})]
)
def test_the_pair_ranked_worst_is_learned_from(learner, case):
    X, sets = given_sets()
    W, loss, mistakes, _ = plainly(learner, 0.05, X, sets)
    distinct = sorted(set(sets))
    y = np.array([distinct.index(own) for own in sets], np.int16)
    runner = plain_runner(learner, case, {}, n_classes=K, targets="sets")
    state = learned_in_parts(runner, X, y, sets=SetTable.of(distinct))
    agree(runner.weights(state, np.empty(K * (D + 1))).reshape(K, D + 1)[:, :D], W)
    assert state.tally[loops.LOSS_SUM] == pytest.approx(loss, rel=1e-12)
    assert (state.tally[loops.MISTAKES], state.tally[loops.ROWS]) == (mistakes, N)


def test_one_learner_a_class_on_sets():
    X, sets = given_sets()
    W, mistakes = np.zeros((K, D)), 0
    for x, own in zip(X, sets, strict=True):
        sides = np.where(np.isin(np.arange(K), own), 1, -1)
        margins = sides * (W @ x)
        mistakes += (margins <= 0.0).any()
        if x.any():
            W += np.outer(sides * np.clip((1.0 - margins) / (x @ x), 0.0, 0.05), x)
    fitted = fit(scipy.sparse.csr_matrix(X.astype(np.float32)), sets, learner="pa1", C=0.05, multiclass="rest",
                 order="stored")  # fmt: skip
    agree(fitted.model.weights, W)
    assert fitted.plan.solver.progress(fitted.state)["mistakes"] == mistakes
    said = fitted.model.predict(scipy.sparse.csr_matrix(X))
    assert list(said) == [tuple(np.flatnonzero(row)) for row in X @ W.T > 0.0]


def test_sets_of_one_are_single_labels(store):
    X, sets = given_sets()
    single = np.array([own[0] if own else 3 for own in sets])
    matrix = scipy.sparse.csr_matrix(X.astype(np.float32))
    alone = fit(matrix, single, learner="pa1", order="stored")
    as_sets = fit(matrix, [{c} for c in single.tolist()], learner="pa1", order="stored")
    assert np.array_equal(alone.model.weights, as_sets.model.weights)


def test_from_text_to_rankings(store, tmp_path, succeeds):
    X, sets = given_sets()
    W, loss, mistakes, _ = plainly("pa1", 0.05, X, sets)
    arguments = (store, tmp_path / "m.h5", "--learner", "pa1", "-C", "0.05", "--order", "stored", "--valid", store,
                 "--log", tmp_path / "t.jsonl")  # fmt: skip
    succeeds(train_main, *arguments)
    model = load_model(tmp_path / "m.h5")
    assert (model.labels, model.multilabel, model.ranks) == ((0.0, 10.0, 20.0, 30.0), True, True)
    agree(model.weights[:, np.argsort(model.feature_ids)], W)
    scores = X @ W.T
    member = np.array([np.isin(np.arange(K), own) for own in sets])
    expected = [(10.0 * c,) for c in scores.argmax(axis=1)]
    assert list(model.predict(X)) == expected
    _, out, err = succeeds(predict_main, tmp_path / "m.h5", store)
    assert [tuple(map(float, line.split(","))) for line in out.split()] == expected
    perfect = np.mean([not own.any() or own.all() or s[own].min() > s[~own].max()
                       for s, own in zip(scores, member, strict=True)])  # fmt: skip
    assert f"perfect rankings {perfect:.6f}" in err
    assert "sets of 0, 10, 20, 30" in succeeds(info_main, tmp_path / "m.h5").out
    events = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().split("\n")[:-1]]
    last = [event for event in events if event["event"] == "outer"][-1]
    assert (last["mistakes"], last["rows"]) == (mistakes, N)
    assert last["cumulative_loss"] == pytest.approx(loss, rel=1e-6)
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


def test_what_cannot_be_is_refused(store, tmp_path):
    with open_store(store) as source:
        for options, what in (
            ({"query": 1.0}, "is for rows of one label each"),
            ({"class_weight": "balanced"}, "is for rows of one label each"),
            ({"targets": "classes"}, "its rows have sets of labels; leave targets out"),
            ({"targets": "numbers"}, "regression needs numbers"),
        ):
            with pytest.raises(InputError, match=what):
                fit(source, learner="pa1", **options)
    X = scipy.sparse.csr_matrix(np.eye(3))
    with pytest.raises(InputError, match="its labels are numbers, no sets"):
        fit(X, [1, 2, 3], learner="pa1", targets="sets")
    with pytest.raises(InputError, match="its sets have 1 label in all"):
        fit(X, [{1}, {1}, set()], learner="pa1")
    for y, what in (([{1}, {"a"}, set()], "all numbers or all strings"), ([{1}, 2, {1}], "stands among sets"),
                    ([{1}, {2}], "must be 3"), ([{1}, {float("inf")}, set()], "finite")):  # fmt: skip
        with pytest.raises(InputError, match=what):
            fit(X, y, learner="pa1")
    with pytest.raises(InputError, match="have no set of labels, not even an empty one"):
        fit(X, [{1}, None, {2}], learner="pa1")


LABELS = (0.0, 10.0, 20.0, 30.0)


def test_a_stream_of_sets_is_training_in_stored_order(store, tmp_path, succeeds, refusal):
    X, sets = given_sets()
    path = tmp_path / "rows.svm"
    path.write_text(text())
    own = (path, "--format", "multilabel", "--learner", "pa1", "-C", "0.05")
    named = (*own, "--targets", "sets", "--labels", "0,10,20,30")
    more = ("--model", tmp_path / "m.h5", "--predictions", tmp_path / "p", "--scores", "--log", tmp_path / "t")
    out = succeeds(stream_main, *named, *more).out
    W, loss, mistakes, scores = plainly("pa1", 0.05, X, sets)
    assert f"average loss {loss / N:.6f}, mistakes {mistakes / N:.4%}" in out
    model = load_model(tmp_path / "m.h5")
    assert (model.labels, model.multilabel, model.ranks) == (LABELS, True, True)
    agree(model.weights[:, np.argsort(model.feature_ids)], W)
    np.testing.assert_allclose(np.loadtxt(tmp_path / "p"), scores, rtol=1e-6, atol=1e-9)
    # and it is gone on with, by another stream and by training
    again = ("--from", tmp_path / "m.h5", "--model", tmp_path / "n.h5", "--format", "multilabel")
    succeeds(stream_main, path, *again)
    with open_store(store) as source:
        trained = fit(source, start_from=tmp_path / "m.h5", order="stored")
    agree(load_model(tmp_path / "n.h5").weights[:, np.argsort(load_model(tmp_path / "n.h5").feature_ids)],
          trained.model.weights[:, np.argsort(trained.model.feature_ids)], 1e-12)  # fmt: skip
    assert (
        "not one of 0 and 10 and 20 and 30; name the labels with --labels, or its sets with --targets sets"
        in refusal(stream_main, *own, "--labels", "0,10,20,30")
    )
    told = refusal(stream_main, *own, "--targets", "sets")
    assert "name the labels that sets may hold with --labels" in told


def test_sets_that_do_not_fit_are_told_or_skipped(tmp_path):
    text = tmp_path / "rows.svm"
    text.write_text("10,20 1:1\n10,7 2:1\n 3:1\n20 1:1\n")
    options = {"targets": "sets", "labels": LABELS, "format": "multilabel"}
    with pytest.raises(InputError, match=r"rows.svm:2: the set holds the label 7, which is not one of 0, 10, 20, 30"):
        learned(text, "pa1", **options)
    stream, reports = learned(text, "pa1", skip_bad=True, **options)
    assert (reports[-1].rows, reports[-1].skipped, stream.targets.unlabelled) == (3, 1, 0)
    text.write_text("10 1:1\n")
    with pytest.raises(InputError, match=r"rows.svm:1: the label 10 is no set of labels; read them with format"):
        learned(text, "pa1", **options | {"format": "svmlight"})


def test_many_sets_in_a_piece(tmp_path):
    """Of more sets in a piece than sixteen bits count, the places are wider."""
    text, sets = tmp_path / "rows.svm", list(itertools.combinations(range(60), 3))
    assert len(sets) > 1 << 15
    text.write_text("".join(f"{a},{b},{c} {k % 9}:1\n" for k, (a, b, c) in enumerate(sets)))
    options = {"targets": "sets", "labels": tuple(map(float, range(60))), "format": "multilabel"}
    few, _ = learned(text, "pa1", memory=SMALL_PIECES, **options)
    many, _ = learned(text, "pa1", **options)
    assert few.leading.state.columns.tobytes() == many.leading.state.columns.tobytes()


def test_predicted_sets_as_text(tmp_path):
    (tmp_path / "rows.svm").write_text(text())
    stream, _ = learned(tmp_path / "rows.svm", "pa1", targets="sets", labels=LABELS, format="multilabel")
    values, labels = np.array([[1.0, -1.0, 2.0, 0.0], [-1.0] * 4]), stream.targets.known_classes().values
    assert "".join(prediction_lines(labels, values, sets=True)) == "0,20\n\n"


def test_stopped_resumed_and_continued_to_the_same_bits(store, tmp_path):
    run = {"learner": "pa2", "C": 0.1, "block_chunks": 1, "max_outer": 4}
    whole = train(store, **run)
    assert_resumed(store, tmp_path, (9,), whole, **run)
    with open_store(store) as source:
        fit(source, **run | {"max_outer": 2}).save(tmp_path / "m.h5")
        again = fit(source, start_from=tmp_path / "m.h5", block_chunks=1, max_outer=2)
    assert np.array_equal(again.result.w, whole.w)
