"""scikit-learn's linear estimators: models as fitted estimators, and fitted estimators as models.

A column of its matrices is a feature id, as in ``Model.decision_function``; where features have names, steps before the
estimator make the columns (vectorizers.py).
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import numbers_of
from blocksvm.exchange.linear import Linear, calibration_notes, linear_of, model_of, wrong_form
from blocksvm.exchange.vectorizers import ngrams_in, require_names, steps_before
from blocksvm.exchange.weights_table import names_of_model
from blocksvm.losses import DEFAULT, DEFAULT_OF_NUMBERS, LOSSES, get_loss
from blocksvm.model.model_file import Model
from blocksvm.problems.problem_settings import CRAMMER_SINGER, learns_together

MOST_BYTES = 4_000_000_000  # of an estimator's dense weights
# of labels; others are numpy's own choice
LABEL_TYPES = ("bool", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "float32", "object")
KNOWN_AS = "scikit-learn"  # among a loss's names in other programs: by estimator


def estimator_of(model: Model, names: Path | None = None) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """(the fitted estimator or Pipeline, notes for its users, those on what it lacks of the model).  InputError where
    no estimator, and no Pipeline, is like the model."""
    name = model.path or "the model"
    named = names_of_model(model, names)
    linear = linear_of(model, apart=named is not None, of_one_label="scikit-learn's linear estimators")
    steps: list = []
    notes = linear.steps
    if named is not None:
        require_names(name, model.recipe, named)
        linear, steps, notes = steps_before(linear, model.recipe, named)
    elif ngrams_in(model.recipe) is not None:
        raise wrong_form(
            f"{name}: does not name its n-grams, as a Pipeline needs and a store of the same texts does "
            f"({option('names')})"
        )
    else:
        linear.require_dense("An estimator", MOST_BYTES)
    estimator = _unfitted(linear)
    estimator.coef_ = linear.dense()
    estimator.intercept_ = linear.intercept.copy()
    estimator.n_features_in_ = linear.columns
    if linear.labels:
        kind = model.meta.label_type
        estimator.classes_ = np.array(linear.labels, dtype=kind if kind in LABEL_TYPES else None)
    else:
        estimator.coef_ = estimator.coef_[0]
    estimator.n_iter_ = max(1, model.meta.outer)
    name = type(estimator).__name__
    other_loss = (
        f"scikit-learn has no estimator of the loss {linear.loss}: this {name} has the same decision values, but would "
        "minimise another loss if it was fitted again"
    )
    of_loss = () if name in _names_of(linear.loss) else (other_loss,)
    if steps:
        from sklearn.pipeline import Pipeline

        estimator = Pipeline([*steps, ("model", estimator)])
    return estimator, notes + linear.notes + of_loss, calibration_notes(model) + of_loss


def _names_of(loss: str) -> dict:
    """The names of a loss in scikit-learn, by estimator."""
    return get_loss(loss).known_as.get(KNOWN_AS, {}) if loss in LOSSES else {}


def _unfitted(linear: Linear):
    from sklearn.linear_model import LogisticRegression, SGDClassifier, SGDRegressor
    from sklearn.svm import LinearSVC, LinearSVR

    k = len(linear.labels)
    names = _names_of(linear.loss)
    if not k:
        if "LinearSVR" in names:
            return LinearSVR(loss=names["LinearSVR"])
        return SGDRegressor(loss=names.get("SGDRegressor", "squared_error"))
    if learns_together(linear.multiclass):
        return LinearSVC(multi_class="crammer_singer")
    if "LinearSVC" in names:
        return LinearSVC(loss=names["LinearSVC"])
    if "LogisticRegression" in names and k == 2:
        return LogisticRegression()
    return SGDClassifier(loss=names.get("SGDClassifier", "hinge"))


def from_estimator(estimator) -> Model:
    """A model with the decision values and predictions of a fitted linear estimator (one with coef_, intercept_ and, of
    classes, classes_): the features are the columns whose weight is not 0, named by their numbers.

    InputError where it is not fitted, or has no such attributes.
    """
    name = type(estimator).__name__
    try:
        coef = np.atleast_2d(np.asarray(estimator.coef_, dtype=np.float64))
        intercept = np.atleast_1d(np.asarray(estimator.intercept_, dtype=np.float64))
    except (AttributeError, TypeError, ValueError):
        raise InputError(f"{name}: has no weights; give a linear estimator that is fitted") from None
    labels = _labels(getattr(estimator, "classes_", None))
    k = len(coef)
    if coef.ndim != 2 or (k != 1 if len(labels) in (0, 2) else k != len(labels)):
        raise InputError(f"{name}: has {k} vectors of weights for {len(labels)} classes; give one of one target")
    known = np.flatnonzero(coef.any(axis=0))
    ids = known if len(known) else np.zeros(1, np.int64)
    crammer_singer = getattr(estimator, "multi_class", None) == "crammer_singer" and k > 2
    linear = Linear(
        ids.astype(np.int64), coef[:, ids].copy(), np.broadcast_to(intercept, (k,)).copy(), labels,
        _loss_of(estimator, bool(labels)), CRAMMER_SINGER if crammer_singer else None,
    )  # fmt: skip
    extra = {"columns": coef.shape[1], "label_type": np.asarray(getattr(estimator, "classes_", ())).dtype.name}
    return model_of(linear, f"scikit-learn ({name})", extra=extra)


def _labels(classes) -> tuple:
    if classes is None:
        return ()
    classes = np.asarray(classes)
    if classes.dtype.kind in "biuf":
        return tuple(numbers_of(classes).tolist())
    return tuple(str(label) for label in classes)


def _loss_of(estimator, classes: bool) -> str:
    """The loss that an estimator names or has; where it is none of ours, one of its kind."""
    kind, theirs = type(estimator).__name__, getattr(estimator, "loss", None)
    for name in LOSSES:
        names = _names_of(name)
        if theirs in names.values() if theirs is not None else kind.removesuffix("CV") in names:
            return name
    return DEFAULT if classes else DEFAULT_OF_NUMBERS


def write(model: Model, file: IO[bytes], names: Path | None = None) -> tuple[str, ...]:
    """Write the fitted estimator with joblib; names: a store that names the features, where the model does not.
    Returns notes for its users."""
    estimator, notes, _ = estimator_of(model, names)
    import joblib

    joblib.dump(estimator, file)
    if model.recipe.format == "svmlight" and hasattr(estimator, "coef_"):  # svmlight, without names
        notes += (f"a column is a feature id, from 0: load_svmlight_file(FILE, n_features={estimator.n_features_in_}, "
                  "zero_based=True) reads svmlight text so",)  # fmt: skip
    return notes
