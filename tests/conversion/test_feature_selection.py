"""split --top-features: the features of the largest chi-squared statistic, in all stores that belong together."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.feature_selection import chi2
from support.training_cases import svmlight

from blocksvm import InputError, load_model
from blocksvm.conversion.convert import SplitSettings, extend, split_rows
from blocksvm.store.reader import Store

N, D, TOP = 300, 40, 7


def planted(kind):
    """(X, labels as text, member (n, k) bool); two columns are alike."""
    rng = np.random.default_rng(2)
    X = sparse.random(N, D, 0.2, format="lil", random_state=2, data_rvs=lambda n: rng.integers(1, 9, n) / 4.0)
    X[:, 11] = X[:, 30]
    X = sparse.csr_matrix(X)
    z = X.toarray() @ rng.standard_normal((D, 4))
    if kind == "sets":
        member = z > 1.0
        return X, [",".join(f"w{c}" for c in np.flatnonzero(own)) for own in member], member
    y = z[:, 0] > 0 if kind == "two" else z.argmax(axis=1)
    names = {"two": ("-1", "1"), "words": ("a", "b", "c", "d"), "numbers": ("1", "2", "3.5", "9")}[kind]
    return X, [names[c] for c in y.astype(int)], np.eye(len(names), dtype=bool)[y.astype(int)]


FORMATS = {"two": "svmlight", "numbers": "svmlight", "words": "svmlight-named", "sets": "multilabel"}


def ids_of(path) -> list[int]:
    with Store(path) as store:
        return sorted(store.feature_ids(0, store.n_features).tolist())


def chosen(X, member, top=TOP) -> list[int]:
    """By scikit-learn's statistic of presence; of two classes it adds the other one itself."""
    present = X.copy()
    present.data[:] = 1.0
    statistic = np.nan_to_num(chi2(present, member[:, 1] if member.shape[1] == 2 else member)[0].round(9))
    return sorted(j + 1 for j in np.lexsort((np.arange(D), -statistic))[:top].tolist())


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("top", [7, 8, 100])
def test_the_features_are_those_of_scikit_learn(tmp_path, kind, top):
    X, labels, member = planted(kind)
    (tmp_path / "rows.svm").write_text(svmlight(X, labels))
    for jobs, memory in ((1, 16_000_000), (2, 100_000_000)):
        settings = SplitSettings(format=FORMATS[kind], top_features=top, n_jobs=jobs, memory=memory, overwrite=True)
        meta = split_rows(str(tmp_path / "rows.svm"), tmp_path / "s.h5", settings)
        assert ids_of(tmp_path / "s.h5") == chosen(X, member, top)
    assert meta.settings.top_features == top


def test_a_count_is_asked_for_first_and_rows_without_a_label_tell_nothing(tmp_path):
    X, labels, member = planted("words")
    more = svmlight(X[:50], ["?"] * 50)
    (tmp_path / "rows.svm").write_text(svmlight(X, labels) + more)
    split_rows(str(tmp_path / "rows.svm"), tmp_path / "s.h5", SplitSettings(format="svmlight-named", top_features=TOP))
    assert ids_of(tmp_path / "s.h5") == chosen(X, member)
    (tmp_path / "rows.svm").write_text(svmlight(X, labels))
    options = SplitSettings(format="svmlight-named", top_features=20, min_count=60, overwrite=True)
    split_rows(str(tmp_path / "rows.svm"), tmp_path / "s.h5", options)
    there = np.bincount(X.indices, minlength=D) >= 60
    assert 5 < there.sum() < 40
    assert set(ids_of(tmp_path / "s.h5")) <= {j + 1 for j in np.flatnonzero(there)}


def test_all_rows_that_belong_to_a_store_have_its_features(tmp_path, succeeds):
    X, labels, _ = planted("two")
    (tmp_path / "rows.svm").write_text(svmlight(X, labels))
    (tmp_path / "new.svm").write_text("1 1:1 2:1 9999:2 12:1 31:2\n-1 3:1 9998:1\n")
    common = ("--idf", "smooth", "--normalize", "l2", "--top-features", TOP)
    succeeds("split", tmp_path / "rows.svm", tmp_path / "s.h5", *common, "--holdout", "0.2", tmp_path / "h.h5")
    kept = set(ids_of(tmp_path / "s.h5"))
    assert len(kept) == TOP
    assert set(ids_of(tmp_path / "h.h5")) <= kept
    succeeds("split", tmp_path / "new.svm", tmp_path / "like.h5", "--like", tmp_path / "s.h5")
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5")
    found = [succeeds("predict", tmp_path / "m.h5", rows, tmp_path / "p", "--scores", "--overwrite")
             and (tmp_path / "p").read_text() for rows in (tmp_path / "new.svm", tmp_path / "like.h5")]  # fmt: skip
    assert found[0] == found[1]
    assert set(load_model(tmp_path / "m.h5").feature_ids.tolist()) == kept
    plain = tmp_path / "plain.h5"
    split_rows(str(tmp_path / "rows.svm"), plain, SplitSettings(top_features=TOP))
    kept = ids_of(plain)
    split_rows(str(tmp_path / "new.svm"), tmp_path / "far.h5", SplitSettings(top_features=TOP, like=plain))
    assert set(ids_of(tmp_path / "far.h5")) <= set(kept)
    extend([str(tmp_path / "new.svm")], plain)
    assert ids_of(plain) == kept


@pytest.mark.parametrize(("text", "says"), [
    ("".join(f"{i / 7} {i}:1\n" for i in range(1, 300)), "is for classes, and there are more than 100 distinct labels"),
    ("1 1:1\n1 2:1\n", "the rows have no two classes"),
    ("".join(f"{i % 9000} {i}:1\n" for i in range(9000)), "the counts of features by class take .*raise memory"),
])  # fmt: skip
def test_what_cannot_be_is_one_sentence(tmp_path, text, says):
    (tmp_path / "rows.svm").write_text(text)
    with pytest.raises(InputError, match=says):
        split_rows(str(tmp_path / "rows.svm"), tmp_path / "s.h5", SplitSettings(top_features=3, memory=30_000_000))
