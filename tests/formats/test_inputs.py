"""Which files are read, in which format, which labels and lines count: told, never lost; any bytes in the place of a
text."""

import json
import os
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.stream_cases import learned

from blocksvm.base.errors import InputError
from blocksvm.cli.console import Nowhere
from blocksvm.cli.options import files_named
from blocksvm.formats import sniffed
from blocksvm.store.descriptions import as_json, typed
from blocksvm.store.recipe import Recipe

ROWS = "".join(f"{1 if i % 3 else -1} {i % 7 + 2}:{i % 5 + 0.5} {i % 2}:{1 + i % 3}\n" for i in range(12))


def made(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(ROWS)
    return folder


def test_a_name_with_brackets_is_a_name(tmp_path, refusal):
    made(tmp_path, "x1.svm")
    wanted = str(tmp_path / "x[1].svm")
    assert files_named([wanted]) == [wanted]
    told = refusal("split", wanted, tmp_path / "s.h5")
    assert "x[1].svm: no such file" in told and not (tmp_path / "s.h5").exists()
    made(tmp_path, "x[1].svm", "x[1]b.svm")
    assert files_named([wanted]) == [wanted]
    assert files_named([str(tmp_path / "x[1]*.svm")]) == [wanted, str(tmp_path / "x[1]b.svm")]
    assert files_named([str(tmp_path / "x?.svm")]) == [str(tmp_path / "x1.svm")]


ASIDE = ("_SUCCESS", ".hidden", "a.svm~", "#a.svm#", "a.bak", "a.tmp", ".a.svm.crc", "a.svm.part", ".a.svm.swp")


@pytest.mark.parametrize("pattern", ["", "*"])
def test_hidden_and_temporary_files_are_left_out_and_told(tmp_path, capsys, pattern):
    rows = made(tmp_path / "rows", "b.svm", "a.svm", *ASIDE)
    given = str(rows / pattern) if pattern else str(rows)
    assert files_named([given]) == [str(rows / "a.svm"), str(rows / "b.svm")]
    told = capsys.readouterr().err
    n = len(ASIDE) if not pattern else len([name for name in ASIDE if not name.startswith(".")])
    assert f"{given}: {n} hidden or temporary ones left out (" in told
    assert files_named([given], Nowhere()) and capsys.readouterr().err == ""
    assert files_named([str(rows / "_S*")]) == [str(rows / "_SUCCESS")]  # who names them means them
    assert files_named([str(rows / "a.svm~")]) == [str(rows / "a.svm~")]


@pytest.mark.parametrize(
    ("names", "says"),
    [(["year=2024/a.svm", "year=2025/a.svm"], r"\(year=2024, \.\.\.\), which are not read; .*year=2024 is no column"),
     (["a.svm", "more/b.svm"], r"folders in it \(more\), which are not read; '.*rows/\*/\*' reads .*--format folders"),
     (["_SUCCESS"], "the folder has no files but 1 hidden or temporary ones; name")],
)  # fmt: skip
def test_folders_in_folders_are_not_lost(tmp_path, refusal, names, says):
    rows = made(tmp_path / "rows", *names)
    with pytest.raises(InputError, match=says):
        files_named([str(rows)])
    refusal("split", rows, tmp_path / "s.h5")
    refusal("stream", rows)
    if names[0] == "year=2024/a.svm":
        assert len(files_named([str(rows / "*" / "*")])) == 2
    made(tmp_path / "plain", "a.svm", "_temporary/b.svm")
    assert files_named([str(tmp_path / "plain")]) == [str(tmp_path / "plain" / "a.svm")]


def test_an_input_that_was_read_twice_is_told(tmp_path, monkeypatch, succeeds):
    monkeypatch.chdir(made(tmp_path, "a.svm", "copy.svm"))
    (tmp_path / "b.svm").write_text(ROWS.replace(":1", ":2"))
    for line, twice in (("a.svm s.h5", ""), ("b.svm s.h5 --append", ""),
                        ("copy.svm s.h5 --append", "a.svm, copy.svm"),
                        ("copy.svm a.svm t.h5", "copy.svm, a.svm")):  # fmt: skip
        told = succeeds("split", *line.split()).out
        note = f"note: the content of {twice} was read 2 times, so its rows are there 2 times"
        assert note in told if twice else "note:" not in told


@pytest.mark.parametrize(
    ("name", "options", "line", "empty"),
    [("a.svm", [], "{y} 1:{i}.5 2:1", 3),
     ("a.csv", [], "{y},{i}", 2),
     ("a.vw", ["--format", "vw"], "{y} | a:{i}.5", 2),
     ("a.docs", ["--format", "documents"], "{y}\tword{i} word", 2)],
)  # fmt: skip
def test_lines_without_a_prediction_are_counted(tmp_path, name, options, line, empty, succeeds):
    lines = [line.format(y=1 if i % 2 else -1, i=i) for i in range(8)]
    head = ["label,x"] if name == "a.csv" else []
    (tmp_path / name).write_text("\n".join([*head, *lines]) + "\n")
    comment = ["# a comment"] if name == "a.svm" else []
    (tmp_path / "gaps").write_text("\n".join([*head, *comment, *lines[:3], "", *lines[3:], ""]) + "\n")
    succeeds("split", tmp_path / name, tmp_path / "s.h5", *options)
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5")
    done = succeeds("predict", tmp_path / "m.h5", tmp_path / "gaps", tmp_path / "out")
    assert len((tmp_path / "out").read_text().splitlines()) == 8
    assert f"gaps: {empty} blank lines or comments have no prediction" in done.err
    done = succeeds("predict", tmp_path / "m.h5", tmp_path / "gaps", tmp_path / "out2", "--json", "--quiet")
    assert json.loads(done.out)["lines_without_row"] == empty
    (tmp_path / f"again_{name}").write_text((tmp_path / name).read_text())  # its header is no blank line, either
    done = succeeds("predict", tmp_path / "m.h5", tmp_path / f"*{name}", tmp_path / "out3")
    assert "blank" not in done.err and len((tmp_path / "out3").read_text().splitlines()) == 16


@pytest.mark.parametrize("word", ["N/A", "infinit", "n", "spam"])
def test_words_as_labels_of_svmlight_are_told_how_to_read(tmp_path, word, refusal, succeeds):
    (tmp_path / "a.svm").write_text(f"1 1:2\n{word} 1:3\n")
    for command, *store in (("split", tmp_path / "s.h5"), ("stream",)):
        told = refusal(command, tmp_path / "a.svm", *store, "--format", "svmlight")
        assert f"a.svm:2: '{word}' is not a number" in told
        assert "words and sets of labels are read by --format svmlight-named" in told
    (tmp_path / "a.vw").write_text(f"1 | a\n{word} | b\n")
    told = refusal("split", tmp_path / "a.vw", tmp_path / "s.h5", "--format", "vw")
    assert f"a.vw:2: '{word}' is not a number" in told
    (tmp_path / "a.svm").write_text(f"ham 1:2\n{word} 1:3\nham 2:1\n")
    succeeds("split", tmp_path / "a.svm", tmp_path / "s.h5", "--format", "svmlight-named")


def test_words_are_labels_of_a_stream(tmp_path, refusal, succeeds):
    lines = [f"{'spam' if i % 3 else 'ham'} {1 if i % 3 else 2}:1 {9 + i % 2}:1\n" for i in range(60)]
    (tmp_path / "a.svm").write_text("".join(lines))
    asked = ["--format", "svmlight-named", "--learner", "pa1"]
    assert "name the labels with --labels" in refusal("stream", tmp_path / "a.svm", *asked)
    succeeds("stream", tmp_path / "a.svm", *asked, "--labels", "spam,ham", "--model", tmp_path / "m.h5",
        "--predictions", tmp_path / "p")  # fmt: skip
    assert set((tmp_path / "p").read_text().split()) <= {"ham", "spam"}
    succeeds("predict", tmp_path / "m.h5", tmp_path / "a.svm", tmp_path / "out", "--json")
    assert set((tmp_path / "out").read_text().split()) == {"ham", "spam"}
    succeeds("stream", tmp_path / "a.svm", "--from", tmp_path / "m.h5", "--format", "svmlight-named")
    for labels in ("ham,", "nan,1", "a\x1b,b", "1,1"):
        told = refusal("stream", tmp_path / "a.svm", *asked, "--labels", labels)
        assert "\x1b" not in told and "--labels" in told


CELLS = "0\t" + "\t".join("3" * 13) + "\t0000002a" * 26 + "\n"
# format and options -> a text of it
TEXTS = {"svmlight-named": "ham 1:0.5 7:2\nspam 2:1\n", "multilabel": "a,b 1:1 2:2\nb 3:3\n 1:1\n",
         "vw": "1 0.5 tag|a x:2 y |b:2 z\n-1 |a x\n",
         "documents --ngrams word:1-2": "0\tthe dog ran\n1\tthe cat ran\n",
         "csv": "label,size,colour\n1,0.5,red\n0,1.5,blue\n", "criteo": CELLS + "1" + CELLS[1:],
         "auto": "1 1:0.5 7:2\n-1 2:1\n"}  # fmt: skip
# what texts are made of, and the first bytes of other files
WORDS = [*(bytes([byte]) for byte in b" \t\n\r,;:|#\"'.+-e0123456789\0\xff\xe4"), b"\r\n", b"1", b"-1", b"1:2", b"nan",
         b"inf", b"1e999", b"0x1", b"9223372036854775808", b"qid:1", b"label", b"a", b"\xef\xbb\xbf", b"\xff\xfe",
         b"\x1f\x8b", b"BZh9", b"PK\x03\x04", b"\x93NUMPY", b"PAR1", b"ARROW1", b"\x89HDF\r\n\x1a\n"]  # fmt: skip


def any_bytes(whole: bytes) -> st.SearchStrategy[bytes]:
    """Bytes without any order; pieces of a text and words in any order, behind its first bytes or not."""
    pieces = st.integers(0, len(whole) - 1).map(lambda at: whole[at : at + 16])
    mixed = st.lists(st.one_of(st.sampled_from(WORDS), pieces, st.binary(max_size=4)), max_size=40).map(b"".join)
    return st.one_of(st.binary(max_size=200), mixed, mixed.map(lambda data: whole[:8] + data))


@pytest.mark.slow
@pytest.mark.parametrize("chosen", TEXTS)
def test_any_bytes_are_read_or_refused(tmp_path, run_in_process, chosen):
    def split(data: bytes):
        (tmp_path / "rows").write_bytes(data)
        options = "--overwrite", "--quiet", "--format", *chosen.split()
        return run_in_process("split", tmp_path / "rows", tmp_path / "store.h5", *options)

    @given(any_bytes(TEXTS[chosen].encode()))
    def judged(data):
        ended = split(data)
        assert ended.code in (0, 2) and "Traceback" not in ended.err
        assert ended.code == 0 or "error: " in ended.last_line, ended.err

    assert split(TEXTS[chosen].encode()).code == 0
    judged()


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


HEADS = {
    "vw": (b"1 |a b\n-1 |a c\n", b"|a|b c:2\n'x|d e\n", b"1 |a b c:2\n-1 |a d\n", b"|a b", b"\n\n1 2 'tag|a b",
           b"0 | 1:2 3:4"),
    "svmlight": (b"movie,genres,rating\n" + b"1,Adventure|Animation,5\n2,Drama|War,3\n" * 9, b"1 2:3\n",
                 b"1 1:2 3:4\n-1 5:6 # a | b\n", b"+1 qid:3 1:2", b"1,2 2:3\n1 4:5\n 3:1\n", b"acq 2:3\ngrain 4:5\n",
                 b"# comment\n1 1:2\n", b"", b"what is this | and that", b"\x00\x01\x02"),
}  # fmt: skip


def test_a_format_is_what_the_name_says_else_what_the_lines_look_like():
    everything = [head for heads in HEADS.values() for head in heads]
    for ending, format_ in (("csv", "csv"), ("TSV.gz", "tsv"), ("svm.bz2", "svmlight"), ("libsvm.XZ", "svmlight"),
                            ("vw.zst", "vw")):  # fmt: skip
        assert {sniffed(head, f"rows.{ending}") for head in (*everything, b"a\tb\n")} == {format_}
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
