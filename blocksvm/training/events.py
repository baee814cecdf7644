"""The events of a run, as callbacks get them and traces keep them: plain dicts, one JSON line each."""

from __future__ import annotations

import math
from dataclasses import asdict

from blocksvm.model.versions import versions
from blocksvm.problems.problem import Certificate
from blocksvm.settings import plain
from blocksvm.training.progress import Progress, Result


def start_event(trainer) -> dict:
    """Settings, the data, the plan of memory."""
    source, settings = trainer.source, trainer.settings
    return {
        "event": "start" if trainer.resume is None else "resume",
        **settings.arithmetic(),
        "memory": settings.memory,
        "tol": settings.tol,
        "max_outer": settings.outer_limit(),
        "max_seconds": None if math.isinf(settings.max_seconds) else settings.max_seconds,
        "store": source.name,
        "fingerprint": source.fingerprint,
        "n_samples": source.n_samples,
        "n_features": source.n_features,
        "n_nonzeros": source.n_nonzeros,
        "blocks": len(trainer.partition.blocks(1)),
        "resident": trainer.partition.resident,
        "memory_plan": trainer.plan(),
        "outer": trainer.progress.position.outer,
        "learner_settings": plain(trainer.solver.told) if trainer.solver.online else None,
        "versions": versions(),
    }


def outer_event(
    progress: Progress, seconds: float, estimates: dict, certificate: Certificate | None, valid_accuracy: float | None
) -> dict:
    """An outer iteration: certified figures (null where nothing was certified), estimates, what was done.

    estimates: primal_estimate, dual_estimate, gap_estimate; certificate_share: of the rows, how many were read for a
    certificate (less than 1: it was broken off, as the gap was too large).
    """
    certified = {name: None for name in ("primal", "dual", "rel_gap", "accuracy")}
    if certificate is not None:
        certified = asdict(certificate)
    done = {name: value for name, value in asdict(progress.tally).items() if name != "loss_sum"}
    return {
        "event": "outer",
        "outer": progress.position.outer,
        "seconds": seconds,
        **certified,
        **estimates,
        "valid_accuracy": valid_accuracy,
        **done,
    }


def end_event(result: Result, last: dict | None) -> dict:
    """How a run ended; an interrupted one reports its last certificate, if there was one."""
    certificate = asdict(result.certificate) if result.certificate else last
    return {
        "event": "end",
        "status": result.status,
        "outer": result.outer,
        "seconds": result.seconds,
        **(certificate or {name: None for name in ("primal", "dual", "rel_gap", "accuracy")}),
        "passes": result.passes,
    }
