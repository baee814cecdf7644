"""Features times their idf, or scaled by their largest value or their deviation: values are scikit-learn's, in stores,
held-out rows, predicted text and streams."""

import json

import h5py
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from support.stored_rows import in_source_order
from support.stream_cases import learned
from support.training_cases import svmlight

import blocksvm
from blocksvm import InputError, load_model, open_store
from blocksvm.conversion.convert import SplitSettings, settings_of_store, split_rows
from blocksvm.store.arrays import read_factors
from blocksvm.streaming.stream_saving import save_stream

WORDS = [f"w{i}" for i in range(30)]
GIVEN = {"format": "documents", "options": {"ngrams": "word:1-2"}, "normalize": "l2", "idf": "smooth"}


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


def numbers(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(X, y): columns of very different size, most of them with zeros; one that is far from 0, one that is constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.7)
    y = np.where(X @ [1.0, -2.0, 0.5, 1.0, -1.0, 1.0] + 0.1 * rng.normal(size=n) > 0, 1, -1)
    return np.column_stack([X * [1e-3, 1.0, 1e2, 1e4, 1e6, 3.0], rng.normal(2000.0, 1.0, n), np.full(n, 7.0)]), y


def text_of(path, X: np.ndarray, y: np.ndarray) -> str:
    path.write_text(svmlight(csr_matrix(X), y))
    return str(path)


def dense(path, n: int, first: int = 1) -> np.ndarray:
    """The rows of a store in their first order, of so many features from the first id on."""
    rows = np.zeros((len(found := in_source_order(path)), first + n))
    for row, (_, ids, values) in zip(rows, found, strict=True):
        row[np.asarray(ids, int)] = values
    return rows[:, first:]


def by_name(path, vocabulary: dict) -> np.ndarray:
    """Likewise, by the columns of a vocabulary."""
    rows = np.zeros((len(found := in_source_order(path)), len(vocabulary)))
    with open_store(path) as store:
        columns = [vocabulary[name] for name in store.feature_names(0, store.n_features)]
        place = dict(zip(store.feature_ids(0, store.n_features).tolist(), columns, strict=True))
    for row, (_, ids, values) in zip(rows, found, strict=True):
        row[[place[i] for i in ids]] = values
    return rows


def assert_rows(folder, settings, texts, wanted, read, close) -> None:
    """A store of the first text has these rows, with their sizes; other rows are read as these were."""
    store, like = folder / "s.h5", folder / "like.h5"
    split_rows([texts[0]], store, SplitSettings(**settings, memory=20_000_000, chunk_nonzeros=60))
    split_rows([texts[1]], like, settings_of_store(store, {}, like=True))
    for path, expected in zip((store, like), wanted, strict=True):
        np.testing.assert_allclose(read(path), expected, rtol=close)
    with open_store(store) as found:
        rows = np.concatenate([found.read_rows(k) for k in range(len(found.chunks))])
        squares = rows["sq_norm"][np.argsort(rows["source"])]
        np.testing.assert_allclose(squares, (wanted[0] ** 2).sum(axis=1), rtol=2 * close)
        assert found.max_norm == pytest.approx(np.sqrt(squares.max()))


@pytest.mark.parametrize(
    ("idf", "normalize", "least", "dtype"), [("smooth", "l2", 4, "float32"), ("plain", "none", 1, "float64")]
)
def test_values_are_those_of_scikit_learn(idf, normalize, least, dtype, corpus, new, tmp_path):
    theirs = TfidfVectorizer(ngram_range=(1, 2), smooth_idf=idf == "smooth", min_df=least,
                             norm="l2" if normalize == "l2" else None)  # fmt: skip
    wanted = theirs.fit_transform(TEXT).toarray(), theirs.transform(NEW).toarray()
    settings = GIVEN | {"idf": idf, "normalize": normalize, "dtype": dtype, "min_count": least}
    close = 1e-6 if dtype == "float32" else 1e-12
    assert_rows(tmp_path, settings, (corpus, new), wanted, lambda path: by_name(path, theirs.vocabulary_), close)


def scaled(kind: str, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(factors, values) in plain numpy, which are scikit-learn's."""
    divisors = np.abs(X).max(axis=0) if kind == "max-abs" else np.sqrt(((X - X.mean(axis=0)) ** 2).mean(axis=0))
    divisors = np.where(divisors == 0.0, 1.0, divisors)
    theirs = MaxAbsScaler() if kind == "max-abs" else StandardScaler(with_mean=False)
    np.testing.assert_allclose(divisors, theirs.fit(X).scale_, rtol=1e-12)
    return 1.0 / divisors, X / divisors


@pytest.mark.parametrize(
    ("kind", "dtype", "close"),
    [("max-abs", "float32", 2e-7), ("deviation", "float32", 2e-7), ("deviation", "float64", 1e-12)],
)
def test_factors_and_scaled_values_are_those_of_scikit_learn(kind, dtype, close, tmp_path):
    rows = [(X.astype(dtype).astype(float), y) for X, y in (numbers(150, 1), numbers(40, 2))]
    factors, values = scaled(kind, rows[0][0])
    texts = [text_of(tmp_path / f"{k}.svm", *given) for k, given in enumerate(rows)]
    wanted = values, rows[1][0] * factors
    assert_rows(tmp_path, {"scale": kind, "dtype": dtype}, texts, wanted, lambda path: dense(path, 8), close)
    with open_store(tmp_path / "s.h5") as opened:
        order = np.argsort(opened.feature_ids(0, opened.n_features))
        np.testing.assert_allclose(read_factors(opened.file, opened.n_features)[order], factors, rtol=1e-12)


def test_features_of_ones_and_of_zeros(tmp_path):
    """Rows all of whose values are 1; a value of 0 that the text has."""
    (tmp_path / "ones.svm").write_text("1 1:1 2:1\n-1 1:1\n1 1:1\n-1 1:1\n")
    split_rows(tmp_path / "ones.svm", tmp_path / "ones.h5", SplitSettings(scale="deviation", dtype="float64"))
    expected = [[1.0, 1.0 / np.sqrt(3 / 16)], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    np.testing.assert_allclose(dense(tmp_path / "ones.h5", 2), expected, rtol=1e-12)
    (tmp_path / "zero.svm").write_text("1 1:4 2:0\n-1 1:-8\n1 1:2\n")
    for kind, divisor in (("max-abs", 8.0), ("deviation", np.std([4, -8, 2]))):
        split_rows(tmp_path / "zero.svm", tmp_path / f"{kind}.h5", SplitSettings(scale=kind, dtype="float64"))
        found = dense(tmp_path / f"{kind}.h5", 2)
        np.testing.assert_allclose(found, np.array([[4, 0], [-8, 0], [2, 0]]) / divisor, rtol=1e-12)


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
        np.testing.assert_allclose(by_name(path, theirs.vocabulary_), expected, rtol=1e-12)


def test_hashed_counts_of_any_format(tmp_path):
    """Of svmlight text whose ids meet in 16 places, as TfidfTransformer's."""
    rng = np.random.default_rng(0)
    counts = rng.integers(0, 3, (40, 60)) * (rng.random((40, 60)) < 0.2)
    text = text_of(tmp_path / "t.svm", counts, np.arange(40) % 2)
    split_rows([text], tmp_path / "raw.h5", SplitSettings(bits=4))
    split_rows([text], tmp_path / "s.h5", SplitSettings(bits=4, idf="smooth", normalize="l2"))
    plain, weighed = (dense(tmp_path / name, 16, 0) for name in ("raw.h5", "s.h5"))
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


@pytest.mark.parametrize("kind", ["--scale max-abs", "--idf smooth --bits 20"])
def test_features_that_have_no_factor_are_counted(kind, tmp_path, succeeds):
    """What was not counted when the store was made is left out, and said, once a change."""
    (tmp_path / "a.svm").write_text("1 1:4 2:1\n-1 1:-8\n")
    (tmp_path / "b.svm").write_text("1 1:4 7:1 9:2\n-1 7:-8\n1 11:2 2:1\n")
    (tmp_path / "c.svm").write_text("1 1:3\n")
    store, factor = tmp_path / "s.h5", kind.split()[0][2:]
    succeeds("split", tmp_path / "a.svm", store, *kind.split())
    noted = f"note: new features left out: 3 ({store} has no {factor} for them"
    told = " ".join(succeeds("split", tmp_path / "b.svm", store, "--append").out.split())
    assert f"{noted}; split all rows anew to learn them)" in told
    (tmp_path / "b.svm").rename(tmp_path / "d.svm")
    told = succeeds("split", tmp_path / "d.svm", store, "--append", "--json").out
    assert json.loads(told)["features_left_out"] == 3
    assert "left out:" not in succeeds("split", tmp_path / "c.svm", store, "--append").out
    told = succeeds("split", tmp_path / "d.svm", tmp_path / "l.h5", "--like", store).out
    assert f"{noted})" in " ".join(told.split())


def test_a_table_of_raw_numbers_reaches_the_tolerance(tmp_path, run_in_process):
    X, y = numbers(400, 4)
    lines = ["label,a,b,c,d,e,f", *(",".join(map(repr, [t, *row])) for t, row in
             zip(y.tolist(), X[:, :6].tolist(), strict=True))]  # fmt: skip
    text = tmp_path / "raw.csv"
    text.write_text("\n".join(lines) + "\n")
    for kind in (None, "max-abs", "deviation"):
        blocksvm.write_store(text, tmp_path / "s.h5", scale=kind, overwrite=True)
        with blocksvm.open_store(tmp_path / "s.h5") as store:
            fitted = blocksvm.fit(store, tol=1e-3, max_outer=20)
        assert (fitted.status == "converged") == (kind is not None)
    # split says what to do, of rows that are not scaled yet, and so does the last line of train
    noted = []
    for given in (["--scale", "max-abs"], ["--normalize", "l2"], []):
        done = run_in_process("split", text, tmp_path / "raw.h5", "--overwrite", *given)
        noted.append("note: rows are long (norms up to" in done.out and "--scale max-abs evens them out" in done.out)
    assert noted == [False, False, True]
    done = run_in_process("train", tmp_path / "raw.h5", tmp_path / "m.h5", "--max-outer", "20")
    assert "scale them, by --scale max-abs of split" in done.out


def test_what_is_wrong(corpus, tmp_path, succeeds, refusal):
    store, model = tmp_path / "s.h5", tmp_path / "m.h5"
    for text, settings, says in (
        ("1 1:1\n", {"idf": "log"}, "idf=log: choose one of none, smooth, plain"),
        ("1 1:1\n", {"scale": "range"}, "scale=range: choose one of none, max-abs, deviation"),
        ("1 1:1\n", {"scale": "max-abs", "idf": "smooth"},
         "scale=max-abs: gives values that are the same with and without idf; leave"),
        ("1 1:1 2:1\n-1 1:1 3:3e38\n1 1:1\n", {"idf": "smooth"},
         "row 2: values times their features' factors lie beyond float32"),
        ("".join(f"{(-1) ** k} 1:1 3:{(-1) ** k}e154\n" for k in range(9)), {"scale": "deviation", "dtype": "float64"},
         "feature 3: the squares of its values exceed float64; use scale=max"),
    ):  # fmt: skip
        (tmp_path / "t.svm").write_text(text)
        with pytest.raises(InputError, match=says):
            split_rows(tmp_path / "t.svm", store, SplitSettings(**settings))
        assert not store.exists()
    split_rows(tmp_path / "t.svm", store, SplitSettings(scale="max-abs", dtype="float64"))
    assert dense(store, 3)[:, 2].tolist() == [(-1.0) ** k for k in range(9)]
    split_rows(text_of(tmp_path / "t.svm", *numbers(150, 1)), store, SplitSettings(scale="max-abs", overwrite=True))
    (tmp_path / "far.svm").write_text("1 1:3e38\n")
    with pytest.raises(InputError, match=r"far.svm:1: values times their features' factors lie beyond float32"):
        split_rows(tmp_path / "far.svm", tmp_path / "far.h5", settings_of_store(store, {}, like=True))
    with h5py.File(store, "r+") as file:
        file["features/idf"][0] = 0.0
    with pytest.raises(InputError, match="features/idf"):
        split_rows(tmp_path / "t.svm", tmp_path / "like.h5", settings_of_store(store, {}, like=True))
    split_rows([corpus], store, SplitSettings(**GIVEN, overwrite=True))
    succeeds("train", store, model)
    for path in (store, model):
        with h5py.File(path, "r+") as file:
            del file["features/idf"]
    assert "/features/idf: is missing or damaged" in refusal("predict", model, corpus)
    more = saved(tmp_path / "more.tsv", TEXT, LABELS)
    assert "/features/idf: is missing or damaged" in refusal("split", more, store, "--append")
