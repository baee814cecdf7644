"""The features of tokens, arcs or words as places among the weights, in training and in prediction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.conversion.feature_ids import IdIndex, IdTable


def collected(
    n_rows: int, n_templates: int, ids_of: Callable[[int], np.ndarray], min_count: int, budget: int
) -> tuple[np.ndarray, np.ndarray]:
    """Features (n_rows, n_templates) int32, -1 where one is left out, and the ids (d,) int64 of the d that are not.

    ids_of(t): the ids (n_rows,) of template t, -1 for none; features that occur fewer than ``min_count`` times are left
    out.  The most frequent ones come first, so that the weights in use lie together.  Raises InputError where the ids
    do not fit in ``budget`` bytes, or where none is left.
    """
    # the ids' own table, and about twice as much to put them in order; 40 bytes a row for one template at a time
    left = budget - n_rows * (4 * n_templates + 40)
    if left <= 0:
        raise InputError(
            f"the features of {n_rows:,} places by {n_templates} templates take {-(left - budget) / 1e6:,.2f} MB, more "
            f"than {option('memory')} leaves; raise it, or give fewer templates"
        )
    known = IdTable(left // 3)
    features = add_features(known, n_rows, n_templates, ids_of)
    feature_ids, places = numbered(known, min_count)
    for t in range(n_templates):
        features[:, t] = places[features[:, t]]
    return features, feature_ids


def add_features(known: IdTable, n_rows: int, n_templates: int, ids_of: Callable[[int], np.ndarray]) -> np.ndarray:
    """Features (n_rows, n_templates) int32 as places in the table of ids, which takes new ones in; -1 for none."""
    features = np.empty((n_rows, n_templates), np.int32)
    for t in range(n_templates):
        ids = ids_of(t)
        there = ids >= 0
        features[~there, t] = -1
        features[there, t] = known.add(np.ascontiguousarray(ids[there]))
    return features


def numbered(known: IdTable, min_count: int) -> tuple[np.ndarray, np.ndarray]:
    """(ids (d,) of those that occur ``min_count`` times, the most frequent first; the number (n + 1,) int32 of each
    place in the table, -1 for others and at the end).  InputError where none is left."""
    order, numbers = known.ranking(min_count)
    if not len(order):
        raise InputError(f"no feature occurs {min_count} times; lower the count")
    return known.known[order], np.append(numbers, np.int32(-1))


def known_features(n_rows: int, n_templates: int, ids_of: Callable[[int], np.ndarray], known: np.ndarray) -> np.ndarray:
    """Features (n_rows, n_templates) int32 as places among the ids ``known``, -1 for others."""
    index = IdIndex(len(known)).fill([(0, known)])
    features = np.empty((n_rows, n_templates), np.int32)
    for t in range(n_templates):
        features[:, t] = index.find(ids_of(t))
    return features
