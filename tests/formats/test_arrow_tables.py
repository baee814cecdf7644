"""Parquet and Arrow tables: rows of any columns are those of a plain reader, by id, value and name; faults by row; what
does not fit in the memory."""

import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyarrow import parquet
from reference_formats import arrow_rows, mix
from support.stored_rows import by_name

from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.formats import file_reader
from blocksvm.formats.file_reader import FileInputs
from blocksvm.formats.format import ParseBuffer, ReaderOptions
from blocksvm.formats.weighing import reader_of
from blocksvm.store.recipe import Recipe

HUGE = [np.inf, 1e300, -1e39]
WORDS = ["a", "b", "grün", "", "a longer word than eight bytes", "c0", "x"]
OPTIONS = {"label": "label", "categorical": "auto", "ignore": None}


def write(path, table, batch=37, **options):
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=batch, **options)
    else:
        with pa.ipc.new_file(str(path), table.schema, options=pa.ipc.IpcWriteOptions(**options)) as file:
            file.write_table(table, max_chunksize=batch)


@pytest.mark.slow
def test_wrong_tables(tmp_path, not_split):
    path = tmp_path / "t.parquet"
    for columns, options, sentence in (
        ({"y": [1.0, 2.0], "x": [1.0, 2.0]}, {}, "no column is called label; name that of the labels by label; the "
         "columns are y, x"),
        ({"y": [1.0], "x": [1.0]}, {"options": {"label": "y", "categorical": "zip"}},
         "no column is called zip, which categorical names"),
        ({"label": [1.0] * 50, "x": [1.0] * 41 + [np.inf] * 9}, {}, "42: the value of x is not a finite number"),
        ({"label": [1.0, 2.0], "x": [1.0, 1e200]}, {"dtype": "float64"},
         "2: the squares of the row's values add up to more than float64"),
        ({"label": [1.0], "when": pa.array([0], pa.duration("ms"))}, {},
         "the column when of the type duration[ms] makes no features; leave it out by ignore=when"),
        ({"label": [1.0], "tags": [["a", "b", "a"]]}, {},
         "1: tags=a occurs twice in the row; mend it, or add them up with duplicates=sum"),
    ):  # fmt: skip
        write(path, pa.table(columns))
        not_split(path, f"{path}:{sentence if sentence[0].isdigit() else f' {sentence}'}", **options)
    split_rows([str(path)], tmp_path / "s.h5", SplitSettings(duplicates="sum"))
    assert by_name(tmp_path / "s.h5") == [(1.0, {"tags=a": 2.0, "tags=b": 1.0})]
    raw = path.read_bytes()
    path.write_bytes(raw[: len(raw) // 2])
    not_split(path, "get it again")
    assert file_reader.magic_of(str(path)) == "parquet"


@pytest.mark.parametrize("ending", [".parquet", ".arrow"])
def test_columns_of_strings_are_numbers_where_they_are_named(tmp_path, ending, not_split):
    path, store = tmp_path / f"t{ending}", tmp_path / "s.h5"
    words = pa.array(["1.5", None, " 2 ", ""])
    table = pa.table({"label": [1.0, 2.0, 1.0, 2.0], "a": words, "b": words.dictionary_encode()})
    write(path, table)
    meta = split_rows([str(path)], store, SplitSettings(options={"numeric": "a,b"}))
    assert by_name(store) == [(1.0, {"a": 1.5, "b": 1.5}), (2.0, {}), (1.0, {"a": 2.0, "b": 2.0}), (2.0, {})]
    assert meta.recipe.options["kinds"]["numeric"] == ["a", "b"]
    write(path, table.set_column(1, "a", pa.array(["1.5", None, "x'", "y"])))
    told = f"{path}:3: column a: 'x'' is not a number; mend it, or name the column by categorical=auto,a"
    not_split(path, told, options={"numeric": "a,b"})
    told = "numeric and categorical both name the column a; leave one out"
    not_split(path, told, options={"numeric": "a", "categorical": "a"})


def test_row_groups_must_fit_in_the_memory(tmp_path, not_split):
    """They are refused before they are read; smaller ones of the same columns are not."""
    path, n = tmp_path / "wide.parquet", 20_000
    columns = {"label": np.arange(n) % 2} | {f"x{j}": np.random.default_rng(j).normal(size=n) for j in range(150)}
    for rows, memory in ((5_000, 20_000_000), (n, 35_000_000)):
        write(path, pa.table(columns), rows)
        split_rows([str(path)], tmp_path / "s.h5", SplitSettings(memory=memory, overwrite=True))
    not_split(path, f"{path}: row group 0 takes 30 MB at once; give memory=3", memory=20_000_000)


@pytest.mark.slow
def test_what_does_not_fit_in_the_memory_is_refused(tmp_path, not_split):
    """Small files that are large when they are unpacked, each in a way of its own."""
    n = 12_000_000
    cell = {"label": [0, 1, 0], "t": ["b", "a" * 100_000_000, "c"]}
    views = np.zeros(3000, np.dtype([("length", "<i4"), ("start", "S4"), ("place", "<i4", 2)]))
    views["length"], views["start"] = 1_000_000, b"aaaa"
    parts = [None, pa.py_buffer(views.tobytes()), pa.py_buffer(b"a" * 1_000_000)]
    view = pa.Array.from_buffers(pa.string_view(), 3000, parts)
    zstd = {"compression": "zstd"}
    for name, columns, options, sentence in (
        ("numbers.arrow", {"label": np.arange(n) % 2, "x": np.ones(n)}, zstd, "batch 0 takes 192 MB at once"),
        ("cell.arrow", cell, {"compression": "lz4"}, "at once; give memory=101_000_000, or write smaller batches"),
        ("plain.arrow", cell, {}, "has a row of 100,000,003 bytes; give memory="),
        ("view.arrow", {"label": np.arange(3000) % 2, "t": view}, {}, "has a row of 1,000,003 bytes; give memory="),
        ("cell.parquet", cell, zstd, "row group 0 takes 100 MB at once; give memory=101_000_000, or write smaller row"),
        ("list.parquet", {"label": np.arange(20) % 2, "t": [np.ones(n)] + [[1.0]] * 19},
         zstd | {"use_dictionary": False}, "takes 9"),
    ):  # fmt: skip
        write(tmp_path / name, pa.table(columns), n, **options)
        not_split(tmp_path / name, sentence, memory=60_000_000)


def some(random, values, share=0.2):
    """The values with nulls among them."""
    gone = random.random(len(values)) < share
    return [None if own else value for value, own in zip(values, gone.tolist(), strict=True)]


def numbers(random, n):
    return np.where(random.random(n) < 0.3, random.choice([0.0, -0.0, np.nan], n), random.normal(size=n)).tolist()


def lists(random, n, items, most=4):
    lengths = random.integers(0, most, n)
    return some(random, [items(int(k)) for k in lengths])


def words(random, n):
    return random.choice(WORDS, n).tolist()


def decimals(random, n):
    return some(random, [decimal.Decimal(int(k)) / 100 for k in random.integers(-9, 9, n)])


def tags(random, n):
    return lists(random, n, lambda k: some(random, [f"t{i}" for i in random.permutation(9)[:k]]))


def triples(random, n):
    return some(random, [some(random, numbers(random, 3)) for _ in range(n)])


def maps(random, n):
    return lists(random, n, lambda k: [(f"k{i}", v) for i, v in enumerate(some(random, numbers(random, k)))])


def coded(random, n, kind, known):
    codes = pa.array(some(random, random.integers(0, len(known), n).tolist()), kind)
    return pa.DictionaryArray.from_arrays(codes, pa.array(known))


KINDS = {  # of columns, each made of a generator of random numbers and of how many cells there are, with their type
    "float64": (lambda random, n: some(random, numbers(random, n)), pa.float64()),
    "float32": (lambda random, n: np.array(numbers(random, n), "float32"), None),
    "float16": (lambda random, n: np.array(numbers(random, n), "float16"), None),
    "huge": (lambda random, n: np.where(random.random(n) < 0.02, random.choice(HUGE, n), 1.0), None),
    "int64": (lambda random, n: some(random, random.integers(-(2**62), 2**62, n).tolist()), pa.int64()),
    "uint8": (lambda random, n: random.integers(0, 3, n).astype(np.uint8), None),
    "uint64": (lambda random, n: random.integers(0, 2**64, n, np.uint64), None),
    "bool": (lambda random, n: some(random, (random.random(n) < 0.5).tolist()), pa.bool_()),
    "decimal": (decimals, pa.decimal128(9, 2)),
    "null": (lambda random, n: [None] * n, pa.null()),
    "string": (lambda random, n: some(random, words(random, n)), pa.string()),
    "large_string": (lambda random, n: some(random, words(random, n)), pa.large_string()),
    "dictionary": (lambda random, n: coded(random, n, pa.int8(), [*WORDS[:4], None]), None),
    "large dictionary": (lambda random, n: coded(random, n, pa.int32(), [f"word {k}" for k in range(200)]), None),
    "tags": (tags, pa.list_(pa.string())),
    "repeated tags": (lambda random, n: lists(random, n, lambda k: words(random, k)), pa.large_list(pa.string())),
    "whole numbers": (
        lambda random, n: lists(random, n, lambda k: random.permutation(5)[:k].tolist()), pa.list_(pa.int16())),
    "vector": (lambda random, n: lists(random, n, lambda k: some(random, numbers(random, k))), pa.list_(pa.float32())),
    "sparse vector": (
        lambda random, n: lists(random, n, lambda k: numbers(random, k * k * k)), pa.large_list(pa.float64())),
    "fixed vector": (lambda random, n: [numbers(random, 3) for _ in range(n)], pa.list_(pa.float32(), 3)),
    "fixed vector with nulls": (triples, pa.list_(pa.float64(), 3)),
    "map": (maps, pa.map_(pa.string(), pa.float64())),
    "repeated map": (lambda random, n: lists(random, n, lambda k: [("k", v) for v in numbers(random, k)]),
                     pa.map_(pa.string(), pa.float32())),
}  # fmt: skip
NOT_IN_PARQUET = ("float16", "dictionary")  # the latter with a null in it
CATEGORICAL = ("int64", "uint8")  # columns of numbers that may be categories


def table_of(seed: int, n: int, kinds: list[str]):
    random = np.random.default_rng(seed)
    columns = {}
    for k, (make, type_) in enumerate(KINDS[kind] for kind in kinds):
        cells = make(random, n)
        columns[f"c{k}"] = cells if isinstance(cells, pa.Array) else pa.array(cells, type_)
    if len(kinds) > 2:  # a name that one of the others may make, too
        columns[str(random.choice(["c0[0]", "c1[1]", "c0=a", "c1=k", "other"]))] = pa.array(random.normal(size=n))
    at = int(random.integers(0, len(columns) + 1))
    items = list(columns.items())
    label = pa.array(some(random, random.integers(0, 2, n).tolist()), pa.int8())
    return pa.table(dict([*items[:at], ("label", label), *items[at:]]))


def read(path, recipe: Recipe, named=True, n_bytes=1 << 16):
    """(rows as the oracle gives them, fault or None) of a file whose pieces take so many bytes."""
    format_ = "parquet" if path.suffix == ".parquet" else "arrow"
    reader = reader_of(ReaderOptions(recipe, named=named))
    buffer, found = ParseBuffer(), []
    for piece in FileInputs([str(path)], format_, recipe.options).pieces(n_bytes, None, digested=False):
        batch = reader.parse(piece, buffer)
        for r in range(len(batch)):
            own = slice(batch.indptr[r], batch.indptr[r + 1])
            names = [None] * (own.stop - own.start)
            if batch.names is not None:
                text, first, last = batch.names
                names = [text[a:b].tobytes().decode() for a, b in zip(first[own], last[own], strict=True)]
            entries = zip(batch.ids[own].tolist(), names, batch.values[own].tolist(), strict=True)
            found.append((float(batch.labels[r]), sorted(entries)))
        if batch.fault is not None:
            return found, batch.fault[1]
    return found, None


def same(ours, theirs) -> None:
    assert len(ours) == len(theirs)
    for (label, entries), (other, expected) in zip(ours, theirs, strict=True):
        assert label == other or (np.isnan(label) and np.isnan(other))
        assert [own[:2] for own in entries] == [own[:2] for own in expected]
        # sums are in the order of the columns, or of ids
        np.testing.assert_allclose([own[2] for own in entries], [own[2] for own in expected], rtol=3e-7)


SENTENCES = {
    "not finite": "is not a finite number; leave it out or give it one",
    "twice": "occurs twice in the row, as in no row that the model was trained on; mend it",
    "too large": "lies beyond",
    "norm": "the squares of the row's values add up to more than float64 holds; scale the columns",
}


@pytest.mark.slow
@given(st.integers(0, 2**32), st.integers(0, 40), st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=6),
       st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["parquet", "arrow"]), st.integers(1, 50),
       st.integers(0, 3))  # fmt: skip
@example(1, 40, [kind for kind in KINDS if kind != "huge"], True, True, True, "arrow", 50, 3)
@example(1, 0, list(KINDS), True, False, False, "arrow", 50, 0)
@example(2, 40, ["float64"] * 60 + ["huge"], True, False, True, "parquet", 50, 0)
def test_rows_are_those_of_a_plain_reader(tmp_path, seed, n, kinds, add_up, l2, single, ending, group, skipped):
    if ending == "parquet":
        kinds = [kind for kind in kinds if kind not in NOT_IN_PARQUET] or ["float64"]
    table = table_of(seed, n, kinds).slice(skipped)
    path = tmp_path / f"t.{ending}"
    write(path, table, group)
    table = parquet.read_table(path) if ending == "parquet" else table
    categories = [f"c{k}" for k, kind in enumerate(kinds) if kind in CATEGORICAL and (seed + k) % 2]
    options = OPTIONS | {"categorical": ",".join(["auto", *categories])}
    how = "sum" if add_up else "error", None, "l2" if l2 else "none", "float32" if single else "float64"
    recipe = Recipe(ending, *how, options)
    expected, fault = arrow_rows(table, "label", categories, add_up, l2, single)
    ours, sentence = read(path, recipe)
    same(ours, expected)
    assert (sentence is None) == (fault is None) and (fault is None or SENTENCES[fault[0]] in sentence)
    places, _ = read(path, Recipe(ending, recipe.duplicates, 20, recipe.normalize, recipe.dtype, options))
    for (_, own), (_, entries) in zip(places, expected, strict=False):
        assert {place for place, _, _ in own} <= {mix(id_) >> 44 for id_, _, _ in entries}
