"""Text to store and back: what a split writes, that nothing but the settings decides it, what it leaves behind."""

import gzip
import io
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, namedtuple
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import parse_svmlight
from support.stored_rows import in_source_order, read_with_h5py
from xxhash import xxh3_128_hexdigest

from blocksvm.base.errors import InputError
from blocksvm.conversion import convert, destination, feature_ids
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.conversion.destination import Spool
from blocksvm.conversion.feature_ids import IdTable
from blocksvm.store.descriptions import as_json
from blocksvm.store.reader import Store
from blocksvm.store.writer import StoreWriter

SMALL = 16_000_000


def make(folder: Path, text: bytes, name: str = "store.h5", holdout_store=None, **options) -> tuple[Path, dict]:
    (folder / "rows.svm").write_bytes(text)
    path = folder / name
    meta = split_rows([str(folder / "rows.svm")], path, SplitSettings(overwrite=True, **options), holdout_store)
    return path, as_json(meta)


def earlier_store(path: Path) -> bytes:
    """A store that was there before; gives its bytes."""
    text = path.with_name("earlier.svm")
    text.write_text("1 1:1\n-1 2:1\n")
    split_rows([str(text)], path)
    text.unlink()
    return path.read_bytes()


def random_text(n_rows: int, entries: int, n_features: int, seed: int = 0) -> bytes:
    draw = random.Random(seed)
    rows = []
    for i in range(n_rows):
        ids = {int(n_features * draw.random() ** 2) for _ in range(draw.randrange(2 * entries))}
        rows.append(f"{draw.choice('01')} " + " ".join(f"{j}:{draw.random():.4g}" for j in sorted(ids)) + f" #{i}\n")
    return "".join(rows).encode()


ids = st.one_of(st.integers(0, 12), st.integers(0, 2**63 - 1))
numbers = st.one_of(st.sampled_from([1.0, 0.0, -1.0, 2.5]), st.floats(-3e38, 3e38, allow_nan=False))
row = st.tuples(st.sampled_from(["1", "-1", "0", "7.25", "-1e300"]), st.dictionaries(ids, numbers, max_size=9))
rows = st.lists(row, min_size=1, max_size=25)


@pytest.mark.slow
@given(rows, st.sampled_from(["float32", "float64"]), st.booleans(), st.integers(1, 12), st.integers(1, 3),
       st.integers(0, 2**63 - 1))  # fmt: skip
def test_a_store_holds_the_rows_of_the_text(tmp_path, rows, dtype, keep_order, chunk_nonzeros, min_count, seed):
    text = "".join(f"{label} " + " ".join(f"{i}:{v!r}" for i, v in row.items()) + "\n" for label, row in rows).encode()
    options = {"dtype": dtype, "keep_order": keep_order, "min_count": min_count, "seed": seed}
    expected = parse_svmlight(text, dtype=dtype)
    counts = Counter(i for _, row_ids, _ in expected for i in row_ids)
    kept = [i for i in counts if counts[i] >= min_count]
    if counts and not kept:
        with pytest.raises(InputError, match="occurs in so many rows; lower it"):
            make(tmp_path, text, name="none.h5", **options)
        return
    path, meta = make(tmp_path, text, chunk_nonzeros=chunk_nonzeros, **options)
    if min_count > 1:
        expected = [
            (label, [i for i in row_ids if i in kept], [v for i, v in zip(row_ids, values, strict=True) if i in kept])
            for label, row_ids, values in expected
        ]
    stored, feature_ids = read_with_h5py(path)
    assert sorted(row.source for row in stored) == list(range(len(rows)))
    assert in_source_order(path) == expected
    if keep_order:
        assert [row.source for row in stored] == list(range(len(rows)))
    # features by falling frequency, where that is equal in the order of the text (and of the ids in a row)
    assert feature_ids.tolist() == sorted(kept, key=lambda i: -counts[i])
    for row in stored:
        assert row.sq_norm == pytest.approx(math.fsum(v * v for v in row.values), rel=1e-14)
    assert meta["max_norm"] == pytest.approx(math.sqrt(max(row.sq_norm for row in stored)), rel=1e-14)
    assert meta["n_samples"] == len(rows)
    assert meta["n_features"] == len(kept)
    assert meta["n_nonzeros"] == sum(len(row.ids) for row in stored)
    assert meta["labels"] == sorted(Counter(label for label, _, _ in expected).items())
    ones = all(v == 1.0 for _, _, values in parse_svmlight(text, dtype=dtype) for v in values)
    with h5py.File(path) as file:
        assert meta["values"] == ("ones" if ones else dtype)
        chunks = file["chunks"][()]
        assert file["words"].dtype == np.uint64 and file["words"].chunks == (meta["part_words"],)
        # the first chunk has at most chunk_nonzeros entries, and no other more words than a part has; unless it is one
        # row that is longer
        assert chunks["nnz"][0] <= chunk_nonzeros or chunks["n_rows"][0] == 1
        assert ((chunks["words"] <= meta["part_words"]) | (chunks["n_rows"] == 1)).all()
        assert (chunks["n_rows"] <= chunk_nonzeros).all()
    with Store(path) as store:
        store.verify()


def test_the_order_is_random_and_is_the_seeds(tmp_path):
    text = b"".join(b"%d %d:1\n" % (i % 2, i) for i in range(2000))
    orders = []
    for seed in (0, 1, 0):
        path, _ = make(tmp_path, text, seed=seed)
        orders.append([row.source for row in read_with_h5py(path)[0]])
    assert orders[0] == orders[2] != orders[1]
    for order in orders[:2]:
        assert sorted(order) == list(range(2000)) != order
        # no trace of the text's order is left: the correlation of 2,000 places has a deviation of 0.022
        assert abs(np.corrcoef(order, np.arange(2000))[0, 1]) < 0.1


def test_sources_and_settings_are_described(tmp_path):
    first, second = b"1 1:1\n-1 2:2\n", b"# nothing\n1 1:3"
    (tmp_path / "a.svm").write_bytes(first)
    (tmp_path / "b.svm.gz").write_bytes(gzip.compress(second))
    names = [str(tmp_path / "a.svm"), str(tmp_path / "b.svm.gz")]
    meta = as_json(split_rows(names, tmp_path / "s.h5", SplitSettings(seed=5, duplicates="sum", keep_order=True)))
    assert in_source_order(tmp_path / "s.h5") == [(1.0, [1], [1.0]), (-1.0, [2], [2.0]), (1.0, [1], [3.0])]
    assert meta["source_rows"] == 3
    stored_bytes = (tmp_path / "b.svm.gz").stat().st_size
    expected = [(names[0], len(first), first, 0), (names[1], stored_bytes, second, 2)]
    keys = ("name", "bytes", "text_bytes", "fingerprint", "first_row")
    assert meta["sources"] == [
        dict(zip(keys, (name, size, len(text), xxh3_128_hexdigest(text), number), strict=True))
        for name, size, text, number in expected
    ]
    others = {"normalize": "none", "min_count": 1, "holdout": 0.0, "dtype": "float32", "weights": None}
    others |= {"idf": "none", "scale": "none", "top_features": None}
    assert meta["settings"] == {"seed": 5, "order": "stored", "duplicates": "sum"} | others


def test_a_fingerprint_is_of_the_content(tmp_path):
    prints = [
        make(tmp_path, text)[1]["fingerprint"] for text in (b"1 1:2\n", b"1  1:2.0 # x\n", b"1 1:3\n", b"1 2:2\n")
    ]
    prints.append(make(tmp_path, b"0 1:2\n")[1]["fingerprint"])
    assert prints[0] == prints[1]
    assert len(set(prints)) == 4


def test_standard_input(tmp_path, monkeypatch):
    text = random_text(300, 5, 40)
    plain, _ = make(tmp_path, text)
    for data in (text, gzip.compress(text)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        meta = as_json(split_rows(["-"], tmp_path / "s.h5", SplitSettings(overwrite=True)))
        assert meta["sources"][0]["name"] == "standard input"
        assert read_with_h5py(tmp_path / "s.h5")[0] == read_with_h5py(plain)[0]
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="standard input: is closed"):
        split_rows(["-"], tmp_path / "s.h5", SplitSettings(overwrite=True))


def test_l2_rows_have_norm_one_before_features_are_dropped(tmp_path):
    path, meta = make(tmp_path, b"1 1:3 2:4\n-1 1:5\n0 7:0\n", normalize="l2")
    assert in_source_order(path) == [(1.0, [1, 2], [float(np.float32(0.6)), float(np.float32(0.8))]),
                                     (-1.0, [1], [1.0]), (0.0, [], [])]  # fmt: skip
    assert meta["max_norm"] == pytest.approx(1.0, rel=1e-6)
    path, _ = make(tmp_path, b"1 1:3 2:4\n-1 1:5\n", normalize="l2", min_count=2)
    assert in_source_order(path) == [(1.0, [1], [float(np.float32(0.6))]), (-1.0, [1], [1.0])]


@pytest.fixture(scope="module")
def long_text(tmp_path_factory) -> Path:
    """About 16 MB of text: more than a budget of 16 MB holds in its shuffle."""
    path = tmp_path_factory.mktemp("long") / "rows.svm"
    path.write_bytes(random_text(160_000, 8, 5_000))
    return path


@pytest.fixture
def spills(monkeypatch) -> list[int]:
    """The bytes of each spill to disk, as they happen."""
    seen, spill = [], Spool._spill
    monkeypatch.setattr(Spool, "_spill", lambda spool: seen.append(spool.held_bytes) or spill(spool))
    return seen


@pytest.fixture
def depths(monkeypatch) -> list[int]:
    """How often the rows of each spool that is put in order were distributed before."""
    seen, in_order = [], destination.in_key_order
    watched = lambda spool, layout: seen.append(spool.skipped) or in_order(spool, layout)  # noqa: E731
    monkeypatch.setattr(destination, "in_key_order", watched)
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("keep_order", [False, True])
def test_stores_are_equal_for_any_jobs_and_memory(tmp_path, long_text, spills, depths, monkeypatch, keep_order):
    path = tmp_path / "s.h5"

    def stored(**options) -> bytes:
        split_rows([str(long_text)], path, SplitSettings(overwrite=True, keep_order=keep_order, seed=3, **options))
        return path.read_bytes()

    expected = stored(memory=1_000_000_000, n_jobs=1)
    assert not spills
    with h5py.File(path) as file:
        assert file["rows"]["label"].size == 160_000
    for jobs, memory in ((2, 1_000_000_000), (1, SMALL), (3, SMALL), (2, 60_000_000)):
        del spills[:]
        assert stored(memory=memory, n_jobs=jobs) == expected
        assert bool(spills) == (memory == SMALL)
    # too few buckets for what comes: those that do not fit in memory are distributed again
    del depths[:]
    monkeypatch.setattr(convert._Split, "_bits", lambda self, expected: 0 if keep_order else 1)
    assert stored(memory=SMALL, n_jobs=2) == expected
    assert depths == ([] if keep_order else [0, 1, 1])


@pytest.mark.slow
@pytest.mark.parametrize("bits", [0, 2])
def test_deep_redistribution_keeps_rows_and_order(tmp_path, long_text, depths, monkeypatch, bits):
    """Several levels of redistribution, most of them on disk; of values of 1, which are not kept, too."""
    lines = long_text.read_bytes().splitlines(keepends=True)[:3000]
    text = b"".join(re.sub(rb":\S+", b":1", line) if k < 1500 else line for k, line in enumerate(lines))
    how = {"memory": SMALL, "dtype": "float64" if bits else "float32"}
    if bits:
        (tmp_path / "weights.txt").write_text("".join(f"{k % 5 + 0.5}\n" for k in range(len(lines))))
        how["weights"] = str(tmp_path / "weights.txt")
    expected, _ = make(tmp_path, text, name="expected.h5", **how)
    del depths[:]
    start = convert._Split.__init__

    def starved(self, *arguments):
        start(self, *arguments)
        self.shares = self.shares._replace(bucket=300, spool=20_000)

    monkeypatch.setattr(convert._Split, "__init__", starved)
    monkeypatch.setattr(convert._Split, "_bits", lambda self, expected: bits)
    path, _ = make(tmp_path, text, **how)
    assert len(set(depths)) >= 3
    assert path.read_bytes() == expected.read_bytes()


@pytest.mark.slow
def test_held_out_rows_are_the_others(tmp_path):
    text = random_text(20_000, 5, 20_000)
    make(tmp_path, text, name="s.h5", holdout_store=tmp_path / "h.h5", memory=SMALL, holdout=0.2, seed=1, min_count=3)
    kept, kept_ids = read_with_h5py(tmp_path / "s.h5")
    held, _ = read_with_h5py(tmp_path / "h.h5")
    expected = parse_svmlight(text, dtype=np.float32)
    assert sorted(row.source for row in kept + held) == list(range(20_000))
    assert abs(len(held) / 20_000 - 0.2) < 0.017  # six deviations
    assert abs(np.mean([row.source for row in held]) - 10_000) < 600  # likewise: they are from all over the text
    # features are dropped by their count in the training rows; held-out rows keep all of theirs
    assert all(row.triple() == expected[row.source] for row in held)
    counts = Counter(i for row in kept for i in expected[row.source][1])
    known = set(kept_ids.tolist())
    assert known == {i for i in counts if counts[i] >= 3} != set(counts)
    assert all(row.ids == [i for i in expected[row.source][1] if i in known] for row in kept)


def test_what_cannot_be_is_told(tmp_path):
    text, ids = b"1 1:1\n-1 2:1\n", b"".join(b"1 %d:1 %d:1\n" % (7 * i, 7 * i + 1) for i in range(400_000))
    held = {"holdout_store": tmp_path / "h.h5"}
    for data, options, says in (
        (text, held | {"holdout": 1e-9}, "no row was drawn for the held-out store"),
        (text, held | {"holdout": 1 - 1e-9}, "no row was drawn for the store"),
        (text, {"memory": SMALL, "n_jobs": 200}, "too small for 200 threads"),
        (ids, {"memory": SMALL}, r"distinct feature ids holds [\d,]+ ids, and more would need .* raise"),
    ):
        with pytest.raises(InputError, match=says):
            make(tmp_path, data, **options)
        assert [path.name for path in tmp_path.iterdir()] == ["rows.svm"]


@pytest.mark.parametrize(
    "options", [{}, {"min_count": 3, "holdout": 0.3}, {"idf": "smooth"}, {"scale": "max-abs", "holdout": 0.3}]
)
@pytest.mark.parametrize("later", [b"", b"1 3:1 5000000000:1\n"])
def test_small_ids_make_the_store_that_a_hash_table_makes(tmp_path, monkeypatch, options, later):
    """Also where a later row has a large one, and where the rows of another file are added."""
    text, held_out = random_text(3000, 20, 4_000), tmp_path / "h.h5" if "holdout" in options else None
    (tmp_path / "more.svm").write_bytes(random_text(500, 20, 9_000, seed=1) + later)

    def stores() -> list[bytes]:
        path, _ = make(tmp_path, text + later, holdout_store=held_out, memory=SMALL, **options)
        first = [name.read_bytes() for name in (path, held_out) if name is not None]
        convert.extend([str(tmp_path / "more.svm")], path)
        return [*first, path.read_bytes()]

    as_slots = stores()
    monkeypatch.setattr(feature_ids, "MOST_SMALL", 0)
    assert stores() == as_slots


def test_features_are_ranked_by_any_count():
    """Counts from 65,535 on are sorted in another way than those below."""
    counts = {5: 65_534, 9: 65_535, 2: 70_000, 7: 1, 4: 70_001, 3: 70_000, 8: 1, 1: 65_535, 6: 65_536}
    table = IdTable(10**6)
    table.add(np.array(list(counts)))
    table.add(np.concatenate([np.full(n - 1, i) for i, n in counts.items()]))
    order, new_index = table.ranking(2)
    assert table.known[order].tolist() == sorted([i for i in counts if counts[i] > 1], key=lambda i: -counts[i])
    assert new_index[order].tolist() == list(range(7))
    assert sorted(new_index.tolist()) == [-1, -1, *range(7)]


@pytest.mark.slow
def test_a_full_disk_is_told_before_and_while_it_is_written(tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    (tmp_path / "rows.svm").write_bytes(random_text(160_000, 8, 5_000))
    temp = tmp_path / "temp"
    temp.mkdir()
    settings = SplitSettings(memory=SMALL, temp=temp)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage(10**9, 0, 10**6))
    with pytest.raises(InputError, match="1 MB free, but the split needs"):
        split_rows([str(tmp_path / "rows.svm")], tmp_path / "s.h5", settings)
    calls = []

    def shrinking(folder):
        calls.append(folder)
        return usage(10**9, 0, 10**9 if len(calls) <= 2 else 10**6)

    monkeypatch.setattr(shutil, "disk_usage", shrinking)
    with pytest.raises(InputError, match="the external shuffle needs .* temp"):
        split_rows([str(tmp_path / "rows.svm")], tmp_path / "s.h5", settings)
    assert calls[2] == temp
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["rows.svm", "temp"]


@pytest.mark.parametrize(
    ("where", "error"),
    [((StoreWriter, "finish"), KeyboardInterrupt), ((StoreWriter, "append"), OSError), ((Spool, "add"), MemoryError)],
)
def test_nothing_is_left_behind(tmp_path, monkeypatch, where, error):
    path = tmp_path / "s.h5"
    before = earlier_store(path)
    calls = []
    original = getattr(*where)

    def fails_at_last(self, *arguments):
        calls.append(self)
        if len(calls) == 2:  # a first store may be done, the second is not
            raise error
        return original(self, *arguments)

    monkeypatch.setattr(*where, fails_at_last)
    (tmp_path / "rows.svm").write_bytes(random_text(2000, 8, 500))
    options = SplitSettings(holdout=0.5, overwrite=True)
    with pytest.raises(error):
        split_rows([str(tmp_path / "rows.svm")], path, options, tmp_path / "held.h5")
    assert len(calls) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["rows.svm", "s.h5"]
    assert path.read_bytes() == before


@pytest.mark.slow
def test_the_shuffle_lies_in_temp(tmp_path, long_text, spills, monkeypatch):
    temp = tmp_path / "temp"
    temp.mkdir()
    folders, made = set(), tempfile.TemporaryFile
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda dir: folders.add(dir) or made(dir=dir))
    split_rows([str(long_text)], tmp_path / "s.h5", SplitSettings(memory=SMALL, temp=temp))
    assert spills
    assert folders == {temp}
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["s.h5", "temp"]
    with pytest.raises(InputError, match="no such folder; temp names"):
        split_rows([str(long_text)], tmp_path / "t.h5", SplitSettings(temp=tmp_path / "nowhere"))


def open_files(process: subprocess.Popen, folder: Path) -> list[str]:
    """Those of a process that lie, or lay, in the folder."""
    links = Path(f"/proc/{process.pid}/fd").iterdir()
    return [name for link in links if link.is_symlink() and (name := os.readlink(link)).startswith(str(folder))]


@pytest.mark.process
@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="only Linux tells a process' files")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_signals_leave_nothing_behind(tmp_path, long_text, number):
    """While it shuffles; of a killed run an empty output is left, which goes with the next one."""
    temp, store = tmp_path / "temp", tmp_path / "s.h5"
    temp.mkdir()
    before = earlier_store(store)
    arguments = ["-", str(store), "--memory", "16MB", "--temp", str(temp), "--overwrite", "--threads", "1"]
    process = subprocess.Popen([sys.executable, "-m", "blocksvm.split", *arguments], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
    try:
        process.stdin.write(long_text.read_bytes())
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not open_files(process, temp):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(number)
        # the input stays open: the command must not wait for its end
        assert process.wait(timeout=30) == (130 if number != signal.SIGKILL else -number)
        errors = process.stderr.read().decode()
        assert errors.rstrip().endswith("blocksvm split: interrupted") or number == signal.SIGKILL
        assert "Traceback" not in errors
    finally:
        process.kill()
        process.communicate()
    assert store.read_bytes() == before
    if number == signal.SIGKILL:
        assert {path.name for path in tmp_path.rglob("*")} == {"s.h5", ".s.h5.partial", "temp"}
        (tmp_path / ".s.h5.partial").write_text("half" * 10_000)
        store.unlink()
        assert earlier_store(store) == before
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["s.h5", "temp"]


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "most", "options", "told"),
    [(lambda: random_text(20_000, 10, 5_000), 200_000, "", r"split: error: FOLDER/s\.h5: file too large; no file may "
      r"be so large there; choose another location, or raise the limit \(ulimit -f\)"),
     (lambda: (b"1 " + b" ".join(b"%d:1.5" % j for j in range(40)) + b"\n") * 60_000, 100_000,
      "--memory 40MB --threads 1", r"(split|run): error: FOLDER/\S+: file too large; .*\(ulimit -f\)")],
    ids=["store", "shuffle"],
)  # fmt: skip
def test_a_disk_that_fills_up_is_named(tmp_path, text, most, options, told):
    """HDF5 tells it in several lines and fails once more on closing; a limit on file sizes stands in for the disk."""
    make(tmp_path, text())[0].unlink()  # what is not compiled yet is
    code = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}));"
        "from blocksvm.cli import console; from blocksvm.split import main; console.run(main)"
    )
    line = [sys.executable, "-c", code, tmp_path / "rows.svm", tmp_path / "s.h5", *options.split()]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert re.fullmatch(f"blocksvm {told.replace('FOLDER', str(tmp_path))}", done.stderr.splitlines()[-1])
    assert [path.name for path in tmp_path.iterdir()] == ["rows.svm"]


def test_the_command_and_its_options(tmp_path, succeeds):
    text = b"1 1:3 2:4 2:0\n-1 1:5\n" * 100
    (tmp_path / "rows.svm").write_bytes(text)
    store, held = tmp_path / "s.h5", tmp_path / "h.h5"
    arguments = [tmp_path / "rows.svm", store,
                 *["--memory", "64MB", "--threads", "2", "--seed", "9", "--dtype", "float64"]]  # fmt: skip
    arguments += ["--duplicates", "sum", "--normalize", "l2", "--min-count", "2", "--holdout", "0.3", held]
    done = succeeds("split", *arguments, "--temp", tmp_path)
    assert f"{store}: " in done.out
    assert f"held-out rows in {held}" in done.out
    options = SplitSettings(seed=9, dtype="float64", duplicates="sum", normalize="l2", min_count=2, holdout=0.3)
    split_rows([str(tmp_path / "rows.svm")], tmp_path / "s2.h5", options, tmp_path / "h2.h5")
    assert store.read_bytes() == (tmp_path / "s2.h5").read_bytes()
    assert held.read_bytes() == (tmp_path / "h2.h5").read_bytes()
    assert succeeds("split", *arguments, "--overwrite", "--quiet").err == ""
    succeeds("split", tmp_path / "rows.svm", store, "--keep-order", "--overwrite", "--duplicates", "sum")
    assert [row.source for row in read_with_h5py(store)[0]] == list(range(200))


def test_info_tells_what_a_store_holds(tmp_path, succeeds):
    path, meta = make(tmp_path, b"1 1:3 2:4\n-1 1:5\n")
    told = succeeds("info", path, "--json")
    file = {"kind": "store", "format_version": 4, "bytes": path.stat().st_size}
    assert json.loads(told.out) == file | json.loads(json.dumps(meta))
    told = succeeds("info", path, "--verify")
    assert "2 (shuffled order)" in told.out
    assert "-1 (1 row), 1 (1 row)" in told.out
    assert "every checksum matches" in told.out
    assert os.fspath(tmp_path / "rows.svm") in told.out
