"""Predictions of a stream before it learns, further passes over the same text, and streams that learn nothing."""

import json
import subprocess
import sys

import numpy as np
import pytest
from support.paths import ROOT
from support.plain_learners import LEARNERS, MultiPrototype, OneVsRest, run
from support.refused import refused
from support.stream_cases import SMALL_PIECES, learned, single, text_of, weights_by_id
from support.training_cases import make_store, random_rows, svmlight, train

from blocksvm.predict import main as predict
from blocksvm.store.reader import Store
from blocksvm.stream import main as stream_main
from blocksvm.streaming.stream_pass import PREDICTED_AT_ONCE, StreamPass, StreamSettings
from blocksvm.streaming.stream_saving import save_stream


def test_predictions_are_those_made_before_each_row(tmp_path, succeeds):
    X, y = random_rows(n=300, d=30, seed=1)
    X = single(X)
    text = text_of(tmp_path, X, np.where(y > 0, 1.0, 0.0))
    scores, _, _ = run(LEARNERS["pa1"](30, C=0.1), X.toarray(), y)
    _, out, _ = succeeds(
        stream_main, text, "--learner", "pa1", "-C", "0.1", "--predictions", tmp_path / "s.txt", "--scores"
    )
    np.testing.assert_allclose(np.loadtxt(tmp_path / "s.txt"), scores, rtol=1e-6, atol=1e-9)
    assert f"300 predictions in {tmp_path / 's.txt'}" in out
    succeeds(stream_main, text, "--learner", "pa1", "-C", "0.1", "--predictions", tmp_path / "l.txt")
    given = np.loadtxt(tmp_path / "s.txt")
    assert np.array_equal(np.loadtxt(tmp_path / "l.txt"), np.where(given > 0, 1.0, 0.0))
    # to standard output, what is said of them to standard error
    _, out, err = succeeds(stream_main, text, "--learner", "pa1", "-C", "0.1", "--predictions", "-")
    assert out == (tmp_path / "l.txt").read_text()
    assert "mistakes" in err


@pytest.mark.parametrize("rule", ["prototype", "rest"])
def test_of_several_classes(tmp_path, succeeds, rule):
    X, _ = random_rows(n=200, d=20, seed=2)
    X = single(X)
    rng = np.random.default_rng(0)
    codes = np.argmax(X @ rng.standard_normal((20, 3)), axis=1)
    labels = np.array([2.0, 5.0, 7.0])
    text = text_of(tmp_path, X, labels[codes])
    dense = (MultiPrototype if rule == "prototype" else OneVsRest)(LEARNERS["pa1"], 3, 20)
    expected = []
    for x, c in zip(X.toarray(), codes, strict=True):
        expected.append(dense.W @ x)
        dense.learn(x, c)
    given = (text, "--learner", "pa1", "--labels", "2,5,7", "--multiclass", rule, "--predictions")
    succeeds(stream_main, *given, tmp_path / "s.txt", "--scores")
    succeeds(stream_main, *given, tmp_path / "l.txt")
    np.testing.assert_allclose(np.loadtxt(tmp_path / "s.txt"), np.array(expected), rtol=1e-5, atol=1e-7)
    assert np.array_equal(np.loadtxt(tmp_path / "l.txt"), labels[np.argmax(np.loadtxt(tmp_path / "s.txt"), axis=1)])


@pytest.mark.parametrize("targets", [None, "numbers"])
@pytest.mark.parametrize("labels", [None, (-1.0, 1.0, 3.0)])
def test_rows_without_a_label_are_predicted_and_change_nothing(tmp_path, targets, labels):
    if targets and labels:
        pytest.skip("numbers have no classes")
    rng = np.random.default_rng(3)
    lines, known = [], []
    for i in range(200):
        label = "" if rng.random() < 0.4 or i in (0, 199) else f"{rng.choice(labels or (-1.0, 1.0)):g}"
        row = f"{label} | " + " ".join(f"f{j}:{rng.standard_normal():.4f}" for j in rng.choice(20, 5, replace=False))
        lines.append(row)
        known += [row] if label else []
    (tmp_path / "all.vw").write_text("\n".join(lines) + "\n")
    (tmp_path / "known.vw").write_text("\n".join(known) + "\n")
    found, reports, streams = {}, {}, {}
    for name in ("all", "known"):
        predicted, learner = [], "arow" if targets is None else "pa1"
        options = {"targets": targets, "labels": labels, "format": "vw", "predicted": predicted}
        streams[name], reports[name] = learned(tmp_path / f"{name}.vw", learner, **options)
        found[name] = np.concatenate(predicted)
    is_known = np.array([not line.startswith(" |") for line in lines])
    assert len(found["all"]) == 200
    # ids stand in another order, in which sums round otherwise
    np.testing.assert_allclose(found["all"][is_known], found["known"], rtol=1e-9, atol=1e-12)
    assert np.isfinite(found["all"]).all()
    assert np.abs(found["all"][-1]).max() > 0.0
    assert streams["all"].targets.unlabelled == (~is_known).sum()
    assert [r.rows for r in reports["all"]] == [r.rows for r in reports["known"]]
    assert reports["all"][-1].cumulative_loss == pytest.approx(reports["known"][-1].cumulative_loss, rel=1e-9)


def test_several_passes_are_epochs(tmp_path, succeeds):
    X, y = random_rows(n=150, d=30, seed=4, dtype=np.float32)
    text = text_of(tmp_path, X, y)
    store = make_store(tmp_path, X, y, name="store", keep_order=True)
    run = train(store, solver="hf-fobos", order="stored", max_outer=3, l1=0.01)
    stream, reports = learned(text, "hf-fobos", settings={"l1": 0.01}, passes=3)
    save_stream(tmp_path / "m.h5", stream)
    found, _ = weights_by_id(tmp_path / "m.h5", 31)
    trained = np.zeros(31)
    with Store(store) as source:
        trained[source.feature_ids(0, source.n_features)] = run.w[:-1]
    np.testing.assert_allclose(found, trained, rtol=1e-9, atol=1e-10)
    assert reports[-1].mistakes == run.outer()[-1]["mistakes"]
    assert {150, 300, 450} <= {r.rows for r in reports}
    one = learned(text, "hf-fobos", settings={"l1": 0.01})[1][-1]
    assert one.passes is None
    each = reports[-1].passes
    assert [own["rows"] for own in each] == [150, 150, 150]
    assert (each[0]["mistakes"], each[0]["cumulative_loss"]) == (one.mistakes, one.cumulative_loss)
    assert sum(own["mistakes"] for own in each) == reports[-1].mistakes
    _, out, _ = succeeds(stream_main, text, "--learner", "pa,arow", "--passes", "2")
    assert "pass 1: average loss " in out
    assert "pass 2: average loss " in out and out.count("of rows that were learned from before") == 1
    _, out, _ = succeeds(stream_main, text, "--learner", "pa", "--passes", "2", "--json")
    assert [own["rows"] for own in json.loads(out)["passes"]] == [150, 150]
    # the memory of a part of the text does not shrink from pass to pass, and bad lines are counted once
    assert stream.ahead.piece_bytes == learned(text, "pa")[0].ahead.piece_bytes
    (tmp_path / "bad.svm").write_text("1 1:1\nx 2:2\n-1 2:1\n")
    _, out, err = succeeds(stream_main, tmp_path / "bad.svm", "--learner", "pa", "--passes", "4", "--skip-bad")
    assert "lines skipped: 1" in out
    assert err.count("skipped:") == 1
    assert "8 rows" in out


def test_a_test_learns_nothing_and_equals_predict(tmp_path, succeeds):
    X, y = random_rows(n=300, d=30, seed=5)
    text = text_of(tmp_path, X[:200], y[:200])
    (tmp_path / "new.svm").write_text(svmlight(X[200:], y[200:]))
    model, found = tmp_path / "m.h5", tmp_path / "p.txt"
    for learner in ("arow", "fobos"):
        succeeds(stream_main, text, "--learner", learner, "--model", model, "--overwrite")
        bytes_before = model.read_bytes()
        succeeds(stream_main, tmp_path / "new.svm", "--from", model, "--test", "--predictions", found, "--scores",
                 "--overwrite")  # fmt: skip
        assert model.read_bytes() == bytes_before
        out = succeeds(predict, model, tmp_path / "new.svm", "--scores").out
        np.testing.assert_allclose(np.loadtxt(found), np.array(out.split(), dtype=float), rtol=1e-9, atol=1e-12)
    stream = StreamPass(StreamSettings(test=True), start_from=model)
    before = stream.leading.state.columns.copy()
    rows = stream.rows
    assert stream.run([str(tmp_path / "new.svm")])
    assert stream.rows == rows + 100
    n = stream.leading.runner.width * 30
    assert np.array_equal(stream.leading.state.columns[:n], before[:n])


@pytest.mark.parametrize(
    ("options", "told"),
    [(["--learner", "pa", "--scores"], "--scores needs --predictions FILE"),
     (["--learner", "pa", "--test"], "--test: learns nothing; give --from"),
     (["--learner", "pa", "--test", "--model", "m.h5"], "--test learns nothing, so there is no model to write"),
     (["--learner", "pa", "--passes", "0"], "--passes 0: must be 1 or more"),
     (["--learner", "pa", "--predictions", "no/such/p.txt"], "the folder no/such does not exist"),
     (["--learner", "pa", "--predictions", "rows.svm", "--overwrite"], "rows.svm")],
)  # fmt: skip
def test_what_does_not_fit_is_said(tmp_path, monkeypatch, options, told, refusal):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n")
    assert told in refusal(stream_main, "rows.svm", *options)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.svm"]
    assert (tmp_path / "rows.svm").read_text() == "1 1:1\n-1 2:1\n"


def test_predictions_of_many_classes_take_little_memory_at_once(tmp_path):
    """Of a piece with more decision values than that, and of pieces with fewer."""
    rng = np.random.default_rng(0)
    labels, entries = tuple(float(c) for c in range(100)), " ".join(f"{j}:1" for j in range(20, 60))
    (tmp_path / "rows.svm").write_text("".join(f"{rng.integers(100)} {i % 7 + 1}:1 {entries}\n" for i in range(1_000)))
    found, sizes = [], []
    for memory in (1_000_000_000, SMALL_PIECES):
        predicted = []
        learned(tmp_path / "rows.svm", "pa1", labels=labels, memory=memory, predicted=predicted)
        found.append(np.concatenate(predicted))
        sizes.append(max(values.size for values in predicted))
    assert np.array_equal(found[0], found[1])
    assert sizes[0] == PREDICTED_AT_ONCE // 100 * 100 and sizes[1] < sizes[0]


def test_standard_input_has_one_pass():
    stream = StreamPass(StreamSettings("pa", passes=2))
    refused("standard input can be read once", stream.run, ["-"])


def test_predictions_that_are_broken_off_get_no_name(tmp_path, refusal):
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n1 1:x\n")
    assert "rows.svm:3" in refusal(
        stream_main, tmp_path / "rows.svm", "--learner", "pa", "--predictions", tmp_path / "p.txt"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.svm"]


@pytest.mark.process
def test_a_pipe_gets_predictions_as_rows_come():
    line = [sys.executable, "-m", "blocksvm.stream", "-", "--learner", "pa", "--predictions", "-", "--quiet"]
    with subprocess.Popen(line, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        for row, predicted in (("1 1:1\n", "-1\n"), ("1 1:1\n", "1\n"), ("-1 1:1\n", "1\n")):
            child.stdin.write(row)
            child.stdin.flush()
            assert child.stdout.readline() == predicted, "before the next row is written"
        child.stdin.close()
        assert child.wait(timeout=60) == 0


def test_a_row_without_entries_is_predicted(tmp_path):
    (tmp_path / "rows.vw").write_text("1 | a\n| \n-1 | b\n")
    predicted = []
    learned(tmp_path / "rows.vw", "pa", format="vw", predicted=predicted)
    assert np.concatenate(predicted).tolist() == [0.0, 0.0, 0.0]
