"""Labels of every kind, from what a user gives to ``y`` and back, and weights of rows from a file beside the text and
from Python; a reader for each consumer of the same rows."""

import gzip

import numpy as np
import pytest
from support.training_cases import make_store, random_rows, svmlight, train

from blocksvm import InputError, Matrix, fit, open_store
from blocksvm.base.labels import Coding, Labels, label_text
from blocksvm.store.reader import Store


def whole(source):
    return source.read_block(np.arange(len(source.chunks)), None)


@pytest.mark.parametrize(
    ("values", "given", "codes"),
    [((1.0, 2.0), [2.0, 1.0, 3.0, np.nan], [1, -1, 0, 0]),
     ((1.0, 2.0, 5.0), [5.0, 1.0, 3.0, np.nan, 2.0], [2, 0, -1, -1, 1]),
     (("ham", "spam"), ["spam", "ham", "other", None], [1, -1, 0, 0]),
     (("a", "b", "c"), ["c", None, "a", "d"], [2, -1, 0, -1]),
     ((1.0, 2.0), ["1", "2"], [0, 0]),  # a string is no number
     (("1", "2", "3"), [1.0, 2.0], [-1, -1])],
)  # fmt: skip
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
    fitted = fit(X, given, schedule="1", max_outer=5, tol=0.0)
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


@pytest.fixture
def given(tmp_path):
    """(folder with rows.svm and weights.txt, X, y, weights)"""
    X, y = random_rows(n=150, d=12, seed=4)
    weights = np.random.default_rng(0).integers(0, 5, 150) / 4.0
    (tmp_path / "rows.svm").write_text(svmlight(X, y))
    (tmp_path / "weights.txt").write_text("".join(f"{w!r}\n" for w in weights.tolist()))
    return tmp_path, X, y, weights


def stored(path) -> np.ndarray:
    """The weights of a store's rows, by their numbers in the source."""
    with open_store(path) as store:
        rows = np.concatenate([store.read_rows(k) for k in range(len(store.chunks))])
    return rows["weight"][np.argsort(rows["source"])], np.sort(rows["source"])


@pytest.mark.parametrize(("options", "zeros"), [(("--keep-order",), 0), (("--threads", "3"), 9_000)])
def test_each_row_has_the_weight_of_its_line(given, options, zeros, succeeds):
    """Also where the file is so long that it is read in pieces."""
    folder, X, y, weights = given
    (folder / "weights.txt").write_text("".join(f"{w:.20f}{'0' * zeros}\n" for w in weights.tolist()))
    succeeds("split", folder / "rows.svm", folder / "s.h5", "--weights", folder / "weights.txt", *options)
    np.testing.assert_array_equal(stored(folder / "s.h5")[0], weights)
    run = train(folder / "s.h5", tol=1e-6, schedule="5", max_outer=2000)
    same = train(Matrix(X, y, weights=weights), tol=1e-6, schedule="5", max_outer=2000)
    assert run.result.certificate.primal == pytest.approx(same.result.certificate.primal, rel=3e-6)


def test_compressed_and_with_held_out_rows(given, succeeds):
    folder, _, _, weights = given
    (folder / "weights.txt.gz").write_bytes(gzip.compress((folder / "weights.txt").read_bytes()))
    succeeds("split", folder / "rows.svm", folder / "s.h5", "--weights", folder / "weights.txt.gz",
        "--holdout", "0.3", folder / "held.h5")  # fmt: skip
    for name in ("s.h5", "held.h5"):
        found, numbers = stored(folder / name)
        np.testing.assert_array_equal(found, weights[numbers])


def test_weights_that_are_all_one_are_none(given, succeeds):
    folder, X, y, _ = given
    (folder / "ones.txt").write_text("1\n" * 150)
    for name, more in (("a.h5", ()), ("b.h5", ("--weights", folder / "ones.txt"))):
        succeeds("split", folder / "rows.svm", folder / name, *more)
    with open_store(folder / "a.h5") as a, open_store(folder / "b.h5") as b:
        assert a.fingerprint == b.fingerprint
        assert not b.weighted


MISFITS = [("1\n" * 149, "weights.txt: has 149 weights, and there are more rows"),
           ("", "weights.txt: has 0 weights, and there are more rows"),
           ("1\n" * 151, "weights.txt: has more weights than the 150 rows that there are"),
           ("1\n" * 70 + "-0.5\n" + "1\n" * 79, "weights.txt:71: '-0.5' is not a weight"),
           ("1\n" * 3 + "nan\n" + "1\n" * 146, "weights.txt:4: 'nan' is not a weight"),
           ("1\ninf\n" + "1\n" * 148, "weights.txt:2: 'inf' is not a weight"),
           ("1\n\n" + "1\n" * 149, "weights.txt:2: '' is not a weight"),
           ("1 2\n" + "1\n" * 149, "weights.txt:1: '1 2' is not a weight"),
           ("1\ntwo\n" + "1\n" * 148, "weights.txt:2: 'two' is not a weight")]  # fmt: skip


@pytest.mark.parametrize("spaces", [0, 9_000])
def test_a_file_that_does_not_fit_the_rows(given, spaces, refusal):
    """Also where it is so long that it is read in pieces."""
    folder = given[0]
    for content, expected in MISFITS:
        (folder / "weights.txt").write_text(content.replace("1\n", "1" + " " * spaces + "\n"))
        given = folder / "rows.svm", folder / "s.h5", "--weights", folder / "weights.txt", "--quiet"
        assert expected in refusal("split", *given)
        assert sorted(path.name for path in folder.iterdir()) == ["rows.svm", "weights.txt"]


def test_weights_of_both_kinds_and_no_file(given, refusal):
    folder = given[0]
    (folder / "rows.vw").write_text("1 2.0 | a:1\n-1 | b:1\n")
    (folder / "two.txt").write_text("1\n3\n")
    given_twice = (folder / "rows.vw", folder / "s.h5", "--format", "vw", "--weights", folder / "two.txt")
    assert "have weights of their own; leave one of them out" in refusal("split", *given_twice, "--quiet")
    assert "none.txt: no such file" in refusal("split", folder / "rows.svm", folder / "s.h5", "--weights", "none.txt")
    assert "standard input holds the rows already" in refusal("split", "-", folder / "s.h5", "--weights", "-")


def test_weights_from_python(given):
    folder, X, y, weights = given
    for loss in ("hinge", "squared-epsilon-insensitive"):
        found = fit(X, y, sample_weight=weights, loss=loss, tol=1e-5, schedule="5")
        expected = fit(Matrix(X, y, weights=weights), loss=loss, tol=1e-5, schedule="5")
        np.testing.assert_array_equal(found.model.weights, expected.model.weights)
    store = make_store(folder, X, y)
    with open_store(store) as source, pytest.raises(InputError, match="leave y and sample_weight out"):
        fit(source, sample_weight=weights)
    with pytest.raises(InputError, match="the weights must be 150 finite numbers of 0 or more"):
        fit(X, y, sample_weight=-weights)
