"""The stream: text in, progressive loss and predictions out; any pieces, faults, memory, passes; several at once."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pytest
from support.paths import ROOT
from support.plain_learners import LEARNERS as PLAIN
from support.plain_learners import MultiPrototype, OneVsRest
from support.refused import refused
from support.stream_cases import SMALL_PIECES, growing_rows, learned, single, text_of, weights_by_id
from support.training_cases import logged, make_store, random_rows, svmlight, train

from blocksvm.model.model_file import load_model
from blocksvm.store.reader import Store
from blocksvm.streaming.stream_pass import PREDICTED_AT_ONCE, StreamPass, StreamSettings
from blocksvm.streaming.stream_saving import save_stream


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("labels", [None, (3.0, 5.0), (1.0, 2.0, 9.0)])
def test_a_stream_is_its_learner_row_by_row(tmp_path, average, labels):
    X, y = random_rows(n=200, d=30, seed=2)
    X, values = single(X), np.array(labels or (-1.0, 1.0))
    three, total = len(values) == 3, 0.0
    codes = np.arange(200) % 3 if three else y.astype(int)
    dense = MultiPrototype(PLAIN["arow"], 3, 31) if three else PLAIN["arow"](31)
    for x, c in zip(np.hstack([X.toarray(), np.full((200, 1), 0.5)]), codes, strict=True):
        dense.learn(x, c)
        total = total + dense.W
    expected, y = np.squeeze(total / 200 if average else dense.W), values[codes if three else (codes + 1) // 2]
    stream, _ = learned(text_of(tmp_path, X, y), "arow", labels=labels, average=average, bias=0.5)
    save_stream(tmp_path / "m.h5", stream)
    found, model = weights_by_id(tmp_path / "m.h5", 31)
    np.testing.assert_allclose(found[..., 1:], expected[..., :30], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(np.asarray(model.intercept), 0.5 * expected[..., 30], rtol=1e-9, atol=1e-10)
    assert model.labels == tuple(values)


@pytest.mark.parametrize("bits", [None, 6])
def test_pieces_jobs_and_growth_change_nothing(tmp_path, bits):
    """The table of ids grows beyond its 4,096 at first: with all rows at once, or between pieces of them."""
    X, y = random_rows(n=1_000, d=9_000, density=0.003, seed=3)
    y = np.arange(1_000) % 3.0
    text = text_of(tmp_path, X, y)
    found = []
    for memory, jobs in ((1_000_000_000, 1), (1_000_000_000, 2), (SMALL_PIECES, 3)):
        options = {"memory": memory, "n_jobs": jobs, "bits": bits, "labels": (0.0, 1.0, 2.0), "bias": 1.0}
        stream, reports = learned(text, "scw1", **options)
        save_stream(tmp_path / "m.h5", stream)
        weights, model = weights_by_id(tmp_path / "m.h5", 1 << 14)
        found.append((weights.tobytes(), model.intercept.tobytes(), reports[-1].cumulative_loss, reports[-1].mistakes))
        (tmp_path / "m.h5").unlink()
    assert found[0] == found[1] == found[2]


def test_bad_lines_are_errors_or_are_counted_shown_and_skipped(tmp_path, succeeds, refusal):
    X, y = random_rows(n=120, d=10, seed=5)
    lines = svmlight(X, y).splitlines()
    bad = {0: "what is this", 3: "+1 3:x", 50: "1 2:1 2:3", 51: "7 1:1", 119: "-1 1:nan"}
    mixed = [bad.get(k, line) for k, line in enumerate(lines)]
    text = tmp_path / "mixed.svm"
    text.write_text("\n".join(mixed))
    told = refusal("stream", text, "--learner", "pa1", "--model", tmp_path / "m.h5")
    assert told.startswith(f"blocksvm stream: error: {text}:1: 'what' is not a number")
    assert not (tmp_path / "m.h5").exists()
    _, out, err = succeeds("stream", text, "--learner", "pa1", "--skip-bad", "--model", tmp_path / "m.h5")
    assert "lines skipped: 5" in out
    for number in bad:
        assert f"skipped: {text}:{number + 1}: " in err
    good = tmp_path / "good.svm"
    good.write_text("\n".join(line for k, line in enumerate(lines) if k not in bad))
    succeeds("stream", good, "--learner", "pa1", "--model", tmp_path / "g.h5")
    assert np.array_equal(*(weights_by_id(tmp_path / name, 11)[0] for name in ("m.h5", "g.h5")))


@pytest.mark.parametrize(("labels", "what"), [("0 1", None), ("-1 1", None), ("-1 0", "0 and 1"), ("1 2", "-1 and 1")])
def test_labels_that_a_stream_knows(tmp_path, labels, what):
    negative, positive = labels.split()
    text = tmp_path / "rows.svm"
    text.write_text(f"{positive} 1:1\n{negative} 2:1\n{positive} 1:1\n")
    if what is None:
        stream, _ = learned(text, "perceptron")
        assert stream.targets.labels.values == (float(negative), float(positive))
    else:
        refused(f"not one of {what}; name the labels with labels", learned, text, "perceptron")
        stream, _ = learned(text, "perceptron", labels=(float(negative), float(positive)))
    save_stream(tmp_path / "m.h5", stream)
    assert load_model(tmp_path / "m.h5").labels == (float(negative), float(positive))


def test_the_command_writes_progress_model_and_log(tmp_path, succeeds, refusal):
    X, y = random_rows(n=100, d=15, seed=9)
    text = text_of(tmp_path, X, y)
    model, log = tmp_path / "m.h5", tmp_path / "t.jsonl"
    options = ["--learner", "pa1", "-C", "0.2", "--query", "0.5", "--model", model, "--log", log, "--save-every", 30]
    _, out, err = succeeds("stream", text, *options)
    assert "100 rows in" in out and "labels asked for:" in out and "average" in err
    events = logged(log)
    assert events[0]["event"] == "start"
    assert [e["rows"] for e in events if e["event"] == "progress"] == [1, 2, 4, 8, 16, 32, 64]
    assert (events[-1]["event"], events[-1]["rows"]) == ("end", 100)
    assert load_model(model).meta.progress.rows == 100
    assert "a stream of 100 rows: average loss" in succeeds("info", model).out
    refusal("stream", text, *options)  # the outputs exist
    assert succeeds("stream", text, *options, "--overwrite", "--quiet").err == ""


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--learner omd --mirror entropic --n-features 1", "--n-features 1: the rows have"),
        ("--learner pegasos", "pegasos needs --lambda"),
        ("--learner pa1 --bits 40", "--bits 40: must be from 1 to 31"),
        ("--learner pa1 --bits 30", "--bits 30: takes 17,180 MB"),
        ("--learner pa1 --labels 1", "name two different labels"),
        ("--learner pa1 --labels a,b", "is not one of a and b"),
        ("--learner pa1 --save-every 5", "--save-every needs --model"),
        ("--learner pa1 --memory 300kB", "too small for a stream"),
        ("--learner pa1 --query -1", "--query -1: must be"),
        ("--learner pa --scores", "--scores needs --predictions FILE"),
        ("--learner pa --test", "--test: learns nothing; give --from"),
        ("--learner pa --test --model m.h5", "--test learns nothing, so there is no model to write"),
        ("--learner pa --passes 0", "--passes 0: must be 1 or more"),
        ("--learner pa --predictions no/such/p.txt", "the folder no/such does not exist"),
        ("--learner pa --predictions rows.svm --overwrite", "rows.svm"),
        ("--ask a.txt", "--ask: needs --query, which says"),
        ("--ask a.txt --query 1 --learner pa,pa1", "--ask: is for one learner; pa,pa1 are several"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(tmp_path, monkeypatch, options, told, refusal):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n")
    assert told in refusal("stream", "rows.svm", *options.split())
    assert [path.name for path in tmp_path.iterdir()] == ["rows.svm"]
    assert (tmp_path / "rows.svm").read_text() == "1 1:1\n-1 2:1\n"


@pytest.mark.parametrize(
    ("learner", "options", "what"),
    [
        ("pa1,pa1", {}, "names a learner twice"),
        ("pa1,nobody", {}, "nobody: no such learner"),
        ("pa1,arow", {"settings": {"step": 1.0}}, "step: none of the learners pa1, arow has it"),
        ("pa1,ogd", {"settings": {"step": -1.0}}, "step=-1: must be above 0"),
        ("pa1,arow", {"targets": "numbers"}, "arow learns classes alone"),
        ("pa1,arow", {"start_from": "m.h5"}, "start_from: is for one learner; pa1,arow are several"),
        ("pa1", {"class_weight": "balanced"}, "how many rows of each class will come is not known in a stream"),
        ("pa1", {"class_weight": "1=2,1.0=3"}, "class_weight=1=2,1.0=3: gives the label 1 two weights; leave one out"),
        ("pa1", {"labels": "-1,"}, "labels=-1,: expected finite numbers such as 1,2, or words such as ham,spam"),
        ("pa1", {"class_weight": "1=0"}, "the weight must be a finite number above 0"),
        ("pa1", {"class_weight": "1=2", "targets": "numbers"}, "class_weight: is for rows of one label each"),
        ("pa", {"class_weight": "1=2"}, "pa does not support class weights"),
        ("pa1", {"class_weight": "7=2"}, "no row has this label; the labels are -1 and 1"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path, learner, options, what):
    refused(what, learned, text_of(tmp_path, *random_rows(n=10, d=5, seed=4)), learner, **options)


def test_ids_that_do_not_fit_are_refused_before_memory_is_exceeded(tmp_path):
    text = tmp_path / "many.svm"
    text.write_text("".join(f"1 {k * 20 + 1}:1 {k * 20 + 7}:1\n" for k in range(120_000)))
    refused(r"(features do not fit in memory|table of distinct feature ids)", learned, text, "scw1", memory=8_000_000)


@pytest.mark.process
def test_memory_does_not_depend_on_the_number_of_rows(tmp_path):
    """Peak memory of the process for 1 and for 8 times the rows, through a pipe."""
    rows = "".join(f"{k % 2} {k % 97 + 1}:1 {k % 89 + 200}:0.5 {k % 83 + 400}:2\n" for k in range(20_000)).encode()
    code = (
        "import resource, sys\n"
        "from blocksvm.stream import main\n"
        "main(['-', '--learner', 'arow', '--memory', '32MB', '--quiet'])\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)\n"
    )
    peaks = []
    for times in (1, 1, 8):
        done = subprocess.run([sys.executable, "-c", code], input=rows * times, capture_output=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        assert f"{20_000 * times:,} rows in".encode() in done.stdout
        peaks.append(int(done.stdout.split()[-1]))
    assert peaks[2] - peaks[1] < 24_000_000


def stream_of_a_pipe(folder) -> subprocess.Popen:
    line = [sys.executable, "-m", "blocksvm.stream", "-", "--learner", "pa1", "--memory", "64MB", "--model",
            str(folder / "m.h5")]  # fmt: skip
    pipe = subprocess.PIPE
    return subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, cwd=ROOT, bufsize=0)


@pytest.mark.process
def test_ctrl_c_saves_the_model(tmp_path):
    rows = "".join(f"{k % 2} {k % 50 + 1}:1\n" for k in range(100_000)).encode()
    with stream_of_a_pipe(tmp_path) as child:
        child.stdin.write(rows)  # more than a piece: some of it is learned, the rest waits for more
        for line in child.stderr:
            if b" 1,024 " in line:
                break
        child.send_signal(signal.SIGINT)
        with contextlib.suppress(BrokenPipeError):
            while child.poll() is None:
                child.stdin.write(rows)
        assert child.wait(timeout=60) == 130
        assert b"interrupted after" in child.stderr.read().splitlines()[-1]
    assert load_model(tmp_path / "m.h5").meta.progress.rows >= 1_024


@pytest.mark.process
@pytest.mark.parametrize("rows", [0, 4])
def test_ctrl_c_ends_a_stream_that_waits_for_more(tmp_path, rows):
    """Nothing comes, nothing ends: the thread that reads must neither be waited for nor abort the interpreter."""
    with stream_of_a_pipe(tmp_path) as child:
        child.stdin.write(b"1 1:1\n-1 2:1\n" * (rows // 2))
        seen = b""
        for line in child.stderr:
            seen = line
            if line.split()[:1] == [b"average"] and rows == 0:
                time.sleep(0.5)  # it waits
                break
            if line.split()[2:3] == [b"%d" % rows]:
                break
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=30) == 130, seen
        told = child.stderr.read().splitlines()[-1]
    saved = f"model saved in {tmp_path / 'm.h5'}" if rows else "nothing was saved"
    assert told.decode() == f"blocksvm stream: interrupted after {rows} rows; {saved}"
    assert (tmp_path / "m.h5").exists() == (rows > 0)


@pytest.mark.parametrize("bits", [None, 6])
@pytest.mark.parametrize("labels", [None, (0.0, 1.0, 2.0)])
def test_each_learner_is_what_it_is_alone(tmp_path, bits, labels):
    X, y = growing_rows(seed=1)
    y = y if labels is None else np.arange(300) % 3.0
    text = text_of(tmp_path, X, y)
    options = {"bits": bits, "labels": labels, "bias": 1.0}
    several, reports = learned(text, "pa1,arow,ogd", settings={"C": 0.3, "step": 0.2}, **options)
    assert [report.rows for report in reports] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    own = {"pa1": {"C": 0.3}, "arow": {}, "ogd": {"step": 0.2}}
    for learner in several.learners:
        alone, _ = learned(text, learner.name, settings=own[learner.name], **options)
        assert learner.method == alone.leading.method
        assert np.array_equal(learner.state.columns, alone.leading.state.columns)
        assert np.array_equal(learner.state.tally, alone.leading.state.tally)
        last, report = reports[-1].learners[learner.name], alone.report()
        assert (last["mistakes"], last["cumulative_loss"]) == (report.mistakes, report.cumulative_loss)
    best = min(several.learners, key=lambda learner: reports[-1].learners[learner.name]["mistakes"])
    assert several.leading is best
    assert reports[-1].mistakes == reports[-1].learners[best.name]["mistakes"]
    save_stream(tmp_path / "several.h5", several)
    alone, _ = learned(text, best.name, settings=own[best.name], **options)
    save_stream(tmp_path / "alone.h5", alone)
    found, model = weights_by_id(tmp_path / "several.h5", 1 << 14)
    expected, _ = weights_by_id(tmp_path / "alone.h5", 1 << 14)
    assert np.array_equal(found, expected)
    assert model.meta.method.name == best.name


def test_of_numbers_the_least_squared_error_leads(tmp_path):
    X, y = random_rows(n=200, d=20, seed=2)
    text = text_of(tmp_path, X, X @ np.linspace(-1.0, 1.0, 20))
    several, reports = learned(text, "pa,ogd", settings={"step": 1e-9}, targets="numbers")
    errors = {name: told["squared_errors"] for name, told in reports[-1].learners.items()}
    assert several.leading.name == "pa"
    assert errors["pa"] < 0.5 * errors["ogd"]


def test_the_command_shows_one_table(tmp_path, succeeds):
    text = text_of(tmp_path, *random_rows(n=100, d=10, seed=3))
    log, model = tmp_path / "l.jsonl", tmp_path / "m.h5"
    arguments = (text, "--learner", "pa1,ogd", "-C", 0.5, "--step", 0.1, "--log", log, "--model", model)
    _, out, err = succeeds("stream", *arguments, "--save-every", 30)
    events = logged(log)
    assert events[0]["learners"]["pa1"]["C"] == 0.5
    assert events[0]["learners"]["ogd"]["step"] == 0.1
    last = events[-1]["learners"]
    lines = err.splitlines()
    at = next(k for k, line in enumerate(lines) if line.split() == ["row", "pa1", "ogd"])
    assert lines[at + 8].split() == ["100", *(f"{told['mistakes'] / 100:.3%}" for told in last.values())]
    best = min(last, key=lambda name: last[name]["mistakes"])
    assert f"{best} leads, average loss" in out
    assert "of all 200 rows" in succeeds("stream", text, "--from", model, "--model", model, "--overwrite").out


def test_the_default_needs_no_name(tmp_path, succeeds):
    text = text_of(tmp_path, *random_rows(n=50, d=10, seed=5))
    _, out, err = succeeds("stream", text, "--predictions", "-")
    assert ": auto; a table of ids that grows" in err
    assert len(out.splitlines()) == 50


@pytest.mark.parametrize("rule", [None, "prototype", "rest"])
def test_predictions_are_those_made_before_each_row(tmp_path, succeeds, rule):
    X, y = random_rows(n=300, d=30, seed=1)
    X, labels = single(X), np.array([2.0, 5.0, 7.0] if rule else [0.0, 1.0])
    codes = np.argmax(X @ np.random.default_rng(0).standard_normal((30, 3)), axis=1) if rule else y.astype(int)
    learner, scores = partial(PLAIN["pa1"], C=0.1), []
    dense = {None: lambda make, k, d: make(d), "prototype": MultiPrototype, "rest": OneVsRest}[rule](learner, 3, 30)
    for x, c in zip(X.toarray(), codes, strict=True):
        scores.append(dense.W @ x)
        dense.learn(x, c)
    text = text_of(tmp_path, X, labels[codes if rule else (codes + 1) // 2])
    named = ("--labels", "2,5,7", "--multiclass", rule) if rule else ()
    given = (text, "--learner", "pa1", "-C", "0.1", *named, "--predictions")
    out = succeeds("stream", *given, tmp_path / "s.txt", "--scores").out
    assert f"300 predictions in {tmp_path / 's.txt'}" in out
    values = np.loadtxt(tmp_path / "s.txt")
    np.testing.assert_allclose(values, np.squeeze(scores), rtol=1e-6, atol=1e-7 if rule else 1e-9)
    succeeds("stream", *given, tmp_path / "l.txt")
    places = values.argmax(axis=1) if rule else (values > 0).astype(int)
    assert np.array_equal(np.loadtxt(tmp_path / "l.txt"), labels[places])
    # to standard output, what is said of them to standard error
    _, out, err = succeeds("stream", *given, "-")
    assert out == (tmp_path / "l.txt").read_text()
    assert "mistakes" in err


@pytest.mark.parametrize(("targets", "labels"), [(None, None), (None, (-1.0, 1.0, 3.0)), ("numbers", None)])
def test_rows_without_a_label_are_predicted_and_change_nothing(tmp_path, targets, labels):
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
    first, (*_, one) = learned(text, "hf-fobos", settings={"l1": 0.01})
    assert one.passes is None
    save_stream(tmp_path / "one.h5", first)
    on = train(store, solver="hf-fobos", order="stored", max_outer=2, l1=0.01, continue_from=tmp_path / "one.h5")
    np.testing.assert_allclose(on.w, run.w, rtol=1e-9, atol=1e-12)
    assert on.outer()[-1]["rows"] == 450
    each = reports[-1].passes
    assert [own["rows"] for own in each] == [150, 150, 150]
    assert (each[0]["mistakes"], each[0]["cumulative_loss"]) == (one.mistakes, one.cumulative_loss)
    assert sum(own["mistakes"] for own in each) == reports[-1].mistakes
    _, out, _ = succeeds("stream", text, "--learner", "pa,arow", "--passes", "2")
    assert "pass 1: average loss " in out
    assert "pass 2: average loss " in out and out.count("of rows that were learned from before") == 1
    _, out, _ = succeeds("stream", text, "--learner", "pa", "--passes", "2", "--json")
    assert [own["rows"] for own in json.loads(out)["passes"]] == [150, 150]
    # the memory of a part of the text does not shrink from pass to pass, and bad lines are counted once
    assert stream.ahead.piece_bytes == learned(text, "pa")[0].ahead.piece_bytes
    (tmp_path / "bad.svm").write_text("1 1:1\nx 2:2\n-1 2:1\n")
    _, out, err = succeeds("stream", tmp_path / "bad.svm", "--learner", "pa", "--passes", "4", "--skip-bad")
    assert "lines skipped: 1" in out
    assert err.count("skipped:") == 1
    assert "8 rows" in out
    refused("standard input can be read once", StreamPass(StreamSettings("pa", passes=2)).run, ["-"])


def test_a_test_learns_nothing_and_equals_predict(tmp_path, succeeds):
    X, y = random_rows(n=300, d=30, seed=5)
    text = text_of(tmp_path, X[:200], y[:200])
    (tmp_path / "new.svm").write_text(svmlight(X[200:], y[200:]))
    model, found = tmp_path / "m.h5", tmp_path / "p.txt"
    for learner in ("arow", "fobos"):
        succeeds("stream", text, "--learner", learner, "--model", model, "--overwrite")
        bytes_before = model.read_bytes()
        succeeds("stream", tmp_path / "new.svm", "--from", model, "--test", "--predictions", found, "--scores",
                 "--overwrite")  # fmt: skip
        assert model.read_bytes() == bytes_before
        out = succeeds("predict", model, tmp_path / "new.svm", "--scores").out
        np.testing.assert_allclose(np.loadtxt(found), np.array(out.split(), dtype=float), rtol=1e-9, atol=1e-12)
    stream = StreamPass(StreamSettings(test=True), start_from=model)
    before = stream.leading.state.columns.copy()
    rows = stream.rows
    assert stream.run([str(tmp_path / "new.svm")])
    assert stream.rows == rows + 100
    n = stream.leading.runner.width * 30
    assert np.array_equal(stream.leading.state.columns[:n], before[:n])


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


def test_predictions_that_are_broken_off_get_no_name(tmp_path, refusal):
    text = tmp_path / "rows.svm"
    text.write_text("1 1:1\n-1 2:1\n1 1:x\n")
    assert "rows.svm:3" in refusal("stream", text, "--learner", "pa", "--predictions", tmp_path / "p.txt")
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
