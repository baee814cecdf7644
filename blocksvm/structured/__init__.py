"""Outputs with structure: labels of a sequence, trees, segmentations, lists of candidates; learners over one protocol.

A task or a learner comes to life by its line here.  Nothing is imported before it is asked for.
"""

from __future__ import annotations

from importlib import import_module

from blocksvm.base.errors import InputError, one_of, said

# name -> (file, attribute)
LEARNERS = {
    "perceptron": ("additive", "PERCEPTRON"),
    "pa": ("additive", "PA"),
    "pa1": ("additive", "PA1"),
    "pa2": ("additive", "PA2"),
    "mira": ("mira", "MIRA"),
    "frank-wolfe": ("frank_wolfe", "FRANK_WOLFE"),
}


def get_learner(name: str):
    """The ``StructuredLearner`` of this name; InputError where there is none."""
    if name not in LEARNERS:
        raise InputError(f"{said('learner', name)}: no such learner; {one_of(name, LEARNERS)}")
    module, attribute = LEARNERS[name]
    return getattr(import_module(f"blocksvm.structured.{module}"), attribute)
