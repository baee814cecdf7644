"""A file of numbers, one a line, read piece by piece: the rows' weights, or the numbers of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.row_batch import shown_name
from blocksvm.formats.text.text_source import LineLimit, TextInputs

PIECE_BYTES = 1 << 18
LONGEST_LINE = 1 << 16  # bytes
SHOWN_BYTES = 40  # bytes of a wrong line that are shown


class NumberLines:
    """A context manager; iterating gives pieces (n,) float64.

    name: a path, plain or compressed; sound(numbers) tells which of them may stand there; wanted: of a line that is
    wrong, "is not " and what each line should be.
    """

    def __init__(self, name: str, sound: Callable[[np.ndarray], np.ndarray], wanted: str):
        self.name = name
        self.sound = sound
        self.wanted = wanted
        self.text = TextInputs([name])

    def __enter__(self) -> NumberLines:
        self.text.__enter__()
        return self

    def __exit__(self, *error) -> None:
        self.text.__exit__(*error)

    def __iter__(self) -> Iterator[np.ndarray]:
        lines = 0
        limit = LineLimit(LONGEST_LINE, lambda n_bytes: 4 * n_bytes)
        for piece in self.text.pieces(PIECE_BYTES, limit):
            text = piece.text[: piece.end].tobytes()
            n = text.count(b"\n")
            numbers = self._numbers(text, n)
            if numbers is None:
                raise InputError(self._fault(text, lines))
            lines += n
            if n:
                yield numbers

    def _numbers(self, text: bytes, n: int) -> np.ndarray | None:
        """The numbers of n lines, or None where a line is wrong."""
        words = text.split()
        if len(words) != n:
            return None
        try:
            numbers = np.array(words).astype(np.float64) if n else np.empty(0)
        except ValueError:
            return None
        return numbers if self.sound(numbers).all() else None

    def _fault(self, text: bytes, before: int) -> str:
        """file:line and what is wrong with the first line that is none of one number."""
        for number, line in enumerate(text.split(b"\n")[:-1], before + 1):
            if self._numbers(line + b"\n", 1) is None:
                shown = line[:SHOWN_BYTES].decode("utf-8", "replace")
                return f"{shown_name(self.name)}:{number}: '{shown}' is not {self.wanted}"
        raise AssertionError("some line was wrong")
