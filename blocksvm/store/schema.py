"""The layout of a store, named once for its writer and its reader.

    /indices   int32 (n_parts * L,)   HDF5-chunked at L: each HDF5 chunk ("part") is one Blosc buffer
    /values    float32|float64, the same shape; absent where every value is 1
    /rows      one record a row: entries, label, ||x||^2, number in the source, and, in stores in which some row has
               another weight than 1, its weight
    /chunks    one record a chunk: its rows, nonzeros, parts, checksum of its row records
    /parts     one record a part: where its bytes lie in the file, their checksum
    /features/ids   the user's id of each feature; features are numbered by falling frequency (ties: first seen first)
    /features/idf   where values were multiplied by their features' factors, idf or scale: these
    /features/names, name_ends   where features have names: UTF-8 bytes; feature j's name ends at name_ends[j], and
               begins where the one before it ends
    /labels/   where labels are not numbers, the distinct ones, rising; a row's label is then its place among them
    /meta      JSON: counts, labels, sources, settings, checksums of the tables; its own checksum is an attribute

A row without a label has nan.  Labels that are strings: /labels/text (UTF-8) and /labels/ends, like names.  Labels that
are sets: their members in text and ends, or, if they are numbers, in /labels/numbers; set c holds the members that
/labels/members[set_ends[c - 1] : set_ends[c]] counts out, rising.  Of an array "x" in /features and /labels, "x.xxh3"
has the checksums of its HDF5 chunks.

Version 1 had no weights, no names, no labels other than numbers and none missing; it is read as it was.

Values that hardly compress are stored as they are (HDF5 marks such parts); a part's size tells.

A chunk is a run of rows that begins on a part boundary; the last part is padded with zeros.  A chunk has one part,
unless it is a single row of more than L entries.  Read one in a few lines of h5py (and ``import hdf5plugin``):

    chunk = file["chunks"][k]
    rows = file["rows"][chunk["first_row"] : chunk["first_row"] + chunk["n_rows"]]
    start = chunk["first_part"] * L
    indices = file["indices"][start : start + chunk["nnz"]]
    indptr = numpy.r_[0, rows["length"].cumsum()]
"""

from __future__ import annotations

import numpy as np

ROW = np.dtype([("length", "<u4"), ("label", "<f8"), ("sq_norm", "<f8"), ("source", "<u8")])
WEIGHTED_ROW = np.dtype([*ROW.descr, ("weight", "<f8")])
CHUNK = np.dtype(
    [
        ("first_row", "<u8"),
        ("n_rows", "<u4"),
        ("nnz", "<u8"),
        ("first_part", "<u8"),
        ("n_parts", "<u4"),
        ("rows_checksum", "<u8"),
    ]
)
PART = np.dtype(
    [
        ("indices_offset", "<u8"),
        ("indices_size", "<u4"),
        ("values_offset", "<u8"),
        ("values_size", "<u4"),
        ("checksum", "<u8"),
    ]
)
