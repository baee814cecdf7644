"""Weights of rows from a file beside the text, and from Python."""

import gzip

import numpy as np
import pytest
from support.training_cases import make_store, random_rows, svmlight, train

from blocksvm import InputError, Matrix, fit, open_store


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
    with (
        pytest.raises(InputError, match="leave y and sample_weight out"),
        open_store(make_store(folder, X, y)) as store,
    ):
        fit(store, sample_weight=weights)
    with pytest.raises(InputError, match="the weights must be 150 finite numbers of 0 or more"):
        fit(X, y, sample_weight=-weights)
