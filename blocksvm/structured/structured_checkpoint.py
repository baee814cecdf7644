"""A structured learner's whole state in a file and back, so that a run can be killed and go on with nothing lost.

It is saved between the visits of two blocks.  Examples are no part of it: they are made of the text again, which must
be the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from xxhash import xxh3_128

from blocksvm.base.errors import InputError, option
from blocksvm.base.inputs import open_input
from blocksvm.base.settings import plain
from blocksvm.model.structured_state import SavedStructured, save_structured_checkpoint
from blocksvm.model.versions import versions
from blocksvm.structured.example_blocks import ExampleBlocks
from blocksvm.structured.structured_learner import Machine, Report
from blocksvm.structured.structured_run import StructuredProgress

LIMITS = ("epochs", "tol")  # may change when a run is resumed
PIECE = 1 << 22


def fingerprint_of(names: Iterable[str]) -> str:
    """Of the bytes of some files, one behind the other."""
    digest = xxh3_128()
    for name in names:
        if not Path(name).is_file():
            raise InputError(
                f"{name}: {option('checkpoint')} needs a file to learn from, which a resumed run reads again"
            )
        with open_input(name) as file:
            while piece := file.read(PIECE):
                digest.update(piece)
    return digest.hexdigest()


@dataclass
class StructuredCheckpoint:
    """The file of a run's state, written when it is due: every ``seconds``.  settings: all of the run; fingerprint: of
    the text; resumed: whether there is a state to go on from."""

    path: Path
    blocks: ExampleBlocks
    settings: dict
    fingerprint: str
    resumed: bool
    seconds: float = 600.0
    last_saved: float = field(default_factory=time.perf_counter)

    def due(self) -> bool:
        return time.perf_counter() - self.last_saved > self.seconds

    def save(self, machine: Machine, progress: StructuredProgress) -> None:
        arrays = machine.arrays()
        if progress.plan is not None:
            arrays = arrays | {
                "plan": np.concatenate(progress.plan),
                "plan_lengths": np.array([len(own) for own in progress.plan], np.int64),
            }
        told = {"epoch": progress.epoch, "visit": progress.visit, "seconds": progress.seconds}
        meta = {
            "settings": plain(self.settings),
            "fingerprint": self.fingerprint,
            "progress": told | {"report": vars(progress.report)},
            "machine": machine.told(),
            "versions": versions(),
        }
        save_structured_checkpoint(self.path, meta, arrays, machine.chunks())
        self.last_saved = time.perf_counter()

    def restore(self, machine: Machine) -> StructuredProgress:
        """Give the machine the state that was saved, if there is one; how far it had come."""
        if not self.resumed:
            return StructuredProgress()
        saved = SavedStructured(self.path)
        self._compare(saved.meta)
        arrays = saved.arrays()
        for name, own in machine.arrays().items():
            if name not in arrays or arrays[name].dtype != own.dtype or len(arrays[name]) != len(own):
                raise self._of_another(f"holds no {name} of {len(own):,} numbers")
        progress = self._progress(saved.meta["progress"], arrays)
        for kind, number, own in saved.chunks():
            if number >= len(self.blocks.counts):
                raise self._of_another(f"has a chunk {number} of examples")
            try:
                machine.restore_chunk(kind, number, own)
            except (KeyError, ValueError, IndexError) as error:
                raise self._of_another(f"chunk {number} {error}") from None
        try:
            machine.restore(saved.meta["machine"], arrays)
        except (KeyError, ValueError, TypeError) as error:
            raise self._of_another(f"has no state of this learner ({error})") from None
        return progress

    def _progress(self, told: dict, arrays: dict[str, np.ndarray]) -> StructuredProgress:
        plan = None
        if "plan" in arrays:
            chunks, lengths = arrays.pop("plan"), arrays.pop("plan_lengths")
            n = len(self.blocks.counts)
            if not np.array_equal(np.sort(chunks), np.arange(n)) or lengths.sum() != n or lengths.min() < 1:
                raise self._of_another(f"its blocks are not of {n} chunks")
            plan = np.split(chunks, np.cumsum(lengths)[:-1])
        try:
            report = Report(**told["report"])
        except TypeError:
            raise self._of_another("has another report") from None
        return StructuredProgress(told["epoch"], plan, told["visit"], report, told["seconds"])

    def _compare(self, meta: dict) -> None:
        """InputError where the run was begun otherwise, or with another text."""
        if meta["fingerprint"] != self.fingerprint:
            raise InputError(
                f"{self.path}: belongs to a run on another text; give that one, or start afresh without "
                f"{option('resume', True)}"
            )
        ours, theirs = plain(self.settings), meta["settings"]
        for name in ours:
            if name not in LIMITS and theirs.get(name) != ours[name]:
                raise InputError(
                    f"{self.path}: its run was begun with {option(name)} {theirs.get(name)}, not {ours[name]}; say the "
                    f"same again, or start afresh without {option('resume', True)}"
                )

    def _of_another(self, what: str) -> InputError:
        return InputError(
            f"{self.path}: {what}, as no run on this text has; start afresh without {option('resume', True)}"
        )
