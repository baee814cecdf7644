"""The features of tokens, arcs or words as places among the weights, in training and in prediction."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.conversion.feature_ids import IdIndex, IdTable


def collected(
    n_rows: int, groups: Sequence[int], ids_of: Callable[[int], np.ndarray], min_count: int, budget: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Features (n_rows, n_templates) int32, -1 where one is left out, and of each group of templates the ids (d,) int64
    of those that are not, by whose places they are numbered.

    groups: how many templates each has; ids_of(t): the ids (n_rows,) of template t, -1 for none; features that occur
    fewer than ``min_count`` times are left out.  The most frequent ones come first, so that the weights in use lie
    together.  Raises InputError where the ids do not fit in ``budget`` bytes, or where none is left.
    """
    n_templates = sum(groups)
    # the ids' own table, and about twice as much to put them in order; 40 bytes a row for one template at a time
    left = budget - n_rows * (4 * n_templates + 40)
    if left <= 0:
        raise InputError(
            f"the features of {n_rows:,} places by {n_templates} templates take {-(left - budget) / 1e6:,.2f} MB, more "
            f"than {option('memory')} leaves; raise it, or give fewer templates"
        )
    tables = id_tables(groups, left)
    features = add_features(tables, groups, n_rows, ids_of)
    feature_ids, places = zip(*(numbered(table, min_count) for table in tables), strict=True)
    renumber(features, groups, places)
    return features, list(feature_ids)


def id_tables(groups: Sequence[int], budget: int) -> list[IdTable]:
    """A table of ids for each group of templates; putting them in order takes about twice their memory besides."""
    return [IdTable(budget // (3 * len(groups))) for _ in groups]


def add_features(
    tables: Sequence[IdTable], groups: Sequence[int], n_rows: int, ids_of: Callable[[int], np.ndarray]
) -> np.ndarray:
    """Features (n_rows, n_templates) int32 as places in the group's table of ids, which takes new ones in; -1 for
    none."""
    features = np.empty((n_rows, sum(groups)), np.int32)
    for t, table in enumerate(table for table, n in zip(tables, groups, strict=True) for _ in range(n)):
        ids = ids_of(t)
        there = ids >= 0
        features[~there, t] = -1
        features[there, t] = table.add(np.ascontiguousarray(ids[there]))
    return features


def renumber(features: np.ndarray, groups: Sequence[int], places: Sequence[np.ndarray]) -> None:
    """Replace the places of features in their tables by the numbers in ``places``, in place."""
    for t, numbers in enumerate(numbers for numbers, n in zip(places, groups, strict=True) for _ in range(n)):
        features[:, t] = numbers[features[:, t]]


def numbered(known: IdTable, min_count: int) -> tuple[np.ndarray, np.ndarray]:
    """(ids (d,) of those that occur ``min_count`` times, the most frequent first; the number (n + 1,) int32 of each
    place in the table, -1 for others and at the end).  InputError where none is left."""
    order, numbers = known.ranking(min_count)
    if not len(order):
        raise InputError(f"no feature occurs {min_count} times; lower the count")
    return known.known[order], np.append(numbers, np.int32(-1))


def known_features(
    n_rows: int, groups: Sequence[int], ids_of: Callable[[int], np.ndarray], known: Sequence[np.ndarray]
) -> np.ndarray:
    """Features (n_rows, n_templates) int32 as places among the ids ``known`` of each group, -1 for others."""
    features = np.empty((n_rows, sum(groups)), np.int32)
    first = 0
    for n, ids in zip(groups, known, strict=True):
        index = IdIndex(len(ids)).fill([(0, ids)])
        for t in range(first, first + n):
            features[:, t] = index.find(ids_of(t))
        first += n
    return features
