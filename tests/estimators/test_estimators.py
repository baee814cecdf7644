"""The estimators: their optimum beside scikit-learn's, every kind of rows and texts, warm starts, searches over them,
and scikit-learn's own checks of them."""

import inspect
import pickle
import subprocess
import sys
import tracemalloc
import warnings

import joblib
import numpy as np
import pandas
import polars
import pytest
import reference
import scipy.sparse
import sklearn
import sklearn.svm
from joblib import effective_n_jobs
from sklearn.base import clone, is_classifier
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks
from support.training_cases import make_store, random_rows

import blocksvm
from blocksvm import InputError, Matrix, estimators
from blocksvm.estimators import (
    KernelSVC,
    LinearSVC,
    LinearSVR,
    LogisticClassifier,
    OnlineClassifier,
    OnlineRegressor,
    TextClassifier,
)
from blocksvm.estimators import estimator as of_rows
from blocksvm.losses import LOSSES, get_loss
from blocksvm.online import LEARNERS, get_learner

X, Y = random_rows(n=80, d=12, density=0.4, seed=3)
Z = X @ np.arange(12.0)  # targets of regression
THREE = np.array(["fig", "date", "plum"])[np.digitize(Z, np.quantile(Z, [0.4, 0.7]))]


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize(("fit_intercept", "scaling"), [(True, 1.0), (True, 3.0), (False, 1.0)])
def test_the_objective_is_that_of_scikit_learns_linear_svc(loss, fit_intercept, scaling):
    own = LinearSVC(loss=loss, C=0.5, fit_intercept=fit_intercept, intercept_scaling=scaling).fit(X, Y)
    theirs = sklearn.svm.LinearSVC(loss=loss, C=0.5, fit_intercept=fit_intercept, intercept_scaling=scaling, dual=True,
                                   tol=1e-10, max_iter=1_000_000, random_state=0).fit(X, Y)  # fmt: skip
    XB, found = reference.with_bias(X, scaling if fit_intercept else 0.0), []
    for one in (own, theirs):
        w = np.append(one.coef_[0], np.ravel(one.intercept_)[0] / scaling)
        found.append(reference.primal(XB, Y, w, np.full(80, 0.5), loss.replace("_", "-")))
    assert found == pytest.approx([own.objective_] * 2, rel=1e-9)
    assert 0.0 <= own.dual_gap_ <= 1e-4 * own.objective_
    np.testing.assert_allclose(own.coef_, theirs.coef_, atol=1e-5)


TIGHT, FREE = {"tol": 1e-10, "max_iter": 1_000_000}, {"intercept_scaling": "free"}
RIDGE = {"loss": "squared_epsilon_insensitive", "epsilon": 0.0}
SAME = [  # what docs/coming-from.md has a tick for
    (sklearn.svm.LinearSVC(C=0.5, class_weight="balanced", **TIGHT), LinearSVC(C=0.5, class_weight="balanced")),
    (LogisticRegression(C=0.7, **TIGHT), LogisticClassifier(C=0.7, **FREE, tol=1e-9)),
    (sklearn.svm.LinearSVR(C=0.5, epsilon=0.1, **TIGHT), LinearSVR(C=0.5)),
    (sklearn.svm.LinearSVR(C=0.1, **RIDGE, **TIGHT), LinearSVR(C=0.1, **RIDGE)),
    (Ridge(alpha=1.0, tol=1e-12, solver="sparse_cg"), LinearSVR(C=0.5, **RIDGE, **FREE)),
]


@pytest.mark.parametrize(("theirs", "own"), SAME, ids=lambda one: type(one).__name__)
def test_the_weights_are_those_of_scikit_learn(theirs, own):
    y = Y if is_classifier(theirs) else Z + 3.0
    theirs, own = theirs.fit(X, y), own.fit(X, y)
    np.testing.assert_allclose(own.coef_, theirs.coef_, atol=1e-4)
    np.testing.assert_allclose(own.intercept_, np.atleast_1d(theirs.intercept_), atol=1e-4)
    assert own.coef_.shape == theirs.coef_.shape and own.score(X, y) == pytest.approx(theirs.score(X, y), abs=1e-5)
    if hasattr(theirs, "predict_proba"):
        np.testing.assert_allclose(own.predict_proba(X), theirs.predict_proba(X), atol=1e-4)


def test_several_classes_are_each_against_the_others():
    own = LinearSVC().fit(X, THREE)
    assert own.coef_.shape == (3, 12) and list(own.classes_) == ["date", "fig", "plum"]
    for c, name in enumerate(own.classes_):
        alone = LinearSVC().fit(X, THREE == name)
        np.testing.assert_allclose(own.coef_[c], alone.coef_[0], atol=1e-7)
    np.testing.assert_array_equal(own.predict(X), own.classes_[own.decision_function(X).argmax(axis=1)])
    # weights of classes and rows multiply: of one class against the others the class' weight counts for its own rows
    weights = np.random.default_rng(0).integers(0, 3, 80)
    own = LinearSVC(class_weight={"fig": 2, "date": 1, "plum": 0.5}).fit(X, THREE, sample_weight=weights)
    alone = LinearSVC(class_weight={True: 2, False: 1}).fit(X, THREE == "fig", sample_weight=weights)
    np.testing.assert_allclose(own.coef_[1], alone.coef_[0], atol=1e-7)
    together = LinearSVC(loss="hinge", multiclass="crammer-singer", C=0.5).fit(X, THREE)
    assert together.score(X, THREE) > 0.8 and together.dual_gap_ <= 1e-4 * together.objective_


def test_sets_of_labels_are_learned_label_by_label():
    sets = np.stack([Y > 0, Z > 1.0, np.zeros(80), np.ones(80)], axis=1).astype(int)
    with pytest.raises(InputError, match="column 2 of y is 0 in every row"):
        LinearSVC().fit(X, sets)
    sets = sets[:, [0, 1, 3]]
    own = LogisticClassifier().fit(X, sets)
    for c in range(2):
        np.testing.assert_allclose(own.coef_[c], LogisticClassifier().fit(X, sets[:, c]).coef_[0], atol=1e-7)
    assert (own.predict(X)[:, 2] == 1).all() and own.predict_proba(X).shape == (80, 3)
    assert own.fit(X, scipy.sparse.csr_matrix(sets)).predict(X).shape == (80, 3)


def test_calibrated_probabilities():
    for kind in ("platt", "isotonic"):
        own = LinearSVC(calibrate=kind).fit(X, Y)
        found = own.predict_proba(X)
        assert found.shape == (80, 2) and np.allclose(found.sum(axis=1), 1.0)
        order = np.argsort(own.decision_function(X))
        assert (np.diff(found[order, 1]) >= -1e-12).all()
    assert not hasattr(LinearSVC(), "predict_proba")


def test_what_is_said_while_it_is_fitted_and_where_it_was_not_reached(capsys):
    for verbose in (0, 1):
        LinearSVC(verbose=verbose).fit(X, Y)
        assert capsys.readouterr().out.startswith("LinearSVC: reading 1, " if verbose else "")
    with pytest.warns(ConvergenceWarning, match="2 passes over the rows did not reach tol=1e-08"):
        LinearSVC(tol=1e-8, max_iter=2).fit(X, Y)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"C": -1.0}, "C=-1"), ({"loss": "logistic"}, "loss=logistic: choose one of squared_hinge, hinge"),
     ({"intercept_scaling": 0.0}, "intercept_scaling=0"), ({"memory": "much"}, "memory: 'much' is not a size"),
     ({"tol": -1.0}, "tol"), ({"max_iter": 0}, "max_outer=0"),
     ({"loss": "hinge2"}, "loss=hinge2: choose one of squared_hinge, hinge, or a Loss"),
     ({"penalty": "l1"}, "penalty=l1: the penalty is l2"), ({"dual": False}, "dual=False: the dual is solved"),
     ({"class_weight": {"pear": 1.0}}, "no row is of the class pear"),
     ({"calibrate": "beta"}, "choose one of platt, isotonic")],
)  # fmt: skip
def test_what_is_wrong_with_parameters_is_said_by_fit(wrong, said):
    with pytest.raises(InputError, match=said):
        LinearSVC(**wrong).fit(X, Y)


def test_every_layout_of_the_same_rows_gives_the_same_model():
    large = scipy.sparse.csr_matrix(X)
    large.indices, large.indptr = large.indices.astype(np.int64), large.indptr.astype(np.int64)
    own = LinearSVC().fit(X, Y)
    for other in (X.toarray(), np.asfortranarray(X.toarray()), X.tocsc(), scipy.sparse.csr_array(X), large, X.tolil()):
        found = LinearSVC().fit(other, Y)
        np.testing.assert_array_equal(found.coef_, own.coef_)
        np.testing.assert_allclose(found.decision_function(other), own.decision_function(X), rtol=1e-12, atol=1e-12)
    for given in (LinearSVC(penalty="l2", dual=True), LinearSVC(dual="auto")):  # as scikit-learn has them
        np.testing.assert_array_equal(given.fit(X, Y).coef_, own.coef_)
    assert LinearSVR(dual=True).fit(X, Y).dual_gap_ >= 0.0


@pytest.fixture(scope="module")
def many():
    """Rows of float32 that no copy of is small."""
    rng = np.random.default_rng(1)
    rows = scipy.sparse.random(4_000, 3_000, density=0.05, random_state=rng, format="csr", dtype=np.float32)
    return rows, np.where(rows @ rng.standard_normal(3_000) > 0, 1, 0)


def test_float32_rows_are_not_copied(many):
    rows, y = scipy.sparse.vstack([many[0]] * 6, format="csr"), np.tile(many[1], 6)
    own = LinearSVC(tol=0.5, working_set="none").fit(rows, y)  # whatever is loaded once
    own.decision_function(rows)
    tracemalloc.start()
    own.fit(rows, y).decision_function(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * rows.data.nbytes < 2 * rows.nnz + 1


def test_memory_that_may_not_be_written_is_taken_as_it_is(many):
    """As joblib hands arrays to its processes; kernels would be compiled anew for it."""
    rows, y = many
    shut = rows.copy()
    for array in (shut.indptr, shut.indices, shut.data):
        array.flags.writeable = False
    source = Matrix(shut, y)
    assert source.indices.flags.writeable and np.shares_memory(source.indices, shut.indices)
    assert np.shares_memory(source.values, shut.data)


@pytest.mark.slow
def test_batches_are_the_same_problem_as_the_matrix(tmp_path):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 80)
    whole = LinearSVC(tol=1e-10).fit(X, THREE, sample_weight=weights)
    given = [(X[k : k + 17], THREE[k : k + 17], weights[k : k + 17]) for k in range(0, 80, 17)]
    for batches in (given, (batch for batch in given)):
        own = LinearSVC(tol=1e-10, memory=20_000_000, temp=tmp_path).fit(batches)
        np.testing.assert_allclose(own.coef_, whole.coef_, atol=1e-5)
        assert list(own.classes_) == list(whole.classes_) and own.n_features_in_ == 12
    assert list(tmp_path.iterdir()) == []
    again = OnlineClassifier("pa1", temp=tmp_path).fit(given)
    again.partial_fit(X, THREE)
    assert again.score(X, THREE) > 0.6 and again.predict(X[0]).shape == (1,)
    integers = LinearSVC(temp=tmp_path).fit([(X[:50].toarray(), (Y > 0)[:50].astype(int)), (X[50:], (Y > 0)[50:])])
    assert integers.classes_.dtype.kind == "i"


@pytest.mark.parametrize(
    ("batches", "said"),
    [([(X[:5], Y[:4])], "4 labels for 5 rows"), ([(X[:5], Y[:5]), (X[5:9, :3], Y[5:9])], "3 features"),
     ([(X[:5], None)], "has no labels"), (iter([]), "gave no rows"), (iter([X]), r"must give batches \(X, y\)"),
     ([(X[:5], Y[:5], np.ones(3))], "3 weights for 5 rows")],
)  # fmt: skip
def test_what_is_wrong_with_batches_is_said(batches, said, tmp_path):
    with pytest.raises(InputError, match=said):
        LinearSVC(temp=tmp_path).fit(batches)
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_read_in_blocks(tmp_path):
    store = make_store(tmp_path, X, Y, chunk_nonzeros=40, dtype="float64")  # features are numbered from 1
    own = LinearSVC(tol=1e-10).fit(str(store))
    whole = LinearSVC(tol=1e-10).fit(X, Y)
    # ||w - w*||^2 <= 2 (P - D), and P is at most that of w = 0, l
    np.testing.assert_allclose(own.coef_[0, 1:], whole.coef_[0], rtol=0, atol=2 * np.sqrt(2 * 1e-10 * len(Y)))
    assert own.n_features_in_ == 13 and own.coef_[0, 0] == 0.0 and list(own.classes_) == [-1.0, 1.0]
    shifted = scipy.sparse.hstack([scipy.sparse.csr_matrix((80, 1)), X]).tocsr()
    np.testing.assert_allclose(own.decision_function(store), own.decision_function(shifted), atol=1e-12)
    np.testing.assert_array_equal(own.predict(store), own.predict(shifted))  # in the order of the text
    assert own.score(store) == own.score(shifted, Y)
    with pytest.raises(InputError, match="leave y and sample_weight out"):
        own.fit(store, Y)


@pytest.mark.slow
def test_pandas_and_polars_give_names(tmp_path):
    frame = pandas.DataFrame(X.toarray(), columns=[f"c{j}" for j in range(12)])
    own = LinearSVC().fit(frame, pandas.Series(THREE))
    assert list(own.feature_names_in_) == list(frame.columns)
    np.testing.assert_array_equal(own.predict(frame), LinearSVC().fit(X, THREE).predict(X))
    scaled = make_pipeline(StandardScaler(), LinearSVC()).set_output(transform="pandas").fit(frame, Y)
    assert list(scaled[-1].feature_names_in_) == list(frame.columns)
    table = polars.DataFrame({name: frame[name].to_numpy() for name in frame.columns})
    np.testing.assert_array_equal(LinearSVC().fit(table, Y).coef_, LinearSVC().fit(X, Y).coef_)


@pytest.mark.slow
def test_a_warm_start_begins_with_the_last_dual_variables(many):
    rows, y = many
    own = LinearSVC(tol=1e-6, warm_start=True).fit(rows, y)
    before = own.n_iter_
    assert own.fit(rows, y).n_iter_ <= 10 < before
    cold = LinearSVC(tol=1e-6, C=1.5).fit(rows, y)
    assert own.set_params(C=1.5).fit(rows, y).objective_ == pytest.approx(cold.objective_, rel=2e-6)
    # other rows are another problem
    other = LinearSVC(tol=1e-6, C=1.5).fit(rows[:2000], y[:2000])
    assert own.fit(rows[:2000], y[:2000]).objective_ == pytest.approx(other.objective_, rel=2e-6)
    # and of a learner with all that it has learned
    own = OnlineClassifier("pa1", max_iter=1, warm_start=True).fit(X, Y)
    first = own.coef_.copy()
    assert own.fit(X, Y).t_ == 160 and (own.coef_ != first).any()
    assert OnlineClassifier("pa1", max_iter=1).fit(X, Y).fit(X, Y).t_ == 80


@pytest.mark.parametrize("y", [Y, THREE, Z])
@pytest.mark.parametrize(("learner", "own"), [("pa1", {"C": 0.3}), ("pa", {})])
def test_partial_fit_learns_what_fit_learns(y, learner, own):
    make, classes = (OnlineRegressor, {}) if y is Z else (OnlineClassifier, {"classes": np.unique(y)})
    given = own | {"average": True, "max_iter": 2, "shuffle": False}
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 80) if learner == "pa1" else np.ones(80)
    whole, parts = make(learner, **given).fit(X, y, weights), make(learner, **given)
    for _ in range(2):
        for k in range(0, 80, 9):
            rows = slice(k, k + 9)
            parts.partial_fit(X[rows], y[rows], **classes, sample_weight=weights[rows])
    np.testing.assert_array_equal(parts.coef_, whole.coef_)
    np.testing.assert_array_equal(parts.intercept_, whole.intercept_)
    assert parts.t_ == whole.t_ == 160


def test_what_partial_fit_needs():
    both = {"classes": [-1.0, 1.0]}
    for learner, own, given, said in (
        ("pa1", {}, {}, "classes must be passed"), ("pa1", {}, {"classes": [0.0, 1.0]}, "which is not among classes"),
        ("pa1", {"class_weight": "balanced"}, both, "needs all rows"), ("pa9", {}, both, "learner=pa9: no such le"),
        ("pa1", {"intercept_scaling": "free"}, both, "intercept_scaling=free"),
        ("pa1", {"r": 1.0}, both, "r: pa1 does not accept it; it accepts C"),
        ("cw-var", {}, both | {"sample_weight": np.arange(80.0)}, "cw-var: does not support weights"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=said):
            OnlineClassifier(learner, **own).partial_fit(X, Y, **given)
    given = OnlineClassifier("pa1", class_weight={-1.0: 2.0}).partial_fit(X, Y, **both)
    weighted = OnlineClassifier("pa1").partial_fit(X, Y, **both, sample_weight=np.where(Y > 0, 1.0, 2.0))
    np.testing.assert_array_equal(given.coef_, weighted.coef_)


def test_parameters_are_the_settings_that_are_declared():
    for owner in (getattr(estimators, name) for name in estimators.__all__):
        signature = inspect.signature(owner).parameters
        assert all(name in owner.__doc__ for name in signature)
        assert clone(owner()).get_params() == owner().get_params()
        assert pickle.loads(pickle.dumps(owner())).get_params() == owner().get_params()
        # a default is the declared one, but for what scikit-learn's classes have otherwise
        declared = {setting.name: setting.default for setting in getattr(owner, "solver_settings", ())}
        given = {name: signature[name].default for name in declared.keys() & signature.keys() - {"loss"}}
        assert given == {name: declared[name] for name in given}
    for owner in (OnlineClassifier, OnlineRegressor):
        learners = [get_learner(name) for name in LEARNERS]
        learners = [one.of_targets(owner.targets) for one in learners if owner.targets in (None, *one.targets)]
        losses = {setting.name for loss in LOSSES for setting in get_loss(loss).settings}
        settings = losses.union(*(one.settings.names() for one in learners)) - {"n_features"}
        settings |= {"multiclass", "query", "class_weight"} if owner.targets is None else set()
        parameters = inspect.signature(owner).parameters.items()
        found = {name.removeprefix("ftrl_") for name, one in parameters if not one.default}
        assert found == settings | {"random_state", "memory", "temp", "n_jobs", "average", "verbose", "warm_start"}
    assert repr(OnlineClassifier(l1=0.5)) == "OnlineClassifier(l1=0.5)"
    with pytest.raises(TypeError, match="lam"):
        LinearSVC(lam=1.0)
    with pytest.raises(AttributeError, match="SVC"):
        estimators.SVC  # noqa: B018


@pytest.mark.parametrize(
    ("learner", "own"),
    [("perceptron-bias", {"fit_intercept": False, "max_norm": 9.0}), ("mira", {}), ("pegasos", {"lam": 0.1}),
     (get_learner("arow"), {})],
)  # fmt: skip
def test_a_learner_is_any_by_its_name_or_itself(learner, own):
    whole = OnlineClassifier(learner, max_iter=1, shuffle=False, **own).fit(X, Y)
    part = OnlineClassifier(learner, **own).partial_fit(X, Y, classes=[-1, 1])
    np.testing.assert_array_equal(whole.coef_, part.coef_)


@pytest.mark.slow
def test_searches_pipelines_and_calibration():
    found = GridSearchCV(make_pipeline(MaxAbsScaler(), LinearSVC()), {"linearsvc__C": [0.01, 1.0]}, cv=3).fit(X, THREE)
    alone = [cross_val_score(make_pipeline(MaxAbsScaler(), LinearSVC(C=C)), X, THREE, cv=3).mean() for C in (0.01, 1.0)]
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], alone)
    with joblib.parallel_backend("threading"):
        found = GridSearchCV(LinearSVC(), {"C": [0.1, 1.0]}, cv=3, n_jobs=2).fit(X, Y)
    np.testing.assert_array_equal(found.best_estimator_.coef_, LinearSVC(**found.best_params_).fit(X, Y).coef_)
    probabilities = CalibratedClassifierCV(LinearSVC(), cv=3).fit(X, Y).predict_proba(X)
    assert probabilities.shape == (80, 2)


@pytest.mark.slow
@pytest.mark.process
def test_a_search_has_the_same_bits_in_other_processes():
    """Rows of some megabytes come to loky's processes as memory maps."""
    rows, labels = random_rows(n=4000, d=300, density=0.1, seed=4)
    search = GridSearchCV(LinearSVC(tol=1e-3), {"C": [0.1, 1.0]}, cv=2)
    expected = search.fit(rows, labels)
    scores = expected.cv_results_["mean_test_score"]
    with joblib.parallel_config("loky", n_jobs=2):
        found = clone(search).fit(rows, labels)
    np.testing.assert_array_equal(found.cv_results_["mean_test_score"], scores)
    np.testing.assert_array_equal(found.best_estimator_.coef_, expected.best_estimator_.coef_)


def test_weights_are_routed_as_metadata():
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 80)
    with sklearn.config_context(enable_metadata_routing=True):
        own = LinearSVC().set_fit_request(sample_weight=True)
        routed = make_pipeline(MaxAbsScaler(), own).fit(X, Y, sample_weight=weights)
    direct = LinearSVC().fit(MaxAbsScaler().fit_transform(X), Y, sample_weight=weights)
    np.testing.assert_array_equal(routed[-1].coef_, direct.coef_)


@pytest.mark.process
def test_a_fitted_estimator_goes_to_other_processes(tmp_path):
    fitted = [LinearSVC().fit(X, THREE), OnlineClassifier("pa1").fit(X, THREE), KernelSVC().fit(X, Y)]
    joblib.dump((fitted, X), tmp_path / "fitted.joblib")
    code = ("import sys, joblib, numpy as np\nfitted, X = joblib.load(sys.argv[1], mmap_mode='r')\n"
            "fitted[1].partial_fit(X[:1], fitted[1].classes_[:1])\n"
            "joblib.dump([one.decision_function(X) for one in fitted], sys.argv[2])")  # fmt: skip
    there, back = tmp_path / "fitted.joblib", tmp_path / "back.joblib"
    subprocess.run([sys.executable, "-c", code, str(there), str(back)], check=True)
    fitted[1].partial_fit(X[:1], fitted[1].classes_[:1])
    for own, other in zip(fitted, joblib.load(back), strict=True):
        np.testing.assert_array_equal(own.decision_function(X), other)


def test_a_machine_with_a_kernel_keeps_its_support_vectors():
    own = KernelSVC(gamma=0.3, C=2.0).fit(X, Y)
    theirs = sklearn.svm.SVC(gamma=0.3, C=2.0, tol=1e-8).fit(X, Y)
    np.testing.assert_allclose(own.decision_function(X), theirs.decision_function(X), atol=1e-5)
    vectors = own.support_vectors_.toarray()
    gram = np.exp(-0.3 * ((vectors[None] - X.toarray()[:, None]) ** 2).sum(axis=2))
    np.testing.assert_allclose(gram @ own.dual_coef_[0] + own.intercept_, own.decision_function(X), atol=1e-9)
    assert own.dual_gap_ <= 1e-4 * own.objective_
    with pytest.raises(InputError, match="Only binary classification is supported"):
        KernelSVC().fit(X, THREE)


@pytest.mark.parametrize("made", [LinearSVC, KernelSVC, OnlineClassifier])
def test_threads_change_nothing_that_comes_out(made, monkeypatch, tmp_path):
    rows = scipy.sparse.vstack([X] * 1_000, format="csr")  # several pieces
    values, asked = [], []
    store = of_rows.store_batches
    monkeypatch.setattr(of_rows, "store_batches", lambda *given: asked.append(given[2].n_jobs) or store(*given))
    for n_jobs in (None, 2, -1):
        own = made(n_jobs=n_jobs, temp=tmp_path).fit(X, Y)
        values.append((own.decision_function(rows), own.decision_function(rows.toarray())))
        if made is LinearSVC:
            values[-1] += (own.fit([(X[:50], Y[:50]), (X[50:], Y[50:])]).coef_,)
    for found in values[1:]:
        for one, first in zip(found, values[0], strict=True):
            np.testing.assert_array_equal(one, first)
    if made is LinearSVC:
        assert asked == [1, 2, effective_n_jobs(-1)]
    with pytest.raises(ValueError, match="n_jobs"):
        made(n_jobs=0).fit(X, Y).decision_function(X)


@pytest.mark.parametrize("labels", [Y, THREE])
@pytest.mark.parametrize("made", [LinearSVC, LogisticClassifier])
def test_columns_numbered_by_frequency_are_the_same_problem(made, labels, monkeypatch):
    """Bit by bit, but for sums over features.  Column 3 is nowhere, column 7 in every row."""
    wide = X.tolil()
    wide[:, 3], wide[:, 7] = 0.0, 1.0
    wide = wide.tocsr()
    before = [wide.data.copy(), wide.indices.copy(), wide.indptr.copy()]
    plain = made(tol=1e-9).fit(wide, labels)
    asked = []
    asked_for = lambda *given, **how: asked.append(how["numbered_by_frequency"]) or Matrix(*given, **how)  # noqa: E731
    monkeypatch.setattr(estimators.estimator, "Matrix", asked_for)
    own = made(tol=1e-9, warm_start=True)
    own.numbered_from = 5
    own.fit(wide, labels)
    assert asked == [True]
    for array, old in zip((wide.data, wide.indices, wide.indptr), before, strict=True):
        np.testing.assert_array_equal(array, old)
    rounding = 1e-12 if made is LinearSVC and labels is Y else 0.0
    np.testing.assert_allclose(own.coef_, plain.coef_, rtol=rounding)
    np.testing.assert_allclose(own.intercept_, plain.intercept_, rtol=rounding)
    np.testing.assert_allclose(own.decision_function(wide), plain.decision_function(wide), rtol=rounding, atol=rounding)
    assert (own.coef_[:, 3] == 0.0).all() and own.n_features_in_ == 12
    again = own.fit(wide, labels)
    np.testing.assert_allclose(again.coef_, plain.coef_, atol=1e-4)
    # other columns in the same order are other rows
    rows = [scipy.sparse.csr_matrix(np.eye(6)[[c, 1, 1, c, 1]]) for c in (5, 4)]
    one, other = (Matrix(own, numbered_by_frequency=True) for own in rows)
    assert one.feature_ids(0, 2).tolist() == [1, 5] and one.fingerprint != other.fingerprint


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("most", [1, 7, 150, 200, 299])
def test_passes_are_at_most_those_allowed(small, most):
    """Whatever ends a reading: what a pass adds to the dual, or the projected gradients."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        own = LinearSVC(loss="hinge", C=1e4, tol=None if small else 1e-16, max_iter=most, max_seconds=60).fit(X, Y)
    assert 0.6 * most <= own.n_iter_ <= most


@pytest.mark.slow
def test_a_problem_that_converges_slowly_is_certified_within_max_iter(many):
    """There are as many passes in all as allowed, and not a fixed number of readings."""
    rows, y = many
    own = LinearSVC(loss="hinge", C=100.0, tol=1e-3).fit(rows, y)
    assert own.certificate_.rel_gap <= 1e-3
    assert own.n_iter_ <= 1000


@pytest.mark.process
def test_scikit_learn_is_imported_by_estimators_alone():
    code = "import sys, blocksvm, blocksvm.api.fit, blocksvm.train\nsys.exit('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    code = "import sys\nsys.modules['sklearn'] = None\nimport blocksvm.estimators"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith("ImportError: blocksvm.estimators needs scikit-learn: pip install")


def test_a_matrix_takes_an_indicator_of_labels():
    y = np.array([[1, 0, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0]])
    source = Matrix(scipy.sparse.csr_matrix(np.eye(4)), y)
    assert source.label_kind == "sets" and source.labels is None and source.n_unlabelled == 0
    assert source.label_counts == [((), 1), ((0.0, 2.0), 2), ((1.0,), 1)]
    assert source.y.tolist() == [1, 0, 1, 2]
    with pytest.raises(InputError, match="one a row"):
        Matrix(scipy.sparse.csr_matrix(np.eye(4)), y * 2)


RANDOM = np.random.default_rng(4)
LABELS = ["ham", "spam"] * 30
BEGINS = ["see you", "win money"] * 30
TEXTS = [f"{one} {RANDOM.choice(['soon', 'now'])} {RANDOM.choice(['Ünü', 'x1', 'lunch'])}" for one in BEGINS]


def test_it_is_split_and_train(tmp_path, monkeypatch):
    (tmp_path / "t.txt").write_text("".join(f"{y}\t{x}\n" for y, x in zip(LABELS, TEXTS, strict=True)))
    (tmp_path / "f.txt").write_text("".join(f"__label__{y} {x}\n" for y, x in zip(LABELS, TEXTS, strict=True)))
    settings = {"ngrams": "word:1,char_wb:3", "idf": "smooth", "normalize": "l2", "accents": "strip"}
    blocksvm.write_store(tmp_path / "t.txt", tmp_path / "t.h5", format="documents", **settings)
    with blocksvm.open_store(tmp_path / "t.h5") as store:
        fitted = blocksvm.fit(store, loss="squared-hinge", C=2.0, bias=1.0)
    estimator = TextClassifier("squared_hinge", 2.0, **settings)
    for given in ((TEXTS, LABELS), (np.array(TEXTS), np.array(LABELS)), ([str(tmp_path / "f.txt")],)):
        estimator.fit(*given)
        assert np.array_equal(estimator.model_.weights, fitted.model.weights)
    assert estimator.dual_gap_ == fitted.certificate.rel_gap <= 1e-3 and estimator.classes_.tolist() == ["ham", "spam"]
    values = estimator.decision_function(TEXTS)
    for path in (str(tmp_path / "f.txt"), tmp_path / "f.txt", [tmp_path / "f.txt"]):
        assert values.tolist() == estimator.decision_function(path).tolist()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "win money").write_text("see you\n" * 2)
    assert estimator.predict(["win money"]).tolist() == ["spam"]  # a text, although there is a file of this name
    assert estimator.predict([]).tolist() == [] and len(estimator.decision_function([])) == 0
    assert estimator.score(TEXTS, LABELS) == 1.0 and not hasattr(estimator, "predict_proba")
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        TextClassifier(C=1e4, tol=1e-9, max_iter=1).fit(TEXTS, LABELS)


def test_probabilities_sets_and_weights():
    estimator = TextClassifier(C=10.0, class_weight="balanced").fit(TEXTS, LABELS)
    shares = estimator.predict_proba(["win money", "see you"])
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert shares[0, 1] > 0.5 > shares[1, 1]
    twice = TextClassifier(tol=1e-9).fit(TEXTS + TEXTS[:7], LABELS + LABELS[:7])
    weights = np.where(np.arange(60) < 7, 2.0, 1.0)
    weighted = TextClassifier(tol=1e-9).fit(TEXTS, LABELS, sample_weight=weights)
    np.testing.assert_allclose(weighted.decision_function(TEXTS), twice.decision_function(TEXTS), atol=1e-3)
    sets = TextClassifier("hinge", 100.0).fit(TEXTS, [(y, "all") for y in LABELS])
    assert sets.predict(["win money now"])[0] == ("all", "spam")
    grid = GridSearchCV(TextClassifier(), {"C": [0.1, 10.0], "ngrams": ["word:1", "char:2"]}, cv=2).fit(TEXTS, LABELS)
    assert grid.best_score_ == 1.0


def test_more_rows():
    estimator = TextClassifier(C=10.0, tol=1e-8)
    estimator.partial_fit(TEXTS[:40], LABELS[:40])
    estimator.partial_fit(TEXTS[40:], LABELS[40:])
    whole = TextClassifier(C=10.0, tol=1e-8).fit(TEXTS, LABELS)
    np.testing.assert_allclose(estimator.decision_function(TEXTS), whole.decision_function(TEXTS), atol=1e-3)
    again = pickle.loads(pickle.dumps(estimator))
    assert again.decision_function(TEXTS).tolist() == estimator.decision_function(TEXTS).tolist()
    with pytest.raises(blocksvm.InputError, match="not in what was pickled; fit all rows again"):
        again.partial_fit(TEXTS, LABELS)


def test_what_is_wrong_with_texts_is_said():
    with pytest.raises(ValueError, match="X is no list of strings"):
        TextClassifier().fit(np.zeros((2, 2)), [0, 1])
    with pytest.raises(ValueError, match="row 1: is float, and texts are strings"):
        TextClassifier().fit(["a", 0.5], [0, 1])
    with pytest.raises(ValueError, match="intercept_scaling=0: must be a number above 0"):
        TextClassifier(intercept_scaling=0).fit(TEXTS, LABELS)


# scikit-learn declares the same of its own SGDClassifier, SGDRegressor and Perceptron
ONE_STEP = dict.fromkeys(
    ("check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"),
    "a row of weight 2 is one larger step, and not two steps",
)
NO_WEIGHTS = ("check_sample_weights_list", "check_sample_weights_not_overwritten", "check_class_weight_classifiers",
              "check_classifiers_one_label_sample_weights")  # fmt: skip


def expected_failures(estimator) -> dict[str, str]:
    if type(estimator).__name__ in ("KernelSVC", "LinearSVC", "LinearSVR", "LogisticClassifier"):
        return {}
    none = NO_WEIGHTS if getattr(estimator, "learner", "") == "cw-stdev" else ()
    return ONE_STEP | dict.fromkeys(none, "it takes no weights of rows")


# Some checks have rows that are far from 0, on which coordinate descent is slow.  Of learners: one with a variance for
# each weight, one whose weights are brought up to date when they are read, one without weights of rows.  What the
# others learn is judged with the learners themselves; with the squared loss fixed steps diverge on unscaled rows.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.slow
@parametrize_with_checks(
    [
        *(getattr(estimators, name)() for name in estimators.__all__ if name != "TextClassifier"),
        *map(OnlineClassifier, ("arow", "fobos", "cw-stdev")),
        OnlineRegressor("fobos", loss="epsilon_insensitive", step=0.1),
    ],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


# scikit-learn has no checks of texts but those of parameters
@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_scikit_learns_checks_of_parameters():
    check_estimator(TextClassifier())
