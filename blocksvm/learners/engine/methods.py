"""The registry of solvers by name: block solvers, and online learners, each of which is a solver whose block is one
row.

One line a solver, imported when it is asked for.  A name 'module:attribute' is a solver or learner outside the package.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from blocksvm.base.errors import InputError, called, one_of
from blocksvm.base.user_code import imported, object_at
from blocksvm.learners import LEARNERS, get_learner

if TYPE_CHECKING:
    from blocksvm.solvers.solver import Method

SOLVERS = {
    "dual-cd": "blocksvm.solvers.dual_methods:METHOD",
    "pegasos": "blocksvm.solvers.pegasos:METHOD",
    "kernel": "blocksvm.solvers.kernel_machine:METHOD",
    "forel-exact": "blocksvm.learners.rules.exact:FOREL_EXACT",
    "ftl": "blocksvm.learners.rules.exact:FTL",
    "kernel-perceptron": "blocksvm.learners.engine.kernel_learner:KERNEL_PERCEPTRON",
    "kernel-pa": "blocksvm.learners.engine.kernel_learner:KERNEL_PA",
    "kernel-pa1": "blocksvm.learners.engine.kernel_learner:KERNEL_PA1",
    "kernel-pa2": "blocksvm.learners.engine.kernel_learner:KERNEL_PA2",
}
NAMES = (*SOLVERS, *(name for name in LEARNERS if name not in SOLVERS))


@cache
def get_method(name: str, learner: bool = False) -> Method:
    """The solver of this name; learner: as an online learner, where the name is that of a block solver, too.
    InputError, with all names, where there is none."""
    from blocksvm.solvers.solver import Method

    word = called("learner" if learner else "solver")
    place = name if ":" in name else SOLVERS.get(name)
    if place is not None and not (learner and name in LEARNERS):
        try:
            found = object_at(place) if name in SOLVERS else imported(name, "learner" if learner else "solver")
        except ImportError as error:
            raise InputError(f"{word} {name}: cannot be imported ({error})") from None
        if isinstance(found, Method):
            return found
    elif name not in LEARNERS:
        raise InputError(f"{word} {name}: unknown; {one_of(name, LEARNERS if learner else NAMES)}")
    from blocksvm.learners.engine.online_solver import (
        method_of,  # the learners' loops take memory that block solvers need not
    )

    return method_of(get_learner(name))
