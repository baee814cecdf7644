"""Parquet and Arrow tables: features are those of the same table as csv; columns of lists and maps; faults by row."""

import os

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from support.stored_rows import by_name

from blocksvm.base.errors import InputError
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.formats import file_reader


def write(path, table, batch=37):
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=batch)
    else:
        with pa.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table, max_chunksize=batch)


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
    write(path, pa.table({"label": [1.0], "when": pa.array([0], pa.duration("ms"))}))
    refused(path, "the column when of the type duration[ms] makes no features; leave it out by ignore=when")
    write(path, pa.table({"label": [1.0], "tags": [["a", "b", "a"]]}))
    refused(path, f"{path}:1: tags=a occurs twice in the row; mend it, or add them up with duplicates=sum")
    split_rows([str(path)], tmp_path / "s.h5", SplitSettings(duplicates="sum"))
    assert by_name(tmp_path / "s.h5") == [(1.0, {"tags=a": 2.0, "tags=b": 1.0})]
    (tmp_path / "s.h5").unlink()
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    refused(path, "get it again")
    assert file_reader.magic_of(str(path)) == "parquet"


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_columns_of_strings_are_numbers_where_they_are_named(tmp_path, ending):
    path, store = tmp_path / f"t{ending}", tmp_path / "s.h5"
    words = pa.array(["1.5", None, " 2 ", ""])
    table = pa.table({"label": [1.0, 2.0, 1.0, 2.0], "a": words, "b": words.dictionary_encode()})
    write(path, table)
    meta = split_rows([str(path)], store, SplitSettings(options={"numeric": "a,b"}))
    assert by_name(store) == [(1.0, {"a": 1.5, "b": 1.5}), (2.0, {}), (1.0, {"a": 2.0, "b": 2.0}), (2.0, {})]
    assert meta.recipe.options["kinds"]["numeric"] == ["a", "b"]
    store.unlink()
    write(path, table.set_column(1, "a", pa.array(["1.5", None, "x'", "y"])))
    told = f"{path}:3: column a: 'x'' is not a number; mend it, or name the column by categorical=auto,a"
    refused(path, told, numeric="a,b")
    refused(path, "numeric and categorical both name the column a; leave one out", numeric="a", categorical="a")


def test_row_groups_must_fit_in_the_memory(tmp_path):
    """They are refused before they are read; smaller ones of the same columns are not."""
    path = tmp_path / "wide.parquet"
    n = 20_000
    columns = {"label": np.arange(n) % 2} | {f"x{j}": np.random.default_rng(j).normal(size=n) for j in range(150)}
    parquet.write_table(pa.table(columns), path, row_group_size=5_000)
    split_rows([str(path)], tmp_path / "s.h5", SplitSettings(memory=20_000_000))
    parquet.write_table(pa.table(columns), path)
    with pytest.raises(InputError, match=r"wide.parquet: row group 0 takes 30 MB at once; give memory=3._000_000, or"):
        split_rows([str(path)], tmp_path / "t.h5", SplitSettings(memory=20_000_000))
    split_rows([str(path)], tmp_path / "t.h5", SplitSettings(memory=35_000_000))


def write_large(folder) -> dict:
    """Small files that are large when they are unpacked, each in a way of its own; with what is said of them."""
    n, some = 12_000_000, np.arange(20) % 2
    cell = {"label": [0, 1, 0], "t": ["b", "a" * 100_000_000, "c"]}
    views = np.zeros(3000, np.dtype([("length", "<i4"), ("start", "S4"), ("place", "<i4", 2)]))
    views["length"], views["start"] = 1_000_000, b"aaaa"
    parts = [None, pa.py_buffer(views.tobytes()), pa.py_buffer(b"a" * 1_000_000)]
    view = pa.Array.from_buffers(pa.string_view(), 3000, parts)
    zstd = {"compression": "zstd"}
    made = {
        "numbers.arrow": ({"label": np.arange(n) % 2, "x": np.ones(n)}, zstd, "batch 0 takes 192 MB at once"),
        "cell.arrow": (cell, {"compression": "lz4"}, "at once; give memory=101_000_000, or write smaller batches"),
        "plain.arrow": (cell, {}, "has a row of 100,000,003 bytes; give memory="),
        "view.arrow": ({"label": np.arange(3000) % 2, "t": view}, {}, "has a row of 1,000,003 bytes; give memory="),
        "cell.parquet": (cell, {}, "row group 0 takes 100 MB at once; give memory=101_000_000, or write smaller row"),
        "list.parquet": ({"label": some, "t": [np.ones(n)] + [[1.0]] * 19}, {"use_dictionary": False}, "takes 9"),
    }
    for name, (columns, options, _) in made.items():
        table, path = pa.table(columns), folder / name
        if path.suffix == ".parquet":
            parquet.write_table(table, path, compression="zstd", **options)
        else:
            with pa.ipc.new_file(str(path), table.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
                file.write_table(table)
    return {folder / name: sentence for name, (_, _, sentence) in made.items()}


@pytest.mark.slow
def test_what_does_not_fit_in_the_memory_is_refused(tmp_path):
    for path, sentence in write_large(tmp_path).items():
        with pytest.raises(InputError) as raised:
            split_rows([str(path)], tmp_path / "s.h5", SplitSettings(memory=60_000_000))
        assert sentence in str(raised.value), path.name
