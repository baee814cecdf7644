"""A run's whole state in a file and back, so that it can be killed and go on with nothing lost."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from blocksvm.errors import InputError
from blocksvm.model.state import VISIT, SavedState, open_state, save_checkpoint
from blocksvm.model.versions import versions
from blocksvm.solvers.protocol import State
from blocksvm.training.plan import Plan
from blocksvm.training.record import Progress

WORKING_SET = "working-set"  # the name space of what it had
ARRAY_TYPES = tuple(np.dtype(one).str for one in "?bBhHiIqQfd")


class Checkpoint:
    """The file of a run's state, written when it is due: every ``seconds``."""

    def __init__(self, path: Path, seconds: float = 600.0):
        self.path = path
        self.seconds = seconds
        self.last_saved = time.perf_counter()
        self.besides: Callable[[], tuple[dict[str, State], dict]] = lambda: ({}, {})  # arrays and description of more

    def is_due(self) -> bool:
        return time.perf_counter() - self.last_saved > self.seconds

    def save(
        self,
        plan: Plan,
        state: State,
        progress: dict,
        visit: State | None,
        working_set: State | None,
    ) -> None:
        """Write the state, the progress, the arrays of the visit under way (None: between visits), and which rows the
        working set has (None: there is none)."""
        more = {WORKING_SET: working_set, VISIT: visit}
        besides, told = self.besides()
        spaces = {plan.namespace: state} | {name: own for name, own in more.items() if own is not None} | besides
        save_checkpoint(self.path, spaces, plan.describe() | {"progress": progress, "versions": versions()} | told)
        self.last_saved = time.perf_counter()

    def restore(self, plan: Plan, state: State) -> tuple[Progress, State | None]:
        """Fill ``state``; (progress, arrays of the visit under way or None)."""
        saved = open_state(self.path)
        described = saved.meta["arrays"]
        for name, array in state.items():
            if described.get(plan.namespace, {}).get(name) != [array.dtype.str, array.size]:
                raise InputError(f"{self.path}: holds no {name} of {array.size} numbers; it belongs to another run")
            saved.load(plan.namespace, name, array)
        try:
            progress = Progress.restored(saved.meta["progress"])
        except TypeError as error:
            raise InputError(f"{self.path}: its progress is of another kind ({error}); start afresh") from error
        return progress, self._arrays(saved, VISIT)

    def arrays(self, space: str) -> State:
        """What the working set had."""
        found = self._arrays(open_state(self.path), space)
        if found is None:
            raise InputError(f"{self.path}: holds no {space}; it belongs to another run")
        return found

    @staticmethod
    def _arrays(saved: SavedState, space: str) -> State | None:
        described = saved.meta["arrays"].get(space)
        if described is None:
            return None
        found = {}
        for name, (dtype, length) in described.items():
            if saved.lengths.get(space, {}).get(name) != length or dtype not in ARRAY_TYPES:
                raise InputError(f"{saved.path}: holds no {name} of {length} numbers; it is damaged, start afresh")
            found[name] = np.empty(length, dtype)
            saved.load(space, name, found[name])
        return found
