"""Bytes of text from files, compressed files or standard input, in pieces that end where a line ends."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import queue
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from xxhash import xxh3_128

from blocksvm.errors import InputError
from blocksvm.kernels.words import NEWLINE, SPARE

ZSTD_PIECE = 1 << 14  # compressed bytes at a time: what they hold must fit in memory


@dataclass
class TextSource:
    """One input as it was read: its name, and what is known of it at its end."""

    name: str
    stored_bytes: int | None  # size of the file, None for a pipe
    text_bytes: int = 0
    fingerprint: str = ""


@dataclass(frozen=True)
class TextPiece:
    """Whole lines of one input: ``text[:end]`` uint8, the last byte a newline; ``fraction`` of all input read so far
    (None where it cannot be known)."""

    source: TextSource
    text: np.ndarray
    end: int
    fraction: float | None


class ZstdFile(io.RawIOBase):
    """What zstd frames hold.  EOFError where the last one is cut, which zstandard's own reader takes for the end."""

    def __init__(self, stored: io.BufferedIOBase):
        self.stored = stored
        self.frame = None  # the decoder of the frame that is open
        self.compressed = b""
        self.ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        import zstandard

        while not self.ready:
            self.compressed = self.compressed or self.stored.read(ZSTD_PIECE)
            if not self.compressed:
                if self.frame is not None:
                    raise EOFError
                return 0
            if self.frame is None:
                self.frame = zstandard.ZstdDecompressor().decompressobj()
            self.ready = memoryview(self.frame.decompress(self.compressed))
            self.compressed = b""
            if self.frame.eof:
                self.compressed = self.frame.unused_data
                self.frame = None
        n = min(len(buffer), len(self.ready))
        buffer[:n] = self.ready[:n]
        self.ready = self.ready[n:]
        return n


def open_source(name: str) -> tuple[TextSource, io.BufferedIOBase, io.BufferedIOBase]:
    """(source, stored bytes, decompressed bytes) for a path or "-"; the compression is told by the first bytes."""
    if name == "-":
        if sys.stdin is None:
            raise InputError("standard input: is closed; give the names of files, or pipe the text in")
        raw = sys.stdin.buffer
        size = None
    else:
        path = Path(name)
        if path.is_dir():
            raise InputError(f"{name}: is a folder; give the names of the files in it")
        try:
            raw = open(path, "rb")  # noqa: SIM115 (closed by the caller)
            size = os.fstat(raw.fileno()).st_size if path.is_file() else None
        except FileNotFoundError as error:
            raise InputError(f"{name}: no such file") from error
        except OSError as error:
            raise InputError(f"{name}: cannot be read ({error.strerror})") from error
    buffered = raw if isinstance(raw, io.BufferedReader) else io.BufferedReader(raw)
    magic = buffered.peek(6)[:6]
    if magic[:2] == b"\x1f\x8b":
        text = gzip.GzipFile(fileobj=buffered)
    elif magic[:3] == b"BZh":
        text = bz2.BZ2File(buffered)
    elif magic == b"\xfd7zXZ\x00":
        text = lzma.LZMAFile(buffered)  # noqa: SIM115 (closed by the caller)
    elif magic[:4] == b"\x28\xb5\x2f\xfd":
        text = io.BufferedReader(ZstdFile(buffered))
    else:
        text = buffered
    return TextSource(name, size), buffered, text


def text_pieces(
    names: list[str],
    piece_bytes: int,
    largest_line: int,
    eager: bool = False,
    digested: bool = True,
    spare: queue.SimpleQueue | None = None,
) -> Iterator[TextPiece]:
    """Pieces of about ``piece_bytes`` of all inputs in turn; a longer line makes a longer piece, up to
    ``largest_line``.  Each piece owns its memory.  eager: what a pipe has ready makes a piece, however small; digested:
    the source's fingerprint is wanted; spare: arrays of pieces that are done with, to be filled again.

    Raises InputError for a missing, unreadable, truncated or binary file.
    """
    sizes = [Path(name).stat().st_size if name != "-" and Path(name).is_file() else None for name in names]
    total = None if None in sizes else sum(sizes)
    behind = 0
    for name, size in zip(names, sizes, strict=True):
        source, stored, text = open_source(name)
        digest = xxh3_128()
        carry = np.empty(0, np.uint8)
        try:
            while True:
                capacity = max(piece_bytes, 2 * len(carry))
                if len(carry) > largest_line:
                    raise InputError(
                        f"{name}: a line is longer than {largest_line} bytes, more than --memory allows; "
                        "raise --memory, or check that this is svmlight text"
                    )
                # behind the text: a missing last newline, and what the parser may look ahead
                buffer = _take(spare, capacity + 1 + SPARE)
                buffer[: len(carry)] = carry
                room = memoryview(buffer)[len(carry) : capacity]
                filled = _read_once(name, text, room) if eager and size is None else _read_full(name, text, room)
                if digested:
                    digest.update(buffer[len(carry) : len(carry) + filled])
                source.text_bytes += filled
                end = len(carry) + filled
                last = filled == 0 if eager and size is None else filled < capacity - len(carry)
                if last:
                    if end and buffer[end - 1] != NEWLINE:
                        buffer[end] = NEWLINE
                        end += 1
                    stop = end
                else:
                    stop = _last_newline(buffer, end) + 1
                carry = buffer[stop:end].copy()
                fraction = None
                if total is not None:
                    fraction = min(1.0, (behind + stored.tell()) / total) if total else 1.0
                if stop:
                    yield TextPiece(source, buffer, stop, fraction)
                if last:
                    break
        finally:
            if name != "-":
                text.close()
                stored.close()
        source.fingerprint = digest.hexdigest()
        behind += size or 0


def _take(spare: queue.SimpleQueue | None, length: int) -> np.ndarray:
    """A spare array of this length, or a new one."""
    try:
        array = None if spare is None else spare.get_nowait()
    except queue.Empty:
        array = None
    return array if array is not None and len(array) == length else np.empty(length, np.uint8)


def _read_once(name: str, text, view: memoryview) -> int:
    """As much as is ready, at least a byte; 0 at the end."""
    if isinstance(text, io.BufferedReader) and len(view):
        return text.readinto1(view)
    return _read_full(name, text, view)


def _read_full(name: str, text, view: memoryview) -> int:
    """Fill ``view`` as far as the input goes."""
    filled = 0
    try:
        while filled < len(view):
            n = text.readinto(view[filled:])
            if not n:
                break
            filled += n
    except EOFError as error:
        raise InputError(f"{name}: the compressed file is truncated; get it again") from error
    except (OSError, zlib.error, lzma.LZMAError, ValueError) as error:
        raise InputError(f"{name}: cannot be decompressed ({error}); get it again") from error
    except Exception as error:
        if type(error).__module__.startswith(("zstandard", "zstd")):
            raise InputError(f"{name}: cannot be decompressed ({error}); get it again") from error
        raise
    return filled


def _last_newline(buffer: np.ndarray, end: int) -> int:
    """Position of the last newline in ``buffer[:end]``, -1 if there is none."""
    step = 1 << 16
    for stop in range(end, 0, -step):
        start = max(0, stop - step)
        found = np.flatnonzero(buffer[start:stop] == NEWLINE)
        if len(found):
            return start + int(found[-1])
    return -1
