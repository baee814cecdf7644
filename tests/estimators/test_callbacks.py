"""scikit-learn's callbacks see a fit and its iterations, by its protocol: begun and ended in order, torn down."""

import runpy
import sys

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV
from support.training_cases import make_store, random_rows

from blocksvm.base.errors import InputError
from blocksvm.estimators import KernelSVC, LinearSVC, LinearSVR, OnlineClassifier, callbacks

callback = pytest.importorskip("sklearn.callback")  # from scikit-learn 1.9 on
X, Y = random_rows(n=80, d=12, density=0.4, seed=3)


class Recorder:
    """Keeps what it is told, (hook, name and number of the task), and wants an end after so many iterations."""

    max_propagation_depth = None

    def __init__(self, most=None):
        self.most, self.told, self.given, self.fitted = most, [], [], []
        self.setup, self.teardown = (
            lambda estimator, context, hook=hook: self.told.append((hook, context.task_name, context.task_id))
            for hook in ("setup", "teardown")
        )

    def on_fit_task_begin(self, estimator, context, *, X=None, y=None, metadata=None):
        self.told.append(("begin", context.task_name, context.task_id))
        self.given.append((X, y, metadata))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.told.append(("end", context.task_name, context.task_id))
        self.fitted.append(fitted_estimator)
        return context.task_name == "iteration" and context.task_id + 1 == self.most


def of_fit(n: int) -> list[tuple[str, str, int]]:
    """What is told of a fit of n iterations."""
    iterations = [(hook, "iteration", k) for k in range(n) for hook in ("begin", "end")]
    return [("setup", "fit", 0), ("begin", "fit", 0), *iterations, ("end", "fit", 0), ("teardown", "fit", 0)]


SLOWLY = LinearSVC(tol=1e-9, working_set="none")
CASES = {"certified": SLOWLY, "to rounding": LinearSVC(loss="hinge"), "regression": LinearSVR(), "kernel": KernelSVC(),
         "several blocks": LinearSVC(tol=1e-6, working_set="none", memory=10_000),
         "online": OnlineClassifier("arow", max_iter=4)}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_each_iteration_is_a_task_and_nothing_else_changes(case, capsys, tmp_path):
    """As many as ``verbose`` prints lines."""
    rows, more = (X, Y), {"sample_weight": np.ones(len(Y))}
    if case == "several blocks":
        rows, more = (str(make_store(tmp_path, X, Y, chunk_nonzeros=64)), None), None
    plain, recorder = sklearn.clone(CASES[case]).fit(*rows, **more or {}), Recorder()
    watched = sklearn.clone(plain).set_params(verbose=1).set_callbacks(recorder).fit(*rows, **more or {})
    n = capsys.readouterr().out.count(": reading ")
    assert recorder.told == of_fit(n) and n > 1
    assert all(x is rows[0] and y is rows[1] and metadata == more for x, y, metadata in recorder.given)
    assert recorder.fitted[:-1] == [None] * n
    for one in (watched, recorder.fitted[-1]):
        np.testing.assert_array_equal(one.predict(rows[0]), plain.predict(rows[0]))
        np.testing.assert_array_equal(one.intercept_, plain.intercept_)
    assert set(vars(watched)) == {*vars(plain), "_skl_callbacks"}


def test_a_callback_ends_a_fit_which_is_certified_then_and_sees_one_that_fails_torn_down():
    for estimator in (OnlineClassifier("arow", max_iter=4), sklearn.clone(SLOWLY)):
        estimator.set_callbacks(recorder := Recorder(most=2)).fit(X, Y)
        assert recorder.told == of_fit(2)
    assert estimator.status_ == "stopped" and 1e-9 < estimator.dual_gap_ / estimator.objective_ < 1.0
    with pytest.raises(InputError, match="C"):
        LinearSVC(C=-1.0).set_callbacks(recorder := Recorder()).fit(X, Y)
    assert recorder.told == [("setup", "fit", 0), ("begin", "fit", 0), ("teardown", "fit", 0)]


def test_the_callback_of_a_search_sees_all_iterations():
    search = GridSearchCV(OnlineClassifier("arow", max_iter=3), {"r": [0.1, 1.0]}, cv=2)
    search.set_callbacks(recorder := Recorder()).fit(X, Y)
    assert [one for one in recorder.told if one[1] == "iteration"] == 5 * of_fit(3)[2:-2]


def test_scikit_learns_own_callbacks_work(capsys):
    pytest.importorskip("rich")
    monitor = callback.ScoringMonitor(scoring="accuracy")
    fitted = LinearSVC(tol=1e-6).set_callbacks(monitor, callback.ProgressBar()).fit(X, Y)
    assert [line["accuracy"] for line in monitor.get_logs().data] == [fitted.score(X, Y)]
    assert "LinearSVC - fit" in capsys.readouterr().out


def test_an_earlier_scikit_learn_has_none(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.callback", None)
    names = runpy.run_path(callbacks.__file__)
    assert not hasattr(names["CallbackSupportMixin"], "set_callbacks")
    with names["fit_tasks"](LinearSVC(), X, Y, None) as tasks:
        assert tasks is None
