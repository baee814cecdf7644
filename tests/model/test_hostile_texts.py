"""Labels and texts of files on terminals and in lines: nothing of a file moves a cursor or breaks a line."""

import io
import json
import shutil

import numpy as np
import pyarrow
import pytest
import scipy.sparse
from pyarrow import feather, parquet
from support.file_cases import rewrite_meta
from support.paths import GOLDEN

import blocksvm
from blocksvm import InputError, load_model, stream
from blocksvm.base.errors import CONTROLS, printable, shown_lines
from blocksvm.base.labels import label_text
from blocksvm.cli.console import Diagnostics, Results
from blocksvm.cli.texts import Line
from blocksvm.estimators import LinearSVR

EVIL = "a\x1b[31m\nb\r\u2028\x9b\u202ec"
ESCAPED = r"a\x1b[31m\nb\r\u2028\x9b\u202ec"


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


def rows_with(folder, label: float):
    """A file of each kind of format, whose fourth row has this label: (name, options)."""
    X = scipy.sparse.random(20, 5, 0.5, format="csr", random_state=0)
    y = np.array([1.0, -1.0] * 10)
    y[3] = label
    np.savez(folder / "m.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, format=b"csr", labels=y)
    np.save(folder / "m.npy", np.c_[y, X.toarray()])
    text = str(label)
    own = [text if i == 3 else str(i % 2) for i in range(20)]
    (folder / "m.svm").write_text("".join(f"{w} 1:{i}.5\n" for i, w in enumerate(own)))
    (folder / "m.csv").write_text("label,a\n" + "".join(f"{w},{i}\n" for i, w in enumerate(own)))
    (folder / "m.vw").write_text("".join(f"{w} | a b:{i}\n" for i, w in enumerate(own)))
    (folder / "m.sets").write_text("".join(f"{w},7 1:{i}\n" for i, w in enumerate(own)))
    (folder / "m.docs").write_text("".join(f"{w}\thello {i}\n" for i, w in enumerate(own)))
    found = [("m.npz", "--label labels"), ("m.npy", "--label 1"), ("m.svm", ""), ("m.csv", ""), ("m.vw", "--format vw"),
             ("m.sets", "--format multilabel"), ("m.docs", "--format documents")]  # fmt: skip
    table = pyarrow.table({"label": y, "a": np.arange(20.0)})
    parquet.write_table(table, folder / "m.parquet")
    feather.write_feather(table, folder / "m.arrow", compression="uncompressed")
    return [*found, ("m.parquet", ""), ("m.arrow", "")]


@pytest.mark.slow
def test_infinite_labels_are_refused_by_every_format(tmp_path, refusal):
    for name, options in rows_with(tmp_path, -np.inf):
        line = 5 if name == "m.csv" else 4
        done = refusal("split", tmp_path / name, tmp_path / "s.h5", *options.split(), "--overwrite")
        assert f"{name}:{line}: " in done and "not a finite number" in done, (name, done)
        targets = ("--targets", "sets", "--labels", "0,1,7") if name == "m.sets" else ("--targets", "numbers")
        done = refusal(stream.main, tmp_path / name, "--learner", "pa1", *targets, *options.split())
        assert f"{name}:{line}: " in done, (name, done.err)
        assert "finite" in done or "one of" in done, (name, done)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [("m.csv", b'label,a\nham,1\n"ha\rm",2\nspam,3\n', "m.csv:3: "),
     ("m.docs", b"ham\thello\nsp\x1bam\tyou\n", r"m.docs:2: the label 'sp\x1bam' has a line break")],
)  # fmt: skip
def test_labels_with_line_breaks_are_refused_where_they_stand(tmp_path, refusal, name, text, says):
    (tmp_path / name).write_bytes(text)
    format_ = ["--format", "documents"] * (name == "m.docs")
    told = refusal("split", tmp_path / name, tmp_path / "s.h5", *format_)
    assert CONTROLS.search(told) is None and says in told and not (tmp_path / "s.h5").exists()


@pytest.mark.parametrize(
    ("y", "says"),
    [([1.0, np.inf, -1.0], "row 1 of y: the label inf is not a finite number"),
     (["a", "b", "c\n"], "row 2 of y: the label 'c.n' has a line break"),
     ([("a",), ("b\x1b",), ()], "row 1 of y: the label .* has a line break"),
     ([(1.0,), (2.0,), (np.nan,)], "row 2 of y: the label nan is not a finite number")],
)  # fmt: skip
def test_labels_given_in_python(y, says):
    with pytest.raises(InputError, match=says):
        blocksvm.fit(scipy.sparse.identity(3, format="csr"), y)


def test_batches_of_an_iterator_are_checked(tmp_path):
    with pytest.raises(InputError, match="row 1 of the batches: the label inf is not a finite number"):
        LinearSVR().fit(iter([(np.eye(4), np.array([1.0, np.inf, 2.0, 3.0]))]))


def test_a_stream_that_skips_bad_lines_skips_a_label_that_is_none(tmp_path, refusal, succeeds):
    rows = tmp_path / "rows.svm"
    rows.write_text("1 1:1\ninf 1:2\n-1 2:1\nnan 2:1\n1 1:1\n")
    done = succeeds(stream.main, rows, "--learner", "pa1", "--skip-bad", "--json", "--quiet")
    assert json.loads(done.out)["skipped"] == 2
    refused = refusal(stream.main, rows, "--learner", "pa1", "--quiet")
    assert f"{rows}:2: the label 'inf' is not a finite number" in refused
