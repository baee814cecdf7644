"""A file of the rows' weights, one a line, plain or compressed, read piece by piece."""

from collections.abc import Iterator

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.row_batch import shown_name
from blocksvm.formats.text.text_source import LineLimit, TextInputs

PIECE_BYTES = 1 << 18
LONGEST_LINE = 1 << 16  # bytes
SHOWN_BYTES = 40  # bytes of a wrong line that are shown


def weights_in(text: bytes, n: int) -> np.ndarray | None:
    """The weights in n lines, or None where a line is wrong."""
    words = text.split()
    if len(words) != n:
        return None
    try:
        weights = np.array(words).astype(np.float64) if n else np.empty(0)
    except ValueError:
        return None
    return weights if (np.isfinite(weights) & (weights >= 0.0)).all() else None


class RowWeights:
    """Weights of rows, one for each in the order of the inputs; name: of their file."""

    def __init__(self, name: str):
        self.name, self.pieces = name, self._pieces()
        self.n_taken, self.left = 0, np.empty(0)

    def _pieces(self) -> Iterator[np.ndarray]:
        before = 0
        for piece in TextInputs([self.name]).pieces(PIECE_BYTES, LineLimit(LONGEST_LINE, lambda n_bytes: 4 * n_bytes)):
            text = piece.text[: piece.end].tobytes()
            n = text.count(b"\n")
            weights = weights_in(text, n)
            if weights is None:
                lines = text.split(b"\n")[:-1]
                k = next(k for k, line in enumerate(lines) if weights_in(line, 1) is None)
                shown = lines[k][:SHOWN_BYTES].decode("utf-8", "replace")
                what = "is not a weight; each line has one finite number of 0 or more"
                raise InputError(f"{shown_name(self.name)}:{before + k + 1}: '{shown}' {what}")
            before += n
            if n:
                yield weights

    def take(self, n: int) -> np.ndarray:
        """The next n weights, float64; InputError where there are fewer, or one is not a finite number of 0 or more."""
        while len(self.left) < n:
            more = next(self.pieces, None)
            if more is None:
                raise InputError(
                    f"{shown_name(self.name)}: has {self.n_taken + len(self.left):,} weights, and there are more rows; "
                    f"{option('weights')} needs one a row"
                )
            self.left = np.append(self.left, more)
        taken, self.left = self.left[:n], self.left[n:]
        self.n_taken += n
        return taken

    def finish(self) -> None:
        """InputError where weights are left that no row took."""
        if len(self.left) or len(next(self.pieces, np.empty(0))):
            raise InputError(
                f"{shown_name(self.name)}: has more weights than the {self.n_taken:,} rows that there are; "
                f"{option('weights')} needs one a row"
            )
