"""How decision values become probabilities: the link of the loss that a model was trained with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from blocksvm.errors import InputError, said

# decision values (n,) to the probabilities (n, 2) of the smaller and the larger label
Link = Callable[[np.ndarray], np.ndarray]


def logistic(values: np.ndarray) -> np.ndarray:
    """P(larger label) = 1 / (1 + exp(-z)), which is what the logistic loss models; without overflow."""
    small = np.exp(-np.abs(values))
    larger = np.where(values >= 0.0, 1.0, small) / (1.0 + small)
    other = np.where(values >= 0.0, small, 1.0) / (1.0 + small)
    return np.stack([other, larger], axis=-1)


PLATT, ISOTONIC = "platt", "isotonic"
LINKS: dict[str, Link] = {"logistic": logistic}  # by the name of the loss


def sigmoid(values: np.ndarray, slope: float, intercept: float) -> np.ndarray:
    """Platt's: the logistic function of slope z + intercept."""
    return logistic(slope * values + intercept)


def steps(values: np.ndarray, corners: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """A rising function by its corners, between which it is a line."""
    larger = np.interp(values, corners, probabilities)
    return np.stack([1.0 - larger, larger], axis=-1)


def known_link(meta: Mapping) -> Link | None:
    """The link of a model, by its description; None where its decision values are no probabilities."""
    if len(meta["labels"]) != 2 or meta.get("multilabel", False):
        return None
    found = meta.get("calibration")
    if found is None:
        return LINKS.get(meta["method"]["settings"].get("loss"))
    if found["kind"] == PLATT:
        return partial(sigmoid, slope=found["slope"], intercept=found["intercept"])
    return partial(steps, corners=np.array(found["values"]), probabilities=np.array(found["probabilities"]))


def link_of(meta: Mapping, path: str) -> Link:
    """The same; InputError where there is none."""
    link = known_link(meta)
    if link is None:
        raise InputError(
            f"{path}: its decision values are no probabilities; train a model of two classes with "
            f"{said('loss', 'logistic')} or {said('calibrate', PLATT)}"
        )
    return link
