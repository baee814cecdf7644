"""Tables of text: rows and names are the oracle's; layouts are decided from whole lines and many rows; what is unclear
is refused, odd cells are counted, faults are told with line and column."""

import io
import json
import os
import sys
import tarfile
import warnings
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet
from reference import BadLine
from reference_formats import table_rows
from scipy import sparse
from support import parsed_text, training_cases
from support.paths import GOLDEN
from support.stream_cases import SMALL_PIECES, learned

import blocksvm
from blocksvm import InputError, InputWarning, load_model, open_store
from blocksvm.conversion.convert import SplitSettings, extend, split_rows
from blocksvm.formats.format import ReaderOptions, parse_skipping
from blocksvm.formats.text import text_source as text_module
from blocksvm.formats.text.documents import DOCUMENTS
from blocksvm.formats.text.text_source import TextInputs, TextPiece, TextSource
from blocksvm.formats.text_tables import CRITEO, CSV, TSV
from blocksvm.store.recipe import Recipe


def parse(data: bytes, table=CSV, normalize="none", settled=True, named=True, labelled=True, offers=(), **options):
    """settled: the options are decided from these lines."""
    recipe = Recipe(table.name, normalize=normalize, options=table.settled(options, data, "f") if settled else options)
    return parsed_text.parse(table, data, recipe, begins=True, named=named, labelled=labelled, offers=offers)


def rows_of(batch) -> list[tuple]:
    return [(label, dict(entries)) for label, entries in parsed_text.rows_of(batch)]


def written(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def said_by_split(run_in_process):
    """said_by_split(path, *options, code=0): what a split says that ends so."""

    def run(path, *options, code=0) -> str:
        ended = run_in_process("split", path, path.parent / "s.h5", "--overwrite", *options)
        assert ended.code == code, ended.err
        return " ".join((ended.out + ended.err).split())

    return run


def features_of(path) -> set[str]:
    with open_store(path) as store:
        return set(store.feature_names(0, store.n_features))


NUMBERS = ["1", "-2.5", "0", "1e3", "+7", ".5", "12345678901234567890123", " 3 ", '"4"']
OTHERS = ["red", "1.2.3", "é x", "inf", "n", " a  b ", '"x, y"', '"say ""hi"""', '"a"', "-", "1e", "x=y", "north"]
cells = st.sampled_from([*NUMBERS, *OTHERS, "", '""', "NA", "n/a", "Null"])
rows_drawn = st.lists(st.tuples(st.sampled_from(["0", "1", "-1", "2.5", ""]), cells, cells, cells), max_size=6)


@pytest.mark.slow
@given(rows_drawn, st.sampled_from(["auto", "b", "auto,b", "d*"]), st.booleans())
@example([("1", "red", "red", "red"), ("0", "red", "red", "3")] * 3, "auto", True)
def test_rows_are_the_oracles(rows, categorical, windows):
    text = "b,y,c d,d\n" + "".join(f"{b},{y},{c},{d}\n" for y, b, c, d in rows)
    categories = {"b"} if "b" in categorical else {"d"} if "d" in categorical else set()
    arguments = {"label": "y", "categories": categories, "auto": "auto" in categorical}
    expected, bad = [], None
    try:
        expected = table_rows(text, **arguments)
    except BadLine as fault:
        bad = fault.line
        expected = table_rows("\n".join(text.split("\n")[: bad - 1]), **arguments)
    data = (text.replace("\n", "\r\n") if windows else text).encode()
    batch = parse(data, label="y", categorical=categorical)
    assert (None if batch.fault is None else batch.fault[0] + 1) == bad
    assert repr(rows_of(batch)) == repr(expected)
    # a feature has one id, and another one another
    names = [name for _, row in rows_of(batch) for name in row]
    assert len(set(names)) == len(set(batch.ids.tolist())) == len(set(zip(names, batch.ids.tolist(), strict=True)))
    plain = parse(data, label="y", categorical=categorical, named=False)
    assert (plain.ids.tolist(), plain.values.tolist()) == (batch.ids.tolist(), batch.values.tolist())


def test_columns_are_known_by_their_names():
    first, second = parse(b"a,label,c\n1,1,x\n"), parse(b'c,"label",new,a\nx,1,5,1\n')
    known, there = (set(zip(one.ids.tolist(), one.values.tolist(), strict=True)) for one in (first, second))
    assert known <= there
    # a number and a category of the same name are two features
    assert len(set(parse(b"label,a=1,a\n1,1,1\n", categorical="a").ids.tolist())) == 2
    assert rows_of(parse(b"label,id,id2,b\n1,2,3,4\n", ignore="id*")) == [(1.0, {"b": 4.0})]
    without = parse(b"5,1,x\n", header="no", label="2")
    assert rows_of(without) == [(1.0, {"1": 5.0, "3=x": 1.0})]
    options = CSV.settled({"header": "no", "label": "2"}, b"5,1,x\n", "f")
    alone = parse(b"5,x\n", settled=False, labelled=False, **options)
    assert repr(rows_of(alone)) == repr([(np.nan, {"1": 5.0, "3=x": 1.0})])
    known = CSV.settled({}, b"label,c,a\n1,x,2\n", "f")
    unlabelled = parse(b"c,a\nx,2\n", labelled=False, settled=False, **known)
    assert repr(rows_of(unlabelled)) == repr([(np.nan, {"c=x": 1.0, "a": 2.0})])
    assert rows_of(parse(b"label\ta\tb\n1\t x \t3\n", TSV)) == [(1.0, {"a=x": 1.0, "b": 3.0})]
    assert parse(b'label,a\n"he said ""yes""",1\n,2\n').label_array().tolist() == ['he said "yes"', None]
    late = parse(b'label, a, b\n "yes", "2", "x"\n "no", 3, y\n')  # quotes that come after a blank
    assert rows_of(late) == [("yes", {"a": 2.0, "b=x": 1.0}), ("no", {"a": 3.0, "b=y": 1.0})]
    normal = parse(b"label,a,b,c\n1,3,4,x\n", normalize="l2")
    np.testing.assert_allclose(normal.values, np.float32(np.array([3, 4, 1]) / np.sqrt(26)))
    assert normal.largest == pytest.approx(1.0)


def test_criteos_layout():
    line = b"1\t2\t\t-1" + b"\t0" * 10 + b"\t68fd1e64\t" + b"\t1e5" * 24 + b"\n"
    (row,) = rows_of(parse(line, CRITEO))
    assert row[0] == 1.0 and row[1]["I1"] == np.float32(np.log(3)) and row[1]["I3"] == np.float32(-np.log(2))
    assert set(row[1]) == {"I1", "I3", "C1=68fd1e64", *(f"C{k}=1e5" for k in range(3, 27))}
    (test,) = rows_of(parse(line[2:], CRITEO, labelled=False))
    assert test[1] == row[1] and np.isnan(test[0])
    assert parse(b"1\t2\n", CRITEO).fault == (0, "the line has 2 cells, the first line 40")
    wrong = parse(b"1\tx" + b"\t1" * 38 + b"\n", CRITEO, offers=("bits",)).fault[1]
    assert wrong == "column I1: 'x' is not a number; mend it"  # no option would help


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    random = np.random.default_rng(5)
    path = tmp_path_factory.mktemp("table") / "rows.csv"
    lines = ["id,size,colour,y\n"]
    for i in range(200):
        colour = ["red", "green", "blue", ""][random.integers(4)]
        size = round(random.normal(), 3)
        lines.append(f"{i},{size},{colour},{'yes' if size + 2 * (colour == 'red') > 1 else 'no'}\n")
    path.write_text("".join(lines))
    return path


OWN = ("--label", "y", "--ignore", "id")


def test_from_a_table_to_predictions(table, tmp_path, monkeypatch, succeeds):
    store, model = tmp_path / "s.h5", tmp_path / "m.h5"
    succeeds("split", table, table, store, *OWN)
    with open_store(store) as opened:
        assert opened.n_samples == 400
    assert features_of(store) == {"colour=blue", "colour=green", "colour=red", "size"}
    succeeds("train", store, model, "--bias", "1", "-C", "10", "--tol", "1e-4")
    new = written(tmp_path / "new.csv", "colour,size\nred,0.5\nblue,-1\n")
    assert succeeds("predict", model, new).out.split() == ["yes", "no"]
    of_text, stored = (np.float64(succeeds("predict", model, one, "--scores").out.split()) for one in (table, store))
    np.testing.assert_allclose(of_text, stored[:200], rtol=1e-9)
    assert load_model(model).recipe.options["label"] == "y"
    # by a stream, and from a pipe, of which the header and the first row are waited for
    path = written(tmp_path / "numbers.csv", table.read_text().replace(",yes\n", ",1\n").replace(",no\n", ",-1\n"))
    succeeds("stream", path, *OWN, "--learner", "arow", "--model", tmp_path / "o.h5", "--passes", "5")
    assert load_model(tmp_path / "o.h5").recipe.options["ignore"] == "id"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert len(succeeds("predict", tmp_path / "o.h5", "-").out.split()) == 200


@pytest.mark.slow
def test_wide_tables_without_a_header_are_predicted_without_their_labels(tmp_path, said_by_split, succeeds, refusal):
    random = np.random.default_rng(3)
    cells = random.integers(0, 2, (12, 40_000)).astype(str)
    labels = ["1", "0"] * 6
    whole = written(tmp_path / "t.csv", "".join(f"{y},{','.join(row)}\n" for y, row in zip(labels, cells, strict=True)))
    alone = written(tmp_path / "x.csv", "".join(f"{','.join(row)}\n" for row in cells))
    assert len(whole.read_bytes().partition(b"\n")[0]) > text_module.HEAD_BYTES
    said_by_split(whole, "--label", "1")  # that there is no header is seen
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5")
    assert succeeds("predict", tmp_path / "m.h5", alone).out.split() == labels
    # a row of another width is none of these
    short = written(tmp_path / "short.csv", "1,2,3\n")
    sentence = f"{short}:1: the line has 3 cells, but the rows before, which have no header either, 40,001"
    assert sentence in refusal("predict", tmp_path / "m.h5", short)


def test_labels_and_ignored_columns_lie_anywhere_in_the_header(tmp_path, said_by_split):
    names = [f"a_long_name_of_a_column_{k}" for k in range(4000)]
    text = ",".join([*names, "label", "id"]) + "\n" + "".join("1," * 4000 + f"{y},7\n" for y in (0, 1))
    said_by_split(written(tmp_path / "t.csv", text), "--ignore", "id")
    assert features_of(tmp_path / "s.h5") == set(names)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [(["", "yes", "no"], [None, "yes", "no"]), (["NA", "1", "0"], [np.nan, 1.0, 0.0]),
     (["NaN", "n/a", "2", "3"], [np.nan, np.nan, 2.0, 3.0]), (["na", "yes", "no"], [None, "yes", "no"]),
     (['"NA"', '"DE"'], [None, "DE"]), ([""] * 1500 + ["yes", "no"], [None] * 1500 + ["yes", "no"])],
)  # fmt: skip
def test_the_kind_of_labels_is_that_of_all_first_rows(labels, expected):
    text = f"label,x\n{labels[0]},{'w' * 140_000}\n"  # cells are as long as they like
    batch = parse((text + "".join(f"{label},{'w' * 50}\n" for label in labels[1:])).encode())
    assert batch.fault is None and repr(batch.label_array().tolist()) == repr(expected)


@pytest.mark.parametrize(
    ("labels", "line", "sentence"),
    [(["1", "?", "0"], 3, "the label '?' is not a finite number, as other labels are; mend it, leave it empty where"),
     (["1", "2", "3a"], 4, "the label '3a' is not a finite number, as other labels are; mend it, or say --categ"),
     (["a", "2"], 3, "the label '2' is a number, as other labels are not; mend it, or say --categorical auto,label"),
     (["?", "?"], 2, "the label '?' may mean a missing one; leave it empty if so, or say --categorical auto,label"),
     (["1"] * 2500 + ["x"], 2502, "the label 'x' is not a finite number, as other labels are; mend it, leave it")],
)  # fmt: skip
def test_labels_of_two_kinds_are_asked_about(labels, line, sentence, tmp_path, said_by_split):
    path = written(tmp_path / "t.csv", "label,x\n" + "".join(f"{label},1\n" for label in labels))
    assert f"{path}:{line}: {sentence}" in said_by_split(path, code=2)
    said_by_split(path, "--categorical", "auto,label")
    with open_store(tmp_path / "s.h5") as store:
        assert {label for label, _ in store.meta.labels} == set(labels)


def test_labels_of_documents_are_those_of_the_first_lines(tmp_path):
    assert DOCUMENTS.settled({}, b"\ta\nNA\tb\n1\tc\n", "f")["words"] is False
    assert DOCUMENTS.settled({}, b"\ta\n3\tb\nspam\tc\n", "f")["words"] is True
    path = written(tmp_path / "d.tsv", "\tsome text\n" * 8000 + "spam\tmore\nham\tless\n")
    assert path.stat().st_size > text_module.HEAD_BYTES
    with pytest.raises(InputError, match=rf"{path}:8001: the label 'spam' is not a finite number"):
        split_rows([str(path)], tmp_path / "s.h5", SplitSettings(format="documents"))
    written(path, "\tsome text that is rather longer than the others\n" * 1500 + "spam\tmore\nham\tless\n")
    split_rows([str(path)], tmp_path / "s.h5", SplitSettings(format="documents"))


HASHES = ["8e123456", "68fd1e64", "a73ee510", "1e5", "80e26c9b"]


def test_a_column_is_of_one_kind(tmp_path, said_by_split, succeeds):
    """Hashes that look like numbers are categories; a late cell that is no number is an error, or skipped."""
    lines = [f"{i % 2},{i % 7}.5,{HASHES[i % 5]}\n" for i in range(2100)]
    lines[2050] = f"0,1.5 kg,{HASHES[0]}\n"
    path = written(tmp_path / "t.csv", "label,size,hash\n" + "".join(lines))
    wrong = "column size: '1.5 kg' is not a number; mend it, or name the column by --categorical auto,size"
    assert f"{path}:2052: {wrong}" in said_by_split(path, code=2)
    said_by_split(path, "--categorical", "auto,size")
    assert features_of(tmp_path / "s.h5") >= {"size=1.5 kg", "size=0.5"}
    lines[2050] = f"0,,{HASHES[0]}\n"
    path = written(tmp_path / "t.csv", "label,size,hash\n" + "".join(lines))
    said_by_split(path)
    assert features_of(tmp_path / "s.h5") == {"size", *(f"hash={one}" for one in HASHES)}
    with open_store(tmp_path / "s.h5") as store:
        kinds = store.meta.recipe.options["kinds"]
    assert kinds == {"numeric": ["size"], "categorical": ["hash"], "mixed": {}}
    # what was decided holds for rows that are appended, predicted and streamed
    more = written(tmp_path / "more.csv", "label,hash,size\n1,a73ee510,3\n1,1e5,\n")
    extend([str(more)], tmp_path / "s.h5")
    assert features_of(tmp_path / "s.h5") == {"size", *(f"hash={one}" for one in HASHES)}
    # and in a stream: a skipped line is not counted, whatever stands before it in the piece
    lines[2060] = f"0,NA,{HASHES[0]}\n"
    lines[2065] = "0,1.5,NA\n"
    lines[2070] = "0,2 kg,NA\n"
    written(path, "label,size,hash\n" + "".join(lines))
    model = tmp_path / "m.h5"
    note = "cells of the column hash that say na, n/a, nan or null, and were taken for missing: 1 (the first, 'NA', at "
    out = succeeds("stream", path, "--learner", "pa1", "--model", model, "--skip-bad").out
    assert "lines skipped: 1" in out and f"{note}{path}:2067)" in " ".join(out.split())
    told = json.loads(succeeds("stream", more, "--from", model, "--json").out)
    assert told["features"] == 6 and told["notes"] == []


def test_a_column_may_be_empty_at_first(tmp_path, said_by_split):
    """It has numbers then; what is not one is an error."""
    lines = [f"{i % 2},1,\n" for i in range(2100)]
    path = written(tmp_path / "t.csv", "label,x,late\n" + "".join(lines) + "1,1,2.5\n")
    assert said_by_split(path) and features_of(tmp_path / "s.h5") == {"x", "late"}
    written(path, path.read_text() + "1,1,red\n")
    wrong = f"{path}:2103: column late: 'red' is not a number; mend it, or name the column by"
    assert wrong in said_by_split(path, code=2)


def test_columns_that_look_like_numbers_are_told(tmp_path, said_by_split):
    path = written(tmp_path / "t.csv", "label,age,city\n" + "".join(f"{i % 2},{i},c{i}\n" for i in range(9)) + "1,?,c")
    told = said_by_split(path)
    assert "the column city" not in told
    why = "since 1 of its first 10 cells is no number (the first, '?', in line 11); if they are to be numbers, leave"
    assert f"note: the column age was taken as categories, {why} those empty or mend them" in told
    for options, sentence in (
        ("age", f"{path}:11: column age: '?' is not a number; mend it, or name the column by"),
        ("age --categorical age", "--numeric and --categorical both name the column age; leave one out"),
        ("aeg", "no column is called aeg, which --numeric names"),
    ):
        assert sentence in said_by_split(path, "--numeric", *options.split(), code=2)
    path = written(tmp_path / "c.csv", 'label;size;t\n1;"1,5";a\n0;"-2,25";b\n0;1.000,5;b\n')
    told = said_by_split(path, "--delimiter", "semicolon")
    assert "(the first, '1,5', in line 2); if they are to be numbers, say --decimal ," in told
    told = said_by_split(path, "--delimiter", ";", "--decimal", ",", "--numeric", "size", code=2)
    assert f"{path}:4: column size: '1.000,5' is not a number; mend it" in told


NUMBERS = np.random.default_rng(3).normal(size=(4000, 6)) * [1e-3, 1.0, 1e2, 1e4, 1e6, 3.0]
SAME = {  # text, and how it is read
    "csv": ("label,a,b\n" + "".join(f"{i % 2},{i},{i if i < 1500 else 'x'}\n" for i in range(3000)), {}),
    "documents": ("".join(f"{['neg', 'pos'][i % 2]}\tw{i % 7} Not gööd w{i % 50}\n" for i in range(3000)),
                  {"options": {"ngrams": "word:1-3,char:2-4,char_wb:1-5"}, "bits": 12, "normalize": "l2"}),
    "svmlight": (training_cases.svmlight(sparse.csr_matrix(NUMBERS), np.arange(4000) % 2), {"scale": "deviation"}),
}  # fmt: skip


@pytest.mark.parametrize("form", SAME)
def test_a_store_is_of_the_rows_alone_whatever_jobs_and_memory_read_them(form, tmp_path, monkeypatch):
    """Of a table, what is decided, too."""
    text, how = SAME[form]
    path = written(tmp_path / "t", text)
    pieces, found = TextInputs.pieces, []
    for k, (jobs, memory, piece) in enumerate(((1, 1 << 30, 1 << 20), (3, 64_000_000, 300), (2, 16_000_000, 2000))):
        monkeypatch.setattr(TextInputs, "pieces", lambda text, n, *more, p=piece, **own: pieces(text, p, *more, **own))
        for name in (str(path), "-"):
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
            store = tmp_path / f"{k}{len(name) > 1}.h5"
            split_rows([name], store, SplitSettings(n_jobs=jobs, memory=memory, format=form, **how))
            with open_store(store) as opened:
                notes = [note.replace("standard input", str(path)) for note in opened.meta.notes]
                rows = [opened.read_rows(chunk).tobytes() for chunk in range(len(opened.chunks))]
                found.append((opened.meta.fingerprint, repr(opened.meta.recipe), repr(notes), repr(rows)))
    assert len(set(found)) == 1


def test_bad_lines_among_the_first_decide_nothing():
    text = b'label,a,b\n1,2,3\n1,"x\n0,x\n0,4,5,6\n1,7,red\n'
    options = CSV.settled({}, text, "f")
    assert options["kinds"]["numeric"] == ["a"] and options["kinds"]["categorical"] == ["b"]


def test_whether_there_is_a_header():
    def header(text, **options):
        return CSV.settled(options, text, "f")["header"]

    assert header(b"label,x\n1,2\n") == "yes"
    assert header(b"5,red,1\n6,red,0\n", label="3") == "no"
    assert header(b"0,1,2\n5,1,0\n", label="1") == "yes"  # as pandas numbers columns
    with pytest.raises(InputError, match="f:1: it is unclear whether the first line, in which a cell is 2, has the"):
        header(b"5,2,1\n6,3,0\n", label="2")
    assert header(b"5,2,1\n6,3,0\n", label="2", header="no") == "no"
    assert header(b"5,2,2\n6,3,0\n", label="2") == "no"  # no two columns have one name
    with pytest.raises(InputError, match="f:1: no column is called label; .*, or these are documents"):
        TSV.settled({}, b"1\tsome text\n0\tother text\n", "f")
    with pytest.raises(InputError, match="f:1: no column is called label; .* did you mean Label.$"):
        header(b"Label,x\n1,2\n")


def test_separators_and_quotes():
    expected = [(1.0, {"a": 2.0, "b=x,y": 1.0})]
    assert rows_of(parse(b"label;a;b\n1;2;x,y\n", delimiter=";")) == expected
    assert rows_of(parse(b"label|a|b\n1|2|x,y\n", delimiter="bar")) == expected
    assert rows_of(parse(b"label,a,b\n1,2,'x,y'\n", quote="'")) == expected
    assert rows_of(parse(b"label,a,b\n1,2,'it''s'\n", quote="'")) == [(1.0, {"a": 2.0, "b=it's": 1.0})]
    assert rows_of(parse(b'label,a\n1,"x\n', quote="none")) == [(1.0, {'a="x': 1.0})]
    text = b"label;a;b\n1;1,5;-0,25e1\n0;12345678901234567890123,5;\n"
    rows = [(1.0, {"a": 1.5, "b": -2.5}), (0.0, {"a": float(np.float32(12345678901234567890123.5))})]
    assert rows_of(parse(text, delimiter=";", decimal=",")) == rows
    with pytest.raises(InputError, match="delimiter=;;: give one character, or comma, semicolon, tab, bar, space"):
        parse(b"label;;a\n1;;2\n", delimiter=";;")


def test_other_rows_may_be_cut_otherwise(tmp_path, said_by_split, succeeds, refusal):
    """The form of the lines and the label's name may be others when rows are predicted, the form also when appended."""
    path = written(tmp_path / "t.csv", "label,id,x,c\n1,9,2.5,r\n0,9,-1.5,g\n")
    store, model = tmp_path / "s.h5", tmp_path / "m.h5"
    said_by_split(path, "--ignore", "id")
    succeeds("train", store, model)
    other = written(tmp_path / "o.csv", "target;id;x;c\n1;when;2,5;r\n0;9;-1,5;g\n")
    form = ("--delimiter", ";", "--decimal", ",")
    _, out, err = succeeds("predict", model, other, *form, "--label", "target")
    assert out.split() == ["1", "0"] and "accuracy 1.0" in err and "note" not in err
    err = succeeds("predict", model, other, *form, "--label", "typo").err
    assert "note: no row has a label in typo, which --label names" in err
    for setting in (("--label", "target"), ("--skip-bad",)):
        told = refusal("predict", model, store, *setting)
        assert f"{setting[0]}: " in told and "is a store, which was read already; leave it out" in told
    again = written(tmp_path / "a.csv", "label;x;c\n1;4,5;r\n")
    succeeds("split", again, store, "--append", *form)
    assert features_of(store) == {"x", "c=r", "c=g"}
    told = refusal("split", again, store, "--append", "--ignore", "c")
    assert "was split with --ignore id, but c is given now" in told


RETURNS = " ... lines end in carriage returns alone; convert them, as tr '\\r' '\\n' does"
LATIN = " ... is not UTF-8; convert it, as iconv -f latin1 -t utf-8 does"
BIG = 2**53 + 1
MERGED = f"{BIG} is a whole number beyond 2^53 that float64"
LARGE = "the value of column a lies beyond float32"
HEADER = "the line looks like a header, and documents have none; take it"
SETS = ": the members of sets of labels must be all numbers or"
ROW, HELD = b'{"text": "a", "label": 1}\n', "--format multilabel --holdout 0.5 {}/held.h5"
WRONG = [  # name, text, options, what is said
    ("t.csv", "label" + ",x" * (1 << 21), "--memory 64MB", ": the first line is longer than 2,097,152 bytes; "),
    ("t.csv", f"label,{'x' * 140_000}\n1,2\n", "", ":1: a cell is longer than 131,072 characters; is this a table"),
    ("t.csv", "label,x\r1,2\r0,3\r", "", RETURNS),
    ("t.svm", "1 1:2\r-1 1:3\r", "", RETURNS),
    ("t.vw", 9 * b"-1 |a th\xc3\xa9\n" + b"1 |a caf\xe9\n1 |a b\n", "", f":10: the{LATIN}"),
    ("t.vw", 9 * b"-1 |a th\xc3\xa9\n" + b"1 |caf\xe9 b\n1 |a b\n", "", f":10: the{LATIN}"),
    ("t.svm", f"0 1:1\n{BIG} 1:2\n", "", f":2: the label {MERGED}"),
    ("t.vw", f"1 |a b\n\n{BIG} |a c\n", "", f":3: the label {MERGED}"),
    ("t.csv", f"label,x\n1,2\n{BIG},3\n", "", f":3: the label {MERGED}"),
    ("t.tsv", f"1\tsome text\n{BIG}\tmore\n", "--format documents", f":2: the label {MERGED}"),
    ("t.txt", f"1,2 1:3\n1,{BIG} 1:2\n", "--format multilabel", f":2: the label {MERGED}"),
    ("t.txt", "1,2 1:1\n3 1:2\na,b 1:1\n", HELD, f":3{SETS}"),
    ("t.txt", "a 1:1\n" * 500 + "1 1:2\n", HELD, f":501{SETS}"),
    ("t.csv", b"label,a\n1\n", "", ":2: the line has 1 cells, the header 2"),
    ("t.csv", b"label,a\n1,2\n\n1,2,3\n", "", ":4: the line has more cells than the header 2"),
    ("t.csv", b'label,a\n1,"x\n', "", ":2: column a: the quotes do not end on this line"),
    ("t.csv", b"label,a\n1,1e999\n", "", f":2: {LARGE}"),
    ("t.csv", b"label,a\n1,1e39\n", "", f":2: {LARGE}; use --dtype float64 or scale the feature, or name the column"),
    ("t.csv", b"label,a\n1,2\nx,2\n", "", ":3: the label 'x' is not a finite number, as other labels are; mend it, or"),
    ("t.csv", b"y,a\n1,2\n", "", ":1: no column is called label; name that of the labels by --label, or the file has"),
    ("t.csv", b"label,a,a\n1,2,3\n", "", ":1: the column a is there twice"),
    ("t.csv", b"label,\xff\n1,2\n", "", ":1: the line is not UTF-8"),
    ("t.csv", b"", "", ": no rows found; expected lines of cells between commas"),
    ("t.csv", b"label,a\n", "", ": no rows found"),
    ("t.csv", b"text,label\nab,1\n\xff,2\n", "--text text", ":3: ... not UTF-8"),
    ("t.csv", b'text,label\n"a\nb",1\nc,0\n"open,1\nx,1\n', "--text text", ":5: the quotes that begin on this"),
    ("t.csv", b'text,label\n"a\nb",1\nc,0\nd,0,9\n', "--text text", ":5: the line has more"),
    ("d.tsv", "Label\tText\nspam\twin\nham\tsee you\n", "--format documents", f":1: {HEADER}"),
    ("d.tsv", "kind\ttext\n1\ta\n0\tb\n", "--format documents", f":1: {HEADER}"),
    ("d.tsv", "pos\ta\n" * 300 + "no tab\n", "--format documents", ":301: the line has no tab"),
    ("f.txt", b"__label__a x\n__label__b \xff\n", "", ":2: ... not UTF-8"),
    ("f.txt", b"__label__a x\n" * 2500 + b"__label__a __label__b y\n", "", ":2501: ... --label-sets yes"),
    ("j.jsonl", ROW + b'\n{"text": "b", "label": 1\n', "", ":3: ... is not a JSON object"),
    ("j.jsonl", ROW + b"[1]\n", "", ":2: ... is a JSON list, and an object is needed"),
    ("j.jsonl", ROW + b'{"label": 1}\n', "", ":2: ... no text under the key text"),
    ("j.jsonl", ROW + b'{"text": 7, "label": 1}\n', "", ":2: ... key text has a number, not a string"),
    ("j.jsonl", ROW + b'{"text": "b", "label": "x"}\n', "", ":2: ... label has a string, not a double"),
    ("j.jsonl", ROW[:-1] + b'{"text": "b", "label": 1}\n', "", ":1: ... is not a JSON object"),
    ("j.jsonl", b'{"text": "a", "text": "b"}\n', "", ":1: ... keys there twice"),
    ("j.jsonl", ROW + b'{"text": "\xff", "label": 1}\n', "", ":2: ... not UTF-8"),
    ("j.jsonl", b'{"text": "a", "label": 9007199254740993}\n', "", ":1: ... write labels as strings"),
    ("j.jsonl", b'{"text": ' + b"[" * 3000 + b"]" * 3000 + b"}\n", "", ":1: ... is not a JSON object"),
]


@pytest.mark.parametrize("case", WRONG, ids=lambda case: f"{case[0]} {case[3][:20]}")
def test_what_is_wrong_is_told_in_its_line(case, tmp_path, said_by_split):
    name, text, options, says = case
    path, options = written(tmp_path / name, text), options.format(tmp_path).split()
    told = said_by_split(path, *options, code=2)
    assert all(part in told for part in f"{path}{says}".split(" ... "))
    assert os.listdir(tmp_path) == [name]
    if MERGED in says:  # what float64 holds is taken, and so is what is no whole number
        for other in (str(2**60), "9.007199254740993e15"):
            said_by_split(written(path, text.replace(str(BIG), other)), *options)


def test_text_that_is_not_utf8_is_found_in_any_piece():
    piece, line = text_module.LOOKED_BYTES, b"a\xc3\xa9 b c d e\n"
    for at in (0, piece - 20, piece - 1, piece, piece + 5, 2 * piece + 100):
        data = bytearray(line * (1 + 3 * piece // len(line)))
        assert text_module.not_utf8(np.frombuffer(data, np.uint8)) is None
        place = data.index(b"\n", at) - 1
        data[place] = 0xE9
        assert text_module.not_utf8(np.frombuffer(data, np.uint8)) == place


def test_archives_are_named(tmp_path, said_by_split):
    with zipfile.ZipFile(tmp_path / "t.zip", "w") as archive:
        archive.writestr("t.csv", "label,x\n1,2\n")
    for mode, name in (("w", "t.tar"), ("w:gz", "t.csv.gz")):
        with tarfile.open(tmp_path / name, mode) as archive:
            archive.add(tmp_path / "t.zip", "t.csv")
    written(tmp_path / "t.lz4", b"\x04\x22\x4d\x18rest")
    for name, sentence in (
        ("t.zip", "is a zip archive, which may be a workbook, which is not read; unpack it into a pipe, as unzip -p"),
        ("t.tar", "is a tar archive; unpack it"),
        ("t.csv.gz", "is a tar archive; unpack it"),
        ("t.lz4", "is lz4-compressed, which is not read; unpack it into a pipe, as lz4 -dc"),
    ):
        assert f"{tmp_path / name}: {sentence}" in said_by_split(tmp_path / name, code=2)


def test_labels_as_words_stay_apart(tmp_path):
    """Numbers that would merge as float64, where they are read as words; in columns of numbers they are refused."""
    parquet.write_table(pa.table({"label": [BIG, BIG - 1, None], "x": [1.0, 2.0, 3.0]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=rf"t.parquet:1: the label {BIG} is a whole .* say categorical=auto,label"):
        split_rows([str(tmp_path / "t.parquet")], tmp_path / "s.h5")
    written(tmp_path / "t.csv", f"label,x\n{BIG},2\n{BIG - 1},3\n,4\n")
    written(tmp_path / "t.svm", f"{BIG} 1:2\n{BIG - 1} 1:3\n? 1:4\n")
    words = {"options": {"categorical": "auto,label"}}
    for name, settings in (("t.parquet", words), ("t.csv", words), ("t.svm", {"format": "svmlight-named"})):
        split_rows([str(tmp_path / name)], tmp_path / "s.h5", SplitSettings(**settings, overwrite=True))
        with open_store(tmp_path / "s.h5") as store:
            assert [label for label, _ in store.meta.labels] == [str(BIG - 1), str(BIG)]
            assert store.meta.n_unlabelled == 1


@pytest.mark.slow
def test_skipped_rows_with_line_breaks_are_skipped_whole(tmp_path):
    record = '1,"a\nb"\n1,"a\nmiddle,4\n\n0,9"\n'
    settings = {"options": {"label": "label"}, "skip_bad": True, "labels": (0.0, 1.0), "memory": SMALL_PIECES}
    for rows in (1, 70):
        path = written(tmp_path / "t.csv", "label,x\n" + f"1,c\n{record}0,d\n" * rows)
        found, reports = learned(path, "pa1", **settings)
        assert (reports[-1].rows, found.targets.skipped, reports[-1].features) == (2 * rows, 2 * rows, 2)
    # wherever a piece ends
    before = found.ahead.piece_bytes // 4 - 50
    for n in range(len(record) + 8):
        text = "label,x\n" + "0,d\n" * before + f"1,{'c' * n}\n" + f"{record}0,d\n" * 9
        found, reports = learned(written(path, text), "pa1", **settings)
        assert (reports[-1].rows, found.targets.skipped) == (before + 10, 18)
    # quotes that nothing closes take only their line
    text = np.frombuffer(b'1,"a\n' + b"0,d\n" * 200, np.uint8)
    reader = CSV.reader(ReaderOptions(Recipe("csv", options=CSV.settled({}, b"label,x\n1,c\n", "f"))))
    source = TextSource("t", None, first_line=b"label,x\n")
    assert sum(map(len, parse_skipping(reader, TextPiece(source, text, len(text), None)))) == 200


def test_matrices_of_which_a_model_knows_no_feature():
    loaded = load_model(GOLDEN / "words-model.h5")
    with pytest.warns(InputWarning, match="knows no feature of X, whose columns are feature ids from 0 to 2"):
        loaded.predict(sparse.csr_matrix(np.eye(3)))
    fitted = blocksvm.fit(sparse.csr_matrix(np.eye(2)), np.array([0.0, 1.0])).model
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(sparse.csr_matrix(np.eye(2)))


def test_groups_are_told(tmp_path, said_by_split, succeeds):
    path = written(tmp_path / "t.svm", "1 1:1 # q qid:9\n1 qid:3 1:1\n0 qid:4 1:2 # q\n")
    note = f"rows with a group (qid), which is not used: each row counts by itself: 2 (the first at {path}:2)"
    assert note in said_by_split(path)
    out = succeeds("stream", path, "--learner", "pa1", "--json", "--passes", "2").out
    assert json.loads(out)["notes"] == [note]
    assert "note" not in said_by_split(written(tmp_path / "u.svm", "1 1:1 # qid:9\n0 1:2\n"))
