"""From a finished run to its model file."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

import numpy as np

from blocksvm.formats.recipe import Recipe
from blocksvm.model.expansion import describe_support
from blocksvm.model.files import save_model
from blocksvm.model.idf import idf_of_source
from blocksvm.model.names import names_of
from blocksvm.model.state import whole
from blocksvm.model.versions import versions
from blocksvm.training.loop import OuterLoop
from blocksvm.training.record import Result


def describe_result(loop: OuterLoop, result: Result) -> dict:
    """A model's description: the method and its settings, labels, certificate, choices made, versions."""
    plan = loop.plan
    source, settings, solver = plan.source, plan.settings, plan.solver
    described = getattr(source, "meta", {})
    dtype = "float64" if source.value_bytes == 8 else "float32"
    return plan.describe() | {
        "settings": settings.run_settings() | {"max_outer": settings.outer_limit()},
        "n_features": plan.n_features,
        "n_vectors": solver.n_vectors,
        "bias": solver.bias,
        "n_samples": source.n_samples,
        "store": source.name,
        "labels": plan.label_list(),
        "multilabel": plan.multilabel,
        "ranks": solver.ranks,
        "prior": None if plan.earlier.prior is None else str(plan.earlier.prior),
        "prior_fingerprint": plan.earlier.fingerprints[1],
        "idf_fingerprint": described.get("idf_fingerprint"),
        "text": Recipe.of_store(described, source.name, dtype).plain(),
        "values": {0: "ones", 4: "float32", 8: "float64"}[source.value_bytes],
        "certificate": None if result.certificate is None else asdict(result.certificate),
        "kernel": None if result.support is None else describe_support(result.support),
        "status": result.status,
        "outer": result.outer + loop.progress.outers_before,
        "seconds": result.seconds,
        "passes": result.passes,
        "set_passes": result.set_passes,
        "versions": versions(),
        **solver.describe(loop.state),
    }


def save_result(
    path: Path,
    loop: OuterLoop,
    result: Result,
    feature_ids: Callable[[int, int], np.ndarray] | None = None,
    overwrite: bool = True,
    calibration: dict | None = None,
) -> None:
    """Write the model file; feature_ids(start, stop) where the source may be closed.

    A dual method's alpha is kept beside the weights, so that the certificate can be checked and a run at another C can
    start from it; a learner's whole state, so that it can go on.  calibration: how decision values become
    probabilities.
    """
    plan = loop.plan
    arrays = {a.name: whole(loop.state[a.name]) for a in plan.solver.state_arrays if a.in_model}
    ids = feature_ids or (lambda start, stop: plan.earlier.feature_ids(plan.source, start, stop))
    told = describe_result(loop, result) | {"calibration": calibration}
    state = {plan.namespace: arrays}
    factors = None if plan.solver.n_features else idf_of_source(plan.source, plan.n_features)
    with nullcontext() if plan.solver.n_features else names_of(plan.source) as names:
        save_model(path, ids, whole(result.w), state, told, overwrite, result.support, names, factors)
