"""Text parsed ahead of the learner: threads read pieces in turn, parse them, and find features in the pieces' order, in
buffers that are used again."""

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.row_batch import RowBatch
from blocksvm.files.paths import location
from blocksvm.formats import AUTO, get_format, settled
from blocksvm.formats.file_reader import FileInputs, RowPiece, inputs_of
from blocksvm.formats.format import EXPANSION, ParseBuffer, Reader, ReaderOptions, parse_skipping
from blocksvm.formats.text.text_source import LineLimit, TextPiece, taken
from blocksvm.formats.weighing import reader_of

PIECE_BYTES = 4_000_000  # of a table: fewer rows at once take longer to decode
TEXT_BYTES = 1_000_000  # of text: more leave the caches before they are learned from, less cost the interpreter more
END = object()  # of the inputs
SMALLEST_PIECE, PARTS = 65_536, 40  # all pieces' text together is one part of so many of the memory
# a piece under way holds its text, ids and values, and what is made of them: so many times its bytes
BYTES_EACH = EXPANSION + 2
ENDING_SECONDS = 5.0  # to wait for a thread at most: one that reads checks several times a second whether to end


@dataclass
class ParsedPart:
    """Parsed rows, and the memory (text, buffer) in which they lie, if it is to be given back.

    Set in their turn: indices (nnz,) int32, their features, and n_features, the number of features up to these rows; or
    error, where they cannot be found.
    """

    batch: RowBatch
    memory: tuple | None = None
    indices: np.ndarray | None = None
    n_features: int = 0
    error: InputError | None = None


class ParsedAhead:
    """The pieces of all inputs in their order, each as a list of ``ParsedPart``.  Features are found in that
    order by the parsing threads, each in its turn.

    reading: how rows are made, in the format of its recipe, or, of 'auto', in the one that the first bytes look like;
    skip_bad: go on after a bad line; memory: bytes, of which pieces take a small share; jobs: threads that parse.
    stop() is polled while nothing comes.  find: sets the features or the error of a part; set before rows are read.
    """

    find: Callable[[ParsedPart], None]

    def __init__(self, reading: ReaderOptions, skip_bad: bool, memory: int, jobs: int, stop: Callable[[], bool]):
        self.reading, self.skip_bad, self.jobs, self.stop = reading, skip_bad, jobs, stop
        if reading.recipe.format != AUTO:
            get_format(reading.recipe.format)  # a wrong name is an error before anything is opened
        self.reader: Reader | None = None
        # jobs are parsed, one is learned from, others wait
        self.n_pieces = pieces = jobs + 3
        self.most_bytes = self.piece_bytes = int(min(PIECE_BYTES, max(SMALLEST_PIECE, memory // (PARTS * pieces))))
        self.line_parts = 20 * pieces
        self.memory = memory
        self.planned_bytes = BYTES_EACH * pieces * self.piece_bytes
        self.spare_text: queue.SimpleQueue = queue.SimpleQueue()
        self.buffers: queue.SimpleQueue = queue.SimpleQueue()

    def least_memory(self, besides: int) -> int:
        """The least ``memory`` that leaves so many bytes."""
        pieces = self.n_pieces
        shared = PARTS * besides // (PARTS - BYTES_EACH) + 1  # where a piece is a part of the memory
        each = BYTES_EACH * pieces
        return max(besides + each * SMALLEST_PIECE, min(shared, besides + each * PIECE_BYTES))

    def give_back(self, part: ParsedPart) -> None:
        if part.memory is not None:
            text, buffer = part.memory
            if text is not None:
                self.spare_text.put(text)
            self.buffers.put(buffer)

    def pieces(self, inputs: list[str]) -> Iterator[list[ParsedPart]]:
        """Parsed pieces; rows come as soon as they are read.  The consumer reads and parses a piece itself instead of
        waiting, unless reading may wait for a pipe.  Raises InputError for an unreadable input."""
        self.ready: queue.SimpleQueue = queue.SimpleQueue()  # parts of a piece, or ``END`` or an exception
        self.room = threading.Semaphore(self.n_pieces)  # in the planned memory
        self.turns = threading.Condition()
        self.n_read = self.following = 0  # pieces; the next one whose features are found
        self.ended = False
        self.closed = threading.Event()
        self.reading_lock = threading.Lock()
        self.texts = self._texts(inputs)
        piped = any(not location(name).is_file() for name in inputs)
        # of a pipe one thread may wait for text while others parse
        works = [partial(copy_context().run, self._work) for _ in range(self.jobs + piped)]
        workers = [threading.Thread(target=work, name="blocksvm-parse", daemon=True) for work in works]
        n_returned = 0
        try:
            for worker in workers:
                worker.start()
            while True:
                if self.ready.empty() and not piped and self.room.acquire(blocking=False):
                    self._advance()
                try:
                    item = self.ready.get(timeout=0.1)
                except queue.Empty:
                    if n_returned == self.n_read and self.stop():
                        return
                    continue
                if item is END:
                    return
                if isinstance(item, BaseException):
                    raise item
                n_returned += 1
                yield item
                self.room.release()
        finally:
            self.closed.set()
            self.room.release(len(workers))
            with self.turns:
                self.turns.notify_all()
            for worker in workers:
                if worker.ident is not None:
                    worker.join(ENDING_SECONDS)
            if self.reading_lock.acquire(blocking=False):
                self.texts.close()

    def _texts(self, inputs: list[str]) -> Generator[TextPiece | RowPiece]:
        with inputs_of(inputs, self.reading.recipe, self.closed.is_set) as text:
            limit = self._begin(text)
            yield from text.pieces(self.piece_bytes, limit, eager=True, digested=False, spare=self.spare_text)

    def _work(self) -> None:
        while not (self.ended or self.closed.is_set()):
            self.room.acquire()
            self._advance()

    def _advance(self) -> None:
        """Read a piece, for which there is room, and parse it in the same thread: its text lies in the caches of that
        processor.  Then find its features, in its turn."""
        with self.reading_lock:
            if self.ended or self.closed.is_set():
                self.room.release()
                return
            parts: list[ParsedPart] | object = END
            piece: TextPiece | RowPiece | None = None
            try:
                piece = next(self.texts, None)
            except BaseException as error:
                parts = error
            self.ended = piece is None
            number, self.n_read = self.n_read, self.n_read + 1
        try:
            if piece is not None:
                parts = self._parse(piece)
        except BaseException as error:
            parts = error
        with self.turns:
            self.turns.wait_for(lambda: self.following == number or self.closed.is_set())
        try:
            for part in parts if isinstance(parts, list) else ():
                self.find(part)
        except BaseException as error:
            parts = error
        self.ready.put(parts)
        with self.turns:
            self.following += 1
            self.turns.notify_all()

    def _begin(self, text) -> LineLimit:
        """Choose the reader, and the size of pieces so that its rows fit in the planned memory."""
        recipe = settled(text, self.reading.recipe, self.memory, self.skip_bad)
        self.reading = replace(self.reading, recipe=recipe)
        self.reader = reader_of(self.reading)
        share = BYTES_EACH / (self.reader.expansion + BYTES_EACH - EXPANSION)
        most = self.most_bytes if isinstance(text, FileInputs) else min(self.most_bytes, TEXT_BYTES)
        self.piece_bytes = int(share * most)
        return LineLimit.share(self.memory, int(self.line_parts / share))

    def _parse(self, piece: TextPiece | RowPiece) -> list[ParsedPart]:
        if isinstance(piece, RowPiece):
            buffer = taken(self.buffers) or ParseBuffer(self.piece_bytes + 1)
            return [ParsedPart(self.reader.parse(piece, buffer), (None, buffer))]
        if self.skip_bad or piece.end > self.piece_bytes + 1:
            batches = parse_skipping(self.reader, piece) if self.skip_bad else [self.reader.parse(piece)]
            return [ParsedPart(batch) for batch in batches]
        buffer = taken(self.buffers) or ParseBuffer(self.piece_bytes + 1)
        return [ParsedPart(self.reader.parse(piece, buffer), (piece.text, buffer))]
