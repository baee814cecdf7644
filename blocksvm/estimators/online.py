"""Estimators of the online learners, a class for each family, generated from the settings of its learners.

A learner needs one line in ``FAMILIES``.  ``fit`` runs the learner over the rows, in orders drawn by the seed;
``partial_fit`` learns from a batch in its order and continues from the state, by the same kernels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import _check_partial_fit_first_call
from sklearn.utils.validation import _check_sample_weight

from blocksvm.base.errors import InputError
from blocksvm.base.labels import Labels
from blocksvm.base.settings import Settings
from blocksvm.base.user_code import by_user
from blocksvm.estimators.estimator import INTERCEPT, MACHINE, Classifier, Estimator, Regressor
from blocksvm.estimators.fit_rows import compressed
from blocksvm.estimators.parameters import Parameter, parameters_of, with_parameters
from blocksvm.losses import LOSSES, get_loss
from blocksvm.online import get_learner
from blocksvm.online.learner import LOSS, NUMBERS, SHARED, WEIGHTS, learns_apart
from blocksvm.online.loops import ROWS
from blocksvm.online.runner import LearnerState, Runner
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS
from blocksvm.sources.matrix import Matrix
from blocksvm.training.run_settings import FREE


@dataclass(frozen=True)
class Family:
    """Learners of one class: its name, their names (the first is the default), and a line about them; numbers: the
    regressor's defaults that differ from the learners'."""

    name: str
    learners: tuple[str, ...]
    about: str
    numbers: Mapping = field(default_factory=dict)


# With the squared loss fixed steps diverge on unscaled rows; the gradient of this loss is bounded.
BOUNDED = {"loss": "epsilon-insensitive", "step": 0.1}
BOUNDED_SUMS = BOUNDED | {"step": 0.01}  # of learners whose steps do not shrink


FAMILIES = (
    Family("Perceptron", ("perceptron",), "The perceptron."),
    Family("PassiveAggressive", ("pa1", "pa2", "pa"), "Passive-aggressive learning."),
    Family("ConfidenceWeighted", ("cw-stdev", "cw-var"), "Confidence-weighted learning, diagonal covariances."),
    Family("Arow", ("arow",), "Adaptive regularisation of weights, diagonal covariances."),
    Family("Scw", ("scw1", "scw2"), "Soft confidence-weighted learning, diagonal covariances."),
    Family("OGD", ("ogd",), "Online gradient descent.", BOUNDED),
    Family("Forel", ("forel",), "Follow the regularised leader, linearised.", BOUNDED_SUMS),
    Family("MirrorDescent", ("omd",), "Online mirror descent.", BOUNDED_SUMS),
    Family("Fobos", ("fobos", "hf-fobos", "subgradient"), "Forward-backward splitting, and what is like it.", BOUNDED),
    Family("AdaGrad", ("adagrad-rda", "adagrad-rda-squares", "adagrad-fobos"), "Adaptive subgradient methods."),
    Family("Nag", ("nag",), "Normalised adaptive gradient, importance-aware."),
    Family("FTRL", ("ftrl",), "FTRL-Proximal."),
    Family("Coin", ("coin",), "Coin betting, which has no step size."),
    Family("Auto", ("auto",), "nag and coin betting side by side, following the better one; nothing to choose."),
)

EPOCHS = (
    Parameter("max_iter", 10, "epochs of fit"),
    Parameter("shuffle", True, "visit the rows in random orders, other ones in each epoch"),
)
FOR_CLASSES = tuple(SHARED[name] for name in ("average", "multiclass", "query"))


class Online(Estimator):
    """Base class: ``learners``, the names of the family."""

    learners: tuple[str, ...] = ()
    targets: str | None = None

    @property
    def _name(self) -> str:
        name = self.variant if len(self.learners) > 1 else self.learners[0]
        if name not in self.learners:
            raise InputError(f"variant={name}: choose one of {', '.join(self.learners)}")
        return name

    def _bias(self) -> float:
        bias = super()._bias()
        if bias == FREE:
            raise InputError("intercept_scaling=free: online learners have a constant feature; give its value")
        return bias

    def _learner_settings(self) -> tuple[dict, dict]:
        """(settings of the learner, settings shared by all learners) that differ from their defaults."""
        settings, shared = {}, {}
        learner = get_learner(self._name).of_targets(self.targets)
        defaults = {s.name: s.default for s in learner.settings}
        for name, parameter in self.parameters.items():
            value = getattr(self, name)
            if name in PLACES or value is None or value == defaults.get(name, parameter.default):
                continue
            if isinstance(value, str) and ":" not in value:
                value = value.replace("_", "-")
            (shared if name in SHARED else settings)[name] = value
        if self.targets is not None:
            shared["targets"] = self.targets
        by_user(settings)
        takes = learner.settings_of(settings)
        used = {name: value for name, value in settings.items() if name in takes or name not in SETTINGS_OF_LOSSES}
        return used, shared

    def _runner(self) -> Runner:
        """The learner with its settings, for the features and classes of the first batch."""
        settings, shared = self._learner_settings()
        k = len(self.classes_) if is_classifier(self) else 2
        rule = shared.pop("multiclass", None)
        prototypes = k if k > 2 and not learns_apart(rule) else 1  # features of one learner
        known = {"n_features": (self.n_features_in_ + bool(self._bias())) * prototypes}
        return Runner(
            get_learner(self._name), settings, known, bias=self._bias(), n_classes=k, rule=rule if k > 2 else None,
            **shared,
        )  # fmt: skip

    def _learn(self, X, y, sample_weight):
        with self._training(X, y, sample_weight) as training:
            previous = self._state if self.warm_start and hasattr(self, "_state") else None
            if previous is not None and (
                training.columns is not None or training.n_features + 1 != len(previous["features"])
            ):
                raise InputError("warm_start: goes on with rows in memory of as many features; leave it out")
            settings, shared = self._learner_settings()
            weights = {} if not hasattr(self, "class_weight") else {"class_weight": self._class_weight(training)}
            seen = 0 if previous is None else self.t_  # other orders than before
            fitted = self._run(
                training, seed=self._seed() + seen, learner=self._name, continue_from=previous, bias=self._bias(),
                max_outer=self.max_iter, order="shuffled" if self.shuffle else "stored",
                **settings, **shared, **weights,
            )  # fmt: skip
            self._keep(training, fitted)
            state = {name: np.array(array) for name, array in fitted.state.items()}
            if training.columns is not None:
                solver = fitted.plan.solver
                state["features"] = self._in_columns(state["features"], training.columns, solver.runner)
            self._state = state
            self.t_ = int(state["tally"][ROWS])
        return self

    def _in_columns(self, numbers: np.ndarray, columns: np.ndarray, runner: Runner) -> np.ndarray:
        """The state's numbers of the source's features, class after class, at the columns of the matrix."""
        shape = numbers.shape
        before = numbers.reshape(runner.n_vectors, -1, runner.width)
        result = np.zeros((runner.n_vectors, self.n_features_in_ + 1, runner.width))
        runner.fill_new(result.reshape(-1))
        result[:, columns] = before[:, :-1]
        result[:, -1] = before[:, -1]
        return result.reshape(self.n_features_in_ + 1, *shape[1:])

    def _learn_more(self, X, y, classes, sample_weight):
        first = not hasattr(self, "_state")
        if is_classifier(self):
            first = _check_partial_fit_first_call(self, classes) or first
        X, y = self._checked(X, y, reset=first)
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X)
        if is_classifier(self):
            self.multilabel_ = False
            if len(self.classes_) < 2:
                raise InputError("classes has 1 class; a classifier needs two or more")
            place = np.searchsorted(self.classes_, y)
            known = self.classes_[np.minimum(place, len(self.classes_) - 1)] == y
            if not known.all():
                raise InputError(f"y has the label {y[~known][0]}, which is not among classes")
            weights = self._times_class_weight(weights, y)
            y = place.astype(np.float64)
        runner = self._runner()
        if first:
            self._state = empty_state(runner, self.n_features_in_)
        source = Matrix(compressed(X), y, weights=weights)
        labels = Labels(tuple(map(float, range(len(self.classes_))))) if is_classifier(self) else None
        block = source.reader(labels, real=labels is None).read_block(np.arange(len(source.chunks)), None)
        self._state = {name: a if a.flags.writeable else a.copy() for name, a in self._state.items()}
        state = LearnerState(self._state["features"].reshape(-1), self._state["scalars"], self._state["tally"])
        order = np.arange(X.shape[0], dtype=np.int32)
        runner.learn(block.matrix, block.y, order, self.n_features_in_, state, weights=block.weights)
        w = runner.weights(state, np.empty(runner.n_vectors * (self.n_features_in_ + 1)))
        w = w.reshape(runner.n_vectors, -1)
        self.coef_ = w[:, :-1].copy() if is_classifier(self) else w[0, :-1].copy()
        self.intercept_ = w[:, -1] * runner.bias
        self.n_iter_, self.t_ = 1, int(state.tally[ROWS])
        return self

    def _times_class_weight(self, weights: np.ndarray | None, y: np.ndarray) -> np.ndarray | None:
        class_weight = getattr(self, "class_weight", None)
        if class_weight is None:
            return weights
        if isinstance(class_weight, str):
            raise InputError("class_weight='balanced': needs all rows; give a dict of weights to partial_fit")
        return compute_sample_weight(class_weight, y) * (1.0 if weights is None else weights)


def empty_state(runner: Runner, d: int) -> dict[str, np.ndarray]:
    """The initial arrays of a learner, with the names and shapes of ``OnlineSolver``."""
    from blocksvm.online.solver import EPOCHS_LENGTH, LAST

    new = runner.new_state(d)
    features = new.columns if runner.feature_numbers() == 1 else new.columns.reshape(d + 1, -1)
    epochs = np.zeros(EPOCHS_LENGTH)
    epochs[LAST] = -1.0
    return {"features": features, "scalars": new.scalars, "tally": new.tally, "epochs": epochs}


class Unweighted:
    """``fit`` of learners that do not use weights of rows."""

    def fit(self, X, y=None):
        """Learn from X (n, d), dense or scipy sparse, with labels y (n,), in ``max_iter`` epochs; from a store's path;
        or from an iterable of batches (X, y), or an object with ``next(input_data)`` and ``reset()``."""
        return self._learn(X, y, None)


class WeightedOnline:
    def fit(self, X, y=None, sample_weight=None):
        """Learn from X (n, d), dense or scipy sparse, with labels y (n,) and weights (n,) of 0 or more, in ``max_iter``
        epochs; from a store's path; or from an iterable of batches (X, y) or (X, y, sample_weight), or an object with
        ``next(input_data)`` and ``reset()``."""
        return self._learn(X, y, sample_weight)


class OfClasses(Classifier, Online):
    """Several classes by the rule ``multiclass``: a prototype a class, or each class against the others."""


class UnweightedClassifier(Unweighted, OfClasses):
    def partial_fit(self, X, y, classes=None):
        """Learn from a batch of rows in their order; classes: all that there are, at the first call."""
        return self._learn_more(X, y, classes, None)


class WeightedClassifier(WeightedOnline, OfClasses):
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Learn from a batch of rows in their order; classes: all that there are, at the first call."""
        return self._learn_more(X, y, classes, sample_weight)


class UnweightedRegressor(Unweighted, Regressor, Online):
    targets = NUMBERS

    def partial_fit(self, X, y):
        """Learn from a batch of rows in their order."""
        return self._learn_more(X, y, None, None)


class WeightedRegressor(WeightedOnline, Regressor, Online):
    targets = NUMBERS

    def partial_fit(self, X, y, sample_weight=None):
        """Learn from a batch of rows in their order."""
        return self._learn_more(X, y, None, sample_weight)


SETTINGS_OF_LOSSES = {setting.name for name in LOSSES for setting in get_loss(name).settings}
# parameters that are no settings of the learner
PLACES = {p.name for p in (*INTERCEPT, *EPOCHS, *MACHINE)} | {"variant", "class_weight"}


def settings_of(learners: list) -> Settings:
    """The settings of all learners of a family, each once."""
    by_name: dict = {}
    for learner in learners:
        losses = LOSSES if LOSS.name in learner.settings else (learner.loss,)
        for setting in (*learner.settings, *(setting for name in losses for setting in get_loss(name).settings)):
            by_name.setdefault(setting.name, setting)
    return Settings(tuple(by_name.values()))


def estimator_of(family: Family, numbers: bool) -> type | None:
    """The regressor (``numbers``) or classifier of a family; None where there is none."""
    learners = [get_learner(name) for name in family.learners]
    if numbers and any(NUMBERS not in learner.targets for learner in learners):
        return None
    weighted = WEIGHTS in learners[0].takes
    if numbers:
        learners = [learner.of_targets(NUMBERS) for learner in learners]
        base, name = (WeightedRegressor if weighted else UnweightedRegressor), f"{family.name}Regressor"
    else:
        base, name = (WeightedClassifier if weighted else UnweightedClassifier), f"{family.name}Classifier"
        name = name if family.name != "Perceptron" else family.name
    defaults = family.numbers if numbers else {}
    parameters = parameters_of(settings_of(learners), "n_features", **defaults)
    if len(learners) > 1:
        parameters.insert(0, Parameter("variant", family.learners[0], f"the learner: {', '.join(family.learners)}"))
    parameters += parameters_of(FOR_CLASSES[:1] if numbers else FOR_CLASSES)
    if weighted and not numbers:
        parameters += parameters_of([PROBLEM_SETTINGS["class_weight"]])
    sources = "; ".join(dict.fromkeys(learner.source for learner in learners))
    text = f"{family.about}\n\n{sources}.\n\nFitted: coef_, intercept_, n_iter_ (epochs), t_ (rows seen)."
    attributes = {"learners": family.learners, "__doc__": text, "__module__": __name__, "__qualname__": name}
    return with_parameters(*parameters, *INTERCEPT, *EPOCHS, *MACHINE)(type(name, (base,), attributes))


def estimators() -> dict[str, type]:
    classes = [estimator_of(family, numbers) for family in FAMILIES for numbers in (False, True)]
    return {one.__name__: one for one in classes if one is not None}


ESTIMATORS = estimators()
globals().update(ESTIMATORS)
__all__ = list(ESTIMATORS)
