"""The outer loop where workers read: what its kinds share, which is the life of the workers and the count of their
work."""

from __future__ import annotations

from dataclasses import fields
from typing import Any
from uuid import uuid4

from blocksvm.base.errors import option
from blocksvm.cluster.cluster import Cluster
from blocksvm.cluster.cluster_plan import ClusterPlan
from blocksvm.cluster.dispatcher import ClusterLost, Dispatcher, StoppedWaiting
from blocksvm.cluster.solver_job import SolverJob
from blocksvm.solvers.solver import Task
from blocksvm.training.loop import OuterLoop
from blocksvm.training.record import Traffic


class ClusterLoop(OuterLoop):
    """``OuterLoop`` of a ``ClusterPlan``.  job_type: of what workers do."""

    job_type: type[SolverJob]
    plan: ClusterPlan

    def __init__(self, plan: ClusterPlan, *watching, cluster: Cluster, **more):
        super().__init__(plan, *watching, **more)
        self.cluster = cluster

    def run(self):
        if not hasattr(self, "state"):
            self.allocate()
        plan, cluster = self.plan, self.cluster
        task = {f.name: getattr(plan.task, f.name) for f in fields(Task) if f.name != "source"}
        method = plan.method.name, plan.method.learner
        shape = self.state[plan.version_of].shape
        job = self.job_type(
            uuid4().hex, cluster.stores(plan.source.name), plan.source.fingerprint, plan.worker_bytes, 1, method, task,
            shape, **self.of_job(),
        )  # fmt: skip
        self.dispatcher = Dispatcher(cluster.workers, job, cluster.timeout, plan.blocks.under_way, cluster.say)
        with self.dispatcher:
            try:
                return super().run()
            except ClusterLost as error:
                if self.checkpoint is None:
                    raise
                self.save()
                path = self.checkpoint.path
                raise ClusterLost(f"{error}; {path} has the state, and {option('resume')} goes on") from error

    def of_job(self) -> dict:
        """What else its kind of job has."""
        return {}

    def _iterate(self) -> str:
        try:
            return super()._iterate()
        except StoppedWaiting:
            return "interrupted"

    def next_answer(self) -> Any:
        """The answer to the next part, which has been counted."""
        answer, tally = self.dispatcher.take(self.watch.stop), self.tally
        tally.reading.bytes_read += answer.cost.bytes_read
        tally.reading.requests += answer.cost.requests
        tally.traffic += self.dispatcher.traffic
        self.dispatcher.traffic = Traffic()
        return answer
