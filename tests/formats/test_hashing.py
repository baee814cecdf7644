"""Ids hashed to fewer features: what meets within a row is one feature, for streams, stores and predictions alike."""

import itertools

import numpy as np
import pytest
from support.plain_learners import LEARNERS, run
from support.stream_cases import learned, weights_by_id

from blocksvm import InputError, load_model
from blocksvm.kernels import hash_table
from blocksvm.kernels.hash_table import hash_ids
from blocksvm.streaming.stream_saving import save_stream

BITS = 8


def place_of(feature_id: int, bits: int = BITS) -> int:
    out = hash_ids(np.array([feature_id]), bits)
    return int(out[0])


def hashed_rows(rows, bits=BITS) -> np.ndarray:
    """Dense float32 rows over the places, from [(label, {id: value})]."""
    X = np.zeros((len(rows), 1 << bits))
    for r, (_, entries) in enumerate(rows):
        for i, v in sorted(entries.items()):
            X[r, place_of(i, bits)] += float(np.float32(v))
    return X.astype(np.float32).astype(float)


@pytest.fixture(scope="module")
def rows():
    """Rows of 40 entries, of which some meet in nearly every row."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(150):
        ids = rng.choice(10_000, 40, replace=False)
        values = np.round(rng.normal(1.0, 1.0, 40), 2)
        found.append((1.0 if values[:20].sum() > 20 else -1.0, dict(zip(ids.tolist(), values.tolist(), strict=True))))
    return found


@pytest.fixture
def text(rows, tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("".join(f"{y:g} {' '.join(f'{i}:{v!r}' for i, v in sorted(x.items()))}\n" for y, x in rows))
    return path


def weights_of(stream, folder) -> np.ndarray:
    save_stream(folder / "m.h5", stream)
    return weights_by_id(folder / "m.h5", 1 << BITS)[0]


def places_and_sums(rows: list[tuple[list, list]], bits: int) -> list[dict[int, float]]:
    """Each row's {place: sum of its values}, without sums of 0."""
    found = []
    for ids, values in rows:
        own: dict[int, float] = {}
        for i, v in zip(ids, values, strict=True):
            own[place_of(i, bits)] = own.get(place_of(i, bits), 0.0) + v
        found.append({place: v for place, v in own.items() if v != 0.0})
    return found


@pytest.mark.parametrize(("bits", "most_counted"), [(8, 1), (8, 50), (8, None), (1, None), (3, None), (12, None)])
def test_entries_of_a_row_that_meet_are_added_up_whatever_rows_came_before(bits, most_counted):
    """most_counted: entries after which their numbers begin anew; many sums of the rows of 60 are 0; the longest one
    has more entries than places, and more than the working space begins with."""
    rng = np.random.default_rng(3)
    rows = []
    for length in (0, 1, 30, 200, 5, 200, 0, 4_300, 90, *[60] * (200 if most_counted is None else 20)):
        values = rng.choice([-1.0, 1.0] if length == 60 else [-3.0, -2.0, -1.0, 1.0, 2.0, 3.0], length)
        rows.append((rng.choice(3_000 if length == 60 else 100_000, length, replace=False).tolist(), values.tolist()))
    indptr = np.cumsum([0, *(len(ids) for ids, _ in rows)])
    ids, values = (np.array([one for row in rows for one in row[k]]) for k in (0, 1))
    ids, places = ids.astype(np.int64), np.empty(len(ids), np.int32)
    arguments = indptr, ids, values, bits, False, False, places
    with np.errstate(over="ignore"):  # a hash is a product modulo 2^64
        if most_counted is None:
            done, _ = hash_table.hash_rows(*arguments)
        else:
            done, _ = hash_table.hash_rows.py_func(*arguments, most_counted)
    assert done == len(rows)
    found = [dict(zip(places[start:stop].tolist(), values[start:stop].tolist(), strict=True)) for start,
             stop in itertools.pairwise(indptr)]  # fmt: skip
    assert found == places_and_sums(rows, bits)
    assert len(places) > indptr[-1]  # some did meet


def test_a_stream_that_hashes_learns_from_the_hashed_rows(rows, text, tmp_path):
    stream, _ = learned(text, "fobos", bits=BITS, settings={"l1": 0.02})
    _, last, _ = run(LEARNERS["fobos"](1 << BITS, l1=0.02), hashed_rows(rows), np.array([y for y, _ in rows]))
    np.testing.assert_allclose(weights_of(stream, tmp_path), last, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("skip", [False, True])
def test_sums_beyond_the_dtype_are_a_fault_of_their_line(tmp_path, skip):
    first = next(i for i in range(10**6) if place_of(i) == place_of(0) and i > 0)
    text = tmp_path / "rows.svm"
    text.write_text(f"1 5:1\n-1 0:3e38 {first}:3e38\n1 6:1\n-1 5:1\n")
    if skip:
        stream, reports = learned(text, "pa1", bits=BITS, skip_bad=True)
        assert (reports[-1].rows, stream.targets.skipped) == (3, 1)
    else:
        with pytest.raises(InputError, match=r"rows\.svm:2: values that hashing adds up lie beyond float32; scale"):
            learned(text, "pa1", bits=BITS)


def test_a_model_of_a_hashed_store_hashes_text_and_other_stores_likewise(rows, text, tmp_path, succeeds):
    hashed, plain, model = (tmp_path / f"{name}.h5" for name in ("hashed", "plain", "model"))
    succeeds("split", text, hashed, "--bits", BITS)
    succeeds("split", text, plain)
    succeeds("train", hashed, model, "--tol", "1e-4")
    weights, loaded = weights_by_id(model, 1 << BITS)
    assert loaded.bits == BITS
    expected = hashed_rows(rows) @ weights
    for source in (text, hashed, plain):
        out = succeeds("predict", model, source, "--scores").out
        np.testing.assert_allclose(np.array(out.split(), float), expected, rtol=1e-5, atol=1e-6)
    columns = np.zeros((len(rows), 10_000))
    for r, (_, entries) in enumerate(rows):
        columns[r, list(entries)] = list(entries.values())
    from scipy import sparse

    found = load_model(model).decision_function(sparse.csr_matrix(columns))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
