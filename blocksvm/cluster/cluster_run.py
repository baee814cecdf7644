"""The loop that a plan on a cluster takes."""

from __future__ import annotations

from blocksvm.cluster.cluster_loop import ClusterLoop
from blocksvm.cluster.cluster_plan import ClusterPlan
from blocksvm.cluster.gradient_loop import GradientLoop
from blocksvm.cluster.screening_loop import ScreeningLoop


def make_cluster_loop(plan: ClusterPlan, *watching, **more) -> ClusterLoop:
    make = ScreeningLoop if plan.screened else GradientLoop
    return make(plan, *watching, **more)
