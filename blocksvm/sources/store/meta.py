"""The descriptions of our files as JSON: which keys each kind of file has, and of what type each is.

A description is validated whole when it is read, so that whoever uses it need not ask again.  Keys that are not named
here are passed on as they are.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass

from blocksvm.labels import KINDS, NUMBERS


@dataclass(frozen=True)
class Kind:
    """A type of value: ``what`` it is in words, and whether a value ``holds`` it.  needed: the key must be there."""

    what: str
    holds: Callable[[object], bool]
    needed: bool = True

    def fault(self, value, name: str) -> str | None:
        """What is wrong with a value, or None."""
        return None if self.holds(value) else f"its {name} is not {self.what}"


@dataclass(frozen=True)
class Record:
    """An object with these keys, and maybe others."""

    keys: dict
    needed: bool = True

    def fault(self, value, name: str) -> str | None:
        if not isinstance(value, dict):
            return f"its {name} is not an object"
        for key, kind in self.keys.items():
            inner = key if name == "description" else f"{name}.{key}"
            if key not in value:
                if kind.needed:
                    return f"its {name} has no {key}"
            elif fault := kind.fault(value[key], inner):
                return fault
        return None


def _is_number(value) -> bool:
    return type(value) in (int, float) and abs(value) < 1.8e308 and math.isfinite(value)


def _is_whole(value) -> bool:
    return type(value) is int and 0 <= value < 2**64


def _is_label(value) -> bool:
    members = value if isinstance(value, list) else [value]
    return all(_is_number(member) or isinstance(member, str) for member in members)


def _is_text(value) -> bool:
    return isinstance(value, str)


def list_of(kind: Kind, least: int = 0) -> Kind:
    return Kind(
        f"a list of which each is {kind.what}",
        lambda value: isinstance(value, list) and len(value) >= least and all(map(kind.holds, value)),
    )


def one_of(*choices) -> Kind:
    return Kind(f"one of {', '.join(map(str, choices))}", lambda value: value in choices and type(value) is str)


def or_none(kind: Kind | Record):
    """A value of the kind, or null."""
    if isinstance(kind, Record):
        return Kind("an object of the right keys, or null", lambda v: v is None or kind.fault(v, "") is None)
    return Kind(f"{kind.what}, or null", lambda value: value is None or kind.holds(value))


def maybe(kind):
    """A key that may be missing."""
    return Record(kind.keys, False) if isinstance(kind, Record) else Kind(kind.what, kind.holds, False)


WHOLE = Kind("a whole number of 0 or more", _is_whole)
SIZE = Kind("a whole number of 0 or more", lambda value: _is_whole(value) and value < 2**62)
COUNT = Kind("a whole number of 1 or more", lambda value: _is_whole(value) and 1 <= value < 2**62)
NUMBER = Kind("a number", _is_number)
TEXT = Kind("text", _is_text)
YES = Kind("true or false", lambda value: isinstance(value, bool))
VALUES = one_of("ones", "float32", "float64")
OBJECT = Record({})
LABEL = Kind("a number or text", lambda value: _is_number(value) or isinstance(value, str))


def _is_labels(value) -> bool:
    """Labels (of a model): two or more of one kind, rising; or none, where its targets are real numbers."""
    if not (isinstance(value, list) and len(value) != 1 and all(map(LABEL.holds, value))):
        return False
    if not value:
        return True
    return len({isinstance(label, str) for label in value}) == 1 and _rising(value)


def _is_counts(value) -> bool:
    """Labels with their rows (of a store): each of one kind, rising."""
    entries = isinstance(value, list) and all(
        isinstance(entry, list) and len(entry) == 2 and _is_label(entry[0]) and _is_whole(entry[1]) for entry in value
    )
    return entries and len({type(entry[0]) in (int, float) for entry in value}) <= 1 and _rising([e[0] for e in value])


def _rising(values: list) -> bool:
    try:
        return all(a < b for a, b in zip(values[:-1], values[1:], strict=True))
    except TypeError:
        return False


CERTIFICATE = Record(
    {name: or_none(NUMBER) for name in ("primal", "dual", "rel_gap", "accuracy")}
    | {
        "rmse": maybe(or_none(NUMBER)),
        "alpha_factors": maybe(or_none(list_of(NUMBER, 2))),
        "by_class": maybe(or_none(Record({"rel_gap": list_of(or_none(NUMBER))}))),
    }
)
COST = Kind(
    "a list of numbers, or one such list a class",
    lambda v: list_of(NUMBER, 1).holds(v) or list_of(list_of(NUMBER, 2), 1).holds(v),
)


def _is_calibration(value) -> bool:
    """A sigmoid's two numbers, or a function's corners, rising."""
    if not isinstance(value, dict):
        return False
    if value.get("kind") == "platt":
        return NUMBER.holds(value.get("slope")) and NUMBER.holds(value.get("intercept"))
    corners, heights = value.get("values"), value.get("probabilities")
    numbers = list_of(NUMBER, 1)
    whole = value.get("kind") == "isotonic" and numbers.holds(corners) and numbers.holds(heights)
    return whole and len(corners) == len(heights) and all(a <= b for a, b in zip(corners, corners[1:], strict=False))


CALIBRATION = Kind("a calibration", _is_calibration)

KERNEL = Record(
    {"name": one_of("linear", "polynomial", "rbf"), "gamma": NUMBER, "coef0": NUMBER, "degree": COUNT}
    | {"n_support": SIZE, "n_nonzeros": SIZE}
)

STORE = Record(
    {
        "n_samples": COUNT,
        "n_features": SIZE,
        "n_nonzeros": SIZE,
        "n_chunks": COUNT,
        "n_parts": SIZE,
        "chunk_nonzeros": Kind("a whole number from 1 to 2**28", lambda v: _is_whole(v) and 1 <= v <= 2**28),
        "values": VALUES,
        "max_norm": NUMBER,
        "labels": or_none(Kind("a rising list of labels with their rows", _is_counts)),
        "label_kind": maybe(one_of(*KINDS)),
        "n_labels": maybe(SIZE),
        "n_unlabelled": maybe(SIZE),
        "weighted": maybe(YES),
        "total_weight": maybe(NUMBER),
        "label_weights": maybe(or_none(list_of(NUMBER))),
        "named": maybe(YES),
        "idf_fingerprint": maybe(TEXT),
        "idf_from": maybe(TEXT),
        "codec": TEXT,
        "chunks_checksum": WHOLE,
        "parts_checksum": WHOLE,
        "fingerprint": TEXT,
        "recipe": maybe(OBJECT),
        "settings": Record({"order": one_of("stored", "shuffled"), "normalize": maybe(TEXT)}),
        "sources": list_of(Kind("an object with a name and text_bytes", lambda v: SOURCE.fault(v, "") is None)),
        "source_rows": SIZE,
        "history": maybe(list_of(Kind("a step with fingerprint and rows", lambda v: STEP.fault(v, "") is None))),
    }
)
SOURCE = Record({"name": TEXT, "text_bytes": SIZE, "first_row": maybe(SIZE)})
STEP = Record({"fingerprint": TEXT, "n_samples": COUNT, "n_dropped": SIZE})

METHOD = Record({"name": TEXT, "learner": YES, "settings": Record({"loss": maybe(or_none(TEXT))})})
SETTINGS = Record({"bias": maybe(Kind("a number or free", lambda v: v is None or v == "free" or _is_number(v)))})


def _is_arrays(value) -> bool:
    """{name space: {array: [dtype, length]}}"""
    spaces = isinstance(value, dict) and all(isinstance(arrays, dict) for arrays in value.values())
    return spaces and all(
        isinstance(entry, list) and len(entry) == 2 and entry[0] in DTYPES and SIZE.holds(entry[1])
        for arrays in value.values()
        for entry in arrays.values()
    )


DTYPES = ("|u1", "|i1", "|b1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
ARRAYS = Kind("arrays with their types and lengths", _is_arrays)

MODEL = Record(
    {
        "n_features": SIZE,
        "copies": maybe(COUNT),
        "n_vectors": maybe(COUNT),
        "method": maybe(METHOD),
        "bias": NUMBER,
        "bits": maybe(or_none(Kind("a whole number from 1 to 31", lambda v: _is_whole(v) and 1 <= v <= 31))),
        "n_samples": SIZE,
        "fingerprint": or_none(TEXT),
        "store": TEXT,
        "settings": SETTINGS,
        "cost": maybe(or_none(COST)),
        "labels": Kind("a rising list of two or more labels, or of none", _is_labels),
        "multilabel": maybe(YES),
        "calibration": maybe(or_none(CALIBRATION)),
        "kernel": maybe(or_none(KERNEL)),
        "prior": or_none(TEXT),
        "prior_fingerprint": or_none(TEXT),
        "text": Record({"normalize": TEXT, "duplicates": TEXT, "dtype": one_of("float32", "float64")}),
        "idf_fingerprint": maybe(or_none(TEXT)),
        "values": VALUES,
        "certificate": or_none(CERTIFICATE),
        "status": TEXT,
        "outer": SIZE,
        "seconds": NUMBER,
        "passes": list_of(SIZE),
        "set_passes": maybe(list_of(SIZE)),
        "versions": OBJECT,
    }
)

CHECKPOINT = Record(
    {
        "n_features": SIZE,
        "fingerprint": TEXT,
        "settings": SETTINGS,
        "cost": or_none(COST),
        "method": maybe(METHOD),
        "partition": Record({"resident": YES, "capacity": SIZE, "set_bytes": maybe(or_none(SIZE))}),
        "replay": or_none(list_of(SIZE)),
        "set_replay": maybe(or_none(list_of(SIZE))),
        "earlier": list_of(or_none(TEXT)),
        "arrays": ARRAYS,
        "progress": Record(
            {
                "outer": COUNT,
                "visit": SIZE,
                "closed": YES,
                "told": YES,
                "passes": list_of(SIZE),
                "set_passes": list_of(SIZE),
                "estimates": list_of(or_none(NUMBER)),
                "policy": Record({"ratio": Record({"rows": NUMBER, "set": NUMBER}), "work": NUMBER}),
                "certificate": or_none(CERTIFICATE),
                "outers_before": SIZE,
                "seconds_before": NUMBER,
            }
        ),
        "shown": OBJECT,
        "versions": OBJECT,
        "path": maybe(
            Record(
                {
                    "path": list_of(NUMBER),
                    "folds": COUNT,
                    "at_once": COUNT,
                    "of_rows": TEXT,
                    "part": list_of(NUMBER),
                    "done": SIZE,
                    "figures": or_none(OBJECT),
                    "readings": list_of(NUMBER),
                    "seconds": NUMBER,
                    "C": maybe(NUMBER),
                }
            )
        ),
    }
)

# a model of outputs with structure
STRUCTURE = Record(
    {
        "task": TEXT,
        "learner": TEXT,
        "settings": OBJECT,
        "n_features": COUNT,
        "n_weights": COUNT,
        "n_words": SIZE,
        "n_columns": SIZE,
        "labels": list_of(TEXT),
        "template": TEXT,
        "certificate": or_none(Record({"primal": NUMBER, "dual": NUMBER, "rel_gap": NUMBER})),
        "trained_on": TEXT,
        "epochs": SIZE,
        "seconds": NUMBER,
        "versions": OBJECT,
    }
)

# a run of a structured learner
STRUCTURE_CHECKPOINT = Record(
    {
        "settings": OBJECT,
        "fingerprint": TEXT,
        "progress": Record({"epoch": SIZE, "visit": SIZE, "report": OBJECT, "seconds": NUMBER}),
        "machine": OBJECT,
        "versions": OBJECT,
    }
)

SCHEMAS = {
    "store": STORE,
    "model": MODEL,
    "checkpoint": CHECKPOINT,
    "structure": STRUCTURE,
    "structure-checkpoint": STRUCTURE_CHECKPOINT,
}


def parse(text: bytes, kind: str) -> dict:
    """The description of a file of this kind; ValueError, with what is wrong, where it is not one."""
    try:
        meta = json.loads(text, parse_constant=_no_number)
    except RecursionError:
        raise ValueError("its description is nested too deeply") from None
    more = {"store": _store_fault, "model": _model_fault}.get(kind, lambda meta: None)
    if fault := SCHEMAS[kind].fault(meta, "description") or more(meta):
        raise ValueError(fault)
    return meta


def _no_number(text: str):
    raise ValueError(f"its description holds {text}, which is no number")


def _model_fault(meta: dict) -> str | None:
    """A model of version 1 has its method among its settings, one of version 2 beside them."""
    of_one = "copies" in meta and "solver" in meta["settings"]
    of_two = "n_vectors" in meta and "method" in meta
    if not (of_one or of_two):
        return "its description names no method"
    n = meta["n_vectors"] if of_two else meta["copies"]
    return None if n in (1, len(meta["labels"])) else "it has not one vector of weights for each of its labels"


def _store_fault(meta: dict) -> str | None:
    """What must agree among the keys of a store's description."""
    kind = meta.get("label_kind", NUMBERS)
    labels = meta["labels"]
    found = {NUMBERS: (int, float), "strings": (str,), "sets": (list,)}[kind]
    if labels is not None and not all(type(label) in found for label, _ in labels):
        return f"its labels are not {kind}"
    if labels is not None and kind != NUMBERS and len(labels) != meta.get("n_labels"):
        return "its labels are not as many as its n_labels"
    if meta.get("weighted", False) != ("total_weight" in meta):
        return "its weighted and its total_weight disagree"
    weights = meta.get("label_weights")
    if weights is not None and (labels is None or len(weights) != len(labels)):
        return "its label_weights are not as many as its labels"
    if labels is not None and sum(rows for _, rows in labels) + meta.get("n_unlabelled", 0) != meta["n_samples"]:
        return "its labels are not of as many rows as it has"
    if meta["n_samples"] > meta["source_rows"]:
        return "it has more rows than its source"
    left = 0
    for step in [*meta.get("history", ()), {"n_samples": meta["n_samples"], "n_dropped": 0}]:
        if not step["n_dropped"] <= step["n_samples"] >= left:
            return "its history does not lead to the rows that it has"
        left = step["n_samples"] - step["n_dropped"]
    return None
