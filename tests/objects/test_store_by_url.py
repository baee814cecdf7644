"""A store that is an object: read as the file is, to the same bits, whatever the network does; whole commands on
objects, killed and resumed, by threads and by workers."""

import io
import itertools
import json
import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from support.object_server import Fault
from support.paths import ROOT
from support.training_cases import make_store, random_rows, stop_after, svmlight, train

import blocksvm
from blocksvm import InputError, iterate_blocks
from blocksvm.files.paths import location, one_run
from blocksvm.files.remote import CONNECTIONS
from blocksvm.model.model_file import load_model
from blocksvm.store.reader import Store

SETTINGS = {"block_chunks": 3, "max_outer": 4, "tol": 0.0, "seed": 4, "C": 5.0}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rows = random_rows(n=2000, d=300, density=0.1, seed=41)
    return make_store(tmp_path_factory.mktemp("store"), *rows, chunk_nonzeros=1024, dtype="float32")


@pytest.fixture
def url(server, store):
    server.objects.put("bucket/rows.h5", store.read_bytes())
    return "s3://bucket/rows.h5"


@pytest.fixture(scope="module")
def whole(store):
    return train(store, **SETTINGS)


def test_blocks_are_those_of_the_file(url, server, store):
    with Store(store) as file, Store(url) as remote:
        pairs = itertools.zip_longest(iterate_blocks(file, "40kB"), iterate_blocks(remote, "40kB"))
        n = 0
        for ours, theirs in pairs:
            n += 1
            for name in ("indptr", "indices", "values", "y", "sq_norms", "rows"):
                assert np.array_equal(getattr(ours, name), getattr(theirs, name))
        assert n > 10
        assert remote.read_labels(3).tolist() == file.read_labels(3).tolist()
        assert remote.fingerprint == file.fingerprint
        remote.verify()
        assert remote.name == url
    assert server.objects.data.keys() == {"bucket/rows.h5"}  # nothing was written
    server.objects.put("bucket/text", b"no HDF5 file at all")
    for name, says in (("none.h5", "no such file; expected a blocksvm store"), ("text", "is not a blocksvm store")):
        with pytest.raises(InputError, match=f"^s3://bucket/{name}: {says}"):
            Store(f"s3://bucket/{name}")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"solver": "pegasos"}, {"block_chunks": None, "memory": 10**9}])
def test_a_run_ends_with_the_bits_of_the_file(url, server, store, settings):
    wanted = train(store, **SETTINGS | settings)
    server.faults += [Fault(what, at=7 * k) for k, what in enumerate(("503", "cut", "drop", "429", "500") * 4, 3)]
    run = train(url, **SETTINGS | settings)
    assert run.same(wanted)
    told = ("primal_estimate", "dual_estimate", "rel_gap", "bytes_read", "rows_visited", "passes")
    for ours, theirs in zip(run.outer(), wanted.outer(), strict=True):
        assert [ours[name] == theirs[name] for name in told if name != "bytes_read"]
    if not settings:
        assert not server.faults or all(fault.at <= 0 for fault in server.faults[:15])


@pytest.mark.slow
def test_a_run_that_is_stopped_and_resumed(url, store, whole, tmp_path):
    """From the file or from the object, wherever it was begun."""
    for begun, resumed in ((url, url), (store, url), (url, store)):
        checkpoint = tmp_path / "c.h5"
        checkpoint.unlink(missing_ok=True)
        for k, source in ((9, begun), (7, resumed), (10**9, resumed)):
            run = train(source, checkpoint=checkpoint, resume=checkpoint.exists(), stop=stop_after(k), **SETTINGS)
        assert run.same(whole)


def test_an_object_that_is_replaced_ends_the_run(url, server, tmp_path):
    checkpoint = tmp_path / "c.h5"
    train(url, checkpoint=checkpoint, stop=stop_after(9), **SETTINGS)
    saved = checkpoint.read_bytes()
    server.faults.append(Fault("swap", at=40))
    with pytest.raises(InputError) as refusal:
        train(url, checkpoint=checkpoint, resume=True, **SETTINGS)
    assert str(refusal.value) == f"{url}: was replaced or changed while this run was reading it; run it again"
    assert checkpoint.read_bytes() == saved


def test_damage_on_the_way_is_found(url, server, store):
    with Store(store) as file:
        place = file.parts.of_chunk(5)[0][0] + 3
    data = bytearray(store.read_bytes())
    data[place] ^= 1
    server.objects.put("bucket/rows.h5", bytes(data))
    with pytest.raises(InputError, match=f"^{url}: chunk 5: checksum does not match; make the store again"):
        train(url, **SETTINGS)


@pytest.mark.slow
def test_an_opening_is_four_requests(tmp_path, server):
    """Of a store much larger than what they bring."""
    rng = np.random.default_rng(3)
    lines = [f"{i % 2} " + " ".join(f"{j}:{v:.9f}" for j, v in zip(np.unique(rng.integers(1, 10**6, 60)),
             rng.random(60), strict=False)) for i in range(12_000)]  # fmt: skip
    path = make_store(tmp_path, "\n".join(lines), dtype="float64")
    data = path.read_bytes()
    assert len(data) > 6_000_000
    server.objects.put("bucket/rows.h5", data)
    with one_run(), Store("s3://bucket/rows.h5") as store:
        assert len(server.seen) <= 4
        store.read_block(np.arange(3), None)
        assert len(server.seen) <= 6  # its rows, its entries
        with Store("s3://bucket/rows.h5"):
            assert len(server.seen) <= 6


@pytest.mark.slow
def test_commands_take_urls(server, url, store, tmp_path, run_in_process, succeeds):
    """Also signed ones, of whose signature nothing tells."""
    signed = f"{server.url('bucket/rows.h5')}?signature=very-secret"
    for name in (url, signed):
        model, trace = tmp_path / "m.h5", tmp_path / "t.jsonl"
        run = succeeds("train", name, model, "--log", trace, "--overwrite", "--max-outer", 3)
        assert "secret" not in run.err
        said, wanted = (succeeds("predict", model, one, "--scores").out for one in (name, store))
        assert said == wanted
        succeeds("info", name, "--verify")
        succeeds("cv", name, "--folds", 2, "-C", "0.1,1", "--quiet")
        shown = name.partition("?")[0]
        for written in (model.read_bytes(), trace.read_bytes()):
            assert b"very-secret" not in written
            assert b"kept-secret" not in written
            assert shown.encode() in written
    assert any("very-secret" in path for _, path, *_ in server.seen)
    outcome = run_in_process("margin", url, "--max-outer", 2)
    assert outcome.code in (0, 2)


@pytest.mark.slow
def test_requests_are_shown(server, url, tmp_path, succeeds):
    trace, model = tmp_path / "t.jsonl", tmp_path / "m.h5"
    options = ("--memory", "1MB", "--working-set", "none")
    succeeds("train", url, model, "--log", trace, *options)
    outers = [event for event in map(json.loads, trace.read_text().splitlines()) if event["event"] == "outer"]
    told, made = sum(event["requests"] for event in outers), len(server.seen)
    assert told <= made <= told + CONNECTIONS + 30  # besides: opening, the features' ids, and what was foreseen in vain
    page = tmp_path / "r.html"
    succeeds("report", trace, "-o", page)
    assert ">requests<" in page.read_text()


def weights(data: bytes, tmp_path) -> np.ndarray:
    path = tmp_path / "weights.h5"
    path.write_bytes(data)
    return load_model(path).weights


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "arrows"])
def test_tables_are_read_from_objects(server, tmp_path, form):
    """Of several row groups or batches, in requests for parts of the object; each is fetched once."""
    rng = np.random.default_rng(0)
    columns = {"label": rng.integers(0, 2, 20_000), "number": rng.standard_normal(20_000)}
    columns |= {"word": [f"w{k % 50}" for k in range(20_000)], "unused": [f"{k:0>90}" for k in range(20_000)]}
    table = pa.table(columns)
    path = tmp_path / f"rows.{form}"
    if form == "csv":
        pa.csv.write_csv(table, path)
    elif form == "parquet":
        pa.parquet.write_table(table, path, row_group_size=3000)
    else:
        with (pa.ipc.new_file if form == "arrow" else pa.ipc.new_stream)(str(path), table.schema) as file:
            file.write_table(table, max_chunksize=3000)
    server.objects.put(f"b/{path.name}", path.read_bytes())
    found = []
    for name in (path, f"s3://b/{path.name}"):
        meta = blocksvm.write_store(str(name), tmp_path / "s.h5", ignore="unused", overwrite=True)
        assert meta["n_samples"] == 20_000
        with h5py.File(tmp_path / "s.h5") as file:
            found.append((meta["n_nonzeros"], file["rows"][()].tobytes(), file["words"][()].tobytes()))
    assert found[0] == found[1]
    with blocksvm.open_store(tmp_path / "s.h5") as store:
        blocksvm.fit(store, max_outer=1).save(tmp_path / "m.h5")
    scores = [blocksvm.predict_files(tmp_path / "m.h5", name, "scores") for name in (str(path), f"s3://b/{path.name}")]
    assert np.array_equal(*scores)


def test_scores_beside_rows_are_objects(server, tmp_path, succeeds):
    """As in a folder, of texts in objects; what is there is not scored again."""
    lines = "".join(
        f'{{"id": {k}, "text": "{["good", "bad"][k % 2]} w{k % 9}", "label": "{"yn"[k % 2]}"}}\n' for k in range(90)
    )
    tables = io.BytesIO()
    pa.parquet.write_table(pa.table({"id": range(50), "text": ["so good", "so bad"] * 25}), tables)
    (tmp_path / "in").mkdir()
    for name, data in {"a.jsonl": lines.encode(), "b.parquet": tables.getvalue()}.items():
        (tmp_path / "in" / name).write_bytes(data)
        server.objects.put(f"b/in/{name}", data)
    blocksvm.write_store("s3://b/in/a.jsonl", tmp_path / "s.h5")
    with blocksvm.open_store(tmp_path / "s.h5") as store:
        blocksvm.fit(store).save(tmp_path / "m.h5")
    for root in (str(tmp_path), "s3://b"):
        inputs = [f"{root}/in/{name}" for name in ("a.jsonl", "b.parquet")]
        options = "--text", "text", "--keep", "id", "--select", "label == y"
        command = tmp_path / "m.h5", *inputs, f"{root}/out/", *options
        assert "70 of 140 rows in 2 files" in succeeds("predict", *command).out
        assert "0 of 0 rows in 0 files" in succeeds("predict", *command).out
    for name in ("a.jsonl", "b.parquet"):
        assert server.objects.data[f"b/out/{name}"] == (tmp_path / "out" / name).read_bytes()


@pytest.mark.slow
def test_outputs_and_inputs_are_objects(server, tmp_path, run_in_process, monkeypatch, succeeds):
    """As with files, byte by byte where these have nothing of the place or the time."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    X, y = random_rows(n=900, d=60, seed=3)
    text, more = svmlight(X, y), svmlight(X[:200], y[:200])
    server.objects.put("b/rows.svm", text.encode())
    server.objects.put("b/more.svm", more.encode())
    (tmp_path / "rows.svm").write_text(text)
    (tmp_path / "more.svm").write_text(more)
    stored = {}
    for root in (str(tmp_path), "s3://b"):
        rows, store, held = (f"{root}/{name}" for name in ("rows.svm", "s.h5", "held.h5"))
        succeeds("split", rows, store, "--holdout", "0.2", held, "--quiet")
        succeeds("split", f"{root}/more.svm", store, "--append", "--quiet")
        assert run_in_process("split", rows, store).last_line.endswith("choose another name or add --overwrite")
        options = ("--log", f"{root}/t.jsonl", "--checkpoint", f"{root}/c.h5", "--valid", held, "--memory", "3MB")
        succeeds("train", store, f"{root}/m.h5", *options, "--max-outer", 2)
        # resumed, and its trace goes on
        succeeds("train", store, f"{root}/m.h5", *options, "--resume", "--overwrite")
        succeeds("predict", f"{root}/m.h5", rows, f"{root}/p.txt", "--scores")
        names = ("s.h5", "held.h5", "m.h5", "t.jsonl", "p.txt")
        stored[root] = {name: location(f"{root}/{name}") for name in names}
    data = {name: server.objects.data[f"b/{name}"] for name in stored["s3://b"]}
    files = {name: path.read_bytes() for name, path in stored[str(tmp_path)].items()}
    assert data["p.txt"] == files["p.txt"]
    assert np.array_equal(weights(data["m.h5"], tmp_path), weights(files["m.h5"], tmp_path))
    assert data["t.jsonl"].count(b"\n") == files["t.jsonl"].count(b"\n") > 3
    for name in ("s.h5", "held.h5"):
        theirs, ours = tmp_path / "theirs.h5", tmp_path / name
        theirs.write_bytes(data[name])
        with h5py.File(theirs) as a, h5py.File(ours) as b:
            assert np.array_equal(a["rows"][()], b["rows"][()]) and np.array_equal(a["chunks"][()], b["chunks"][()])
    assert list((tmp_path / "temp").iterdir()) == []
    assert not server.objects.uploads


def started(*words: str) -> subprocess.Popen:
    line = [sys.executable, "-P", "-m", "blocksvm.train", *words]
    return subprocess.Popen(line, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def ended_well(run: subprocess.Popen) -> None:
    _, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors


@pytest.mark.slow
@pytest.mark.process
def test_a_run_that_is_killed_goes_on_to_the_bits_of_the_file(server, url, store, tmp_path):
    server.latency = 0.02
    options = ["--memory", "1MB", "--working-set", "none", "--tol", "1e-6", "--max-outer", "60", "--quiet"]
    ours, theirs = tmp_path / "ours.h5", "s3://b/theirs.h5"
    ended_well(started(str(store), str(ours), *options))
    again = ["--checkpoint", "s3://b/c.h5", "--checkpoint-seconds", "0.3", "--resume"]
    kills = 0
    for _ in range(3):
        before = server.objects.versions.get("b/c.h5", 0)
        run = started(url, theirs, *options, *again)
        deadline = time.monotonic() + 60
        while server.objects.versions.get("b/c.h5", 0) == before and run.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        if run.poll() is None:
            os.kill(run.pid, signal.SIGKILL)
            kills += 1
        run.communicate()
    assert kills
    ended_well(started(url, theirs, *options, *again))
    assert np.array_equal(weights(server.objects.data["b/theirs.h5"], tmp_path), weights(ours.read_bytes(), tmp_path))


@pytest.mark.slow
def test_workers_read_for_themselves(url, store):
    settings = {"tol": 1e-3, "memory": 10**8, "cluster": 3}
    run, wanted = (train(source, **settings) for source in (url, store))
    assert run.same(wanted)
    assert sum(event["requests"] for event in run.outer()) > 0
