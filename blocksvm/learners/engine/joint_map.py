"""Maps of row and class to joint features, as users write them: where they are found, and when their code may run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from blocksvm.base.errors import InputError, option
from blocksvm.base.user_code import imported, not_trusted

JOINT = "joint"  # the setting that names a map's place; the settings in a model have it


class JointMap(Protocol):
    """Phi, as the user writes it.

    n_features: D, of the joint features; n_inputs, which stores, streams and models need: rows have the ids of features
    0 .. n_inputs - 1, which are the columns of X.
    """

    n_features: int
    n_inputs: int

    def rows(self, X, n_classes: int):
        """(n * k, D) scipy sparse: in row i * k + r is Phi(x_i, r), for all n rows of X and all k classes.  Called with
        some rows at a time (``JointLearner``: with those that it was given); a row of the result must depend on its own
        row of X alone."""
        ...


def joint_map(place: str) -> JointMap:
    """The map of this place, 'module:attribute'; InputError where there is none."""
    try:
        found = imported(place, JOINT)
    except ImportError as error:
        raise InputError(f"{place}: cannot be imported ({error}); name a joint map as module:attribute") from error
    except InputError:
        raise
    except Exception as error:  # the user's own code runs
        raise InputError(f"{place}: cannot be imported ({type(error).__name__}: {error}); mend the module") from error
    if not (hasattr(found, "rows") and hasattr(found, "n_features")):
        raise InputError(f"{place}: is no joint map; it must have n_features and rows(X, n_classes)")
    return found


def place_of(description: Mapping) -> str | None:
    """The place of the map of a model so described; None where its features are those of rows."""
    return description.get("method", {"settings": {}})["settings"].get(JOINT)


def trusted(named: str | None, given: str | None, path) -> str | None:
    """The place of the map that a model file names; InputError where the user has not named it too, since its code would
    run because a file says so."""
    if named is None and given is not None:
        raise InputError(f"{path}: has no joint features; leave {option(JOINT, given)} out")
    if named is not None and given != named:
        raise not_trusted(named, JOINT, path)
    return named
