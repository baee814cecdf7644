"""The schema of a store: rows with weights, labels of each kind and names, beside what h5py reads without blocksvm."""

import json
import random
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.stored_rows import content, read_with_h5py

import blocksvm
from blocksvm import InputError
from blocksvm.base.labels import Labels
from blocksvm.base.row_batch import Origin, RowBatch
from blocksvm.conversion.convert import SplitSettings, store_batches
from blocksvm.store.reader import Store


def batch_of(rows: list[dict], labels, named: bool, weighted: bool) -> RowBatch:
    """rows: {"entries": {id: value}, "weight": float}; labels as RowBatch has them."""
    indptr = np.append(0, np.cumsum([len(row["entries"]) for row in rows])).astype(np.int64)
    ids = [i for row in rows for i in sorted(row["entries"])]
    values = [row["entries"][i] for row in rows for i in sorted(row["entries"])]
    names = None
    if named:
        texts = [name_of(i).encode() for i in ids]
        last = np.cumsum([2 + len(text) for text in texts]).astype(np.int64)  # with something between them
        names = (b"".join(b"##" + text for text in texts), last - [len(text) for text in texts], last)
    return RowBatch(labels if isinstance(labels, list) else np.array(labels, dtype=np.float64), indptr,
                    np.array(ids, np.int64), np.array(values, np.float64),
                    Origin("batch", None, len(rows), np.arange(len(rows))),
                    weights=np.array([row["weight"] for row in rows]) if weighted else None, names=names)  # fmt: skip


def name_of(i: int) -> str:
    return "" if i == 3 else f"wört^{i}" * (1 + i % 3)


def read_plainly(path: Path) -> dict:
    """All rows by source number, as the docstring of descriptions.py tells it: nothing of blocksvm."""
    rows, ids = read_with_h5py(path)
    with h5py.File(path) as file:
        meta, names, table = json.loads(file["meta"][()].tobytes()), None, None

        def texts(text, ends) -> list[str]:
            data, ends = file[text][()].tobytes(), file[ends][()].tolist()
            return [data[a:b].decode() for a, b in zip([0, *ends], ends, strict=False)]

        if "names" in file["features"]:
            names = dict(zip(ids.tolist(), texts("features/names", "features/name_ends"), strict=True))
        if "labels" in file:
            table = [tuple(one) if isinstance(one, list) else one for one in json.loads(file["labels"][()].tobytes())]
        assert all(array.fletcher32 for array in (*file["features"].values(), *([file["labels"]] if table else ())))
    found = {}
    for row in rows:
        label = None if np.isnan(row.label) else row.label if table is None else table[int(row.label)]
        entries = dict(zip(row.ids, row.values, strict=True))
        found[row.source] = {"label": label, "weight": row.weight, "entries": entries}
    return {"rows": found, "names": names, "meta": meta}


ids = st.one_of(st.integers(0, 9), st.integers(0, 2**63 - 1))
row = st.fixed_dictionaries(
    {"entries": st.dictionaries(ids, st.sampled_from([1.0, 0.5, -2.0]), max_size=6),
     "weight": st.sampled_from([1.0, 0.0, 0.25, 3.5, 1e-300])},
)  # fmt: skip
numbers = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cf", "Zl", "Zp")), max_size=5)
LABELS = {
    "numbers": st.one_of(st.none(), st.sampled_from([-1.0, 1.0, 2.5]), numbers),
    "strings": st.one_of(st.none(), st.sampled_from(["ham", "spam", ""]), texts),
    "sets": st.one_of(st.none(), st.lists(texts, max_size=3).map(tuple)),
    "sets of numbers": st.one_of(st.none(), st.lists(st.sampled_from([1, 2.5, -7]), max_size=3).map(tuple)),
}


@pytest.mark.slow
@given(data=st.data(), kind=st.sampled_from(list(LABELS)))
@settings(max_examples=2 * settings().max_examples)
def test_rows_come_back_as_they_went_in(tmp_path, data, kind):
    rows = data.draw(st.lists(row, min_size=1, max_size=14))
    labels = data.draw(st.lists(LABELS[kind], min_size=len(rows), max_size=len(rows)))
    weighted, named = data.draw(st.booleans()), data.draw(st.booleans())
    cut = data.draw(st.integers(1, len(rows)))
    batches = []
    for part in (slice(0, cut), slice(cut, len(rows))):
        own = labels[part]
        if kind == "numbers":
            own = np.array([np.nan if label is None else label for label in own])
        # what a batch lacks, another may have
        batches.append(batch_of(rows[part], own, named and (part.start == 0 or cut % 2), weighted))
    path = tmp_path / "s.h5"
    options = SplitSettings(chunk_nonzeros=5, overwrite=True, dtype="float64", seed=data.draw(st.integers(0, 3)))
    meta = store_batches(batches, path, options)
    expected = {}
    for k, (given_row, label) in enumerate(zip(rows, labels, strict=True)):
        label = tuple(sorted(set(label))) if isinstance(label, tuple) else label
        weight = given_row["weight"] if weighted else 1.0
        expected[k] = {"label": label, "weight": weight, "entries": given_row["entries"]}
    found = read_plainly(path)
    assert found["rows"] == expected
    assert found["meta"]["n_samples"] == len(rows)
    missing = sum(label is None for label in labels)
    assert found["meta"].get("n_unlabelled", 0) == missing == meta.n_unlabelled
    is_weighted = weighted and any(r["weight"] != 1.0 for r in rows)
    with Store(path) as store:
        store.verify()
        assert (store.weighted, store.n_unlabelled) == (is_weighted, missing)
        kinds = {"sets of numbers": "sets"}
        assert store.label_kind == (kinds.get(kind, kind) if missing < len(rows) else "numbers")
        present = [e["label"] for e in expected.values() if e["label"] is not None]
        distinct = sorted(set(present))
        assert store.label_counts == [(label, present.count(label)) for label in distinct]
        sums = {label: sum(e["weight"] for e in expected.values() if e["label"] == label) for label in distinct}
        assert store.label_weights == (pytest.approx(list(sums.values())) if is_weighted else None)
        assert store.total_weight == pytest.approx(sum(e["weight"] for e in expected.values()))
        block = store.read_block(np.arange(len(store.chunks)), None)
        sources = np.concatenate([store.read_rows(k)["source"] for k in range(len(store.chunks))]).tolist()
        back = np.concatenate([store.read_labels(k) for k in range(len(store.chunks))]).tolist()
        assert [None if label != label else label for label in back] == [expected[s]["label"] for s in sources]
        assert (block.weights is None) == (not is_weighted)
        if is_weighted:
            assert block.weights.tolist() == [expected[s]["weight"] for s in sources]
        if kind in ("numbers", "strings") and len(distinct) > 1:
            assert store.labels == Labels(tuple(distinct))
            assert block.y.tolist() == Labels(tuple(distinct)).codes([expected[s]["label"] for s in sources]).tolist()
            some = Labels((distinct[0], distinct[-1]))
            other = store.reader(some).read_block(np.arange(len(store.chunks)), None)
            assert other.y.tolist() == some.codes([expected[s]["label"] for s in sources]).tolist()
        elif kind.startswith("sets"):
            assert store.labels is None
            place = {label: k for k, label in enumerate(distinct)} | {None: -1 if distinct else 0}
            assert block.y.tolist() == [place[expected[s]["label"]] for s in sources]
        if kind == "numbers":
            real = store.reader(real=True).read_block(np.arange(len(store.chunks)), None)
            assert [None if v != v else v for v in real.y.tolist()] == [expected[s]["label"] for s in sources]
        elif distinct:
            with pytest.raises(InputError, match="and real numbers are needed"):
                store.reader(real=True)
        names = store.feature_names(0, store.n_features)
        known = store.feature_ids(0, store.n_features).tolist()
        if named:
            first = {i for row in rows[:cut] for i in row["entries"]}
            truth = [name_of(i) if i in first or cut % 2 else "" for i in known]
            assert names == truth == [found["names"][i] for i in known]
            half = store.n_features // 2
            assert store.feature_names(half, store.n_features) == truth[half:]
            assert store.feature_names(half, half) == []
        else:
            assert names is None


def rich_batches() -> list[RowBatch]:
    """Rows with everything that a store can hold."""
    rng = np.random.default_rng(0)
    rows = [
        {"entries": {int(i): float(v) for i, v in zip(rng.integers(0, 30, 6), rng.random(6), strict=True)},
         "weight": float(rng.integers(0, 4))} for _ in range(60)
    ]  # fmt: skip
    labels = [[None, "ham", "spam", "eggs"][k] for k in rng.integers(0, 4, 60)]
    return [batch_of(rows[:25], labels[:25], True, True), batch_of(rows[25:], labels[25:], True, True)]


@pytest.fixture(scope="module")
def rich(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("rich") / "s.h5"
    store_batches(rich_batches(), path, SplitSettings(chunk_nonzeros=16, dtype="float64"))
    return path


@pytest.fixture(scope="module")
def of_sets(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("sets") / "s.h5"
    rows = [{"entries": {k % 7: 1.0, 9: 1.0}, "weight": 1.0} for k in range(40)]
    labels = [(k % 3, 10 + k % 4) if k % 5 else () for k in range(40)]
    store_batches([batch_of(rows, labels, False, False)], path, SplitSettings(chunk_nonzeros=16))
    return path


@pytest.fixture(params=["rich", "of_sets"])
def stored(request) -> Path:
    return request.getfixturevalue(request.param)


@pytest.mark.slow
def test_flipped_bytes_are_found_or_harmless(stored, tmp_path):
    data, expected = stored.read_bytes(), content(stored)
    path, draw, found = tmp_path / "damaged.h5", random.Random(0), 0
    for k in range(300):
        damaged = bytearray(data)
        at = k * len(data) // 300
        damaged[at] ^= draw.choice([0x01, 0x10, 0x80, 0xFF])
        path.write_bytes(damaged)
        outcome = content(path)
        if isinstance(outcome, InputError):
            found += 1
            assert str(path) in str(outcome)
            assert "\n" not in str(outcome)
        else:
            assert outcome == expected, f"byte {at}: read, but wrong"
    assert found > 100


def test_every_array_is_under_a_checksum(stored, rich, tmp_path):
    """Tables changed through HDF5 itself, so that HDF5's own checksums hold, arrays by a bit; and each left out."""
    path = tmp_path / "changed.h5"
    names: list[str] = []
    with h5py.File(stored) as file:
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    assert ("features/names" in names) == (stored == rich)
    assert "labels" in names
    for name in names:
        shutil.copy(stored, path)
        with h5py.File(path) as file:
            chunked = file[name].chunks is not None
            last = file[name].id.get_chunk_info(file[name].id.get_num_chunks() - 1) if chunked else None
        if last is not None:
            raw = bytearray(path.read_bytes())
            raw[last.byte_offset + last.size // 2] ^= 1
            path.write_bytes(raw)
            assert "checksum does not match" in str(content(path)), name
        else:
            with h5py.File(path, "r+") as file:
                changed = file[name][-1]
                if changed.dtype.names:
                    changed[changed.dtype.names[-1]] += 1
                file[name][-1] = changed if changed.dtype.names else changed + 1
            assert isinstance(content(path), InputError), name
        shutil.copy(stored, path)
        with h5py.File(path, "r+") as file:
            del file[name]
        assert isinstance(content(path), InputError), name


def test_held_out_rows_have_tables_of_their_own(tmp_path):
    store_batches(rich_batches(), tmp_path / "a.h5", SplitSettings(holdout=0.4, seed=2), tmp_path / "h.h5")
    whole = tmp_path / "w.h5"
    store_batches(rich_batches(), whole, SplitSettings())
    everything = read_plainly(whole)
    parts = [read_plainly(tmp_path / name) for name in ("a.h5", "h.h5")]
    assert parts[0]["rows"] | parts[1]["rows"] == everything["rows"]
    assert parts[0]["names"] | parts[1]["names"] == everything["names"]
    assert len(parts[1]["rows"]) > 5


def test_labels_of_two_kinds_and_weights_that_are_none_are_refused(tmp_path):
    for labels, weight, says in (
        ((["a"], np.array([1.0])), 1.0, "the labels are strings in some rows and numbers in others"),
        ((["a"], [("b",)]), 1.0, "the labels are strings in some rows and sets in others"),
        (([("a", 1.0)],), 1.0, "the members of sets of labels must be all numbers or all strings"),
        (([("a",)], [(1.0,)]), 1.0, "the members of sets of labels must be all numbers or all strings"),
        *((([1.0], [-1.0]), weight, f"row 1: the weight {weight:g} is not a finite number of 0 or more")
          for weight in (np.nan, np.inf, -1.0)),
    ):  # fmt: skip
        row = {"entries": {1: 1.0}, "weight": weight}
        with pytest.raises(InputError, match=says):
            store_batches([batch_of([row], own, False, weight != 1.0) for own in labels], tmp_path / "s.h5")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_names_and_labels_count_within_the_memory(tmp_path):
    n = 1000
    row_ = [{"entries": {k: 1.0}, "weight": 1.0} for k in range(n)]
    batch = batch_of(row_, ["x"] * n, False, False)
    long = np.full(12_000_000, ord("n"), np.uint8)
    first = np.arange(n) * 12_000
    with pytest.raises(InputError, match=r"the features' names take \d+ MB beside 1,000 distinct .* raise memory"):
        store_batches(
            [RowBatch(batch.labels, batch.indptr, batch.ids, batch.values, batch.origin,
                      names=(long, first, first + 12_000))],
            tmp_path / "s.h5", SplitSettings(memory=16_000_000),
        )  # fmt: skip
    many = [f"{k:012000d}" for k in range(n)]
    with pytest.raises(InputError, match=r"the labels take \d+ MB beside 1,000 distinct .* raise memory"):
        store_batches([batch_of(row_, many, False, False)], tmp_path / "s.h5", SplitSettings(memory=16_000_000))


def test_more_labels_than_classes(tmp_path):
    n = 10_001
    rows = [{"entries": {1: 1.0}, "weight": 1.0} for _ in range(n)]
    for name, labels in (("n", np.arange(n) + 0.5), ("s", [f"l{k:05d}" for k in range(n)])):
        store_batches([batch_of(rows, labels, False, False)], tmp_path / f"{name}.h5")
        with Store(tmp_path / f"{name}.h5") as store:
            store.verify()
            assert (store.label_counts, store.labels) == (None, None)
            back = np.concatenate([store.read_labels(k) for k in range(len(store.chunks))])
            assert sorted(back.tolist()) == sorted(np.asarray(labels).tolist())
            pair = Labels(tuple(sorted(back.tolist())[5:7]))
            block = store.reader(pair).read_block(np.arange(len(store.chunks)), None)
            assert (np.abs(block.y).sum(), block.y.sum()) == (2, 0)


def make_rows(tmp_path: Path, labels, name="s.h5", weights=None) -> Path:
    """A store of rows that their labels separate."""
    given = [1.0] * len(labels) if weights is None else weights
    rows = [{"entries": {(k % 2): 1.0, 5 + k % 7: 0.5}, "weight": own} for k, own in enumerate(given)]
    store_batches([batch_of(rows, labels, False, weights is not None)], tmp_path / name)
    return tmp_path / name


def test_strings_from_split_to_predictions(tmp_path, succeeds, refusal):
    """Trained, held out and predicted by name; another store's table of names is another one."""
    store = make_rows(tmp_path, [["ham", "spam"][k % 2] for k in range(80)])
    held = make_rows(tmp_path, [["ham", "spam", "extra"][k % 2 if k < 30 else 2] for k in range(40)], "held.h5")
    model, out = tmp_path / "m.h5", tmp_path / "out.txt"
    succeeds("train", store, model, "--valid", held, "--log", tmp_path / "t.jsonl", "--class-weight", "spam=2")
    events = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert [e["valid_accuracy"] for e in events if e["event"] == "outer"][-1] == 0.75
    assert "accuracy 0.750000 (30 of 40 rows)" in succeeds("predict", model, held, out).out
    assert out.read_text().split() == [["ham", "spam"][k % 2] for k in range(40)]
    # predictions with these labels are ours, and may be replaced
    succeeds("predict", model, held, out, "--overwrite")
    assert "ham, spam" in succeeds("info", model).out
    told = refusal("train", store, model, "--overwrite", "--class-weight", "eggs=2")
    assert "no row has this label; the labels are ham and spam" in told


def test_what_training_cannot_take_is_one_sentence(tmp_path, refusal):
    part = make_rows(tmp_path, [1.0, -1.0, np.nan] * 10, "part.h5")
    heavy = make_rows(tmp_path, [1.0, -1.0] * 10, "heavy.h5", weights=[2.0] * 20)
    many = make_rows(tmp_path, [k + 0.5 for k in range(10_001)], "many.h5")
    missing = "10 of its 30 rows have no label, which training needs; split the labelled"
    for path, says in ((part, missing), (many, "has more than 10,000 distinct labels")):
        for solver in ("dual-cd", "pa1"):
            told = refusal("train", path, tmp_path / "m.h5", "--solver", solver, "--quiet")
            assert told.startswith(f"blocksvm train: error: {path}: ") and says in told
        refusal("regret", path, "--learner", "arow", "--quiet")
    weights = "its rows have weights, which regret does not accept"
    assert weights in refusal("regret", heavy, "--learner", "pa1", "--quiet")
    assert not (tmp_path / "m.h5").exists()


def test_rows_without_a_label_are_scored(tmp_path, succeeds):
    labels = [1.0 if k % 2 else -1.0 for k in range(60)]
    some = make_rows(tmp_path, [label if k < 40 else np.nan for k, label in enumerate(labels)], "some.h5")
    events: list[dict] = []
    with Store(make_rows(tmp_path, labels)) as store, Store(some) as held:
        blocksvm.fit(store, valid=held, on_event=events.append, tol=1e-3).save(tmp_path / "m.h5")
    assert [e["valid_accuracy"] for e in events if e["event"] == "outer"][-1] == 1.0
    told = succeeds("predict", tmp_path / "m.h5", some, tmp_path / "out.txt").out
    assert "accuracy 1.000000 (40 of 40 rows)" in told
    assert [float(line) for line in (tmp_path / "out.txt").read_text().split()] == labels
    assert "20 rows without a label" in succeeds("info", some).out


@pytest.mark.parametrize(
    ("text", "proposed"),
    [("1 1:1\n-1 2:1\n", ""), ("1 1:1\n2 2:1\n3 2:1\n", ""), ("1 1:1\n1 2:1\n", None), ("1\n-1\n", None),
     *(("".join(f"{k}.5 1:1\n" for k in range(n)), " --loss epsilon-insensitive") for n in (101, 10_001))],
)  # fmt: skip
def test_split_proposes_what_can_be_done(tmp_path, run_in_process, succeeds, text, proposed):
    """Nothing for one class, or without features; what is proposed works."""
    rows, store, model = (tmp_path / name for name in ("rows.svm", "s.h5", "MODEL.h5"))
    rows.write_text(text)
    found = [line for line in succeeds("split", rows, store).err.splitlines() if line.startswith("next")]
    assert found == ([] if proposed is None else [f"next: blocksvm train {store} MODEL.h5{proposed}"])
    if proposed is not None:
        succeeds("train", store, model, *proposed.split())


def test_info_tells_of_all_that_is_new(rich, of_sets, succeeds):
    told = succeeds("info", rich, "--verify")
    assert "every checksum matches" in told.out
    for word in ("spam (", "without a label", "weight", "names"):
        assert word in told.out, told.out
    told = succeeds("info", of_sets).out
    assert "0,10" in told or "1,11" in told
