"""Sentences on a terminal: broken at blanks where it would break them within a number."""

from __future__ import annotations

import os
import textwrap


def width_of(stream) -> int | None:
    """The columns of a terminal; None where the stream is none, or one that does not tell."""
    try:
        return os.get_terminal_size(stream.fileno()).columns if stream.isatty() else None
    except (OSError, ValueError):
        return None


def wrap_text(text: str, stream) -> str:
    """The text as it goes to this stream: as it is, or on a terminal with its longer lines broken to its width."""
    width = width_of(stream)
    return text if width is None else "\n".join(_wrap_line(line, width) for line in text.split("\n"))


def _wrap_line(line: str, width: int) -> str:
    if len(line) <= width or width < 10:
        return line
    return textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
