"""Where the stored bytes of chunks lie in a store's file: of their rows, and of their parts."""

from __future__ import annotations

import numpy as np

from blocksvm.store import codec
from blocksvm.store.decoder import Span
from blocksvm.store.hdf5_files import member
from blocksvm.store.writer import fill_offsets

UNITS_WANTED = 800
UNIT_BYTES = 16_000_000
UNIT_SHARE = 1 / 6  # of the memory for what is under way


class PartTable:
    """Of a store's file and its tables of PART and of CHUNK records; ValueError where the file's datasets are not those
    that the tables are of."""

    def __init__(self, file, parts: np.ndarray, chunks: np.ndarray, chunk_nnz: int, row_dtype: np.dtype, value_dtype):
        rows = member(file, "rows")
        if rows.dtype != row_dtype or rows.shape != (int(chunks["n_rows"].sum(dtype=np.int64)),):
            raise ValueError("/rows does not have the rows that the description names")
        dtypes = {"indices": np.dtype(np.int32)} | ({} if value_dtype is None else {"values": np.dtype(value_dtype)})
        for name, dtype in dtypes.items():
            stored = member(file, name)
            if stored.shape != (len(parts) * chunk_nnz,) or stored.chunks != (chunk_nnz,) or stored.dtype != dtype:
                raise ValueError(f"/{name} does not have the parts that the description names")
        self.records = parts
        self.chunk_nnz = chunk_nnz
        self.rows_offset: int | None = rows.id.get_offset()
        self.row_bytes = row_dtype.itemsize
        self.entry_bytes = {name: dtype.itemsize for name, dtype in dtypes.items()}
        self.first_row, self.n_rows, self.first_part, self.n_parts = (
            chunks[name].astype(np.int64) for name in ("first_row", "n_rows", "first_part", "n_parts")
        )
        sizes = parts["indices_size"].astype(np.int64) + parts["values_size"]
        self.largest_part = int(sizes.max(initial=0))

    def renew(self, file) -> None:
        """Take the offsets from HDF5 where those of the table are stale, since another tool has rewritten the file."""
        for name in self.entry_bytes if len(self.records) else ():
            last = len(self.records) - 1
            info = file[name].id.get_chunk_info_by_coord((last * self.chunk_nnz,))
            if info.byte_offset != self.records[name + "_offset"][last]:
                fill_offsets(file[name], self.records, name, self.chunk_nnz)

    def check(self, file_bytes: int) -> None:
        """ValueError where the rows or a part are not in the file, or a part is larger than Blosc makes one."""
        for name, size in self.entry_bytes.items() if len(self.records) else ():
            offsets, sizes = self.records[name + "_offset"], self.records[name + "_size"].astype(np.uint64)
            if int(sizes.max()) > self.chunk_nnz * size + codec.HEADER:
                raise ValueError(f"a part of /{name} is larger than what it holds")
            if int(offsets.max()) > file_bytes or int((offsets + sizes).max()) > file_bytes:
                raise ValueError("the file is truncated")
        if self.rows_offset is None or self.rows_offset + int(self.n_rows.sum()) * self.row_bytes > file_bytes:
            raise ValueError("the file is truncated")

    def of_chunk(self, chunk: int) -> list[tuple]:
        """The records of a chunk's parts (PART dtype, as tuples of int)."""
        first = int(self.first_part[chunk])
        return self.records[first : first + int(self.n_parts[chunk])].tolist()

    def rows(self, chunk: int) -> Span:
        """Where the records of a chunk's rows lie."""
        assert self.rows_offset is not None
        begin = self.rows_offset + int(self.first_row[chunk]) * self.row_bytes
        return begin, begin + int(self.n_rows[chunk]) * self.row_bytes

    def spans(self, chunk: int) -> list[Span]:
        """Where the bytes of a chunk lie."""
        spans = [self.rows(chunk)]
        for indices_at, indices_size, values_at, values_size, _ in self.of_chunk(chunk):
            spans += [(indices_at, indices_at + indices_size), (values_at, values_at + values_size)]
        return spans if "values" in self.entry_bytes else spans[:1] + spans[1::2]

    def sizes(self) -> np.ndarray:
        """(n_chunks,) int64: the bytes of each chunk."""
        parts = np.append(0, np.cumsum(self.records["indices_size"].astype(np.int64) + self.records["values_size"]))
        return self.n_rows * self.row_bytes + parts[self.first_part + self.n_parts] - parts[self.first_part]


def most_bytes(share: int) -> int:
    """Of a unit, and of what is asked for at once; share: the memory for what is under way."""
    return max(1, min(UNIT_BYTES, int(UNIT_SHARE * share)))


def unit_bytes(sizes: np.ndarray, share: int) -> int:
    """Of a store's units; sizes (n_chunks,) int64: its chunks' bytes."""
    return max(1, min(most_bytes(share), int(sizes.sum()) // UNITS_WANTED))


def units_of(sizes: np.ndarray, n_bytes: int) -> np.ndarray:
    """The first chunk of each unit, int64, rising."""
    return np.unique((np.cumsum(sizes) - sizes) // n_bytes, return_index=True)[1]
