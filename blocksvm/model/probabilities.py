"""The probabilities that the link of a model's loss, or its calibration, makes of decision values."""

from collections.abc import Callable
from functools import partial

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.user_code import is_named, not_trusted
from blocksvm.losses import LOSSES, get_loss
from blocksvm.losses.logistic import link as logistic
from blocksvm.store.descriptions import Calibration, ModelMeta, PlattMeta

PLATT, ISOTONIC = "platt", "isotonic"
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
        softened = np.exp(values - values.max(axis=1, keepdims=True))
        shares = np.where(shares.sum(axis=1, keepdims=True) > 0.0, shares, softened)
        return shares / shares.sum(axis=1, keepdims=True)


def sigmoid(values: np.ndarray, slope: float, intercept: float) -> np.ndarray:
    """Platt's: the logistic function of slope z + intercept."""
    return logistic(slope * values + intercept)


def steps(values: np.ndarray, corners: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """A rising function by its corners, between which it is a line."""
    larger = np.interp(values, corners, probabilities)
    return np.stack([1.0 - larger, larger], axis=-1)


def link_by(
    loss: str | None, n_labels: int, multilabel: bool, learner: bool, calibration: Calibration | None
) -> Link | None:
    """The link of a model, learner: of an online one; None where its decision values are no probabilities, or only the
    model names its loss, one from outside."""
    link = get_loss(loss).link if loss is not None and (loss in LOSSES or is_named(loss, "loss")) else None
    if multilabel or n_labels > 2:
        return None if link is None or learner else partial(each if multilabel else one_of_several, link=link)
    if n_labels != 2:
        return None
    if calibration is None:
        return link
    if isinstance(calibration, PlattMeta):
        return partial(sigmoid, slope=calibration.slope, intercept=calibration.intercept)
    return partial(steps, corners=np.array(calibration.values), probabilities=np.array(calibration.probabilities))


def known_link(meta: ModelMeta) -> Link | None:
    """The same, by the model's description."""
    return link_by(meta.method.loss, len(meta.labels), meta.multilabel, meta.method.learner, meta.calibration)


def link_of(meta: ModelMeta, path: str) -> Link:
    """The same; InputError where there is none."""
    link, name = known_link(meta), meta.method.loss
    if link is not None:
        return link
    if name is not None and name not in LOSSES and not is_named(name, "loss"):
        raise not_trusted(name, "loss", path)
    fit = " or ".join(option("loss", other) for other in LOSSES if get_loss(other).link is not None)
    cure = f"train a model with {fit}, or one of two classes with {option('calibrate', PLATT)}"
    raise InputError(f"{path}: its decision values are no probabilities; {cure}")
