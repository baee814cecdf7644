"""Text parsed ahead of whoever learns from it: a thread that reads, a pool that parses, memory that goes round."""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

import numpy as np

from blocksvm.formats.svmlight import ParsedRows, Room, TextFormat, parse_piece, parse_skipping
from blocksvm.formats.text import TextPiece, text_pieces
from blocksvm.kernels.table import hash_ids

PIECE_BYTES = 2_000_000  # each costs the interpreter some tenths of a millisecond
END = object()  # of the inputs
BYTES_EACH = 7  # a piece under way holds its text, ids and values, and what is made of them: so many times its bytes


@dataclass(frozen=True)
class Part:
    """Parsed rows; places (nnz,) int32 of their features where these are hashes; the memory they lie in, if it is to be
    given back."""

    parsed: ParsedRows
    places: np.ndarray | None
    room: Room | None


class ParsedAhead:
    """The pieces of all inputs in their order, each as a list of ``Part``.

    bits: hash ids to 2^bits places; skip_bad: go on behind a bad line; memory: bytes, of which pieces take a small
    share; jobs: threads that parse.  stop() is polled while nothing comes.
    """

    def __init__(self, form: TextFormat, bits: int | None, skip_bad: bool, memory: int, jobs: int,
                 stop: Callable[[], bool]):  # fmt: skip
        self.form, self.bits, self.skip_bad, self.jobs, self.stop = form, bits, skip_bad, jobs, stop
        # one is read, one waits, jobs are parsed, one is learned from
        pieces = jobs + 3
        self.piece_bytes = int(min(PIECE_BYTES, max(65_536, memory // (40 * pieces))))
        self.longest_line = memory // (20 * pieces)
        self.planned_bytes = BYTES_EACH * pieces * self.piece_bytes
        self.spare_text: queue.SimpleQueue = queue.SimpleQueue()
        self.spare_rooms: queue.SimpleQueue = queue.SimpleQueue()

    def give_back(self, part: Part) -> None:
        """The memory of a part that is done with may be used again."""
        if part.room is not None:
            self.spare_text.put(part.parsed.piece.text)
            self.spare_rooms.put((part.room, part.places))

    def pieces(self, inputs: list[str]) -> Iterator[list[Part]]:
        """Parsed pieces; rows come as soon as they were read.  Whoever would wait for a piece parses one that no thread
        of the pool has begun.  Raises InputError for what cannot be read."""
        ready: queue.Queue = queue.Queue(1)
        closed = threading.Event()
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="blocksvm-parse") as pool:
            # a daemon: where it waits for a pipe when the stream is stopped, nothing waits for it
            threading.Thread(
                target=self._read, args=(inputs, pool, ready, closed), name="blocksvm-read", daemon=True
            ).start()
            under_way: deque = deque()  # (piece, its future), as they were read
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
                        if not under_way[0][1].done():
                            self._help(under_way)
                        if wait([under_way[0][1]], timeout=0.001).done:
                            yield under_way.popleft()[1].result()
                    elif end is not None:
                        if end is not END:
                            raise end
                        return
                    elif self.stop():
                        return
            finally:
                closed.set()

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
            for piece in text_pieces(inputs, self.piece_bytes, self.longest_line, eager=True, digested=False,
                                     spare=self.spare_text):  # fmt: skip
                if not put((piece, pool.submit(self._parse, piece))):
                    return
            put(END)
        except BaseException as error:
            put(error)

    def _help(self, under_way: deque) -> None:
        """Parse the first piece that no thread has begun."""
        for at, (piece, future) in enumerate(under_way):
            if future.cancel():
                own: Future = Future()
                own.set_result(self._parse(piece))
                under_way[at] = piece, own
                return

    def _parse(self, piece: TextPiece) -> list[Part]:
        if self.skip_bad or piece.end > self.piece_bytes + 1:
            made = parse_skipping(piece, self.form) if self.skip_bad else [parse_piece(piece, self.form)]
            return [Part(parsed, self._places(parsed, None), None) for parsed in made]
        try:
            room, places = self.spare_rooms.get_nowait()
        except queue.Empty:
            room = Room.for_bytes(self.piece_bytes + 1)
            places = None if self.bits is None else np.empty(len(room.ids), np.int32)
        parsed = parse_piece(piece, self.form, room)
        return [Part(parsed, self._places(parsed, places), room)]

    def _places(self, parsed: ParsedRows, places: np.ndarray | None) -> np.ndarray | None:
        """Hashes of the rows' ids, in ``places`` if it is there."""
        if self.bits is None:
            return None
        if places is None:
            places = np.empty(len(parsed.ids), np.int32)
        hash_ids(parsed.ids, self.bits, places)
        return places
