"""The method dual-cd: which of the solvers of dual coordinate descent a task takes."""

from __future__ import annotations

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import SETS
from blocksvm.losses import require
from blocksvm.problems.problem_settings import WITH_CLASSES, learns_together
from blocksvm.solvers.dual_cd import DualCD, settings_of
from blocksvm.solvers.solver import Method, Solver, Task


def make(task: Task) -> Solver:
    """For two classes or real targets one problem; for more classes, or sets of labels, one a class, or one of all."""
    settings = settings_of(task.settings).resolve(task.settings, DualCD.name)
    loss = require(settings["loss"], "conjugate", DualCD.name)
    labels = task.source.labels
    more = task.source.label_kind == SETS or (labels is not None and not labels.binary)
    if more and not loss.of_numbers:
        # imported here, as below: they load kernels that others do not need
        if learns_together(settings["multiclass"]):
            from blocksvm.solvers.crammer_singer_cd import CrammerSingerCD

            return CrammerSingerCD(task)
        from blocksvm.solvers.several_dual_cd import SeveralDualCD

        return SeveralDualCD(task)
    if settings["multiclass"] is not None:
        raise InputError(f"{option('multiclass')}: is for more than two classes; leave it out")
    return DualCD(task)


METHOD = Method(
    "dual-cd",
    "dual coordinate descent in blocks, to a certified duality gap",
    WITH_CLASSES,
    DualCD.capabilities,
    make,
    ("loss",),
    settings_of,
)
