"""Tables of text with a row a line: ``csv``, ``tsv``, and ``criteo``, the layout of Criteo's click logs.

Cells are as RFC 4180 has them, but a row ends with its line: a line break within quotes is a fault.  A number in a
column is the value of a feature of the column's name; any other cell is a category, a feature 'column=value' whose
value is 1, and so are all cells of the columns that ``categorical`` names; where it does not say ``auto``, what is no
number in the other columns is a fault.  Missing cells (empty, na, n/a, nan, null) and zeros are no entries.  Each file
has its own header: columns are known by their names, whatever their order.

Criteo's rows (Kaggle 2014 and the terabyte set) are a label, 13 whole numbers and 26 categories between tabs, without a
header; their columns are label, I1 ... I13, C1 ... C26.  The numbers are counts, some large, and a few are below 0:
x becomes sign(x) log(1 + |x|).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

import numpy as np

from blocksvm.errors import InputError, called, said
from blocksvm.formats.choices import chosen
from blocksvm.formats.protocol import Reading, Room
from blocksvm.formats.row_labels import WORDS, are_words, labels_at
from blocksvm.formats.text import TextPiece, quoted
from blocksvm.formats.vw import BIG_NORM, BIG_VALUE
from blocksvm.kernels import cells as kernels
from blocksvm.kernels.names import hash_of
from blocksvm.kernels.numbers import BAD_VALUE, FINE
from blocksvm.kernels.words import NEWLINE, SPARE
from blocksvm.rows import Origin, RowBatch, shown_name

COLUMNS = "columns"  # in the recipe: how many columns there are, where there is no header
TAKEN = (WORDS, COLUMNS)
DELIMITERS = {",": "commas", "\t": "tabs"}
SHOWN = 12  # columns that a sentence names
CATEGORIES_GO_ON = np.uint64(0x452821E638D01377)  # a category's hash goes on from another one than that of a number
FAULTS = {
    kernels.FEW_CELLS: "the line has {column} cells, {whose} {n}",
    kernels.MANY_CELLS: "the line has more cells than {whose} {n}",
    kernels.OPEN_QUOTE: "column {name}: the quotes do not end on this line; a row is one line, so take line breaks out",
    kernels.AFTER_QUOTE: "column {name}: something stands between the end of the quotes and that of the cell",
    BAD_VALUE: "column {name}: {token} is not a number; mend it, or name the column by {categorical}",
}


@dataclass(frozen=True)
class Layout:
    """The columns of one file: their names, and what each is (of the kernel's roles)."""

    names: list[str]
    roles: np.ndarray

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(seeds (m, 2) uint64, prefixes (m, 2) int64, the bytes 'column=' of all), as the kernel takes them."""
        prefixes = [name.encode() + b"=" for name in self.names]
        ends = np.cumsum([len(prefix) for prefix in prefixes])
        places = np.stack([np.append(0, ends[:-1]), ends], axis=1).astype(np.int64)
        numeric = [hash_of(prefix[:-1], np.uint64(0)) for prefix in prefixes]
        category = [hash_of(prefix[:-1], CATEGORIES_GO_ON) for prefix in prefixes]
        return np.array([numeric, category], np.uint64).T.copy(), places, np.frombuffer(b"".join(prefixes), np.uint8)


class CellReader:
    """Rows of cells between delimiters."""

    def __init__(self, reading: Reading, table: Table):
        self.reading = reading
        self.table = table
        self.options = table.chosen_of(reading.recipe.options)
        self.expansion = (
            24 if reading.named else 12
        )  # the shortest cell, "1,", has an id and a value, and a name's place

    def room(self, n_bytes: int) -> Room:
        """A row takes two bytes or more, and so does a cell."""
        return Room(n_bytes // 2 + 1, n_bytes // 2 + 1)

    def parse(self, piece: TextPiece, room: Room | None = None) -> RowBatch:
        text, end = piece.text, piece.end
        recipe, named = self.reading.recipe, self.reading.named
        if len(text) < end + SPARE:  # the parser looks ahead
            text = np.append(text[:end], np.zeros(SPARE, np.uint8))
        first_line = piece.source.first_line or text[:end].tobytes().partition(b"\n")[0] + b"\n"
        skip = len(first_line) if piece.begins and self.options["header"] == "yes" else 0
        try:
            layout = self.table.layout(first_line, self.options, self.reading.labelled)
        except InputError as error:
            return self._nothing(piece, str(error))
        if room is None:
            delimiters = np.count_nonzero(text[:end] == self.table.delimiter)
            n_lines = np.count_nonzero(text[:end] == NEWLINE)
            room = Room(n_lines, delimiters + n_lines)
        seeds, prefixes, static = layout.arrays()
        indptr, ids, values, lines = room.indptr, room.ids, room.values, room.lines
        spans = np.empty((len(lines), 2), np.int64)
        firsts, lasts = (np.empty(len(ids) if named else 0, np.int64) for _ in range(2))
        undecided = np.empty((1024, 3), np.int64)
        names = _beginning(static, len(static) + end if named else len(static))
        while True:
            rows, line, code, column, position, n_undecided, name_bytes = kernels.parse_cells(
                text, end, skip, self.table.delimiter, self.table.quotes, layout.roles, seeds, prefixes, named, spans,
                indptr, ids, values, lines, undecided, names, firsts, lasts,
            )  # fmt: skip
            if n_undecided <= len(undecided) and name_bytes <= max(len(names), len(static)):
                break
            undecided = np.empty((max(n_undecided, len(undecided)), 3), np.int64)
            names = _beginning(static, max(name_bytes, len(names)))
        fault = None if code == FINE else (line, self._sentence(code, layout, column, text, position))
        for entry, start, stop in undecided[:n_undecided].tolist():
            if entry >= indptr[rows]:
                continue  # in the bad line itself
            number = float(text[start:stop].tobytes())
            with np.errstate(over="ignore"):
                values[entry] = np.sign(number) * np.log1p(abs(number)) if values[entry] == 1.0 else number
        labels, wrong = labels_at(text, spans[:rows], self.options[WORDS], self._cell)
        if wrong is not None:
            rows, sentence = wrong
            fault = int(lines[rows]), sentence
        done, code, entry, largest = kernels.close_cells(
            indptr, rows, ids, values, recipe.l2, recipe.single, named, firsts, lasts
        )
        if code != FINE:
            rows = done
            sentence = "the squares of the row's values add up to more than float64 holds; scale the columns"
            fault = int(lines[done]), sentence if code == BIG_NORM else self.reading.too_large("a cell")
        nnz = indptr[rows]
        return RowBatch(
            labels[:rows], indptr[: rows + 1], ids[:nnz], values[:nnz],
            Origin(piece.source, piece.fraction, line, lines[:rows]), fault=fault, largest=largest,
            names=(names, firsts[:nnz], lasts[:nnz]) if named else None,
        )  # fmt: skip

    def _nothing(self, piece: TextPiece, sentence: str) -> RowBatch:
        """No rows, and what is wrong with the first line."""
        nothing = np.empty(0, np.int64)
        labels = [] if self.options[WORDS] else np.empty(0)
        names = (np.empty(0, np.uint8), nothing, nothing) if self.reading.named else None
        origin = Origin(piece.source, piece.fraction, 0, nothing)
        return RowBatch(labels, np.zeros(1, np.int64), nothing, np.empty(0), origin, names=names, fault=(0, sentence))

    def _cell(self, token: bytes) -> bytes:
        """What a label's cell holds."""
        return token.replace(b'""', b'"') if self.table.quotes else token

    def _sentence(self, code: int, layout: Layout, column: int, text: np.ndarray, position: int) -> str:
        name = layout.names[min(column, len(layout.names) - 1)]
        token = text[position : position + 40].tobytes().split(b"\n")[0].split(self.table.delimiter_text)[0]
        if code == BIG_VALUE:
            return self.reading.too_large(f"column {name}")
        return FAULTS[code].format(
            column=column, n=len(layout.names), name=name, token=quoted(token.strip()),
            categorical=called("categorical"),
            whose="the header" if self.options["header"] == "yes" else "the first line",
        )  # fmt: skip


def _beginning(static: np.ndarray, n: int) -> np.ndarray:
    """Room for n bytes of names, which begin with those."""
    names = np.empty(max(n, len(static)), np.uint8)
    names[: len(static)] = static
    return names


def named_by(patterns: str | None, names: list[str], setting: str, missing: bool = False) -> set[str]:
    """The columns that a list of names and patterns means; InputError for one that means none (missing: it may)."""
    found = set()
    for pattern in (patterns or "").split(","):
        own = {name for name in names if name == pattern or fnmatchcase(name, pattern)}
        if pattern and not own and not missing:
            raise InputError(f"no column is called {pattern}, which {called(setting)} names; {told(names)}")
        found |= own
    return found


def told(names: list[str]) -> str:
    """Columns as a sentence lists them."""
    return f"the columns are {', '.join(names[:SHOWN])}{', ...' if len(names) > SHOWN else ''}"


class Table:
    """A format of cells between delimiters."""

    head_lines = 2

    def __init__(self, name: str, delimiter: str, sample: bytes, quotes: bool = True):
        self.name = name
        self.delimiter_text = delimiter.encode()
        self.delimiter = ord(delimiter)
        self.quotes = quotes
        self.lines = f"cells between {DELIMITERS[delimiter]}, the first with the columns' names"
        self.sample = sample

    def score(self, head: bytes, name: str) -> float:
        """None, but by its name: nearly any text might be read as this."""
        stem = name.lower()
        for ending in (".gz", ".bz2", ".xz", ".zst"):
            stem = stem.removesuffix(ending)
        return 0.99 if stem.endswith(f".{self.name}") else 0.0

    def chosen_of(self, options: Mapping) -> dict:
        own = {name: value for name, value in options.items() if name not in TAKEN}
        return chosen(self.name, own) | {WORDS: options.get(WORDS, False), COLUMNS: options.get(COLUMNS)}

    def settled(self, given: Mapping, head: bytes, name: str) -> dict:
        """The settings, the number of columns where no header tells them, and the kind of labels that the first row
        has, unless these are known."""
        options = self.chosen_of({key: value for key, value in given.items() if value is not None})
        lines = [line for line in head.split(b"\n") if line.strip(b" \r")]
        if WORDS not in given and lines:
            header = options["header"] == "yes"
            if not header:
                options[COLUMNS] = len(self.cells(lines[0]))
            try:
                layout = self.layout(lines[0], options, True)
            except InputError as error:
                raise InputError(f"{shown_name(name)}:1: {error}") from None
            row = self.cells(lines[header]) if len(lines) > header else []
            at = int(np.flatnonzero(layout.roles == kernels.LABEL)[0])
            label = row[at].strip().encode() if at < len(row) else b""
            options[WORDS] = are_words(label)
        return options

    def cells(self, line: bytes) -> list[str]:
        """The cells of a line; InputError where it is not UTF-8."""
        try:
            text = line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise InputError("the line is not UTF-8; convert it, as iconv -f latin1 -t utf-8 does") from None
        quoting = csv.QUOTE_MINIMAL if self.quotes else csv.QUOTE_NONE
        rows = csv.reader([text], delimiter=chr(self.delimiter), skipinitialspace=True, quoting=quoting)
        return [cell.strip() for cell in next(rows, [])]

    def layout(self, first_line: bytes, options: Mapping, labelled: bool) -> Layout:
        """The columns of a file whose first line this is; InputError where a column is not there."""
        names = self.cells(first_line)
        if options["header"] == "no":
            names = [str(k + 1) for k in range(len(names))]
            if not labelled and len(names) + 1 == options[COLUMNS]:
                names = [str(k + 1) for k in range(len(names) + 1) if str(k + 1) != options["label"]]
        again = [name for k, name in enumerate(names) if name in names[:k]]
        if again:
            raise InputError(f"the header names the column {again[0]} twice; rename one")
        label = options["label"]
        if label not in names and labelled:
            more = "" if options["header"] == "no" else f", or the file has no header ({said('header', 'no')})"
            cure = f"name that of the labels by {called('label')}{more}"
            raise InputError(f"no column is called {label}; {cure}; {told(names)}")
        others = [name for name in names if name != label]
        listed = options["categorical"].split(",")
        auto = "auto" in listed and "auto" not in names
        patterns = ",".join(name for name in listed if name != "auto" or not auto)
        categories = named_by(patterns, others, "categorical")
        left_out = named_by(options["ignore"], others, "ignore", missing=not labelled)
        roles = np.full(len(names), kernels.EITHER if auto else kernels.NUMERIC)
        for k, name in enumerate(names):
            if name in categories:
                roles[k] = kernels.CATEGORY
            if name in left_out:
                roles[k] = kernels.LEFT_OUT
            if name == label:
                roles[k] = kernels.LABEL
        return Layout(names, roles)

    def reader(self, reading: Reading) -> CellReader:
        return CellReader(reading, self)


class Criteo(Table):
    """Criteo's click logs."""

    NAMES = ["label", *(f"I{k}" for k in range(1, 14)), *(f"C{k}" for k in range(1, 27))]

    def __init__(self, name: str, delimiter: str, sample: bytes):
        super().__init__(name, delimiter, sample, quotes=False)
        self.lines = "a label, 13 numbers and 26 categories between tabs"

    def chosen_of(self, options: Mapping) -> dict:
        own = {name: value for name, value in options.items() if name not in TAKEN}
        return chosen(self.name, own) | {"header": "no", "label": "label", WORDS: False, COLUMNS: 40}

    def settled(self, given: Mapping, head: bytes, name: str) -> dict:
        self.chosen_of({key: value for key, value in given.items() if value is not None and key not in TAKEN})
        return {}

    def layout(self, first_line: bytes, options: Mapping, labelled: bool) -> Layout:
        names = self.NAMES
        if not labelled and len(self.cells(first_line)) + 1 == len(names):
            names = names[1:]
        kinds = {"l": kernels.LABEL, "I": kernels.LOGARITHM, "C": kernels.CATEGORY}
        return Layout(names, np.array([kinds[name[0]] for name in names]))


SAMPLE = [["label", "a", "b c", "d"]] + [
    [str(i % 2), f"{i % 5}.5", 'say ""hi"", x' if i % 3 else "na", ["1e3", "red"][i % 2]] for i in range(30)
]
CSV = Table("csv", ",", "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in SAMPLE).encode())
TSV = Table("tsv", "\t", "".join("\t".join(row) + "\n" for row in SAMPLE).replace('"', "").encode())
CRITEO = Criteo(
    "criteo",
    "\t",
    b"".join(b"%d\t" % (i % 2) + b"%d\t" % (i - 3) * 13 + b"\t".join([b"1e%d" % i] * 26) + b"\n" for i in range(9)),
)
