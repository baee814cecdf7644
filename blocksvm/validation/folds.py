"""The fold in which each row is held out: a keyed hash of the row's number in its input, or of its group.  A class that
this would spread unevenly is dealt out in equal parts; all others are left as they are drawn, which needs no order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.row_batch import shown_name
from blocksvm.formats.text.text_source import LineLimit, TextInputs
from blocksvm.kernels.shuffle import line_keys, row_keys
from blocksvm.sources.source import Source

MOST_FOLDS = 100
PIECE_BYTES = 1 << 18
LONGEST_LINE = 1 << 16  # bytes of a group's name
SALT = 0x5F01D5  # so that folds have nothing to do with the order of the store


@dataclass(frozen=True)
class Folds:
    """of_rows (n_samples,) uint8: the fold of each row, by its position in the source; count: how many folds."""

    of_rows: np.ndarray
    count: int


def folds_of(source: Source, count: int, seed: int, groups: str | None = None, real: bool = False) -> Folds:
    """Folds of a source's rows.  groups: a file with a line for each row of the source's input; rows of equal lines are
    held out together; real: labels are numbers.  InputError where the file has another number of lines."""
    of_rows, keys = np.empty(source.n_samples, np.uint8), np.empty(source.n_samples if groups is None else 0, np.uint64)
    classes = np.zeros(len(keys), np.int16)
    by_input = None if groups is None else _of_groups(groups, count, seed)
    wanted = getattr(getattr(source, "meta", None), "source_rows", source.n_samples)
    if by_input is not None and len(by_input) != wanted:
        raise InputError(
            f"{shown_name(groups)}: has {len(by_input):,} lines, and {source.name} was made of {wanted:,} rows; "
            f"{option('groups')} needs one a row"
        )
    for rows, numbers, labels, _ in _records(source):
        if by_input is not None:
            of_rows[rows] = by_input[numbers]
            continue
        row_keys(numbers, _keyed(seed), keys[rows])
        if not real and source.labels is not None:
            classes[rows] = labels + 1
    if by_input is None:
        of_rows[:] = keys % np.uint64(count)
        deal_evenly(of_rows, count, keys, classes)
    return Folds(of_rows, count)


def deal_evenly(of_rows: np.ndarray, count: int, keys: np.ndarray, classes: np.ndarray) -> None:
    """Deal out the rows of each class of which some fold has less than half of its share, in the order of their keys
    and beginning with the fold that has the fewest rows; classes (n,): whole numbers from 0 on."""
    counts = np.zeros((int(classes.max(initial=0)) + 1, count), np.int64)
    np.add.at(counts, (classes, of_rows), 1)
    uneven = np.flatnonzero(2 * count * counts.min(axis=1) < counts.sum(axis=1))
    sizes = counts.sum(axis=0) - counts[uneven].sum(axis=0)
    for code in uneven.tolist():
        rows = np.flatnonzero(classes == code)
        rows = rows[np.argsort(keys[rows], kind="stable")]
        of_rows[rows] = np.argsort(sizes, kind="stable")[np.arange(len(rows)) % count]
        sizes += np.bincount(of_rows[rows], minlength=count)


def codes_by_fold(folds: Folds, y: np.ndarray, k: int) -> np.ndarray:
    """(folds, k) int64: how many rows of each of k classes are in each fold; y (n_samples,) as blocks hold it."""
    labelled = y >= 0 if k > 2 else y != 0
    codes = (y[labelled] + 1) // 2 if k == 2 else y[labelled]
    counts = np.zeros((folds.count, k), np.int64)
    np.add.at(counts, (folds.of_rows[labelled], codes), 1)
    return counts


def targets_of(source: Source, real: bool) -> tuple[np.ndarray, np.ndarray | None]:
    """(y, weights) (n_samples,) of all rows, as blocks hold them; real: labels are numbers; weights: None where all
    are 1."""
    source = source.reader(real=True) if real else source
    y = np.empty(source.n_samples, source.coding.y_dtype)
    weights = np.empty(source.n_samples) if source.weighted else None
    for rows, _, labels, weight in _records(source):
        y[rows] = labels
        if weights is not None:
            weights[rows] = weight
    return y, weights


def _records(source: Source) -> Iterator[tuple[slice, np.ndarray, np.ndarray, np.ndarray | None]]:
    """(which rows, their numbers in the input, their y and weights), chunk by chunk; no entry of a row is read."""
    for chunk, (first, n) in enumerate(
        zip(source.chunks.first_row.tolist(), source.chunks.n_rows.tolist(), strict=True)
    ):
        rows = slice(first, first + n)
        if source.in_memory:
            yield rows, np.arange(first, first + n), source.y[rows], source.weights[rows] if source.weighted else None
        else:
            records = source.read_rows(chunk)
            weights = records["weight"] if source.weighted else None
            yield rows, records["source"].astype(np.int64), source.coding.y(records["label"]), weights


def _keyed(seed: int) -> np.uint64:
    return np.uint64((seed ^ SALT) % 2**64)


def _of_groups(name: str, count: int, seed: int) -> np.ndarray:
    """(lines,) uint8: the fold of each line's group."""
    parts = []
    for piece in TextInputs([name]).pieces(PIECE_BYTES, LineLimit(LONGEST_LINE, lambda n_bytes: 4 * n_bytes)):
        keys = np.empty(piece.end, np.uint64)
        n = line_keys(piece.text, piece.end, _keyed(seed), keys)
        parts.append((keys[:n] % np.uint64(count)).astype(np.uint8))
    return np.concatenate(parts) if parts else np.empty(0, np.uint8)
