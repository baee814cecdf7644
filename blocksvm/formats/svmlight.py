"""svmlight / LIBSVM text: a piece of it to rows, and every fault as a sentence with its file and line."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from blocksvm.errors import InputError
from blocksvm.formats.text import TextPiece
from blocksvm.kernels import text as codes
from blocksvm.kernels.text import close_rows, parse_rows
from blocksvm.kernels.words import COLON, NEWLINE, SPARE

LINES_AFTER_FAULT = 64

FAULTS = {
    codes.BAD_LABEL: "{token} is not a number; a line is 'label id:value id:value ...'",
    codes.NO_LABEL: "the line has no label (it begins with {token}); a line is 'label id:value id:value ...'",
    codes.BAD_PAIR: "{token} is not id:value",
    codes.BAD_ID: "{token} does not begin with a feature id, a whole number of 0 or more",
    codes.NEGATIVE_ID: "{token}: feature ids must be 0 or more",
    codes.BIG_ID: "{token}: feature ids go up to 9223372036854775807; hash or renumber them",
    codes.BAD_VALUE: "{token}: the value is not a number",
    codes.NOT_FINITE: "{token}: not a finite number; remove the entry or give it a value",
    codes.BIG_VALUE: "a value lies beyond {dtype}; {cure}",
    codes.DUPLICATE: "a feature id occurs twice in the row; mend it, or add them up with --duplicates sum",
    codes.BIG_NORM: "the squares of the row's values add up to more than float64 holds; scale the features",
}


@dataclass(frozen=True)
class TextFormat:
    """How text is to be read: labels required, duplicate ids summed, rows scaled to norm 1, float32 or float64."""

    labelled: bool = True
    sum_duplicates: bool = False
    l2: bool = False
    dtype: str = "float32"


@dataclass(frozen=True)
class ParsedRows:
    """Rows of text: labels (n,) float64 (nan: none), indptr (n + 1,) int64, ids (nnz,) int64 ascending in each row,
    values (nnz,) float64 (already rounded to the dtype wanted), n_lines the lines of the piece, lines (n,) int64 that
    of each row (0-based within the piece).

    fault: (line, what) of the first bad line, which comes after these rows; line is 0-based within the piece.
    largest: ||x||^2 of the longest row, or of one that comes after these.
    """

    piece: TextPiece
    labels: np.ndarray
    indptr: np.ndarray
    ids: np.ndarray
    values: np.ndarray
    n_lines: int
    lines: np.ndarray
    fault: tuple[int, str] | None
    largest: float = 0.0


def parse_skipping(piece: TextPiece, form: TextFormat) -> list[ParsedRows]:
    """The same in parts, each of which ends with a bad line, but the last: what comes after it is parsed nevertheless.

    After a bad line only some lines are tried, then twice as many each time, so that a bad line costs little.
    """
    parts: list[ParsedRows] = []
    starts = None
    line, most = 0, None
    while True:
        begin = 0 if starts is None else int(starts[line])
        last = None if most is None else min(line + most, len(starts) - 1)
        end = piece.end if last is None else int(starts[last])
        parsed = parse_piece(TextPiece(piece.source, piece.text[begin:], end - begin, piece.fraction), form)
        if parsed.fault is None:
            parts.append(parsed)
            if end == piece.end:
                return parts
            line, most = last, 2 * most
        else:
            if starts is None:
                starts = np.append(0, np.flatnonzero(piece.text[: piece.end] == NEWLINE) + 1)
            parts.append(replace(parsed, n_lines=parsed.fault[0] + 1))
            line, most = line + parsed.fault[0] + 1, LINES_AFTER_FAULT
            if line == len(starts) - 1:
                return parts


class Room:
    """Memory for the rows of one piece, which can be used again: fresh memory costs half as much as parsing into it."""

    def __init__(self, n_rows: int, n_entries: int):
        self.labels = np.empty(n_rows)
        self.indptr = np.empty(n_rows + 1, np.int64)
        self.lines = np.empty(n_rows, np.int64)
        self.ids = np.empty(n_entries, np.int64)
        self.values = np.empty(n_entries)

    @classmethod
    def for_bytes(cls, n_bytes: int) -> Room:
        """Enough for any text of this length: a row takes two bytes or more, an entry (" 1:1") four."""
        return cls(n_bytes // 2 + 1, n_bytes // 4 + 1)


def parse_piece(piece: TextPiece, form: TextFormat, room: Room | None = None) -> ParsedRows:
    """Parse whole lines; a fault is kept for whoever knows at which line of its file the piece begins.

    room: memory for the rows, which are then valid until it is used again.
    """
    text, end = piece.text, piece.end
    if len(text) < end + SPARE:  # the parser looks ahead
        text = np.append(text[:end], np.zeros(SPARE, np.uint8))
    if room is None:
        # every row ends with a newline, every pair has a colon
        room = Room(np.count_nonzero(text[:end] == NEWLINE), np.count_nonzero(text[:end] == COLON))
    labels, indptr, lines, ids, values = room.labels, room.indptr, room.lines, room.ids, room.values
    undecided = np.empty((1024, 3), np.int64)
    single = form.dtype == "float32"
    # else a row's values are rounded after they have been added up, or scaled
    closing = not form.l2 and not form.sum_duplicates
    while True:
        rows, line, code, position, n_undecided, closed, largest = parse_rows(
            text, end, form.labelled, closing, single, labels, indptr, ids, values, lines, undecided
        )
        if n_undecided <= len(undecided):
            break
        undecided = np.empty((n_undecided, 3), np.int64)
    fault = None if code == codes.FINE else (line, _sentence(code, form, _token(text, position)))
    for target, start, stop in undecided[:n_undecided].tolist():
        number = float(text[start:stop].tobytes())
        row = -1 - target if target < 0 else int(np.searchsorted(indptr[: rows + 1], target, side="right")) - 1
        if row >= rows:
            continue  # in the bad line itself
        if not np.isfinite(number):
            rows = row
            fault = (int(lines[row]), _sentence(codes.BIG_VALUE, form, ""))
            break
        if target < 0:
            labels[row] = number + 0.0  # -0 is 0
        else:
            values[target] = number
    done, code, rest = close_rows(indptr, min(closed, rows), rows, ids, values, form.sum_duplicates, form.l2, single)
    if code != codes.FINE:
        rows = done
        fault = (int(lines[done]), _sentence(code, form, ""))
    nnz = indptr[rows]
    return ParsedRows(
        piece, labels[:rows], indptr[: rows + 1], ids[:nnz], values[:nnz], line, lines[:rows], fault, max(largest, rest)
    )


def _sentence(code: int, form: TextFormat, token: str) -> str:
    cure = "use --dtype float64 or scale the feature" if form.dtype == "float32" else "scale the feature"
    return FAULTS[code].format(token=token, dtype=form.dtype, cure=cure)


def _token(text: np.ndarray, position: int) -> str:
    """The word at ``position``, quoted, with what is not printable escaped."""
    if position < 0:
        return ""
    word = text[position : position + 40].tobytes().split(b"\n")[0].split()
    shown = word[0] if word else b""
    return "'" + shown.decode("ascii", "backslashreplace").encode("unicode_escape").decode() + "'"


class LineCounter:
    """Turns faults within pieces into sentences with file and line, in the order of the pieces."""

    def __init__(self):
        self.source = None
        self.lines = 0

    def at(self, parsed: ParsedRows, line: int, what: str) -> str:
        """'file:line: what' for a line (0-based) of a piece that follows those that were counted."""
        if parsed.piece.source is not self.source:
            self.source = parsed.piece.source
            self.lines = 0
        name = "standard input" if self.source.name == "-" else self.source.name
        return f"{name}:{self.lines + line + 1}: {what}"

    def check(self, parsed: ParsedRows) -> None:
        """Raise InputError if the piece had a fault; else count its lines."""
        if parsed.fault is not None:
            raise InputError(self.at(parsed, *parsed.fault))
        self.count(parsed)

    def count(self, parsed: ParsedRows) -> None:
        """Count the lines of a piece, whatever was found in it."""
        self.at(parsed, 0, "")
        self.lines += parsed.n_lines
