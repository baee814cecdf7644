"""The common form of linear models in other programs: weights by column, intercepts, labels; to and from our models."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import listed
from blocksvm.model.events import versions
from blocksvm.model.model_file import IMPORTED, Model, factors_of_model, make_model, require_scores
from blocksvm.store.descriptions import ModelMeta, typed
from blocksvm.store.recipe import Recipe

AT_ONCE = 1 << 15  # columns whose weights are laid out at once
LIBLINEAR_IDS = 2**31 - 1  # the largest id of its format


def wrong_form(sentence: str) -> InputError:
    """A form cannot hold the model; a table holds every linear one."""
    return InputError(f"{sentence}; export it as table")


@dataclass(frozen=True)
class Linear:
    """ids (d,) int64, rising; weights (k, d) and intercept (k,) float64, k = 1 for two classes (the larger label's) and
    for real targets; labels rising, () for real targets; loss, multiclass: names; notes: sentences for users of the
    weights; steps: those on what is done to rows before; factors: by name, those (d,) of values before rows are scaled,
    {} where the weights contain them; least_columns: of the matrices of the estimator that it was made of."""

    ids: np.ndarray
    weights: np.ndarray
    intercept: np.ndarray
    labels: tuple
    loss: str
    multiclass: str | None
    notes: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    factors: dict[str, np.ndarray] = field(default_factory=dict)
    least_columns: int = 1

    @property
    def columns(self) -> int:
        """The largest id plus one, or more."""
        return max(int(self.ids[-1]) + 1 if len(self.ids) else 1, self.least_columns)

    @property
    def whole_labels(self) -> bool:
        """Labels, as far as there are some, are whole numbers."""
        return all(isinstance(label, float | int) and float(label).is_integer() for label in self.labels)

    def pieces(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """(k, n) float64: the weights of columns start..stop - 1, a bounded number of them at a time."""
        for low in range(start, stop, AT_ONCE):
            high = min(low + AT_ONCE, stop)
            first, last = np.searchsorted(self.ids, (low, high))
            out = np.zeros((len(self.weights), high - low))
            out[:, self.ids[first:last] - low] = self.weights[:, first:last]
            yield out

    def dense(self, what: str = "", most_bytes: float = math.inf, itemsize: int = 8) -> np.ndarray:
        """(k, columns) of float64 (itemsize 8) or float32 (4); InputError where they take more than ``most_bytes``."""
        need = len(self.weights) * self.columns * itemsize
        if need > most_bytes:
            size = f"{need / 1e6:,.0f} MB, more than {most_bytes / 1e6:,.0f}"
            last = f"the largest feature id is {self.columns - 1:,}"
            raise wrong_form(f"{what} has a weight for each column, and {last}: {size}")
        return np.concatenate([piece.astype(f"f{itemsize}") for piece in self.pieces(0, self.columns)], axis=1)


def linear_of(model: Model, apart: bool = False, of_one_label: str = "") -> Linear:
    """The linear form of a model; InputError where its predictions are no function of weights alone.  The factors of
    features go into the weights; apart: they are separate, and rows may be scaled after them; of_one_label: what can
    hold no model of sets of labels."""
    name = model.path or "the model"
    if model.support is not None:
        raise InputError(f"{name}: has a kernel, so that there are no weights by feature; export a linear model")
    require_scores(model.meta, name)
    recipe, notes, steps = model.recipe, calibration_notes(model), []
    if recipe.bits is not None:
        hashes = f"hashes of ids ({option('bits', recipe.bits)}), which other programs do not make"
        cure = "leave that out where the text is read, and train again"
        raise InputError(f"{name}: its features are {hashes}; {cure}")
    if model.multilabel and of_one_label:
        raise wrong_form(f"{name}: its rows have sets of labels, which {of_one_label} cannot hold")
    if model.multilabel:
        notes = ("rows have sets of labels: each of them whose value is above 0 is predicted", *notes)
    if recipe.l2:
        steps.append("rows are scaled to norm 1 before they are scored: do the same")
    order = np.argsort(model.feature_ids, kind="stable")
    weights, factors, factor = model.dense[:, order], {}, recipe.factor
    if factor:
        if not model.path:
            raise InputError(f"{name}: the {factor} of its features is written with its file; save it, and export that")
        by_feature = factors_of_model(model.path, lambda ids: ids).by_feature[order]
        if apart:
            factors[factor] = by_feature
            steps.insert(0, f"values are multiplied by the {factor} of their features: do it before all else, and "
                         "leave features out that are not listed")  # fmt: skip
        elif recipe.l2:
            scaled = f"its rows are scaled after the {factor} of their features"
            raise wrong_form(f"{name}: {scaled}, so weights alone cannot give its scores")
        else:
            weights = weights * by_feature
            steps += [f"the {factor} of the features is in their weights: score values that are not multiplied by it"]
    settings = model.meta.method.settings
    intercept = np.atleast_1d(np.asarray(model.intercept, dtype=np.float64))
    return Linear(
        model.feature_ids[order], weights, intercept, model.labels, settings.get("loss") or "hinge",
        settings.get("multiclass"), notes, tuple(steps), factors, model.meta.columns or 1,
    )  # fmt: skip


def calibration_notes(model: Model) -> tuple[str, ...]:
    """A note for users of the weights of a model that is calibrated."""
    if model.meta.calibration is None:
        return ()
    return ("its calibration is left out: any probabilities are those of the loss, not the calibrated ones",)


def model_of(linear: Linear, origin: str, path: str = "", extra: dict | None = None) -> Model:
    """A model; origin: its program and file; extra: of its description.  InputError where a number is not finite."""
    if not (np.isfinite(linear.weights).all() and np.isfinite(linear.intercept).all()):
        raise InputError(f"{origin}: a weight is not a finite number; train the model again")
    if len(linear.labels) > 1 and list(linear.labels) != sorted(set(linear.labels)):
        raise InputError(f"{origin}: has the labels {listed(linear.labels)}, of which two are the same")
    k, d = linear.weights.shape
    w = np.concatenate([linear.weights, linear.intercept[:, None]], axis=1)
    settings = {"loss": linear.loss} | ({"multiclass": linear.multiclass} if linear.multiclass else {})
    meta = {
        "n_features": d, "n_vectors": k, "bias": 1.0, "n_samples": 0, "store": origin, "labels": list(linear.labels),
        "method": {"name": "dual-cd", "learner": False, "settings": settings},
        "settings": {"bias": 1.0 if linear.intercept.any() else 0.0}, "text": Recipe(dtype="float64"),
        "values": "float64", "status": IMPORTED, "outer": 0, "seconds": 0.0, "passes": [], "versions": versions(),
        **dict.fromkeys(("fingerprint", "prior", "prior_fingerprint", "certificate")), **(extra or {}),
    }  # fmt: skip
    return make_model(path, linear.ids, w.ravel(), typed(meta, ModelMeta))
