"""Closed streams, options and their words, characters that an output lacks, what commands say of models."""

import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from support.paths import ROOT
from support.training_cases import random_rows, train

from blocksvm import InputError, Matrix, fit, load_model
from blocksvm.cli.commands import module_of
from blocksvm.cli.console import Parser
from blocksvm.cli.console import run as run_command


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
    assert np.isfinite(load_model(model).weights).all()
    for text in log.read_text().splitlines():  # nothing else was written into it
        json.loads(text)


@pytest.mark.process
def test_predictions_without_a_reader(store, tmp_path):
    fit(Matrix(*random_rows(seed=1)), tol=1e-2).save(tmp_path / "m.h5")
    lines = {">&-": (2, "standard output is closed; name an OUTPUT"), "| (exec 0<&-; sleep 0.1)": (0, "")}
    for end, (code, words) in lines.items():
        line = f'"$PYTHON" -m blocksvm.predict --quiet "$MODEL" "$STORE" {end}'
        done = shell(line, STORE=store, MODEL=tmp_path / "m.h5")
        assert done.returncode == code and words in done.stderr, done.stderr
        assert "Traceback" not in done.stderr and "Exception" not in done.stderr


def small_parser():
    p = Parser("test", "")
    for name, kind in (("input", {}), ("-C", {"type": float}), ("--labels", {}), ("--tol", {"type": float}),
                       ("--pair", {"nargs": 2}), ("--overwrite", {"action": "store_true"})):  # fmt: skip
        p.add_argument(name, **kind)
    return p


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        (["--labels", "-1,1", "x"], "labels", "-1,1"),
        (["x", "--labels=-1,1"], "labels", "-1,1"),
        (["--tol", "-1e-3", "x"], "tol", -1e-3),
        (["-C", "-inf", "x"], "C", -float("inf")),
        (["-C0.5", "x"], "C", 0.5),
        (["--pair", "-0.1", "held.h5", "x"], "pair", ["-0.1", "held.h5"]),
        (["-"], "input", "-"),
        (["--", "-x"], "input", "./-x"),
    ],
)
def test_values_may_begin_with_a_minus(arguments, name, value):
    assert getattr(small_parser().parse_args(arguments), name) == value


def test_a_mistyped_name_is_answered_with_the_one_that_was_meant(store, tmp_path, refusal):
    for arguments, meant in (
        (("--learner", "pa11"), "pa1"),
        (("--solver", "dual-dc"), "dual-cd"),
        (("--loss", "hing"), "hinge"),
        (("--partition", "drawn"), "redrawn"),
        (("--lerner", "pa1"), "--learner"),
    ):
        assert f"; did you mean {meant}?" in refusal("train", store, tmp_path / "m.h5", *arguments)
    assert "did you mean" not in refusal("train", store, tmp_path / "m.h5", "--solver", "zzz")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_character_that_an_output_lacks_is_escaped(tmp_path, monkeypatch, encoding):
    """Names of files, columns, categories and labels; files are written in UTF-8 whatever the locale is."""
    table, store, model, out = (tmp_path / name for name in ("zahlen-\u0142.csv", "\u0142.h5", "m.h5", "p.txt"))
    rows = "kauf,gr\u00f6\u00dfe,stra\u03c3e\n" + "\u0142a,1.5,\u03b1\nnein,-2.5,\u03b2\n" * 20
    table.write_text(rows, encoding="utf-8")
    for main, *given in (
        ("split", table, store, "--label", "kauf", "--categorical", "auto,kauf"), ("train", store, model),
        ("info", model, "--top", "3"), ("info", store), ("predict", model, table),
        ("predict", model, table, out), ("predict", model, tmp_path / "\u017cadne.csv"),
    ):  # fmt: skip
        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict") for _ in range(2)]
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        with pytest.raises(SystemExit) as ended:
            run_command(module_of(main).main, [str(one) for one in given])
        shown = b"".join(stream.buffer.getvalue() for stream in streams if not stream.flush())
        assert ended.value.code == (2 if "adne" in str(given[-1]) else 0)
        assert (rb"\u0142" if b"adne" not in shown else rb"\u017c") in shown
        assert streams[0].errors == "strict"
    assert out.read_text(encoding="utf-8") == "\u0142a\nnein\n" * 20


def test_a_message_speaks_as_its_caller(store, tmp_path, refusal):
    source = Matrix(*random_rows(seed=5))
    with pytest.raises(InputError, match="^tol=-1: must be"):
        train(source, tol=-1.0)
    assert "error: --tol -1: must be" in refusal("train", store, tmp_path / "m.h5", "--tol", "-1", "--quiet")
    with pytest.raises(InputError, match="^tol=-1: must be"):  # and as before again
        train(source, tol=-1.0)


def test_rows_with_labels_that_the_model_does_not_know(tmp_path, succeeds):
    fit(Matrix(*random_rows(seed=8)), tol=1e-2).save(tmp_path / "m.h5")
    (tmp_path / "other.svm").write_text("3 1:1\n4 2:1\n")
    (tmp_path / "mixed.svm").write_text("3 1:1\n1 2:1\n")
    err = succeeds("predict", tmp_path / "m.h5", tmp_path / "other.svm").err
    assert "\naccuracy" not in err
    assert "no accuracy: 2 of 2 labelled rows have a label (3, 4) that is not one of the model's (-1, 1)" in err
    err = succeeds("predict", tmp_path / "m.h5", tmp_path / "mixed.svm").err
    assert re.search(r"^accuracy [0-9.]+ \([01] of 2 rows\)$", err, re.M)
    assert "1 of 2 labelled rows have a label (3) that is not one of the model's (-1, 1); they count as wrong" in err
