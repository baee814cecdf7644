"""The state that a stream takes over from a model: a learner's whole state to go on with, or the weights of a prior."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import listed
from blocksvm.base.user_code import names_of
from blocksvm.conversion.feature_counts import BYTES_KNOWN
from blocksvm.conversion.feature_ids import IdIndex
from blocksvm.files.paths import Location
from blocksvm.formats import AUTO, get_format
from blocksvm.formats.choices import OF_INPUTS, OF_LINES, carried, merge_options
from blocksvm.formats.weighing import FeatureFactors
from blocksvm.model.model_file import FLOAT64, INT64, describe_model, factors_of_model, hashed, model_feature_ids
from blocksvm.model.solver_state import SavedState, continued_settings, open_state
from blocksvm.online import get_learner
from blocksvm.online.learner import COMMON_SETTINGS, NUMBERS
from blocksvm.online.solver import settings_of
from blocksvm.sources.source import Labels
from blocksvm.store.descriptions import ModelMeta
from blocksvm.streaming.stream_learner import StreamFeatures

if TYPE_CHECKING:
    from blocksvm.streaming.stream_pass import StreamPass, StreamSettings

PIECE_BYTES = 8 * 8 * (1 << 17)  # pieces of ids and weights as files have them, while they are put in place


def continued(path: Location, settings: StreamSettings) -> StreamSettings:
    """The settings of a model's learner, to go on with; InputError where other settings disagree with them."""
    saved = describe_model(path)
    method = saved.method
    if not method.learner:
        raise InputError(f"{path}: was trained by {method.name}, which is no online learner")
    if settings.learner not in ("", method.name):
        raise InputError(
            f"{path}: was learned by {method.name}, not by {settings.learner}; leave {option('learner')} out"
        )
    if method.settings.get("class_weight") == "balanced":
        raise InputError(
            f"{path}: was learned with {option('class_weight', 'balanced')}, which a stream does not take: how many "
            "rows of each class will come is not known"
        )
    with names_of(path):
        takes = settings_of(get_learner(method.name), method.settings) + COMMON_SETTINGS
        shared = {name: getattr(settings, name) or None for name in COMMON_SETTINGS.names()}
        resolved = continued_settings(path, method, takes, {**settings.settings, **shared})
        own = {name: value for name, value in resolved.items() if name not in COMMON_SETTINGS}
        common = {name: resolved.get(name, COMMON_SETTINGS[name].default) for name in COMMON_SETTINGS.names()}
        of_text = _format_of(path, saved, settings) | _weighing_of(path, saved, settings)
    bias = saved.constant if settings.bias is None else settings.bias
    bits = saved.text.bits if settings.bits is None else settings.bits
    return replace(settings, learner=method.name, settings=own, bias=bias, bits=bits, **of_text, **common)


def _format_of(path: Location, saved: ModelMeta, settings: StreamSettings) -> dict:
    """The format of a stream, and its settings, which are those of the model's text where that was of this format."""
    recipe, wanted = saved.text, {name: v for name, v in settings.options.items() if v is not None}
    format_ = recipe.format if settings.format == AUTO else settings.format
    known = carried(recipe.format, format_, recipe.options)
    if not known:
        return {}
    get_format(recipe.format)  # no other than the user has named
    for name, value in wanted.items():
        if value != recipe.options.get(name) and name not in OF_INPUTS + OF_LINES:
            raise InputError(
                f"{path}: was learned with {option(name, recipe.options.get(name))}; leave {option(name)} out"
            )
    return {"format": format_, "options": merge_options(known, wanted)}


def _weighing_of(path: Location, saved: ModelMeta, settings: StreamSettings) -> dict:
    """The settings that make values of the text as the model's were made."""
    recipe = saved.text
    if settings.normalize not in (None, recipe.normalize):
        other = option("normalize", settings.normalize)
        raise InputError(f"{path}: was learned with {option('normalize', recipe.normalize)}; leave {other} out")
    read = {"normalize": recipe.normalize, "duplicates": settings.duplicates or recipe.duplicates}
    if not recipe.factor:
        return read
    if recipe.bits is not None or settings.bits is not None:
        raise InputError(
            f"{path}: has the {recipe.factor} of hashed features, with which a stream does not go on; train again"
        )
    return read | {"idf": recipe.idf, "scale": recipe.scale}


def factors_to_go_on(path: Location | None, factor: str) -> FeatureFactors:
    if path is None:
        raise InputError(f"{option(factor)}: is counted before anything is learned; go on with a model that has one")
    ids = model_feature_ids(path)
    return factors_of_model(path, IdIndex(len(ids)).fill([(0, ids)]).find)


def check_continued_stream(path: Location, stream: StreamPass) -> Labels | None:
    """The labels of the model, None where they are numbers; InputError where it does not fit the stream."""
    saved, wanted, labels = describe_model(path), stream.settings.bits, stream.targets.labels
    if (bits := saved.text.bits) != wanted:
        theirs = "a table of ids" if bits is None else f"features hashed to {bits} bits"
        raise InputError(f"{path}: has {theirs}; leave {option('bits', wanted)} out")
    if labels is not None and list(labels.values) != saved.labels:
        raise InputError(
            f"{path}: has the labels {listed(saved.labels)}, other ones than the stream; leave {option('labels')} out"
        )
    return Labels(tuple(saved.labels)) if saved.labels else None


def feature_ids(saved: SavedState, path: Location, bits: int | None) -> Iterator[tuple[int, np.ndarray]]:
    """Pieces of a model's feature ids, each with its start; InputError where they are no positions of so many bits."""
    for start, ids in saved.pieces("", "ids", INT64):
        if bits is not None and len(ids) and not 0 <= ids.min() <= ids.max() < 1 << bits:
            raise InputError(f"{path}: has features that are no hashes of {bits} bits; it is damaged, make it again")
        yield start, ids


def go_on(path: Location, features: StreamFeatures, counts: bool) -> None:
    """Fill the new state of a stream's one learner from a model; counts: with its figures so far, which are none of a
    test's.  InputError where the file is damaged."""
    saved = open_state(path)
    if features.table is not None:
        for _, ids in feature_ids(saved, path, features.bits):
            features.indices(ids)
    (learner,) = features.learners
    runner, state, there = learner.runner, learner.state, saved.lengths.get(saved.namespace, {})
    numbers = runner.n_vectors * (features.n_features + 1) * runner.width
    for name, n in {"features": numbers, "scalars": len(state.scalars), "tally": len(state.tally)}.items():
        if there.get(name) != n:
            raise InputError(f"{path}: holds no {name} of {n} numbers; it is damaged, or not a learner's model")
    for start, piece in saved.pieces(saved.namespace, "features", FLOAT64):
        learner.put_back(start, piece, features.n_features)
    saved.load(saved.namespace, "scalars", state.scalars)
    if counts:
        saved.load(saved.namespace, "tally", state.tally)


def taken_over_bytes(prior: ModelMeta | None, factors: FeatureFactors | None) -> int:
    """Bytes of ``take_prior`` for a model of this description, if any, and of the factors of one that is continued."""
    of_prior = 0 if prior is None else 4 * prior.n_features + PIECE_BYTES
    return of_prior + (0 if factors is None else BYTES_KNOWN * len(factors.by_feature))


def take_prior(path: Location, described: ModelMeta, stream: StreamPass) -> None:
    """Fill in a prior model's weights, piece by piece; InputError where the model of this description does not fit."""
    theirs, ours = tuple(described.labels), stream.targets.known_classes()
    if theirs != (tuple(ours.values) if ours else ()):
        raise InputError(
            f"{path}: has {f'the labels {listed(theirs)}' if theirs else 'real targets'}, other ones than the stream; "
            f"give them by {option('labels') if theirs else option('targets', NUMBERS)}"
        )
    features, bits = stream.features, described.text.bits
    if bits is not None and bits != features.bits:
        raise InputError(f"{path}: has features hashed to {bits} bits; give {option('bits', bits)}")
    d, n_vectors = described.n_features, len(theirs) if len(theirs) > 2 else 1
    saved = open_state(path)
    for name, length in (("ids", d), ("weights", n_vectors * (d + 1))):
        if saved.lengths.get("", {}).get(name) != length:
            raise InputError(f"{path}: does not have {length} {name}; it is damaged, make it again")
    positions = np.empty(d, np.int32)
    for start, ids in feature_ids(saved, path, bits):
        hashes = ids if bits is not None else hashed(ids, features.bits)
        positions[start : start + len(ids)] = features.indices(hashes)
    for start, weights in saved.pieces("", "weights", FLOAT64):
        if not np.isfinite(weights).all():
            raise InputError(f"{path}: a weight is not a number; train the model again")
        c, j = np.divmod(np.arange(start, start + len(weights)), d + 1)  # class after class
        known = j < d
        intercepts = weights[~known] * described.bias
        for learner in features.learners:
            prior = learner.state.prior.reshape(learner.runner.n_vectors, -1)
            np.add.at(prior, (c[known], positions[j[known]]), weights[known])
            if not intercepts.any():
                continue
            if not learner.runner.bias:
                raise InputError(f"{path}: has an intercept, but there is no constant feature; give {option('bias')}")
            prior[c[~known], -1] = intercepts / learner.runner.bias
