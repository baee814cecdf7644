"""Bytes of text from files, compressed files or standard input, in pieces that end where a line ends."""

from __future__ import annotations

import codecs
import lzma
import queue
import zlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

import numpy as np
from xxhash import xxh3_128

from blocksvm.base.errors import Bytes, InputError, option
from blocksvm.base.row_batch import shown_name
from blocksvm.files.input import decompressed, open_stored
from blocksvm.files.paths import file_size, is_url
from blocksvm.kernels.text_bytes import NEWLINE, RETURN, SPARE

HEAD_BYTES = 1 << 16  # by which a format is recognised
LOOKED_BYTES = 1 << 20  # of whole lines by which is decided what a table or a document has
PARTS_LOOKED = 400  # the first two of them may take one of so many parts of the memory
MOST_OPEN = 64  # lines that a record with line breaks within its quotes is looked for
LONE_RETURNS = "lines end in carriage returns alone; convert them, as tr '\\r' '\\n' does"
NOT_UTF8 = "the line is not UTF-8; convert it, as iconv -f latin1 -t utf-8 does"
LAST_ASCII = 127
FARTHEST_END = 1 << 30  # bytes that are searched for the end of a line which is too long


@dataclass
class TextSource:
    """One input as it was read: its name, and what is known of it at its end."""

    name: str
    stored_bytes: int | None  # size of the file when it was opened, None for a pipe
    text_bytes: int = 0
    fingerprint: str = ""
    first_line: bytes = b""


@dataclass(frozen=True)
class TextPiece:
    """Whole lines of one input: ``text[:end]`` uint8, the last byte a newline; ``fraction`` of all input read so far
    (None where it cannot be known); ``begins``: the first of them is the first line of the input; ``at``: where they
    lie in its file, None where they lie in none as they are (of a pipe, or compressed)."""

    source: TextSource
    text: np.ndarray
    end: int
    fraction: float | None
    begins: bool = False
    at: int | None = None

    def padded(self) -> np.ndarray:
        """The text, with what a parser may look ahead after it."""
        if len(self.text) >= self.end + SPARE:
            return self.text
        return np.append(self.text[: self.end], np.zeros(SPARE, np.uint8))


@dataclass(frozen=True)
class LineLimit:
    """The longest line, in bytes, that fits in the caller's memory; memory_for(n): bytes of memory for one of n."""

    n_bytes: int
    memory_for: Callable[[int], int]

    @classmethod
    def share(cls, memory: int, parts: int) -> LineLimit:
        """A line may take one of so many parts of the memory."""
        return cls(memory // parts, lambda n_bytes: parts * (n_bytes + 1))


class OpenText:
    """One input, open.  Its text is read from the first byte on, or, where it has one, after its byte order mark."""

    def __init__(self, name: str, stop: Callable[[], bool]):
        self.stored, size = open_stored(name, stop)
        self.source = TextSource(name, size)
        self.text = self.stored
        self.held = b""  # read, but not yet taken
        self.mark = b""
        try:
            self.text = decompressed(name, self.stored)
            self._skip_mark()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.text.close()
        self.stored.close()

    def _skip_mark(self) -> None:
        """Leave out UTF-8's byte order mark; InputError for UTF-16's."""
        while (n := 3 - len(self.held)) and codecs.BOM_UTF8.startswith(self.held) and (more := self._read(n)):
            self.held += more
        if self.held[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            wrong = f"{shown_name(self.source.name)}: is UTF-16 text"
            raise InputError(f"{wrong}; convert it to UTF-8, as iconv -f utf-16 -t utf-8 does")
        if self.held == codecs.BOM_UTF8:
            self.mark, self.held = self.held, b""

    def look_ahead(self) -> bytes:
        """The first bytes, which ``take`` gives nevertheless: of a pipe its first line, else ``HEAD_BYTES``."""
        whole = self.source.stored_bytes is not None
        while (n := HEAD_BYTES - len(self.held)) > 0 and (whole or b"\n" not in self.held) and (more := self._read(n)):
            self.held += more
        return self.held

    def whole_lines(self, lines: int, memory: int) -> bytes:
        """The first lines, which ``take`` gives nevertheless: as many as end within ``LOOKED_BYTES``, or two, but no
        more than asked for; a pipe is waited for.  InputError where the first takes more than a part of the memory."""
        parts, length, n, most = [self.held], len(self.held), self.held.count(b"\n"), LOOKED_BYTES
        longest = max(most, memory // PARTS_LOOKED)
        while n < lines and (length < most or (n < 2 and length < 2 * longest)):
            more = self._read(HEAD_BYTES)
            parts.append(more)
            length, n = length + len(more), n + more.count(b"\n")
            if not more:
                break
        self.held = b"".join(parts)
        _check_text(self.source.name, np.frombuffer(self.held, np.uint8))
        ends = np.flatnonzero(np.frombuffer(self.held, np.uint8) == NEWLINE)[:lines] + 1
        n = max(int(np.searchsorted(ends, most, side="right")), min(2, len(ends)))
        if not parts[-1] and n == len(ends) < lines:
            return self.held  # all of it, whose last line may end with it
        if not n:
            wrong = f"{shown_name(self.source.name)}: the first line is longer than {2 * longest:,} bytes"
            raise InputError(f"{wrong}; give more {option('memory')}, or check that this is text with a row a line")
        return self.held[: ends[n - 1]]

    def take(self, view: memoryview, once: bool = False) -> int:
        """Fill ``view`` as far as the input goes, or (once) with what is ready, at least a byte; returns how many."""
        filled = min(len(self.held), len(view))
        view[:filled] = self.held[:filled]
        self.held = self.held[filled:]
        while filled < len(view) and not (once and filled):
            n = self._guarded(self.text.readinto1 if once else self.text.readinto, view[filled:])
            if not n:
                break
            filled += n
        return filled

    def _read(self, n: int) -> bytes:
        """Up to n bytes, as they come; none at the end."""
        return self._guarded(self.text.read1, n)

    def _guarded(self, read: Callable, argument):
        """``read(argument)``; what goes wrong as one sentence."""
        name = shown_name(self.source.name)
        verb = "read" if self.text is self.stored else "decompressed"
        try:
            return read(argument)
        except EOFError as error:
            raise InputError(f"{name}: the compressed file is truncated; get it again") from error
        except (OSError, zlib.error, lzma.LZMAError, ValueError) as error:
            raise InputError(f"{name}: cannot be {verb} ({error}); get it again") from error

    def fingerprint(self) -> str:
        """Of all of its text, which is read meanwhile."""
        digest, buffer = xxh3_128(self.mark), memoryview(bytearray(LOOKED_BYTES))
        while n := self.take(buffer):
            digest.update(buffer[:n])
        return digest.hexdigest()

    def check_whole(self) -> None:
        """At the end: InputError where the file has become shorter than it was when it was opened."""
        size = self.source.stored_bytes
        if size is not None and self.stored.tell() < size:
            wrong = f"was cut while it was read, {self.stored.tell():,} of its {size:,} bytes are left"
            raise InputError(f"{self.source.name}: {wrong}; get it again, and read it when it is whole")

    def rest_of_line(self) -> int | None:
        """Bytes up to the next newline or the end; None where it is too far away to be searched for."""
        length = 0
        while length < FARTHEST_END:
            chunk = self.held or self._read(HEAD_BYTES)
            self.held = b""
            at = chunk.find(b"\n")
            if at >= 0 or not chunk:
                return length + max(at, 0)
            length += len(chunk)
        return None


class TextInputs:
    """The text of some inputs, one after the other: paths, plain or compressed, or "-" for standard input.  stop() is
    polled while a pipe has nothing ready; where it says True, reading ends as if the pipe had."""

    def __init__(self, names: list[str], stop: Callable[[], bool] = lambda: False):
        self.names, self.stop = names, stop
        self.first: OpenText | None = None
        self.format: str | None = None  # where it is known
        self.quote = -1  # the byte in which line breaks may stand, between which pieces are rather not cut

    def __enter__(self) -> TextInputs:
        return self

    def __exit__(self, *error) -> None:
        if self.first is not None:
            self.first.close()
            self.first = None

    def head(self) -> bytes:
        """The first bytes of the first input, of a pipe its first line; ``pieces`` gives them nevertheless."""
        self.first = self.first or OpenText(self.names[0], self.stop)
        return self.first.look_ahead()

    def settled(self, format_, requested: Mapping, memory: int) -> dict:
        """All settings of a format, by the first lines, or by one where it is known what they decide."""
        self.first = self.first or OpenText(self.names[0], self.stop)
        decided, lines = getattr(format_, "looks_at", ("", 0))
        lines = 1 if decided in requested else lines
        head = self.first.whole_lines(lines, memory) if lines else self.first.look_ahead()
        return format_.settled(requested, head, self.names[0])

    def pieces(self, piece_bytes: int, limit: LineLimit, eager: bool = False, digested: bool = True,
               spare: queue.SimpleQueue | None = None) -> Generator[TextPiece, None, None]:  # fmt: skip
        """Pieces of about ``piece_bytes``; a longer line makes a longer piece, up to the limit.  Each piece owns its
        memory.  eager: what a pipe has ready makes a piece, however small; digested: the source's fingerprint is
        wanted; spare: arrays of pieces that are done with, to be filled again.  Raises InputError for a missing,
        unreadable, truncated or binary file, and for a line that is too long."""
        sizes = [file_size(name) for name in self.names]
        total = None if None in sizes else sum(sizes)
        stored_before = 0
        for name, size in zip(self.names, sizes, strict=True):
            opened, self.first = self.first or OpenText(name, self.stop), None
            try:
                once = eager and size is None
                for text, end, at in _pieces_of(opened, piece_bytes, limit, once, digested, spare, self.quote):
                    done = None
                    if total is not None:
                        done = min(1.0, (stored_before + opened.stored.tell()) / total) if total else 1.0
                    begins = not opened.source.first_line
                    if begins:
                        opened.source.first_line = text[:end].tobytes().partition(b"\n")[0] + b"\n"
                    yield TextPiece(opened.source, text, end, done, begins, at)
            finally:
                opened.close()
            stored_before += size or 0


def _pieces_of(opened: OpenText, piece_bytes: int, limit: LineLimit, once: bool, digested: bool, spare, quote: int):
    """(text, end, at) of pieces of one input."""
    source = opened.source
    plain = opened.text is opened.stored and source.stored_bytes is not None and not is_url(source.name)
    digest = xxh3_128(opened.mark)
    source.text_bytes = len(opened.mark)
    carry = np.empty(0, np.uint8)
    while True:
        if len(carry) > limit.n_bytes:
            raise InputError(_too_long(opened, len(carry), limit))
        capacity = max(piece_bytes, 2 * len(carry))
        # after the text: a missing last newline, and what the parser may look ahead
        length, buffer = capacity + 1 + SPARE, taken(spare)
        buffer = buffer if buffer is not None and len(buffer) == length else np.empty(length, np.uint8)
        buffer[: len(carry)] = carry
        filled = opened.take(memoryview(buffer)[len(carry) : capacity], once)
        if digested:
            digest.update(buffer[len(carry) : len(carry) + filled])
        source.text_bytes += filled
        end = len(carry) + filled
        at = source.text_bytes - end if plain else None
        last = filled == 0 if once else filled < capacity - len(carry)
        if source.text_bytes == len(opened.mark) + filled and (last or not once):
            _check_text(source.name, buffer[:end])
        if last:
            opened.check_whole()
            if end and buffer[end - 1] != NEWLINE:
                buffer[end] = NEWLINE
                end += 1
            stop = end
        else:
            stop = last_newline(buffer, end) + 1
            stop = _before_open(buffer, stop, quote) if quote >= 0 else stop
        carry = buffer[stop:end].copy()
        if stop:
            yield buffer, stop, at
        if last:
            break
    source.fingerprint = digest.hexdigest()


def _check_text(name: str, begin: np.ndarray) -> None:
    """InputError where the first bytes of an input are those of an archive, or of lines that end otherwise."""
    if begin[257:262].tobytes() == b"ustar":
        raise InputError(f"{shown_name(name)}: is a tar archive; unpack it, as tar xf does, and give the files in it")
    returns = np.flatnonzero(begin[:HEAD_BYTES] == RETURN)
    if len(returns) and returns[0] + 1 < len(begin) and not (begin == NEWLINE).any():
        raise InputError(f"{shown_name(name)}: {LONE_RETURNS}")


def not_utf8(text: np.ndarray) -> int | None:
    """Where the first byte stands that makes whole lines (n,) uint8 no UTF-8; None: they are."""
    start = 0
    while start < len(text):
        stop = min(start + LOOKED_BYTES, len(text))
        if stop < len(text):  # a character does not go on after a line's end
            stop = last_newline(text[:stop], stop) + 1 or len(text)
        part = text[start:stop]
        if part.max() > LAST_ASCII:
            try:
                part.tobytes().decode()
            except UnicodeDecodeError as error:
                return start + error.start
        start = stop
    return None


def utf8_lines(text: np.ndarray, end: int) -> tuple[int, tuple[int, str] | None]:
    """(where the lines ``text[:end]`` that are UTF-8 end, the fault after them: (line, sentence), or None)"""
    wrong = not_utf8(text[:end])
    if wrong is None:
        return end, None
    begin = last_newline(text, wrong) + 1
    return begin, (int(np.count_nonzero(text[:begin] == NEWLINE)), NOT_UTF8)


def _too_long(opened: OpenText, carried: int, limit: LineLimit) -> str:
    """The sentence for a line of which so many bytes were read."""
    begin = opened.source.text_bytes - carried
    remaining = opened.rest_of_line()
    where = f"{shown_name(opened.source.name)}: the line at byte {begin:,}"
    if remaining is None:
        return f"{where} does not end within {FARTHEST_END / 1e6:,.0f} MB; check that this is text with a row a line"
    length = carried + remaining
    need = option("memory", Bytes(10**6 * -(-limit.memory_for(length) // 10**6)))
    return f"{where} is {length:,} bytes long; give {need} or more, or check that this is text with a row a line"


def taken(spare: queue.SimpleQueue | None):
    """One of the arrays or buffers that are done with, which threads share; None where there is none."""
    try:
        return None if spare is None else spare.get_nowait()
    except queue.Empty:
        return None


def last_newline(buffer: np.ndarray, end: int) -> int:
    """Position of the last newline in ``buffer[:end]``, -1 if there is none."""
    step = 1 << 16
    for stop in range(end, 0, -step):
        start = max(0, stop - step)
        at = buffer[start:stop].tobytes().rfind(b"\n")
        if at >= 0:
            return start + at
    return -1


def _before_open(buffer: np.ndarray, stop: int, quote: int) -> int:
    """Where to cut in place of ``stop``, so that the last record of the whole lines ``buffer[:stop]`` is not one whose
    quotes are open, if that began within ``MOST_OPEN`` lines."""
    if np.count_nonzero(buffer[:stop] == quote) % 2 == 0:
        return stop
    begin = end = stop
    for _ in range(MOST_OPEN):
        begin, end = last_newline(buffer, end - 1) + 1, begin
        if np.count_nonzero(buffer[begin:end] == quote) % 2 or not begin:
            return begin or stop
        end = begin
    return stop


def word_at(text: np.ndarray, position: int) -> str:
    """The word at ``position``, quoted, with what is not printable escaped; for messages."""
    if position < 0:
        return ""
    word = text[position : position + 40].tobytes().split(b"\n")[0].split()
    return quoted(word[0] if word else b"")


def is_number(token: str) -> bool:
    """Whether a word, as ``word_at`` gives it, is a number, nan and inf among them."""
    try:
        float(token.strip("'"))
    except ValueError:
        return False
    return True


def quoted(word: bytes) -> str:
    """Bytes in quotes, with what is not printable ASCII escaped."""
    return "'" + word.decode("latin-1").encode("unicode_escape").decode() + "'"
