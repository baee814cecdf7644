"""Precision, recall and F1 of predicted outputs; chunks by the rules of CoNLL-2000."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

# (tag before, tag) of one type between which a chunk ends and another starts (conlleval of Tjong Kim Sang and Buchholz,
# CoNLL-2000)
BETWEEN = {("B", "B"), ("I", "B"), ("E", "E"), ("E", "I")}


@dataclass(frozen=True)
class Counts:
    """How many were right, were predicted, and are there."""

    right: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.right / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2.0 * self.precision * self.recall / total if total else 0.0


def parts_of(label: str) -> tuple[str, str]:
    """'B-NP' is ('B', 'NP'); a label without a hyphen has no type."""
    tag, hyphen, kind = label.partition("-")
    return (tag, kind) if hyphen else (label, "")


def starts_chunk(before: str, label: str) -> bool:
    """Whether a chunk starts at a token of this label after one of the label ``before``."""
    (old_tag, old_type), (tag, kind) = parts_of(before), parts_of(label)
    if tag in ("[", "]") or (old_tag, tag) in BETWEEN or (old_tag == "O" and tag in ("B", "I", "E")):
        return True
    return tag not in ("O", ".") and old_type != kind


def ends_chunk(before: str, label: str) -> bool:
    """Whether a chunk ends with the token of the label ``before``, followed by one of this label."""
    (old_tag, old_type), (tag, kind) = parts_of(before), parts_of(label)
    if old_tag in ("[", "]") or (old_tag, tag) in BETWEEN or (old_tag in ("B", "I", "E") and tag == "O"):
        return True
    return old_tag not in ("O", ".") and old_type != kind


def chunks_of(codes: np.ndarray, bounds: np.ndarray, labels: list[str]) -> np.ndarray:
    """(n, 3) int64: each chunk's first token, the one after its last, and its type (a place in the sorted types).

    codes (n_tokens,): places in ``labels``; bounds: as in ``ColumnText``.
    """
    types = sorted({parts_of(label)[1] for label in labels})
    known = [*labels, "O"]
    outside = len(labels)
    starts = np.array([[starts_chunk(a, b) for b in known] for a in known])
    ends = np.array([[ends_chunk(a, b) for b in known] for a in known])
    of_type = np.array([types.index(parts_of(label)[1]) if label in labels else -1 for label in known])
    n = len(codes)
    before = np.append(outside, codes)  # of each token, and of the end
    following = np.append(codes, outside)
    first = np.unique(bounds)
    first_token = first[first < n]
    begun = starts[before[:n], following[:n]]
    begun[first_token] = starts[outside, codes[first_token]]
    ended = ends[before, following]  # at place t: with token t - 1
    ended[first[first > 0]] = ends[codes[first[first > 0] - 1], outside]
    ended[0] = False
    begins = np.flatnonzero(begun)
    return np.stack([begins, np.flatnonzero(ended), of_type[codes[begins]]], axis=1).astype(np.int64)


def shared(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Rows that occur in both (n, k) arrays of distinct rows."""
    both, times = np.unique(np.concatenate([one, other]), axis=0, return_counts=True)
    return both[times == 2]


def chunk_counts(gold: np.ndarray, predicted: np.ndarray, bounds: np.ndarray, labels: list[str]) -> dict[str, Counts]:
    """Counts of chunks by type, in alphabetical order, and of all under ''; gold, predicted: places in ``labels``."""
    ours, theirs = (chunks_of(codes, bounds, labels) for codes in (predicted, gold))
    right = shared(ours, theirs)
    counts = {"": Counts(len(right), len(ours), len(theirs))}
    for number, kind in enumerate(sorted({parts_of(label)[1] for label in labels})):
        of_kind = Counts(*(int((rows[:, 2] == number).sum()) for rows in (right, ours, theirs)))
        if kind and of_kind.predicted + of_kind.gold:
            counts[kind] = of_kind
    return counts
