"""What is minimised: the losses, and what it means to have solved a problem.

This file owns the registry of losses: a name, the file that holds the loss, which is imported on use, and its name
there.
"""

from __future__ import annotations

from importlib import import_module

from blocksvm.errors import InputError, one_of, said
from blocksvm.named import by_user, check_followed, imported

LOSSES = {
    "hinge": "box:HINGE",
    "squared-hinge": "box:SQUARED_HINGE",
    "logistic": "logistic:LOGISTIC",
    "perceptron": "perceptron:PERCEPTRON",
    "epsilon-insensitive": "tube:EPSILON_INSENSITIVE",
    "squared-epsilon-insensitive": "tube:SQUARED_EPSILON_INSENSITIVE",
    "squared": "tube:SQUARED_LOSS",
    "absolute": "tube:ABSOLUTE",
}
DEFAULT, DEFAULT_OF_NUMBERS = "hinge", "squared"
# parts of a loss that may be missing, as a sentence names them
PARTS = {
    "conjugate": "conjugate, which a dual and its certificate are made of",
    "aware_step": "importance-aware step",
    "link": "link from decision values to probabilities",
    "second_derivative": "second derivative",
}


def check_loss(loss) -> str:
    """The name, if it can be that of a loss: one of ``LOSSES``, or MODULE:ATTRIBUTE of one outside the package.  A
    ``Loss`` itself, from Python, has that as its name."""
    if not isinstance(loss, str):
        return place_of(loss)
    if loss not in LOSSES and not all(loss.partition(":")):
        more = ", or MODULE:ATTRIBUTE of your own"
        raise InputError(f"{said('loss', loss)}: unknown; {one_of(loss, LOSSES, more)}")
    if loss not in LOSSES:
        check_followed(loss, "loss")
    return loss


def get_loss(name: str):
    """The ``Loss`` of this name; InputError where there is none."""
    check_loss(name)
    if name in LOSSES:
        module, attribute = LOSSES[name].split(":")
        return getattr(import_module(f"{__name__}.{module}"), attribute)
    from blocksvm.problems.loss import Loss

    try:
        loss = imported(name, "loss")
    except ImportError as error:
        raise InputError(f"{said('loss', name)}: cannot be imported ({error})") from error
    if not isinstance(loss, Loss):
        raise InputError(f"{said('loss', name)}: is no Loss; see blocksvm/problems/loss.py")
    return loss


def require(name: str, part: str, owner: str):
    """The ``Loss`` of this name, which has the part, one of ``PARTS``; else InputError, which names those that do."""
    loss = get_loss(name)
    if getattr(loss, part) is None:
        fit = ", ".join(other for other in LOSSES if getattr(get_loss(other), part) is not None)
        raise InputError(f"{said('loss', name)}: has no {PARTS[part]}; for {owner} choose one of {fit}")
    return loss


def place_of(loss) -> str:
    """The name of a loss that Python code gives as itself: that in the registry, or its place outside the package."""
    from blocksvm.problems.loss import Loss

    if not isinstance(loss, Loss):
        raise InputError(f"{said('loss', loss)}: is no loss; give its name, or a Loss")
    if loss.name in LOSSES and get_loss(loss.name) is loss:
        return loss.name
    place = loss.place()
    by_user(place)
    return place
