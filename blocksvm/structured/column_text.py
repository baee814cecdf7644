"""Sentences in columns (CoNLL): a token a line, its columns between blanks, an empty line after each sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.row_batch import shown_name
from blocksvm.conversion.feature_ids import IdTable
from blocksvm.formats.text.text_source import LineLimit, TextInputs
from blocksvm.kernels.columns import count_words, read_words
from blocksvm.kernels.text_bytes import SPARE

PIECE = 1 << 22  # bytes read at once
SMALLEST = 1 << 12  # the same, of a text that is read in parts


@dataclass(frozen=True)
class Column:
    """A column of words: codes (n_tokens,) int32 are places in ``words``, the distinct ones by first occurrence."""

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

    @property
    def n_sentences(self) -> int:
        return len(self.bounds) - 1

    @property
    def n_tokens(self) -> int:
        return int(self.bounds[-1])

    @property
    def n_bytes(self) -> int:
        return self.bounds.nbytes + self.lines.nbytes + sum(column.codes.nbytes for column in self.columns)

    def part(self, first: int, last: int) -> ColumnText:
        """The sentences first..last-1."""
        tokens = slice(int(self.bounds[first]), int(self.bounds[last]))
        columns = []
        for column in self.columns:
            used, codes = np.unique(column.codes[tokens], return_inverse=True)
            columns.append(Column([column.words[code] for code in used], codes.astype(np.int32)))
        bounds = self.bounds[first : last + 1] - self.bounds[first]
        return ColumnText(self.name, tuple(columns), bounds, self.lines[tokens])

    def has_target(self, n_columns: int, target: str) -> bool:
        """Whether a column of targets, so called in messages, follows the ``n_columns`` of words that a model reads;
        InputError for other numbers of columns."""
        if len(self.columns) not in (n_columns, n_columns + 1):
            raise InputError(
                f"{shown_name(self.name)}: has {len(self.columns)} columns; the model wants {n_columns}, or "
                f"{n_columns + 1} with {target}"
            )
        return len(self.columns) > n_columns

    def line_of(self, token: int) -> str:
        """The file and line of a token, for messages."""
        return f"{shown_name(self.name)}, line {self.lines[token]}"


def read_text(name: str, most: int) -> tuple[np.ndarray, int]:
    """The whole text of a file, plain or compressed, as (bytes uint8, where they end); the last one is a newline.

    Raises InputError as ``TextInputs.pieces`` does, and where the text is longer than ``most`` bytes.
    """
    parts, total = [], 0
    with TextInputs([name]) as inputs:
        for piece in inputs.pieces(PIECE, LineLimit.share(most, 1), digested=False):
            total += piece.end
            if total > most:
                raise InputError(
                    f"{shown_name(name)}: is longer than the {most / 1e6:,.2f} MB that {option('memory')} leaves for "
                    f"the text, which is kept whole; raise {option('memory')}"
                )
            parts.append(piece.text[: piece.end])
    return np.concatenate([*parts, np.zeros(SPARE, np.uint8)]), total


def read_columns(name: str, memory: int) -> ColumnText:
    """Read column text; InputError where a line has another number of columns than the first one, or is not UTF-8."""
    text, end = read_text(name, memory // 4)
    words = SentenceWords.of(text, end)
    if not len(words.starts):
        raise InputError(f"{shown_name(name)}: holds no token; a line is a token with its columns")
    return _columns(name, memory, text, words)


def column_parts(name: str, memory: int) -> Iterator[ColumnText]:
    """The sentences of column text, some at a time, so that their features may be larger than ``memory``.

    Raises InputError as ``read_columns`` does, and where a sentence is longer than a part of the memory.
    """
    most = memory // 16
    carried, before, width = np.empty(0, np.uint8), 0, None
    with TextInputs([name]) as inputs:
        for piece in inputs.pieces(max(SMALLEST, min(PIECE, memory // 128)), LineLimit.share(most, 1), digested=False):
            text = np.concatenate([carried, piece.text[: piece.end], np.zeros(SPARE, np.uint8)])
            end = len(text) - SPARE
            words = SentenceWords.of(text, end)
            blank = np.flatnonzero(words.line_words == 0)
            n_lines = int(blank[-1]) + 1 if len(blank) else 0
            whole = words.until(n_lines)
            cut = int(words.starts[len(whole.starts)]) if len(whole.starts) < len(words.starts) else end
            carried = text[cut:end].copy()
            if len(carried) > most:
                raise InputError(
                    f"{shown_name(name)}, line {before + n_lines + 1}: begins a sentence of more than "
                    f"{most / 1e6:,.2f} MB; put an empty line behind each sentence, or raise {option('memory')}"
                )
            if len(whole.starts):
                part = _columns(name, memory // 2, text, whole, before, width)
                width = len(part.columns)
                yield part
            before += n_lines
    if len(carried):
        text = np.append(carried, np.zeros(SPARE, np.uint8))
        yield _columns(name, memory // 2, text, SentenceWords.of(text, len(carried)), before, width)
    elif width is None:
        raise InputError(f"{shown_name(name)}: holds no token; a line is a token with its columns")


@dataclass(frozen=True)
class SentenceWords:
    """The words of a text: hashes, starts and stops (n_words,) int64; line_words (n_lines,) int64: how many each line
    has."""

    hashes: np.ndarray
    starts: np.ndarray
    stops: np.ndarray
    line_words: np.ndarray

    @classmethod
    def of(cls, text: np.ndarray, end: int) -> SentenceWords:
        n_words, n_lines = count_words(text, end)
        result = cls(*(np.empty(n, np.int64) for n in (n_words, n_words, n_words, n_lines)))
        read_words(text, end, result.hashes, result.starts, result.stops, result.line_words)
        return result

    def until(self, n_lines: int) -> SentenceWords:
        """The words of the first lines."""
        n = int(self.line_words[:n_lines].sum())
        return SentenceWords(self.hashes[:n], self.starts[:n], self.stops[:n], self.line_words[:n_lines])


def _columns(
    name: str, memory: int, text: np.ndarray, words: SentenceWords, before: int = 0, width: int | None = None
) -> ColumnText:
    """Words as columns; before: lines of the file in front of them; width: columns of its first line, if that is not
    among them."""
    full = np.flatnonzero(words.line_words)
    width = width or int(words.line_words[full[0]])
    other = np.flatnonzero(words.line_words[full] != width)
    if len(other):
        line = full[other[0]]
        raise InputError(
            f"{shown_name(name)}, line {before + line + 1}: has {words.line_words[line]} columns where the first one "
            f"has {width}; give each token as many"
        )
    lines = (before + full + 1).astype(np.int32)
    begins = np.flatnonzero(np.diff(full, prepend=-2) > 1)
    table = WordVocabulary(memory, name, text, lines)
    columns = tuple(
        table.column(*(np.ascontiguousarray(array[c::width]) for array in (words.hashes, words.starts, words.stops)))
        for c in range(width)
    )
    return ColumnText(name, columns, np.append(begins, len(full)).astype(np.int64), lines)


@dataclass(frozen=True)
class WordVocabulary:
    """Makes columns of words, given by their places in ``text`` and distinguished by 63 bits of a hash."""

    memory: int
    name: str
    text: np.ndarray
    lines: np.ndarray | None = None

    def column(self, hashes: np.ndarray, starts: np.ndarray, stops: np.ndarray) -> Column:
        codes = IdTable(self.memory // 4).add(hashes)
        first = np.full(int(codes.max(initial=-1)) + 1, len(codes), np.int64)
        np.minimum.at(first, codes, np.arange(len(codes)))
        return Column([self._word(token, starts[token], stops[token]) for token in first], codes)

    def _word(self, token: int, start: int, stop: int) -> str:
        try:
            return self.text[start:stop].tobytes().decode()
        except UnicodeDecodeError:
            where = "" if self.lines is None else f", line {self.lines[token]}"
            raise InputError(f"{shown_name(self.name)}{where}: is not UTF-8 text; convert it") from None


def codes_in(column: Column, known: list[str]) -> np.ndarray:
    """The column's words as places (int32) in the list ``known``, -1 for others."""
    place = {word: k for k, word in enumerate(known)}
    return np.array([place.get(word, -1) for word in column.words], np.int32)[column.codes]
