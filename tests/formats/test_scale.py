"""Features scaled by their largest value or their deviation, as by scikit-learn, wherever rows are read."""

import json

import h5py
import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from support.stored_rows import in_source_order
from support.training_cases import svmlight

import blocksvm
from blocksvm import InputError, open_store
from blocksvm.conversion.convert import SplitSettings, settings_of_store, split_rows
from blocksvm.store.arrays import read_factors

KINDS = ("max-abs", "deviation")
SIZES = np.array([1e-3, 1.0, 1e2, 1e4, 1e6, 3.0])


def table(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(X, y): columns of very different size, most of them with zeros; one that is far from 0, one that is constant."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 6)) * (rng.random((n, 6)) < 0.7)
    y = np.where(X @ [1.0, -2.0, 0.5, 1.0, -1.0, 1.0] + 0.1 * rng.normal(size=n) > 0, 1, -1)
    return np.column_stack([X * SIZES, rng.normal(2000.0, 1.0, n), np.full(n, 7.0)]), y


def text_of(path, X: np.ndarray, y: np.ndarray) -> str:
    path.write_text(svmlight(csr_matrix(X), y))
    return str(path)


def csv(path, X: np.ndarray, y: np.ndarray) -> str:
    names = [f"c{j}" for j in range(X.shape[1])]
    lines = [",".join(["label", *names]), *(",".join(map(repr, [t, *row])) for t, row in
             zip(y.tolist(), X.tolist(), strict=True))]  # fmt: skip
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def dense(path) -> np.ndarray:
    rows = np.zeros((len(found := in_source_order(path)), 9))
    for row, (_, ids, values) in zip(rows, found, strict=True):
        row[np.asarray(ids)] = values
    return rows[:, 1:]


def scaled(kind: str, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(factors, values) in plain numpy, which are scikit-learn's."""
    divisors = np.abs(X).max(axis=0) if kind == "max-abs" else np.sqrt(((X - X.mean(axis=0)) ** 2).mean(axis=0))
    divisors = np.where(divisors == 0.0, 1.0, divisors)
    theirs = MaxAbsScaler() if kind == "max-abs" else StandardScaler(with_mean=False)
    np.testing.assert_allclose(divisors, theirs.fit(X).scale_, rtol=1e-12)
    return 1.0 / divisors, X / divisors


@pytest.fixture(scope="module")
def numbers():
    return table(150, 1)


@pytest.fixture(scope="module")
def new():
    return table(40, 2)


@pytest.mark.parametrize(
    ("kind", "dtype", "close"),
    [("max-abs", "float32", 2e-7), ("deviation", "float32", 2e-7), ("deviation", "float64", 1e-12)],
)
def test_factors_and_values_are_those_of_scikit_learn(kind, dtype, close, numbers, new, tmp_path):
    X, y = numbers
    X = X.astype(dtype).astype(float)
    factors, values = scaled(kind, X)
    store, like = tmp_path / "s.h5", tmp_path / "like.h5"
    settings = SplitSettings(scale=kind, dtype=dtype, memory=20_000_000, chunk_nonzeros=60)
    split_rows(text_of(tmp_path / "t.svm", X, y), store, settings)
    with open_store(store) as opened:
        order = np.argsort(opened.feature_ids(0, opened.n_features))
        np.testing.assert_allclose(read_factors(opened.file, opened.n_features)[order], factors, rtol=1e-12)
        assert opened.max_norm == pytest.approx(np.linalg.norm(values, axis=1).max(), rel=1e-6)
    np.testing.assert_allclose(dense(store), values, rtol=close)
    # other rows are scaled as these were
    other = text_of(tmp_path / "new.svm", *new)
    split_rows(other, like, settings_of_store(store, {}, like=True))
    np.testing.assert_allclose(dense(like), new[0].astype(dtype) * factors, rtol=close)


def test_features_of_ones_and_of_zeros(tmp_path):
    """Rows all of whose values are 1; a value of 0 that the text has."""
    (tmp_path / "ones.svm").write_text("1 1:1 2:1\n-1 1:1\n1 1:1\n-1 1:1\n")
    split_rows(tmp_path / "ones.svm", tmp_path / "ones.h5", SplitSettings(scale="deviation", dtype="float64"))
    expected = [[1.0, 1.0 / np.sqrt(3 / 16)], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    np.testing.assert_allclose(dense(tmp_path / "ones.h5")[:, :2], expected, rtol=1e-12)
    (tmp_path / "zero.svm").write_text("1 1:4 2:0\n-1 1:-8\n1 1:2\n")
    for kind, divisor in (("max-abs", 8.0), ("deviation", np.std([4, -8, 2]))):
        split_rows(tmp_path / "zero.svm", tmp_path / f"{kind}.h5", SplitSettings(scale=kind, dtype="float64"))
        found = dense(tmp_path / f"{kind}.h5")[:, :2]
        np.testing.assert_allclose(found, np.array([[4, 0], [-8, 0], [2, 0]]) / divisor, rtol=1e-12)


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
    X, y = table(400, 4)
    X = X[:, :6]
    text = csv(tmp_path / "raw.csv", X, y)
    for kind in (None, *KINDS):
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


def test_what_is_wrong(numbers, tmp_path):
    text, store = text_of(tmp_path / "t.svm", *numbers), tmp_path / "s.h5"
    with pytest.raises(InputError, match="scale=range: choose one of none, max-abs, deviation"):
        SplitSettings(scale="range")
    with pytest.raises(InputError, match="scale=max-abs: gives values that are the same with and without idf; leave"):
        SplitSettings(scale="max-abs", idf="smooth")
    (tmp_path / "big.svm").write_text("".join(f"{(-1) ** k} 1:1 3:{(-1) ** k}e154\n" for k in range(9)))
    with pytest.raises(InputError, match="feature 3: the squares of its values exceed float64; use scale=max"):
        split_rows(tmp_path / "big.svm", store, SplitSettings(scale="deviation", dtype="float64"))
    assert not store.exists()
    split_rows(tmp_path / "big.svm", store, SplitSettings(scale="max-abs", dtype="float64"))
    assert dense(store)[:, 2].tolist() == [(-1.0) ** k for k in range(9)]
    split_rows(text, store, SplitSettings(scale="max-abs", overwrite=True))
    (tmp_path / "far.svm").write_text("1 1:3e38\n")
    with pytest.raises(InputError, match=r"far.svm:1: values times their features' factors lie beyond float32"):
        split_rows(tmp_path / "far.svm", tmp_path / "far.h5", settings_of_store(store, {}, like=True))
    with h5py.File(store, "r+") as file:
        file["features/idf"][0] = 0.0
    with pytest.raises(InputError, match="features/idf"):
        split_rows(text, tmp_path / "like.h5", settings_of_store(store, {}, like=True))
