"""How far a cross-validation is along its path, in a checkpoint and back: beside the state of the run under way what
the parts before it have found, and their end, which the run was begun from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from xxhash import xxh3_128_hexdigest

from blocksvm.errors import InputError, said
from blocksvm.model.state import describe_checkpoint
from blocksvm.solvers.protocol import State
from blocksvm.training.saving import Checkpoint
from blocksvm.validation.folds import Folds

TOLD_AS, EARLIER = "path", "path-before"  # what a description, and the file, call them
TOLD = ("path", "folds", "at_once", "of_rows", "part", "done", "figures", "readings")


@dataclass
class PathState:
    """part: the values of C that are trained now, behind ``done`` of the path; earlier: the end of those before them,
    as ``HeldOutCD`` begins from it; figures: what was found, as ``Folded.described`` has it, None before the first part
    has ended; readings, seconds: of the part under way, before it was broken off."""

    path: list[float]
    folds: int
    at_once: int
    of_rows: str
    part: list[float] = field(default_factory=list)
    done: int = 0
    earlier: tuple | None = None
    figures: dict | None = None
    readings: list[float] = field(default_factory=list)
    seconds: Callable[[], float] = lambda: 0.0

    @classmethod
    def of(cls, path: list[float], folds: Folds, at_once: int) -> PathState:
        """That of a cross-validation that begins."""
        return cls(path, folds.count, at_once, xxh3_128_hexdigest(folds.of_rows))

    def saved(self) -> tuple[dict[str, State], dict]:
        """(arrays by name space, description) for a checkpoint."""
        told = {name: getattr(self, name) for name in TOLD}
        arrays = {}
        if self.earlier is not None:
            w, alpha, conjugates, C = self.earlier
            arrays[EARLIER] = {"w": w, "alpha": alpha, "conjugates": conjugates}
            told["C"] = C
        return arrays, {TOLD_AS: told | {"seconds": self.seconds()}}


class PathCheckpoint(Checkpoint):
    """The file of a cross-validation; resume: go on from it."""

    def __init__(self, path: Path, seconds: float = 600.0, resume: bool = False):
        super().__init__(path, seconds)
        self.resume = resume

    def begun(self, new: PathState) -> tuple[PathState, dict | None]:
        """(``new``, None), or where a cross-validation goes on how far it was, and the description of the run under
        way.  InputError where the file is of another one."""
        if not self.resume:
            return new, None
        meta = describe_checkpoint(self.path)
        told = meta.get(TOLD_AS)
        if told is None:
            raise InputError(f"{self.path}: is the checkpoint of one run of train, not of a cross-validation")
        for name in ("path", "folds", "at_once"):
            if told[name] != getattr(new, name):
                raise InputError(
                    f"{self.path}: was begun with {said(name, told[name])}, but {getattr(new, name)} is given now; "
                    "resume with the same, or start afresh"
                )
        if told["of_rows"] != new.of_rows:
            raise InputError(
                f"{self.path}: was begun with other folds of the rows, by another seed, store or file of groups; "
                "resume with the same, or start afresh"
            )
        earlier = None
        if "C" in told:
            arrays = self.arrays(EARLIER)
            n = len(arrays["conjugates"])
            earlier = (*(arrays[name].reshape(-1, n) for name in ("w", "alpha")), arrays["conjugates"], told["C"])
        kept = {name: told[name] for name in TOLD}
        return PathState(**kept, earlier=earlier, seconds=lambda: told["seconds"]), meta
