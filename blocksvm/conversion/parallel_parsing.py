"""Pieces of inputs to batches of rows, in their order, by threads; and the file of the rows' weights."""

import math
import queue
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.row_batch import RowBatch, shown_name
from blocksvm.formats.file_reader import RowPiece
from blocksvm.formats.format import ParseBuffer, Reader, parse_skipping
from blocksvm.formats.text.text_source import LineLimit, TextInputs, TextPiece, taken

SKIPPED = "malformed lines that were skipped"
# of a file of weights, in bytes: a piece, a line, and of a wrong line what is shown
PIECE, LONGEST_LINE, SHOWN = 1 << 18, 1 << 16, 40


def as_stored(batch: RowBatch, dtype: str) -> RowBatch:
    """A batch with its values as they will be stored: of the dtype wanted, or None where all are 1; labels and weights
    are kept while the next rows take the memory of these."""
    values = None if batch.values is None or (batch.values == 1.0).all() else batch.values.astype(dtype)
    left_out = None if batch.left_out is None else np.unique(batch.left_out)
    weights = None if batch.weights is None else batch.weights.copy()
    ids = batch.ids.astype(np.int64, copy=False)
    return replace(batch, labels=batch.labels.copy(), ids=ids, values=values, weights=weights, left_out=left_out)


def ordered_map(pool: ThreadPoolExecutor, function, items: Iterable, ahead: int, alone=lambda item: False) -> Iterator:
    """``map`` over a pool that keeps the order and holds at most ``ahead`` results; alone(item): none beside it."""
    pending: deque = deque()
    try:
        for item in items:
            by_itself = alone(item)
            while pending and by_itself:
                yield pending.popleft().result()
            pending.append(pool.submit(function, item))
            if by_itself or len(pending) > ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()


def parsed_in_order(reader: Reader, pieces: Iterable[TextPiece | RowPiece], pool: ThreadPoolExecutor, ahead: int,
                    piece_bytes: int, longest: float = math.inf,
                    stored: Callable[[RowBatch], Any] = lambda batch: batch,
                    skip_bad: bool = False) -> Generator[Any, None, None]:  # fmt: skip
    """Batches of the pieces' rows, in their order, parsed by a pool that is at most so many ``ahead``.  piece_bytes: of
    a piece; one of more than ``longest`` bytes is parsed by itself.  stored(batch): what is made of each in the thread
    that parses it.  skip_bad: a bad line of text ends a batch, as its note.  The next batch takes the memory of one."""
    spare: queue.SimpleQueue = queue.SimpleQueue()

    def of_piece(piece) -> tuple[list, ParseBuffer | None]:
        if skip_bad and not isinstance(piece, RowPiece):
            parts = parse_skipping(reader, piece)
            for k, batch in enumerate(parts):
                if batch.fault is not None:
                    parts[k] = replace(batch, fault=None, notes={**batch.notes, SKIPPED: (1, *batch.fault)})
            return list(map(stored, parts)), None
        usual = isinstance(piece, RowPiece) or piece.end <= piece_bytes + 1  # that of rows from a file grows with them
        buffer = taken(spare) or ParseBuffer(piece_bytes + 1) if usual else None
        return [stored(reader.parse(piece, buffer))], buffer

    for batches, buffer in ordered_map(pool, of_piece, pieces, ahead, lambda piece: getattr(piece, "end", 0) > longest):
        yield from batches
        if buffer is not None:
            spare.put(buffer)


def weights_in(text: bytes, n: int) -> np.ndarray | None:
    """The weights in n lines, or None where a line is wrong."""
    words = text.split()
    if len(words) != n:
        return None
    try:
        weights = np.array(words).astype(np.float64)
    except ValueError:
        return None
    return weights if (np.isfinite(weights) & (weights >= 0.0)).all() else None


class RowWeights:
    """Weights of rows, one for each in the order of the inputs; name: of their file."""

    def __init__(self, name: str):
        self.name, self.pieces = name, self._pieces()
        self.n_taken, self.left = 0, np.empty(0)

    def _pieces(self) -> Iterator[np.ndarray]:
        before = 0
        for piece in TextInputs([self.name]).pieces(PIECE, LineLimit(LONGEST_LINE, lambda n_bytes: 4 * n_bytes)):
            text = piece.text[: piece.end].tobytes()
            n = text.count(b"\n")
            weights = weights_in(text, n)
            if weights is None:
                lines = text.split(b"\n")[:-1]
                k = next(k for k, line in enumerate(lines) if weights_in(line, 1) is None)
                shown = lines[k][:SHOWN].decode("utf-8", "replace")
                what = "is not a weight; each line has one finite number of 0 or more"
                raise InputError(f"{shown_name(self.name)}:{before + k + 1}: '{shown}' {what}")
            before += n
            yield weights

    def take(self, n: int) -> np.ndarray:
        """The next n weights, float64; InputError where there are fewer, or one is not a finite number of 0 or more."""
        while len(self.left) < n:
            more = next(self.pieces, None)
            if more is None:
                wrong = f"has {self.n_taken + len(self.left):,} weights, and there are more rows"
                raise InputError(f"{shown_name(self.name)}: {wrong}; {option('weights')} needs one a row")
            self.left = np.append(self.left, more)
        taken, self.left = self.left[:n], self.left[n:]
        self.n_taken += n
        return taken

    def finish(self) -> None:
        """InputError where weights are left that no row took."""
        if len(self.left) or len(next(self.pieces, np.empty(0))):
            wrong = f"has more weights than the {self.n_taken:,} rows that there are"
            raise InputError(f"{shown_name(self.name)}: {wrong}; {option('weights')} needs one a row")
