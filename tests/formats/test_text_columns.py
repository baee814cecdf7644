"""Texts in any form make the same rows: documents, fastText's lines, JSON lines, columns of tables; and what is wrong
with one is told with its line."""

import csv
import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from support.stored_rows import in_source_order

from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.formats import file_reader

TITLES = ["Crème Brûlée", "a plain one", "", "DÉJÀ vu", "ﬁne e\u0301tude"]
BODIES = ["Good good film, it WAS.", "bad; 'quite' \"bad\"", "so so, so", "été good", "x y zz"]
LABELS = ["good", "bad", "bad", "good", "good"]
NGRAMS = {"ngrams": "word:1-2,char_wb:3"}


def files_of(folder) -> dict:
    """The same texts in each form: path -> the settings that read them."""
    joined = [f"{title} {body}" for title, body in zip(TITLES, BODIES, strict=True)]
    rows = list(zip(LABELS, TITLES, BODIES, strict=True))
    table = pa.table({"body": BODIES, "n": [1, 2, 3, 4, 5], "y": LABELS, "title": TITLES})
    words = table.set_column(0, "body", table["body"].dictionary_encode())
    (folder / "d.txt").write_text("".join(f"{y}\t{text}\n" for y, text in zip(LABELS, joined, strict=True)))
    (folder / "f.txt").write_text("".join(f"__label__{y} {text}\n" for y, text in zip(LABELS, joined, strict=True)))
    objects = [{"id": k, "meta": {"title": t, "no": [1, {}]}, "body": b, "y": y} for k, (y, t, b) in enumerate(rows)]
    lines = "\n".join(json.dumps(one, ensure_ascii=k % 2 == 0) for k, one in enumerate(objects))
    with gzip.open(folder / "j.jsonl.gz", "wt", encoding="utf-8") as file:
        file.write(lines.replace("\n", "\n\n", 1))
    pa.csv.write_csv(table, folder / "t.csv")
    pa.parquet.write_table(words, folder / "t.parquet", row_group_size=2)
    with pa.ipc.new_file(folder / "t.arrow", words.schema) as file:
        file.write_table(words)
    columns = {"text": "title,body", "label": "y"}
    return {"d.txt": {}, "f.txt": {}, "j.jsonl.gz": {"text": "meta.title,body", "label": "y"}, "t.csv": columns,
            "t.parquet": columns, "t.arrow": columns}  # fmt: skip


def stored(folder, name: str, options: dict) -> tuple:
    """(the rows in their order, their labels, the recipe's options) of a file in a store."""
    format_ = "documents" if name == "d.txt" else "auto"
    chosen = SplitSettings(format=format_, options=NGRAMS | options, normalize="l2", overwrite=True)
    meta = split_rows([folder / name], folder / "s.h5", chosen)
    rows = in_source_order(folder / "s.h5")
    return [row[1:] for row in rows], [meta.labels[int(row[0])][0] for row in rows], meta.recipe.options


def test_all_forms_are_the_same_rows(tmp_path, succeeds):
    forms = files_of(tmp_path)
    expected, labels, _ = stored(tmp_path, "d.txt", {})
    assert labels == LABELS
    for name, options in forms.items():
        rows, theirs, _ = stored(tmp_path, name, options)
        assert rows == expected and theirs == LABELS, name
    # a model of any of them reads all others: by what they look like, where a column of texts is named
    for trained in ("j.jsonl.gz", "t.parquet", "d.txt"):
        stored(tmp_path, trained, forms[trained])
        succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5", "--overwrite", "-C", "100")
        for name, options in files_of(tmp_path).items():
            options |= {"format": "documents"} if name == "d.txt" else {}
            named = [word for key, value in options.items() for word in (f"--{key}", value)]
            told = succeeds("predict", tmp_path / "m.h5", tmp_path / name, *named)
            assert told.out.split() == LABELS and "accuracy 1.0000" in told.err, (trained, name)


@pytest.mark.parametrize("case", ["lower", "keep"])
@pytest.mark.parametrize("accents", ["keep", "strip"])
def test_case_and_accents_are_those_of_scikit_learn(case, accents, tmp_path):
    plain = [text for text in BODIES if "ﬁ" not in text]
    pyarrow.parquet.write_table(pa.table({"text": plain, "label": range(len(plain))}), tmp_path / "p.parquet")
    chosen = {"ngrams": "word:1-2", "case": case, "accents": accents, "text": "text"}
    split_rows([tmp_path / "p.parquet"], tmp_path / "s.h5", SplitSettings(options=chosen))
    rows = in_source_order(tmp_path / "s.h5")
    stripped = "unicode" if accents == "strip" else None
    theirs = CountVectorizer(ngram_range=(1, 2), lowercase=case == "lower", strip_accents=stripped)
    counts = theirs.fit_transform(plain)
    assert len({id_ for row in rows for id_ in row[1]}) == counts.shape[1]
    assert [sorted(row[2]) for row in rows] == [sorted(counts[k].data.tolist()) for k in range(len(plain))]


def test_texts_of_csv_may_have_line_breaks(tmp_path, succeeds):
    """In pieces of whatever size, as Python's csv module reads them."""
    texts = [f'one\n"two" {k}\n\nthree, {k % 5}' if k % 3 else f"plain {k % 7}" for k in range(3000)]
    with open(tmp_path / "t.csv", "w", newline="") as file:
        csv.writer(file).writerows([("id", "text", "label"), *((k, text, k % 2) for k, text in enumerate(texts))])
    table = pa.table({"text": texts, "label": [k % 2 for k in range(3000)]})
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    rows = {}
    for name in ("t.csv", "t.parquet"):
        options = {"text": "text", "ngrams": "char:1-3"}
        split_rows([tmp_path / name], tmp_path / f"{name}.h5", SplitSettings(options=options, memory=30_000_000))
        rows[name] = in_source_order(tmp_path / f"{name}.h5")
    assert rows["t.csv"] == rows["t.parquet"]
    succeeds("train", tmp_path / "t.csv.h5", tmp_path / "m.h5", "--max-outer", "1", "--tol", "1")
    succeeds("predict", tmp_path / "m.h5", tmp_path / "t.csv", f"{tmp_path}/out/", "--keep", "id,text")
    with open(tmp_path / "out" / "t.csv", newline="") as file:
        assert [(row["id"], row["text"]) for row in csv.DictReader(file)] == [(str(k), t) for k, t in enumerate(texts)]


def test_folders_are_classes(tmp_path, succeeds, refusal, monkeypatch):
    rows = sorted(zip(LABELS, range(5), BODIES, strict=True))
    for label, k, text in rows:
        (tmp_path / "c" / label).mkdir(parents=True, exist_ok=True)
        (tmp_path / "c" / label / f"{k}.txt").write_bytes(text.encode("latin1"))
    (tmp_path / "c" / "good" / ".hidden").write_bytes(b"\xff")
    given = "split", tmp_path / "c", tmp_path / "s.h5"
    assert "c/good/3.txt: the text is not utf-8" in refusal(*given, "--format", "folders")
    assert "say --format folders" in refusal(*given)
    (tmp_path / "d.txt").write_text("".join(f"{label}\t{text}\n" for label, _, text in rows))
    expected, labels, _ = stored(tmp_path, "d.txt", {})
    chosen = SplitSettings(format="folders", options=NGRAMS | {"encoding": "latin1"}, normalize="l2", overwrite=True)
    listed = []
    parts_of = file_reader.parts_of
    monkeypatch.setattr(file_reader, "parts_of", lambda name: listed.append(name) or parts_of(name))
    meta = split_rows([tmp_path / "c"], tmp_path / "s.h5", chosen)
    assert listed == [str(tmp_path / "c")]  # once, so that its rows, its size and its fingerprint are of the same files
    assert [row[1:] for row in in_source_order(tmp_path / "s.h5")] == expected
    assert [(label, n) for label, n in meta.labels] == [("bad", 2), ("good", 3)]
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5", "-C", "100")
    (tmp_path / "c" / "alone.txt").write_text("so so, so")
    told = succeeds("predict", tmp_path / "m.h5", tmp_path / "c", "--format", "folders")
    assert told.out.split() == ["bad", *labels] and "5 of 5" in told.err


SETS = [("a", "b"), ("a",), (), ("c",)]


def test_sets_of_labels(tmp_path):
    texts = ["one two", "two", "three", "four five"]
    (tmp_path / "f.txt").write_text(
        "".join(
            " ".join([*(f"__label__{label}" for label in set_), text]) + "\n"
            for set_, text in zip(SETS, texts, strict=True)
        )
    )
    objects = [{"text": text, "label": list(set_)} for set_, text in zip(SETS, texts, strict=True)]
    (tmp_path / "j.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects))
    pyarrow.parquet.write_table(pa.Table.from_pylist(objects), tmp_path / "t.parquet")
    rows = {}
    for name in ("f.txt", "j.jsonl", "t.parquet"):
        options = {"text": "text"} if name == "t.parquet" else {}
        meta = split_rows([tmp_path / name], tmp_path / "s.h5", SplitSettings(options=options, overwrite=True))
        found = in_source_order(tmp_path / "s.h5")
        rows[name] = [(None if np.isnan(y) else meta.labels[int(y)][0], *row) for y, *row in found]
    assert rows["j.jsonl"] == rows["t.parquet"] and [row[0] for row in rows["j.jsonl"]] == SETS
    assert [row[1:] for row in rows["f.txt"]] == [row[1:] for row in rows["j.jsonl"]]
    assert [row[0] for row in rows["f.txt"]] == [*SETS[:2], None, SETS[3]]  # as fastText has it, that has no label


def test_bad_lines_are_skipped_counted_and_told(tmp_path, succeeds, refusal):
    good = [json.dumps({"text": f"word{k % 3} x{k}", "label": "ab"[k % 2]}) for k in range(200)]
    bad = ['{"text": 5}', "[1]", '{"text": "a", "label": ["b"]}', "{"]
    lines = [*good[:90], *bad[:3], *good[90:], bad[3]]
    (tmp_path / "good.jsonl").write_text("\n".join(good))
    (tmp_path / "bad.jsonl").write_text("\n".join(lines))
    assert f"{tmp_path}/bad.jsonl:91: " in refusal("split", tmp_path / "bad.jsonl", tmp_path / "b.h5")
    told = succeeds("split", tmp_path / "bad.jsonl", tmp_path / "b.h5", "--skip-bad")
    assert "malformed lines that were skipped: 4 (the first, the key text has a number" in told.err + told.out
    succeeds("split", tmp_path / "good.jsonl", tmp_path / "g.h5")
    assert in_source_order(tmp_path / "b.h5") == in_source_order(tmp_path / "g.h5")
    succeeds("train", tmp_path / "g.h5", tmp_path / "m.h5")
    whole = succeeds("predict", tmp_path / "m.h5", tmp_path / "good.jsonl")
    skipped = succeeds("predict", tmp_path / "m.h5", tmp_path / "bad.jsonl", "--skip-bad")
    assert skipped.out == whole.out and f"at {tmp_path}/bad.jsonl:91" in skipped.err.replace("\n", " ")
    given = tmp_path / "m.h5", tmp_path / "bad.jsonl", f"{tmp_path}/out/"
    succeeds("predict", *given, "--skip-bad", "--keep", "text")
    texts = [json.loads(line)["text"] for line in (tmp_path / "out" / "bad.jsonl").read_text().splitlines()]
    assert texts == [json.loads(line)["text"] for line in good]


def test_wrong_columns(tmp_path, refusal):
    files_of(tmp_path)
    for options, sentence in [
        (("--text", "boody"), "the column boody, which --text names, is not there; the columns are body, n, y, title"),
        (("--text", "n"), "the column n, which --text names, is of the type int64; texts are strings"),
        (("--text", "y"), "is that of the labels"),
        (("--ngrams", "word:1"), "--ngrams: is of texts; name their columns by --text"),
    ]:
        assert sentence in refusal("split", tmp_path / "t.parquet", tmp_path / "s.h5", "--label", "y", *options)
