"""The method dual-cd: which of the solvers of dual coordinate descent a task takes; and auto, which becomes dual-cd or
newton once the rows are known (``TrainSettings.settled``)."""

from __future__ import annotations

from dataclasses import replace

from blocksvm.problems.problem import has_classes
from blocksvm.problems.problem_settings import WITH_CLASSES, learns_together
from blocksvm.solvers.dual_cd import DualCD, settings_of
from blocksvm.solvers.solver import Method, Solver, Task


def make(task: Task) -> Solver:
    """Each class against the rest, or all classes together."""
    settings = settings_of(task.settings).resolve(task.settings, DualCD.name)
    if learns_together(settings["multiclass"]) and has_classes(settings, task.source):
        from blocksvm.solvers.crammer_singer_cd import CrammerSingerCD  # loads kernels that others do not need

        return CrammerSingerCD(task)
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
AUTO = replace(METHOD, name="auto", summary="newton for smooth losses of rows with few, dense features; else dual-cd")
