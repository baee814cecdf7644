"""Formats by name: one outside the package serves split, stream and predict; recipes in files of any age."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest
from support.outside_format import id_of
from support.places import TESTS
from support.stream_cases import learned
from support.training_cases import run_in_process

from blocksvm.base.errors import InputError
from blocksvm.commands.predict import main as predict
from blocksvm.commands.split import main as split
from blocksvm.commands.stream import main as stream
from blocksvm.commands.train import main as train
from blocksvm.formats import sniffed
from blocksvm.formats.recipe import Recipe
from blocksvm.model.model_file import load_model

NAME = "support.outside_format:WORDS"


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("1;good film\n-1;bad film\n" * 30)
    return path


def test_a_format_outside_the_package_serves_all(text, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(TESTS))  # of the process that compiles
    store, model, online = (tmp_path / name for name in ("s.h5", "m.h5", "o.h5"))
    assert run_in_process(capsys, split, text, store, "--format", NAME)[0] == 0
    assert run_in_process(capsys, train, store, model)[0] == 0
    assert run_in_process(capsys, stream, text, "--learner", "pa1", "--format", NAME, "--model", online)[0] == 0
    for made in (model, online):
        loaded = load_model(made)
        assert loaded.recipe.format == NAME
        weights = dict(zip(loaded.feature_ids.tolist(), loaded.weights.tolist(), strict=True))
        assert weights[id_of("good")] > 0 > weights[id_of("bad")]
        # a model's file does not decide what code runs
        code, _, err = run_in_process(capsys, predict, made, text)
        assert code == 2
        assert f"{made}: names {NAME} as its format, whose code would run; if you trust it, give --format {NAME}" in err
        code, out, err = run_in_process(capsys, predict, made, text, "--format", NAME)
        assert (code, out.split()) == (0, ["1", "-1"] * 30)
        assert "accuracy 1.000000" in err


def test_faults_of_a_format_outside_have_their_lines(text, tmp_path):
    lines = text.read_text().splitlines()
    lines[10] = "nothing"
    text.write_text("\n".join(lines))
    with pytest.raises(InputError, match=rf"{text}:11: 'nothing' has no semicolon"):
        learned(text, "pa1", format=NAME)
    found, reports = learned(text, "pa1", format=NAME, skip_bad=True)
    assert (found.targets.skipped, reports[-1].rows) == (1, 59)


def test_a_named_pipe_is_told_by_its_first_line(tmp_path):
    """Nothing of it is lost, and a first line that comes in halves is waited for."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def write():
        with open(pipe, "wb", buffering=0) as file:
            for part in (b"1 ", b"|a b", b" c\n-1 |a d\n", b"1 |a b\n"):
                file.write(part)

    writing = threading.Thread(target=write)
    writing.start()
    found, reports = learned(pipe, "pa1")
    writing.join()
    assert (found.recipe.format, reports[-1].rows) == ("vw", 3)


@pytest.mark.parametrize("ending", ["parquet", "arrow", "feather", "npz", "npy", "h5ad"])
def test_a_name_of_a_format_of_files_is_not_read_as_text(tmp_path, ending, capsys):
    """What was damaged at its beginning is not taken for text; text of such a name is, where the format is given."""
    path = tmp_path / f"rows.{ending}"
    path.write_text("1 1:2\n-1 2:3\n")
    code, _, err = run_in_process(capsys, split, path, tmp_path / "s.h5", "--label", "label")
    assert (code, f"{path}: does not begin as a {ending} file does; get it again, or give --format" in err) == (2, True)
    assert run_in_process(capsys, split, path, tmp_path / "s.h5", "--format", "svmlight")[0] == 0


@pytest.mark.parametrize(
    ("ending", "format_"),
    [("csv", "csv"), ("TSV.gz", "tsv"), ("svm.bz2", "svmlight"), ("libsvm.XZ", "svmlight"), ("vw.zst", "vw")],
)
def test_no_format_is_guessed_against_a_name(ending, format_):
    for text in (b"1,Adventure|Animation,5\n", b"1 |a b\n", b"1 2:3\n", b"a\tb\n"):
        assert sniffed(text, f"rows.{ending}") == format_


def test_text_of_another_name_is_guessed_by_its_lines():
    assert sniffed(b"1 |a b\n-1 |a c\n", "rows.txt") == sniffed(b"|a|b c:2\n'x|d e\n", "-") == "vw"
    cells = b"movie,genres,rating\n" + b"1,Adventure|Animation,5\n2,Drama|War,3\n" * 9
    assert sniffed(cells, "rows.txt") == sniffed(b"1 2:3\n", "rows.txt") == "svmlight"
    began = time.process_time()
    for line in (b" " * 64_000 + b"x", b"1" * 64_000 + b"x", b"1 " * 32_000 + b"x", b"|" * 64_000, b"1 1: " * 12_000):
        sniffed(line, "rows.txt")
    assert time.process_time() - began < 20.0  # which grows with the line's length, not with its square (88 s)


def test_recipes_of_any_age():
    assert Recipe.restored(Recipe("vw", "sum", 9, "l2", "float64").plain(), "x") == Recipe(
        "vw", "sum", 9, "l2", "float64"
    )
    older = {"normalize": "l2", "duplicates": "sum", "dtype": "float64"}
    assert Recipe.restored(older, "x") == Recipe("svmlight", "sum", None, "l2", "float64")
    settings = {"seed": 3, "order": "shuffled", "min_count": 1, "holdout": 0.0}
    assert Recipe.of_store({"settings": settings | older}, "x") == Recipe("svmlight", "sum", None, "l2", "float64")
    with pytest.raises(InputError, match="m.h5: its features were made by stemming, which this program does not know"):
        Recipe.restored({"stemming": "yes"}, "m.h5")
    for wrong in ({"bits": 99}, {"bits": "8"}, {"bits": True}, {"dtype": "float16"}, {"format": 3}):
        with pytest.raises(InputError, match="m.h5: the recipe of its features is damaged"):
            Recipe.restored(wrong, "m.h5")
    with pytest.raises(InputError, match="is damaged"):
        Recipe.restored(np.float64(3), "m.h5")
