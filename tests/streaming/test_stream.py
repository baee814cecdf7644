"""The stream: text in, progressive loss out; training's learner, any pieces, faults, saves, memory; several at once."""

import contextlib
import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support.paths import ROOT
from support.plain_learners import LEARNERS as PLAIN
from support.plain_learners import MultiPrototype
from support.plain_learners import run as run_plainly
from support.refused import refused
from support.stream_cases import SMALL_PIECES, growing_rows, learned, single, text_of, weights_by_id
from support.training_cases import make_store, random_rows, svmlight, train

from blocksvm.info import main as info
from blocksvm.model.model_file import load_model
from blocksvm.stream import main
from blocksvm.streaming.stream_saving import save_stream


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("labels", [None, (3.0, 5.0), (1.0, 2.0, 9.0)])
def test_a_stream_is_its_learner_row_by_row(tmp_path, average, labels):
    X, y = random_rows(n=200, d=30, seed=2)
    X = single(X)
    dense = PLAIN["arow"](31)
    values = labels or (-1.0, 1.0)
    rows = np.hstack([X.toarray(), np.full((200, 1), 0.5)])
    if len(values) == 3:
        y = np.array(values)[np.arange(200) % 3]
        dense = MultiPrototype(PLAIN["arow"], 3, 31)
        total = np.zeros((3, 31))
        for x, label in zip(rows, y, strict=True):
            dense.learn(x, values.index(label))
            total += dense.W
        last = dense.W
    else:
        _, last, mean = run_plainly(dense, rows, y)
        total = 200 * mean
        y = np.where(y > 0, values[1], values[0])
    stream, _ = learned(text_of(tmp_path, X, y), "arow", labels=labels, average=average, bias=0.5)
    save_stream(tmp_path / "m.h5", stream)
    found, model = weights_by_id(tmp_path / "m.h5", 31)
    expected = total / 200 if average else last
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
    told = refusal(main, text, "--learner", "pa1", "--model", tmp_path / "m.h5")
    assert told.startswith(f"blocksvm stream: error: {text}:1: 'what' is not a number")
    assert not (tmp_path / "m.h5").exists()
    _, out, err = succeeds(main, text, "--learner", "pa1", "--skip-bad", "--model", tmp_path / "m.h5")
    assert "lines skipped: 5" in out
    for number in bad:
        assert f"skipped: {text}:{number + 1}: " in err
    good = tmp_path / "good.svm"
    good.write_text("\n".join(line for k, line in enumerate(lines) if k not in bad))
    succeeds(main, good, "--learner", "pa1", "--model", tmp_path / "g.h5")
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


def test_a_stream_can_be_continued_by_training(tmp_path):
    X, y = random_rows(n=100, d=15, seed=8)
    text = text_of(tmp_path, X, y)
    stream, _ = learned(text, "arow")
    save_stream(tmp_path / "m.h5", stream)
    store = make_store(tmp_path, X, y, name="store", keep_order=True)
    run = train(store, solver="arow", order="stored", continue_from=tmp_path / "m.h5")
    twice = train(store, solver="arow", order="stored", max_outer=2)
    np.testing.assert_allclose(run.w, twice.w, rtol=1e-9, atol=1e-12)
    assert run.outer()[-1]["rows"] == 200


def test_the_command_writes_progress_model_and_log(tmp_path, succeeds, refusal):
    X, y = random_rows(n=100, d=15, seed=9)
    text = text_of(tmp_path, X, y)
    model, log = tmp_path / "m.h5", tmp_path / "t.jsonl"
    options = ["--learner", "pa1", "-C", "0.2", "--query", "0.5", "--model", model, "--log", log, "--save-every", 30]
    _, out, err = succeeds(main, text, *options)
    assert "100 rows in" in out and "labels asked for:" in out and "average" in err
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert events[0]["event"] == "start"
    assert [e["rows"] for e in events if e["event"] == "progress"] == [1, 2, 4, 8, 16, 32, 64]
    assert (events[-1]["event"], events[-1]["rows"]) == ("end", 100)
    assert load_model(model).meta.progress.rows == 100
    assert "a stream of 100 rows: average loss" in succeeds(info, model).out
    refusal(main, text, *options)  # the outputs exist
    assert succeeds(main, text, *options, "--overwrite", "--quiet").err == ""


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (["--learner", "omd", "--mirror", "entropic", "--n-features", "5"], "--n-features 5: the rows have"),
        (["--learner", "pegasos"], "pegasos needs --lambda"),
        (["--learner", "pa1", "--bits", "40"], "--bits 40: must be from 1 to 31"),
        (["--learner", "pa1", "--bits", "30"], "--bits 30: takes 17,180 MB"),
        (["--learner", "pa1", "--labels", "1"], "name two different labels"),
        (["--learner", "pa1", "--labels", "a,b"], "is not one of a and b"),
        (["--learner", "pa1", "--save-every", "5"], "--save-every needs --model"),
        (["--learner", "pa1", "--memory", "300kB"], "too small for a stream"),
        (["--learner", "pa1", "--query", "-1"], "--query -1: must be"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(tmp_path, options, what, refusal):
    text = text_of(tmp_path, *random_rows(n=10))
    assert what in refusal(main, text, *options)


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
    _, out, err = succeeds(main, *arguments, "--save-every", 30)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert events[0]["learners"]["pa1"]["C"] == 0.5
    assert events[0]["learners"]["ogd"]["step"] == 0.1
    last = events[-1]["learners"]
    lines = err.splitlines()
    at = next(k for k, line in enumerate(lines) if line.split() == ["row", "pa1", "ogd"])
    assert lines[at + 8].split() == ["100", *(f"{told['mistakes'] / 100:.3%}" for told in last.values())]
    best = min(last, key=lambda name: last[name]["mistakes"])
    assert f"{best} leads, average loss" in out
    assert "of all 200 rows" in succeeds(main, text, "--from", model, "--model", model, "--overwrite").out


@pytest.mark.parametrize(
    ("learner", "options", "what"),
    [("pa1,pa1", {}, "names a learner twice"), ("pa1,nobody", {}, "nobody: no such learner"),
     ("pa1,arow", {"settings": {"step": 1.0}}, "step: none of the learners pa1, arow has it"),
     ("pa1,ogd", {"settings": {"step": -1.0}}, "step=-1: must be above 0"),
     ("pa1,arow", {"targets": "numbers"}, "arow learns classes alone"),
     ("pa1,arow", {"start_from": "m.h5"}, "start_from: is for one learner; pa1,arow are several")],
)  # fmt: skip
def test_what_cannot_be_is_refused(tmp_path, learner, options, what):
    text = text_of(tmp_path, *random_rows(n=10, d=5, seed=4))
    refused(what, learned, text, learner, **options)


def test_the_default_needs_no_name(tmp_path, succeeds):
    text = text_of(tmp_path, *random_rows(n=50, d=10, seed=5))
    _, out, err = succeeds(main, text, "--predictions", "-")
    assert ": auto; a table of ids that grows" in err
    assert len(out.splitlines()) == 50
