"""Descriptions of models and checkpoints of format version 1, brought into the form of today.

Until version 2 a solver's own settings lay among those of the run (``loss``, ``C``, ``lam``, ``class_weight``,
``batch``) or, of an online learner, under ``online``; the arrays of a state had no name space.
"""

from __future__ import annotations

BLOCK_SOLVERS = ("dual-cd", "pegasos")
SOLVER_SETTINGS = {
    "dual-cd": ("loss", "C", "lam", "class_weight"),
    "pegasos": ("loss", "C", "lam", "class_weight", "batch"),
}
RUN = ("bias", "schedule", "partition", "block_chunks", "order", "seed", "memory", "tol", "max_outer")


def of_today(meta: dict) -> dict:
    """A description with ``method`` (name, learner, settings) and ``settings`` of the run; newer ones as they are."""
    if "method" in meta:
        return meta
    before = meta["settings"]
    name = before["solver"]
    learner = name not in BLOCK_SOLVERS or meta.get("status") == "stream"
    if learner:
        online = before["online"]
        settings = dict(online["learner"]) | {key: online[key] for key in ("average", "multiclass", "query")}
    else:
        settings = {key: before[key] for key in SOLVER_SETTINGS[name]}
    settings = {key: value for key, value in settings.items() if value is not None}
    run = {key: before[key] for key in RUN if key in before}
    today = {"method": {"name": name, "learner": learner, "settings": settings}, "settings": run}
    if "copies" in meta:
        today["n_vectors"] = meta["copies"]
    return meta | today
