"""Many classes in groups that the memory holds, and models that keep their weights one by one."""

import os

import numpy as np
import pytest
from scipy import sparse
from support.training_cases import make_store, text_of_sets

from blocksvm.base.errors import InputError
from blocksvm.model.model_file import describe_model, load_model
from blocksvm.training.checkpoint import Checkpoint

N, D, K = 500, 60, 90
SMALL = ("--memory", "900kB", "--tol", "1e-3", "--bias", "1", "-C", "0.02", "--threads", "1")


def planted():
    """(X, member (n, k)): features that tell the labels, of which a row has up to three; the last one has one row."""
    rng = np.random.default_rng(5)
    member = np.zeros((N, K), bool)
    member[np.repeat(np.arange(N), 3), rng.integers(0, K - 1, 3 * N)] = True
    member[:K] |= np.eye(K, dtype=bool)
    X = sparse.csr_matrix((member @ rng.standard_normal((K, D))) * (rng.random((N, D)) < 0.4))
    return X, member


def lines_of(X, member, number) -> str:
    names = [[c if number else f"l{c:02}" for c in np.flatnonzero(own)] for own in member]
    return text_of_sets(X.toarray().round(3), names)


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    """Stores of sets of labels, and of single ones that are numbers."""
    folder, (X, member) = tmp_path_factory.mktemp("groups"), planted()
    one = np.eye(K, dtype=bool)[member.argmax(axis=1)]
    sets = make_store(folder, lines_of(X, member, False), name="sets", format="multilabel", dtype="float64")
    return {"sets": sets, "numbers": make_store(folder, lines_of(X, one, True), name="numbers", dtype="float64")}


def groups_of(done) -> list[str]:
    return [line for line in done.err.splitlines() if line.startswith("classes ")]


@pytest.mark.parametrize(("kind", "more"), [
    ("sets", ()), ("sets", ("--loss", "squared-hinge", "--class-weight", "l00=2,l89=3")), ("numbers", ()),
])  # fmt: skip
def test_groups_solve_the_problems_that_one_run_solves(stores, tmp_path, succeeds, kind, more):
    """1/2 ||w - w*||^2 is at most the gap of w, as the primal is strongly convex."""
    assert groups_of(succeeds("train", stores[kind], tmp_path / "all.h5", *SMALL, "--memory", "100MB", *more)) == []
    done = succeeds("train", stores[kind], tmp_path / "m.h5", *SMALL, *more)
    told = groups_of(done)
    assert len(told) > 1 and told[0].startswith("classes 1 to ")
    whole, grouped = load_model(tmp_path / "all.h5"), load_model(tmp_path / "m.h5")
    assert f"{len(whole.labels)} classes in {len(told)} groups: the gap is the largest of a class" in done.out
    assert (grouped.labels, grouped.multilabel, grouped.meta.fingerprint) == (
        whole.labels, kind == "sets", whole.meta.fingerprint
    )  # fmt: skip
    assert grouped.meta.certificate.rel_gap <= 1e-3
    found = [model.meta.certificate.by_class for model in (whole, grouped)]
    within = sum(np.sqrt(2.0 * np.subtract(one["primal"], one["dual"])) for one in found)
    W = [np.hstack([model.dense, model.intercept[:, None]]) for model in (whole, grouped)]
    assert (np.linalg.norm(W[0] - W[1], axis=1) <= within).all()
    assert sorted(os.listdir(tmp_path)) == ["all.h5", "m.h5"]


def test_killed_in_any_group_and_resumed(stores, tmp_path, monkeypatch, succeeds, refusal):
    often = ("--checkpoint", tmp_path / "c.ckpt", "--checkpoint-seconds", "1e-9")
    asked = (stores["sets"], tmp_path / "m.h5", *SMALL, "--tol", "0.02", *often)
    save, kept, killed_at = Checkpoint.save, [], [0]

    def killed(self, *given):
        save(self, *given)
        kept.append(self.path)
        if len(kept) == killed_at[0]:
            raise InputError("killed")

    monkeypatch.setattr(Checkpoint, "save", killed)
    succeeds("train", *asked)
    whole = load_model(tmp_path / "m.h5")
    os.rename(tmp_path / "c.ckpt", tmp_path / "old.ckpt")
    os.rename(tmp_path / "m.h5", tmp_path / "whole.h5")
    in_groups = set()
    for n in (1, len(kept) // 4, len(kept) // 3):
        killed_at[0] = n
        kept.clear()
        assert "killed" in refusal("train", *asked, "--resume")
        in_groups.add(len([name for name in os.listdir(tmp_path) if "group" in name]))
    assert len(in_groups) > 1
    killed_at[0] = 0
    assert "is of another run" in refusal("train", *asked, "--resume", "-C", "3")
    succeeds("train", *asked, "--resume")
    again = load_model(tmp_path / "m.h5")
    assert np.array_equal(np.c_[again.dense, again.intercept], np.c_[whole.dense, whole.intercept])
    assert again.meta.certificate == whole.meta.certificate
    assert not [name for name in os.listdir(tmp_path) if "group" in name]


def test_small_weights_are_left_out(stores, tmp_path, succeeds):
    """The model predicts as the whole one does with these weights at 0, in text and stores, and in Python."""
    X, _ = planted()
    (tmp_path / "rows.svm").write_text(lines_of(X, np.zeros((N, K), bool), False))
    for memory in ("900kB", "100MB"):
        for name, given in (("dense", "0"), ("kept", "0.01")):
            options = (*SMALL, "--memory", memory, "--overwrite", "--drop-below", given)
            _, out, _ = succeeds("train", stores["sets"], tmp_path / f"{name}.h5", *options)
        dense, kept = load_model(tmp_path / "dense.h5"), load_model(tmp_path / "kept.h5")
        W = np.where(np.abs(dense.dense) < 0.01, 0.0, dense.dense)
        assert np.array_equal(np.c_[kept.dense, kept.intercept], np.c_[W, dense.intercept])
        about = kept.meta.sparse
        assert about.n_weights == np.count_nonzero(W) + np.count_nonzero(kept.intercept)
        assert about.n_dropped == np.count_nonzero(dense.dense) - np.count_nonzero(W) > 100
        assert f"{about.n_dropped:,} of " in out
        assert (tmp_path / "kept.h5").stat().st_size < (tmp_path / "dense.h5").stat().st_size
    ids = np.argsort(kept.feature_ids)
    expected = X.toarray().round(3)[:, np.sort(kept.feature_ids)] @ W[:, ids].T + kept.intercept
    np.testing.assert_allclose(kept.decision_function(X.toarray().round(3)), expected, atol=1e-12)
    for rows in (tmp_path / "rows.svm", stores["sets"]):
        succeeds("predict", tmp_path / "kept.h5", rows, tmp_path / "scores.txt", "--scores", "--overwrite")
        np.testing.assert_allclose(np.loadtxt(tmp_path / "scores.txt"), expected, atol=1e-12)
    kept.save(tmp_path / "copy.h5")
    assert describe_model(tmp_path / "copy.h5").content == kept.meta.content
    top = succeeds("info", tmp_path / "copy.h5", "--top", "1")[1]
    assert f"{about.n_weights:,} kept one by one, {about.n_dropped:,} below 0.01 left out" in top
    c, j = np.unravel_index(np.abs(W).argmax(), W.shape)
    assert f"{kept.labels[c]}  {W[c, j]:+.4g} feature {kept.feature_ids[j]}" in top
    succeeds("export", tmp_path / "copy.h5", tmp_path / "weights.csv", "--format", "table")


def test_labels_of_few_rows_are_told_and_what_a_group_has_not_is_refused(stores, tmp_path, succeeds, refusal):
    err = succeeds("train", stores["sets"], tmp_path / "m.h5", *SMALL).err
    assert "note: labels of one row alone: 1 of 90 (l89)" in err
    (tmp_path / "w.txt").write_text("0\n1\n1\n1\n1\n")
    few = {"name": "few", "format": "svmlight-named", "weights": str(tmp_path / "w.txt")}
    store = make_store(tmp_path, "a 1:1\nb 2:1\nc 3:1\nb 1:2\nc 1:3\n", **few)
    err = succeeds("train", store, tmp_path / "few-model.h5").err
    assert "note: labels without a row that counts: 1 of 3 (a)" in err
    for option in (("--valid", stores["sets"]), ("--prior", tmp_path / "m.h5"), ("--log", tmp_path / "t")):
        told = refusal("train", stores["sets"], tmp_path / "n.h5", *SMALL, *option)
        assert f"{option[0]}: is for classes that --memory holds together" in told
    for line, says in (
        (("predict", tmp_path / "m.h5", tmp_path / "few.svm", "--explain", "2"), "leave --explain out"),
        (("train", stores["sets"], tmp_path / "n.h5", "--from", tmp_path / "m.h5"),
         "holds no dual variables of 90 classes"),
        (("train", store, tmp_path / "n.h5", "--learner", "arow", "--drop-below", "1"),
         "--drop-below: arow does not accept it"),
    ):  # fmt: skip
        assert says in refusal(*line)
