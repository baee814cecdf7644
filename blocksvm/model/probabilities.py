"""Probabilities of decision values: the link of the loss that a model was trained with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.user_code import is_named, not_trusted
from blocksvm.losses import LOSSES, get_loss
from blocksvm.losses.logistic import link as logistic

# decision values (n,) to the probabilities (n, 2) of the smaller and the larger label, or (n, k) of k classes, or of k
# labels of sets, to (n, k)
Link = Callable[[np.ndarray], np.ndarray]


def each(values: np.ndarray, link: Link) -> np.ndarray:
    """Of labels that a row may have together: the probability of each, by its own link."""
    return link(values)[..., 1]


def one_of_several(values: np.ndarray, link: Link) -> np.ndarray:
    """Of classes that were learned each against the rest: their own probabilities, divided by their sum (Zadrozny,
    Elkan, KDD 2002, section 3.2); where all of them are 0, as the largest decision value says."""
    with np.errstate(under="ignore"):
        shares = each(values, link)
        # relative to the largest, which no underflow of all of them makes 0 / 0
        shares = np.where(
            shares.sum(axis=1, keepdims=True) > 0.0, shares, np.exp(values - values.max(axis=1, keepdims=True))
        )
        return shares / shares.sum(axis=1, keepdims=True)


PLATT, ISOTONIC = "platt", "isotonic"


def sigmoid(values: np.ndarray, slope: float, intercept: float) -> np.ndarray:
    """Platt's: the logistic function of slope z + intercept."""
    return logistic(slope * values + intercept)


def steps(values: np.ndarray, corners: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """A rising function by its corners, between which it is a line."""
    larger = np.interp(values, corners, probabilities)
    return np.stack([1.0 - larger, larger], axis=-1)


def link_of_loss(meta: Mapping) -> Link | None:
    """The link of a model's loss; None where it has none, or only the model names it, a loss from outside."""
    name = meta["method"]["settings"].get("loss")
    known = name is not None and (name in LOSSES or is_named(name))
    return get_loss(name).link if known else None


def known_link(meta: Mapping) -> Link | None:
    """The link of a model, by its description; None where its decision values are no probabilities."""
    calibration, link = meta.get("calibration"), link_of_loss(meta)
    if meta.get("multilabel", False) or len(meta["labels"]) > 2:
        several = each if meta.get("multilabel", False) else one_of_several
        return None if link is None or meta["method"]["learner"] else partial(several, link=link)
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
    if link is not None:
        return link
    name = meta["method"]["settings"].get("loss")
    if name is not None and name not in LOSSES and not is_named(name):
        raise not_trusted(name, "loss", path)
    fit = " or ".join(option("loss", other) for other in LOSSES if get_loss(other).link is not None)
    raise InputError(
        f"{path}: its decision values are no probabilities; train a model with {fit}, or one of two classes with "
        f"{option('calibrate', PLATT)}"
    )
