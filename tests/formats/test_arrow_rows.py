"""Rows of any table, beside those of a plain reader: the same ids, values, names and faults to the last bit."""

from __future__ import annotations

import decimal
from collections import Counter

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")
import reference_arrow  # noqa: E402
from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from reference import closed_columns  # noqa: E402
from reference_formats import mix  # noqa: E402
from support.stored_rows import in_source_order  # noqa: E402

from blocksvm.base.errors import InputError  # noqa: E402
from blocksvm.conversion.convert import SplitSettings, split_rows  # noqa: E402
from blocksvm.formats.file_reader import FileInputs  # noqa: E402
from blocksvm.formats.format import ReaderOptions  # noqa: E402
from blocksvm.formats.hashing import reader_of  # noqa: E402
from blocksvm.formats.recipe import Recipe  # noqa: E402
from blocksvm.formats.tables import arrow_files, table_rows  # noqa: E402
from blocksvm.formats.tables.arrow_columns import POINTER  # noqa: E402
from blocksvm.kernels.foreign_memory import where_columns_lie  # noqa: E402
from blocksvm.kernels.table_columns import MOST_ALIKE, fill_rows, order_ids  # noqa: E402
from blocksvm.kernels.table_row_loops import SOUND, ColumnArrays, close_columns, read_column  # noqa: E402

WORDS = ["a", "b", "grün", "", "a longer word than eight bytes", "c0", "x"]
OPTIONS = {"label": "label", "categorical": "auto", "ignore": None}


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


def column(kind: str, random, n: int):
    if kind == "float64":
        return pa.array(some(random, numbers(random, n)), pa.float64())
    if kind in ("float32", "float16"):
        return pa.array(np.array(numbers(random, n), kind))
    if kind == "huge":
        return pa.array(np.where(random.random(n) < 0.02, random.choice([np.inf, 1e300, -1e39], n), 1.0))
    if kind == "int64":
        return pa.array(some(random, random.integers(-(2**62), 2**62, n).tolist()), pa.int64())
    if kind == "uint8":
        return pa.array(random.integers(0, 3, n).astype(np.uint8))
    if kind == "uint64":
        return pa.array(random.integers(0, 2**64, n, np.uint64))
    if kind == "bool":
        return pa.array(some(random, (random.random(n) < 0.5).tolist()), pa.bool_())
    if kind == "decimal":
        return pa.array(
            some(random, [decimal.Decimal(int(k)) / 100 for k in random.integers(-9, 9, n)]), pa.decimal128(9, 2)
        )
    if kind == "null":
        return pa.nulls(n)
    if kind in ("string", "large_string"):
        return pa.array(some(random, words(random, n)), getattr(pa, kind)())
    if kind == "dictionary":
        words_with_null = pa.array([*WORDS[:4], None])
        codes = pa.array(some(random, random.integers(0, 5, n).tolist()), pa.int8())
        return pa.DictionaryArray.from_arrays(codes, words_with_null)
    if kind == "large dictionary":
        own = pa.array([f"word {k}" for k in range(200)])
        return pa.DictionaryArray.from_arrays(
            pa.array(some(random, random.integers(0, 200, n).tolist()), pa.int32()), own
        )
    if kind == "tags":
        return pa.array(
            lists(random, n, lambda k: some(random, [f"t{i}" for i in random.permutation(9)[:k]])),
            pa.list_(pa.string()),
        )
    if kind == "repeated tags":
        return pa.array(lists(random, n, lambda k: words(random, k)), pa.large_list(pa.string()))
    if kind == "whole numbers":
        return pa.array(lists(random, n, lambda k: random.permutation(5)[:k].tolist()), pa.list_(pa.int16()))
    if kind == "vector":
        return pa.array(lists(random, n, lambda k: some(random, numbers(random, k))), pa.list_(pa.float32()))
    if kind == "sparse vector":
        return pa.array(lists(random, n, lambda k: numbers(random, k * k * k)), pa.large_list(pa.float64()))
    if kind == "fixed vector":
        return pa.array([numbers(random, 3) for _ in range(n)], pa.list_(pa.float32(), 3))
    if kind == "fixed vector with nulls":
        return pa.array(some(random, [some(random, numbers(random, 3)) for _ in range(n)]), pa.list_(pa.float64(), 3))
    if kind == "map":
        cells = lists(random, n, lambda k: [(f"k{i}", v) for i, v in enumerate(some(random, numbers(random, k)))])
        return pa.array(cells, pa.map_(pa.string(), pa.float64()))
    assert kind == "repeated map"
    cells = lists(random, n, lambda k: [("k", v) for v in numbers(random, k)])
    return pa.array(cells, pa.map_(pa.string(), pa.float32()))


KINDS = [
    "float64", "float32", "float16", "huge", "int64", "uint8", "uint64", "bool", "decimal", "null", "string",
    "large_string", "dictionary", "large dictionary", "tags", "repeated tags", "whole numbers", "vector",
    "sparse vector", "fixed vector", "fixed vector with nulls", "map", "repeated map",
]  # fmt: skip
NOT_IN_PARQUET = ("float16", "dictionary")  # the latter with a null in it
CATEGORICAL = ("int64", "uint8")  # columns of numbers that may be categories


def table_of(seed: int, n: int, kinds: list[str]):
    random = np.random.default_rng(seed)
    columns = {f"c{k}": column(kind, random, n) for k, kind in enumerate(kinds)}
    if len(kinds) > 2:  # a name that one of the others may make, too
        columns[str(random.choice(["c0[0]", "c1[1]", "c0=a", "c1=k", "other"]))] = pa.array(random.normal(size=n))
    at = int(random.integers(0, len(columns) + 1))
    items = list(columns.items())
    label = pa.array(some(random, random.integers(0, 2, n).tolist()), pa.int8())
    return pa.table(dict([*items[:at], ("label", label), *items[at:]]))


def bits(values) -> list[int]:
    return np.asarray(values, np.float64).view(np.int64).tolist()


def read(path, recipe: Recipe, named=True, n_bytes=1 << 16):
    """(rows as the oracle gives them, fault or None) of a file whose pieces take so many bytes, in memory that goes
    round; the rows of places where the recipe has bits."""
    format_ = "parquet" if path.suffix == ".parquet" else "arrow"
    reader = reader_of(ReaderOptions(recipe, named=named))
    buffer, found = reader.buffer(0), []
    for piece in FileInputs([str(path)], format_, recipe.options).pieces(n_bytes, None, digested=False):
        batch = reader.parse(piece, buffer)
        for r in range(len(batch)):
            own = slice(batch.indptr[r], batch.indptr[r + 1])
            names = [None] * (own.stop - own.start)
            if batch.names is not None:
                text, first, last = batch.names
                names = [text[a:b].tobytes().decode() for a, b in zip(first[own], last[own], strict=True)]
            entries = zip(batch.ids[own].tolist(), names, batch.values[own].tolist(), strict=True)
            found.append((float(batch.labels[r]), list(entries)))
        if batch.fault is not None:
            return found, batch.fault[1]
    return found, None


def same(ours, theirs) -> None:
    assert len(ours) == len(theirs)
    for (label, entries), (other, expected) in zip(ours, theirs, strict=True):
        assert bits([label]) == bits([other]) or (np.isnan(label) and np.isnan(other))
        assert [own[:2] for own in entries] == [own[:2] for own in expected]
        assert bits([own[2] for own in entries]) == bits([own[2] for own in expected])


SENTENCES = {
    "not finite": "the value of {name} is not a finite number; leave it out or give it one",
    "twice": "{name} occurs twice in the row, as in no row that the model was trained on; mend it",
    "too large": "the value of {name} lies beyond {dtype}; scale the feature",
    "norm": "the squares of the row's values add up to more than float64 holds; scale the features",
}


@pytest.mark.slow
@given(
    st.integers(0, 2**32),
    st.integers(0, 40),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=6),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["parquet", "arrow"]),
    st.integers(1, 50),
    st.integers(0, 3),
)
def test_rows_are_those_of_a_plain_reader(folder, seed, n, kinds, add_up, l2, single, ending, group, skipped):
    if ending == "parquet":
        kinds = [kind for kind in kinds if kind not in NOT_IN_PARQUET] or ["float64"]
    table = table_of(seed, n, kinds).slice(skipped)
    path = folder / f"t.{ending}"
    if ending == "parquet":
        parquet.write_table(table, path, row_group_size=group)
    else:
        with pa.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table, max_chunksize=group)
    table = parquet.read_table(path) if ending == "parquet" else table
    categories = [f"c{k}" for k, kind in enumerate(kinds) if kind in CATEGORICAL and (seed + k) % 2]
    options = OPTIONS | {"categorical": ",".join(["auto", *categories])}
    recipe = Recipe(
        ending, "sum" if add_up else "error", None, "l2" if l2 else "none", "float32" if single else "float64", options
    )
    expected, fault = reference_arrow.rows_of(table, "label", categories, add_up, l2, single)
    ours, sentence = read(path, recipe)
    same(ours, expected)
    told = None if fault is None else SENTENCES[fault[0]].format(name=fault[1], dtype=recipe.dtype)
    assert sentence == told
    places, _ = read(path, Recipe(ending, recipe.duplicates, 20, recipe.normalize, recipe.dtype, options))
    for (_, own), (_, entries) in zip(places, expected, strict=False):
        assert {place for place, _, _ in own} <= {mix(id_) >> 44 for id_, _, _ in entries}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@pytest.mark.slow
def test_wide_tables_go_through_in_parts(tmp_path, monkeypatch):
    """Where the rows of a piece lie side by side in several parts, and where no two columns do."""
    table = table_of(3, 300, ["float64", "int64", "string", "vector", "fixed vector", "tags", "map", "bool"])
    random, d = np.random.default_rng(4), table_rows.SIDE_BY_SIDE // 8 // 250
    wide = pa.array([numbers(random, d) for _ in range(300)], pa.list_(pa.float32(), d))
    table = table.append_column("wide", wide)
    parquet.write_table(table, tmp_path / "t.parquet")
    recipe = Recipe("parquet", "sum", None, "l2", "float32", OPTIONS)
    expected, fault = reference_arrow.rows_of(table, "label", (), True, True)
    assert fault is None
    same(read(tmp_path / "t.parquet", recipe, n_bytes=1 << 22)[0], expected)
    monkeypatch.setattr(table_rows.Batch, "_side_by_side", lambda self, places: None)
    same(read(tmp_path / "t.parquet", recipe)[0], expected)


@pytest.mark.slow
def test_strings_are_read_by_their_dictionaries(tmp_path):
    """The file's own, where they are small: the same rows."""
    random = np.random.default_rng(0)
    table = pa.table(
        {
            "label": random.integers(0, 2, 20_000),
            "few": pa.array(some(random, random.choice(WORDS, 20_000).tolist())),
            "many": [f"{k:x}" for k in random.integers(0, 2**40, 20_000).tolist()],
        }
    )
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=7_000)
    about = parquet.ParquetFile(tmp_path / "t.parquet").metadata
    assert arrow_files.dictionaries_in(about, 1 << 20) == {"few"}
    assert arrow_files.dictionaries_in(about, 1) == set()
    recipe = Recipe("parquet", "error", None, "none", "float32", OPTIONS)
    same(read(tmp_path / "t.parquet", recipe)[0], reference_arrow.rows_of(table, "label")[0])


def test_codes_and_offsets_of_a_damaged_file(tmp_path):
    path = tmp_path / "t.arrow"
    recipe = Recipe("arrow", "error", None, "none", "float32", OPTIONS)

    def write(column):
        table = pa.table({"label": [1.0] * len(column), "x": column})
        with pa.ipc.new_file(str(path), table.schema) as file:
            file.write_table(table)

    def refused():
        with pytest.raises(InputError, match=rf"^{path}: cannot be read \(.*\); get it again$"):
            read(path, recipe)

    words_ = pa.array(["a", "b"])
    for codes in ([0, 2, None], [0, -1], [2], [None, -1]):
        write(pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), words_, safe=False))
        refused()
    for wrong in ([0, 9, 2], [0, 1, 200]):
        write(pa.DictionaryArray.from_arrays(pa.array([0, 1, 1]), pa.array(["a", "b"], pa.large_string())))
        raw = path.read_bytes()
        assert raw.count(np.array([0, 1, 2]).tobytes()) == 1
        path.write_bytes(raw.replace(np.array([0, 1, 2]).tobytes(), np.array(wrong).tobytes()))
        refused()


@given(st.integers(0, 2**32), st.integers(0, 300), st.sampled_from([1, 8, 40, 63]))
def test_ids_in_order(seed, n, width):
    random = np.random.default_rng(seed)
    ids = (random.integers(0, 2**62, n, np.int64) * 2) >> (63 - width)
    expected = np.argsort(ids, kind="stable")
    assert table_rows.order_of(ids).tolist() == expected.tolist()
    bits_ = max(1, n.bit_length() - 1)
    shared = np.bincount(ids >> (63 - bits_)).max(initial=0)
    assert order_ids(ids, bits_, np.empty((1 << bits_) + 1, np.int64), np.empty(n, np.int64)) == (shared <= MOST_ALIKE)


@pytest.mark.parametrize("more", [0, 3, 400])
def test_rows_of_columns_side_by_side(more):
    """Entries and places of each row, whatever their number."""
    random = np.random.default_rng(more)
    n, m, c = 50, 7, 5
    features = np.arange(m) * 3
    numbers_ = random.choice([0.0, np.nan, 1.0, -2.5], (m, n + 3))
    categories = random.permuted(np.tile(np.arange(c) * 3 + 1, (n + 3, 1)), axis=1).T.copy()
    categories[random.random(categories.shape) < 0.3] = -1
    lengths_ = random.integers(0, more + 1, n)
    begins = np.append(0, np.cumsum(lengths_))
    more_ids = np.concatenate([100 + random.permutation(more)[:k] for k in lengths_]).astype(np.int64)
    more_values = random.normal(size=len(more_ids))
    total = n * (m + c) + len(more_ids) + 1
    lengths, ids, values = np.empty(n, np.int64), np.empty(total, np.int64), np.empty(total)
    filled, finite = fill_rows(numbers_, features, categories, begins, more_ids, more_values, lengths, ids, values, 0)
    assert finite and filled == lengths.sum()
    ends = np.cumsum(lengths)
    for r in range(n):
        own = slice(ends[r] - lengths[r], ends[r])
        found = [(int(i), v) for i, v in zip(features, numbers_[:, r], strict=True) if v == v and v != 0.0]
        found += [(int(i), 1.0) for i in categories[:, r] if i >= 0]
        a = slice(begins[r], begins[r + 1])
        found += list(zip(more_ids[a].tolist(), more_values[a].tolist(), strict=True))
        got = list(zip(ids[own].tolist(), values[own].tolist(), strict=True))
        assert sorted(got) == sorted(found)
        if len(found) <= 256:
            assert got == sorted(found)
    numbers_[2, 7] = -np.inf
    assert not fill_rows(numbers_, features, categories, begins, more_ids, more_values, lengths, ids, values, 0)[1]


@pytest.mark.parametrize("n", [0, 1, 2, 3, 7, 10, 39, 64, 100])
def test_a_sorting_network_sorts(n):
    """Any keys: all of zeros and ones, where these are few."""
    pairs = table_rows.sorting_network(n)
    random = np.random.default_rng(n)
    keys = random.integers(0, 50, (n, 200))
    if n <= 10:
        keys = (np.arange(1 << n) >> np.arange(n)[:, None]) & 1
    expected = np.sort(keys, axis=0)
    for low, high in pairs.tolist():
        keys[low], keys[high] = np.minimum(keys[low], keys[high]), np.maximum(keys[low], keys[high])
    assert (keys == expected).all()


@pytest.mark.parametrize(("first", "rows"), [(0, 20), (3, 9), (20, 0)])
def test_columns_lie_where_their_owner_says(first, rows):
    """In a batch and in a part of one: the addresses of pyarrow's own buffers."""
    made = [
        pa.array([None, *range(19)], pa.int64()),
        pa.array(np.arange(20.0, dtype=np.float32)),
        pa.array([*np.arange(19.0), None], pa.float64()),
    ]
    batch = pa.record_batch(made, names=["a", "b", "c"]).slice(first, rows)
    _, table = exported = batch.__arrow_c_array__()
    columns, found = np.array([2, 1, 0]), np.empty((3, 3), np.int64)
    where_columns_lie(POINTER(table, b"arrow_array"), columns, *found)
    del exported
    for j, (address, valid, offset) in zip(columns, found.T.tolist(), strict=True):
        column = batch.column(int(j))
        bits, items = column.buffers()
        assert (address, offset) == (items.address, first)
        assert valid == (0 if bits is None else bits.address) or (valid == 0 and column.null_count == 0)


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64, np.int32])
@pytest.mark.parametrize(("first", "stride"), [(0, 1), (3, 1), (8, 1), (13, 1), (2, 3)])
def test_columns_are_read_where_they_lie(kind, first, stride):
    random = np.random.default_rng(first)
    for n in (1, 5, 64, 70, 200):
        items = random.integers(-9, 9, (first + n) * stride).astype(kind)
        if np.dtype(kind).kind == "f":
            items[random.random(len(items)) < 0.2] = np.nan
        valid = random.random(first + n) < 0.8
        bits_ = np.packbits(valid, bitorder="little")
        plain = items[first * stride :: stride][:n].astype(np.float64)
        for bitmap, own in ((0, plain), (bits_.ctypes.data, np.where(valid[first:], plain, np.nan))):
            out = np.empty(n)
            read_column(items.ctypes.data, table_rows.KINDS[np.dtype(kind)], stride, bitmap, first, 7.0, out)
            assert out.tolist() == np.where(np.isnan(own), 7.0, own).tolist()


@pytest.mark.parametrize("l2", [False, True])
@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize(("m", "c", "n"), [(0, 0, 3), (4, 0, 50), (0, 3, 50), (5, 4, 50), (30, 9, 130), (3, 2, 0)])
def test_rows_closed_in_one_sweep(m, c, n, l2, single):
    """To the last bit, with names and without."""
    random = np.random.default_rng(100 * m + c)
    d = m + 5 * c
    places = random.permutation(d).astype(np.int32)
    features = np.sort(places[:m])
    numbers_ = random.choice([0.0, -0.0, np.nan, 1.5, -2.5e-30, 1e20, 3.0], (m, n)) * random.normal(size=(m, n))
    codes = random.integers(0, 6, (c, n), np.int32)  # 5: none
    lookup = np.append(places[m:].reshape(c, 5), np.full((c, 1), d, np.int32), axis=1).astype(np.int32)
    categories = lookup[np.arange(c)[:, None], codes]
    categories = np.where(categories == d, -1, categories)
    final = random.permutation(1000)[:d].astype(np.int32)
    owners = np.full(d + 1, m, np.int32)
    owners[features], owners[d] = np.arange(m), m + 1
    addresses = [row.ctypes.data for row in (*numbers_, *codes)]
    kinds = [table_rows.KINDS[np.dtype(np.float64)]] * m + [table_rows.KINDS[np.dtype(np.int32)]] * c
    where = np.array([addresses, kinds, [1] * (m + c), [0] * (m + c), [0] * (m + c)], np.int64).reshape(5, m + c)
    pairs = table_rows.sorting_network(m + c if c else 0)
    expected, largest = closed_columns(numbers_, features, categories, final, l2, single)
    names = np.arange(d) * 10, np.arange(d) * 10 + 3
    for width, size in ((16, n * (m + c) + 1), (64, 0)):
        indptr, total = np.empty(n + 1, np.int64), n * (m + c) + 1
        ids, values = np.empty(total, np.int32), np.empty(total)
        firsts, lasts = np.empty(size, np.int64), np.empty(size, np.int64)
        status, found = close_columns(
            where, ColumnArrays(features, np.arange(c) * 6, np.full(c, 6), lookup.ravel(), pairs, owners), width, final,
            np.empty(0, bool), *names, l2, single, indptr, ids, values, firsts, lasts,
        )  # fmt: skip
        assert status == SOUND and found == largest
        for r, own in enumerate(expected):
            a = slice(indptr[r], indptr[r + 1])
            assert list(zip(ids[a].tolist(), values[a].tolist(), strict=True)) == [(i, v) for i, _, v in own]
            if size:
                assert firsts[a].tolist() == [10 * j for _, j, _ in own]
                assert lasts[a].tolist() == [10 * j + 3 for _, j, _ in own]


@pytest.mark.slow
@pytest.mark.parametrize("normalize", ["l2", "none"])
@pytest.mark.parametrize(("bits_", "many"), [(4, True), (8, True), (11, False)])
def test_features_that_meet_are_added_up_as_those_of_text(tmp_path, bits_, many, normalize):
    """As rows are made, or after it, where many do."""
    random = np.random.default_rng(bits_)
    columns = {f"c{k}": pa.array(some(random, random.normal(size=400).tolist())) for k in range(60)}
    columns |= {f"w{k}": pa.array(some(random, random.integers(0, 5, 400).astype(str).tolist())) for k in range(3)}
    table = pa.table({"label": np.arange(400) % 2} | columns)
    parquet.write_table(table, tmp_path / "t.parquet")
    csv.write_csv(table, tmp_path / "t.csv", csv.WriteOptions(quoting_style="none"))
    known = read(tmp_path / "t.parquet", Recipe("parquet", "error", None, normalize, "float32", OPTIONS))[0]
    places = Counter(mix(id_) >> (64 - bits_) for id_ in {id_ for _, row in known for id_, _, _ in row})
    meeting = sum(n for n in places.values() if n > 1)
    assert meeting > 0 and (table_rows.MEETING * meeting > places.total()) is many
    found = []
    for ending in ("parquet", "csv"):
        settings = SplitSettings(
            overwrite=True, bits=bits_, normalize=normalize, options={"categorical": "auto,w0,w1,w2"}
        )
        split_rows([str(tmp_path / f"t.{ending}")], tmp_path / "s.h5", settings)
        found.append(in_source_order(tmp_path / "s.h5"))
    assert found[0] == found[1]
