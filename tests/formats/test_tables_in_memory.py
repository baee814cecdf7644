"""Tables and texts in memory, of polars, pandas, DuckDB and pyarrow, batch by batch: the same rows and the same model
as from a file, which predicts such tables again."""

import datetime

import duckdb
import numpy as np
import pandas
import polars
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
from support.stored_rows import in_source_order

import blocksvm


def frame(n: int = 60) -> pandas.DataFrame:
    random = np.random.default_rng(2)
    colours, words = ["red", "green", "blue"], ["good", "bad", "plain", "so so"]
    columns = {
        "y": [["no", "yes"][k % 2] for k in range(n)],
        "size": np.where(np.arange(n) % 7 == 0, np.nan, random.normal(size=n) + np.arange(n) % 2),
        "colour": pandas.Categorical([colours[k % 3] for k in range(n)]),
        "body": [f"{words[k % 2]} and {words[random.integers(4)]}" for k in range(n)],
        "count": random.integers(0, 9, n).astype(np.int8),
    }
    return pandas.DataFrame(columns)


def forms(table: pa.Table, folder) -> dict:
    """The same table as others have it, each readable once."""
    for k in range(3):
        pyarrow.parquet.write_table(table.slice(20 * k, 20), folder / f"{k}.parquet")
    relation = duckdb.connect().from_arrow(table)
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_record_batch
    lazy, in_batches = polars.from_arrow(table).lazy(), hasattr(polars.LazyFrame, "collect_batches")
    batches = lazy.collect_batches(chunk_size=16) if in_batches else lazy.collect().iter_slices(16)
    return {
        "pyarrow": table,
        "batches": iter(table.to_batches(max_chunksize=7)),
        "polars": polars.from_arrow(table),
        "polars, lazily": batches,
        "DuckDB": duckdb.connect().from_arrow(table),
        "DuckDB, by batches": reader(16),
        "dataset": pyarrow.dataset.dataset([str(folder / f"{k}.parquet") for k in range(3)]).to_batches(),
    }


@pytest.mark.parametrize("settings", [{"ignore": "body"}, {"text": "body", "ngrams": "word:1-2"}])
def test_any_table_is_the_same_rows(settings, tmp_path):
    table = pa.Table.from_pandas(frame(), preserve_index=False)
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    blocksvm.write_store(tmp_path / "t.parquet", tmp_path / "file.h5", label="y", **settings)
    expected = in_source_order(tmp_path / "file.h5")
    with blocksvm.open_store(tmp_path / "file.h5") as store:
        fitted = blocksvm.fit(store, C=10.0)
    predicted = frame()["y"].tolist()
    values = None
    for name, given in (forms(table, tmp_path) | {"pandas": frame()}).items():
        blocksvm.write_store(given, tmp_path / "s.h5", label="y", overwrite=True, **settings)
        assert in_source_order(tmp_path / "s.h5") == expected, name
    for name, given in (forms(table, tmp_path) | {"pandas": frame()}).items():
        model = blocksvm.fit(given, label="y", C=10.0, **settings).model
        assert np.array_equal(model.weights, fitted.model.weights), name
        again = forms(table, tmp_path)[name] if name != "pandas" else frame()
        values = model.decision_function(again)
        assert np.array_equal(model.labels, fitted.model.labels) and len(values) == len(predicted)
        assert model.feature_names and model.recipe.options["label"] == "y"
    if "text" in settings:
        assert (model.predict(frame()) == predicted).mean() > 0.8
        assert model.predict(frame()["body"].tolist()).tolist() == model.predict(frame()).tolist()
    fitted.save(tmp_path / "m.h5")
    assert blocksvm.predict_files(tmp_path / "m.h5", frame(), "scores").tolist() == values.tolist()


def test_texts(tmp_path):
    table = frame()
    texts, labels = table["body"].tolist(), table["y"].tolist()
    (tmp_path / "d.txt").write_text("".join(f"{y}\t{text}\n" for y, text in zip(labels, texts, strict=True)))
    blocksvm.write_store(tmp_path / "d.txt", tmp_path / "s.h5", format="documents", ngrams="word:1-2", idf="smooth")
    with blocksvm.open_store(tmp_path / "s.h5") as store:
        expected = blocksvm.fit(store)
    fitted = blocksvm.fit(texts, labels, ngrams="word:1-2", idf="smooth")
    assert np.array_equal(fitted.model.weights, expected.model.weights)
    expected.save(tmp_path / "m.h5")
    of_file = blocksvm.load_model(tmp_path / "m.h5")
    assert fitted.model.predict([]).tolist() == []
    for given in (texts, np.array(texts), table["body"], polars.Series(texts), pa.chunked_array([texts])):
        assert fitted.model.predict(given).tolist() == of_file.predict(given).tolist()
    scores = blocksvm.predict_files(of_file, tmp_path / "d.txt", "scores")
    assert of_file.decision_function(texts).tolist() == scores.tolist()
    # weights of rows: twice is a row that is there twice
    twice = blocksvm.fit(texts + texts[:9], labels + labels[:9], tol=1e-8)
    weighted = blocksvm.fit(texts, labels, sample_weight=np.where(np.arange(60) < 9, 2.0, 1.0), tol=1e-8)
    np.testing.assert_allclose(twice.model.decision_function(texts), weighted.model.decision_function(texts), atol=1e-3)
    sets = blocksvm.fit(texts, [tuple(sorted({y, "all"})) for y in labels], C=100.0)
    assert sets.model.multilabel and sets.model.predict(["good and plain"])[0] == ("all", "no")
    # what the model needs lies in no file of the user's, and goes with it
    fitted.save(tmp_path / "saved.h5")
    folder = fitted.model.folder.path
    values = fitted.model.decision_function(texts)
    del fitted
    assert not (tmp_path / folder).exists()
    assert blocksvm.load_model(tmp_path / "saved.h5").decision_function(texts).tolist() == values.tolist()


def test_what_is_refused(tmp_path):
    (tmp_path / "t.svm").write_text("1 1:1\n0 2:1\n")
    blocksvm.write_store(tmp_path / "t.svm", tmp_path / "s.h5")
    with blocksvm.open_store(tmp_path / "s.h5") as store:
        blocksvm.fit(store).save(tmp_path / "m.h5")
    model = blocksvm.fit(frame(), label="y", text="body").model
    infinite = pa.table({"n": [1.0, np.inf], "label": [1, 0]})
    for call, sentence in (
        (lambda: blocksvm.fit(["a", 5], [0, 1]), "row 1: is int, and texts are strings"),
        (lambda: blocksvm.fit(["a", "b"], ["x", 1]), "labels are all numbers, all strings, or all lists of strings"),
        (lambda: blocksvm.fit(["a", "b"], [0, 1, 1]), "there are 2 texts and 3 labels"),
        (lambda: blocksvm.fit(frame()), "no column is called label; name that of the labels by label"),
        (lambda: blocksvm.fit(frame().assign(took=datetime.timedelta(1)), label="y"),
         r"the column took of the type .* leave it out by ignore"),
        (lambda: model.predict(frame().drop(columns="body")), "the column body, which text names, is not there"),
        (lambda: blocksvm.predict_files(tmp_path / "m.h5", frame()),
         "m.h5: was trained on svmlight, and a table is to be predicted; give fil"),
        (lambda: blocksvm.write_store(infinite, tmp_path / "t.h5"), "the table:2: the value of n is not a finite num"),
        (lambda: blocksvm.write_store(np.eye(3), tmp_path / "t.h5"), "names of files are needed"),
    ):  # fmt: skip
        with pytest.raises(blocksvm.InputError, match=sentence):
            call()
