"""Groups of folds that are trained apart, each with readings and a share of the memory of its own, side by side where
joblib is configured to.

How many groups there are is a setting, and each has as many folds and as much memory wherever it is trained.  So no bit
depends on how many are trained at once, on threads, processes or a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.memory import TooLittleMemory
from blocksvm.base.objects.remote_path import absolute_name
from blocksvm.base.threads import Threads
from blocksvm.base.user_code import by_user
from blocksvm.cluster.executors import OnDask, SharedStore, configured, results
from blocksvm.sources.source import Source
from blocksvm.training.run import Watch
from blocksvm.validation.folds import Folds, folds_of
from blocksvm.validation.path import FIGURES, CrossValidation, PathTask, digest, follow_path, trains_on_numbers


@dataclass(frozen=True)
class FoldGroup:
    """A task: the problems of ``some`` folds of ``path``, whose settings have this group's share of the memory.

    source: rows in memory, or a store by its path; of_rows: the digest of the folds of all rows; threads: that train.
    """

    source: Source | SharedStore
    path: PathTask
    some: tuple[int, ...]
    of_rows: str
    threads: int


def train_group(group: FoldGroup, stop: Callable[[], bool] = lambda: False) -> CrossValidation:
    """The figures of a group's folds, wherever it is trained."""
    by_user(group.path.settings.solver, group.path.settings.method)  # who has started the task has named them
    shared = isinstance(group.source, SharedStore)
    with group.source.open() if shared else nullcontext(group.source) as source:
        folds = chosen_folds(source, group.path)
        if digest(folds) != group.of_rows:
            raise InputError(f"{group.path.groups}: is another file where a group of folds is trained")
        return follow_path(
            source, group.path, replace(folds, some=group.some), Threads(group.threads), Watch(stop=stop)
        )


def chosen_folds(source: Source, path: PathTask) -> Folds:
    """The fold of each row."""
    return folds_of(source, path.folds, path.settings.seed, path.groups, trains_on_numbers(path.settings))


def in_groups(source: Source, path: PathTask, n_groups: int, n_jobs: int | None, watch: Watch) -> CrossValidation:
    """Cross-validate by so many groups of folds; n_jobs: processors, as joblib counts them."""
    chosen, memory = chosen_folds(source, path), path.settings.memory
    place = configured(n_jobs, n_groups, source.in_memory)
    groups_file = None if path.groups is None else absolute_name(path.groups)
    own = replace(path, groups=groups_file, settings=replace(path.settings, memory=memory // n_groups))
    shared = source if source.in_memory else SharedStore(absolute_name(source.path), source.fingerprint)
    groups = [
        FoldGroup(shared, own, tuple(some.tolist()), digest(chosen), place.threads)
        for some in np.array_split(np.arange(path.folds), n_groups)
    ]
    if isinstance(place, OnDask) and isinstance(shared, SharedStore):
        place.require(shared, own.settings.memory, n_groups)
    whole = replace(CrossValidation.empty(path.path, chosen), status="interrupted", fold_groups=n_groups)
    found: dict[int, CrossValidation] = {}
    try:
        for number, result in results(place, train_group, groups, watch.stop):
            found[number] = result
            watch.on_event({"event": "groups", "done": len(found), "of": n_groups})
    except TooLittleMemory as error:
        needs = {name: n_groups * n_bytes for name, n_bytes in error.needs.items()}
        raise TooLittleMemory(memory, needs) from None
    if len(found) < n_groups or any(one.status == "interrupted" for one in found.values()):
        return whole
    for number, group in enumerate(groups):
        one = found[number]
        for name in FIGURES:
            getattr(whole, name)[:, group.some] = getattr(one, name)[:, group.some]
        whole.parts += one.parts
        whole.readings += one.readings
        whole.settings = one.settings | {"memory": memory}
    whole.status = next((one.status for one in found.values() if one.status != "converged"), "converged")
    return whole
