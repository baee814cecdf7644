"""A linear model as other programs know one: weights by column, intercepts, labels; and a model of ours made of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import listed
from blocksvm.base.outputs import check_output
from blocksvm.formats.recipe import Recipe
from blocksvm.learners.engine.joint_map import place_of
from blocksvm.model.model_file import FLOAT64, Model, make_model, save_model
from blocksvm.model.model_idf import idf_of_model
from blocksvm.model.solver_state import Piecewise
from blocksvm.model.versions import versions
from blocksvm.problems.distance import DISTANCE

AT_ONCE = 1 << 15  # columns whose weights are laid out at once
IMPORTED = "imported"  # a model's status
COLUMNS, LABEL_TYPE = "columns", "label_type"  # of a description: what an estimator's matrices and labels were
MOST_COLUMNS = 1 << 40


@dataclass(frozen=True)
class Linear:
    """ids (d,) int64, rising; weights (k, d) and intercept (k,) float64, k = 1 for two classes (the larger label's) and
    for real targets; labels rising, () for real targets; loss, multiclass: names; notes: what whoever uses the weights
    must know; idf (d,): what values are multiplied by before rows are scaled, None where weights have it in them;
    least_columns: of the matrices of an estimator that it was made of."""

    ids: np.ndarray
    weights: np.ndarray
    intercept: np.ndarray
    labels: tuple
    loss: str
    multiclass: str | None
    notes: tuple[str, ...] = ()
    idf: np.ndarray | None = None
    least_columns: int = 1

    @property
    def columns(self) -> int:
        """One more than the largest id, or more."""
        return max(int(self.ids[-1]) + 1 if len(self.ids) else 1, self.least_columns)

    def pieces(self, start: int, stop: int) -> Iterator[np.ndarray]:
        """(k, n) float64: the weights of columns start..stop - 1, a bounded number of them at a time."""
        for low in range(start, stop, AT_ONCE):
            high = min(low + AT_ONCE, stop)
            first, last = np.searchsorted(self.ids, (low, high))
            out = np.zeros((len(self.weights), high - low))
            out[:, self.ids[first:last] - low] = self.weights[:, first:last]
            yield out

    def dense(self, what: str, most_bytes: int, itemsize: int = 8) -> np.ndarray:
        """(k, columns) of float64 (itemsize 8) or float32 (4); InputError where that takes more than ``most_bytes``."""
        need = len(self.weights) * self.columns * itemsize
        if need > most_bytes:
            raise InputError(
                f"{what} has a weight for each column, and the largest feature id is {self.columns - 1:,}: "
                f"{need / 1e6:,.0f} MB, more than {most_bytes / 1e6:,.0f}; export it as table or liblinear"
            )
        parts = [piece.astype(f"f{itemsize}") for piece in self.pieces(0, self.columns)]
        return np.concatenate(parts, axis=1)


def linear_of(model: Model, with_idf: bool = False) -> Linear:
    """What is linear of a model; InputError where its predictions are no function of weights alone.

    The factors of an idf go into the weights.  with_idf: they have a place of their own, and rows may be scaled behind
    them.
    """
    name = model.path or "the model"
    if model.support is not None:
        raise InputError(f"{name}: has a kernel, so that there are no weights by feature; export a linear model")
    if DISTANCE in model.meta:
        raise InputError(f"{name}: predicts distances and not scores; export a model of rows with labels")
    if place_of(model.meta) is not None:
        raise InputError(f"{name}: has joint features of rows and labels, which other programs do not make")
    recipe, notes = model.recipe, []
    if recipe.bits is not None:
        raise InputError(
            f"{name}: its features are hashes of ids ({option('bits')} {recipe.bits}), which other programs do not make"
        )
    if model.multilabel:
        notes.append("rows have sets of labels: each of them whose value is above 0 is predicted")
    if recipe.l2:
        notes.append("rows are scaled to norm 1 before they are scored: do the same")
    order = np.argsort(model.feature_ids, kind="stable")
    weights, idf = np.atleast_2d(model.weights)[:, order], None
    if recipe.weighs:
        idf = _factors(model, name)[order]
        if with_idf:
            notes.insert(0, "values are multiplied by the idf of their features: do it before all else, and leave "
                         "features out that are not listed")  # fmt: skip
        elif recipe.l2:
            raise InputError(
                f"{name}: its rows are scaled after their idf, so weights alone cannot give its scores; export it as "
                "table, which has a column idf"
            )
        else:
            weights, idf = weights * idf, None
            notes.append("the idf of the features is in their weights: score plain counts")
    settings = model.meta["method"]["settings"]
    return Linear(
        model.feature_ids[order],
        weights,
        np.atleast_1d(np.asarray(model.intercept, dtype=np.float64)),
        model.labels,
        settings.get("loss") or "hinge",
        settings.get("multiclass"),
        tuple(notes),
        idf,
        _columns(model.meta),
    )


def _factors(model: Model, name: str) -> np.ndarray:
    """The idf (d,) of a model's features, which lies in its file."""
    if not model.path:
        raise InputError(f"{name}: has an idf, which is written with its file; save it, and export that")
    return idf_of_model(model.path, lambda ids: ids).factors


def _columns(meta: dict) -> int:
    found = meta.get(COLUMNS)
    return found if isinstance(found, int) and 0 < found < MOST_COLUMNS else 1


def model_of(linear: Linear, origin: str, path: str = "", more: dict | None = None) -> Model:
    """A model of ours; origin: the program and file that it is from; more: that its description has besides.
    InputError where a number is not finite."""
    if not (np.isfinite(linear.weights).all() and np.isfinite(linear.intercept).all()):
        raise InputError(f"{origin}: a weight is not a finite number; train the model again")
    if len(linear.labels) > 1 and list(linear.labels) != sorted(set(linear.labels)):
        raise InputError(f"{origin}: has the labels {listed(linear.labels)}, of which two are the same")
    k, d = linear.weights.shape
    w = np.concatenate([linear.weights, linear.intercept[:, None]], axis=1)
    meta = {
        "n_features": d,
        "n_vectors": k,
        "bias": 1.0,
        "n_samples": 0,
        "fingerprint": None,
        "store": origin,
        "method": {
            "name": "dual-cd",
            "learner": False,
            "settings": {"loss": linear.loss} | ({"multiclass": linear.multiclass} if linear.multiclass else {}),
        },
        "settings": {"bias": 1.0 if linear.intercept.any() else 0.0},
        "labels": list(linear.labels),
        "prior": None,
        "prior_fingerprint": None,
        "text": Recipe(dtype="float64").plain(),
        "values": "float64",
        "certificate": None,
        "kernel": None,
        "status": IMPORTED,
        "outer": 0,
        "seconds": 0.0,
        "passes": [],
        "set_passes": [],
        "versions": versions(),
        **(more or {}),
    }
    return make_model(path, linear.ids, w.ravel(), meta)


def save_imported(model: Model, path: str | Path, overwrite: bool = False) -> None:
    """Write the model file of what ``import_model`` or ``from_estimator`` made; InputError where ``path`` exists
    (without ``overwrite``) or cannot be written."""
    check_output(Path(path), overwrite, "model")
    ids = model.feature_ids
    w = np.concatenate(
        [np.atleast_2d(model.weights), np.atleast_1d(np.asarray(model.intercept))[:, None] / model.meta["bias"]], axis=1
    ).ravel()
    pieces = Piecewise(len(w), FLOAT64, lambda start, stop: w[start:stop])
    save_model(Path(path), lambda start, stop: ids[start:stop], pieces, {}, model.meta, overwrite)
