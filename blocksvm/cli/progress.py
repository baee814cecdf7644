"""One line of progress, how fast what it is about goes, and sentences broken to a terminal's width."""

import os
import textwrap
import time
from functools import partial

from blocksvm.base.errors import printable


class Line:
    """One line of progress: rewritten in place on a terminal, printed now and then elsewhere."""

    EVERY = 5.0  # seconds between lines that are not rewritten

    def __init__(self, stream, quiet: bool):
        self.stream, self.quiet = stream, quiet
        self.write = getattr(stream, "draw", stream.write)
        self.terminal = not quiet and stream.isatty()
        self.last = time.perf_counter()
        self.width = 0

    def show(self, text: str) -> None:
        now = time.perf_counter()
        if self.quiet or now - self.last < (0.1 if self.terminal else self.EVERY):
            return
        self.last = now
        text = printable(text)
        if self.terminal:
            self.write("\r" + text.ljust(self.width))
            self.width = len(text)
        else:
            self.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        if self.terminal and self.width:
            self.write("\r" + " " * self.width + "\r")
            self.stream.flush()
            self.width = 0


def wrap_text(text: str, stream) -> str:
    """The text as it goes to this stream: as it is, or on a terminal with its longer lines broken to its width."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):  # it does not tell
        width = 0
    if width < 10:
        return text
    fill = partial(textwrap.fill, width=width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(fill(line) if len(line) > width else line for line in text.split("\n"))
