"""``cross_validate``: K folds along a path of C, whose problems share readings, or in groups that are trained apart."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Unpack

import numpy as np

from blocksvm.api.setting_keywords import CrossSettings
from blocksvm.base.errors import InputError, option
from blocksvm.base.settings import n_threads
from blocksvm.base.threads import Threads
from blocksvm.sources.source import Source
from blocksvm.training.run import Watch
from blocksvm.training.train_settings import TrainSettings
from blocksvm.validation.fold_groups import chosen_folds, in_groups
from blocksvm.validation.folds import MOST_FOLDS
from blocksvm.validation.path import AT_ONCE, PATH, CrossValidation, PathCheckpoint, PathTask, follow_path


def cross_validate(
    source: Source,
    C: Sequence[float] = PATH,
    folds: int = 5,
    *,
    groups: str | None = None,
    at_once: int = AT_ONCE,
    on_event: Callable[[dict], None] = lambda event: None,
    stop: Callable[[], bool] = lambda: False,
    checkpoint: PathCheckpoint | None = None,
    **settings: Unpack[CrossSettings],
) -> CrossValidation:
    """Train on the rows outside of each of ``folds`` folds at each of the costs ``C``, and score those in it.

    settings: as ``fit`` takes them for dual-cd; at_once: how many C are trained at once, where the memory
    allows it (the more, the fewer readings); groups: a file with a line for each row, of which equal ones
    are held out together; fold_groups: groups of folds that are trained apart, each with readings of its own and as
    much of the memory, n_jobs of them at once on threads, or where ``joblib.parallel_config`` says ('loky', 'dask');
    on_event, stop: as ``fit`` has them; checkpoint: the file of how far this is, and whether to go on from it.  Raises
    InputError where a fold lacks a class.
    """
    began = time.perf_counter()
    if isinstance(C, str) or not np.size(C) or not all(0.0 < float(value) < math.inf for value in np.ravel(C)):
        raise InputError(f"{option('C')}: needs finite numbers above 0, e.g. C=(0.1, 1, 10)")
    path = sorted({float(value) for value in np.ravel(C)})
    if not 2 <= folds <= MOST_FOLDS:
        raise InputError(f"{option('folds', folds)}: must be from 2 to {MOST_FOLDS}")
    if at_once < 1:
        raise InputError(f"{option('at_once', at_once)}: must be 1 or more")
    n_groups, n_jobs = settings.pop("fold_groups", None) or 1, settings.pop("n_jobs", None)
    if not 1 <= n_groups <= folds:
        raise InputError(f"{option('fold_groups', n_groups)}: must be from 1 to the number of folds, {folds}")
    if n_groups > 1 and checkpoint is not None:
        raise InputError(f"{option('checkpoint')}: is for folds that share readings, not for groups; leave it out")
    train_settings = TrainSettings.of(**settings)
    if not train_settings.capabilities.cross_validates:
        raise InputError(f"{option('solver', train_settings.solver)}: cross-validation uses dual-cd; leave it out")
    if train_settings.free_bias:
        raise InputError(
            f"{option('bias', 'free')}: the problems of all folds are trained side by side, which needs a constant "
            f"feature; choose C with {option('bias', 1)}, whose regularisation matters little where rows are many, and "
            f"train with {option('bias', 'free')} at that C"
        )
    task, watch = PathTask(path, folds, groups, at_once, train_settings), Watch(on_event, stop)
    if n_groups == 1:
        return follow_path(source, task, chosen_folds(source, task), Threads(n_threads(n_jobs)), watch, checkpoint)
    scores = in_groups(source, task, n_groups, n_jobs, watch)
    scores.seconds = time.perf_counter() - began
    return scores
