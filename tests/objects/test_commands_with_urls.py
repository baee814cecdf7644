"""Whole commands on objects: made, trained on, killed and resumed, by threads and by workers, to the bits of files."""

import io
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
from support.paths import ROOT
from support.training_cases import make_store, random_rows, svmlight, train

import blocksvm
from blocksvm.files.paths import location
from blocksvm.model.model_file import load_model


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


def whole(run: subprocess.Popen) -> None:
    _, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors


@pytest.mark.slow
@pytest.mark.process
def test_a_run_that_is_killed_goes_on_to_the_bits_of_the_file(server, tmp_path):
    store = make_store(tmp_path, *random_rows(n=1500, d=200, density=0.1, seed=41), chunk_nonzeros=512)
    server.objects.put("b/rows.h5", store.read_bytes())
    server.latency = 0.02
    options = ["--memory", "1MB", "--working-set", "none", "--tol", "1e-6", "--max-outer", "60", "--quiet"]
    ours, theirs = tmp_path / "ours.h5", "s3://b/theirs.h5"
    whole(started(str(store), str(ours), *options))
    again = ["--checkpoint", "s3://b/c.h5", "--checkpoint-seconds", "0.3", "--resume"]
    kills = 0
    for _ in range(3):
        before = server.objects.versions.get("b/c.h5", 0)
        run = started("s3://b/rows.h5", theirs, *options, *again)
        deadline = time.monotonic() + 60
        while server.objects.versions.get("b/c.h5", 0) == before and run.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        if run.poll() is None:
            os.kill(run.pid, signal.SIGKILL)
            kills += 1
        run.communicate()
    assert kills
    whole(started("s3://b/rows.h5", theirs, *options, *again))
    assert np.array_equal(weights(server.objects.data["b/theirs.h5"], tmp_path), weights(ours.read_bytes(), tmp_path))


@pytest.mark.slow
def test_workers_read_for_themselves(server, tmp_path):
    store = make_store(tmp_path, *random_rows(n=1500, d=200, density=0.1, seed=41), chunk_nonzeros=512)
    server.objects.put("b/rows.h5", store.read_bytes())
    settings = {"tol": 1e-3, "memory": 10**8, "cluster": 3}
    run, wanted = (train(source, **settings) for source in ("s3://b/rows.h5", store))
    assert run.same(wanted)
    assert sum(event["requests"] for event in run.outer()) > 0
