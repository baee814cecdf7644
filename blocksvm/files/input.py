"""Files and pipes that are read: a sentence for every failure, one state of each for a whole run; decompression."""

import bz2
import fcntl
import gzip
import io
import lzma
import os
import re
import select
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from blocksvm.base.errors import InputError, advice
from blocksvm.base.row_batch import shown_name
from blocksvm.files.paths import Location, ObjectUrl, location, require_same

BUFFERED = 1 << 16  # bytes of an object: no more than its first request brings
STORED_PIECE = 1 << 14  # compressed bytes at a time: what zstd makes of them must fit in memory
UNPACKED_PIECE = 1 << 18  # bytes that other decoders give at a time
# how archives, and what is compressed otherwise, begin, and how text is made of them
ARCHIVES = {
    b"PK\x03\x04": ("a zip archive, which may be a workbook", "as unzip -p FILE | ... - does"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", "as 7z x -so FILE | ... - does"),
    b"Rar!": ("a rar archive", "as unrar p -inul FILE | ... - does"),
    b"\x04\x22\x4d\x18": ("lz4-compressed", "as lz4 -dc FILE | ... - does"),
    b"\x1f\x9d": ("compressed by compress", "as zcat FILE | ... - does"),
}
POLL_MILLISECONDS = 100
PIPE_BYTES = 1 << 20  # that wait in a pipe, where the system lets it grow: Linux gives 64 kB, which are a piece each


def names_of_inputs(inputs: str | Path | Iterable[str | Path]) -> list[str]:
    """A path or several, as Python users give them; InputError for rows in memory."""
    names = [inputs] if isinstance(inputs, str | os.PathLike) else inputs
    listed = [] if hasattr(names, "shape") or not isinstance(names, Iterable) else list(names)
    if not listed or not all(isinstance(name, str | os.PathLike) for name in listed):
        cure = ("write rows in memory to a file first, as table.to_parquet or scipy.sparse.save_npz does, or give them "
                "to fit and Model.predict")  # fmt: skip
        raise InputError(f"the input is {type(inputs).__name__}, and names of files are needed; {cure}")
    return [os.fspath(name) for name in listed]


@contextmanager
def named_errors(path: Location) -> Iterator[None]:
    """Errors of the system meanwhile, with ``path`` in them."""
    try:
        yield
    except (OSError, RuntimeError) as error:
        number = system_number(error)
        filename = getattr(error, "filename", None)
        if number is None or not (filename is None or str(filename).endswith(".partial")):
            raise
        words = error.strerror if isinstance(error, OSError) and error.strerror else os.strerror(number)
        raise OSError(number, words, str(path)) from error


def system_number(error: BaseException) -> int | None:
    """The system's number of an error; HDF5 has it in a sentence."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    named = re.search(r"errno = (\d+)", str(error))
    return int(named[1]) if named else None


class InputFile(io.FileIO):
    """A file opened for reading; OSError names it, also where reading fails."""

    def __init__(self, path: Path):
        super().__init__(path, "r")
        try:
            require_same(path, os.fstat(self.fileno()))
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        with suppress(OSError):  # nothing is lost of what was read
            super().close()

    def readinto(self, buffer) -> int | None:
        with named_errors(self.name):
            return super().readinto(buffer)

    def readall(self) -> bytes:
        with named_errors(self.name):
            return super().readall()


def raise_system_error(error: BaseException, name: str) -> None:
    """Raise the error of the system behind what a library raised, if there is one, with the file's name."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.errno is not None:
            raise OSError(cause.errno, os.strerror(cause.errno), name) from error
        cause = cause.__cause__ or cause.__context__


def open_input(path: str | Location) -> io.BufferedReader:
    """A file or an object, to read bytes from; OSError where it cannot be, InputError where the run met another one."""
    where = location(path)
    if isinstance(where, ObjectUrl):
        from blocksvm.files.remote import ObjectFile

        return io.BufferedReader(ObjectFile(where.remote, whole=True), BUFFERED)
    return io.BufferedReader(InputFile(where))


class Pipe(io.RawIOBase):
    """The bytes of a descriptor.  stop() is polled while none arrive; where it returns True, reading ends.

    A read that cannot be interrupted would keep its thread, and the program's end, waiting for the other side.
    """

    def __init__(self, descriptor: int, stop: Callable[[], bool], owned: bool):
        self.descriptor, self.stop, self.owned = descriptor, stop, owned
        self.ready = select.poll()
        self.ready.register(descriptor, select.POLLIN)
        self.ended = False
        with suppress(AttributeError, OSError):  # no Linux; no pipe, or the user has too many
            if fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) < PIPE_BYTES:
                fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, PIPE_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        """All that is ready, as far as there is room; waits for the first byte alone."""
        view, filled = memoryview(buffer), 0
        while not self.ended and filled < len(view) and (filled or not self.stop()):
            if self.ready.poll(0 if filled else POLL_MILLISECONDS):
                n = os.readv(self.descriptor, [view[filled:]])
                filled += n
                self.ended = n == 0
            elif filled:
                break
        return filled

    def close(self) -> None:
        if self.owned and not self.closed:
            os.close(self.descriptor)
        super().close()


class CompressedStreams(io.RawIOBase):
    """The text of compressed streams one after the other, as ``cat a.xz b.xz`` makes them; zeros may lie between.

    Python's own readers take a damaged second stream for padding after the first, and drop it; and zstandard's takes
    a stream that is cut for the end.  Here whatever is no stream is an error of the decoder, and EOFError says that
    the last stream is cut.  make(): a decoder as bz2 and lzma have them.
    """

    def __init__(self, stored: io.BufferedReader, make: Callable):
        self.stored, self.make = stored, make
        self.decoder = None  # of the stream that is open
        self.compressed = b""
        self.ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        while not self.ready:
            if self.decoder is None or (self.decoder.needs_input and not self.compressed):
                self.compressed = self.compressed or self.stored.read1(STORED_PIECE)
                if not self.compressed:
                    if self.decoder is not None:
                        raise EOFError
                    return 0
            if self.decoder is None:
                self.compressed = self.compressed.lstrip(b"\0")
                if not self.compressed:
                    continue
                self.decoder = self.make()
            self.ready = memoryview(self.decoder.decompress(self.compressed, UNPACKED_PIECE))
            self.compressed = self.decoder.unused_data
            if self.decoder.eof:
                self.decoder = None
        n = min(len(buffer), len(self.ready))
        buffer[:n] = self.ready[:n]
        self.ready = self.ready[n:]
        return n


class ZstdDecoder:
    """zstandard's decoder of one frame, with the methods of bz2's; raises OSError for damage, as bz2's does."""

    needs_input = True

    def __init__(self):
        import zstandard

        self.frame, self.error = zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError

    def decompress(self, data: bytes, most: int) -> bytes:
        try:
            return self.frame.decompress(data)
        except self.error as error:
            raise OSError(str(error)) from error

    def __getattr__(self, name: str):
        return getattr(self.frame, name)


# how compressed text begins, and what decodes it
DECODERS: dict[bytes, Callable] = {
    b"BZh": bz2.BZ2Decompressor, b"\xfd7zXZ\x00": partial(lzma.LZMADecompressor, lzma.FORMAT_XZ),
    b"\x28\xb5\x2f\xfd": ZstdDecoder,
}  # fmt: skip


def open_stored(name: str, stop: Callable[[], bool]) -> tuple[io.BufferedReader, int | None]:
    """(stored bytes, size of the file or None) for a path or "-"; InputError where it cannot be opened."""
    if name == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise InputError("standard input: is closed; give the names of files, or pipe the text in")
        try:
            descriptor = sys.stdin.fileno()
        except (OSError, ValueError):  # something in memory took its place
            return io.BufferedReader(sys.stdin.buffer), None
        return io.BufferedReader(Pipe(descriptor, stop, owned=False)), None
    path = location(name)
    if path.is_dir():
        raise InputError(f"{name}: is a folder; give the names of the files in it")
    try:
        if path.exists() and not path.is_file():
            return io.BufferedReader(Pipe(os.open(path, os.O_RDONLY), stop, owned=True)), None
        file = open_input(path)
        return file, path.stat().st_size if isinstance(path, ObjectUrl) else os.fstat(file.fileno()).st_size
    except FileNotFoundError as error:
        raise InputError(f"{name}: no such file; check the name") from error
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror.lower()}); {advice(error)}") from error


def decompressed(name: str, stored: io.BufferedReader) -> io.BufferedIOBase:
    """The text that the stored bytes hold; the first of them name the compression.

    InputError for an HDF5 file or an archive, which is no text.
    """
    magic = stored.peek(8)[:8]
    if magic.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=stored)
    for start, decoder in DECODERS.items():
        if magic.startswith(start):
            return io.BufferedReader(CompressedStreams(stored, decoder))
    if magic == b"\x89HDF\r\n\x1a\n":
        if re.search(rb"blocksvm\0.{0,64}?store", stored.peek(), re.DOTALL):
            raise InputError(f"{shown_name(name)}: is a store already; train on it with blocksvm train")
        raise InputError(f"{shown_name(name)}: is an HDF5 file, not text; give the text that it was made from")
    for start, (what, cure) in ARCHIVES.items():
        if magic.startswith(start):
            raise InputError(f"{shown_name(name)}: is {what}, which is not read; unpack it into a pipe, {cure}")
    return stored
