"""A loss from outside the package, in one file, wherever a loss is named: commands, Python calls, estimators."""

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from reference import with_bias
from reference_losses import primal_of
from scipy.optimize import minimize
from support.online_cases import taught
from support.plain_learners import plain_runner
from support.refused import refused
from support.smooth_hinge import BARE, SMOOTH_HINGE, link
from support.training_cases import make_store, random_rows

import blocksvm
from blocksvm.base import user_code
from blocksvm.base.user_code import by_user
from blocksvm.estimators import LinearSVC, LinearSVR, OnlineClassifier, PegasosClassifier
from blocksvm.model.model_file import load_model
from blocksvm.online import LEARNERS, get_learner
from blocksvm.online.runner import Runner

PLACE, WIDTH = "support.smooth_hinge:SMOOTH_HINGE", 0.6
FILES = (".h5", ".svm", ".json", ".txt", ".tsv")
FOLLOWING = [name for name in LEARNERS if "loss" in get_learner(name).settings]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store of two classes, one of three, and rows of text."""
    folder = tmp_path_factory.mktemp("outside")
    make_store(folder, *random_rows(n=150, d=12, seed=8), name="two")
    X, _ = random_rows(n=150, d=12, seed=9)
    make_store(folder, X, np.arange(150) % 3 + 1.0, name="three")
    return folder


@pytest.fixture
def command(run_in_process, folder):
    """command(main, words) runs a command line in the folder; the names of a user are those of this line."""

    def run(main, words: str):
        user_code._by_user.clear()
        found = run_in_process(main, *(str(folder / w) if w.endswith(FILES) else w for w in words.split()))
        assert found.code == 0, found.err
        return found

    return run


@pytest.mark.parametrize("more", ["", "--bias 1", "--bias free", "--solver pegasos --dual --max-outer 300 --tol 0.02"])
def test_training_is_certified_and_minimal(command, folder, more):
    words = f"train two.h5 out.h5 --loss {PLACE} --width {WIDTH} -C 0.7 --overwrite {more}".split()[1:]
    command("train", " ".join(words))
    model = load_model(folder / "out.h5")
    X, y = random_rows(n=150, d=12, seed=8)
    XB = with_bias(X.astype(np.float32), 1.0 if "--bias" in more else 0.0)

    def primal(w):
        return primal_of(PLACE, XB, y, w, np.full(150, 0.7), (WIDTH,)) - ("free" in more) * 0.5 * w[12] ** 2

    least = minimize(primal, np.zeros(13), method="BFGS", options={"gtol": 1e-7}).fun
    assert least * (1 - 1e-6) <= model.meta.certificate.primal <= least * 1.03


@pytest.mark.slow
def test_several_classes(command, folder):
    command("train", f"three.h5 classes.h5 --loss {PLACE} --tol 1e-5 --overwrite")
    model = load_model(folder / "classes.h5")
    assert model.weights.shape[0] == 3 and model.meta.certificate.rel_gap <= 1e-5
    X, _ = random_rows(n=150, d=12, seed=9)
    found = load_model(folder / "classes.h5", loss=PLACE).predict_proba(scipy.sparse.csr_matrix(
        (X.data, X.indices + 1, X.indptr), shape=(150, 13)))  # fmt: skip
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


@pytest.mark.parametrize("name", FOLLOWING)
def test_online_learners_follow_it(name):
    """With a width of nothing the steps are those of the hinge, but for rows whose margin is 1; one is compiled."""
    by_user(loss=PLACE)
    X, y = random_rows(n=80, d=9, seed=3)
    given = {"lam": 0.1, "unprojected": True} if name == "pegasos" else {}
    weights = {}
    for loss, more in ((PLACE, {"width": 1e-12}), ("hinge", {})):
        known, make = {"n_features": 10, "n_samples": 80}, Runner if name == "ogd" else plain_runner
        runner = make(name, given | {"loss": loss} | more, known)
        weights[loss] = taught(runner, X.toarray(), y, dtype=np.float64)[2]
    assert weights[PLACE].any()
    if name != "nag":  # its steps end at a margin of 1, where rows that come again are
        np.testing.assert_allclose(weights[PLACE], weights["hinge"], rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_streams_and_regret_and_what_is_said_of_them(command, folder):
    words = f"two.svm --learner nag --loss {PLACE} --width {WIDTH} --model stream.h5 --overwrite"
    command("stream", words)
    assert load_model(folder / "stream.h5").meta.method.settings["width"] == WIDTH
    shown = command("info", "stream.h5").out
    assert PLACE in shown
    command("stream", f"two.svm --from stream.h5 --loss {PLACE} --model again.h5 --overwrite")
    for learner in ("ogd", "fobos --l1 0.01", "pegasos --lambda 0.1"):
        shown = command("regret", f"two.h5 --learner {learner} --loss {PLACE}").out
        assert f"loss        {PLACE}" in shown and "VIOLATED" not in shown


def test_probabilities_are_those_of_its_link(command, folder, refusal):
    command("train", f"two.h5 model.h5 --loss {PLACE} --overwrite")
    values = np.array(command("predict", "model.h5 two.svm --scores").out.split(), float)
    found = command("predict", f"model.h5 two.svm --probabilities --loss {PLACE}").out.split()
    np.testing.assert_allclose(np.array(found, float).reshape(-1, 2), link(values), atol=1e-12)
    # a file decides over no code
    user_code._by_user.clear()
    said = refusal("predict", folder / "model.h5", folder / "two.svm", "--probabilities")
    assert f"names {PLACE} as its loss, whose code would run; if you trust it, give --loss {PLACE}" in said
    said = refusal("predict", folder / "model.h5", folder / "two.svm", "--loss", "hinge")
    assert f"has the loss {PLACE}" in said
    command("export", "model.h5 model.txt --format liblinear --overwrite")
    command("export", "model.h5 model.tsv --format table --overwrite")


def test_from_python_the_object_itself(folder):
    user_code._by_user.clear()
    with blocksvm.open_store(folder / "two.h5") as store:
        fitted = blocksvm.fit(store, loss=SMOOTH_HINGE, width=WIDTH, C=0.7)
        named = blocksvm.fit(store, loss=PLACE, width=WIDTH, C=0.7)
    np.testing.assert_array_equal(fitted.model.weights, named.model.weights)
    assert fitted.model.meta.method.settings["loss"] == PLACE
    assert copy.deepcopy(SMOOTH_HINGE) is pickle.loads(pickle.dumps(SMOOTH_HINGE)) is SMOOTH_HINGE


@pytest.mark.parametrize("loss", [SMOOTH_HINGE, PLACE])
def test_estimators(loss):
    user_code._by_user.clear()
    X, y = random_rows(n=90, d=10, seed=2)
    svc = LinearSVC(loss=loss).fit(X, y)
    assert svc.dual_gap_ <= 1e-4 * svc.objective_
    assert svc.predict_proba(X).shape == (90, 2)
    assert PegasosClassifier(loss=loss, max_iter=20, tol=1e9).fit(X, y).coef_.any()
    assert OnlineClassifier("ogd", loss=loss).partial_fit(X, y, classes=[-1, 1]).coef_.any()
    refused("is for two classes; choose another", LinearSVR(loss=loss).fit, X, y)


@pytest.mark.parametrize(
    ("main", "words", "expected"),
    [
        ("train", "two.h5 out.h5", "has no conjugate"),
        ("train", "two.h5 out.h5 --solver pegasos --dual", "has no conjugate"),
        ("cv", "two.h5 -C 1:10:2", "has no conjugate"),
        ("stream", "two.svm --learner nag", "has no importance-aware step; for nag choose one of hinge"),
        ("regret", "two.h5 --learner ogd", "has no conjugate"),
    ],
)
def test_who_needs_a_part_that_is_missing_says_so_before_it_starts(refusal, folder, main, words, expected):
    user_code._by_user.clear()
    words = [folder / word if word.endswith(FILES) else word for word in words.split()]
    said = refusal(main, *words, "--loss", "support.smooth_hinge:BARE", "--overwrite")
    assert f"--loss support.smooth_hinge:BARE: {expected}" in said


@pytest.mark.slow
def test_a_value_and_a_derivative_are_enough_for_steps_along_gradients(command, folder):
    assert BARE.link is None
    command("train", "two.h5 bare.h5 --solver pegasos --loss support.smooth_hinge:BARE --max-outer 3 --overwrite")
    command("stream", "two.svm --learner ogd --loss support.smooth_hinge:BARE")


def test_a_loss_whose_dual_is_not_whole_is_refused():
    with pytest.raises(TypeError, match="its dual lacks direction, step, stationarity, feasible"):
        replace(SMOOTH_HINGE, lacks=("direction", "step", "stationarity", "feasible"))
