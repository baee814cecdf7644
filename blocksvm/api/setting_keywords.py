"""The settings of runs, solvers and learners as keywords of ``fit`` and ``cross_validate``, as editors complete them.

``describe_solver`` says what each solver takes; a test compares this file with the declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypedDict


class FitSettings(TypedDict, total=False):
    """Every setting that some solver or learner takes; None: the default."""

    solver: str | None
    learner: str | None
    # the run
    bias: float | str | None
    schedule: str | None
    working_set: str | None
    partition: str | None
    block_chunks: int | None
    order: str | None
    memory: int | str | None
    seed: int | None
    tol: float | None
    max_outer: int | None
    max_passes: int | None
    max_seconds: float | None
    # the problem
    loss: str | None
    C: float | None
    lam: float | None
    epsilon: float | None
    class_weight: str | Mapping | None
    multiclass: str | None
    targets: str | None
    joint: str | None
    costs: object
    cost_rule: str | None
    # kernels
    kernel: str | None
    gamma: float | None
    degree: int | None
    coef0: float | None
    matrix_rows: int | None
    budget: int | None
    budget_rule: str | None
    # pegasos
    batch: int | None
    dual: bool | None
    # online learners
    step: float | None
    decay: str | None
    radius: float | None
    average: bool | None
    unprojected: bool | None
    half_steps: str | None
    forget: float | None
    query: float | None
    max_norm: float | None
    confidence: float | None
    variance: float | None
    r: float | None
    mirror: str | None
    p: float | None
    n_features: int | None
    regulariser: str | None
    l1: float | None
    l2: float | None
    group: float | None
    cap: float | None
    delta: float | None
    alpha: float | None
    beta: float | None
    wealth: float | None
