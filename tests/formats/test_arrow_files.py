"""Parquet and Arrow tables: features are those of the same table as csv; columns of lists and maps; faults by row."""

import os
import subprocess
import sys

import numpy as np
import pytest
from support.places import ROOT
from support.stored_rows import by_name

from blocksvm.base.errors import InputError
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.formats import file_reader

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


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
    write(path, pa.table({"label": [1.0], "when": pa.array([0], pa.timestamp("ms"))}))
    refused(path, "the column when of the type timestamp[ms] makes no features; leave it out by ignore=when")
    write(path, pa.table({"label": [1.0], "tags": [["a", "b", "a"]]}))
    refused(path, f"{path}:1: tags=a occurs twice in the row; mend it, or add them up with duplicates=sum")
    split_rows([str(path)], tmp_path / "s.h5", SplitSettings(duplicates="sum"))
    assert by_name(tmp_path / "s.h5") == [(1.0, {"tags=a": 2.0, "tags=b": 1.0})]
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
    write(path, pa.table({"label": [1.0, 2.0] * 500} | {f"x{j}": rng.normal(size=1000) for j in range(60)}), 1000)
    split_rows([str(path)], tmp_path / "s.h5", SplitSettings(memory=20_000_000))
    zeros = pa.array(np.zeros(140_000))  # a page of each column takes 1 MiB, packed next to nothing
    columns = {"label": np.arange(140_000) % 2} | {f"x{j}": zeros for j in range(70)}
    parquet.write_table(pa.table(columns), path, use_dictionary=False, row_group_size=140_000)
    with pytest.raises(InputError, match=r"the pages of the 71 columns of row group 0 take 74 MB at once; give"):
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
        "page.parquet": (cell, {"use_dictionary": False}, "take 100 MB at once; give memory=301_000_000, or"),
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
