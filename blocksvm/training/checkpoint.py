"""A run's whole state in a file and back, so that it can be killed and go on with nothing lost."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from blocksvm.errors import InputError
from blocksvm.model.files import load_checkpoint, save_checkpoint
from blocksvm.model.versions import versions
from blocksvm.sources.source import Source
from blocksvm.training.certificate import Attempts
from blocksvm.training.progress import Position, Progress, Tally
from blocksvm.training.settings import TrainSettings

VISIT = "visit."  # begins the names of arrays that belong to a visit under way


def save_run(path: Path, trainer, visit: dict[str, np.ndarray] | None, progress: dict) -> None:
    """Write a trainer's state, the arrays of the visit under way (None: between visits) and its progress."""
    arrays = dict(trainer.state)
    if visit is not None:
        arrays |= {VISIT + name: array for name, array in visit.items()}
    partition = trainer.partition
    meta = {
        "settings": trainer.settings.arithmetic(),
        "fingerprint": trainer.source.fingerprint,
        "n_features": trainer.source.n_features,
        "cost": trainer.problem.cost.tolist(),
        "partition": {"resident": partition.resident, "capacity": int(partition.capacity)},
        "replay": trainer.replay,
        "earlier": trainer.earlier.fingerprints,
        "progress": progress,
        "versions": versions(),
    }
    save_checkpoint(path, arrays, meta)


def restore_run(path: Path, saved: dict, state: dict[str, np.ndarray]) -> tuple[Progress, dict | None]:
    """Fill ``state``; (progress, arrays of the visit under way or None).  saved: the checkpoint's description."""
    fields = dict(saved["progress"])
    fields["position"] = Position(**fields["position"])
    fields["tally"] = Tally(**fields["tally"])
    fields["attempts"] = Attempts(**fields["attempts"])
    load_checkpoint(path, state)
    described = {name: entry for name, entry in saved["arrays"].items() if name.startswith(VISIT)}
    if not described:
        return Progress(**fields), None
    visit = {name: np.empty(length, np.dtype(dtype)) for name, (dtype, length) in described.items()}
    load_checkpoint(path, visit)
    return Progress(**fields), {name.removeprefix(VISIT): array for name, array in visit.items()}


def check_resume(meta: dict, settings: TrainSettings, source: Source, path: Path) -> None:
    """InputError, naming the setting, where a checkpoint belongs to another run."""
    if meta["fingerprint"] != source.fingerprint:
        raise InputError(f"{path}: belongs to another store than {source.name}; remove it or name the right one")
    ours = settings.arithmetic()
    for name, value in meta["settings"].items():
        if ours.get(name) != value:
            option = {"C": "-C", "lam": "--lambda"}.get(name, "--" + name.replace("_", "-"))
            raise InputError(
                f"{path}: was begun with {option} {value}, but {ours.get(name)} is given now; "
                "resume with the same, or start afresh without --resume"
            )
