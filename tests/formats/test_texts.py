"""Texts in any form make the same rows: documents, fastText's lines, JSON lines, columns of tables, whose n-grams are
the oracle's and scikit-learn's; from text to predictions; what is wrong is told with its line."""

import csv
import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference_formats import ngrams_of
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from support import parsed_text
from support.stored_rows import in_source_order

from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.formats import file_reader
from blocksvm.formats.kernels.ngrams import LETTER
from blocksvm.formats.ngram_features import LAST_LETTER, characters
from blocksvm.formats.text.documents import DOCUMENTS
from blocksvm.model.model_file import load_model
from blocksvm.store.descriptions import as_json
from blocksvm.store.recipe import Recipe

# letters of one to four bytes in either case, with lower cases of other lengths, marks, blanks of all kinds
PARTS = ["good", "Bad", "a", " ", "  ", "\t", "_", "é", "É", "Ⱥ", "\u212a", "ﬁ", "\u0301", "字", "𐐀", "Ⓐ", "\x00",
         "\x85", "\u2003", "7", ".", "²"]  # fmt: skip
texts = st.lists(st.sampled_from(PARTS), max_size=25).map("".join)


def parse(data: bytes, ngrams: str, normalize="none", labelled=True, named=True, **options):
    recipe = Recipe("documents", normalize=normalize, options={"ngrams": ngrams, **options})
    return parsed_text.parse(DOCUMENTS, data, recipe, b"x\ty\n", labelled=labelled, named=named)


def rows_of(batch) -> list[list[tuple[str, float]]]:
    return [entries for _, entries in parsed_text.rows_of(batch)]


analyzers = st.sampled_from(["word", "char", "char_wb"])


@given(st.lists(texts, min_size=1, max_size=4), analyzers, st.integers(1, 3), st.integers(0, 3))
@example(["  ", "", "a", "ab"], "char_wb", 3, 2)
def test_ngrams_are_the_oracles_and_those_of_scikit_learn(documents, analyzer, low, more):
    lines = "".join(f"1\t{document}\n" for document in documents).encode()
    batch = parse(lines, f"{analyzer}:{low}-{low + more}")
    assert batch.fault is None and batch.origin.records.tolist() == list(range(len(documents)))
    theirs = CountVectorizer(analyzer=analyzer, ngram_range=(low, low + more)).build_analyzer()
    for document, row in zip(documents, rows_of(batch), strict=True):
        expected = ngrams_of(document, analyzer, low, low + more)
        assert dict(row) == expected and len(row) == len(expected)
        assert expected == {span: theirs(document).count(span) for span in set(theirs(document))}
    # an n-gram has one id, wherever it occurs, and another one has another
    names = [name for row in rows_of(batch) for name, _ in row]
    assert len(set(names)) == len(set(batch.ids.tolist())) == len(set(zip(names, batch.ids.tolist(), strict=True)))
    plain = parse(lines, f"{analyzer}:{low}-{low + more}", named=False)
    assert plain.ids.tolist() == batch.ids.tolist() and plain.values.tolist() == batch.values.tolist()


def test_every_character_is_what_python_says():
    kinds, lower = characters()
    beyond = map(chr, range(LAST_LETTER, 0x110000))
    assert not any(c.isalnum() or c.isspace() or c.lower() != c for c in beyond)
    for c in map(chr, (*range(0x3000), 0xFB01, 0x10400, 0x1F130, 0x323AF)):
        small = c.lower()[0]
        assert chr(lower[ord(c)]) == small
        assert (kinds[ord(c)] == LETTER) == (small.isalnum() or small == "_")


def test_norms_are_those_of_scikit_learn():
    documents = ["good good film", "a bad bad bad film", "", "film film"]
    batch = parse("".join(f"1\t{d}\n" for d in documents).encode(), "word:1-2", "l2")
    theirs = HashingVectorizer(ngram_range=(1, 2), alternate_sign=False, n_features=2**20).transform(documents)
    for r, row in enumerate(rows_of(batch)):
        own = np.sort([value for _, value in row])
        np.testing.assert_array_equal(own, np.sort(theirs[r].data).astype(np.float32))
    assert batch.largest == pytest.approx(1.0)
    # of several kinds, the same words are features of their own
    both = parse(b"1\tab\n", "word:1,char:2,char_wb:4")
    assert [name for name, _ in rows_of(both)[0]] == ["ab", "ab", " ab "] and len(set(both.ids.tolist())) == 3


def test_a_long_document_among_short_ones():
    """Its table grows while it holds entries of a first kind."""
    words = [f"word{i % 700}" for i in range(3000)]
    lines = b"1\tab\n2\t" + " ".join(words).encode() + b"\n3\tab\n"
    (_, row, last) = rows_of(parse(lines, "word:1-2,char:2"))
    expected = ngrams_of(" ".join(words), "word", 1, 2) | ngrams_of(" ".join(words), "char", 2, 2)
    assert len(row) == len(expected) and dict(row) == expected
    assert last == [("ab", 1.0)] * 2


@pytest.mark.parametrize("wrong", [b"\xff", b"\xc3", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82"])
def test_text_that_is_not_utf8_is_a_fault(wrong):
    for ngrams in ("word:1", "char:2", "char_wb:2"):
        batch = parse(b"1\tab\n\n1\tab " + wrong + b"\n", ngrams)
        assert len(batch) == 1 and batch.fault[0] == 2 and "is not UTF-8" in batch.fault[1]


def test_labels(tmp_path):
    lines = b"1\tab\r\n-0\tcd\n\tef\n  \n1e2\t\n"
    labels = parse(lines, "word:1").labels
    np.testing.assert_array_equal(labels, [1.0, 0.0, np.nan, 100.0])
    for line in (b"x\tab\n", b"nan\tab\n", b"1_0\tab\n"):
        batch = parse(b"1\tab\n" + line, "word:1")
        assert len(batch) == 1 and batch.fault[0] == 1 and "is not a finite number" in batch.fault[1]
    alone = parse(b"1 ab\n\n2\tcd ef\n", "word:1", labelled=False)
    np.testing.assert_array_equal(alone.labels, [np.nan, 2.0])
    assert rows_of(alone) == [[("ab", 1.0)], [("cd", 1.0), ("ef", 1.0)]]
    assert DOCUMENTS.settled({}, b"\n\nspam\tx\n", "f")["words"] is True
    kept = {"ngrams": "char:2", "case": "lower", "accents": "keep", "words": False}
    assert DOCUMENTS.settled({"ngrams": "char:2"}, b"3\tx\n", "f") == kept
    words = parse(b"spam\tab\n\tcd\nham egg\tx\n", "word:1", words=True)
    assert words.label_array().tolist() == ["spam", None, "ham egg"]
    assert "is not UTF-8" in parse(b"\xff\tab\n", "word:1", words=True).fault[1]


@pytest.mark.parametrize("ngrams", ["words:1", "word", "word:0-2", "word:3-2", "word:1-99", "word:1,word:2", "word:1-"])
def test_wrong_ngrams(ngrams, tmp_path, refusal):
    (tmp_path / "d.tsv").write_text("1\tab\n")
    given = tmp_path / "d.tsv", tmp_path / "s.h5", "--format", "documents", "--ngrams", ngrams
    assert f"--ngrams {ngrams}" in refusal("split", *given) and not (tmp_path / "s.h5").exists()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """Reviews with labels that are words."""
    random = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("corpus") / "reviews.tsv"
    lines = []
    for i in range(300):
        words = [f"w{k}" for k in random.zipf(1.6, 12) if k < 500]
        words[len(words) // 2 : 0] = [["Not good", "very Good"][i % 2]]
        lines.append(f"{['neg', 'pos'][i % 2]}\t{' '.join(words)}\n")
    path.write_text("".join(lines))
    return path


def test_a_label_with_commas_is_told(tmp_path):
    path = tmp_path / "d.tsv"
    path.write_text("news\ta\nsport,news\tb\nsport,news\tc\n")
    meta = as_json(split_rows([str(path)], tmp_path / "s.h5", SplitSettings(format="documents")))
    (note,) = meta["notes"]
    assert note.startswith("documents whose label has a comma in it, which is one class as a whole (of several")
    assert note.endswith(f": 2 (the first, 'sport,news', at {path}:2)")


def test_from_text_to_predictions(corpus, tmp_path, succeeds, refusal):
    """Of a store, and of a stream, which goes on with the n-grams of a model."""
    store, model, new = tmp_path / "s.h5", tmp_path / "m.h5", tmp_path / "new.txt"
    new.write_text("a VERY good one\nw1 not good w3\n")
    succeeds("split", corpus, store, "--format", "documents", "--ngrams", "word:1-2", "--normalize", "l2")
    succeeds("train", store, model, "--tol", "1e-4")
    recipe = load_model(model).recipe
    assert recipe.format == "documents"
    assert recipe.options == {"ngrams": "word:1-2", "case": "lower", "accents": "keep", "words": True}
    assert succeeds("predict", model, new).out.split() == ["pos", "neg"]
    assert "accuracy 1.0000" in succeeds("predict", model, corpus).err
    told = refusal("split", corpus, store, "--append", "--ngrams", "char:2")
    assert "was split with --ngrams word:1-2, but char:2 is given now" in told
    path, model, bits = tmp_path / "numbers.tsv", tmp_path / "o.h5", ("--bits", "16")
    path.write_text(corpus.read_text().replace("neg\t", "-1\t").replace("pos\t", "1\t"))
    own = ("--format", "documents", "--ngrams", "word:1-2", "--learner", "pa1")
    succeeds("stream", path, *own, *bits, "--model", model)
    assert load_model(model).recipe.options["ngrams"] == "word:1-2"
    assert succeeds("predict", model, new).out.split() == ["1", "-1"]
    more = ("--from", model, *bits, "--test")
    succeeds("stream", path, *more, "--predictions", tmp_path / "p.txt")
    assert (tmp_path / "p.txt").read_text().split() == ["-1", "1"] * 150
    told = refusal("stream", path, *more, "--ngrams", "char:3")
    assert "was learned with --ngrams word:1-2; leave --ngrams out" in told
    path.write_text(path.read_text() + "no tab\n1\tgood\n")
    assert "lines skipped: 1" in succeeds("stream", path, *own, "--skip-bad").out
    told = refusal("stream", path, "--format", "vw", "--ngrams", "char:3")
    assert "--ngrams: the format vw does not accept it" in told


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
    for name, line in (("d.txt", "{}\t{}\n"), ("f.txt", "__label__{} {}\n")):
        (folder / name).write_text("".join(map(line.format, LABELS, joined)))
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
    rows = list(zip(SETS, texts, strict=True))
    lines = [f"{' '.join(f'__label__{label}' for label in own)} {text}\n" for own, text in rows]
    (tmp_path / "f.txt").write_text("".join(lines))
    objects = [{"text": text, "label": list(own)} for own, text in rows]
    (tmp_path / "j.jsonl").write_text("".join(json.dumps(one) + "\n" for one in objects))
    pyarrow.parquet.write_table(pa.Table.from_pylist(objects), tmp_path / "t.parquet")
    stored = {}
    for name in ("f.txt", "j.jsonl", "t.parquet"):
        options = {"text": "text"} if name == "t.parquet" else {}
        meta = split_rows([tmp_path / name], tmp_path / "s.h5", SplitSettings(options=options, overwrite=True))
        found = in_source_order(tmp_path / "s.h5")
        stored[name] = [(None if np.isnan(y) else meta.labels[int(y)][0], *row) for y, *row in found]
    assert stored["j.jsonl"] == stored["t.parquet"] and [row[0] for row in stored["j.jsonl"]] == SETS
    assert [row[1:] for row in stored["f.txt"]] == [row[1:] for row in stored["j.jsonl"]]
    assert [row[0] for row in stored["f.txt"]] == [*SETS[:2], None, SETS[3]]  # as fastText has it, that has no label


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
