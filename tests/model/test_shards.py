"""Scores beside the rows: each file of a folder has those of its input, as predict tells them, with what was kept and
of the rows that were selected; a run that was stopped goes on; nothing is half written."""

import gzip
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from support.thread_cluster import ThreadCluster

from blocksvm import fit, open_store
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.model import shards

WORDS = ["good film", "bad film", "a plain one", "so good", "so bad", "plain", "not bad", "", 'quo"ted, good\\n']
LABELS = ["neg", "none", "pos"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """A folder of files of texts, and a model of three classes and one of two, with probabilities."""
    folder = tmp_path_factory.mktemp("corpus")
    random = np.random.default_rng(5)
    rows = [
        {"id": k, "meta": {"url": f"u/{k}", "big": 2**60 + k}, "text": f"{WORDS[k % len(WORDS)]} w{k % 7}",
         "label": LABELS[k % 3], "n": 0.1 * k}
        for k in random.permutation(90).tolist()
    ]  # fmt: skip
    (folder / "in").mkdir()
    with gzip.open(folder / "in" / "a.jsonl.gz", "wt") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))
    flat = pa.table({key: [row[key] for row in rows] for key in ("id", "text", "label", "n")})
    pyarrow.parquet.write_table(flat, folder / "in" / "b.parquet", row_group_size=40)
    pyarrow.csv.write_csv(flat, folder / "in" / "c.csv")
    with pa.ipc.new_file(folder / "in" / "d.arrow", flat.schema) as file:
        file.write_table(flat)
    (folder / "in" / "e.ft").write_text("".join(f"__label__{row['label']} {row['text']}\n" for row in rows))
    for name, classes in (("three", 3), ("two", 2)):
        lines = [json.dumps(row | {"label": LABELS[row["id"] % classes]}) for row in rows]
        (folder / "train.jsonl").write_text("\n".join(lines))
        split_rows([folder / "train.jsonl"], folder / f"{name}.h5", SplitSettings())
        with open_store(folder / f"{name}.h5") as store:
            fit(store, loss="logistic").save(folder / f"{name}-model.h5")
    return folder, rows, {name: folder / f"{name}-model.h5" for name in ("three", "two")}


def read(path) -> list[dict]:
    """The rows of a file of scores."""
    if path.suffix == ".parquet":
        return pyarrow.parquet.read_table(path).to_pylist()
    if path.suffix == ".arrow":
        return pa.ipc.open_file(path).read_all().to_pylist()
    if path.suffix == ".csv":
        return pyarrow.csv.read_csv(path).to_pylist()
    if path.suffix == ".gz":
        return [json.loads(line) for line in gzip.open(path, "rt")]
    words = [line.split() for line in path.read_text().splitlines()]
    return [{"label": label.removeprefix("__label__"), "probability": float(share)} for label, share in words]


def told(succeeds, model, path, *options) -> np.ndarray:
    lines = succeeds("predict", model, path, "--text", "text", *options).out.splitlines()
    return np.array([line.split() for line in lines])


@pytest.mark.parametrize("name", ["three", "two"])
def test_each_file_has_the_scores_that_predict_tells(name, corpus, tmp_path, succeeds, monkeypatch):
    folder, rows, models = corpus
    monkeypatch.setattr(shards, "GROUP_ROWS", 32)
    inputs = sorted((folder / "in").iterdir())
    ran = succeeds("predict", models[name], *inputs, f"{tmp_path}/out/", "--text", "text", "--memory", "200MB")
    assert "450 of 450 rows in 5 files" in ran.out
    for path in inputs:
        found = read(tmp_path / "out" / path.name)
        labels = told(succeeds, models[name], path)[:, 0]
        shares = told(succeeds, models[name], path, "--probabilities").astype(float)
        scores = told(succeeds, models[name], path, "--scores").astype(float)
        assert [row["label"] for row in found] == labels.tolist()
        np.testing.assert_allclose([row["probability"] for row in found], shares.max(axis=1), rtol=1e-5)
        if path.suffix != ".ft":
            expected = scores.max(axis=1) if name == "three" else np.abs(scores[:, 0])
            assert [row["score"] for row in found] == expected.tolist()
            assert list(found[0]) == ["label", "score", "probability"]
    # pipes and devices aside, nothing but the files and their list is there
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["_blocksvm.json", *(p.name for p in inputs)]


def test_what_is_kept_and_selected(corpus, tmp_path, succeeds):
    folder, rows, models = corpus
    tables = [folder / "in" / name for name in ("a.jsonl.gz", "b.parquet", "c.csv", "d.arrow")]
    condition = "label == 'pos' and probability > 0.4"
    options = ("--text", "text", "--keep", "id,label", "--select", condition)
    succeeds("predict", models["three"], *tables, f"{tmp_path}/out/", *options)
    shares = told(succeeds, models["three"], tables[1], "--probabilities").astype(float)
    chosen = [k for k in range(len(rows)) if shares[k].argmax() == 2 and shares[k, 2] > 0.4]
    assert 0 < len(chosen) < len(rows)
    for path in tables:
        found = read(tmp_path / "out" / path.name)
        assert [row["id"] for row in found] == [rows[k]["id"] for k in chosen]
        assert [row["own_label"] for row in found] == [rows[k]["label"] for k in chosen]
        assert {row["label"] for row in found} == {"pos"}
    # of JSON, keys within others, and values as they were written
    succeeds("predict", models["three"], tables[0], f"{tmp_path}/json/", "--keep", "meta.url,meta,no")
    for found, row in zip(read(tmp_path / "json" / "a.jsonl.gz"), rows, strict=True):
        assert found["meta.url"] == row["meta"]["url"] and found["meta"] == row["meta"] and "no" not in found
    succeeds("predict", models["three"], tables[0], f"{tmp_path}/all/", "--keep", "*", "--top", "2")
    for found, row in zip(read(tmp_path / "all" / "a.jsonl.gz"), rows, strict=True):
        assert all(found[key] == row[key] for key in ("id", "meta", "text", "n"))
        assert found["own_label"] == row["label"] and found["probability"] >= found["probability_2"]
        assert found["label"] != found["label_2"]
    succeeds("predict", models["three"], tables[1], f"{tmp_path}/of/", "--text", "text", "--score-of", "none")
    found = read(tmp_path / "of" / "b.parquet")
    np.testing.assert_allclose([row["probability"] for row in found], shares[:, 1])
    # a name is never taken twice, and patterns are of keys, too
    (tmp_path / "odd.jsonl").write_text('{"text": "good", "label": "x", "own_label": 5, "n1": NaN, "n2": 2}\n')
    ran = succeeds("predict", models["three"], tmp_path / "odd.jsonl", f"{tmp_path}/odd/", "--keep", "*label,n*,nosuch")
    assert "no object has the key nosuch" in " ".join(ran.err.split())
    ran = succeeds("predict", models["three"], tmp_path / "odd.jsonl", tables[0], f"{tmp_path}/two/", "--keep", "id,n1")
    assert "odd.jsonl: no object has the key id" in " ".join(ran.err.split())  # though another file follows
    line = (tmp_path / "odd" / "odd.jsonl").read_text()
    assert '"own_own_label":"x"' in line and '"own_label":5' in line and '"n1":NaN' in line and '"n2":2' in line
    # a file without rows has the columns of those with rows
    flat = pyarrow.parquet.read_table(tables[1])
    pyarrow.parquet.write_table(flat.slice(0, 0), tmp_path / "no.parquet")
    succeeds("predict", models["three"], tmp_path / "no.parquet", f"{tmp_path}/no/", "--text", "text", "--keep", "id,n")
    succeeds("predict", models["three"], tables[1], f"{tmp_path}/some/", "--text", "text", "--keep", "id,n")
    schemas = [pyarrow.parquet.read_schema(tmp_path / name) for name in ("no/no.parquet", "some/b.parquet")]
    assert schemas[0] == schemas[1]
    # a file of which no row is selected is there, and empty
    succeeds("predict", models["three"], *tables, f"{tmp_path}/none/", "--text", "text", "--select", "probability > 1")
    assert [read(tmp_path / "none" / path.name) for path in tables] == [[]] * 4


def test_a_stopped_run_goes_on(corpus, tmp_path, succeeds, refusal, monkeypatch):
    folder, _, models = corpus
    inputs = [folder / "in" / "a.jsonl.gz", folder / "in" / "e.ft"]
    command = (models["two"], *inputs, f"{tmp_path}/out/")
    write = shards.LineFile.write

    def stops(self, *more):
        write(self, *more)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(shards.LineFile, "write", stops)
        with pytest.raises(AssertionError):
            succeeds("predict", *command)
    assert not (tmp_path / "out" / "e.ft").exists()
    first = (tmp_path / "out" / "a.jsonl.gz").stat()
    assert "90 of 90 rows in 1 file" in succeeds("predict", *command).out
    assert (tmp_path / "out" / "a.jsonl.gz").stat().st_mtime_ns == first.st_mtime_ns
    assert len(read(tmp_path / "out" / "e.ft")) == 90
    # others' scores are not mixed with these
    assert "has scores of another model, or with other settings" in refusal("predict", models["three"], *command[1:])
    assert "other settings" in refusal("predict", *command, "--top", "2")
    succeeds("predict", models["three"], *command[1:], "--overwrite")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "e.ft").write_text("__label__pos good\n")
    command = (models["two"], tmp_path / "new" / "e.ft", f"{tmp_path}/other/")
    succeeds("predict", *command)
    (tmp_path / "new" / "e.ft").write_text("__label__pos good\n__label__neg bad\n")
    assert "2 of 2 rows in 1 file" in succeeds("predict", *command).out  # it has changed, and is scored again
    assert "other settings" in refusal("predict", *command, "--skip-bad")
    (tmp_path / "other" / "_blocksvm.json").write_text("[]")
    assert "_blocksvm.json: cannot be read" in refusal("predict", *command)


def test_what_is_refused(corpus, tmp_path, refusal):
    folder, _, models = corpus
    json_file, lines = folder / "in" / "a.jsonl.gz", folder / "in" / "e.ft"
    out = f"{tmp_path}/out/"
    for arguments, sentence in [
        ((json_file, out, "--select", "probability => 1"), "is no condition such as 'probability >= 0.9'"),
        ((json_file, out, "--select", "score > x"), "x is not a finite number"),
        ((json_file, out, "--select", ""), "is no condition"),
        ((json_file, out, "--select", "score > nan"), "nan is not a finite number"),
        ((json_file, out, "--select", "label == poss"), "poss: is no label of the model; did you mean pos?"),
        ((json_file, out, "--scores"), "--scores: is for an OUTPUT that is a file"),
        ((json_file, tmp_path / "p.txt", "--keep", "id"), "--keep: is for an OUTPUT that is a folder"),
        ((json_file, out, "--top", "2", "--score-of", "pos"), "leave one of them out"),
        ((lines, out, "--keep", "id"), "--keep: fasttext has no columns"),
        ((folder / "three.h5", out), "is a store, without the columns of its text"),
        ((folder / "in" / "b.parquet", out, "--text", "text", "--keep", "idd"), "called idd, which --keep"),
        ((json_file, folder / "in"), "exists already"),
    ]:
        assert sentence in refusal("predict", models["three"], *arguments), sentence
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "good"}\n{"text": 5}\n')
    assert f"{bad}:2: " in refusal("predict", models["three"], bad, out)
    assert not (tmp_path / "out" / "bad.jsonl").exists()


def test_workers_write_the_same_files_and_count_the_same(corpus, tmp_path, succeeds, monkeypatch):
    """And what a run wrote that ended before it knew may be replaced."""
    folder, _, models = corpus
    inputs = sorted(path for path in (folder / "in").iterdir() if path.suffix != ".ft")
    words = "--text", "text", "--label", "label", "--keep", "id", "--json"
    here, there = tmp_path / "here", tmp_path / "there"
    alone = json.loads(succeeds("predict", models["two"], *inputs, f"{here}/", *words).out)
    monkeypatch.setattr("blocksvm.cli.options.cluster_of", lambda options: ThreadCluster(3))
    # a worker that dies leaves what it has written
    write = shards.written
    monkeypatch.setattr(shards, "written", lambda *given: Path(given[2].parent, ".left").touch() or write(*given))
    there.mkdir()
    (there / shards.LIST).write_bytes((here / shards.LIST).read_bytes())
    known = json.loads((there / shards.LIST).read_text())
    (there / shards.LIST).write_text(json.dumps(known | {"shards": {}, "begun": [str(folder / "in" / "c.csv")]}))
    (there / "c.csv").write_text("half of it")
    shared = json.loads(succeeds("predict", models["two"], *inputs, f"{there}/", *words).out)
    assert {name for name in alone if alone[name] != shared[name]} <= {"output", "log_loss", "brier", "notes"}
    assert shared["log_loss"] == pytest.approx(alone["log_loss"]) and shared["rows"] == 360
    names = {path.name for path in here.iterdir()} - {shards.LIST}
    assert names == {path.name for path in there.iterdir()} - {shards.LIST} and len(names) == 4
    assert all((there / name).read_bytes() == (here / name).read_bytes() for name in names)
    assert json.loads(succeeds("predict", models["two"], *inputs, f"{there}/", *words).out)["files_before"] == 4
