"""Rows and labels as Python users give them: one function makes CSR of all of it, for training and for predictions."""

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from support.refused import refused

import blocksvm
from blocksvm.estimators import KernelSVC, LinearSVC, LogisticClassifier, OnlineClassifier
from blocksvm.sources.matrix import csr_of

X = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0], [0.5, 0.0, -1.0], [0.0, 0.0, 0.0]])
Y = np.array([1.0, -1.0, 1.0, -1.0])


def unsorted() -> scipy.sparse.csr_matrix:
    """Indices that fall, and a pair that stands twice."""
    parts = [1.5, 0.5, 1.0, 3.0, -1.0, 0.5], [2, 2, 0, 1, 2, 0], [0, 3, 4, 6, 6]
    return scipy.sparse.csr_matrix(parts, shape=(4, 3), dtype=np.float64)


def made_of(values: np.ndarray, index_type) -> scipy.sparse.csr_matrix:
    indices, indptr = np.array([0, 2, 1, 0, 2], index_type), np.array([0, 2, 3, 5, 5], index_type)
    return scipy.sparse.csr_matrix((values, indices, indptr), shape=(4, 3))


GIVEN = {
    "array": X,
    "lists": X.tolist(),
    "tuples": tuple(map(tuple, X.tolist())),
    "np.matrix": np.matrix(X),
    "float16": X.astype(np.float16),
    "float32": X.astype(np.float32),
    "longdouble": X.astype(np.longdouble),
    "big-endian": X.astype(">f8"),
    "big-endian float32": X.astype(">f4"),
    "objects": X.astype(object),
    "Fortran order": np.asfortranarray(X),
    "masked, without a mask": np.ma.array(X),
    "csr": scipy.sparse.csr_matrix(X),
    "csr, indices unsorted": unsorted(),
    "csc": scipy.sparse.csc_matrix(X),
    "coo": scipy.sparse.coo_matrix(X),
    "lil": scipy.sparse.lil_matrix(X),
    "dok": scipy.sparse.dok_matrix(X),
    "csr array": scipy.sparse.csr_array(X),
    "csr, big-endian": made_of(X.astype(">f8")[X != 0], np.int32),
    "csr, long indices": made_of(X[X != 0], np.int64),
}


def frames() -> dict:
    pandas = pytest.importorskip("pandas")
    plain = pandas.DataFrame(X, columns=list("abc"))
    return {"frame": plain, "nullable": plain.astype("Float64"), "mixed": plain.astype({"a": "Float32", "b": object}),
            "sparse frame": plain.astype(pandas.SparseDtype("float64", 0.0))}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return blocksvm.fit(X, Y, bias=1.0, tol=1e-9, max_outer=50).model


@pytest.mark.parametrize("kind", [*GIVEN, "frame", "nullable", "mixed", "sparse frame"])
def test_what_fit_takes_predict_takes(kind, model):
    rows = GIVEN[kind] if kind in GIVEN else frames()[kind]
    made = csr_of(rows)
    np.testing.assert_array_equal(made.toarray(), X.astype(made.dtype))
    assert made.has_canonical_format and made.dtype in (np.float32, np.float64) and made.dtype.isnative
    fitted = blocksvm.fit(rows, Y, bias=1.0, tol=1e-9, max_outer=50)
    np.testing.assert_allclose(fitted.model.weights, model.weights, rtol=1e-6)
    np.testing.assert_allclose(model.decision_function(rows), model.decision_function(X), rtol=1e-6)
    assert model.predict(rows).tolist() == model.predict(X).tolist()


def test_integers_and_booleans():
    for dtype in (bool, np.int8, np.uint16, ">i4", np.int64):
        whole = (X > 0).astype(dtype)
        assert csr_of(whole).toarray().tolist() == (X > 0).astype(float).tolist()
        assert csr_of(scipy.sparse.csr_matrix(whole.astype(whole.dtype.newbyteorder("=")))).dtype == np.float64
        blocksvm.fit(whole, Y)
    assert csr_of([1, 2, 3]).shape == (1, 3)


def with_value(value) -> np.ndarray:
    rows = X.astype(object if isinstance(value, str) else np.result_type(X, type(value)))
    rows[1, 2] = value
    return rows


WRONG = [
    (with_value(np.nan), "a value is not finite: nan in row 1, column 2"),
    (scipy.sparse.csr_matrix(with_value(np.inf)), "a value is not finite: inf in row 1, column 2"),
    (with_value(1j), "holds complex numbers; give real numbers"),
    (scipy.sparse.csr_matrix(with_value(1j)), "holds complex numbers"),
    (with_value("word"), "holds what is no number"),
    (np.array([["a", "b", "c"]] * 4), "holds values of the type <U1"),
    ([[1, 2, 3], [1, 2]], "holds what is no number .*all of one length"),
    (np.zeros((2, 2, 3)), "has 3 dimensions"),
    (np.ma.array(X, mask=X > 2), "has masked values"),
    (np.array([["2020-01-01"] * 3] * 4, dtype="datetime64[D]"), r"of the type datetime64\[D\]"),
    (None, "a value is not finite: nan in row 0, column 0"),
]


@pytest.mark.parametrize(("rows", "says"), WRONG)
def test_what_is_no_matrix_of_numbers_is_refused_alike(rows, says, model):
    for ask in (lambda rows: blocksvm.fit(rows, Y), model.predict, model.decision_function):
        refused(says, ask, rows)


def test_missing_values_of_a_frame_and_unsound_matrices_are_refused(model):
    bad = scipy.sparse.csr_matrix(X)
    bad.indices = np.array([0, 2, 1, 0, 77], np.int32)
    bad.has_canonical_format = True
    missing = list(frames().values())[:3]
    for frame in missing:
        frame.iloc[1, 0] = None
    for rows, says in ((bad, "a column index is out of range"), *((one, "nan in row 1, column 0") for one in missing)):
        for ask in (model.predict, lambda rows: blocksvm.fit(rows, Y)):
            refused(says, ask, rows)


def test_kernels_and_several_classes_take_the_same():
    rows = np.random.default_rng(0).normal(size=(30, 3))
    y = np.arange(30) % 3
    several = blocksvm.fit(rows.tolist(), y)
    assert several.model.predict(rows.tolist()).tolist() == several.model.predict(csr_of(rows)).tolist()
    kernel = blocksvm.fit(rows.astype(object), y % 2, solver="kernel", kernel="rbf", gamma=1.0)
    assert kernel.model.decision_function(rows.tolist()).tolist() == kernel.model.decision_function(rows).tolist()
    refused("nan in row 0, column 1", kernel.model.predict, [[1.0, np.nan, 2.0]])


def test_estimators_refuse_what_they_cannot_know():
    for estimator in (LinearSVC(), LogisticClassifier(), OnlineClassifier("arow"), KernelSVC()):
        for rows in (X.astype(np.float16), X.astype(">f8"), X.astype(object), X.tolist(), scipy.sparse.csc_array(X)):
            assert len(estimator.fit(rows, Y).predict(rows)) == 4
        for rows in (with_value(np.nan), with_value(1j)):
            for ask in (estimator.predict, lambda rows, own=estimator: own.fit(rows, Y)):
                with pytest.raises(ValueError, match="NaN|omplex"):
                    ask(rows)


def test_logarithms_of_probabilities():
    fitted = blocksvm.fit(X, Y, loss="logistic")
    with np.errstate(divide="raise"):
        np.testing.assert_array_equal(fitted.model.predict_log_proba(X), np.log(fitted.model.predict_proba(X)))
        own = LogisticClassifier().fit(X, Y)
        np.testing.assert_array_equal(own.predict_log_proba(X), np.log(own.predict_proba(X)))
        assert np.isneginf(own.predict_log_proba(X * 1e5)).any()
    assert not hasattr(LinearSVC(), "predict_log_proba")
    refused("no probabilities", blocksvm.fit(X, Y).model.predict_log_proba, X)


def test_a_column_of_labels_is_labels():
    plain = blocksvm.fit(X, Y).model
    for y in (Y[:, None], Y[:, None] > 0, (Y[:, None] > 0).astype(int)):
        found = blocksvm.fit(X, y).model
        assert not found.multilabel
        assert found.weights.tolist() == plain.weights.tolist()
    assert blocksvm.fit(X, np.array([[1, 0], [0, 1], [1, 1], [0, 0]])).model.multilabel  # two columns are sets


def test_labels_of_a_series():
    pandas = pytest.importorskip("pandas")
    kinds = (([1, -1], "Int64"), (["a", "b"], "string"), (["a", "b"], "category"), ([True, False], "boolean"))
    for values, dtype in kinds:
        assert len(blocksvm.fit(X, pandas.Series(values * 2, dtype=dtype)).model.labels) == 2
    matrix = blocksvm.Matrix(X, pandas.Series([1, None, 1, -1], dtype="Int64"))
    assert matrix.n_unlabelled == 1
    assert blocksvm.Matrix(X, pandas.Series(["a", None, "b", "b"], dtype="string")).n_unlabelled == 1


@pytest.mark.parametrize(
    ("y", "says"),
    [
        (np.array([2**53, 2**53 + 1] * 2), "the label 9007199254740993 is a whole number beyond"),
        (np.array([0, 2**64 - 1] * 2, np.uint64), "the label 18446744073709551615 is a whole number beyond"),
        ([0, 10**30 + 1, 0, 1], "is a whole number beyond"),
        ([-(2**53) - 1, 0, 1, 0], "is a whole number beyond"),
        (np.array([1j, 0, 1j, 0]), "numbers or strings"),
        ([1j, 0.0, 1.0, 0.0], "numbers or strings"),
        ([10**400, 0, 1, 0], "numbers or strings"),
    ],
)
def test_labels_that_would_become_others_are_refused(y, says):
    refused(says, blocksvm.fit, X, y)


def test_large_labels_that_stay_themselves():
    assert blocksvm.fit(X, np.array([0, 2**60] * 2)).model.labels == (0.0, 2.0**60)
    y = np.array([2**53, 2**53 + 1] * 2)
    refused("the label 9007199254740993 is a whole number beyond", LinearSVC().fit, iter([(X, y)]))
    assert LinearSVC().fit(X, y).classes_.tolist() == [2**53, 2**53 + 1]


def test_a_class_without_weight_among_three_and_a_loss_by_default():
    rng = np.random.default_rng(0)
    rows, y = rng.normal(size=(60, 4)), np.arange(60) % 3
    weights = np.where(y == 2, 0.0, 1.0)
    for settings in ({}, {"class_weight": "balanced"}, {"loss": "logistic"}, {"multiclass": "crammer-singer"}):
        fitted = blocksvm.fit(rows, y, sample_weight=weights, tol=1e-6, max_outer=300, **settings)
        assert fitted.status == "converged"
        assert np.isfinite(fitted.model.weights).all()
        assert fitted.model.labels == (0.0, 1.0, 2.0)
    assert blocksvm.fit(rows, y, sample_weight=weights, learner="pa1").model.weights.shape == (3, 4)
    for labels, says in ((y, "label 1, 2 have weight 0; training needs two classes"), (y % 2, "label 1 have weight 0")):
        refused(f"all rows of {says}", blocksvm.fit, rows, labels, sample_weight=np.where(labels == 0, 1.0, 0.0))
    # Crammer and Singer's machine by its defaults
    found = LinearSVC(multiclass="crammer-singer").fit(rows, y)
    same = LinearSVC(multiclass="crammer-singer", loss="hinge").fit(rows, y)
    assert found.coef_.tolist() == same.coef_.tolist()


@pytest.mark.parametrize("given", [str, Path, lambda path: [path], lambda path: (str(path),)])
def test_inputs_are_a_path_or_several(given, tmp_path):
    rows = tmp_path / "rows.svm"
    rows.write_text("+1 1:1\n-1 2:1\n" * 5)
    told = blocksvm.write_store(given(rows), tmp_path / "s.h5")
    assert told["n_samples"] == 10 and str(rows) in str(told["sources"])
    stream = blocksvm.Stream("pa1", labels=(-1.0, 1.0))
    assert stream.run(given(rows)) and stream.rows == 10
