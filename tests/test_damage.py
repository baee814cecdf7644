"""Damaged, forged and hostile files: one sentence, no crash, no hang, no memory that was not promised."""

from __future__ import annotations

import json
import os
import random
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np
import pytest
from support.damage import judge
from training_cases import make_store, random_rows, run_in_process
from xxhash import xxh3_64_hexdigest

from blocksvm.cli.console import run
from blocksvm.errors import InputError
from blocksvm.info import main as info
from blocksvm.predict import main as predict
from blocksvm.sources.block import carve_block
from blocksvm.sources.store import codec
from blocksvm.sources.store.arrays import write_array
from blocksvm.sources.store.files import create_hdf5, write_text_attribute
from blocksvm.sources.store.reader import Store
from blocksvm.sources.store.schema import ROW
from blocksvm.sources.store.writer import StoreWriter
from blocksvm.split import main as split
from blocksvm.train import main as train

# ------------------------------------------------------------------------------------------------ Arrow and Parquet


def forged(path, old: np.ndarray, new: np.ndarray) -> None:
    """Replace bytes that a file has once."""
    data = path.read_bytes()
    assert data.count(old.tobytes()) == 1
    path.write_bytes(data.replace(old.tobytes(), new.tobytes()))


I4 = np.int32
ENDS = np.array([0, 3, 8, 12, 17], I4)  # of these words
WORDS = ["red", "green", "blue", "white"]


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("string", ENDS, np.array([0, 3, 8, 12, 1 << 30], I4)),
        ("string", ENDS, np.array([0, 3, 1 << 30, 12, 17], I4)),
        ("string", ENDS, np.array([-(1 << 30), 3, 8, 12, 17], I4)),
        ("dictionary", ENDS, np.array([0, 3, 8, 12, 1 << 30], I4)),
        ("dictionary", ENDS, np.array([0, 1 << 30, 8, 12, 17], I4)),
        ("dictionary", np.array([3, 1, 2, 0], I4), np.array([3, 1, 1 << 30, 0], I4)),
        ("dictionary", np.array([3, 1, 2, 0], I4), np.array([3, 1, -(1 << 30), 0], I4)),
        ("list", ENDS, np.array([0, 3, 1 << 30, 12, 17], I4)),
        ("list", np.array([0, 1, 3, 3, 4], I4), np.array([0, 1, 1 << 30, 3, 4], I4)),
        ("list", np.array([0, 1, 3, 3, 4], I4), np.array([0, 1, 3, 3, 1 << 30], I4)),
        ("map", np.array([0, 1, 3, 3, 4], I4), np.array([0, -(1 << 30), 3, 3, 4], I4)),
        ("view", np.array([0, 3], I4), np.array([7, 1 << 30], I4)),
    ],
)
def test_forged_addresses_in_arrow_files_are_refused(kind, old, new, tmp_path, capsys):
    pa = pytest.importorskip("pyarrow")
    column = {
        "string": lambda: pa.array(WORDS),
        "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([3, 1, 2, 0], pa.int32()), pa.array(WORDS)),
        "list": lambda: pa.ListArray.from_arrays(pa.array([0, 1, 3, 3, 4], pa.int32()), pa.array(WORDS)),
        "map": lambda: pa.MapArray.from_arrays(pa.array([0, 1, 3, 3, 4], pa.int32()), pa.array(WORDS), np.arange(4.0)),
        "view": lambda: pa.array([*WORDS[:3], "a word that is longer than it says"], pa.string_view()),
    }[kind]()
    table = pa.table({"label": [1, 0, 1, 0], "x": column})
    path = tmp_path / "x.arrow"
    with pa.ipc.new_file(str(path), table.schema) as file:
        file.write_table(table)
    arguments = (path, tmp_path / "s.h5", "--label", "label")
    assert run_in_process(capsys, split, *arguments)[0] == 0
    forged(path, old, new)
    code, _, err = run_in_process(capsys, split, *arguments, "--overwrite")
    assert code == 2 and f"{path}: cannot be read (" in err, err


# ------------------------------------------------------------------------------------------------ our own, forged


def renewed(path, change=None, **tables) -> None:
    """Change the description (``change(meta)``) or tables (``name=change(array)``) of a file of ours, and renew the
    checksums: what a hostile file would have."""
    with h5py.File(path, "r+") as file:
        meta = json.loads(file["meta"][()].tobytes())
        for name, changed in tables.items():
            array = file[name][()]
            changed(array)
            file[name][()] = array
        if "rows" in file and {"rows", "chunks"} & set(tables):
            rows, chunks = file["rows"][()], file["chunks"][()]
            first = chunks["first_row"].astype(int)
            for k, n in enumerate(chunks["n_rows"].tolist()):
                chunks["rows_checksum"][k] = codec.checksum(rows[first[k] : first[k] + n].tobytes())
            file["chunks"][()] = chunks
        for name in ("chunks", "parts"):
            if name in file:
                meta[f"{name}_checksum"] = codec.checksum(file[name][()].tobytes())
        if change is not None:
            change(meta)
        text = json.dumps(meta).encode()
        del file["meta"]
        file.create_dataset("meta", data=np.frombuffer(text, np.uint8))
        write_text_attribute(file, "meta_checksum", xxh3_64_hexdigest(text))


def rewritten(file, name: str, change) -> None:
    """Change an array of a model, and renew its checksums."""
    array = file[name][()]
    change(array)
    group, last = file[name].parent, name.rsplit("/", 1)[-1]
    del group[last], group[last + ".xxh3"]
    write_array(group, last, len(array), array.dtype, lambda start, stop: array[start:stop])


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """A folder with rows.svm, s.h5 of several chunks, m.h5, k.h5 of a machine with a kernel, c.h5, a checkpoint."""
    folder = tmp_path_factory.mktemp("ours")
    X, y = random_rows(n=120, d=25)
    make_store(folder, X, y, "s", chunk_nonzeros=64)
    s = str(folder / "s.h5")
    commands = [
        (train, s, str(folder / "m.h5"), "--schedule", "2"),
        (train, s, str(folder / "k.h5"), "--solver", "kernel", "--kernel", "rbf", "--max-outer", "2"),
        (train, s, str(folder / "n.h5"), "--schedule", "2", "--max-outer", "2", "--checkpoint", str(folder / "c.h5")),
    ]
    for main, *arguments in commands:
        with pytest.raises(SystemExit) as ended:
            run(main, [*arguments, "--quiet"])
        assert not ended.value.code
    return folder


def set_item(name, k, value):
    def change(array):
        array[name][k] = value

    return change


def swap_first(array):
    array["first_part"][:2], array["n_parts"][:2] = array["first_part"][1::-1], array["n_parts"][1::-1]


@pytest.mark.parametrize(
    ("tables", "change", "says"),
    [
        ({"rows": set_item("source", 3, 7)}, None, "two rows have one number in the source"),
        ({"rows": set_item("source", 3, 1 << 40)}, None, "a row's number is beyond the source"),
        ({"rows": set_item("length", 3, 1 << 31)}, None, "rows and nonzeros disagree"),
        ({"rows": set_item("sq_norm", 3, -1.0)}, None, "a row's norm is not a number"),
        ({"parts": set_item("indices_offset", 1, (1 << 64) - 10)}, None, "the file is truncated"),
        ({"parts": set_item("values_offset", 1, 1 << 63)}, None, "the file is truncated"),
        ({"parts": set_item("indices_size", 1, 10_000)}, None, "larger than what it holds"),
        ({"parts": set_item("indices_size", 0, 7)}, None, "checksum does not match"),
        ({"chunks": set_item("nnz", 1, (1 << 64) - 5)}, None, "contradicts the description"),
        ({"chunks": set_item("n_rows", 0, 0)}, None, "contradicts the description"),
        ({"chunks": set_item("n_rows", 0, 1 << 31)}, None, "contradicts the description"),
        ({"chunks": set_item("first_part", 1, 0)}, None, "contradicts the description"),
        ({"chunks": swap_first}, None, "contradicts the description"),
        ({}, lambda meta: meta.update(n_features=2), "does not have 2 elements"),
        ({}, lambda meta: meta.update(n_features=1 << 40), "does not have"),
        ({}, lambda meta: meta.update(n_samples=1 << 50), "of as many rows as it has"),
        ({}, lambda meta: meta.update(chunk_nonzeros=1 << 20), "does not have the parts"),
        ({}, lambda meta: meta["labels"][0].__setitem__(1, 1 << 40), "of as many rows as it has"),
        ({}, lambda meta: meta.update(source_rows=3), "more rows than its source"),
        ({}, lambda meta: meta.update(history=[{"fingerprint": "", "n_samples": 500, "n_dropped": 1}]), "its history"),
    ],
)
def test_forged_stores_are_refused(ours, tmp_path, capsys, tables, change, says):
    path = tmp_path / "s.h5"
    path.write_bytes((ours / "s.h5").read_bytes())
    renewed(path, change, **tables)
    code, _, err = run_in_process(capsys, predict, ours / "m.h5", path, tmp_path / "out.txt")
    assert code == 2 and str(path) in err and says in err, err
    assert not (tmp_path / "out.txt").exists()


def test_rows_whose_features_do_not_rise_are_refused(tmp_path):
    """Steps rely on each feature being in a row once."""
    for indices in ([0, 2, 2, 1], [2, 0, 1, 2]):
        path = tmp_path / "s.h5"
        with create_hdf5(path, "store") as file, ThreadPoolExecutor(1) as pool:
            writer = StoreWriter(file, 2, 4, np.float64, pool, 1)
            rows = np.zeros(2, ROW)
            rows["length"], rows["sq_norm"] = (3, 1), 1.0
            writer.append(rows, np.array(indices, np.int32), np.ones(4))
            meta = {"settings": {"order": "stored"}, "sources": [], "source_rows": 2}
            writer.finish(3, lambda start, stop: np.array([4, 7, 9]), meta)
        with Store(path) as store, pytest.raises(InputError, match="chunk 0: the features of a row do not rise"):
            store.verify()


def test_more_rows_than_a_block_can_have_are_one_sentence():
    with pytest.raises(InputError, match=r"a block of 2,147,483,648 rows is too many; lower memory"):
        carve_block(None, 1 << 31, 0, None, 1)


def test_a_forged_blosc_buffer_is_not_decoded():
    """Blosc believes what a buffer says of its length, and would read beyond its end."""
    raw = codec.encode(np.arange(1000, dtype=np.int32))
    out = np.empty(1000, np.int32)
    for wrong in (raw[:-100], raw[:16], raw[:12], b"", raw + b"more"):
        with pytest.raises(ValueError, match="compressed data"):
            codec.decode(wrong, out)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("features/ids", lambda ids: ids.__setitem__(2, ids[1]), "below 0 or there twice"),
        ("features/ids", lambda ids: ids.__setitem__(2, -3), "below 0 or there twice"),
        ("weights", lambda w: w.__setitem__(2, np.nan), "a weight is not a number"),
        ("support/indices", lambda i: i.__setitem__(2, 10_000), "support vectors contradict"),
        ("support/indices", lambda i: i.__setitem__(2, -1), "support vectors contradict"),
        ("support/indptr", lambda i: i.__setitem__(1, 1 << 40), "support vectors contradict"),
    ],
)
def test_forged_models_are_refused(ours, tmp_path, capsys, name, change, says):
    path = tmp_path / "m.h5"
    path.write_bytes((ours / ("k.h5" if name.startswith("support") else "m.h5")).read_bytes())
    with h5py.File(path, "r+") as file:
        rewritten(file, name, change)
    for rows in ("s.h5", "s.svm"):
        code, _, err = run_in_process(capsys, predict, path, ours / rows)
        assert code == 2 and str(path) in err and says in err, err


def test_links_in_our_files_are_not_followed(ours, tmp_path, capsys):
    """To a pipe nobody writes to, opening which would wait for ever; and to the group itself."""
    os.mkfifo(tmp_path / "pipe")
    for kept, names in (("m.h5", ("features", "weights", "state", "meta")), ("s.h5", ("features", "rows", "lines"))):
        for name in names:
            path = tmp_path / kept
            path.write_bytes((ours / kept).read_bytes())
            with h5py.File(path, "r+") as file:
                del file[name]
                file[name] = h5py.ExternalLink(str(tmp_path / "pipe"), "/x")
            code, _, err = run_in_process(capsys, info, path, "--verify")
            assert code == 2 and f"{name} is a link to somewhere else" in err, err
    path.write_bytes((ours / "m.h5").read_bytes())
    with h5py.File(path, "r+") as file:
        file["state"]["again"] = file["state"]
    code, _, err = run_in_process(capsys, info, path, "--verify")
    assert code == 2 and "too deep" in err, err


def leaves(value, path=()):
    """Where every number, text and list of a description stands."""
    if isinstance(value, dict):
        for key in value:
            yield from leaves(value[key], (*path, key))
    yield path


def reforged(path, seed: int) -> str:
    """Put something else in one place of the description, and renew its checksum; returns what was done."""
    draw = random.Random(seed)
    others = (-1, 0, 1, 3, 1 << 40, 1e308, -0.5, "x", "\x1b[31m", None, [], [1, 2], {}, {"x": 1}, True)
    told = []

    def change(meta):
        *before, last = draw.choice([place for place in leaves(meta) if place])
        inner = meta
        for key in before:
            inner = inner[key]
        inner[last] = draw.choice(others)
        told.append(f"{before} {last} = {inner[last]!r}")

    renewed(path, change)
    return told[0]


def commands_on(kind: str, folder, path):
    """The commands that a file of ours is given to."""
    out = folder / "out.txt"
    scores = ("--scores", "--overwrite", "--quiet")
    return {
        "store": [
            (info, path, "--verify"),
            (predict, folder / "m.h5", path, out, *scores),
            (train, path, folder / "new.h5", "--max-outer", "2", "--overwrite", "--quiet"),
        ],
        "model": [
            (info, path, "--verify", "--top", "3"),
            (predict, path, folder / "s.h5", out, *scores),
            (predict, path, folder / "s.svm", out, *scores),
            (train, folder / "s.h5", folder / "new.h5", "--warm-start", path, "-C", "2", "--overwrite", "--quiet"),
        ],
        "kernel": [
            (info, path, "--verify"),
            (predict, path, folder / "s.h5", out, *scores),
            (predict, path, folder / "s.svm", out, *scores),
        ],
        "checkpoint": [
            (info, path, "--verify"),
            (train, folder / "s.h5", folder / "new.h5", "--schedule", "2", "--max-outer", "4", "--checkpoint", path)
            + ("--resume", "--overwrite", "--quiet"),
        ],
    }[kind]


FILES = {"store": "s.h5", "model": "m.h5", "kernel": "k.h5", "checkpoint": "c.h5"}


def ran(command) -> bytes:
    """Run a command, in ``judge``."""
    main, *arguments = command
    try:
        run(main, [str(argument) for argument in arguments])
    except SystemExit as ended:
        if ended.code:
            raise
    return b""


@pytest.mark.parametrize("kind", FILES)
def test_forged_descriptions_are_refused_or_harmless(ours, tmp_path, kind):
    """Some of what the campaign does, see tools and experiments/results/reliability.md."""
    path = tmp_path / FILES[kind]
    for seed in range(12):
        path.write_bytes((ours / FILES[kind]).read_bytes())
        told = reforged(path, seed)
        for command in commands_on(kind, ours, path):
            verdict = judge(lambda command=command: ran(command), None)
            assert verdict.held, (told, command, verdict)
