"""The registry of methods by name: block solvers, and online learners, each of which is a solver whose block is one
row."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from blocksvm.base.registry import Registry
from blocksvm.online import LEARNERS

if TYPE_CHECKING:
    from blocksvm.solvers.solver import Method

SOLVERS = Registry(
    "solver",
    ("blocksvm.solvers.solver:Method", "blocksvm.online.learner:Learner"),
    {
        "dual-cd": "blocksvm.solvers.dual_cd:METHOD",
        "auto": "blocksvm.solvers.dual_cd:AUTO",
        "pegasos": "blocksvm.solvers.pegasos:METHOD",
        "newton": "blocksvm.solvers.newton:METHOD",
        "kernel": "blocksvm.solvers.kernel_machine:METHOD",
        "forel-exact": "blocksvm.online.exact:FOREL_EXACT",
        "ftl": "blocksvm.online.exact:FTL",
        "kernel-perceptron": "blocksvm.online.kernel:KERNEL_PERCEPTRON",
        "kernel-pa": "blocksvm.online.kernel:KERNEL_PA",
        "kernel-pa1": "blocksvm.online.kernel:KERNEL_PA1",
        "kernel-pa2": "blocksvm.online.kernel:KERNEL_PA2",
    },
    more=tuple(LEARNERS),
)
NAMES = (*SOLVERS, *(name for name in LEARNERS if name not in SOLVERS))


@cache
def get_method(name: str, learner: bool = False) -> Method:
    """The solver of this name or location; learner: prefer the online learner where a block solver has the same name.
    Raises InputError, with all names, where there is none."""
    if name in LEARNERS and (learner or name not in SOLVERS):
        loaded = LEARNERS.load(name)
    else:
        loaded = SOLVERS.load(name, LEARNERS.kind if learner else SOLVERS.kind)
    from blocksvm.solvers.solver import Method

    if isinstance(loaded, Method):
        return loaded
    from blocksvm.online.solver import method_of  # its loops take memory that block solvers need not

    return method_of(loaded)
