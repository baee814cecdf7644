"""The standard streams as commands use them: closed ones are replaced, progress that nobody can read is dropped.

Imports nothing heavy, so that ``--help`` is quick.
"""

import contextlib
import io
import os
import sys
from collections.abc import Iterator

from blocksvm.base.errors import shown_lines


class OutputClosed(Exception):
    """The reader of standard output has closed it."""


class Nowhere(io.TextIOBase):
    """In place of a standard stream that was closed before the command began: takes everything, keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)


class Diagnostics:
    """Standard error: what can't be written is dropped, for a lost line of progress must not end a training.

    What is written may hold texts of files: control characters but line ends and tabs come out as escapes.
    """

    def __init__(self, stream):
        self.stream = stream

    def __getattr__(self, name: str):
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        return self.draw(shown_lines(text))

    def draw(self, text: str) -> int:
        """Write what may move the cursor of a terminal."""
        try:
            return self.stream.write(text)
        except OSError as error:
            self.failed(error)
            return len(text)

    def flush(self) -> None:
        try:
            self.stream.flush()
        except OSError as error:
            self.failed(error)

    def failed(self, error: OSError) -> None:
        # what still lies in the stream's buffer goes there, so that Python's own flush at its end does not fail
        with contextlib.suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.stream.fileno())
            os.close(nowhere)


class Results(Diagnostics):
    """Standard output: raises OutputClosed where its reader is gone, and names itself in any other error."""

    def failed(self, error: OSError) -> None:
        super().failed(error)
        if isinstance(error, BrokenPipeError):
            raise OutputClosed from error
        raise OSError(error.errno, error.strerror, "standard output") from error


def is_closed(stream) -> bool:
    """Whether a standard stream was closed before the command began (``>&-``)."""
    return isinstance(getattr(stream, "stream", stream), Nowhere)


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """While a command runs, ``sys.stdout`` and ``sys.stderr`` exist and fail as said above, and write an escape for a
    character that their encoding lacks; who reads ``sys.stdin`` finds it None where it was closed."""
    before = sys.stdout, sys.stderr
    # numbers 0 to 2 are taken before a file of ours gets one, into which a library's messages would be written
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = Results(Nowhere() if sys.stdout is None else sys.stdout)
    sys.stderr = Diagnostics(Nowhere() if sys.stderr is None else sys.stderr)
    wrappers = [(stream, stream.errors) for stream in before if isinstance(stream, io.TextIOWrapper)]
    for stream, _ in wrappers:
        stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        for stream, errors in wrappers:
            if not stream.closed:
                stream.reconfigure(errors=errors)
        sys.stdout, sys.stderr = before
