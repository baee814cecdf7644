"""Estimators of the online learners, which are named as everywhere else: ``learner="arow"``.

``fit`` runs the learner over the rows, in orders drawn by the seed; ``partial_fit`` learns from a batch in its order
and continues from the state, by the same kernels.
"""

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import _check_partial_fit_first_call
from sklearn.utils.validation import _check_sample_weight

from blocksvm.base.errors import InputError
from blocksvm.base.labels import Labels
from blocksvm.base.user_code import by_user
from blocksvm.estimators.estimator import PARAMETERS, Classifier, Estimator, Regressor, columns_of, documented
from blocksvm.online import LEARNERS
from blocksvm.online.learner import COMMON_SETTINGS, NUMBERS, REST, SHARED
from blocksvm.online.loops import ROWS
from blocksvm.online.runner import LearnerState, Runner
from blocksvm.online.solver import no_epochs
from blocksvm.sources.matrix import Matrix
from blocksvm.training.run_settings import FREE


class Online(Estimator):
    """Base class; ``targets``: NUMBERS of a regressor."""

    targets: str | None = None

    def _bias(self) -> float:
        bias = super()._bias()
        if bias == FREE:
            raise InputError("intercept_scaling=free: online learners have a constant feature; give its value")
        return bias

    def _settings(self) -> tuple[dict, dict]:
        """(settings of the learner, settings that all learners share) that are given."""
        names = [name for name in self.get_params(deep=False) if name not in PARAMETERS and name != "class_weight"]
        given = {name.removeprefix("ftrl_"): getattr(self, name) for name in names}
        given = {name: value for name, value in given.items() if value is not None and value is not False}
        given |= {} if self.targets is None else {"targets": self.targets}
        if isinstance(given.get("loss"), str) and ":" not in given["loss"]:
            given["loss"] = given["loss"].replace("_", "-")
        by_user(given, learner=self.learner)
        shared = {name: given.pop(name) for name in list(given) if name in SHARED}
        return given, shared

    def _runner(self) -> Runner:
        """The learner with its settings, for the features and classes of the first batch."""
        settings, shared = self._settings()
        k = len(self.classes_) if is_classifier(self) else 2
        rule = shared.pop("multiclass", None)
        prototypes = k if k > 2 and rule != REST else 1  # features of one learner
        known = {"n_features": (self.n_features_in_ + bool(self._bias())) * prototypes}
        return Runner(
            LEARNERS.name_of(self.learner), settings, known, bias=self._bias(), n_classes=k,
            rule=rule if k > 2 else None, **shared,
        )  # fmt: skip

    def fit(self, X, y=None, sample_weight=None):
        """Learn from X (n, d), dense or scipy sparse, with labels y (n,) and weights (n,) of 0 or more, in ``max_iter``
        epochs; from a store's path; or from an iterable of batches (X, y) or (X, y, sample_weight)."""
        with self._source(X, y, sample_weight) as source:
            previous, columns = self._state if self.warm_start and hasattr(self, "_state") else None, columns_of(source)
            if previous is not None and (columns is not None or self.n_features_in_ + 1 != len(previous["features"])):
                raise InputError("warm_start: goes on with rows in memory of as many features; leave it out")
            settings, shared = self._settings()
            if getattr(self, "class_weight", None) is not None:
                shared["class_weight"] = self._class_weight(source)
            seen = 0 if previous is None else self.t_  # other orders than before
            fitted = self._run(
                source, seed=self._seed() + seen, learner=self.learner, start_from=previous, bias=self._bias(),
                max_outer=self.max_iter, order="shuffled" if self.shuffle else "stored", **settings, **shared,
            )  # fmt: skip
            self._keep(source, fitted)
            self._state = {name: np.array(array) for name, array in fitted.state.items()}
            if columns is not None:
                # class after class, the numbers of the source's features go to the columns of the matrix
                runner, before = fitted.plan.solver.runner, self._state["features"]
                numbers = np.zeros((runner.n_vectors, self.n_features_in_ + 1, runner.width))
                runner.fill_new(numbers.reshape(-1))
                numbers[:, [*columns, -1]] = before.reshape(runner.n_vectors, -1, runner.width)
                self._state["features"] = numbers.reshape(self.n_features_in_ + 1, *before.shape[1:])
            self.t_ = int(self._state["tally"][ROWS])
        return self

    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from a batch of rows in their order; classes: all that there are, at the first call."""
        first = not hasattr(self, "_state")
        if is_classifier(self):
            first = _check_partial_fit_first_call(self, classes) or first
        X, y = self._checked(X, y, reset=first)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        if is_classifier(self):
            if isinstance(self.class_weight, str):
                raise InputError("class_weight='balanced': needs all rows; give a dict of weights to partial_fit")
            if self.class_weight is not None:
                weights = compute_sample_weight(self.class_weight, y) * (1.0 if weights is None else weights)
            self.multilabel_ = False
            if len(self.classes_) < 2:
                raise InputError("classes has 1 class; a classifier needs two or more")
            unknown = np.setdiff1d(y, self.classes_)
            if len(unknown):
                raise InputError(f"y has the label {unknown[0]}, which is not among classes")
            y = np.searchsorted(self.classes_, y).astype(np.float64)  # positions among the classes
        runner = self._runner()
        if first:
            new, d = runner.new_state(self.n_features_in_), self.n_features_in_
            features = new.columns if runner.feature_numbers == 1 else new.columns.reshape(d + 1, -1)
            # with the names and shapes of ``OnlineSolver``
            self._state = {"features": features, "scalars": new.scalars, "tally": new.tally, "epochs": no_epochs()}
        source = Matrix(X, y, weights=weights)
        if source.weighted:
            runner.check_weights()
        labels = Labels(tuple(map(float, range(len(self.classes_))))) if is_classifier(self) else None
        block = source.reader(labels, real=labels is None).read_block(np.arange(len(source.chunks)), None)
        self._state = {name: a if a.flags.writeable else a.copy() for name, a in self._state.items()}
        state = LearnerState(self._state["features"].reshape(-1), self._state["scalars"], self._state["tally"])
        order = np.arange(X.shape[0], dtype=np.int32)
        runner.learn(block.matrix, block.y, order, self.n_features_in_, state, weights=block.weights)
        w = np.empty((runner.n_vectors, self.n_features_in_ + 1))
        runner.weights(state, w.reshape(-1))
        self.coef_ = w[:, :-1].copy() if is_classifier(self) else w[0, :-1].copy()
        self.intercept_ = w[:, -1] * runner.bias
        self.n_iter_, self.t_ = 1, int(state.tally[ROWS])
        return self


@documented(*COMMON_SETTINGS)
class OnlineClassifier(Classifier, Online):
    """Any online learner of classes: ``OnlineClassifier("arow", r=2.0)``.

    Fitted: coef_ (1, d) or (k, d), intercept_, classes_, n_iter_ (epochs), t_ (rows seen).
    """

    def __init__(
        self, learner="auto", *, C=None, step=None, loss=None, epsilon=None, delta=None, decay=None, radius=None,
        lam=None, unprojected=None, max_norm=None, costs=None, cost_rule=None, confidence=None, variance=None, r=None,
        mirror=None, p=None, regulariser=None, l1=None, l2=None, half_steps=None, group=None, cap=None, ftrl_alpha=None,
        ftrl_beta=None, wealth=None, average=False, multiclass=None, query=None, class_weight=None, fit_intercept=True,
        intercept_scaling=1.0, max_iter=10, shuffle=True, warm_start=False, random_state=None, verbose=0, memory=None,
        temp=None, n_jobs=None,
    ):  # fmt: skip
        self._set(locals())


@documented(SHARED["average"])
class OnlineRegressor(Regressor, Online):
    """Any online learner of numbers: ``OnlineRegressor("ftrl", l1=0.1)``.

    The loss is by default squared, with which fixed steps diverge on rows that are not scaled:
    ``OnlineRegressor("ogd", loss="epsilon_insensitive", step=0.1)``.

    Fitted: coef_ (d,), intercept_, n_iter_ (epochs), t_ (rows seen).
    """

    targets = NUMBERS

    def __init__(
        self, learner="auto", *, C=None, step=None, loss=None, epsilon=None, delta=None, decay=None, radius=None,
        mirror=None, p=None, regulariser=None, l1=None, l2=None, half_steps=None, group=None, cap=None, ftrl_alpha=None,
        ftrl_beta=None, wealth=None, average=False, fit_intercept=True, intercept_scaling=1.0, max_iter=10,
        shuffle=True, warm_start=False, random_state=None, verbose=0, memory=None, temp=None, n_jobs=None,
    ):  # fmt: skip
        self._set(locals())

    def partial_fit(self, X, y, sample_weight=None):
        """Learn from a batch of rows in their order."""
        return super().partial_fit(X, y, None, sample_weight)
