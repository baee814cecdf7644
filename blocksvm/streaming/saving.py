"""A stream's model: the file that training writes, made in pieces, so that a save takes little memory."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import numpy as np

from blocksvm.errors import InputError
from blocksvm.outer.versions import versions
from blocksvm.store.states import FLOAT64, save_model_pieces, whole
from blocksvm.streaming.stream import KNOWN_LABELS, Stream


def describe(stream: Stream) -> dict:
    """A model's description."""
    settings = stream.settings
    told = stream.report()
    labels = KNOWN_LABELS[0] if stream.labels is None else stream.labels.values
    given = asdict(settings.settings)
    online = {"learner": given, "average": settings.average, "multiclass": settings.multiclass, "query": settings.query}
    return {
        "n_features": stream.features.n_features,
        "copies": stream.machine.copies,
        "bias": stream.machine.bias,
        "bits": settings.bits,
        "n_samples": told.rows,
        "fingerprint": None,
        "store": "a stream",
        "settings": {"solver": settings.learner, "loss": "hinge", "C": 1.0, "lam": None, "bias": settings.bias,
                     "online": online, "memory": settings.memory, "seed": settings.seed},
        "labels": list(labels),
        "prior": None,
        "text": {"normalize": settings.normalize, "duplicates": "sum" if settings.sum_duplicates else "error",
                 "dtype": "float32"},
        "values": "float32",
        "certificate": None,
        "progress": {"rows": told.rows, "cumulative_loss": told.cumulative_loss, "mistakes": told.mistakes,
                     "asked": told.asked, "skipped": told.skipped},
        "status": "stream",
        "outer": 1,
        "seconds": told.seconds,
        "passes": [1],
        "versions": versions(),
    }  # fmt: skip


def save_stream(path: Path, stream: Stream) -> None:
    """Write the model file, whole or not at all; the learner's memory is in it, so that learning can go on."""
    if stream.rows == 0:
        raise InputError("nothing was learned; no model is written")
    machine, features, memory = stream.machine, stream.features, stream.features.memory
    n = features.n_features
    scalars = memory.scalars.reshape(machine.parts, -1)
    ids = features.ids()

    def weights(start: int, stop: int) -> np.ndarray:
        found = []
        for c, first, last in spans(start, stop, n + 1):
            columns = np.ascontiguousarray(features.columns(first, last, c)).ravel()
            out = np.empty(last - first)
            own = scalars[c : c + 1] if machine.parts > 1 else scalars
            machine.loops.read_weights(columns, machine.width, own, machine.parameters, machine.average, out)
            if len(memory.prior):
                out += features.prior_of(first, last, c)
            found.append(out)
        return np.concatenate(found)

    def columns(start: int, stop: int) -> np.ndarray:
        width = machine.width
        first, last = start // width, -(-stop // width)
        found = [features.columns(f, t, c) for c, f, t in spans(first, last, n + 1)]
        return np.concatenate(found).ravel()[start - first * width : stop - first * width]

    state = {
        "features": (machine.copies * (n + 1) * machine.width, FLOAT64, columns),
        "scalars": whole(memory.scalars),
        "tally": whole(memory.tally),
        "epochs": whole(np.array([0.0, -1.0, 1.0])),
    }
    save_model_pieces(
        path, lambda start, stop: ids[start:stop], (machine.copies * (n + 1), FLOAT64, weights), state, describe(stream)
    )


def spans(start: int, stop: int, length: int) -> list[tuple[int, int, int]]:
    """(class, first, last) of the parts of a range over class after class of ``length`` entries each."""
    found = []
    while start < stop:
        c = start // length
        last = min(stop, (c + 1) * length)
        found.append((c, start - c * length, last - c * length))
        start = last
    return found
