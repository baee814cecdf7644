"""The whole state of a structured learner in a file, from which a killed run goes on with nothing lost.

The state is saved between the visits of two blocks.  Examples are not part of it: they are made again from the same
text.

/arrays/NAME              one array, in pieces under checksums
/chunks/KIND/NUMBER/NAME  the arrays of a chunk of examples
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.objects.remote_path import place
from blocksvm.base.settings import plain
from blocksvm.formats.file_reader import fingerprint_of
from blocksvm.model.versions import versions
from blocksvm.store.arrays import read_arrays, write_arrays
from blocksvm.store.creation import create_hdf5
from blocksvm.store.hdf5_files import create_group, damage_named, group, open_hdf5, read_meta, write_meta
from blocksvm.structured.example_blocks import ExampleBlocks
from blocksvm.structured.structured_learner import Machine, Report
from blocksvm.structured.structured_run import StructuredProgress

KIND = "structure-checkpoint"
LIMITS = ("epochs", "tol")  # may change when a run is resumed


def fingerprint_of_text(names: Sequence[str]) -> str:
    """A hash of the files that a run learns from; InputError where one is not a file."""
    for name in names:
        if not place(name).is_file():
            raise InputError(
                f"{name}: {option('checkpoint')} needs a file to learn from, which a resumed run reads again"
            )
    return fingerprint_of(*names)


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
                "plan_lengths": np.array([len(block) for block in progress.plan], np.int64),
            }
        position = {"epoch": progress.epoch, "visit": progress.visit, "seconds": progress.seconds}
        meta = {
            "settings": plain(self.settings),
            "fingerprint": self.fingerprint,
            "progress": position | {"report": vars(progress.report)},
            "machine": machine.scalars(),
            "versions": versions(),
        }
        with create_hdf5(self.path, KIND) as file:
            write_arrays(create_group(file, "arrays"), arrays)
            kinds = create_group(file, "chunks")
            for kind, number, chunk_arrays in machine.chunks():
                if kind not in kinds:
                    create_group(file, f"chunks/{kind}")
                write_arrays(create_group(file, f"chunks/{kind}/{number}"), chunk_arrays)
            write_meta(file, meta)
        self.last_saved = time.perf_counter()

    def restore(self, machine: Machine) -> StructuredProgress:
        """Fill the machine with the saved state, if there is one; returns how far the run had come."""
        if not self.resumed:
            return StructuredProgress()
        with open_hdf5(self.path, KIND) as file, damage_named(file):
            meta, arrays = read_meta(file), read_arrays(group(file, "arrays"))
        self._compare(meta)
        for name, array in machine.arrays().items():
            if name not in arrays or arrays[name].dtype != array.dtype or len(arrays[name]) != len(array):
                raise self._of_another(f"holds no {name} of {len(array):,} numbers")
        progress = self._progress(meta["progress"], arrays)
        for kind, number, chunk_arrays in saved_chunks(self.path):
            if number >= len(self.blocks.counts):
                raise self._of_another(f"has a chunk {number} of examples")
            try:
                machine.restore_chunk(kind, number, chunk_arrays)
            except (KeyError, ValueError, IndexError) as error:
                raise self._of_another(f"chunk {number} {error}") from None
        try:
            machine.restore(meta["machine"], arrays)
        except (KeyError, ValueError, TypeError) as error:
            raise self._of_another(f"has no state of this learner ({error})") from None
        return progress

    def _progress(self, saved: dict, arrays: dict[str, np.ndarray]) -> StructuredProgress:
        plan = None
        if "plan" in arrays:
            chunks, lengths = arrays.pop("plan"), arrays.pop("plan_lengths")
            n = len(self.blocks.counts)
            if not np.array_equal(np.sort(chunks), np.arange(n)) or lengths.sum() != n or lengths.min() < 1:
                raise self._of_another(f"its blocks are not of {n} chunks")
            plan = np.split(chunks, np.cumsum(lengths)[:-1])
        try:
            report = Report(**saved["report"])
        except TypeError:
            raise self._of_another("has another report") from None
        return StructuredProgress(saved["epoch"], plan, saved["visit"], report, saved["seconds"])

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


def saved_chunks(path: Path) -> Iterator[tuple[str, int, dict[str, np.ndarray]]]:
    """(kind, number, arrays) of each chunk in a checkpoint; InputError where it is damaged."""
    with open_hdf5(path, KIND) as file, damage_named(file):
        chunks = group(file, "chunks")
        for kind in chunks:
            numbers = group(chunks, kind)
            for number in numbers:
                if not number.isdecimal():
                    raise InputError(f"{path}: is damaged ({number} is no chunk); start afresh")
                yield kind, int(number), read_arrays(group(numbers, number))


def verify_structured_checkpoint(path: Path) -> None:
    """Read everything against its checksums; InputError names what is damaged."""
    with open_hdf5(path, KIND) as file, damage_named(file):
        read_meta(file)
        read_arrays(group(file, "arrays"))
    for _ in saved_chunks(path):
        pass
