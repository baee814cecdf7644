"""A file never chooses code: whatever module its text names, none is imported unless the user names the same one; and
nothing of its labels and texts moves a terminal's cursor or breaks a line."""

import importlib
import io
import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pyarrow
import pytest
import scipy.sparse
from pyarrow import feather, parquet
from support.file_cases import described, put, rewrite_meta, texts_of
from support.paths import GOLDEN

import blocksvm
from blocksvm.base import user_code
from blocksvm.base.errors import CONTROLS, InputError, printable, shown_lines
from blocksvm.base.labels import label_text
from blocksvm.cli.console import Diagnostics, Results
from blocksvm.cli.texts import Line
from blocksvm.estimators import LinearSVR
from blocksvm.formats import get_format
from blocksvm.losses import get_loss
from blocksvm.model.model_file import load_model
from blocksvm.online import get_learner
from blocksvm.online.methods import get_method

MARKER = "chosen_by_a_file"
PLACE = f"{MARKER}:THING"
EVIL, ESCAPED = "a\x1b[31m\nb\r\u2028\x9b\u202ec", r"a\x1b[31m\nb\r\u2028\x9b\u202ec"


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The current folder, with a file of each kind."""
    shutil.copytree(GOLDEN, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """A module that notes that it ran, and nothing named by the user."""
    code = f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\nTHING = 1\n"
    (tmp_path / f"{MARKER}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(user_code, "_by_user", set())
    importlib.invalidate_caches()
    yield tmp_path / "ran"
    sys.modules.pop(MARKER, None)


# file -> commands that read it, of which the first prints its description
READERS = {
    "model.h5": ["info {}", "info {} --verify --json", "info {} --top 3", "predict {} rows.svm out",
                 "predict {} store.h5 out --scores", "predict {} rows.svm out --probabilities",
                 "train store.h5 out --from {}", "train store.h5 out --prior {}",
                 "stream rows.svm --learner pa1 --prior {}",
                 *(f"export {{}} out --format {form}" for form in ("table", "liblinear", "sklearn"))],
    "words-model.h5": ["info {} --json", "info {} --top 2", "predict {} reviews.tsv out --scores",
                       "export {} out --format table", "train words.h5 out --prior {}"],
    "learner.h5": ["info {}", "predict {} rows.svm out", "train store.h5 out --from {}",
                   "stream rows.svm --from {} --model out", "stream rows.svm --from {} --test --predictions out",
                   "stream rows.svm --from {} --learner arow", "train store.h5 out --from {} --learner arow"],
    "store.h5": ["info {} --verify", "train {} out --max-outer 1", "split rows.svm {} --append",
                 "split rows.svm out --like {}", "predict model.h5 {} out", "cv {} -C 1 --folds 2",
                 "train {0} out --learner pa1 --valid {0}"],
    "words.h5": ["info {} --json", "train {} out --max-outer 1", "predict words-model.h5 {} out",
                 "split reviews.tsv {} --append"],
    "checkpoint.h5": ["info {} --verify", "train store.h5 out --from {}", "train store.h5 out --checkpoint {} --resume "
                      "--working-set none --schedule 1 --seed 1 --tol 1e-9"],
    "trace.jsonl": ["report {} -o out"],
    "structured.h5": ["info {}", "structure predict {} tags.txt out", "structure evaluate {} tags.txt"],
}  # fmt: skip
# what older and other files may have, too
MORE = {"model.h5": [("method", "settings", "loss"), ("text", "format"), ("settings", "solver")],
        "learner.h5": [("method", "settings", "loss"), ("text", "format")],
        "words-model.h5": [("labels", 0)], "store.h5": [("recipe", "format"), ("settings", "format")],
        "checkpoint.h5": [("method", "settings", "loss"), ("settings", "solver")]}  # fmt: skip


def forged(name: str, path: Path, place: tuple, value: str) -> None:
    """A copy of a file in which another text stands at a place, under a right checksum."""
    shutil.copy(GOLDEN / name, path)
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        put(lines, place, value)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        rewrite_meta(path, lambda meta: put(meta, place, value))


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_no_text_of_a_file_is_imported_or_reaches_a_terminal_as_it_is(here, marker, run_in_process, kind):
    places = texts_of(described(GOLDEN / kind)) + MORE.get(kind, [])
    assert len(places) > 3
    shown = 0
    for k, place in enumerate(dict.fromkeys(places)):
        names_code = place[-1] in ("loss", "format", "name", "solver", "learner", "task")
        others = READERS[kind][1:] if names_code else READERS[kind][1 + k % len(READERS[kind]) :][:1]  # in turn
        for number, line in enumerate([READERS[kind][0], *others]):
            values = (PLACE, EVIL, MARKER) if names_code and not number else (PLACE, EVIL)
            for value in values if kind.endswith(".h5") else values[:1]:
                Path("out").unlink(missing_ok=True)
                for name in READERS:
                    shutil.copy(GOLDEN / name, name)
                forged(kind, here / kind, place, value)
                done = run_in_process(line.format(kind))
                assert done.code in (0, 2), (place, line, done.err)
                assert not marker.exists() and MARKER not in sys.modules, (place, line)
                told = done.out + done.err
                assert CONTROLS.search(told.replace("\n", "")) is None, (place, line, told)
                shown += (json.dumps(EVIL) if "--json" in line else ESCAPED) in done.out
    assert shown or kind == "trace.jsonl"


@pytest.mark.parametrize(("kind", "place", "line", "option"), [
    # what is forged where, the command, and the option that the refusal advises
    ("model.h5", ("text", "format"), "predict model.h5 rows.svm out", "--format"),
    ("learner.h5", ("method", "name"), "stream rows.svm --from learner.h5 --model out", "--learner"),
    ("learner.h5", ("method", "name"), "train store.h5 out --from learner.h5", "--learner"),
    ("store.h5", ("recipe", "format"), "split rows.svm store.h5 --append", "--format"),
    ("store.h5", ("recipe", "format"), "split rows.svm out --like store.h5", "--format"),
    ("structured.h5", ("task",), "structure predict structured.h5 tags.txt out", "--task"),
    ("structured.h5", ("task",), "structure evaluate structured.h5 tags.txt", "--task"),
])  # fmt: skip
def test_the_refusal_advises_an_option_by_which_it_runs(here, marker, run_in_process, kind, place, line, option):
    forged(kind, here / kind, place, PLACE)
    done = run_in_process(line)
    assert (done.code, marker.exists()) == (2, False)
    assert f"{kind}: names {PLACE} as its {option[2:]}" in done.last_line
    assert f"if you trust it, give {option} {PLACE}" in done.last_line
    done = run_in_process(line, option, "os:path")
    assert (done.code, marker.exists()) == (2, False)
    run_in_process(line, option, PLACE)
    assert marker.exists()  # the user has named it: that it is none of the right kind is another matter


def test_python_names_what_may_run(tmp_path, marker):
    forged("learner.h5", tmp_path / "m.h5", ("method", "name"), PLACE)
    forged("model.h5", tmp_path / "t.h5", ("method", "settings", "loss"), PLACE)
    with blocksvm.open_store(GOLDEN / "store.h5") as store:
        with pytest.raises(InputError, match=f"m.h5: names {PLACE} as its learner, .* give learner={PLACE}"):
            blocksvm.fit(store, start_from=tmp_path / "m.h5")
        assert load_model(tmp_path / "t.h5").meta.method.settings["loss"] == PLACE
        blocksvm.fit(store, start_from=tmp_path / "t.h5", max_outer=1)
    for ask in (get_loss, get_learner, get_method, get_format):
        with pytest.raises(InputError, match=f"a file: names {PLACE}"):
            ask(PLACE)
    assert not marker.exists()
    with pytest.raises(InputError, match="is not a loss"):
        blocksvm.fit([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0], loss=PLACE)
    assert marker.exists()


def test_what_is_made_of_a_files_names_is_not_the_users(marker):
    """And a place counts only for the setting that it is given for."""
    with user_code.names_of("m.h5"):
        user_code.by_user({"loss": PLACE})
        with pytest.raises(InputError, match="m.h5: names chosen_by_a_file:THING as its loss"):
            get_loss(PLACE)
    user_code.by_user({"loss": "a:b", "more": {"format": "c:d"}}, learner="e:f,g:h", score=None, task=3)
    for setting, place in (("loss", "a:b"), ("format", "c:d"), ("learner", "e:f"), ("solver", "g:h")):
        user_code.require_named(place, setting)
    user_code.by_user({"labels": "i:j", "header": "k:l", "loss": "x,m:n", "format": "o:p"})
    assert user_code.is_named("o:p", "format")
    for setting, place in (("loss", "i:j"), ("format", "k:l"), ("loss", "m:n"), ("loss", "o:p"), ("learner", "o:p")):
        assert not user_code.is_named(place, setting)


@pytest.mark.parametrize("line", [
    "predict m.h5 rows.svm x,{}", "predict m.h5 rows.svm {}", "predict m.h5 rows.svm out --loss {}",
    "predict m.h5 rows.svm out --format x,{}", "split rows.svm s.h5 --append --temp {}",
    "split rows.svm s.h5 --append --temp={}",
])  # fmt: skip
def test_no_other_word_of_the_line_is_trust(here, marker, run_in_process, line):
    """Neither the name of a file or a folder, nor another option's value, nor a part of the same option's."""
    if "--temp" in line:
        Path(PLACE).mkdir()
    forged("store.h5", here / "s.h5", ("recipe", "format"), PLACE)
    forged("model.h5", here / "m.h5", ("text", "format"), PLACE)
    done = run_in_process(line.format(PLACE))
    assert (done.code, marker.exists(), MARKER in sys.modules) == (2, False, False)
    assert f"names {PLACE} as its format" in done.last_line or "out --" in line


def test_a_module_that_another_file_hides_is_told(marker):
    """A user's sched.py, where Python's own comes first."""
    with pytest.raises(ImportError, match=r"^sched is \S+/sched.py, which has no MINE; if you mean another file"):
        user_code.object_at("sched:MINE")
    with pytest.raises(ImportError, match="^sys is a module of Python's own, which has no MINE"):
        user_code.object_at("sys:MINE")


def test_control_characters_are_shown_as_escapes():
    assert printable(EVIL) == label_text(EVIL) == ESCAPED
    assert shown_lines("one\ntwo\x1b[0m\tthree é 日本 \U0001f600") == "one\ntwo\\x1b[0m\tthree é 日本 \U0001f600"
    assert printable("\udcff") == r"\udcff"  # of a file's name that is not UTF-8
    assert label_text((EVIL, "b")) == f"{ESCAPED},b"
    assert str(InputError(f"no {EVIL}")) == "no " + ESCAPED.replace(r"\n", "\n")


def test_streams_escape_what_is_not_theirs():
    for kind in (Diagnostics, Results):
        inner = io.StringIO()
        stream = kind(inner)
        print(f"row {EVIL}", file=stream)
        stream.draw("\r\x1b[1m")
        assert inner.getvalue() == "row " + ESCAPED.replace(r"\n", "\n") + "\n\r\x1b[1m"
    inner = io.StringIO()
    line = Line(Diagnostics(inner))
    line.terminal, line.last = True, -1e9
    line.show(f"row {EVIL}")
    line.close()
    assert inner.getvalue() == f"\rrow {ESCAPED}\r{' ' * (4 + len(ESCAPED))}\r"


def test_a_prediction_stays_a_line(tmp_path, succeeds):
    model, lines = tmp_path / "m.h5", tmp_path / "out"
    shutil.copy(GOLDEN / "words-model.h5", model)
    rewrite_meta(model, lambda meta: meta.update(labels=["a\nb", "spam"]))
    succeeds("predict", model, GOLDEN / "reviews.tsv", lines, "--quiet")
    told = lines.read_text().splitlines()
    assert len(told) == len((GOLDEN / "reviews.tsv").read_text().splitlines()) and set(told) <= {r"a\nb", "spam"}
    assert load_model(model).labels == ("a\nb", "spam")  # in Python they are as they are


@pytest.mark.slow
def test_infinite_labels_are_refused_by_every_format(tmp_path, refusal):
    """The label of the fourth row."""
    X, y = np.ones((20, 5)), np.where(np.arange(20) == 3, -np.inf, np.arange(20) % 2)
    rows, table = scipy.sparse.csr_matrix(X), pyarrow.table({"label": y, "a": np.arange(20.0)})
    arrays = {"data": rows.data, "indices": rows.indices, "indptr": rows.indptr, "shape": X.shape, "labels": y}
    np.savez(tmp_path / "m.npz", format=b"csr", **arrays)
    np.save(tmp_path / "m.npy", np.c_[y, X])
    parquet.write_table(table, tmp_path / "m.parquet")
    feather.write_feather(table, tmp_path / "m.arrow", compression="uncompressed")
    for kind, line, options in (
        ("svm", "{:g} 1:{}.5", ""), ("csv", "{:g},{}", ""), ("vw", "{:g} | a b:{}", "--format vw"),
        ("sets", "{:g},7 1:{}", "--format multilabel"), ("docs", "{:g}\thello {}", "--format documents"),
        ("npz", "", "--label labels"), ("npy", "", "--label 1"), ("parquet", "", ""), ("arrow", "", ""),
    ):  # fmt: skip
        path, n = tmp_path / f"m.{kind}", 5 if kind == "csv" else 4
        if line:
            text = "".join(line.format(label, i) + "\n" for i, label in enumerate(y))
            path.write_text("label,a\n" * (kind == "csv") + text)
        done = refusal("split", path, tmp_path / "s.h5", *options.split(), "--overwrite")
        assert f"m.{kind}:{n}: " in done and "not a finite number" in done, (kind, done)
        targets = ("--targets", "sets", "--labels", "0,1,7") if kind == "sets" else ("--targets", "numbers")
        done = refusal("stream", path, "--learner", "pa1", *targets, *options.split())
        assert f"m.{kind}:{n}: " in done and ("finite" in done or "one of" in done), (kind, done)


@pytest.mark.parametrize(("name", "text", "says"), [
    ("m.csv", b'label,a\nham,1\n"ha\rm",2\nspam,3\n', "m.csv:3: "),
    ("m.docs", b"ham\thello\nsp\x1bam\tyou\n", r"m.docs:2: the label 'sp\x1bam' has a line break"),
])  # fmt: skip
def test_labels_with_line_breaks_are_refused_where_they_stand(tmp_path, refusal, name, text, says):
    (tmp_path / name).write_bytes(text)
    format_ = ["--format", "documents"] * (name == "m.docs")
    told = refusal("split", tmp_path / name, tmp_path / "s.h5", *format_)
    assert CONTROLS.search(told) is None and says in told and not (tmp_path / "s.h5").exists()


@pytest.mark.parametrize(("y", "says"), [
    ([1.0, np.inf, -1.0], "row 1 of y: the label inf is not a finite number"),
    (["a", "b", "c\n"], "row 2 of y: the label 'c.n' has a line break"),
    ([("a",), ("b\x1b",), ()], "row 1 of y: the label .* has a line break"),
    ([(1.0,), (2.0,), (np.nan,)], "row 2 of y: the label nan is not a finite number"),
])  # fmt: skip
def test_labels_given_in_python(y, says):
    with pytest.raises(InputError, match=says):
        blocksvm.fit(scipy.sparse.identity(3, format="csr"), y)
    with pytest.raises(InputError, match="row 1 of the batches: the label inf is not a finite number"):
        LinearSVR().fit(iter([(np.eye(4), np.array([1.0, np.inf, 2.0, 3.0]))]))


def test_a_stream_that_skips_bad_lines_skips_a_label_that_is_none(tmp_path, refusal, succeeds):
    rows = tmp_path / "rows.svm"
    rows.write_text("1 1:1\ninf 1:2\n-1 2:1\nnan 2:1\n1 1:1\n")
    done = succeeds("stream", rows, "--learner", "pa1", "--skip-bad", "--json", "--quiet")
    assert json.loads(done.out)["skipped"] == 2
    refused = refusal("stream", rows, "--learner", "pa1", "--quiet")
    assert f"{rows}:2: the label 'inf' is not a finite number" in refused
