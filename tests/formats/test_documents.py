"""Documents: n-grams are the oracle's and scikit-learn's; from text to predictions; every fault has its line."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from reference_formats import ngrams_of
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from support import parsed_text
from support.stored_rows import in_source_order
from support.stream_cases import learned

from blocksvm.conversion.convert import SplitSettings, split_rows
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
    store, model = tmp_path / "s.h5", tmp_path / "m.h5"
    succeeds("split", corpus, store, "--format", "documents", "--ngrams", "word:1-2", "--normalize", "l2")
    succeeds("train", store, model, "--tol", "1e-4")
    recipe = load_model(model).recipe
    assert recipe.format == "documents"
    assert recipe.options == {"ngrams": "word:1-2", "case": "lower", "accents": "keep", "words": True}
    unlabelled = tmp_path / "new.txt"
    unlabelled.write_text("a VERY good one\nw1 not good w3\n")
    assert succeeds("predict", model, unlabelled).out.split() == ["pos", "neg"]
    assert "accuracy 1.0000" in succeeds("predict", model, corpus).err
    # the store's own rows have the same decision values, in the order of the text
    told, stored = (np.float64(succeeds("predict", model, one, "--scores").out.split()) for one in (corpus, store))
    np.testing.assert_allclose(told, stored, rtol=1e-12)
    # rows that are added are read as the others were
    told = refusal("split", corpus, store, "--append", "--ngrams", "char:2")
    assert "was split with --ngrams word:1-2, but char:2 is given now" in told
    (tmp_path / "again.tsv").write_bytes(corpus.read_bytes())
    succeeds("split", tmp_path / "again.tsv", store, "--append")
    rows = in_source_order(store)
    assert [row[1:] for row in rows[:300]] == [row[1:] for row in rows[300:]]


def test_streams(corpus, tmp_path, succeeds, refusal):
    path = tmp_path / "numbers.tsv"
    path.write_text(corpus.read_text().replace("neg\t", "-1\t").replace("pos\t", "1\t"))
    model = tmp_path / "m.h5"
    arguments = ("--format", "documents", "--ngrams", "word:1-2", "--bits", "16", "--learner", "pa1", "--model", model)
    succeeds("stream", path, *arguments)
    assert load_model(model).recipe.options["ngrams"] == "word:1-2"
    (tmp_path / "new.txt").write_text("a VERY good one\nw1 not good w3\n")
    assert succeeds("predict", model, tmp_path / "new.txt").out.split() == ["1", "-1"]
    # a model's learner goes on with its own n-grams
    more = ("--from", model, "--bits", "16", "--test")
    succeeds("stream", path, *more, "--predictions", tmp_path / "p.txt")
    assert (tmp_path / "p.txt").read_text().split() == ["-1", "1"] * 150
    told = refusal("stream", path, *more, "--ngrams", "char:3")
    assert "was learned with --ngrams word:1-2; leave --ngrams out" in told
    path.write_text(path.read_text() + "no tab\n1\tgood\n")
    found, reports = learned(path, "pa1", format="documents", skip_bad=True)
    assert (found.targets.skipped, reports[-1].rows) == (1, 301)
    told = refusal("stream", path, "--format", "vw", "--ngrams", "char:3")
    assert "--ngrams: the format vw does not accept it" in told
