"""The unpacked sizes of the compressed parts of Arrow and Parquet files, by the lengths stored beside them.

A library allocates what these claim.  Of an Arrow file the footer, each batch's description and the length before each
compressed buffer are read; of a Parquet file, whose footer has no page's length, the headers of the pages.

Numbers of a damaged file may be any, and an error of any kind says that it is one.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

LONGEST_HEADER = 1 << 24  # bytes of a page's header, as pyarrow reads them
BLOCK = np.dtype([("at", "<i8"), ("metadata", "<i4"), ("", "<i4"), ("body", "<i8")])
BUFFER = np.dtype([("at", "<i8"), ("length", "<i8")])
DICTIONARY = 2  # a message's kind
EARLY_COMPRESSION = b"ARROW:experimental_compression"  # of files of 2020, in the place of a batch's own field

# -- Arrow: descriptions are flatbuffers ------------------------------------------------------------------------------


def number(data, at: int) -> int:
    return struct.unpack_from("<i", data, at)[0]


def follow(data, at: int) -> int:
    return at + number(data, at)


def field(data, table: int, k: int) -> int | None:
    """Where the k-th field of a table lies; None where it has none."""
    size, *places = struct.unpack_from(f"<{k + 3}H", data + bytes(8), table - number(data, table))
    return table + places[-1] if size > 2 * k + 4 and places[-1] else None


def vector(data, at: int | None, dtype: np.dtype) -> np.ndarray:
    if at is None:
        return np.empty(0, dtype)
    at = follow(data, at)
    return np.frombuffer(data, dtype, number(data, at), at + 4)


def ipc_blocks(data: memoryview) -> tuple[np.ndarray, np.ndarray]:
    """Where the dictionaries and the batches of an IPC file lie, of dtype ``BLOCK``."""
    end = len(data) - 10
    footer = bytes(data[end - number(data, end) : end])
    root = follow(footer, 0)
    return vector(footer, field(footer, root, 2), BLOCK), vector(footer, field(footer, root, 3), BLOCK)


def unpacked_bytes(data: memoryview, block: np.void) -> tuple[float, float]:
    """(bytes that the compressed buffers of a batch, or dictionary, claim, bytes of all that are not compressed)."""
    at, body = int(block["at"]), int(block["at"]) + int(block["metadata"])
    message = bytes(data[at + (8 if number(data, at) == -1 else 4) : body])
    root = follow(message, 0)
    batch = follow(message, field(message, root, 2))
    if message[field(message, root, 1)] == DICTIONARY:
        batch = follow(message, field(message, batch, 1))
    buffers = vector(message, field(message, batch, 2), BUFFER)
    if field(message, batch, 3) is None and EARLY_COMPRESSION not in message:
        return 0.0, buffers["length"].sum(dtype=np.float64)
    starts = body + buffers["at"][buffers["length"] > 0]
    claims = np.frombuffer(data, np.uint8)[starts[:, None] + np.arange(8)].view("<i8")
    return claims.clip(0).sum(dtype=np.float64), 0.0  # one that is not compressed after all has -1


# -- Parquet: a page's header is a Thrift structure in its compact form -----------------------------------------------


@dataclass(frozen=True)
class Page:
    """n_bytes: unpacked; n: values, or words of a dictionary; words: it is one; encoding: a number of Parquet's."""

    n_bytes: int
    n: int
    words: bool
    encoding: int


def pages(file: int, column) -> Iterator[Page]:
    """The pages of a column of a row group, of an open file's descriptor; column: its metadata of pyarrow."""
    at = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < at:
        at = column.dictionary_page_offset
    end, left = at + column.total_compressed_size, column.num_values
    while at < end and left > 0:
        about, length = page_header(file, at)
        header = about.get(5) or about.get(8) or about.get(7) or {}
        page = Page(about.get(2, -1), header.get(1, 0), 7 in about, header.get(4 if 8 in about else 2, 0))
        stored = about.get(3, -1)
        if min(page.n_bytes, stored, page.n) < 0:
            raise ValueError("a page has no length, or one below zero")
        yield page
        at += length + stored
        left -= 0 if page.words else page.n


def page_header(file: int, at: int) -> tuple[dict, int]:
    """(the numbers of the header by their fields, its length)."""
    n = 256
    while True:
        data = os.pread(file, n, at)
        try:
            return structure(data, 0)
        except IndexError:
            if len(data) < n or n >= LONGEST_HEADER:
                raise ValueError("a page's header does not end") from None
        n *= 16


def structure(data: bytes, at: int) -> tuple[dict, int]:
    fields: dict = {}
    last = 0
    while data[at]:
        step, kind = divmod(data[at], 16)
        at += 1
        if step:
            last += step
        else:
            last, at = signed(data, at)
        if kind not in (1, 2):  # a boolean, which is its kind
            fields[last], at = item(data, at, kind)
    return fields, at + 1


def item(data: bytes, at: int, kind: int) -> tuple:
    """(a number or structure, 0 of what is not wanted; where it ends) of a field or of an item of a list."""
    if kind in (4, 5, 6):
        return signed(data, at)
    if kind == 8:
        length, at = varint(data, at)
        return 0, at + length
    if kind in (9, 10):  # a list or set
        n, kind = divmod(data[at], 16)
        n, at = (n, at + 1) if n < 15 else varint(data, at + 1)
        for _ in range(n):
            _, at = item(data, at, kind)
        return 0, at
    if kind == 12:
        return structure(data, at)
    if kind in (1, 2, 3, 7):  # booleans of a list take a byte
        return 0, at + (8 if kind == 7 else 1)
    raise ValueError("a page's header has a field of an unknown kind")


def varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] > 127:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
    return value | data[at] << shift, at + 1


def signed(data: bytes, at: int) -> tuple[int, int]:
    value, at = varint(data, at)
    return (value >> 1) ^ -(value & 1), at
