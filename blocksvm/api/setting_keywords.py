"""The settings of runs, solvers, learners, stores and streams as keywords of functions, as editors complete them.

``describe_solver`` says what each solver takes; a test compares this file with the declarations.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from blocksvm.losses.loss import Loss
from blocksvm.online.learner import Learner


class MethodSettings(TypedDict, total=False):
    """Every setting but C that some solver or learner takes; None: the default."""

    # the problem
    loss: str | Loss | None
    lam: float | None
    epsilon: float | None
    class_weight: str | Mapping | None
    multiclass: str | None
    targets: str | None
    costs: object
    cost_rule: str | None
    # kernels
    kernel: str | None
    gamma: float | None
    degree: int | None
    coef0: float | None
    matrix_rows: int | None
    budget: int | None
    # pegasos
    batch: int | None
    dual: bool | None
    iterate: str | None
    # online learners
    step: float | None
    decay: str | None
    radius: float | None
    average: bool | None
    unprojected: bool | None
    half_steps: str | None
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


class PathSettings(MethodSettings, total=False):
    """The settings of a run, and its solver's but for C; None: the default.

    n_jobs: threads (None: 1, -1: as many as processors), on whose number no bit of the result depends."""

    n_jobs: int | None

    solver: str | None
    learner: str | Learner | None
    bias: float | str | None
    schedule: str | int | None
    working_set: str | None
    partition: str | None
    block_chunks: int | None
    order: str | None
    memory: int | str | None
    seed: int | None
    tol: float | None
    max_outer: int | None
    max_passes: int | None
    max_seconds: float | str | None


class RegretSettings(MethodSettings, total=False):
    """The settings of ``measure_regret``: those of the learner and of the replay; None: the default."""

    C: float | None
    order: str | None
    seed: int | None
    memory: int | str | None


class RecipeSettings(TypedDict, total=False):
    """How rows are read, and become features: the recipe, and what some format takes; None: the default."""

    format: str | None
    bits: int | None
    duplicates: str | None
    normalize: str | None
    # formats
    ngrams: str | None
    label: str | None
    categorical: str | None
    ignore: str | None
    numeric: str | None
    header: str | None
    delimiter: str | None
    decimal: str | None
    quote: str | None
    labels_from: str | None
    text: str | None
    case: str | None
    accents: str | None
    label_sets: str | None
    encoding: str | None


class RowSettings(RecipeSettings, total=False):
    """With what is counted over all rows; None: the default."""

    dtype: str | None
    min_count: int | None
    top_features: int | None
    idf: str | None
    scale: str | None


class FitSettings(PathSettings, RowSettings, total=False):
    """The settings of ``fit``, those of rows for tables and texts; None: the default."""

    C: float | None


class StoreSettings(RowSettings, total=False):
    """The settings of ``write_store``; None: the default.

    memory in bytes, or text such as "2GB"; n_jobs: threads; holdout: the fraction of rows that go to ``holdout_store``;
    temp: folder for the shuffle, by default beside the store; weights: a file with each row's weight, a number a line;
    like: a store whose recipe of features is taken."""

    memory: int | str | None
    seed: int | None
    n_jobs: int | None
    keep_order: bool | None
    holdout: float | None
    temp: str | Path | None
    weights: str | Path | None
    like: str | Path | None
    skip_bad: bool | None
    overwrite: bool | None
    chunk_nonzeros: int | None
    codec: str | None


class OnlineSettings(MethodSettings, RecipeSettings, total=False):
    """The settings of a ``Stream``; None: the default.

    memory in bytes, or text such as "2GB"; n_jobs: threads; labels: the classes, also as '-1,1'; passes: over the
    inputs; test: predict only, and learn nothing."""

    memory: int | str | None
    seed: int | None
    n_jobs: int | None
    C: float | None
    bias: float | None
    labels: tuple | str | None
    skip_bad: bool | None
    save_every: int | None
    passes: int | None
    test: bool | None
