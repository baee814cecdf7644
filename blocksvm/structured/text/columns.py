"""Texts of the tasks: their lines, and sentences in columns (CoNLL), a token a line, an empty line after each."""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.memory import megabytes
from blocksvm.base.row_batch import shown_name
from blocksvm.files.paths import file_size
from blocksvm.formats.text.text_source import LineLimit, TextInputs

PIECE = 1 << 22  # bytes read at once
COLUMN_BYTES = 4  # a byte of column text takes so many: a word of one letter and its blank make a code, twice


@dataclass(frozen=True)
class Column:
    """A column of words: codes (n_tokens,) int32 are positions in ``words``, the distinct ones by first occurrence."""

    words: list[str]
    codes: np.ndarray


@dataclass(frozen=True)
class ColumnText:
    """Sentences of tokens: columns; bounds (n_sentences + 1,) int64: sentence s is the tokens bounds[s]:bounds[s + 1];
    lines (n_tokens,) int32: the line of each, counted from 1."""

    name: str
    columns: tuple[Column, ...]
    bounds: np.ndarray
    lines: np.ndarray

    def has_target(self, n_columns: int, target: str) -> bool:
        """Whether a column of targets, so called in messages, follows the ``n_columns`` of words that a model reads;
        InputError for other numbers of columns."""
        if len(self.columns) not in (n_columns, n_columns + 1):
            wanted = f"{n_columns}, or {n_columns + 1} with {target}"
            raise InputError(f"{shown_name(self.name)}: has {len(self.columns)} columns; the model wants {wanted}")
        return len(self.columns) > n_columns

    def columns_before(self, target: str) -> int:
        """How many columns of words come before the last one, the target; InputError where there are none."""
        if len(self.columns) == 1:
            what = f"the last one is the {target}, put words before it"
            raise InputError(f"{shown_name(self.name)}: has one column; {what}")
        return len(self.columns) - 1

    def line_of(self, token: int) -> str:
        return f"{shown_name(self.name)}, line {self.lines[token]}"

    def answered(self, n_columns: int, answers: np.ndarray) -> Iterator[str]:
        """The first columns with ``answers`` (n_tokens,), str, after them, a sentence at a time."""
        words = [np.array(c.words, dtype=object)[c.codes] for c in self.columns[:n_columns]]
        tokens = list(map(" ".join, zip(*words, answers, strict=True)))
        for start, stop in pairwise(self.bounds.tolist()):
            yield "\n".join(tokens[start:stop]) + "\n\n"


def require(name: str, what: str, n_bytes: float, memory: int) -> None:
    """InputError unless ``what`` of a text, which takes ``n_bytes`` at most, fits in the memory."""
    if n_bytes > memory:
        raise InputError(
            f"{shown_name(name)}: {what} need {megabytes(n_bytes)}, more than the {megabytes(memory)} of "
            f"{option('memory')}; raise it, or give less text or fewer templates"
        )


def text_lines(name: str, memory: int, byte_bytes: int) -> Iterator[bytes]:
    """The lines of a file, plain or compressed.  InputError as ``TextInputs.pieces`` has it, and where the text, of
    which a byte takes ``byte_bytes`` in memory, does not fit: of a file before it is read."""
    size, total = file_size(name), 0
    require(name, f"its {megabytes(size or 0)} of text", byte_bytes * (size or 0), memory)
    with TextInputs([name]) as inputs:
        for piece in inputs.pieces(PIECE, LineLimit.share(memory, byte_bytes), digested=False):
            total += piece.end
            require(name, f"its first {megabytes(total)} of text", byte_bytes * total, memory)
            yield from piece.text[: piece.end].tobytes().split(b"\n")[:-1]


def decoded(word: bytes, name: str, line: int) -> str:
    """UTF-8 as text; InputError names the line."""
    try:
        return word.decode()
    except UnicodeDecodeError:
        raise InputError(f"{shown_name(name)}, line {line}: is not UTF-8 text; convert it") from None


def read_columns(name: str, memory: int) -> ColumnText:
    """Read column text; InputError where a line has another number of columns than the first one, or is not UTF-8."""
    codes: list[array] = []
    known: list[dict[bytes, int]] = []
    words: list[list[str]] = []
    lines, begins, before = array("i"), [], -1
    for number, line in enumerate(text_lines(name, memory, COLUMN_BYTES), 1):
        row = line.split()
        if not row:
            continue
        if not lines:
            codes, known, words = [array("i") for _ in row], [{} for _ in row], [[] for _ in row]
        if len(row) != len(codes):
            raise InputError(
                f"{shown_name(name)}, line {number}: has {len(row)} columns where the first one has {len(codes)}; give "
                "each token as many"
            )
        if number != before + 1 or not lines:
            begins.append(len(lines))
        before = number
        lines.append(number)
        for own_codes, own_known, own_words, word in zip(codes, known, words, row, strict=True):
            code = own_known.setdefault(word, len(own_known))
            if code == len(own_words):
                own_words.append(decoded(word, name, number))
            own_codes.append(code)
    if not lines:
        raise InputError(f"{shown_name(name)}: holds no token; a line is a token with its columns")
    columns = tuple(Column(own, np.array(array_, np.int32)) for own, array_ in zip(words, codes, strict=True))
    return ColumnText(name, columns, np.array([*begins, len(lines)], np.int64), np.array(lines, np.int32))


def codes_in(column: Column, known: list[str]) -> np.ndarray:
    """The column's words as positions (int32) in the list ``known``, -1 for others."""
    number = {word: k for k, word in enumerate(known)}
    return np.array([number.get(word, -1) for word in column.words], np.int32)[column.codes]
