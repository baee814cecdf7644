"""What a stream takes over from earlier models: a learner's whole memory to go on with, or a prior's weights."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from blocksvm.errors import InputError
from blocksvm.model.files import FLOAT64, INT64, Model, describe_model, load_state, saved_state, state_pieces
from blocksvm.model.takeover import check_continued, listed
from blocksvm.sources.source import Labels
from blocksvm.streaming.features import StreamMemory

if TYPE_CHECKING:
    from blocksvm.streaming.stream import Stream, StreamSettings


def check_continued_stream(path: Path, settings: StreamSettings, labels: Labels | None, prior: str | None) -> Labels:
    """The labels of a model with which a stream is to go on; InputError where it does not fit the settings or
    the prior (its fingerprint)."""
    saved = describe_model(path)
    check_continued(path, saved, settings.arithmetic(), prior)
    if saved.get("bits") != settings.bits:
        theirs = "a table of ids" if saved.get("bits") is None else f"features hashed to {saved['bits']} bits"
        mine = "without --bits" if settings.bits is None else f"with --bits {settings.bits}"
        raise InputError(f"{path}: has {theirs}, but learning would go on {mine}; continue with the same")
    if labels is not None and list(labels.values) != saved["labels"]:
        raise InputError(
            f"{path}: has the labels {listed(saved['labels'])}, other ones than the stream; leave --labels out"
        )
    return Labels(tuple(saved["labels"]))


def go_on(path: Path, features: StreamMemory) -> None:
    """Fill a stream's memory, which is new, with what a learner knew; raises InputError where the file is damaged."""
    if features.bits is None:
        for _, ids in state_pieces(path, "ids", INT64):
            features.places(ids)
    machine, memory = features.machine, features.memory
    lengths = {
        "features": machine.copies * (features.n_features + 1) * machine.width,
        "scalars": len(memory.scalars),
        "tally": len(memory.tally),
    }
    found = saved_state(path)[1]
    for name, length in lengths.items():
        if found.get(name) != length:
            raise InputError(f"{path}: holds no {name} of {length} numbers; it is damaged, or not a learner's model")
    for start, numbers in state_pieces(path, "features", FLOAT64):
        features.put_back(start, numbers)
    load_state(path, "scalars", memory.scalars)
    load_state(path, "tally", memory.tally)


def take_prior(model: Model, path: Path, stream: Stream) -> None:
    """Put a model's weights where the learner's own are added to them; InputError where they do not fit."""
    if tuple(model.labels) != tuple(stream.labels.values):
        raise InputError(
            f"{path}: has the labels {listed(model.labels)}, other ones than the stream; give them by --labels"
        )
    machine, features = stream.machine, stream.features
    intercepts = np.atleast_1d(model.intercept)
    if intercepts.any() and not machine.bias:
        raise InputError(f"{path}: has an intercept, but there is no constant feature; give --bias")
    bits = model.bits
    if bits is not None and bits != features.bits:
        raise InputError(f"{path}: has features hashed to {bits} bits; give --bits {bits}")
    places = model.feature_ids.astype(np.int32) if bits is not None else features.places(model.feature_ids)
    prior = features.memory.prior.reshape(machine.copies, -1)
    for own, weights, intercept in zip(prior, np.atleast_2d(model.weights), intercepts, strict=True):
        np.add.at(own, places, weights)
        own[-1] = intercept / machine.bias if intercept else 0.0
