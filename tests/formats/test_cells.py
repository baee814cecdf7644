"""Tables of text: rows and names are the oracle's; columns by name, labels, presets; faults with line and column."""

import io
import sys

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference import BadLine
from reference_formats import table_rows
from support.cell_cases import parse, rows_of
from support.stream_cases import learned

from blocksvm import load_model, open_store
from blocksvm.formats.text_tables import CRITEO, CSV, TSV


def told(rows) -> str:
    return repr(rows)  # nan is nan


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
    assert told(rows_of(batch)) == told(expected)
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
    assert told(rows_of(alone)) == told([(np.nan, {"1": 5.0, "3=x": 1.0})])
    known = CSV.settled({}, b"label,c,a\n1,x,2\n", "f")
    unlabelled = parse(b"c,a\nx,2\n", labelled=False, settled=False, **known)
    assert told(rows_of(unlabelled)) == told([(np.nan, {"c=x": 1.0, "a": 2.0})])
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


def test_from_a_table_to_predictions(table, tmp_path, succeeds):
    store, model = tmp_path / "s.h5", tmp_path / "m.h5"
    succeeds("split", table, table, store, *OWN)
    with open_store(store) as opened:
        names = opened.feature_names(0, opened.n_features)
        assert sorted(names) == ["colour=blue", "colour=green", "colour=red", "size"] and opened.n_samples == 400
    succeeds("train", store, model, "--bias", "1", "-C", "10", "--tol", "1e-4")
    new = tmp_path / "new.csv"
    new.write_text("colour,size\nred,0.5\nblue,-1\n")
    assert succeeds("predict", model, new).out.split() == ["yes", "no"]
    of_text, stored = (np.float64(succeeds("predict", model, one, "--scores").out.split()) for one in (table, store))
    np.testing.assert_allclose(of_text, stored[:200], rtol=1e-9)
    assert load_model(model).recipe.options["label"] == "y"


def test_streams_of_tables(table, tmp_path, monkeypatch, succeeds):
    path, model = tmp_path / "numbers.csv", tmp_path / "m.h5"
    path.write_text(table.read_text().replace(",yes\n", ",1\n").replace(",no\n", ",-1\n"))
    succeeds("stream", path, *OWN, "--learner", "arow", "--model", model, "--passes", "5")
    assert load_model(model).recipe.options["ignore"] == "id"
    # from a pipe: the header and the first row are waited for
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(path.read_bytes())))
    assert len(succeeds("predict", model, "-").out.split()) == 200
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], "1,2", *lines[3:]]))
    found, reports = learned(path, "pa1", options={"label": "y"}, skip_bad=True)
    assert (found.targets.skipped, reports[-1].rows) == (1, 200)
