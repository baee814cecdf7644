"""Weights of rows from a file of their own: a number a line, one for each row in the order of the inputs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from blocksvm.errors import InputError, called
from blocksvm.formats.text import LineLimit, TextInputs
from blocksvm.rows import shown_name

PIECE_BYTES = 1 << 18
LONGEST_LINE = 1 << 16  # bytes
LOOKED_AT = 40  # bytes of a wrong line that are shown


class RowWeights:
    """A context manager; ``take`` gives the weights of the rows to come.  name: a path, plain or compressed."""

    def __init__(self, name: str):
        self.name = name
        self.text = TextInputs([name])
        self.taken = 0
        self.left = np.empty(0)

    def __enter__(self) -> RowWeights:
        self.text.__enter__()
        self.pieces = self._parsed()
        return self

    def __exit__(self, *error) -> None:
        self.text.__exit__(*error)

    def take(self, n: int) -> np.ndarray:
        """The next n weights, float64; InputError where there are fewer, or where one is not a finite number of 0 or
        more."""
        parts = []
        while n > 0:
            if not len(self.left):
                self.left = next(self.pieces, np.empty(0))
                if not len(self.left):
                    raise InputError(
                        f"{shown_name(self.name)}: has {self.taken:,} weights, and there are more rows; "
                        f"{called('weights')} needs one a row"
                    )
            part, self.left = self.left[:n], self.left[n:]
            self.taken += len(part)
            n -= len(part)
            parts.append(part)
        return np.concatenate(parts) if parts else np.empty(0)

    def finish(self) -> None:
        """InputError where weights are left that no row took."""
        if len(self.left) or len(next(self.pieces, np.empty(0))):
            raise InputError(
                f"{shown_name(self.name)}: has more weights than the {self.taken:,} rows that there are; "
                f"{called('weights')} needs one a row"
            )

    def _parsed(self) -> Iterator[np.ndarray]:
        lines = 0
        limit = LineLimit(LONGEST_LINE, lambda n_bytes: 4 * n_bytes)
        for piece in self.text.pieces(PIECE_BYTES, limit):
            text = piece.text[: piece.end].tobytes()
            n = text.count(b"\n")
            found = self._numbers(text, n)
            if found is None:
                raise InputError(self._fault(text, lines))
            lines += n
            if n:
                yield found

    @staticmethod
    def _numbers(text: bytes, n: int) -> np.ndarray | None:
        """The numbers of n lines, or None where a line is wrong."""
        words = text.split()
        if len(words) != n:
            return None
        try:
            found = np.array(words).astype(np.float64) if n else np.empty(0)
        except ValueError:
            return None
        return found if (np.isfinite(found) & (found >= 0.0)).all() else None

    def _fault(self, text: bytes, before: int) -> str:
        """file:line and what is wrong with the first line that is none of one weight."""
        for number, line in enumerate(text.split(b"\n")[:-1], before + 1):
            if self._numbers(line + b"\n", 1) is None:
                shown = line[:LOOKED_AT].decode("utf-8", "replace")
                where = f"{shown_name(self.name)}:{number}"
                return f"{where}: '{shown}' is not a weight; each line has one finite number of 0 or more"
        raise AssertionError("some line was wrong")
