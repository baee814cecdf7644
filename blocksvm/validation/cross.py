"""``cross_validate``: K folds along a path of C, whose problems share readings."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Unpack

import numpy as np

from blocksvm.api.setting_keywords import PathSettings
from blocksvm.base.errors import InputError, option
from blocksvm.base.settings import n_threads
from blocksvm.base.threads import Threads
from blocksvm.sources.source import Source
from blocksvm.training.loop import Watch
from blocksvm.training.settings import TrainSettings
from blocksvm.validation.folds import MOST_FOLDS, folds_of
from blocksvm.validation.path import AT_ONCE, PATH, CrossValidation, follow_path, trains_on_numbers


def cross_validate(
    source: Source,
    C: Sequence[float] = PATH,
    folds: int = 5,
    *,
    groups: str | None = None,
    at_once: int = AT_ONCE,
    on_event: Callable[[dict], None] = lambda event: None,
    stop: Callable[[], bool] = lambda: False,
    cluster=None,
    **settings: Unpack[PathSettings],
) -> CrossValidation:
    """Train on the rows outside of each of ``folds`` folds at each of the costs ``C``, and score those in it.

    settings: as ``fit`` takes them for dual-cd and newton; at_once: how many C are trained at once, where the memory
    allows it (the more, the fewer readings); groups: a file with a line for each row, of which equal ones
    are held out together; on_event, stop, cluster: as ``fit`` has them.  Raises InputError where a fold lacks a class.

        >>> with blocksvm.open_store("rows.h5") as store:
        ...     result = blocksvm.cross_validate(store, C=(0.1, 1.0), folds=3)
        >>> result.path[result.best()], result.mean("accuracy")
        (0.1, array([1., 1.]))
    """
    if isinstance(C, str) or not np.size(C) or not all(0.0 < float(value) < math.inf for value in np.ravel(C)):
        raise InputError(f"{option('C')}: needs finite numbers above 0, e.g. C=(0.1, 1, 10)")
    path = sorted({float(value) for value in np.ravel(C)})
    if not 2 <= folds <= MOST_FOLDS:
        raise InputError(f"{option('folds', folds)}: must be from 2 to {MOST_FOLDS}")
    if at_once < 1:
        raise InputError(f"{option('at_once', at_once)}: must be 1 or more")
    threads = Threads(n_threads(settings.pop("n_jobs", None)))
    train_settings = TrainSettings.of(**settings).settled(source)
    if not (train_settings.capabilities.working_set or train_settings.solver == "newton"):
        raise InputError(
            f"{option('solver', train_settings.solver)}: cross-validation uses dual-cd or newton; leave it out"
        )
    if train_settings.free_bias:
        raise InputError(
            f"{option('bias', 'free')}: the problems of all folds are trained side by side, which needs a constant "
            f"feature; choose C with {option('bias', 1)}, whose regularisation matters little where rows are many, and "
            f"train with {option('bias', 'free')} at that C"
        )
    chosen = folds_of(source, folds, train_settings.seed, groups, trains_on_numbers(train_settings))
    known = source, path, chosen, at_once, train_settings, threads, Watch(on_event, stop)
    if cluster is None:
        return follow_path(*known)
    from blocksvm.cluster.dask import cluster_at
    from blocksvm.cluster.loop import cluster_loop
    from blocksvm.cluster.plan import plan_there

    there = cluster_at(cluster, source)
    with there.opened():
        return follow_path(*known, plan_there, partial(cluster_loop, cluster=there))
