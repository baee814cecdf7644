"""The online learners: one file a learner or family, and what they share.

A learner comes to life by its line here, or, from outside the package, by the name ``module:attribute``.  Nothing is
imported before it is asked for.
"""

from __future__ import annotations

from importlib import import_module

from blocksvm.base.errors import InputError, one_of
from blocksvm.base.user_code import imported

# name -> (file, attribute)
LEARNERS = {
    "perceptron": ("additive", "PERCEPTRON"),
    "perceptron-bias": ("additive", "PERCEPTRON_BIAS"),
    "pa": ("passive_aggressive", "PA"),
    "pa1": ("passive_aggressive", "PA1"),
    "pa2": ("passive_aggressive", "PA2"),
    "mira": ("mira", "MIRA"),
    "cw-var": ("confidence", "CW_VAR"),
    "cw-stdev": ("confidence", "CW_STDEV"),
    "arow": ("confidence", "AROW"),
    "scw1": ("confidence", "SCW1"),
    "scw2": ("confidence", "SCW2"),
    "ogd": ("gradient", "OGD"),
    "forel": ("gradient", "FOREL"),
    "pegasos": ("gradient", "PEGASOS"),
    "omd": ("mirror", "OMD"),
    "subgradient": ("sparse", "SUBGRADIENT"),
    "fobos": ("sparse", "FOBOS"),
    "hf-fobos": ("sparse", "HF_FOBOS"),
    "adagrad-rda": ("adagrad", "ADAGRAD_RDA"),
    "adagrad-rda-squares": ("adagrad", "ADAGRAD_RDA_SQUARES"),
    "adagrad-fobos": ("adagrad", "ADAGRAD_FOBOS"),
    "nag": ("nag", "NAG"),
    "ftrl": ("ftrl", "FTRL"),
    "coin": ("coin", "COIN"),
    "auto": ("auto", "AUTO"),
}


def get_learner(name: str):
    """The ``Learner`` of this name, or of 'module:attribute'; InputError where there is none."""
    if name in LEARNERS:
        module, attribute = LEARNERS[name]
        return getattr(import_module(f"blocksvm.learners.{module}"), attribute)
    from blocksvm.learners.engine.learner import Learner

    if ":" not in name:
        more = ", or name it as module:attribute"
        raise InputError(f"{name}: no such learner; {one_of(name, LEARNERS, more)}")
    try:
        found = imported(name, "learner")
    except ImportError as error:
        raise InputError(f"{name}: cannot be imported: {error}") from error
    if not isinstance(found, Learner):
        raise InputError(f"{name}: is no learner; it must be a blocksvm.learners.engine.learner.Learner")
    return found
