"""One table means the same in every form, now and in later files; what a form cannot say alike is refused."""

import datetime
import decimal
import re
from zoneinfo import ZoneInfo

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from blocksvm.base.errors import InputError
from blocksvm.formats import AUTO, said_of_columns, settled
from blocksvm.formats.choices import KEEP
from blocksvm.formats.file_reader import inputs_of
from blocksvm.formats.format import ReaderOptions
from blocksvm.formats.text.text_source import LineLimit
from blocksvm.formats.weighing import reader_of
from blocksvm.store.recipe import Recipe

LIMIT, FORMS = LineLimit.share(1 << 30, 20), ("csv", "tsv", "parquet", "arrow")


def read(path, recipe=None, **options):
    """(rows as (label, {feature: value}), recipe, notes) of a file, by the recipe of earlier rows if there is one."""
    later = recipe is not None
    recipe = recipe or Recipe(AUTO, dtype="float64", options=options)
    rows, notes = [], {}
    with inputs_of([str(path)], recipe) as inputs:
        recipe = settled(inputs, recipe, 1 << 30)
        inputs.options = recipe.options | ({KEEP: None} if later else {})
        reading = ReaderOptions(recipe, labelled=not later, named=True, offers=() if later else ("bits",))
        reader = reader_of(reading)
        for piece in inputs.pieces(1 << 20, LIMIT):
            batch = reader.parse(piece)
            if batch.fault is not None:
                raise InputError(f"{batch.fault[0] + 1}: {batch.fault[1]}")
            text, first, last = batch.names
            notes |= batch.notes
            names = [text[a:b].tobytes().decode() for a, b in zip(first.tolist(), last.tolist(), strict=True)]
            entries = list(zip(zip(names, batch.ids.tolist(), strict=True), batch.values.tolist(), strict=True))
            for r, label in enumerate(batch.label_array().tolist()):
                own = dict(entries[batch.indptr[r] : batch.indptr[r + 1]])
                rows.append((None if label is None or label != label else label, own))
    return rows, recipe, notes


def names_in(rows) -> list[dict]:
    return [{name: value for (name, _), value in row.items()} for _, row in rows]


def written(folder, form: str, table, name="t"):
    """The path of the table in a form."""
    path = folder / f"{name}.{form}"
    if isinstance(table, str):
        path.write_text(table)
    elif form in ("csv", "tsv"):
        csv.write_csv(table, path, csv.WriteOptions(delimiter="\t" if form == "tsv" else ",", quoting_style="needed"))
    elif form == "parquet":
        parquet.write_table(table, path)
    else:
        with (pa.ipc.new_file if form == "arrow" else pa.ipc.new_stream)(str(path), table.schema) as file:
            file.write_table(table, max_chunksize=2)
    return path


D, LABELS = decimal.Decimal, pa.array([1, 0, 1, 0], pa.int8())
COLUMNS = {  # type -> (four cells, the features that they make)
    "bool": (pa.array([True, False, None, True]), [{"x": 1.0}, {}, {}, {"x": 1.0}]),
    "int": (pa.array([7, 0, None, -(2**60)]), [{"x": 7.0}, {}, {}, {"x": -(2.0**60)}]),
    "uint8": (pa.array([7, 0, None, 255], pa.uint8()), [{"x": 7.0}, {}, {}, {"x": 255.0}]),
    "double": (pa.array([0.1, 0.0, None, -2e-30]), [{"x": 0.1}, {}, {}, {"x": -2e-30}]),
    "float": (pa.array([0.5, 0.0, None, -2.25], pa.float32()), [{"x": 0.5}, {}, {}, {"x": -2.25}]),
    "decimal": (pa.array([D("0.3"), D("0.0"), None, D("-1.7")]), [{"x": 0.3}, {}, {}, {"x": -1.7}]),
    "string": (pa.array(["a b", "", None, " grün"]), [{"x=a b": 1.0}, {}, {}, {"x=grün": 1.0}]),
    "large_string": (pa.array(["a,b", "", None, "c"], pa.large_string()), [{"x=a,b": 1.0}, {}, {}, {"x=c": 1.0}]),
    "dictionary": (pa.array(["a", "b", None, "a"]).dictionary_encode(), [{"x=a": 1.0}, {"x=b": 1.0}, {}, {"x=a": 1.0}]),
    "null": (pa.nulls(4), [{}, {}, {}, {}]),
}


def test_columns_make_the_same_features_in_every_form(tmp_path):
    """To the last bit of ids and values; also by what was decided of another form, and under other names of files."""
    table = pa.table({kind: cells for kind, (cells, _) in COLUMNS.items()} | {"label": LABELS})
    of_words = table.column("dictionary").cast(pa.string())
    plain = table.set_column(table.column_names.index("dictionary"), "dictionary", of_words)
    known = [(kind, rows) for kind, (_, rows) in COLUMNS.items()]
    expected = [{kind + name[1:]: v for kind, rows in known for name, v in rows[r].items()} for r in range(4)]
    found = {form: written(tmp_path, form, plain if form in ("csv", "tsv") else table) for form in FORMS}
    read_first = {form: read(path) for form, path in found.items()}
    rows = read_first["csv"][0]
    assert names_in(rows) == expected and [label for label, _ in rows] == [1.0, 0.0, 1.0, 0.0]
    for form, (own, recipe, notes) in read_first.items():
        assert own == rows and not notes, form
        for other, path in found.items():
            if {form, other} != {"csv", "tsv"}:
                assert read(path, recipe)[0] == rows, (form, other)


WORDS = {"x": ["true", "maybe", "false"], "label": ["true", "no", "true"]}, ["true", "no", "true"]
OF_WORDS = [{"x=true": 1.0}, {"x=maybe": 1.0}, {"x=false": 1.0}]
ZIPS = {"zip": [10115, 0, None], "label": [1, 0, 1]}, [1.0, 0.0, 1.0]
LISTS = [[3, 0, 250], [1], None], [[3.0, 0.0, 250.0], [1.0], None], [[True, False], [], None]
ALIKE = {  # name -> (csv or None, columns, labels, options, the features)
    **{f"{yes} and {no}": (f"x,label\n{yes},{no}\n{no},{yes}\n,{yes}\n",
                           {"x": [True, False, None], "label": [False, True, True]}, [0.0, 1.0, 1.0], {},
                           [{"x": 1.0}, {}, {}])
       for yes, no in (("true", "false"), ("True", "False"), ("TRUE", "FALSE"), ("1", "0"))},
    "booleans among words": ("x,label\ntrue,true\nmaybe,no\nfalse,true\n", *WORDS, {}, OF_WORDS),
    "and in a column that is named": (None, *WORDS, {"categorical": "x,label"}, OF_WORDS),
    "whole numbers where they are named": (None, *ZIPS, {"categorical": "auto,zip"},
                                           [{"zip=10115": 1.0}, {"zip=0": 1.0}, {}]),
    # embeddings and pixels, whatever their type; categories where the column is named
    **{f"lists {k}": (None, {"v": cells, "label": [1, 0, 1]}, [1.0, 0.0, 1.0], {},
                      [{f"v[{j}]": float(v) for j, v in enumerate(own or ()) if v} for own in cells])
       for k, cells in enumerate(LISTS)},
    "columns that are empty": (None, {"x": [None] * 3, "label": [1, 0, 1]}, [1.0, 0.0, 1.0], {}, [{}, {}, {}]),
    "lists where they are named": (None, {"v": LISTS[0], "label": [1, 0, 1]}, [1.0, 0.0, 1.0], {"categorical": "v"},
                                   [{"v=3": 1.0, "v=0": 1.0, "v=250": 1.0}, {"v=1": 1.0}, {}]),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_a_column_is_the_same_in_every_form(name, tmp_path):
    """And by what was decided of another one."""
    text, columns, labels, options, expected = ALIKE[name]
    forms = ("parquet", "arrow") if name.startswith("lists") else FORMS if text is None else ("csv", "parquet", "arrow")
    paths = [written(tmp_path, form, (form == "csv" and text) or pa.table(columns)) for form in (*forms, "arrows")]
    for path in paths:
        rows, recipe, _ = read(path, **options)
        assert names_in(rows) == expected and [label for label, _ in rows] == labels
        for other in paths:
            if {path.suffix, other.suffix} != {".csv", ".tsv"}:
                assert read(other, recipe)[0] == rows
    if "zip" in columns:
        later = written(tmp_path, "parquet", pa.table({"zip": ["10115", "0", None]}), "later")
        assert names_in(read(later, recipe)[0]) == expected


WHEN = datetime.datetime(2020, 1, 2)


def test_dates_are_years_months_weekdays_and_hours(tmp_path):
    days = [datetime.datetime(2001, 1, 1, 23, 59), None, datetime.datetime(1999, 2, 28), WHEN]
    for zone, at in ((None, days), ("Europe/Berlin", days), (None, [day and day.date() for day in days])):
        clock = at[0] is days[0]
        column = pa.array(at, pa.timestamp("us", zone) if clock else pa.date32())
        table = pa.table({"day": column, "label": [1, 0, 1, 0]})
        local = [one and (one.replace(tzinfo=datetime.UTC).astimezone(ZoneInfo(zone)) if zone else one) for one in at]
        wanted = []
        for one in local:
            entries: dict = {}
            if one is not None:
                entries = {f"day.month={one.month}": 1.0, f"day.weekday={one.isoweekday()}": 1.0}
                entries |= {f"day.hour={one.hour}": 1.0} if clock else {}
                day = one.date() if clock else one
                entries["day.years"] = (day - datetime.date(2000, 1, 1)).days / 365.25
            wanted.append(entries)
        for form in ("parquet", "arrow"):
            path = written(tmp_path, form, table)
            rows, recipe, _ = read(path)
            assert names_in(rows) == [pytest.approx(entries) for entries in wanted]
            assert names_in(read(path, recipe)[0]) == names_in(rows)
            with pytest.raises(InputError, match="no column is left to make features of"):
                read(path, ignore="day")
    for form in ("parquet", "arrow"):
        path = written(tmp_path, form, table.append_column("day.month", table["label"]))
        with pytest.raises(InputError, match=r"the column day\.month is named as what is made of the column day"):
            read(path)
        with pytest.raises(InputError, match="no column is left to make features of"):
            read(written(tmp_path, form, table.select(["label"])))


@pytest.mark.parametrize(
    ("cells", "options", "sentence"),
    [([1.5, 2.5], {"categorical": "x"}, "the column x of the type double makes no categories"),
     ([True, False], {"categorical": "x"}, "the column x of the type bool makes no categories"),
     ([datetime.timedelta(1)] * 2, {}, r"the column x of the type duration\[us\] makes no features; leave it out"),
     ([WHEN.time()] * 2, {}, r"the column x of the type time64\[us\] makes no features"),
     ([b"a", b"b"], {}, "the column x of the type binary makes no features"),
     ([{"a": 1}, {"a": 2}], {}, "the column x of the type struct<a: int64> makes no features"),
     ([[[1]], [[2]]], {}, "the column x of the type list<.*> makes no features")],
)  # fmt: skip
def test_what_text_may_write_otherwise_is_refused(cells, options, sentence, tmp_path):
    table = pa.table({"x": cells, "y": [1, 2], "label": [1, 0]})
    for form in ("parquet", "arrow"):
        with pytest.raises(InputError, match=sentence):
            read(written(tmp_path, form, table), **options)


@pytest.mark.parametrize(
    ("first", "later", "kinds"),
    [([1, 2], ["a", "b"], ("string", "numbers")),
     (["a", "b"], [1.5, 2.5], ("double", "categories")),
     (["a", "b"], [True, False], ("bool", "categories")),
     (["a", "b"], [WHEN, WHEN], (r"timestamp\[us\]", "categories")),
     ([1, 2], [[1], [2]], ("list<.*>", "numbers")),
     ([[1], [2]], [1, 2], ("int64", "lists or maps"))],
)  # fmt: skip
def test_later_files_have_the_kinds_of_the_first(first, later, kinds, tmp_path):
    for form in FORMS if not isinstance(first[0], list) else ("parquet", "arrow"):
        _, recipe, _ = read(written(tmp_path, form, pa.table({"x": first, "label": [1, 0]})))
        other = written(tmp_path, "arrow", pa.table({"x": later}), "later")
        sentence = f"the column x is of the type {kinds[0]}, and had {kinds[1]} in the rows before; write it as those"
        with pytest.raises(InputError, match=sentence):
            read(other, recipe)
    if kinds[1] == "lists or maps":
        with pytest.raises(InputError, match="the column x had lists or maps in the rows before, which text has not"):
            read(written(tmp_path, "csv", "x,label\n[1],1\n"), recipe)
    label = written(tmp_path, "parquet", pa.table({"x": first, "label": ["a", "b"]}), "label")
    with pytest.raises(InputError, match="the column label is of the type string; they were numbers in the rows"):
        read(label, recipe)


def test_columns_that_are_new_or_missing_in_later_rows_are_told_in_every_form(tmp_path):
    _, recipe, _ = read(written(tmp_path, "csv", "a,c,label\n1,x,1\n2,y,0\n"))
    later = pa.table({"a": [3, 4], "new": ["u", "v"]})
    for form in ("csv", "parquet", "arrow"):
        rows, _, notes = read(written(tmp_path, form, later, "later"), recipe)
        assert names_in(rows) == [{"a": 3.0}, {"a": 4.0}]
        lacks, new = "columns that the rows before had and the table lacks", "columns that the rows before did not have"
        assert notes == {f"{lacks}, taken as empty": (1, 0, "c"), f"{new}, which were left out": (1, 0, "new")}, form
        if form != "csv":  # new ones make no features, whatever their type
            unread = later.set_column(1, "new", [pa.array([0, 0], pa.duration("ms"))])
            assert read(written(tmp_path, form, unread, "later"), recipe)[::2] == (rows, notes)
        with pytest.raises(InputError, match=r"the table has none of the columns that the model was trained on \(a, c"):
            read(written(tmp_path, form, later.select(["new"]), "later"), recipe)


def test_columns_without_a_name_are_left_out(tmp_path):
    """The index of pandas, which csv writes without a name and Parquet under its own."""
    frame = pd.DataFrame({"x": [1.5, 2.5], "c": ["a", "b"], "label": [True, False]}, index=[7, 9])
    frame.to_csv(tmp_path / "t.csv")
    frame.to_parquet(tmp_path / "t.parquet")
    frame.to_csv(tmp_path / "t.tsv", sep="\t")
    found = [read(tmp_path / f"t.{form}") for form in ("csv", "tsv", "parquet")]
    for rows, _, notes in found:
        assert rows == found[0][0] and names_in(rows)[0] == {"x": 1.5, "c=a": 1.0}
        assert re.match("columns without a name, which were left out", min(notes))


def test_quotes_change_no_meaning(tmp_path):
    """Missing marks and numbers in quotes are what pandas has them for; words that stood for missing ones are told."""
    plain = "n,c,label\n7,a,1\nNA,NA,0\nnan,null,0\n 8 , b ,1\n"
    quoted = 'n,c,label\n" 7 ","a",1\n"NA","NA",0\n"nan","null",0\n"8"," b ","1"\n'
    rows, _, notes = read(written(tmp_path, "csv", plain))
    assert read(written(tmp_path, "csv", quoted))[0] == rows
    assert names_in(rows) == [{"n": 7.0, "c=a": 1.0}, {}, {}, {"n": 8.0, "c=b": 1.0}]
    frame = pd.read_csv(tmp_path / "t.csv", skipinitialspace=True)
    assert frame["n"].isna().tolist() == frame["c"].isna().tolist() == [False, True, True, False]
    # a country that is called NA
    what = "cells of the column c that say na, n/a, nan or null, and were taken for missing"
    assert notes == {what: (2, 2, "'NA'")}


def test_what_was_decided_is_said(tmp_path, succeeds):
    text = "id,at,c,label\n" + "".join(f"{k},day {k},{'ab'[k % 2]},{k % 2}\n" for k in range(40))
    table = csv.read_csv(written(tmp_path, "csv", text))
    for path in (tmp_path / "t.csv", written(tmp_path, "parquet", table)):
        _, recipe, _ = read(path)
        line, (remark,) = said_of_columns(recipe)
        assert line == "columns: 1 of numbers (id); 2 of categories (at, c)"
        assert "(at: 40 values in 40 rows), of which nothing is learned for other rows; leave it out by" in remark
        for settled_at in ({"ignore": "at"}, {"categorical": "at,c"}):
            assert said_of_columns(read(path, **settled_at)[1])[1] == []
    _, out, err = succeeds("split", tmp_path / "t.csv", tmp_path / "s.h5")
    assert "columns: 1 of numbers (id)" in err and "leave it out by --ignore at?" in " ".join(out.split())
    assert "columns:" not in succeeds("split", tmp_path / "t.csv", tmp_path / "s.h5", "--overwrite", "--quiet").err


def test_what_polars_writes_is_the_same_table(tmp_path):
    """csv, Parquet and Arrow files of polars: views of strings, categories, compressed or not."""
    columns = {"on": [True, False, None, True], "n": [7, 0, None, -(2**60)], "f": [0.1, 0.0, None, -2e-30]}
    columns |= {"s": ["a b", "", None, "grün"], "c": pl.Series(["a", "b", None, "a"], dtype=pl.Categorical)}
    frame = pl.DataFrame(columns | {"label": [1, 0, 1, 0]})
    paths = [tmp_path / name for name in ("p.csv", "p.parquet", "p.arrow", "z.arrow", "old.arrow")]
    frame.write_csv(paths[0])
    frame.write_parquet(paths[1])
    frame.write_ipc(paths[2])
    frame.write_ipc(paths[3], compression="zstd")
    frame.write_ipc(paths[4], compat_level=pl.CompatLevel.oldest())
    rows, recipe, _ = read(paths[0])
    full = {"on": 1.0, "n": 7.0, "f": 0.1, "s=a b": 1.0, "c=a": 1.0}
    assert names_in(rows) == [full, {"c=b": 1.0}, {}, {"on": 1.0, "n": -(2.0**60), "f": -2e-30, "s=grün": 1, "c=a": 1}]
    for path in paths:
        assert read(path)[0] == read(path, recipe)[0] == rows, path
