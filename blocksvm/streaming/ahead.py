"""Text parsed ahead of who learns from it: a thread that reads, a pool that parses and finds features in the order of
the pieces, memory that goes round."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import numpy as np

from blocksvm.errors import InputError
from blocksvm.formats import AUTO, format_named, settled
from blocksvm.formats.files import FileInputs, RowPiece, inputs_of
from blocksvm.formats.hashing import reader_of
from blocksvm.formats.protocol import EXPANSION, Reader, Reading, SpareRooms, parse_skipping
from blocksvm.formats.text import LineLimit, TextPiece
from blocksvm.rows import RowBatch

PIECE_BYTES = 4_000_000  # each costs the interpreter, and its threads' turns, half a millisecond
ROWS_READ = 4  # pieces of rows that may wait: a table's come several at a time, in memory that they share
END = object()  # of the inputs
SMALLEST_PIECE, PARTS = 65_536, 40  # all pieces' text together is one part of so many of the memory
# a piece under way holds its text, ids and values, and what is made of them: so many times its bytes
BYTES_EACH = EXPANSION + 2
ENDING_SECONDS = 5.0  # that the reading thread is waited for: it looks several times a second whether it shall end


@dataclass
class Part:
    """Parsed rows, and the memory (text, room) in which they lie, if it is to be given back; once it is their turn,
    indices (nnz,) int32: their features, and n_features: how many had come up to these rows, or error: why there are
    none."""

    batch: RowBatch
    memory: tuple | None = None
    indices: np.ndarray | None = None
    n_features: int = 0
    error: InputError | None = None


class Turns:
    """Has features found for pieces in their order, by the threads that parse them: who parsed the one whose turn it is
    goes on with those behind it that were parsed before.  So what of two pieces in a row is parsed has its features."""

    def __init__(self, find: Callable[[Part], None]):
        self.find = find
        self.lock = threading.Lock()
        self.following = 0
        self.parsed: dict[int, list[Part]] = {}

    def take(self, number: int, parts: list[Part]) -> None:
        """Piece ``number`` has been parsed."""
        with self.lock:
            self.parsed[number] = parts
            while self.following in self.parsed:
                for part in self.parsed.pop(self.following):
                    self.find(part)
                self.following += 1


class ParsedAhead:
    """The pieces of all inputs in their order, each as a list of ``Part``.

    reading: how rows are made, of the format that its recipe names, or, of 'auto', of the one that the first bytes
    look like; skip_bad: go on behind a bad line; memory: bytes, of which pieces take a small share; jobs: threads that
    parse.  stop() is polled while nothing comes; on_format is told the format before anything is parsed.  find: takes
    a part and tells its features, or why there are none; to be set before rows are read.
    """

    find: Callable[[Part], None]

    def __init__(self, reading: Reading, skip_bad: bool, memory: int, jobs: int, stop: Callable[[], bool],
                 on_format: Callable[[str], None] = lambda name: None):  # fmt: skip
        self.reading, self.skip_bad, self.jobs, self.stop, self.on_format = reading, skip_bad, jobs, stop, on_format
        if reading.recipe.format != AUTO:
            format_named(reading.recipe.format)  # a wrong name is said before anything is opened
        self.reader: Reader | None = None
        # one is read, one waits, jobs are parsed, one is learned from
        pieces = jobs + 3
        self.most_bytes = self.piece_bytes = int(min(PIECE_BYTES, max(SMALLEST_PIECE, memory // (PARTS * pieces))))
        self.line_parts = 20 * pieces
        self.memory = memory
        self.planned_bytes = BYTES_EACH * pieces * self.piece_bytes
        self.spare_text: queue.SimpleQueue = queue.SimpleQueue()
        self.spare_rooms = SpareRooms()

    def least_memory(self, besides: int) -> int:
        """The least ``memory`` that leaves so many bytes."""
        pieces = self.jobs + 3
        shared = PARTS * besides // (PARTS - BYTES_EACH) + 1  # where a piece is a part of the memory
        return max(
            besides + BYTES_EACH * pieces * SMALLEST_PIECE, min(shared, besides + BYTES_EACH * pieces * PIECE_BYTES)
        )

    def give_back(self, part: Part) -> None:
        """The memory of a part that is done with may be used again."""
        if part.memory is not None:
            text, room = part.memory
            if text is not None:
                self.spare_text.put(text)
            self.spare_rooms.give_back(room)

    def pieces(self, inputs: list[str]) -> Iterator[list[Part]]:
        """Parsed pieces; rows come as soon as they were read.  Instead of waiting for a piece the consumer parses one
        that no thread of the pool has begun.  Raises InputError for what cannot be read."""
        self.turns = Turns(self.find)
        ready: queue.Queue = queue.Queue(1)
        closed = threading.Event()
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="blocksvm-parse") as pool:
            reading = threading.Thread(
                target=self._read, args=(inputs, pool, ready, closed), name="blocksvm-read", daemon=True
            )
            reading.start()
            under_way: deque = deque()  # (piece, its number, its future), as they were read
            end = None
            try:
                while True:
                    while end is None and len(under_way) <= self.jobs:
                        try:
                            item = ready.get(timeout=0.0 if under_way else 0.1)
                        except queue.Empty:
                            break
                        if isinstance(item, tuple):
                            under_way.append(item)
                        else:
                            end = item
                    if under_way:
                        if not under_way[0][2].done():
                            self._help(under_way)
                        if wait([under_way[0][2]], timeout=0.001).done:
                            yield under_way.popleft()[2].result()
                    elif end is not None:
                        if end is not END:
                            raise end
                        return
                    elif self.stop():
                        return
            finally:
                closed.set()
                reading.join(ENDING_SECONDS)

    def _read(self, inputs: list[str], pool: ThreadPoolExecutor, ready: queue.Queue, closed: threading.Event) -> None:
        """The reading thread: pieces, each with the future of its parsing, then END or an exception."""

        def put(item) -> bool:
            while not closed.is_set():
                try:
                    ready.put(item, timeout=0.1)
                    return True
                except queue.Full:
                    continue
            return False

        try:
            with inputs_of(inputs, self.reading.recipe, closed.is_set) as text:
                limit = self._begin(text)
                if isinstance(text, FileInputs):
                    ready.maxsize = ROWS_READ
                pieces = text.pieces(self.piece_bytes, limit, eager=True, digested=False, spare=self.spare_text)
                for number, piece in enumerate(pieces):
                    if not put((piece, number, pool.submit(self._make, piece, number))):
                        return
            put(END)
        except BaseException as error:
            put(error)

    def _begin(self, text) -> LineLimit:
        """Choose the reader, and cut pieces so that its rows fit in what is planned."""
        self.reading = replace(self.reading, recipe=settled(text, self.reading.recipe))
        self.on_format(self.reading.recipe.format)
        self.reader = reader_of(self.reading)
        share = BYTES_EACH / (self.reader.expansion + BYTES_EACH - EXPANSION)
        self.piece_bytes = int(share * self.most_bytes)
        return LineLimit.share(self.memory, int(self.line_parts / share))

    def _help(self, under_way: deque) -> None:
        """Parse the first piece that no thread has begun."""
        for at, (piece, number, future) in enumerate(under_way):
            if future.cancel():
                own: Future = Future()
                own.set_result(self._make(piece, number))
                under_way[at] = piece, number, own
                return

    def _make(self, piece: TextPiece | RowPiece, number: int) -> list[Part]:
        """A piece parsed, and its features, if it is its turn."""
        parts = self._parse(piece)
        self.turns.take(number, parts)
        return parts

    def _parse(self, piece: TextPiece | RowPiece) -> list[Part]:
        if isinstance(piece, RowPiece):
            room = self.spare_rooms.take(self.reader, self.piece_bytes + 1)
            return [Part(self.reader.parse(piece, room), (None, room))]
        if self.skip_bad or piece.end > self.piece_bytes + 1:
            made = parse_skipping(self.reader, piece) if self.skip_bad else [self.reader.parse(piece)]
            return [Part(batch) for batch in made]
        room = self.spare_rooms.take(self.reader, self.piece_bytes + 1)
        return [Part(self.reader.parse(piece, room), (piece.text, room))]
