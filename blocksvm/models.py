"""From a finished run to a model file: what is kept, under which names."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from blocksvm.outer.training import Result, Trainer
from blocksvm.outer.versions import versions
from blocksvm.store.source import Source
from blocksvm.store.states import save_model

TEXT_SETTINGS = {"normalize": "none", "duplicates": "error"}


def save_result(path: Path, source: Source, trainer: Trainer, result: Result) -> dict:
    """Write the model; returns its description.

    A dual method's alpha is kept beside the weights, so that the certificate can be checked and a run at another C can
    start from it.
    """
    settings = trainer.settings
    described = getattr(source, "meta", {})
    text = {name: described.get("settings", {}).get(name, value) for name, value in TEXT_SETTINGS.items()}
    values = {0: "ones", 4: "float32", 8: "float64"}[source.value_bytes]
    meta = {
        "n_features": source.n_features,
        "n_samples": source.n_samples,
        "fingerprint": source.fingerprint,
        "store": source.name,
        "settings": settings.arithmetic()
        | {"memory": settings.memory, "tol": settings.tol, "max_outer": settings.outer_limit()},
        "cost": trainer.problem.cost.tolist(),
        "labels": {"negative": source.labels.negative, "positive": source.labels.positive},
        "text": text | {"dtype": "float64" if values == "float64" else "float32"},
        "values": values,
        "certificate": None if result.certificate is None else asdict(result.certificate),
        "status": result.status,
        "outer": result.outer,
        "seconds": result.seconds,
        "passes": result.passes,
        "partition": {"resident": trainer.partition.resident, "capacity": int(trainer.partition.capacity)},
        "versions": versions(),
    }
    arrays = {a.name: trainer.state[a.name] for a in trainer.solver.state_arrays if a.axis != "feature"}
    save_model(path, source, result.w, arrays, meta)
    return meta
