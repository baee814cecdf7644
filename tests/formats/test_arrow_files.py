"""Parquet and Arrow tables: features are those of the same table as csv; columns of lists and maps; faults by row."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from support.places import ROOT
from support.stored_rows import in_source_order
from support.training_cases import run_in_process

from blocksvm.base.errors import InputError
from blocksvm.commands.predict import main as predict
from blocksvm.commands.split import main as split_command
from blocksvm.commands.train import main as train
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.formats import file_reader
from blocksvm.formats.tables.unpacked import structure
from blocksvm.model.model_file import load_model
from blocksvm.store.reader import open_store

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def write(path, table, batch=37):
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=batch)
    else:
        with pa.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table, max_chunksize=batch)


def rows_of(store) -> list[tuple]:
    """(label, {name: value}) of each row."""
    with open_store(store) as opened:
        ids, names = opened.feature_ids(0, opened.n_features), opened.feature_names(0, opened.n_features)
    known = dict(zip(ids.tolist(), names, strict=True))
    return [(label, dict(zip([known[i] for i in own], v, strict=True))) for label, own, v in in_source_order(store)]


def table_of(n=150):
    random = np.random.default_rng(2)
    return pa.table(
        {
            "size": pa.array(np.round(random.normal(size=n), 2), mask=random.random(n) < 0.1),
            "zip": pa.array(random.integers(0, 5, n), pa.int32()),
            "label": pa.array(random.integers(0, 2, n), pa.int8()),
            "colour": pa.array(random.choice(["red", "grün", ""], n)).dictionary_encode(),
            "name": pa.array(random.choice(["a", "b", None], n).tolist(), pa.large_string()),
            "on": pa.array(random.random(n) < 0.5),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_features_are_those_of_the_csv(ending, tmp_path):
    from pyarrow import csv

    table = table_of(2_500)
    write(tmp_path / f"t.{ending}", table, 2_000)
    text = table.set_column(5, "on", table.column("on").cast(pa.int8()))
    text = text.set_column(3, "colour", table.column("colour").cast(pa.string()))
    csv.write_csv(text, tmp_path / "t.csv")
    found = {}
    for name in (f"t.{ending}", "t.csv"):
        options = {"categorical": "zip,auto", "ignore": "na*"}
        split_rows([str(tmp_path / name)], tmp_path / "s.h5", SplitSettings(options=options, overwrite=True))
        found[name] = rows_of(tmp_path / "s.h5"), in_source_order(tmp_path / "s.h5")
    assert found[f"t.{ending}"] == found["t.csv"]  # names, ids and values
    before = found["t.csv"]
    settings = SplitSettings(options=options, overwrite=True, n_jobs=3, memory=16_000_000)  # several pieces a row group
    split_rows([str(tmp_path / f"t.{ending}")], tmp_path / "s.h5", settings)
    assert (rows_of(tmp_path / "s.h5"), in_source_order(tmp_path / "s.h5")) == before


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_lists_and_maps(ending, tmp_path):
    table = pa.table(
        {
            "label": ["x", "y", None, "x"],
            "tags": pa.array([["a", "b"], None, [], ["b", None, ""]]),
            "ids": pa.array([[1], [2, 3], None, []], pa.large_list(pa.int64())),
            "v": pa.array([[1.5, 0.0], [2.0], None, [None, 3.0]], pa.list_(pa.float32())),
            "f": pa.array([[1.0, 2.0], None, [0.0, 4.0], [5.0, 6.0]], pa.list_(pa.float64(), 2)),
            "m": pa.array([[("k", 2.0)], [], None, [("k", 1.0), ("l", None)]], pa.map_(pa.string(), pa.float64())),
            "empty": pa.nulls(4),
        }
    )
    for sliced in (table, pa.concat_tables([table, table]).slice(4)):
        write(tmp_path / f"t.{ending}", sliced)
        split_rows(
            [str(tmp_path / f"t.{ending}")],
            tmp_path / "s.h5",
            SplitSettings(overwrite=True, options={"categorical": "auto,ids"}),
        )
        rows = [row for _, row in rows_of(tmp_path / "s.h5")]
        assert rows == [
            {"tags=a": 1.0, "tags=b": 1.0, "ids=1": 1.0, "v[0]": 1.5, "f[0]": 1.0, "f[1]": 2.0, "m=k": 2.0},
            {"ids=2": 1.0, "ids=3": 1.0, "v[0]": 2.0},
            {"f[1]": 4.0},
            {"tags=b": 1.0, "v[1]": 3.0, "f[0]": 5.0, "f[1]": 6.0, "m=k": 1.0},
        ]
        with open_store(tmp_path / "s.h5") as store:
            assert store.meta["labels"] == [["x", 2], ["y", 1]] and store.meta["n_unlabelled"] == 1


@pytest.mark.slow
def test_from_a_table_to_predictions(tmp_path, capsys):
    table = table_of()
    colour = np.array(table.column("colour").to_pylist())
    table = table.set_column(2, "label", pa.array(np.where(colour == "red", "yes", "no")))
    write(tmp_path / "t.parquet", table)
    arguments = (tmp_path / "t.parquet", tmp_path / "s.h5", "--normalize", "l2", "--bits", "18")
    code, _, err = run_in_process(capsys, split_command, *arguments)
    assert code == 0, err
    code, _, err = run_in_process(capsys, train, tmp_path / "s.h5", tmp_path / "m.h5", "--bias", "1", "-C", "100")
    assert code == 0, err
    assert load_model(tmp_path / "m.h5").recipe.format == "parquet"
    write(tmp_path / "new.parquet", table.drop_columns(["label", "size"]).select(["on", "zip", "name", "colour"]))
    code, out, err = run_in_process(capsys, predict, tmp_path / "m.h5", tmp_path / "new.parquet")
    assert code == 0 and np.mean((np.array(out.split()) == "yes") == (colour == "red")) == 1.0, err
    code, _, err = run_in_process(capsys, predict, tmp_path / "m.h5", tmp_path / "t.parquet")
    assert code == 0 and "accuracy 1.000000" in err


def refused(path, sentence, **options):
    with pytest.raises(InputError) as raised:
        split_rows([str(path)], path.parent / "s.h5", SplitSettings(options=options))
    assert sentence in str(raised.value)
    assert os.listdir(path.parent) == [path.name]


@pytest.mark.slow
def test_wrong_tables(tmp_path):
    path = tmp_path / "t.parquet"
    write(path, pa.table({"y": [1.0, 2.0], "x": [1.0, 2.0]}))
    refused(path, f"{path}: no column is called label; name that of the labels by label; the columns are y, x")
    refused(path, f"{path}: no column is called zip, which categorical names", label="y", categorical="zip")
    write(path, pa.table({"label": [1.0] * 50, "x": [1.0] * 41 + [np.inf] * 9}))
    refused(path, "the value of x is not a finite number")
    with pytest.raises(InputError, match=rf"{path}:42: "):
        split_rows([str(path)], tmp_path / "s.h5")
    write(path, pa.table({"label": [1.0, 2.0], "x": [1.0, 1e200]}))
    with pytest.raises(InputError, match=rf"{path}:2: the squares of the row's values add up to more than float64"):
        split_rows([str(path)], tmp_path / "s.h5", SplitSettings(dtype="float64"))
    write(path, pa.table({"label": [1.0], "when": pa.array([0], pa.timestamp("ms"))}))
    refused(path, "the column when of the type timestamp[ms] makes no features; leave it out by ignore=when")
    write(path, pa.table({"label": [1.0], "tags": [["a", "b", "a"]]}))
    refused(path, f"{path}:1: tags=a occurs twice in the row; mend it, or add them up with duplicates=sum")
    split_rows([str(path)], tmp_path / "s.h5", SplitSettings(duplicates="sum"))
    assert rows_of(tmp_path / "s.h5") == [(1.0, {"tags=a": 2.0, "tags=b": 1.0})]
    (tmp_path / "s.h5").unlink()
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    refused(path, "get it again")
    assert file_reader.magic_of(str(path)) == "parquet"


@pytest.mark.slow
def test_pages_that_are_open_at_once_must_fit_in_the_memory(tmp_path):
    """A row group of many columns: what is decoded at once is refused before it is read."""
    path = tmp_path / "wide.parquet"
    rng = np.random.default_rng(0)
    write(
        path,
        pa.table({"label": [1.0, 2.0] * 500} | {f"x{j}": rng.normal(size=1000) for j in range(60)}),
        1000,
    )
    split_rows([str(path)], tmp_path / "s.h5", SplitSettings(memory=20_000_000))
    zeros = pa.array(np.zeros(140_000))  # a page of each column takes 1 MiB, packed next to nothing
    columns = {"label": np.arange(140_000) % 2} | {f"x{j}": zeros for j in range(70)}
    parquet.write_table(pa.table(columns), path, use_dictionary=False, row_group_size=140_000)
    with pytest.raises(
        InputError, match=r"the pages of the 71 columns of row group 0 take 74 MB at once; give memory=224_000_000, "
    ):
        split_rows([str(path)], tmp_path / "t.h5", SplitSettings(memory=20_000_000))


def test_a_page_must_say_its_lengths(tmp_path):
    """An empty header of a page, under a footer that is whole."""
    path = tmp_path / "rows.parquet"
    write(path, pa.table({"label": [1.0, 2.0] * 5, "x": [1.0] * 10}), 10)
    data = bytearray(path.read_bytes())
    column = parquet.ParquetFile(path).metadata.row_group(0).column(0)
    data[column.dictionary_page_offset] = 0
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"cannot be read \(a page has no length, or one below zero\); get it again"):
        split_rows([str(path)], tmp_path / "s.h5", SplitSettings(memory=20_000_000))


def write_packed(path, columns: dict, **options):
    table = pa.table(columns)
    if path.suffix == ".parquet":
        parquet.write_table(table, path, compression="zstd", **options)
    else:
        with pa.ipc.new_file(str(path), table.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
            file.write_table(table)


def write_bombs(folder) -> dict:
    """Small files that are large when they are unpacked, each in a way of its own; with what is said of them."""
    n, many = 12_000_000, np.arange(20_000) % 2
    cell, some = {"label": [0, 1, 0], "t": ["b", "a" * 100_000_000, "c"]}, many[:20]
    word = cell | {"t": pa.array(cell["t"]).dictionary_encode()}
    words = pa.DictionaryArray.from_arrays(pa.array(many, pa.int32()), ["a" * 3_000_000, "b" * 3_000_000])
    begun = ["a" * 100_000 + str(i) for i in range(2000)]
    views = np.zeros(3000, np.dtype([("length", "<i4"), ("start", "S4"), ("place", "<i4", 2)]))
    views["length"], views["start"] = 1_000_000, b"aaaa"
    parts = [None, pa.py_buffer(views.tobytes()), pa.py_buffer(b"a" * 1_000_000)]
    view = pa.Array.from_buffers(pa.string_view(), 3000, parts)
    zstd, plain = {"compression": "zstd"}, {"label": "PLAIN"}
    made = {
        "numbers.arrow": ({"label": np.arange(n) % 2, "x": np.ones(n)}, zstd, "batch 0 and the dictionaries take 192 "),
        "cell.arrow": (cell, {"compression": "lz4"}, "at once; give memory=301_000_000, or write smaller batches"),
        "word.arrow": (word, zstd, "batch 0 and the dictionaries take 100 MB at once"),
        "plain.arrow": (cell, {}, "has a row of 100,000,000 bytes of text; give memory="),
        "view.arrow": ({"label": many[:3000], "t": view}, {}, "has a row of 1,000,000 bytes of text; give memory="),
        "cell.parquet": (cell, {}, "the pages of the columns of row group 0 take 400 MB at once; give memory="),
        "page.parquet": (
            cell,
            {"use_dictionary": False},
            "take 100 MB at once; give memory=301_000_000, or",
        ),
        "words.parquet": ({"label": many, "t": words}, {}, "has a row of 3,000,000 bytes of text; give memory="),
        "list.parquet": ({"label": some, "t": [np.ones(n)] + [[1.0]] * 19}, {}, "take 144 MB at once; give memory="),
        "begun.parquet": (
            {"label": many[:2000], "t": begun},
            {"use_dictionary": False, "column_encoding": plain | {"t": "DELTA_BYTE_ARRAY"}},
            "the features' names take ",
        ),
    }
    for name, (columns, options, _) in made.items():
        write_packed(folder / name, columns, **options)
    return {folder / name: sentence for name, (_, _, sentence) in made.items()}


SPLIT = """import sys
import pyarrow
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.base.errors import InputError
for name in sys.argv[2:]:
    try:
        split_rows([name], sys.argv[1], SplitSettings(memory=60_000_000, overwrite=True))
    except InputError as error:
        print(error)
    else:
        print("done")
    print(pyarrow.default_memory_pool().max_memory())
"""


@pytest.mark.process
def test_a_small_file_that_is_large_when_it_is_unpacked_is_refused_before_it_is(tmp_path):
    made = write_bombs(tmp_path)
    line = [sys.executable, "-c", SPLIT, tmp_path / "s.h5", *made]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    for (path, sentence), found, peak in zip(made.items(), said[::2], said[1::2], strict=True):
        assert sentence in found, (path.name, found)
        assert int(peak) < 80_000_000, (path.name, peak)


def test_a_page_header_may_have_lists():
    """Of a later release of the format: numbers, words, structures and booleans in them are passed over."""
    numbers, words = b"\x19\x25\x02\x04", b"\x19\x28\x01a\x02bc"
    structures, long = b"\x19\x1c\x15\x06\x00", b"\x19\xf1\x10" + b"\x01" * 16
    header = b"\x15\x02" + numbers + words + structures + long + b"\x15\x54\x00"
    assert structure(header, 0) == ({1: 1, 2: 0, 3: 0, 4: 0, 5: 0, 6: 42}, len(header))
    with pytest.raises(IndexError):
        structure(b"\x19\xf5\xff\xff\xff\x7f", 0)
