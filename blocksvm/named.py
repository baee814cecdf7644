"""Objects that are named by their place, 'module:attribute': what a user brings, and what the registries load late."""

from __future__ import annotations

from importlib import import_module


def imported(place: str):
    """The object of this place.  Raises ImportError, with the reason, whatever is wrong with it."""
    module, _, attribute = place.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (AttributeError, ValueError) as error:
        raise ImportError(str(error)) from error
