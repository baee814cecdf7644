"""Files that were written once, by an earlier state of the code, are read as they were then (tests/golden/make.py); and
a model that is saved again is the same file in content."""

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from support.file_cases import content_of_model
from support.paths import GOLDEN

import blocksvm
from blocksvm import InputError, load_model
from blocksvm.exchange.forms import to_estimator

STORES = {"store.h5": "rows.svm", "weighted.h5": "rows.svm", "sets.h5": "sets.svm", "words.h5": "reviews.tsv"}
MODELS = {  # model -> text, options, the least accuracy
    "model.h5": ("rows.svm", (), 0.96),
    "words-model.h5": ("reviews.tsv", ("--probabilities",), 1.0),
    "calibrated.h5": ("rows.svm", ("--probabilities",), 0.93),
    "classes.h5": ("classes.svm", (), 0.8),
    "kernel.h5": ("rows.svm", (), 0.95),
    "learner.h5": ("rows.svm", (), 0.9),
}


@pytest.fixture
def run(tmp_path, monkeypatch, succeeds):
    """run(line): the Outcome of a command beside copies of the files, which ends well."""
    for path in GOLDEN.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return succeeds


def test_they_are_those_that_were_written_first():
    for line in (GOLDEN / "SHA256SUMS").read_text().splitlines():
        told, name = line.split()
        assert hashlib.sha256((GOLDEN / name).read_bytes()).hexdigest() == told, f"{name} is never written again"


@pytest.mark.parametrize("store", STORES)
def test_a_store_has_the_rows_of_its_text(store, run):
    run(f"info {store} --verify --json=info.json")
    more = {"weighted.h5": " --weights weights.txt", "sets.h5": " --format multilabel"}.get(store, "")
    if store == "words.h5":
        more = " --format documents --ngrams word:1-2 --idf smooth --normalize l2"
    run(f"split {STORES[store]} new.h5 --seed 1 --quiet{more}")
    rows = []
    for name in (store, "new.h5"):
        with blocksvm.open_store(name) as opened:
            (block,) = blocksvm.iterate_blocks(opened, memory=10**8)
            order = np.argsort(block.rows, kind="stable")
            matrix = [(block.indices[a:b].tolist(), [] if block.values is None else block.values[a:b].tolist())
                      for a, b in zip(block.indptr[:-1], block.indptr[1:], strict=True)]  # fmt: skip
            weights = None if block.weights is None else block.weights[order].tolist()
            features = opened.feature_ids(0, opened.n_features).tolist(), opened.feature_names(0, opened.n_features)
            rows.append(([matrix[k] for k in order], weights, features, opened.label_counts))
    assert rows[0] == rows[1]


@pytest.mark.parametrize("model", MODELS)
def test_a_model_predicts(model, run):
    text, options, least = MODELS[model]
    run(f"info {model} --verify")
    told = run(f"predict {model} {text} p.txt --overwrite {' '.join(options)}")
    assert float(told.out.split("accuracy ")[1].split()[0]) >= least


def test_scores_are_those_of_then(run):
    run("predict model.h5 rows.svm now.txt --scores --quiet")
    run("import model.liblinear imported.h5")
    run("predict imported.h5 rows.svm imported.txt --scores --quiet")
    then = np.loadtxt("predictions.txt")
    np.testing.assert_allclose(np.loadtxt("now.txt"), then, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(np.loadtxt("imported.txt"), then, rtol=1e-6)  # it takes the text's values as float64
    run("export words-model.h5 now.csv --format table")
    assert Path("now.csv").read_text() == Path("weights.csv").read_text()
    assert to_estimator(load_model("model.h5")).coef_.shape == (1, 13)  # column 0, and ids from 1 to 12


def test_a_checkpoint_goes_on_a_trace_is_drawn_a_structured_model_tags(run):
    same = "--working-set none --schedule 1 --seed 1 --tol 1e-3 --quiet"
    told = run(f"train store.h5 m.h5 --checkpoint checkpoint.h5 --resume {same}")
    assert told.out.startswith("converged")
    run("report trace.jsonl -o report.html --quiet")
    run("stream rows.svm --from learner.h5 --model on.h5 --quiet")
    run("train store.h5 warm.h5 --from model.h5 --bias 1 -C 2 --quiet")
    assert "1.0000" in run("structure evaluate structured.h5 tags.txt").out


def arrays(path: Path) -> dict[str, bytes]:
    """But for the description: those of older versions are written as today's."""
    return {name: value for name, value in content_of_model(path).items() if isinstance(value, bytes)}


@pytest.mark.parametrize("name", MODELS)
def test_a_loaded_model_saved_again_is_the_same(tmp_path, name):
    load_model(GOLDEN / name).save(tmp_path / "again.h5")
    assert arrays(tmp_path / "again.h5") == arrays(GOLDEN / name)
    assert load_model(tmp_path / "again.h5").meta == load_model(GOLDEN / name).meta


def test_a_model_is_saved_over_itself_where_that_is_wanted_but_not_from_another_one(tmp_path):
    load_model(GOLDEN / "model.h5").save(tmp_path / "m.h5")
    model = load_model(tmp_path / "m.h5")
    with pytest.raises(InputError, match="overwrite=True"):
        model.save(tmp_path / "m.h5")
    model.save(tmp_path / "m.h5", overwrite=True)
    assert arrays(tmp_path / "m.h5") == arrays(GOLDEN / "model.h5")
    load_model(GOLDEN / "classes.h5").save(tmp_path / "m.h5", overwrite=True)
    with pytest.raises(InputError, match="no longer the model that was loaded"):
        model.save(tmp_path / "other.h5")
    assert not (tmp_path / "other.h5").exists()


def test_models_in_memory(tmp_path):
    """Of a run, and imported: the same decision values from the file."""
    draw = np.random.default_rng(3)
    X = sparse.random(60, 8, density=0.6, format="csr", random_state=3)
    y = np.where(X @ draw.normal(size=8) > 0, 1, -1)
    models = [blocksvm.fit(X, y, bias=2.0).model, blocksvm.import_model(GOLDEN / "model.liblinear")]
    for number, model in enumerate(models):
        model.save(tmp_path / f"{number}.h5")
        again = load_model(tmp_path / f"{number}.h5")
        np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
        again.save(tmp_path / f"{number}-again.h5")
