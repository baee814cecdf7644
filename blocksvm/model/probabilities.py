"""Probabilities of decision values: the link of the loss that a model was trained with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from blocksvm.base.errors import InputError, option

# decision values (n,) to the probabilities (n, 2) of the smaller and the larger label, or (n, k) of k classes, or of k
# labels of sets, to (n, k)
Link = Callable[[np.ndarray], np.ndarray]


def logistic(values: np.ndarray) -> np.ndarray:
    """P(larger label) = 1 / (1 + exp(-z)), which is what the logistic loss models; without overflow."""
    small = np.exp(-np.abs(values))
    larger = np.where(values >= 0.0, 1.0, small) / (1.0 + small)
    other = np.where(values >= 0.0, small, 1.0) / (1.0 + small)
    return np.stack([other, larger], axis=-1)


def each(values: np.ndarray) -> np.ndarray:
    """Of labels that a row may have together: the probability of each, by its own logistic function."""
    return logistic(values)[..., 1]


def one_of_several(values: np.ndarray) -> np.ndarray:
    """Of classes that were learned each against the rest: their own probabilities, divided by their sum (Zadrozny,
    Elkan, KDD 2002, section 3.2); where all of them are 0, as the largest decision value says."""
    with np.errstate(under="ignore"):
        shares = each(values)
        # relative to the largest, which no underflow of all of them makes 0 / 0
        shares = np.where(
            shares.sum(axis=1, keepdims=True) > 0.0, shares, np.exp(values - values.max(axis=1, keepdims=True))
        )
        return shares / shares.sum(axis=1, keepdims=True)


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
    calibration, link = meta.get("calibration"), LINKS.get(meta["method"]["settings"].get("loss"))
    if meta.get("multilabel", False) or len(meta["labels"]) > 2:
        several = each if meta.get("multilabel", False) else one_of_several
        return several if link is logistic and not meta["method"]["learner"] else None
    if len(meta["labels"]) != 2:
        return None
    if calibration is None:
        return link
    if calibration["kind"] == PLATT:
        return partial(sigmoid, slope=calibration["slope"], intercept=calibration["intercept"])
    return partial(steps, corners=np.array(calibration["values"]), probabilities=np.array(calibration["probabilities"]))


def link_of(meta: Mapping, path: str) -> Link:
    """The same; InputError where there is none."""
    link = known_link(meta)
    if link is None:
        raise InputError(
            f"{path}: its decision values are no probabilities; train a model with {option('loss', 'logistic')}, or "
            f"one of two classes with {option('calibrate', PLATT)}"
        )
    return link
