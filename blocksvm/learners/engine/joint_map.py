"""Joint feature maps Phi(x, r) written by users: their interface, their import by place, and whether they may run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from blocksvm.base.errors import InputError, option
from blocksvm.base.user_code import imported, not_trusted

JOINT = "joint"  # the setting that names a map's place; a model file has it among its settings


class JointMap(Protocol):
    """Phi, as the user writes it.

    n_features: D, the number of joint features.  n_inputs: rows have features with ids 0 .. n_inputs - 1, the columns
    of X; stores, streams and models need it.
    """

    n_features: int
    n_inputs: int

    def rows(self, X, n_classes: int):
        """(n * k, D) scipy sparse: row i * k + r is Phi(x_i, r), for all n rows of X and all k classes.  It is called
        with some rows at a time (by ``JointLearner`` with those passed to it), so Phi(x_i, r) must depend on row i of X
        alone."""
        ...


def joint_map(place: str) -> JointMap:
    """Import the map at this place, 'module:attribute'.  Raises InputError where there is none."""
    try:
        joint = imported(place, JOINT)
    except ImportError as error:
        raise InputError(f"{place}: cannot be imported ({error}); name a joint map as module:attribute") from error
    except InputError:
        raise
    except Exception as error:  # the user's own code runs
        raise InputError(f"{place}: cannot be imported ({type(error).__name__}: {error}); mend the module") from error
    if not (hasattr(joint, "rows") and hasattr(joint, "n_features")):
        raise InputError(f"{place}: is no joint map; it must have n_features and rows(X, n_classes)")
    return joint


def place_of(description: Mapping) -> str | None:
    """The place of the map in a model's description; None for a model without joint features."""
    return description.get("method", {"settings": {}})["settings"].get(JOINT)


def trusted(named: str | None, allowed: str | None, path) -> str | None:
    """The place of the map that a model file names.  Raises InputError unless the user named the same place (allowed):
    no code runs because a file says so."""
    if named is None and allowed is not None:
        raise InputError(f"{path}: has no joint features; leave {option(JOINT, allowed)} out")
    if named is not None and allowed != named:
        raise not_trusted(named, JOINT, path)
    return named
