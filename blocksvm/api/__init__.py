"""What Python users call: stores, trainings, streams and predictions of files; and the settings that these take as
keywords, as editors complete them.  A test compares them with the declarations.

A function refuses a setting that it has no use for; ``describe_solver`` says what each solver takes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from blocksvm.losses.loss import Loss
from blocksvm.online.learner import Learner


class SettingKeywords(TypedDict, total=False):
    """None: the default.  memory: bytes, or text such as "2GB"; n_jobs: threads (None: 1, -1: as many as processors),
    on whose number no bit of a result depends."""

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
    # the run
    memory: int | str | None
    seed: int | None
    n_jobs: int | None
    solver: str | None
    bias: float | str | None
    schedule: str | int | None
    working_set: str | None
    partition: str | None
    block_chunks: int | None
    order: str | None
    tol: float | None
    max_outer: int | None
    max_passes: int | None
    max_seconds: float | str | None
    # how rows are read, and become features
    format: str | None
    bits: int | None
    duplicates: str | None
    normalize: str | None
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
    skip_bad: bool | None
    # what is counted over all rows, and their store
    dtype: str | None
    min_count: int | None
    top_features: int | None
    idf: str | None
    scale: str | None
    keep_order: bool | None
    holdout: float | None
    temp: str | Path | None
    weights: str | Path | None
    like: str | Path | None
    overwrite: bool | None
    chunk_nonzeros: int | None
    codec: str | None
    # a stream
    labels: tuple | str | None
    save_every: int | None
    passes: int | None
    test: bool | None


class WithCost(SettingKeywords, total=False):
    C: float | None


class FitKeywords(WithCost, total=False):
    learner: str | Learner | None
