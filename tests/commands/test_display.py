"""Displays and options: tables at 80 columns, plain logs, closed streams, options, words of messages."""

import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from types import SimpleNamespace

import numpy as np
import pytest
from support.places import ROOT
from support.stream_cases import text_of
from support.training_cases import command, make_store, random_rows, run_in_process, train

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.cli.console import Parser
from blocksvm.cli.console import run as run_command
from blocksvm.cli.display import training
from blocksvm.cli.display.number_texts import clock, counted, fitted, megabytes, number_of, sizes
from blocksvm.cli.display.streaming import StreamDisplay
from blocksvm.cli.display.training import TrainDisplay
from blocksvm.commands.cv import shown as table_of_cv
from blocksvm.commands.info import main as info_main
from blocksvm.commands.predict import main as predict_main
from blocksvm.commands.split import main as split_main
from blocksvm.commands.stream import main as stream_main
from blocksvm.commands.train import main as train_main
from blocksvm.sources.matrix import Matrix

START = {
    "event": "start", "tol": 1e-3, "max_seconds": None, "max_outer": 1000, "memory_plan": {"weights": 10**6},
    "blocks": 8, "lam": None, "C": 1.0, "solver": "dual-cd", "loss": "hinge", "learner_settings": None,
    "schedule": "auto", "store": "store.h5", "n_samples": 10**6, "n_features": 10**6, "n_nonzeros": 10**8,
    "n_vectors": 1, "seed": 0,
    "memory": 10**9, "resident": False, "under_way": 0, "outer": 1,
}  # fmt: skip


def outer(number, *, certified=False, valid=None, **more):
    """A batch solver's outer iteration, with figures as wide as they come."""
    return {
        "event": "outer", "outer": number, "seconds": 12345.6 + number, "blocks": 8, "inner_passes": 100,
        "seconds_training": 1.0, "seconds_waiting": 9.0, "valid_accuracy": valid, "valid_rmse": None,
        "primal": 1.23456e-17 if certified else None, "dual": -1.23456e-17 if certified else None,
        "rel_gap": 4.5e-100 if certified else None, "primal_estimate": 1.23456e17, "dual_estimate": -1.23456e-17,
        "gap_estimate": 3.0e-4, "bytes_read": 123_456_789, "set_rows": 123_456, "set_share": 0.987,
        "set_passes": [1] * 99, **more,
    }  # fmt: skip


def epoch(number, *, asked=None):
    return outer(number, rows=1_000_000 * number, cumulative_loss=2.0 * number, mistakes=12 * number,
                 squared_errors=None, asked=1_000_000 * number if asked is None else asked * number)  # fmt: skip


def fed(events, start=START):
    """(display, plain log) after the events."""
    display = TrainDisplay(io.StringIO(), quiet=False)
    with display:
        for event in (start, *events):
            display.show(event)
    return display, display.stream.getvalue()


@pytest.mark.parametrize("valid", [None, 0.9876])
@pytest.mark.parametrize("width", [80, 60, 40])
def test_rows_fit_the_terminal_and_are_whole(valid, width, monkeypatch):
    monkeypatch.setattr(training, "width_of", lambda stream: width)
    _, log = fed([outer(999, valid=valid, certified=True), outer(1000, valid=valid, certified=True)])
    lines = log.splitlines()[-3:]
    assert max(map(len, lines)) <= width
    assert [line.split()[0] for line in lines] == ["outer", "999", "1000"]
    assert all("4.5e-100" in line for line in lines[1:])
    if width == 80:
        assert {"primal", "dual", "gap"} <= set(lines[0].split()) and "1.23456e-17" in lines[1].split()


EXTREMES = [1e-300, -1e-300, 1e22, -1e22, 123456.789, -0.00012345, 0.1, 0.0, 1.1e308, 5e-324]


@pytest.mark.parametrize("width", [7, 8, 10, 14])
def test_a_number_that_is_fitted_is_whole(width):
    for value in EXTREMES:
        text = fitted(value, width)
        assert len(text) <= max(width, 7)
        # no digit of its size is lost, and one digit at the least is right
        assert float(text) == pytest.approx(value, rel=0.35, abs=0.0)
    for n in (0, 999, 1_234_567, 8_000_000_000, 10**22):
        assert len(counted(n, width)) <= width and float(counted(n, width).replace(",", "")) == pytest.approx(
            n, rel=0.1
        )
    assert [clock(seconds) for seconds in (5, 3700, 1e9, 1e22)] == ["5s", "1h01m", "1.16e+04d", "1.16e+17d"]
    assert len(megabytes(1e22)) <= 12


def test_one_of_a_thing_is_named_in_the_singular(tmp_path, run_in_process):
    assert (number_of(1, "row"), number_of(0, "row"), number_of(1234, "pass")) == ("1 row", "0 rows", "1,234 passes")
    assert sizes(1, 1, 1) == "1 row, 1 feature, 1 nonzero"
    (tmp_path / "a.svm").write_text("1 1:1\n")
    printed = run_in_process(split_main, tmp_path / "a.svm", tmp_path / "s.h5", "--threads", "1")
    found = printed.out + printed.err + run_in_process(info_main, tmp_path / "s.h5").out
    assert "1 row, 1 feature, 1 nonzero" in found and "in 1 chunk:" in found and "1 thread" in found
    assert re.findall(r"(?<![\d,.])1 [a-z]+s\b(?!/)", found) == []


def streamed(loss, **more):
    values = {"rows": 8_000_000_000, "seconds": 1.0, "cumulative_loss": 8e9 * loss, "mistakes": 8_000_000_000,
              "squared_errors": None,
              "auc": 0.5, "log_loss": loss, "cumulative_cost": None,
              "label": -1.23456789012345e-300, "score": -1.23456e-300, "length": 123_456_789,
              "learners": None}  # fmt: skip
    return SimpleNamespace(**values | more)


@pytest.mark.parametrize("loss", [1e-300, 1e22])
def test_a_stream_of_extremes_fits_80_columns(loss):
    display = StreamDisplay(io.StringIO(), quiet=False)
    display.ranked = True
    display.show(streamed(loss))
    display.show(streamed(loss, mistakes=None, squared_errors=1e300))
    display.show(streamed(loss, cumulative_cost=1e22))
    lines = display.stream.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert lines[0].split() == [f"{loss:g}", f"{loss:g}", "8000000000", "8000000000", "0.5000", f"{loss:g}", "-1e-300",
                                "-1.23e-300"]  # fmt: skip
    # of many learners as many lines as it takes
    told = {"mistakes": 8_000_000_000, "rows": 8_000_000_000}
    display.show(streamed(loss, learners={f"learner-{k}": told for k in range(9)}))
    lines = display.stream.getvalue().splitlines()[3:]
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).split() == ["8,000,000,000", *["100.000%"] * 9]


@pytest.mark.parametrize(("loss", "spread"), [(1e-300, 1e-300), (1e22, 1e22), (0.3, 0.1)])
def test_the_table_of_cross_validation_fits_80_columns(loss, spread):
    figures = {name: np.array([[loss - spread, loss + spread]]) for name in ("accuracy", "loss", "auc")}
    found = SimpleNamespace(path=[1e-300], folds=2, real=False, rel_gap=np.array([[1e-300, 0.0]]), seconds=1.0,
                            readings=2.0, mean=lambda name: figures[name].mean(axis=1), **figures)  # fmt: skip
    head, row, _ = table_of_cv(found, 0)
    assert max(len(head), len(row)) <= 80
    assert row.split()[0] == "1e-300" and row.split()[-2:] == ["1.0e-300", "best"]
    assert all(float(cell) == pytest.approx(loss, rel=0.01) for cell in row.split()[1:6:2])


def test_labels_asked_for_are_told_where_they_are_asked_for():
    for query, asked in ((None, None), (0.5, 250_000)):
        display, log = fed([epoch(1, asked=asked)], START | {"solver": "pa1", "learner_settings": {"query": query}})
        assert ("asked" in log, "25%" in log) == (query is not None, query is not None)


def test_a_plain_log_ends_with_the_last_row():
    _, log = fed([outer(k) for k in range(1, 96)])
    rows = [line.split()[0] for line in log.splitlines() if re.match(r" *\d+ ", line)]
    assert rows[-1] == "95"
    assert rows[-2] == "90"  # those between are passed over
    # what is certified is never passed over
    _, log = fed([*(outer(k) for k in range(1, 33)), outer(33, certified=True), *(outer(k) for k in range(34, 41))])
    assert [line for line in log.splitlines() if "certified" in line and "4.5e-100" in line]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    X, y = random_rows(n=200, d=30, seed=71, dtype=np.float32)
    return make_store(tmp_path_factory.mktemp("display"), X, y, chunk_nonzeros=128)


@pytest.mark.process
def test_the_real_command_on_a_terminal_of_80_columns(store, tmp_path):
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")}
    child = subprocess.Popen(
        [sys.executable, "-m", "blocksvm.train", store, tmp_path / "m.h5", "--tol", "1e-6", "--valid", store],
        cwd=ROOT, stdout=theirs, stderr=theirs, stdin=theirs, env=environment | {"TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    found = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the terminal's other side is closed
            break
        if not piece:
            break
        found += piece
    os.close(ours)
    assert child.wait(60) == 0, found.decode()
    text = found.decode()
    assert "…" not in text
    assert "held-out" in text
    rows = [line for line in re.split(r"[\r\n]+", text) if re.match(r" +\d+ +\d+\.\d ", line)]
    assert rows
    assert all(re.search(r"\d\.\de[-+]\d\d( |$)", row) and len(row.rstrip()) <= 80 for row in rows)
    # sentences, too, end before the terminal would break them within a number; a command stays one line, to be copied
    rest = [line for line in re.split(r"[\r\n]+", text) if len(line.rstrip()) > 80]
    assert all(line.startswith("next: ") or str(tmp_path) in line for line in rest), rest
    assert re.search(r"certified relative gap \S+\s+\(primal \S+, dual\s+\S+\)\s", text)


def shell(line, **names):
    quoted = {name: str(value) for name, value in names.items()}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True, cwd=ROOT, timeout=120,
        env=os.environ | quoted | {"PYTHON": sys.executable},
    )  # fmt: skip


@pytest.mark.process
def test_progress_that_nobody_reads_does_not_end_a_training(store, tmp_path):
    model = tmp_path / "m.h5"
    line = '"$PYTHON" -m blocksvm.train "$STORE" "$MODEL" --tol 1e-9 2>&1 | (exec 0<&-; sleep 0.1)'
    done = shell(line, STORE=store, MODEL=model)
    assert (done.returncode, done.stderr) == (0, "")
    assert model.exists()


@pytest.mark.process
@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&-"])
def test_closed_standard_streams_are_no_fault(store, tmp_path, closed):
    model, log = tmp_path / "m.h5", tmp_path / "t.jsonl"
    line = f'"$PYTHON" -m blocksvm.train "$STORE" "$MODEL" --log "$LOG" {closed}'
    done = shell(line, STORE=store, MODEL=model, LOG=log)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert "memory" not in done.stdout  # progress does not go where results go
    assert fit_of(model)
    for text in log.read_text().splitlines():  # nothing else was written into it
        json.loads(text)


def fit_of(path):
    from blocksvm.model.model_file import load_model

    return np.isfinite(load_model(path).weights).all()


@pytest.mark.process
def test_predictions_without_a_reader(store, tmp_path):
    fit(Matrix(*random_rows(seed=1)), tol=1e-2).save(tmp_path / "m.h5")
    lines = {">&-": (2, "standard output is closed; name an OUTPUT"), "| (exec 0<&-; sleep 0.1)": (0, "")}
    for end, (code, words) in lines.items():
        done = shell(
            f'"$PYTHON" -m blocksvm.predict --quiet "$MODEL" "$STORE" {end}', STORE=store, MODEL=tmp_path / "m.h5"
        )
        assert done.returncode == code, done.stderr
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert "Exception" not in done.stderr


def small_parser():
    p = Parser("test", "")
    p.add_argument("input")
    p.add_argument("-C", type=float)
    p.add_argument("--labels")
    p.add_argument("--tol", type=float)
    p.add_argument("--pair", nargs=2)
    p.add_argument("--overwrite", action="store_true")
    return p


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--labels", "-1,1", "x"], "labels", "-1,1"),
        (["x", "--labels=-1,1"], "labels", "-1,1"),
        (["--labels", "-1=2,1=0.5", "x"], "labels", "-1=2,1=0.5"),
        (["--labels", "-model.h5", "x"], "labels", "-model.h5"),
        (["--tol", "-1e-3", "x"], "tol", -1e-3),
        (["-C", "-inf", "x"], "C", -float("inf")),
        (["-C0.5", "x"], "C", 0.5),
        (["--pair", "-0.1", "-held.h5", "x"], "pair", ["-0.1", "-held.h5"]),
        (["--overwrite", "x"], "input", "x"),
        (["-"], "input", "-"),
        (["--", "-x"], "input", "-x"),
    ],
)
def test_values_may_begin_with_a_minus(arguments, name, value):
    assert getattr(small_parser().parse_args(arguments), name) == value


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["x", "--overwirte"], "--overwirte: no such option here; did you mean --overwrite?"),
     (["--label", "-1,1"], "--label: no such option here; did you mean --labels?"),
     (["x", "-c", "1"], "-c: no such option here; LIBLINEAR's C is -C"),
     (["x", "--zzz"], "--zzz: no such option here; blocksvm test --help lists those that there are"),
     (["x", "--labels", "--overwrite"], "argument --labels: expected one argument"),
     (["x", "--labels", "--overwirte"], "did you mean --overwrite?")],
)  # fmt: skip
def test_a_mistyped_option_names_the_one_that_was_meant(capsys, arguments, words):
    with pytest.raises((InputError, SystemExit)) as ended:
        small_parser().parse_args(arguments)
    assert words in str(ended.value) + capsys.readouterr().err


def test_a_mistyped_name_is_answered_with_the_one_that_was_meant(store, tmp_path, capsys):
    for arguments, meant in (
        (("--learner", "pa11"), "pa1"),
        (("--solver", "dual-dc"), "dual-cd"),
        (("--loss", "hing"), "hinge"),
        (("--partition", "drawn"), "redrawn"),
        (("--lerner", "pa1"), "--learner"),
    ):
        code, _, err = run_in_process(capsys, train_main, store, tmp_path / "m.h5", *arguments)
        assert code == 2 and f"; did you mean {meant}?" in err, err
    _, _, err = run_in_process(capsys, train_main, store, tmp_path / "m.h5", "--solver", "zzz")
    assert "did you mean" not in err
    small = Parser("split", "")
    small.add_argument("--dtype", choices=("float32", "float64"))
    with pytest.raises(SystemExit):
        small.parse_args(["--dtype", "flaot32"])
    assert "invalid choice: 'flaot32'; choose one of float32, float64; did you mean float32?" in capsys.readouterr().err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_character_that_an_output_lacks_is_escaped(tmp_path, monkeypatch, encoding):
    """Names of files, columns, categories and labels; files are written in UTF-8 whatever the locale is."""
    table, store, model, out = (tmp_path / name for name in ("zahlen-\u0142.csv", "\u0142.h5", "m.h5", "p.txt"))
    rows = "kauf,gr\u00f6\u00dfe,stra\u03c3e\n" + "\u0142a,1.5,\u03b1\nnein,-2.5,\u03b2\n" * 20
    table.write_text(rows, encoding="utf-8")
    for main, *given in (
        (split_main, table, store, "--label", "kauf", "--categorical", "auto,kauf"), (train_main, store, model),
        (info_main, model, "--top", "3"), (info_main, store), (predict_main, model, table),
        (predict_main, model, table, out), (predict_main, model, tmp_path / "\u017cadne.csv"),
    ):  # fmt: skip
        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict") for _ in range(2)]
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        with pytest.raises(SystemExit) as ended:
            run_command(main, [str(one) for one in given])
        shown = b"".join(stream.buffer.getvalue() for stream in streams if not stream.flush())
        assert ended.value.code == (2 if "adne" in str(given[-1]) else 0)
        assert (rb"\u0142" if b"adne" not in shown else rb"\u017c") in shown
        assert streams[0].errors == "strict"
    assert out.read_text(encoding="utf-8") == "\u0142a\nnein\n" * 20


@pytest.mark.process
@pytest.mark.parametrize("name", ["train", "stream", "regret", "split", "predict"])
def test_help_is_grouped_and_explains_steps(name):
    text = command("--help", module=name).stdout
    general = text.partition("\noptions:\n")[2].partition("\n\n")[0]
    assert set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", general, re.M)) == {"--help", "--version", "--quiet"}
    assert "--step C" not in text
    if name in ("train", "regret"):
        assert re.search(r"the\s+default\s+of\s+" + ("regret" if name == "train" else "train"), text)


def test_a_message_speaks_as_its_caller(store, tmp_path, capsys):
    source = Matrix(*random_rows(seed=5))
    with pytest.raises(InputError, match="^tol=-1: must be"):
        train(source, tol=-1.0)
    code, _, err = run_in_process(capsys, train_main, store, tmp_path / "m.h5", "--tol", "-1", "--quiet")
    assert code == 2
    assert "error: --tol -1: must be" in err
    with pytest.raises(InputError, match="^tol=-1: must be"):  # and as before again
        train(source, tol=-1.0)


def test_the_pace_of_a_continued_stream_is_its_own(tmp_path, capsys):
    X, y = random_rows(n=60, seed=7)
    text, model = text_of(tmp_path, X, y), tmp_path / "m.h5"
    options = ["--learner", "pa1", "--quiet"]
    code, out, _ = run_in_process(capsys, stream_main, text, *options, "--model", model)
    assert code == 0
    assert out.startswith("60 rows in ")
    less = text_of(tmp_path, X[:13], y[:13], "less.svm")
    code, out, _ = run_in_process(capsys, stream_main, less, *options, "--continue-from", model)
    assert code == 0
    assert out.startswith("13 rows in ")
    assert "of all 73 rows: average loss" in out


def test_rows_with_labels_that_the_model_does_not_know(tmp_path, capsys):
    fit(Matrix(*random_rows(seed=8)), tol=1e-2).save(tmp_path / "m.h5")
    (tmp_path / "other.svm").write_text("3 1:1\n4 2:1\n")
    (tmp_path / "mixed.svm").write_text("3 1:1\n1 2:1\n")
    code, _, err = run_in_process(capsys, predict_main, tmp_path / "m.h5", tmp_path / "other.svm")
    assert code == 0
    assert "\naccuracy" not in err
    assert "no accuracy: 2 of 2 labelled rows have a label (3, 4) that is not one of the model's (-1, 1)" in err
    code, _, err = run_in_process(capsys, predict_main, tmp_path / "m.h5", tmp_path / "mixed.svm")
    assert re.search(r"^accuracy [0-9.]+ \([01] of 2 rows\)$", err, re.M)
    assert "1 of 2 labelled rows have a label (3) that is not one of the model's (-1, 1); they count as wrong" in err


def test_info_tells_what_decided_a_model(store, tmp_path, capsys):
    prior, model = tmp_path / "prior.h5", tmp_path / "m.h5"
    options = ["--quiet", "--max-outer", "1"]
    assert run_in_process(capsys, train_main, store, prior, *options)[0] == 0
    assert run_in_process(capsys, train_main, store, model, "--bias", "2", "--class-weight", "-1=3", "--schedule", "2",
                          "--prior", prior, "--seed", "7", "-C", "0.25", *options)[0] == 0  # fmt: skip
    _, out, _ = run_in_process(capsys, info_main, model)
    told = dict(re.findall(r"^(.{14}) (.*)$", out, re.M))
    told = {name.strip(): value for name, value in told.items()}
    assert told["bias"] == "a constant feature of value 2"
    assert told["class weights"] == "-1 times 3"
    assert told["prior"] == str(prior)
    assert (told["schedule"], told["seed"], told["labels"]) == ("2", "7", "-1, 1")
    assert "C 0.25" in told["settings"]
    assert "loss hinge" in told["settings"]
