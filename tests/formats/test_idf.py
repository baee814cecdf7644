"""tf-idf: values of scikit-learn's TfidfVectorizer, in stores, held-out rows, predicted text and streams."""

import h5py
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from support.stored_rows import in_source_order
from support.stream_cases import learned
from support.training_cases import svmlight

from blocksvm import InputError, load_model, open_store
from blocksvm.conversion.convert import SplitSettings, settings_of_store, split_rows
from blocksvm.streaming.stream_saving import save_stream

WORDS = [f"w{i}" for i in range(30)]


def documents(n: int, seed: int, words: list[str] = WORDS) -> list[str]:
    rng = np.random.default_rng(seed)
    chances = 1.0 / np.arange(1, len(words) + 1)
    return [" ".join(rng.choice(words, rng.integers(0, 12), p=chances / chances.sum())) for _ in range(n)]


TEXT, NEW = documents(150, 1), documents(40, 2, [*WORDS, "unseen", "never"])
LABELS = np.where([text.count("w0") + text.count("w2") > 1 for text in TEXT], 1, -1)


def saved(path, texts, labels) -> str:
    path.write_text("".join(f"{label}\t{text}\n" for label, text in zip(labels, texts, strict=True)))
    return str(path)


@pytest.fixture
def corpus(tmp_path):
    return saved(tmp_path / "text.tsv", TEXT, LABELS)


@pytest.fixture
def new(tmp_path):
    return saved(tmp_path / "new.tsv", NEW, np.tile([1, -1], 20))


GIVEN = {"format": "documents", "options": {"ngrams": "word:1-2"}, "normalize": "l2", "idf": "smooth"}


def dense(path, vocabulary: dict) -> np.ndarray:
    """The rows of a store in their first order, by the columns of a vocabulary."""
    found = []
    with open_store(path) as store:
        columns = [vocabulary[name] for name in store.feature_names(0, store.n_features)]
        place = dict(zip(store.feature_ids(0, store.n_features).tolist(), columns, strict=True))
    for _, ids, values in in_source_order(path):
        row = np.zeros(len(vocabulary))
        row[[place[i] for i in ids]] = values
        found.append(row)
    return np.array(found)


def sizes(path):
    with open_store(path) as store:
        rows = np.concatenate([store.read_rows(k) for k in range(len(store.chunks))])
        return rows["sq_norm"][np.argsort(rows["source"])], store.max_norm


@pytest.mark.parametrize(
    ("idf", "normalize", "least", "dtype"), [("smooth", "l2", 4, "float32"), ("plain", "none", 1, "float64")]
)
def test_values_are_those_of_scikit_learn(idf, normalize, least, dtype, corpus, new, tmp_path):
    theirs = TfidfVectorizer(ngram_range=(1, 2), smooth_idf=idf == "smooth", min_df=least,
                             norm="l2" if normalize == "l2" else None)  # fmt: skip
    expected = theirs.fit_transform(TEXT).toarray()
    store, like = tmp_path / "s.h5", tmp_path / "like.h5"
    given = GIVEN | {"idf": idf, "normalize": normalize, "dtype": dtype}
    split_rows([corpus], store, SplitSettings(**given, min_count=least, memory=20_000_000, chunk_nonzeros=60))
    close = {"rtol": 1e-6 if dtype == "float32" else 1e-12}
    np.testing.assert_allclose(dense(store, theirs.vocabulary_), expected, **close)
    squares, largest = sizes(store)
    np.testing.assert_allclose(squares, (expected**2).sum(axis=1), **close)
    assert largest == pytest.approx(np.sqrt(squares.max()))
    # other rows are read as these were
    split_rows([new], like, settings_of_store(store, {}, like=True))
    np.testing.assert_allclose(dense(like, theirs.vocabulary_), theirs.transform(NEW).toarray(), **close)


def test_rows_held_out_have_the_idf_of_the_others(corpus, tmp_path):
    store, held = tmp_path / "s.h5", tmp_path / "h.h5"
    split_rows([corpus], store, SplitSettings(**GIVEN, holdout=0.4, dtype="float64"), held)
    sources = []
    for path in (store, held):
        with open_store(path) as found:
            sources.append(np.sort(np.concatenate([found.read_rows(k)["source"] for k in range(len(found.chunks))])))
    assert 30 < len(sources[1]) < 90
    theirs = TfidfVectorizer(ngram_range=(1, 2)).fit([TEXT[i] for i in sources[0]])
    for path, rows in zip((store, held), sources, strict=True):
        expected = theirs.transform([TEXT[i] for i in rows]).toarray()
        np.testing.assert_allclose(dense(path, theirs.vocabulary_), expected, rtol=1e-12)


def test_hashed_counts_of_any_format(tmp_path):
    """Of svmlight text whose ids meet in 16 places, as TfidfTransformer's."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, (40, 60)) * (rng.random((40, 60)) < 0.2)
    text, raw, store = tmp_path / "t.svm", tmp_path / "raw.h5", tmp_path / "s.h5"
    text.write_text(svmlight(csr_matrix(counts), np.arange(40) % 2))
    split_rows([str(text)], raw, SplitSettings(bits=4))
    split_rows([str(text)], store, SplitSettings(bits=4, idf="smooth", normalize="l2"))
    plain, weighed = (np.zeros((40, 16)) for _ in range(2))
    for path, out in ((raw, plain), (store, weighed)):
        for r, (_, ids, values) in enumerate(in_source_order(path)):
            out[r, ids] = values
    np.testing.assert_allclose(weighed, TfidfTransformer().fit_transform(plain).toarray(), rtol=1e-6)


@pytest.mark.slow
def test_from_text_to_predictions_and_on(corpus, new, tmp_path, succeeds, refusal):
    store, model, like = tmp_path / "s.h5", tmp_path / "m.h5", tmp_path / "like.h5"
    given = ("--format", "documents", "--idf", "smooth", "--normalize", "l2", "--dtype", "float64")
    succeeds("split", corpus, store, *given)
    assert "idf smooth" in succeeds("info", store).out
    succeeds("split", new, like, "--like", store)
    succeeds("train", store, model, "--valid", like, "--tol", "1e-6")
    theirs = TfidfVectorizer().fit(TEXT)
    loaded = load_model(model)
    with open_store(store) as opened:
        names = dict(zip(opened.feature_ids(0, opened.n_features).tolist(),
                         opened.feature_names(0, opened.n_features), strict=True))  # fmt: skip
    w = np.zeros(len(theirs.vocabulary_))
    for i, weight in zip(loaded.feature_ids.tolist(), loaded.weights.tolist(), strict=True):
        w[theirs.vocabulary_[names[i]]] = weight
    for source, other in ((new, NEW), (corpus, TEXT), (like, NEW), (store, TEXT)):
        _, out, err = succeeds("predict", model, source, "--scores")
        assert "note:" not in err
        np.testing.assert_allclose(np.float64(out.split()), theirs.transform(other) @ w, rtol=1e-9, atol=1e-12)
    # a store whose rows were weighed by what was counted on themselves
    succeeds("split", new, tmp_path / "own.h5", *given)
    err = succeeds("predict", model, tmp_path / "own.h5").err
    assert "note: the model's values were multiplied by other factors" in err and f"split it with --like {store}" in err
    # what is added to a store is weighed by its idf; a store that has another's is not added to
    succeeds("split", new, store, "--append")
    assert [row[1:] for row in in_source_order(store)[150:]] == [row[1:] for row in in_source_order(like)]
    assert "note:" not in succeeds("predict", model, store, "--scores").err
    assert f"has the idf of {store}" in refusal("split", new, like, "--append")
    told = refusal("split", new, tmp_path / "x.h5", "--like", store, "--idf", "plain")
    assert "was split with --idf smooth, but plain is given now" in told


def test_a_stream_goes_on_with_the_models_idf(corpus, new, tmp_path, succeeds):
    store, model, later = tmp_path / "s.h5", tmp_path / "m.h5", tmp_path / "later.h5"
    split_rows([corpus], store, SplitSettings(**GIVEN, keep_order=True))
    succeeds("train", store, model, "--learner", "pa1", "--order", "stored")
    stream, _ = learned(new, "", start_from=model)
    save_stream(later, stream)
    # the same as the learner over a store of all rows that is weighed so
    succeeds("split", new, store, "--append")
    both = tmp_path / "both.h5"
    succeeds("train", store, both, "--learner", "pa1", "--order", "stored")
    order = [np.argsort(load_model(path).feature_ids) for path in (later, both)]
    own, other = (load_model(path).weights[o] for path, o in zip((later, both), order, strict=True))
    np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-9)
    assert own.shape == load_model(model).weights.shape and not np.allclose(own, 0)
    # and its model reads text in the same way
    scores = [succeeds("predict", path, new, "--scores").out.split() for path in (later, both)]
    np.testing.assert_allclose(*np.float64(scores), rtol=1e-5, atol=1e-7)


def test_what_is_wrong(corpus, tmp_path, succeeds, refusal):
    store, model = tmp_path / "s.h5", tmp_path / "m.h5"
    with pytest.raises(InputError, match="idf=log: choose one of none, smooth, plain"):
        split_rows([corpus], store, SplitSettings(**GIVEN | {"idf": "log"}))
    (tmp_path / "big.svm").write_text("1 1:1 2:1\n-1 1:1 3:3e38\n1 1:1\n")
    with pytest.raises(InputError, match="row 2: values times their features' factors lie beyond float32"):
        split_rows([str(tmp_path / "big.svm")], store, SplitSettings(idf="smooth"))
    assert not store.exists()
    split_rows([corpus], store, SplitSettings(**GIVEN))
    succeeds("train", store, model)
    for path in (store, model):
        with h5py.File(path, "r+") as file:
            del file["features/idf"]
    assert "/features/idf: is missing or damaged" in refusal("predict", model, corpus)
    more = saved(tmp_path / "more.tsv", TEXT, LABELS)
    assert "/features/idf: is missing or damaged" in refusal("split", more, store, "--append")
