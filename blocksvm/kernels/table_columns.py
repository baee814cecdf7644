"""Columns to rows."""

from blocksvm.kernels import kernel
from blocksvm.kernels.names import name_hash


@kernel
def hash_spans(text, ends, seed, hashes):
    """``name_hash`` of the strings that end at ``ends[k + 1]`` and begin at ``ends[k]``; eight bytes behind the last are
    readable."""
    for k in range(ends.shape[0] - 1):
        hashes[k] = name_hash(text, ends[k], ends[k + 1], seed)


@kernel
def put_in_rows(rows, ids, values, places, row_ids, row_values):
    """Put a column's entries behind those that its rows have: ``places`` (n,) is where the next one of a row goes."""
    for k in range(rows.shape[0]):
        at = places[rows[k]]
        row_ids[at] = ids[k]
        row_values[at] = values[k]
        places[rows[k]] = at + 1
