"""Sentences on a terminal: broken at blanks where it would break them within a number."""

from __future__ import annotations

import os
import textwrap


def folded(text: str, stream) -> str:
    """The text as it goes to this stream: as it is, or on a terminal with its longer lines broken to its width."""
    try:
        if not stream.isatty():
            return text
        width = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):  # a terminal that does not tell, or no file at all
        return text
    return "\n".join(map(lambda line: _folded(line, width), text.split("\n")))


def _folded(line: str, width: int) -> str:
    if len(line) <= width or width < 10:
        return line
    return textwrap.fill(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
