"""Whatever is wrong with what the user gives: exit 2, one sentence that names it, no traceback, nothing written."""

import gzip
import io
import lzma
import os
import re
import subprocess
import sys
from pathlib import Path

import h5py
import pytest
from support.training_cases import command

from blocksvm.conversion.convert import split_rows
from blocksvm.formats import FORMATS
from blocksvm.formats.text import text_source
from blocksvm.split import parser

GOOD = b"+1 1:0.5 7:2\n-1 2:1.5\n"


@pytest.fixture
def refused(tmp_path, refusal):
    """refused(*arguments) runs split and asserts all that holds of any refusal; returns the sentence."""
    written = tmp_path / "out"
    written.mkdir()

    def run(*arguments) -> str:
        before = {path: path.read_bytes() for path in written.iterdir()}
        prefix, sentence = refusal("split", *arguments).split("error: ", 1)
        assert prefix == "blocksvm split: "
        assert 10 < len(sentence) < 600
        assert {path: path.read_bytes() for path in written.iterdir()} == before
        return sentence

    run.folder = written
    return run


LINES = [
    (b"1 2:3 4", "'4' is not id:value"), (b"1 2:3 4:", "'4:': the value is not a number"),
    (b"1 63: ", "'63:': the value is not a number"), (b"1 2:3 :4", "':4' is not id:value"),
    (b"1 2:3:4", "'2:3:4': the value is not a number"), (b"1 abc:3", "'abc:3' is not id:value"),
    (b"yes 2:3", "'yes' is not a number; a line is 'label id:value id:value ...'"),
    (b"--1 2:3", "'--1' is not a number"), (b"2:3 4:5", "the line has no label (it begins with '2:3')"),
    (b"nan 2:3", "the label 'nan' is not a finite number"), (b"1e999 2:3", "the label '1e999' is not a finite number"),
    (b"1 2:nan", "'2:nan': not a finite number"), (b"1 2:-Infinity", "'2:-Infinity': not a finite number"),
    (b"1 2:1e39", "the value of feature id 2 lies beyond float32; use --dtype float64 or scale the feature"),
    (b"1 -2:3", "'-2:3': feature ids must be 0 or more"),
    (b"1 9223372036854775808:3", "feature ids go up to 9223372036854775807"),
    (b"1 2:3 1:1 2:4", "feature id 2 occurs twice in the row; mend it, or add them up with --duplicates sum"),
    (b"1 2:0x1F", "'2:0x1F': the value is not a number"), (b"1 2:3\x00", "the value is not a number"),
    (b"%PDF-1.4\xff\xfe\x80", r"'%PDF-1.4\xff\xfe\x80' is not a number"),
    (b'[{"a":1}]', "begins a line of JSON; objects, one a line, are read by --format jsonl"),
    (b"__label__spam win money", "begins a line of fastText, which is read by --format fasttext"),
]  # fmt: skip
LINES_OF_VW = [
    (b"1 2:3", "the line has no |; a line is '[label [weight]] [tag]|namespace feature:value ...'"),
    (b"yes |a b", "'yes' is not a number; a line is"), (b"1,2 |a b", "'1,2' is not a number"),
    (b"nan |a b", "'nan': not a finite number"), (b"1 inf |a b", "'inf': not a finite number"),
    (b"1 -2 |a b", "'-2': a row's weight must be 0 or more"),
    (b"1 2 0.5 |a b", "'0.5': a row's base must be 0; learn without it"),
    (b"1 2 0 4 |a b", "'4' is one word too many before the |"),
    (b"1 'tag 2 |a b", "'2': what follows a tag must begin with |"),
    (b"1 |:2 b", "':2': a scale needs the name of its namespace before it"),
    (b"1 |a:x b", "'a:x': the namespace's scale is not a finite number"),
    (b"1 |a:1:2 b", "'a:1:2': the namespace's scale is not a finite number"),
    (b"1 |a :3", "':3': the feature has no name"), (b"1 |a b:", "'b:': the value is not a number"),
    (b"1 |a colour:red", "'colour:red': the value is not a number"),
    (b"1 |a b:1:2", "'b:1:2': the value is not a number"), (b"1 |a b:nan", "'b:nan': not a finite number"),
    (b"1 |a b:1e39", "the value of the feature 'a^b' lies beyond float32; use --dtype float64 or scale the feature"),
    (b"1 |a b:1e400", "the value of the feature 'b' lies beyond float32"),
]  # fmt: skip
LINES_OF_FLOAT64 = [
    (b"1 2:1e309", "the value of feature id 2 lies beyond float64; scale the feature"),
    (b"1 2:1e200", "the squares of the row's values add up to more than float64 holds"),
]
BEFORE = {"svm": (b"", GOOD + b"\n# comment\r\n"), "vw": (b"", b"1 |a b c\n\n-1 |a b:2\r\n")}
AFTER = {"svm": GOOD, "vw": b"1 |a x\n"}


@pytest.mark.parametrize(("options", "kind", "line", "says"), [
    *(("", "svm", *one) for one in LINES), *(("", "vw", *one) for one in LINES_OF_VW),
    *(("--dtype float64", "svm", *one) for one in LINES_OF_FLOAT64),
])  # fmt: skip
def test_a_bad_line_is_named(tmp_path, refused, options, kind, line, says):
    path = tmp_path / f"bad.{kind}"
    for before in BEFORE[kind]:
        path.write_bytes(before + line + b"\n" + AFTER[kind])
        sentence = refused(path, refused.folder / "s.h5", *options.split())
        assert sentence.startswith(f"{path}:{before.count(10) + 1}: ")
        assert says in sentence


@pytest.fixture
def good(tmp_path):
    """The path of good rows."""
    path = tmp_path / "good.svm"
    path.write_bytes(GOOD)
    return path


@pytest.fixture
def made(good, succeeds):
    """The paths of a store and of a model of the good rows."""
    store, model = good.with_name("s.h5"), good.with_name("m.h5")
    succeeds("split", good, store)
    succeeds("train", store, model)
    return store, model


def test_the_second_of_two_files_is_named(tmp_path, refused, good):
    bad = tmp_path / "bad.svm.gz"
    bad.write_bytes(gzip.compress(GOOD + b"x\n"))
    assert refused(good, bad, refused.folder / "s.h5").startswith(f"{bad}:3: 'x' is not a number")
    assert refused(good, tmp_path / "none.svm", refused.folder / "s.h5") == f"{tmp_path / 'none.svm'}: no such file"


@pytest.mark.parametrize("data", [b"", b"\n\n", b"# nothing but a comment", gzip.compress(b"", mtime=0)])
def test_files_without_rows_are_told(tmp_path, refused, data):
    path = tmp_path / "empty.svm"
    path.write_bytes(data)
    sentence = refused(path, refused.folder / "s.h5")
    assert sentence == f"{path}: no rows found; expected lines of 'label id:value ...'"


def test_padding_between_streams_of_xz_is_no_damage(tmp_path, succeeds):
    path = tmp_path / "rows.xz"
    path.write_bytes(lzma.compress(GOOD) + b"\0" * 8 + lzma.compress(GOOD) + b"\0" * 4)
    assert "4 rows" in succeeds("split", path, tmp_path / "s.h5").out


def test_a_file_cut_while_it_is_read_is_told(tmp_path, refused, monkeypatch):
    path = tmp_path / "rows.svm"
    path.write_bytes(GOOD * 100_000)
    size = path.stat().st_size
    take = text_source.OpenText.take

    def cut(opened, view, once=False):
        with open(path, "r+b") as file:
            file.truncate(size // 2)  # where no line ends
        return take(opened, view, once)

    monkeypatch.setattr(text_source.OpenText, "take", cut)
    sentence = refused(path, refused.folder / "s.h5", "--memory", "32MB", "--threads", 1)
    assert sentence.startswith(f"{path}: was cut while it was read, ")
    assert f" of its {size:,} bytes are left" in sentence


@pytest.mark.parametrize(("name", "bytes_of"), [("split", 60), ("predict", 10)])
def test_a_long_line_is_refused_with_the_memory_that_suffices(tmp_path, made, refusal, name, bytes_of, succeeds):
    """Whatever the command's limit: with the memory that the sentence names, the line is read."""
    long = tmp_path / "long.svm"
    pairs = b" ".join(b"%d:1" % i for i in range(400_000))
    long.write_bytes(GOOD + b"1 " + pairs + b"\n")
    arguments = {"split": ("split", long, tmp_path / "long.h5", "--threads", 1, "--memory", "17MB"),
                 "predict": ("predict", made[1], long, "--memory", "17MB")}[name]  # fmt: skip
    sentence = rf"{long}: the line at byte {len(GOOD)} is [\d,]+ bytes long; give --memory (\d+)MB or more"
    told = re.search(sentence, refusal(*arguments))
    assert int(told[1]) < 1.05 * bytes_of * len(pairs) / 1e6 + 20  # no more than it takes
    succeeds(*arguments[:-1], f"{told[1]}MB")


def test_byte_order_marks(tmp_path, refused, succeeds):
    path = tmp_path / "marked.svm"
    for compress in (bytes, gzip.compress):
        path.write_bytes(compress(b"\xef\xbb\xbf" + GOOD))
        assert "2 rows" in succeeds("split", path, tmp_path / "s.h5", "--overwrite").out
        for order in ("utf-16-le", "utf-16-be"):
            path.write_bytes(compress(("\ufeff" + GOOD.decode()).encode(order)))
            told = refused(path, refused.folder / "s.h5")
            assert told == f"{path}: is UTF-16 text; convert it to UTF-8, as iconv -f utf-16 -t utf-8 does"
    # a mark amid the text is none
    path.write_bytes(GOOD + b"\xef\xbb\xbf1 2:3\n")
    assert r"'\xef\xbb\xbf1' is not a number" in refused(path, refused.folder / "s.h5")


def test_a_store_given_as_text_is_named(tmp_path, made, refused, refusal):
    store, model = made
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    out = refused.folder / "new.h5"
    assert refused(store, out) == f"{store}: is a store already; train on it with blocksvm train"
    for path in (model, tmp_path / "other.h5"):
        assert refused(path, out) == f"{path}: is an HDF5 file, not text; give the text that it was made from"
    assert f"{store}: is a store already; train on it" in refusal("stream", store, "--learner", "pa1")


def test_predict_advises_only_what_it_has(tmp_path, made, refusal):
    bad = tmp_path / "bad.svm"
    for entry, says in (
        (b"7:2", "feature id 7 occurs twice in the row, as in no row that the model was trained on; mend it"),
        (b"8:1e39", "the value of feature id 8 lies beyond float32; scale the feature"),
    ):
        bad.write_bytes(GOOD + b"1 7:1 " + entry + b"\n")
        assert refusal("predict", made[1], bad) == f"blocksvm predict: error: {bad}:3: {says}"


def test_binary_junk_is_told(tmp_path, refused):
    path = tmp_path / "junk.svm"
    for data in (bytes(range(256)) * 50, b"\x00" * 3000, b"\x89HDF\r\n\x1a\n" + b"\x01" * 500, b"PK\x03\x04" * 100):
        path.write_bytes(data)
        sentence = refused(path, refused.folder / "s.h5")
        assert sentence.startswith(f"{path}:") and sentence.isprintable() and sentence.isascii()


def test_paths_that_cannot_be_are_told(tmp_path, refused, refusal, good):
    out = refused.folder / "s.h5"
    (tmp_path / "folder").mkdir()
    for path, says in ((tmp_path / "none.svm", "no such file"), (tmp_path / "folder", "the folder has no files"),
                       (tmp_path / "*.none", "no file fits"), (good / "below", "no such file")):  # fmt: skip
        assert refused(path, out) == f"{path}: {says}"
    below = good / "s.h5"
    assert refused(good, below) == f"{below}: the folder {good} does not exist; make it first"
    assert refused(good, tmp_path / "none" / "s.h5").endswith("does not exist; make it first")
    assert refused(good, tmp_path) == f"{tmp_path}: is a folder; give the name of a file to write"
    assert all("the name is too long" in refused(good, refused.folder / ("x" * n)) for n in (250, 300))
    assert refused(good, good, "--overwrite") == f"{good}: is also an input; choose another name for the store"
    assert good.read_bytes() == GOOD
    assert "need two names" in refused(good, out, "--holdout", "0.5", out)
    assert "does not exist" in refused(good, out, "--holdout", "0.5", tmp_path / "none" / "h.h5")
    assert "no such folder; --temp" in refused(good, out, "--temp", tmp_path / "none")
    told = [refusal("info", path) for path in (good, tmp_path, tmp_path / "none.h5")]
    assert all(line.startswith(f"blocksvm info: error: {tmp_path}") for line in told)
    assert told[-1].endswith("none.h5: no such file; expected a blocksvm store, model or checkpoint")


def test_existing_outputs_stay(tmp_path, refused, good):
    bad = tmp_path / "bad.svm"
    bad.write_bytes(GOOD * 1000 + b"1 x\n")
    store, other = refused.folder / "s.h5", refused.folder / "new.h5"
    split_rows([str(good)], store)
    precious = store.read_bytes()
    exists = f"{store}: exists already; choose another name or add --overwrite"
    assert refused(good, store) == exists
    assert refused(good, other, "--holdout", "0.5", store) == exists
    assert refused(bad, store, "--overwrite") == f"{bad}:2001: 'x' is not id:value"
    assert refused(bad, other, "--holdout", "0.5", store, "--overwrite").startswith(f"{bad}:2001: ")
    assert store.read_bytes() == precious


@pytest.mark.parametrize(("arguments", "says"), [
    ("--memory 1MB", "--memory 1MB is too small for a split; give --memory 16MB or more"),
    ("--memory 16MB --threads 500", "--memory 16MB is too small for 500 threads"),
    ("--memory lots", "'lots' is not a size such as 512MB or 2GB"),
    ("--threads 0", "'0' is neither auto nor a number of 1 or more"),
    ("--min-count 0", "--min-count 0: must be 1 or more"),
    ("--holdout 0 h.h5", "--holdout 0: the share must lie between 0 and 1, e.g. 0.1"),
    ("--holdout some h.h5", "--holdout some: the share must lie"), (f"--seed {'9' * 20}", ": must be from 0 to 2**63"),
    ("--holdout 0.1", "--holdout: expected 2 arguments"),
    ("--dtype float16", "--dtype float16: choose one of float32, float64; did you mean"),
    ("--normalize l1", "--normalize l1: choose one of none, l2"),
    ("--unheard-of", "--unheard-of: no such option here; "),
    ("--format xml", f"--format xml: no such format; choose one of {', '.join(('auto', *FORMATS))}, or name your own "
                     "as MODULE:ATTRIBUTE"),
    ("--format no.such:THING", "--format no.such:THING: cannot be imported"),
])  # fmt: skip
def test_bad_arguments_are_named(refused, good, arguments, says):
    assert says in refused(good, refused.folder / "s.h5", *arguments.split())


ONE, NUMBERS = "1 1:1\n1 2:1\n", "--learner pa --targets numbers"


@pytest.mark.parametrize(("text", "format_", "line", "says"), [  # text, its format, the command, what is said
    (ONE, "svmlight", "train s.h5 m.h5 --learner pa1", "all rows have the label 1"),
    (ONE, "svmlight", "train s.h5 m.h5", "all rows have the label 1; training needs rows of two classes"),
    ("label,x\na,1\nb,2\n", "csv", f"train s.h5 m.h5 {NUMBERS}", "labels are strings"),
    ("label,x\na,1\nb,2\n", "csv", f"stream rows --format csv {NUMBERS}", "the label a is no number"),
    ("1,2 1:1\n2,3 1:2\n", "multilabel", f"train s.h5 m.h5 {NUMBERS}", "labels are sets"),
    ("1 1:1\n2 2:1\n3 3:1\n", "svmlight", "stream rows --labels 1,2 --learner pa1", "label 3 is not one of 1 and 2"),
])  # fmt: skip
def test_labels_that_do_not_fit(tmp_path, monkeypatch, succeeds, refusal, text, format_, line, says):
    monkeypatch.chdir(tmp_path)
    Path("rows").write_text(text)
    succeeds("split", "rows", "s.h5", "--format", format_)
    assert says in refusal(line)
    assert sorted(os.listdir()) == ["rows", "s.h5"]


def test_options_may_stand_between_the_names(good):
    options = parser().parse_args([str(good), "--holdout", "0.3", "h.h5", "--seed", "-0", "s.h5"])
    assert (options.inputs, options.store, options.holdout) == ([str(good)], "s.h5", ["0.3", "h.h5"])
    options = parser().parse_args(["-", "--seed", "1", "s.h5"])  # standard input is a name, too
    assert (options.inputs, options.store) == (["-"], "s.h5")
    assert parser().parse_args([str(good), "-", "s.h5"]).inputs == [str(good), "-"]


def test_missing_arguments_and_bad_standard_input_are_named(refused, monkeypatch):
    assert "required: STORE.h5" in refused()
    assert "rows.svm: give text to read before the store's name" in refused("rows.svm")
    for data, says in ((GOOD + b"x", "standard input:3: 'x' is not a number"), (b"", "standard input: no rows found")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert refused("-", refused.folder / "s.h5").startswith(says)


@pytest.mark.process
def test_the_command_itself_in_its_own_process(tmp_path):
    """What the tests above run in this process, once from outside: exit status, streams, nothing left."""
    bad = tmp_path / "a name\nof two lines.svm"
    bad.write_bytes(GOOD + b"1 1:x\n")
    store = tmp_path / "s.h5"
    done = command(bad, store, "--quiet", module="split")
    name = str(bad).replace("\n", " ")
    says = f"blocksvm split: error: {name}:3: '1:x': the value is not a number\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", says)
    line = f"exec {sys.executable} -m blocksvm.split - {store} --quiet <&-"
    closed = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert closed.returncode == 2 and closed.stderr.startswith("blocksvm split: error: standard input: is closed")
    assert [path.name for path in tmp_path.iterdir()] == [bad.name]
