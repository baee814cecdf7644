"""What is minimised: the losses, and what it means to have solved a problem.

This file owns the registry: a loss's name, the file that holds it, which is imported when it is asked for, and its name
there.
"""

from __future__ import annotations

from importlib import import_module

from blocksvm.base.errors import InputError, one_of, said
from blocksvm.base.user_code import check_followed, imported

LOSSES = {
    "hinge": "box:HINGE",
    "squared-hinge": "box:SQUARED_HINGE",
    "logistic": "logistic:LOGISTIC",
    "epsilon-insensitive": "tube:EPSILON_INSENSITIVE",
    "squared-epsilon-insensitive": "tube:SQUARED_EPSILON_INSENSITIVE",
}


def check_loss(name: str) -> str:
    """The name, if it can be that of a loss: one of ``LOSSES``, or MODULE:ATTRIBUTE of one outside the package."""
    if name not in LOSSES and not all(name.partition(":")):
        more = ", or MODULE:ATTRIBUTE of your own"
        raise InputError(f"{said('loss', name)}: unknown; {one_of(name, LOSSES, more)}")
    if name not in LOSSES:
        check_followed(name, "loss")
    return name


def get_loss(name: str):
    """The ``Loss`` of this name; InputError where there is none."""
    check_loss(name)
    if name in LOSSES:
        module, attribute = LOSSES[name].split(":")
        return getattr(import_module(f"{__name__}.{module}"), attribute)
    from blocksvm.losses.loss import Loss

    try:
        loss = imported(name, "loss")
    except ImportError as error:
        raise InputError(f"{said('loss', name)}: cannot be imported ({error})") from error
    if not isinstance(loss, Loss):
        raise InputError(f"{said('loss', name)}: is no Loss; see blocksvm/losses/loss.py")
    return loss
