"""Damaged, forged and hostile files: one sentence, no crash, no hang, no memory that was not promised."""

import json
import os
import re
import shutil
import tracemalloc
import zipfile
from contextlib import nullcontext
from pathlib import Path

import h5py
import msgspec
import numpy as np
import pyarrow as pa
import pytest
from support.file_cases import prepare, rewrite_meta
from support.h5ad import write_h5ad
from support.training_cases import random_rows
from xxhash import xxh3_64_hexdigest

from blocksvm import load_model
from blocksvm.base.errors import InputError
from blocksvm.model.solver_state import describe_checkpoint
from blocksvm.sources.block import Shape
from blocksvm.store import codec
from blocksvm.store.arrays import write_array
from blocksvm.store.descriptions import SCHEMAS, parse
from blocksvm.store.hdf5_files import damage_named, write_text_attribute
from blocksvm.store.reader import Store, check_ids, open_store

I4 = np.int32
ENDS = np.array([0, 3, 8, 12, 17], I4)  # of these words
WORDS = ["red", "green", "blue", "white"]


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [("string", ENDS, np.array([0, 3, 8, 12, 1 << 30], I4)),
     ("string", ENDS, np.array([-(1 << 30), 3, 8, 12, 17], I4)),
     ("large", ENDS.astype(np.int64), np.array([0, 3, 1 << 60, 12, 17])),
     ("dictionary", ENDS, np.array([0, 1 << 30, 8, 12, 17], I4)),
     ("dictionary", np.array([3, 1, 2, 0], I4), np.array([3, 1, 4, 0], I4)),
     ("dictionary", np.array([3, 1, 2, 0], I4), np.array([3, 1, -1, 0], I4)),
     ("list", ENDS, np.array([0, 3, 1 << 30, 12, 17], I4)),
     ("list", np.array([0, 1, 3, 3, 4], I4), np.array([0, 1, 1 << 30, 3, 4], I4)),
     ("list", np.array([0, 1, 3, 3, 4], I4), np.array([0, 1, 3, 3, 1 << 30], I4)),
     ("map", np.array([0, 1, 3, 3, 4], I4), np.array([0, -(1 << 30), 3, 3, 4], I4)),
     ("view", np.array([0, 3], I4), np.array([7, 1 << 30], I4))],
)  # fmt: skip
def test_forged_addresses_in_arrow_files_are_refused(kind, old, new, tmp_path, succeeds, refusal):
    column = {
        "string": lambda: pa.array(WORDS),
        "large": lambda: pa.array(WORDS, pa.large_string()),
        "dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([3, 1, 2, 0], pa.int32()), pa.array(WORDS)),
        "list": lambda: pa.ListArray.from_arrays(pa.array([0, 1, 3, 3, 4], pa.int32()), pa.array(WORDS)),
        "map": lambda: pa.MapArray.from_arrays(pa.array([0, 1, 3, 3, 4], pa.int32()), pa.array(WORDS), np.arange(4.0)),
        "view": lambda: pa.array([*WORDS[:3], "a word that is longer than it says"], pa.string_view()),
    }[kind]()
    table = pa.table({"label": [1, 0, 1, 0], "x": column})
    path = tmp_path / "x.arrow"
    with pa.ipc.new_file(str(path), table.schema) as file:
        file.write_table(table)
    arguments = (path, tmp_path / "s.h5", "--label", "label", "--overwrite")
    succeeds("split", *arguments)
    data = path.read_bytes()
    assert data.count(old.tobytes()) == 1
    path.write_bytes(data.replace(old.tobytes(), new.tobytes()))
    assert f"{path}: cannot be read (" in refusal("split", *arguments)


def renewed(path, change=None, **tables) -> None:
    """Change a file's description (``change(meta)``) or tables (``name=change(array)``), and renew the checksums."""
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
    """Change an array of a model."""
    array = file[name][()]
    change(array)
    group, last = file[name].parent, name.rsplit("/", 1)[-1]
    del group[last]
    write_array(group, last, array)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    """A folder with what ``prepare`` writes: an example of each kind of file."""
    folder = tmp_path_factory.mktemp("ours")
    prepare(folder)
    return folder


def set_item(name, k, value):
    def change(array):
        array[name][k] = value

    return change


def swap_first(array):
    array["first_part"][:2], array["n_parts"][:2] = array["first_part"][1::-1], array["n_parts"][1::-1]


@pytest.mark.parametrize(
    ("tables", "change", "says"),
    [({"rows": set_item("source", 3, 7)}, None, "two rows have one number in the source"),
     ({"rows": set_item("source", 3, 1 << 40)}, None, "a row's number is beyond the source"),
     ({"rows": set_item("sq_norm", 3, -1.0)}, None, "a row's norm is not a number"),
     ({"parts": set_item("offset", 1, (1 << 64) - 10)}, None, "the file is truncated"),
     ({"parts": set_item("offset", 1, 1 << 63)}, None, "the file is truncated"),
     ({"parts": set_item("size", 1, 10_000)}, None, "larger than what it holds"),
     ({"parts": set_item("size", 0, 7)}, None, "checksum does not match"),
     ({"chunks": set_item("nnz", 1, (1 << 64) - 5)}, None, "contradicts the description"),
     ({"chunks": set_item("words", 1, (1 << 64) - 5)}, None, "contradicts the description"),
     ({"chunks": set_item("words", 1, 1)}, None, "contradicts the description"),
     ({"chunks": set_item("n_rows", 0, 0)}, None, "contradicts the description"),
     ({"chunks": set_item("n_rows", 0, 1 << 31)}, None, "contradicts the description"),
     ({"chunks": set_item("first_part", 1, 0)}, None, "contradicts the description"),
     ({"chunks": swap_first}, None, "contradicts the description"),
     ({}, lambda meta: meta.update(n_features=2), "does not have 2 elements"),
     ({}, lambda meta: meta.update(n_features=1 << 40), "does not have"),
     ({}, lambda meta: meta.update(n_samples=1 << 50), "of as many rows as it has"),
     ({}, lambda meta: meta.update(part_words=1 << 20), "does not have the parts"),
     ({}, lambda meta: meta["labels"][0].__setitem__(1, 1 << 40), "of as many rows as it has"),
     ({}, lambda meta: meta.update(source_rows=3), "more rows than its source"),
     ({}, lambda meta: meta.update(history=[{"fingerprint": "", "n_samples": 501}]), "its history")],
)  # fmt: skip
def test_forged_stores_are_refused(ours, tmp_path, refusal, tables, change, says):
    path = tmp_path / "s.h5"
    path.write_bytes((ours / "s.h5").read_bytes())
    renewed(path, change, **tables)
    told = refusal("predict", ours / "m.h5", path, tmp_path / "out.txt")
    assert str(path) in told and says in told
    assert not (tmp_path / "out.txt").exists()


def test_more_rows_than_a_block_can_have_are_one_sentence():
    with pytest.raises(InputError, match=r"a block of 2,147,483,648 rows is too many; lower memory"):
        Shape().new_block(None, 1 << 31, 0, 1)


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [("features/ids", lambda ids: ids.__setitem__(2, ids[1]), "below 0 or there twice"),
     ("features/ids", lambda ids: ids.__setitem__(2, -3), "below 0 or there twice"),
     ("weights", lambda w: w.__setitem__(2, np.nan), "a weight is not a number"),
     ("sparse/features", lambda i: i.__setitem__(2, 10_000), "sparse weights contradict"),
     ("sparse/features", lambda i: i.__setitem__(2, -1), "sparse weights contradict"),
     ("sparse/values", lambda w: w.__setitem__(2, np.inf), "sparse weights contradict"),
     ("sparse/ends", lambda ends: ends.__setitem__(0, ends[1] + 1), "sparse weights contradict"),
     ("sparse/ends", lambda ends: ends.__setitem__(3, 1 << 40), "sparse weights contradict"),
     ("support/indices", lambda i: i.__setitem__(2, 10_000), "support vectors contradict"),
     ("support/indices", lambda i: i.__setitem__(2, -1), "support vectors contradict"),
     ("support/indptr", lambda i: i.__setitem__(1, 1 << 40), "support vectors contradict")],
)  # fmt: skip
def test_forged_models_are_refused(ours, tmp_path, refusal, name, change, says):
    path = tmp_path / "m.h5"
    path.write_bytes((ours / {"support": "k.h5", "sparse": "kept.h5"}.get(name.partition("/")[0], "m.h5")).read_bytes())
    with h5py.File(path, "r+") as file:
        rewritten(file, name, change)
    for rows in ("s.h5", "s.svm"):
        told = refusal("predict", path, ours / rows)
        assert str(path) in told and says in told


def test_two_features_of_a_store_with_one_id_are_found(ours, tmp_path, run_in_process):
    """However many ids are compared at once."""
    path = tmp_path / "s.h5"
    for change, says in ((lambda ids: ids.__setitem__(9, ids[2]), "two features have"), (lambda ids: ids, "")):
        path.write_bytes((ours / "s.h5").read_bytes())
        with h5py.File(path, "r+") as file:
            rewritten(file, "features/ids", change)
        code, _, err = run_in_process("info", path, "--verify")
        assert code == (2 if says else 0) and says in err, err
        with open_store(path) as store, pytest.raises(InputError, match=says) if says else nullcontext():
            check_ids(store, 4)


def of_times(file, name, _):
    del file[name]
    h5py.h5d.create(file.id, name.encode(), h5py.h5t.UNIX_D32LE, h5py.h5s.create_simple((8,)))


def empty(file, name, _):
    del file[name]
    file[name] = h5py.Empty("u1")


def attribute_of_times(file, name, _):
    h5py.h5a.delete(file.id, name.encode())
    h5py.h5a.create(file.id, name.encode(), h5py.h5t.UNIX_D32LE, h5py.h5s.create(h5py.h5s.SCALAR))


def other_kind(file, name, _):
    """A group for a dataset, and the other way round."""
    is_group = isinstance(file[name], h5py.Group)
    del file[name]
    file.create_dataset(name, data=np.arange(3)) if is_group else file.create_group(name)


def soft(file, name, _):
    file.move(name, "elsewhere")
    file[name] = h5py.SoftLink("/elsewhere")


def external(file, name, sound):
    del file[name]
    file[name] = h5py.ExternalLink(sound, "/" + name)


def piped(file, name, _):
    """To a pipe to which nobody writes: opening it would wait for ever."""
    pipe = Path(file.filename).with_name("pipe")
    os.mkfifo(pipe)
    external(file, name, pipe)


def virtual(file, name, sound):
    layout = h5py.VirtualLayout(file[name].shape, file[name].dtype)
    layout[:] = h5py.VirtualSource(str(sound), name, layout.shape)
    del file[name]
    file.create_virtual_dataset(name, layout)


def stored(**options):
    """Without its chunks where none are written; filters could be anyone's code."""

    def change(file, name, _):
        array = file[name][()]
        del file[name]
        dataset = file.create_dataset(name, array.shape, array.dtype, chunks=array.shape, **options)
        if options != {"fletcher32": True}:
            dataset[...] = array

    return change


LINKED = "link to somewhere else|lies in other files|is not stored as expected"
UNKNOWN = "damaged|is not a blocksvm|is needed here"
OURS = {"s.h5": "meta chunks rows words features features/ids", "m.h5": "meta weights features/ids", "c.h5": "meta"}
UNSOUND = [  # which file, what is changed in it, how, what is said
    *((which, name, change, LINKED) for which, names in OURS.items() for name in names.split()
      for change in (soft, external, piped, virtual) if (name, change) != ("features", virtual)),
    *(("s.h5", name, other_kind, rf"is damaged \({name} is not a (dataset|group)\)")
      for name in ("meta", "chunks", "rows", "words", "features")),
    ("m.h5", "state", lambda file, name, _: file[name].__setitem__("again", file[name]), "too deep"),
    ("m.h5", "weights", stored(fletcher32=True), "/weights: .*claims more than the file has"),
    *(("m.h5", "weights", stored(**options), "/weights: .*is not stored as expected")
      for options in ({}, {"fletcher32": True, "compression": "lzf"}, {"fletcher32": True, "shuffle": True})),
    *((which, "format_version", lambda file, name, _, step=step: file.attrs.__setitem__(name, file.attrs[name] + step),
       f"has format version [0-9]+, {says}") for which in OURS
      for step, says in ((-1, "older than .*; make it again"), (1, "newer than .*; install a newer"))),
    *(("s.h5", name, change, UNKNOWN) for change, names in
      ((of_times, "rows meta words"), (empty, "meta chunks"),
       (attribute_of_times, "meta_checksum blocksvm format_version"),
       (lambda file, name, _: file.attrs.__setitem__(name, [1, 2]), "format_version blocksvm"))
      for name in names.split()),
]  # fmt: skip


@pytest.mark.parametrize(("which", "name", "change", "says"), UNSOUND)
def test_what_is_not_as_ours_is_one_sentence(ours, tmp_path, refusal, which, name, change, says):
    """Links to what is sound elsewhere, virtual datasets, other types, filters, versions and kinds of things."""
    path = tmp_path / "hostile.h5"
    shutil.copy(ours / which, path)
    with h5py.File(path, "r+") as file:
        change(file, name, ours / which)
    told = refusal("info", path, "--verify")
    assert str(path) in told and re.search(says, told), told


def test_a_fault_of_the_program_is_no_damage(ours):
    for fault in (TypeError, AttributeError, NameError, MemoryError, AssertionError, KeyboardInterrupt):
        with h5py.File(ours / "s.h5") as file, pytest.raises(fault), damage_named(file):
            raise fault


FILES = {"store": "s.h5", "model": "m.h5", "checkpoint": "c.h5"}


def opened(kind: str, path: Path) -> None:
    if kind == "store":
        Store(path).close()
    elif kind == "model":
        load_model(path)
    else:
        describe_checkpoint(path)


WRONG = ["x", None, -1.5, {}, True, [["a"]], 2**70]


@pytest.mark.slow
@pytest.mark.parametrize("kind", FILES)
def test_missing_and_mistyped_keys_are_one_sentence(ours, tmp_path, kind):
    path = tmp_path / "hostile.h5"
    schema = {field.name: field.required for field in msgspec.structs.fields(SCHEMAS[kind])}
    for key, needed in schema.items():
        for value in ["missing", *WRONG]:
            shutil.copy(ours / FILES[kind], path)

            def change(meta, key=key, value=value):
                meta.pop(key, None) if value == "missing" else meta.__setitem__(key, value)

            rewrite_meta(path, change)
            error = None
            try:
                opened(kind, path)
            except InputError as refused:
                error = str(refused)
            if needed and value == "missing":  # all that must be there is missed
                assert re.match(rf"{path}: is damaged \(its description: .* `{key}`\)", error)
            assert error is None or error.startswith(f"{path}: ") and "\n" not in error  # some are allowed
    assert sum(schema.values()) > 8


@pytest.mark.parametrize(
    ("text", "says"),
    [(b"[]", "its description: Expected `object`, got `array`"), (b"{", "damaged"),
     (b'{"n_samples": NaN}', "NaN, which is no number"), (b'{"n_samples": 1e999}', "1e999, which is no number"),
     (b"[" * 100_000, "nested too deeply"), (b"\xff\xfe", "damaged")],
)  # fmt: skip
def test_descriptions_that_are_none(ours, tmp_path, text, says):
    path = tmp_path / "hostile.h5"
    shutil.copy(ours / "m.h5", path)
    rewrite_meta(path, lambda meta: text)
    with pytest.raises(InputError, match=says):
        load_model(path)


@pytest.mark.parametrize("kind", FILES)
def test_a_description_that_claims_more_than_the_file_has(ours, tmp_path, kind):
    """6 GB of /meta in a small file: not a byte of it is allocated."""
    for options in ({}, {"chunks": (1 << 20,)}, {"chunks": (1 << 20,), "compression": "gzip"}):
        path = tmp_path / "hostile.h5"
        shutil.copy(ours / FILES[kind], path)
        with h5py.File(path, "r+") as file:
            del file["meta"]
            file.create_dataset("meta", shape=(6_000_000_000,), dtype="u1", **options)
        tracemalloc.start()
        with pytest.raises(InputError, match="/meta (is not stored as expected|claims to be larger than the file)"):
            opened(kind, path)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
        tracemalloc.stop()


def test_the_schema_takes_what_it_must(ours):
    with h5py.File(ours / "s.h5") as file:
        text = file["meta"][()].tobytes()
    assert parse(text, "store").n_samples == 120
    meta = json.loads(text)
    odd = meta | {"sources": [{"name": "a\udcff.svm", "text_bytes": 5}], "of another version": 1}  # as paths may be
    assert parse(json.dumps(odd).encode(), "store").sources[0].name == "a\udcff.svm"
    for change, says in (
        ({"labels": [[1.0, 3], [-1.0, 2]]}, "labels"),  # not rising
        ({"labels": [["a", 3]]}, "its labels are not numbers"),
        ({"label_kind": "strings", "labels": [["a", 3]]}, "n_labels"),
        ({"label_weights": [1.0]}, "label_weights"),
        ({"settings": {}}, r"required field `order` - at `\$.settings`"),
        ({"settings": {"order": "sorted"}}, r"Invalid enum value 'sorted' - at `\$.settings.order`"),
        ({"chunk_nonzeros": 2**40}, "chunk_nonzeros"),
        ({"values": "x" * 10**6}, r"^.{1,300} - at `\$.values`$"),
    ):
        with pytest.raises(ValueError, match=says):
            parse(json.dumps(meta | change).encode(), "store")


def stored_outside(file, folder):
    data, raw = file["X/data"][()], folder / "raw"
    del file["X/data"]
    raw.write_bytes(data.tobytes())
    file["X"].create_dataset("data", shape=data.shape, dtype=data.dtype, external=[(str(raw), 0, 1 << 20)])


def claimed(n):
    """Rows that are there by name only: HDF5 stores nothing of what was never written."""

    def change(file, folder):
        del file["X/indptr"], file["obs"]["depth"]
        file["X"].create_dataset("indptr", shape=(n + 1,), dtype=np.int64, chunks=(1 << 16,))
        file["X"].attrs["shape"] = (n, 12)

    return change


def dense(shape, chunks):
    def change(file, folder):
        del file["X"]
        file.create_dataset("X", shape=shape, dtype=np.float32, chunks=chunks)

    return change


def no_text(file, folder):
    del file["var/genes"]
    file["var/genes"] = np.arange(12.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "says"),
    [(lambda file, folder: piped(file, "X/data", None), "data is a link to somewhere else"),
     (stored_outside, "data lies in other files"),
     (lambda file, folder: virtual(file, "X/data", folder / "other.h5"), "data lies in other files"),
     (claimed(1 << 40), "indptr claims more than the file holds"),
     (dense((1 << 40, 12), (1 << 16, 12)), "X claims more than the file holds"),
     (dense((1 << 24, 12), (1 << 24, 12)), "X is stored in chunks of 805 MB; raise --memory"),
     (lambda file, folder: file["obs/type/codes"].__setitem__(3, 100), "a code lies beyond"),
     (no_text, "the names of var are no text"),
     (lambda file, folder: file["X"].attrs.__setitem__("shape", (80, 1 << 60)), "has 12 entries for the 11529215"),
     (lambda file, folder: file["X/indptr"].__setitem__(4, 10_000), "its indptr does not rise"),
     (lambda file, folder: file["X/indices"].__setitem__(4, 10_000), "of the rows from 1 on is out of range"),
     (lambda file, folder: file["X/indices"].__setitem__(4, -1), "of the rows from 1 on is out of range"),
     (lambda file, folder: file.__delitem__("X"), "has no X; give it a matrix"),
     (lambda file, folder: file.move("X", "layers/counts"), "has no X (its layers: counts); set adata.X to"),
     (lambda file, folder: file["var"].attrs.__setitem__("_index", "../X"), "var has no column ../X")],
)  # fmt: skip
def test_hostile_anndata_is_refused(tmp_path, refusal, change, says):
    X, y = random_rows(n=80, d=12)
    write_h5ad(tmp_path / "X.h5ad", X, y, [f"g{j}" for j in range(12)])
    with h5py.File(tmp_path / "X.h5ad", "r+") as file:
        change(file, tmp_path)
    store = tmp_path / "s.h5"
    assert says in refusal("split", tmp_path / "X.h5ad", store, "--quiet", "--label", "type") and not store.exists()


def npy(shape, descr: str, data: bytes = b"", header: str | None = None) -> bytes:
    """An .npy with a header of our choice."""
    text = header or f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    text = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


def npz_of(path, compression=zipfile.ZIP_DEFLATED, **changed: bytes) -> None:
    """A sparse matrix of three rows by five columns, with some of its arrays replaced."""
    arrays = {"format": npy((), "|S3", b"csr"), "shape": npy((2,), "<i8", np.array([3, 5]).tobytes()),
              "indptr": npy((4,), "<i4", np.array([0, 1, 2, 4], I4).tobytes()),
              "indices": npy((4,), "<i4", np.array([0, 1, 2, 4], I4).tobytes()),
              "data": npy((4,), "<f8", np.ones(4).tobytes())}  # fmt: skip
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in (arrays | changed).items():
            archive.writestr(f"{name}.npy", data)


LONG = 6_000_000  # entries of a row
MOST_MORE = 100 << 20  # bytes of memory in which none of its arrays has room


def long_row() -> dict:
    zeros = bytes(4 * LONG)
    return {"indptr": npy((4,), "<i4", np.array([0, 0, LONG, LONG], I4).tobytes()),
            "indices": npy((LONG,), "<i4", zeros), "data": npy((LONG,), "<f4", zeros)}  # fmt: skip


PICKLE = b"cposix\nsystem\n(S'touch ran'\ntR."


@pytest.mark.parametrize(
    ("name", "given", "says"),
    [("X.npz", {}, ""),
     ("X.npz", {"indices": npy((1 << 40,), "<i4", bytes(16))}, "indices claims 4,398,046,511,104 bytes, more than"),
     ("X.npz", {"data": npy((1 << 70,), "<f8", bytes(32))}, "more than it has"),
     ("X.npz", {"data": npy((-4,), "<f8", bytes(32))}, "more than it has"),
     ("X.npz", {"data": npy((4,), "|O", PICKLE)}, "is not a plain array"),
     ("X.npz", {"data": npy((4,), "|S2000000000", bytes(32))}, "is not a plain array"),
     ("X.npz", {"format": npy((), "|S1000000", bytes(1_000_000))}, "is not a plain array"),
     ("X.npz", {"data": npy(0, "", header="(" * 5000)}, "data is damaged"),
     ("X.npz", {"data": npy(0, "", header="-" * 9000 + "1")}, "data is damaged"),
     ("X.npz", {"data": npy(0, "", header="{'descr': '<f8'" + " " * 60000 + "}")}, "data is damaged"),
     ("X.npz", {"data": b""}, "data is damaged"),
     ("X.npz", {"data": npy((4,), "<f8", bytes(31))}, "data is truncated"),
     ("X.npz", {"data": npy((4,), "<f8", bytes(320))}, "has more entries than it should"),
     ("X.npz", {"shape": npy((2,), "<f8", np.array([3.0, 5.0]).tobytes())}, "its shape is no whole numbers"),
     ("X.npz", {"shape": npy((2,), "<i8", np.array([-3, 5]).tobytes())}, "do not fit together"),
     ("X.npz", {"shape": npy((2,), "<u8", np.array([1 << 63, 5], np.uint64).tobytes())}, "do not fit together"),
     ("X.npz", {"indptr": npy((4,), "<i4", np.array([1, 1, 2, 4], I4).tobytes())}, "does not rise from 0"),
     ("X.npz", {"indptr": npy((4,), "<u8", np.array([0, 1 << 63, 2, 4], np.uint64).tobytes())}, "does not rise"),
     ("X.npz", {"indptr": npy((4,), "<i4", np.array([0, 1, 2, 1 << 30], I4).tobytes())}, "does not rise"),
     ("X.npz", long_row, "has a row of 6,000,000 entries; give --memory"),
     ("X.npy", npy((3, 2), "<f8", bytes(48)), ""),
     ("X.npy", npy((1 << 40, 2), "<f8", bytes(48)), "is no array of numbers or strings that numpy.save wrote"),
     ("X.npy", npy((1 << 62, 1 << 62), "<f8", bytes(48)), "is no array of numbers or strings that numpy.save wrote"),
     ("X.npy", npy((-3, 2), "<f8", bytes(48)), "is no array of numbers or strings that numpy.save wrote"),
     ("X.npy", npy((3, 2), "|O", PICKLE), "strings that numpy.save wrote (Array can't be memory-mapped: Python"),
     ("X.npy", npy((3, 2), "<M8[s]", bytes(48)), "give a matrix of numbers"),
     ("X.npy", npy((3, 2), "<c16", bytes(96)), "give a matrix of numbers"),
     ("X.npy", npy(0, "", header="[" * 5000), "is no array of numbers or strings that numpy.save wrote"),
     ("X.npy", npy(0, "", header="{'descr': '<f8', 'shape': __import__('os').system('touch ran')}"), "is no array"),
     ("X.npy", lambda: npy((1, LONG), "|i1", bytes(LONG)), "has a row of 6,000,000 entries; give --memory"),
     ("y.npy", npy((3,), "<U1", np.array([97, 0x7FFFFFFF, 98], I4).tobytes()), "a label is no text"),
     ("y.npy", npy((3,), "<U1", np.array([97, 0xD800, 98], I4).tobytes()), "a label is no text"),
     ("y.npy", npy((3,), "|S1", b"a\xffb"), "a label is no text"),
     ("y.npy", npy((3,), "<c8", bytes(24)), "its labels are of the type complex64"),
     ("y.npy", npy((1 << 50,), "<f8", bytes(24)), "is no array of numbers or strings that numpy.save wrote"),
     ("y.npy", npy((3, 1), "<f8", bytes(24)), "labels are one for each row"),
     ("y.npy", b"PK\x03\x04 and so on", "is no array of numbers or strings that numpy.save wrote"),
     ("y.npy", None, "y.npy: is no file")],
)  # fmt: skip
def test_claims_are_refused_before_memory_is_taken(tmp_path, run_in_process, monkeypatch, name, given, says):
    """Of arrays in an .npz, of an .npy, of labels beside a matrix (None: a pipe, which is not waited for), or split;
    no pickle runs."""
    monkeypatch.chdir(tmp_path)
    given = given() if callable(given) else given
    npz_of(tmp_path / "X.npz", **(given if name == "X.npz" else {}))
    if name != "X.npz":
        os.mkfifo(name) if given is None else (tmp_path / name).write_bytes(given)
    more = {"X.npz": ("--duplicates", "sum"), "y.npy": ("--labels-from", name)}.get(name, ())
    rows = "X.npz" if name == "y.npy" else name
    tracemalloc.start()
    told = run_in_process("split", rows, tmp_path / "s.h5", "--quiet", "--memory", "40MB", *more)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (told.code, says in told.last_line) == (2 if says else 0, True), told.err
    assert most < MOST_MORE and not (tmp_path / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["list", "fixed", "map"])
def test_a_row_that_is_a_long_list_is_refused(kind, tmp_path, refusal):
    n, ends = 1_200_000, pa.array([0, 1, 1_200_000], pa.int32())
    items = pa.array(np.ones(n))
    column = {
        "list": lambda: pa.ListArray.from_arrays(ends, items),
        "fixed": lambda: pa.FixedSizeListArray.from_arrays(items, n),
        "map": lambda: pa.MapArray.from_arrays(ends, pa.array(np.arange(n).astype(str)), items),
    }[kind]()
    table = pa.table({"label": np.arange(len(column)), "x": column})
    with pa.ipc.new_file(str(tmp_path / "x.arrow"), table.schema) as file:
        file.write_table(table)
    told = refusal("split", tmp_path / "x.arrow", tmp_path / "s.h5", "--memory", "64MB")
    assert "has a row of " in told and "bytes; give --memory " in told


FORGED = [  # options, an array of the checkpoint, what is put there, what is said
    (["--loss", "hinge"], "dual-cd/alpha", 3.0, "dual variables beyond their bounds"),
    (["--loss", "squared-hinge"], "dual-cd/alpha", -1e-3, "dual variables beyond their bounds"),
    (["--loss", "logistic"], "dual-cd/alpha", 1.5, "dual variables beyond their bounds"),
    (["--multiclass", "crammer-singer"], "dual-cd/alpha", 1.5, "dual variables beyond their bounds"),
    (["--multiclass", "rest"], "dual-cd/alpha", 1.5, "dual variables beyond their bounds"),
    (["--solver", "kernel", "--kernel", "rbf"], "kernel/alpha", 1.5, "dual variables beyond their bounds"),
    (["--loss", "hinge"], "dual-cd/alpha", np.nan, "no finite number"),
    (["--loss", "hinge"], "dual-cd/sums", np.nan, "no finite number"),
    (["--loss", "hinge", "--working-set", "0.2"], "working-set/share", np.nan, "working set is of another run"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("options", "name", "value", "says"), FORGED)
def test_a_forged_checkpoint_is_not_certified(tmp_path, run_in_process, succeeds, options, name, value, says):
    """With the run at its end; and with more to do, after which only rows that were visited may be as they should."""
    classes = 3 if "--multiclass" in options else 2
    text = [f"{i % classes} {1 + i % 7}:{1 + i % 3} {9 + i % 11}:{i % 5 - 2.5}" for i in range(200)]
    (tmp_path / "s.svm").write_text("\n".join(text) + "\n")
    store, checkpoint = tmp_path / "s.h5", tmp_path / "c.h5"
    succeeds("split", tmp_path / "s.svm", store, "--quiet")
    line = (store, tmp_path / "m.h5", *options, "-C", "1", "--tol", "1e-9", "--checkpoint", checkpoint, "--overwrite")
    succeeds("train", *line, "--max-outer", "3")
    with h5py.File(checkpoint, "r+") as file:
        rewritten(file, f"state/{name}", lambda array: array.__setitem__(slice(None), value))
    for more in ("3", "4"):
        code, _, err = run_in_process("train", *line, "--max-outer", more, "--resume")
        assert code == 2 and says in err and "start afresh" in err or more == "4" and code == 0, err
