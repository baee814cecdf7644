"""Training by many: workers read, decode and screen all rows, one process moves those that can move."""

from collections.abc import Callable
from functools import partial
from typing import Any

from blocksvm.base.errors import InputError, option
from blocksvm.sources.source import Source
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan


def makers(cluster: Any, source: Source) -> tuple[Any, Callable[..., Plan], Callable[..., OuterLoop]]:
    """The cluster that reads a store, or None, and what makes the plan and the loop of a run."""
    if cluster is None:
        return None, Plan, OuterLoop
    from blocksvm.cluster.dask import Cluster
    from blocksvm.cluster.loop import ClusterPlan, cluster_loop

    if source.in_memory:
        raise InputError(f"{option('cluster')}: reads a store; give one that open_store has opened")
    cluster = cluster if isinstance(cluster, Cluster) else Cluster(cluster)
    return cluster, ClusterPlan, partial(cluster_loop, cluster=cluster)
