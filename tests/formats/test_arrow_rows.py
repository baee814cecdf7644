"""Rows of any table, beside those of a plain reader: the same ids, values, names and faults to the last bit."""

import decimal
from collections import Counter

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
csv = pytest.importorskip("pyarrow.csv")
parquet = pytest.importorskip("pyarrow.parquet")
import reference_arrow  # noqa: E402
from hypothesis import example, given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from reference_formats import mix  # noqa: E402
from support.stored_rows import in_source_order  # noqa: E402

from blocksvm.conversion.convert import SplitSettings, split_rows  # noqa: E402
from blocksvm.formats.file_reader import FileInputs  # noqa: E402
from blocksvm.formats.format import ReaderOptions  # noqa: E402
from blocksvm.formats.hashing import reader_of  # noqa: E402
from blocksvm.formats.tables import arrow_files, table_rows  # noqa: E402
from blocksvm.store.recipe import Recipe  # noqa: E402

HUGE = [np.inf, 1e300, -1e39]
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


KINDS = {  # of columns, each made of a generator of random numbers and of how many cells there are
    "float64": lambda random, n: pa.array(some(random, numbers(random, n)), pa.float64()),
    "float32": lambda random, n: pa.array(np.array(numbers(random, n), "float32")),
    "float16": lambda random, n: pa.array(np.array(numbers(random, n), "float16")),
    "huge": lambda random, n: pa.array(np.where(random.random(n) < 0.02, random.choice(HUGE, n), 1.0)),
    "int64": lambda random, n: pa.array(some(random, random.integers(-(2**62), 2**62, n).tolist()), pa.int64()),
    "uint8": lambda random, n: pa.array(random.integers(0, 3, n).astype(np.uint8)),
    "uint64": lambda random, n: pa.array(random.integers(0, 2**64, n, np.uint64)),
    "bool": lambda random, n: pa.array(some(random, (random.random(n) < 0.5).tolist()), pa.bool_()),
    "decimal": lambda random, n: pa.array(decimals(random, n), pa.decimal128(9, 2)),
    "null": lambda random, n: pa.nulls(n),
    "string": lambda random, n: pa.array(some(random, words(random, n)), pa.string()),
    "large_string": lambda random, n: pa.array(some(random, words(random, n)), pa.large_string()),
    "dictionary": lambda random, n: coded(random, n, pa.int8(), [*WORDS[:4], None]),
    "large dictionary": lambda random, n: coded(random, n, pa.int32(), [f"word {k}" for k in range(200)]),
    "tags": lambda random, n: pa.array(tags(random, n), pa.list_(pa.string())),
    "repeated tags": lambda random, n: pa.array(
        lists(random, n, lambda k: words(random, k)), pa.large_list(pa.string())
    ),
    "whole numbers": lambda random, n: pa.array(
        lists(random, n, lambda k: random.permutation(5)[:k].tolist()), pa.list_(pa.int16())
    ),
    "vector": lambda random, n: pa.array(
        lists(random, n, lambda k: some(random, numbers(random, k))), pa.list_(pa.float32())
    ),
    "sparse vector": lambda random, n: pa.array(
        lists(random, n, lambda k: numbers(random, k * k * k)), pa.large_list(pa.float64())
    ),
    "fixed vector": lambda random, n: pa.array([numbers(random, 3) for _ in range(n)], pa.list_(pa.float32(), 3)),
    "fixed vector with nulls": lambda random, n: pa.array(triples(random, n), pa.list_(pa.float64(), 3)),
    "map": lambda random, n: pa.array(maps(random, n), pa.map_(pa.string(), pa.float64())),
    "repeated map": lambda random, n: pa.array(
        lists(random, n, lambda k: [("k", v) for v in numbers(random, k)]), pa.map_(pa.string(), pa.float32())
    ),
}
NOT_IN_PARQUET = ("float16", "dictionary")  # the latter with a null in it
CATEGORICAL = ("int64", "uint8")  # columns of numbers that may be categories


def table_of(seed: int, n: int, kinds: list[str]):
    random = np.random.default_rng(seed)
    columns = {f"c{k}": KINDS[kind](random, n) for k, kind in enumerate(kinds)}
    if len(kinds) > 2:  # a name that one of the others may make, too
        columns[str(random.choice(["c0[0]", "c1[1]", "c0=a", "c1=k", "other"]))] = pa.array(random.normal(size=n))
    at = int(random.integers(0, len(columns) + 1))
    items = list(columns.items())
    label = pa.array(some(random, random.integers(0, 2, n).tolist()), pa.int8())
    return pa.table(dict([*items[:at], ("label", label), *items[at:]]))


def bits(values) -> list[int]:
    return np.asarray(values, np.float64).view(np.int64).tolist()


def read(path, recipe: Recipe, named=True, n_bytes=1 << 16):
    """(rows as the oracle gives them, fault or None) of a file whose pieces take so many bytes."""
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
@given(st.integers(0, 2**32), st.integers(0, 40), st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=6),
       st.booleans(), st.booleans(), st.booleans(), st.sampled_from(["parquet", "arrow"]), st.integers(1, 50),
       st.integers(0, 3))  # fmt: skip
@example(1, 40, [kind for kind in KINDS if kind != "huge"], True, True, True, "arrow", 50, 3)
@example(1, 0, list(KINDS), True, False, False, "arrow", 50, 0)
@example(2, 40, ["float64"] * 60 + ["huge"], True, False, True, "parquet", 50, 0)
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


@given(st.integers(0, 2**32), st.integers(0, 300), st.sampled_from([1, 8, 40, 63]))
def test_ids_in_order(seed, n, width):
    """Many of them equal, or alike in their first bits."""
    ids = (np.random.default_rng(seed).integers(0, 2**62, n, np.int64) * 2) >> (63 - width)
    assert table_rows.order_of(ids).tolist() == np.argsort(ids, kind="stable").tolist()


@pytest.mark.slow
@pytest.mark.parametrize(("bits_", "many", "normalize"), [(4, True, "none"), (8, True, "l2"), (11, False, "l2")])
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
