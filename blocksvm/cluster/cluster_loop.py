"""The outer loop where workers read: what its kinds share, which is the life of the workers and the count of their
work."""

from __future__ import annotations

from dataclasses import fields
from typing import Any
from uuid import uuid4

from blocksvm.base.errors import option
from blocksvm.cluster.cluster import Cluster
from blocksvm.cluster.dispatcher import ClusterLost, Dispatcher, StoppedWaiting
from blocksvm.cluster.job import Job
from blocksvm.cluster.workers import Traffic
from blocksvm.solvers.solver import Task
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan


class ClusterLoop(OuterLoop):
    """``OuterLoop`` of a ``ClusterPlan``."""

    def __init__(self, plan: Plan, *watching, cluster: Cluster, **more):
        super().__init__(plan, *watching, **more)
        self.cluster = cluster

    def make_job(self, key: str, stores: tuple[str, ...], method: tuple[str, bool], task: dict) -> Job:
        """stores: their paths; method: name and whether it is an online learner; task: without its source."""
        raise NotImplementedError

    def run(self):
        if not hasattr(self, "state"):
            self.allocate()
        plan, cluster = self.plan, self.cluster
        task = {f.name: getattr(plan.task, f.name) for f in fields(Task) if f.name != "source"}
        method = plan.method["name"], plan.method["learner"]
        job = self.make_job(uuid4().hex, cluster.stores(plan.source.name), method, task)
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

    def _iterate(self) -> str:
        try:
            return super()._iterate()
        except StoppedWaiting:
            return "interrupted"

    def next_answer(self) -> Any:
        """The answer to the next part, which has been counted."""
        answer, tally, traffic = self.dispatcher.take(self.watch.stop), self.tally, self.dispatcher.traffic
        tally.bytes_read += answer.bytes_read
        tally.bytes_sent += traffic.bytes_sent
        tally.bytes_received += traffic.bytes_received
        tally.seconds_workers += traffic.worker_seconds
        tally.seconds_waiting += traffic.waited_seconds
        self.dispatcher.traffic = Traffic()
        return answer
