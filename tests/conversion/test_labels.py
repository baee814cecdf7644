"""Labels of every kind, from what a user gives to ``y`` and back; a reader for each consumer of the same rows."""

import numpy as np
import pytest
from support.training_cases import make_store, random_rows, train

import blocksvm
from blocksvm import InputError, Matrix
from blocksvm.base.labels import Coding, Labels, label_text
from blocksvm.store.reader import Store


def whole(source):
    return source.read_block(np.arange(len(source.chunks)), None)


@pytest.mark.parametrize(
    ("values", "given", "codes"),
    [
        ((1.0, 2.0), [2.0, 1.0, 3.0, np.nan], [1, -1, 0, 0]),
        ((1.0, 2.0, 5.0), [5.0, 1.0, 3.0, np.nan, 2.0], [2, 0, -1, -1, 1]),
        (("ham", "spam"), ["spam", "ham", "other", None], [1, -1, 0, 0]),
        (("a", "b", "c"), ["c", None, "a", "d"], [2, -1, 0, -1]),
        ((1.0, 2.0), ["1", "2"], [0, 0]),  # a string is no number
        (("1", "2", "3"), [1.0, 2.0], [-1, -1]),
    ],
)
def test_codes_of_labels(values, given, codes):
    assert Labels(values).codes(given).tolist() == codes


def test_a_coding_matches_labels_by_value():
    kept = np.array([0.0, 2.0, np.nan, 1.0])
    own = ("a", "b", "c")
    assert Coding(Labels(("a", "c")), own).y(kept).tolist() == [-1, 1, 0, 0]
    assert Coding(Labels(("b", "c", "z")), own).y(kept).tolist() == [-1, 1, -1, 0]
    assert Coding(Labels((0.0, 2.0)), own).y(kept).tolist() == [0, 0, 0, 0]  # places are not labels
    assert Coding(Labels(("a", "c")), None).y(kept).tolist() == [0, 0, 0, 0]
    assert Coding(None, own).y(kept).tolist() == [0, 0, 0, 0]
    assert Coding(None, own).labels_of_rows(kept).tolist() == ["a", "c", None, "b"]
    real = Coding(None, None, real=True).y(kept)
    assert real.dtype == np.float64
    assert np.array_equal(real, kept, equal_nan=True)


def test_labels_as_text():
    assert [label_text(label) for label in (1.0, -1.0, 0.1, "spam", (1.0, 3.0), ("a", "b"))] == [
        "1", "-1", "0.1", "spam", "1,3", "a,b",
    ]  # fmt: skip


@pytest.mark.parametrize("labels", [(-1.0, 1.0), ("ham", "spam"), (False, True), (3, 10)])
def test_two_labels_of_any_kind_train_the_same_model(labels):
    X, y = random_rows(n=80, seed=3)
    expected = train(Matrix(X, y), schedule="1", max_outer=5, tol=0.0)
    given = np.where(y > 0, labels[1], labels[0])
    fitted = blocksvm.fit(X, given, schedule="1", max_outer=5, tol=0.0)
    assert np.array_equal(fitted.result.w, expected.w)
    predicted = fitted.model.predict(X)
    assert set(predicted.tolist()) <= set(given.tolist())
    assert np.array_equal(predicted == given, (fitted.model.decision_function(X) > 0) == (y > 0))


def test_a_matrix_with_weights_and_rows_without_labels():
    X, y = random_rows(n=12)
    names = np.where(y > 0, "b", "a").astype(object)
    names[3] = None
    weights = np.arange(12.0)
    source = Matrix(X, names, weights=weights)
    assert (source.weighted, source.n_unlabelled, source.label_kind) == (True, 1, "strings")
    assert source.label_counts == [("a", names.tolist().count("a")), ("b", names.tolist().count("b"))]
    assert source.label_weights == [weights[names == label].sum() for label in ("a", "b")]
    assert (source.total_weight, Matrix(X, names).total_weight) == (weights.sum(), 12.0)
    block = whole(source)
    assert block.weights.tolist() == weights.tolist()
    assert block.y[3] == 0
    cut = Matrix(X, names, chunk_rows=np.array([0, 5, 9]), weights=weights).read_block(np.array([2, 0]), None)
    assert cut.weights.tolist() == [9.0, 10.0, 11.0, 0.0, 1.0, 2.0, 3.0, 4.0]
    assert cut.of_rows(slice(1, 4)).weights.tolist() == [10.0, 11.0, 0.0]
    assert not Matrix(X, y, weights=np.ones(12)).weighted
    assert Matrix(X, y).fingerprint == Matrix(X, y, weights=np.ones(12)).fingerprint != source.fingerprint
    for wrong in (np.ones(11), np.full(12, np.nan), np.full(12, -1.0), ["x"] * 12):
        with pytest.raises(InputError, match="weights must be"):
            Matrix(X, y, weights=wrong)


def test_real_targets_are_read_as_they_are():
    X, _ = random_rows(n=20)
    y = np.random.default_rng(0).standard_normal(20)
    y[4] = np.nan
    block = whole(Matrix(X, y).reader(real=True))
    assert np.array_equal(block.y, y, equal_nan=True)
    with pytest.raises(InputError, match="its labels are strings, and real numbers are needed"):
        Matrix(X, ["a"] * 20).reader(real=True)


def test_held_out_rows_of_a_matrix_are_matched_by_label():
    """Codes that are made before the labels are matched would invert shifted labels, and score one class 0."""
    X, y = random_rows(n=200, d=10, density=0.5, seed=1)
    settings = {"schedule": "2", "max_outer": 3, "tol": 0.0}
    expected = train(Matrix(X, y), valid=Matrix(X, y), **settings).outer()[-1]["valid_accuracy"]
    assert expected > 0.8
    # a third label, below the others, shifts the codes
    shifted = np.append(y, [-5.0])
    rows = np.append(np.arange(200), 0)
    found = train(Matrix(X, y), valid=Matrix(X[rows], shifted), **settings).outer()[-1]["valid_accuracy"]
    assert found == pytest.approx(expected * 200 / 201)
    of_one = train(Matrix(X, y), valid=Matrix(X[y > 0], y[y > 0]), **settings)
    margins = X[y > 0] @ of_one.w[:-1]
    assert of_one.outer()[-1]["valid_accuracy"] == (margins > 0).mean() > 0.5


@pytest.fixture
def store(tmp_path):
    X, y = random_rows(n=400, d=30, seed=2, zero_rows=0)
    return make_store(tmp_path, X, y, chunk_nonzeros=64)


def test_readers_share_nothing_but_the_file(store):
    with Store(store) as first:
        other = first.reader(Labels((-1.0, 1.0, 7.0)))
        assert first.labels == Labels((-1.0, 1.0))
        assert set(whole(other).y.tolist()) == {0, 1}
        assert set(whole(first).y.tolist()) == {-1, 1}
        assert (first.cost.blocks, other.cost.blocks) == (1, 1)
        assert not set(map(id, first.decoders)) & set(map(id, other.decoders))
        real = whole(first.reader(real=True))
        assert real.y.dtype == np.float64
        assert set(real.y.tolist()) == {-1.0, 1.0}
        other.close()
        assert whole(first).n_samples == 400
        kept = first.reader()
    with pytest.raises(ValueError, match="is closed"):
        first.reader()
    assert not kept.is_open  # closed with its owner
