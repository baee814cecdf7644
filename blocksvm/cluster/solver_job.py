"""A job whose parts are made by a solver without rows of its own: that of a training whose rows workers read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from blocksvm.base.threads import Threads
from blocksvm.cluster.job import Context, Job
from blocksvm.online.methods import get_method
from blocksvm.solvers.solver import Task
from blocksvm.store.reader import Store


@dataclass(frozen=True)
class SolverJob(Job):
    """method: name and whether it is an online learner; task: without its source; weights_shape: of a version."""

    method: tuple[str, bool]
    task: dict[str, Any]
    weights_shape: tuple[int, ...]


class SolverContext(Context):
    """solver: without rows; source: the store, its targets as the solver reads them; weights_shape: of a version."""

    def __init__(self, job: SolverJob, store: Store):
        super().__init__(store)
        self.solver: Any = get_method(*job.method).make(Task(source=store, **job.task))
        self.solver.threads = Threads(job.threads)
        real, packed = self.solver.real_targets, self.solver.packed
        self.source = store.reader(real=real, packed=packed) if real or packed else store
        self.weights_shape = job.weights_shape
