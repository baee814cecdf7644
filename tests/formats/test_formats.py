"""Formats by name: one outside the package serves split, stream and predict; recipes in files of any age."""

import os
import threading
import time

import pytest
from support.stream_cases import learned

from blocksvm.formats import sniffed
from blocksvm.store.descriptions import as_json, typed
from blocksvm.store.recipe import Recipe


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
def test_a_name_of_a_format_of_files_is_not_read_as_text(tmp_path, ending, refusal, succeeds):
    """What was damaged at its beginning is not taken for text; text of such a name is, where the format is given."""
    path = tmp_path / f"rows.{ending}"
    path.write_text("1 1:2\n-1 2:3\n")
    told = refusal("split", path, tmp_path / "s.h5", "--label", "label")
    assert f"{path}: does not begin as a {ending} file does; get it again, or give --format" in told
    succeeds("split", path, tmp_path / "s.h5", "--format", "svmlight")


@pytest.mark.parametrize(
    ("ending", "format_"),
    [("csv", "csv"), ("TSV.gz", "tsv"), ("svm.bz2", "svmlight"), ("libsvm.XZ", "svmlight"), ("vw.zst", "vw")],
)
def test_no_format_is_guessed_against_a_name(ending, format_):
    for text in (b"1,Adventure|Animation,5\n", b"1 |a b\n", b"1 2:3\n", b"a\tb\n"):
        assert sniffed(text, f"rows.{ending}") == format_


HEADS = {
    "vw": (b"1 |a b\n-1 |a c\n", b"|a|b c:2\n'x|d e\n", b"1 |a b c:2\n-1 |a d\n", b"|a b", b"\n\n1 2 'tag|a b",
           b"0 | 1:2 3:4"),
    "svmlight": (b"movie,genres,rating\n" + b"1,Adventure|Animation,5\n2,Drama|War,3\n" * 9, b"1 2:3\n",
                 b"1 1:2 3:4\n-1 5:6 # a | b\n", b"+1 qid:3 1:2", b"1,2 2:3\n1 4:5\n 3:1\n", b"acq 2:3\ngrain 4:5\n",
                 b"# comment\n1 1:2\n", b"", b"what is this | and that", b"\x00\x01\x02"),
}  # fmt: skip


def test_text_of_another_name_is_guessed_by_its_lines():
    for format_, heads in HEADS.items():
        assert {sniffed(head, name) for head in heads for name in ("rows.txt", "rows", "-")} == {format_}
    began = time.process_time()
    for line in (b" " * 64_000 + b"x", b"1" * 64_000 + b"x", b"1 " * 32_000 + b"x", b"|" * 64_000, b"1 1: " * 12_000):
        sniffed(line, "rows.txt")
    assert time.process_time() - began < 20.0  # which grows with the line's length, not with its square (88 s)


def test_recipes_come_back():
    recipe = Recipe("vw", "sum", 9, "l2", "float64")
    assert typed(as_json(recipe), Recipe) == recipe
    assert Recipe(options={"a": 1, "b": 2}).without(("a",)) == Recipe(options={"b": 2})
    with pytest.raises(ValueError, match="its description: Object contains unknown field `stemming`"):
        typed({"stemming": "yes"}, Recipe)
    for wrong in ({"bits": 99}, {"bits": "8"}, {"bits": True}, {"dtype": "float16"}, {"format": 3}, {"options": [1]}):
        with pytest.raises(ValueError, match="its description: "):
            typed(wrong, Recipe)
