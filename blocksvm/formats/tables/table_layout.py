"""The layout of a table of text: names of columns, and which are labels, numbers, categories or left out.

The first lines decide it, as whole lines: at most ``SAMPLED_ROWS`` rows within text_source.py's bound of bytes. It is
stored in the recipe, so that later rows are read alike.  A column is one of numbers where all of its cells that are
not missing are numbers, else one of categories; labels likewise.  What the lines leave unclear is a sentence that names
the option to add."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

import numpy as np

from blocksvm.base.errors import InputError, nearest, option
from blocksvm.formats.choices import DELIMITERS, KINDS, added
from blocksvm.formats.kernels import cells as kernels
from blocksvm.formats.kernels.name_hashes import hash_of
from blocksvm.formats.text.row_labels import WORDS
from blocksvm.formats.text.text_source import LONE_RETURNS, NOT_UTF8, quoted

COLUMNS = "columns"  # in the recipe: how many columns there are, where there is no header
# in the recipe, too (KINDS): the names of the columns that are 'numeric', 'categorical' and 'lists', those that are
# 'mixed', and those with a value of its 'own' in nearly each row
OWN_ROWS, OWN_SHARE = 20, 0.95  # so many first rows, and different ones among their values, make such a column
DECIDED = (WORDS, COLUMNS, KINDS)
SAMPLED_ROWS = 2_000  # rows
SHOWN, FEW = 12, 5  # columns that a sentence names
LONGEST_SHOWN = 40  # characters of the name of one
CATEGORIES_GO_ON = np.uint64(0x452821E638D01377)  # a category's hash goes on from another one than that of a number
NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?", re.ASCII)
COMMA_NUMBER = re.compile(rb"[-+]?\d+,\d+")
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}


class Dialect(NamedTuple):
    """The dialect of lines of cells: bytes of the delimiter and of the quote (``kernels.NO_QUOTE``: none), and whether
    decimals follow a comma."""

    delimiter: int
    quote: int
    comma: bool = False

    def cell_at(self, text: np.ndarray, start: int) -> bytes:
        """The beginning of the cell that stands there, for messages."""
        cell = text[start : start + LONGEST_SHOWN].tobytes().split(b"\n")[0].split(bytes([self.delimiter]))[0]
        return cell.strip() if self.quote == kernels.NO_QUOTE else cell.strip().rstrip(bytes([self.quote]))

    def rows(self, lines: Iterable[str]) -> Iterator[list[str]]:
        """The cells of lines; csv.Error for one that is too long."""
        plain = self.quote == kernels.NO_QUOTE
        quoting, quote = (csv.QUOTE_NONE, None) if plain else (csv.QUOTE_MINIMAL, chr(self.quote))
        rows = csv.reader(lines, delimiter=chr(self.delimiter), skipinitialspace=True, quoting=quoting, quotechar=quote)
        return ([cell.strip() for cell in row] for row in rows)

    def cells(self, line: bytes) -> list[str]:
        """The cells of a line; InputError where it is not UTF-8, or is none."""
        try:
            text = line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise InputError(NOT_UTF8) from None
        if "\r" in text:
            raise InputError(LONE_RETURNS)
        try:
            return next(self.rows([text]), [])
        except csv.Error:
            limit = csv.field_size_limit()
            raise InputError(
                f"a cell is longer than {limit:,} characters; is this a table with a row a line?"
            ) from None


@dataclass(frozen=True)
class TableLayout:
    """The columns of one file: their names, what each is (of the kernel's roles), and whether that was decided."""

    names: list[str]
    roles: np.ndarray
    decided: np.ndarray

    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(seeds (m, 2) uint64, prefixes (m, 2) int64, the bytes 'column=' of all), as the kernel takes them."""
        prefixes = [name.encode() + b"=" for name in self.names]
        ends = np.cumsum([len(prefix) for prefix in prefixes])
        places = np.stack([np.append(0, ends[:-1]), ends], axis=1).astype(np.int64)
        numeric = [hash_of(prefix[:-1], np.uint64(0)) for prefix in prefixes]
        category = [hash_of(prefix[:-1], CATEGORIES_GO_ON) for prefix in prefixes]
        return np.array([numeric, category], np.uint64).T.copy(), places, np.frombuffer(b"".join(prefixes), np.uint8)


def named_by(patterns: str | None, names: list[str], setting: str, missing: bool = False) -> set[str]:
    """The columns that a list of names and patterns means; InputError for one that means none (missing: it may)."""
    named = set()
    for pattern in filter(None, (patterns or "").split(",")):
        matching = {name for name in names if name == pattern or fnmatchcase(name, pattern)}
        if not matching and not missing:
            raise InputError(f"no column is called {pattern}, which {option(setting)} names; {all_columns(names)}")
        named |= matching
    return named


def short(name: str) -> str:
    """The name of a column as a sentence has it."""
    return name if len(name) <= LONGEST_SHOWN else f"{name[: LONGEST_SHOWN - 3]}..."


def all_columns(names: list[str]) -> str:
    """All that there are."""
    return f"the columns are {some_of(names)}"


def chosen_categories(options: Mapping, names: list[str]) -> tuple[str, bool]:
    """(the patterns of the columns that are categories, whether other columns may be) of the setting."""
    listed = options["categorical"].split(",")
    auto = "auto" in listed and "auto" not in names
    return ",".join(name for name in listed if name != "auto" or not auto), auto


def columns_before(options: Mapping) -> list[str]:
    """The columns that the first rows had features of, where a header names them, as far as they are known."""
    kinds = options.get(KINDS)
    if kinds is None or options["header"] == "no":
        return []
    named = ",".join(filter(None, (options["numeric"], options["categorical"]))).split(",")
    named = [name for name in named if name not in ("", "auto", options["label"]) and not re.search(r"[*?[]", name)]
    return list(dict.fromkeys((*kinds["numeric"], *kinds["categorical"], *named)))


def some_of(names: list[str]) -> str:
    """Columns as a sentence lists them."""
    return f"{', '.join(map(short, names[:SHOWN]))}{', ...' if len(names) > SHOWN else ''}"


def has_header(names: list[str], options: Mapping) -> bool:
    """Whether a first line of these cells has the columns' names, where nobody says; InputError where it is unclear."""
    label = options["label"]
    numbers = [name for name in names if NUMBER.fullmatch(name)]
    if not label.isdecimal() or not numbers:
        return True  # a label that it lacks is said elsewhere
    if label not in names or len(set(names)) < len(names):  # which names are not
        return False
    if names in ([str(k) for k in range(len(names))], [str(k + 1) for k in range(len(names))]):
        return True
    raise InputError(
        f"it is unclear whether the first line, in which a cell is {label}, has the columns' names; say "
        f"{option('header', 'yes')} or {option('header', 'no')}"
    )


def layout_of(names: list[str], options: Mapping, labelled: bool) -> TableLayout:
    """The columns of a file in whose first line these cells stand; InputError where a column is not there."""
    headed, label, first, kinds = options["header"] != "no", options["label"], names, options.get(KINDS)
    if not headed:
        n, before = len(names), options[COLUMNS]
        shorter = not labelled and n + 1 == before
        if kinds is not None and before is not None and n != before and not shorter:
            raise InputError(f"the line has {n:,} cells, but the rows before, which have no header either, {before:,}")
        names = [str(k + 1) for k in range(n + shorter) if not (shorter and str(k + 1) == label)]
    seen: set[str] = set()
    again = next((name for name in names if name in seen or (seen.add(name) if name else None)), None)
    if label not in names and labelled:
        cure = f"name that of the labels by {option('label')}{_hint(first, options)}"
        meant = nearest(label, names)
        raise InputError(
            f"no column is called {label}; {cure}; {all_columns(names)}{f'; did you mean {meant}?' if meant else ''}"
        )
    if again is not None:
        raise InputError(f"the header names the column {again} twice; rename one")
    before = columns_before(options)
    if not labelled and before and not set(before) & set(names):
        raise InputError(
            f"the table has none of the columns that the model was trained on ({some_of(before)}); "
            f"{all_columns(names)}; are its separators others?"
        )
    wrong = next((name for name in (kinds or {}).get("lists", ()) if name in names), None)
    if wrong is not None:
        raise InputError(f"the column {wrong} had lists or maps in the rows before, which text has not; write Parquet")
    others = [name for name in names if name != label]
    patterns, auto = chosen_categories(options, names)
    # labels are of a kind, too, but only where they are named themselves, not by a pattern; and of rows that are read
    # as earlier ones were, columns may be missing
    categories, numeric, left_out = (
        named_by(listed, names if label in listed.split(",") else others, setting, not labelled or kinds is not None)
        for listed, setting in (
            (patterns, "categorical"), (options["numeric"] or "", "numeric"), (options["ignore"] or "", "ignore")
        )
    )  # fmt: skip
    left_out.add("")
    both = categories & numeric
    if both:
        settings = f"{option('numeric')} and {option('categorical')}"
        raise InputError(f"{settings} both name the column {min(both)}; leave one out")
    decided = categories | numeric
    if kinds is not None:
        decided |= set(kinds["numeric"]) | set(kinds["categorical"])
        categories = categories | set(kinds["categorical"]) - numeric
    roles = np.full(len(names), kernels.EITHER if auto else kernels.NUMERIC)
    for k, name in enumerate(names):
        if name == label:
            roles[k] = kernels.LABEL
        elif name in left_out:
            roles[k] = kernels.LEFT_OUT
        elif name in categories:
            roles[k] = kernels.CATEGORY
        elif name in numeric:
            roles[k] = kernels.EITHER
    return TableLayout(names, roles, np.array([name in decided for name in names], bool))


def _hint(cells: list[str], options: Mapping) -> str:
    """Another meaning of the file, as a hint where the labels' column is missing."""
    if options["header"] == "no":
        return ""
    if len(cells) == 1:
        counts = {other: cells[0].count(other) for other in SEPARATORS}
        other = max(counts, key=counts.__getitem__)
        if counts[other]:
            word = next(word for word, mark in DELIMITERS.items() if mark == other)
            return f", or its cells stand between {SEPARATORS[other]} ({option('delimiter', word)})"
    documents = (
        f", or these are documents ({option('format', 'documents')})" if len(cells) == 2 and " " in cells[1] else ""
    )
    return f", or the file has no header ({option('header', 'no')}){documents}"


@dataclass(frozen=True)
class Looks:
    """Counts over the first rows: numbers and others (m,), cells of each column that are numbers, and that are not;
    first: of a column, the line (from 0) and the text of the first cell that is not; labels: (line, token) of the rows
    that have one."""

    numbers: np.ndarray
    others: np.ndarray
    first: dict[int, tuple[int, bytes]]
    labels: list[tuple[int, bytes]]


def decided_kinds(layout: TableLayout, looks: Looks) -> dict:
    """The kinds of the columns, as the recipe keeps them; a column without a cell has none yet."""
    kinds: dict = {"numeric": [], "categorical": [], "mixed": {}}
    for k in np.flatnonzero((layout.roles != kernels.LABEL) & (layout.roles != kernels.LEFT_OUT)).tolist():
        name, role, others = layout.names[k], layout.roles[k], int(looks.others[k])
        if role != kernels.EITHER or layout.decided[k]:
            kinds["categorical" if role == kernels.CATEGORY else "numeric"].append(name)
        elif others or looks.numbers[k]:
            kinds["categorical" if others else "numeric"].append(name)
            if others and (others < looks.numbers[k] or COMMA_NUMBER.fullmatch(looks.first[k][1])):
                line, token = looks.first[k]
                kinds["mixed"][name] = [others, others + int(looks.numbers[k]), line + 1, quoted(token)]
    return kinds


def own_values(counts: Mapping[str, tuple[int, int]]) -> dict:
    """The columns of categories in which nearly each of the first rows has a value of its own, by (different values,
    rows that have one) of each."""
    own = {name: [n, rows] for name, (n, rows) in counts.items() if rows >= OWN_ROWS and n >= OWN_SHARE * rows}
    return {"own": own} if own else {}


def columns_line(options: Mapping) -> str:
    """What was decided of the columns, in a line; '' where nothing was."""
    kinds, parts = options.get(KINDS) or {}, []
    for kind, what in (("numeric", "numbers"), ("categorical", "categories"), ("lists", "lists")):
        if names := kinds.get(kind):
            listed = ", ".join(short(name) for name in names[:FEW]) + (", ..." if len(names) > FEW else "")
            parts.append(f"{len(names):,} of {what} ({listed})")
    return f"columns: {'; '.join(parts)}" if parts else ""


def remarks(options: Mapping) -> list[str]:
    """Sentences on columns that are categories, although they look like numbers, or have a value a row."""
    kinds = options.get(KINDS) or {}
    mixed, own = kinds.get("mixed", {}), kinds.get("own", {})
    sentences = []
    for name, (others, cells, line, token) in list(mixed.items())[:SHOWN]:
        comma = COMMA_NUMBER.fullmatch(token[1:-1].encode()) is not None
        cure = option("decimal", ",") if comma else added("numeric", options, name)
        sentences.append(
            f"the column {name} was taken as categories, since {others:,} of its first {cells:,} cells "
            f"{'is' if others == 1 else 'are'} no number{'' if others == 1 else 's'} (the first, {token}, in line "
            f"{line:,}); if they are to be numbers, say {cure}"
        )
    if len(mixed) > SHOWN:
        sentences.append(f"so were {len(mixed) - SHOWN:,} other columns")
    if own:
        shown = [f"{short(name)}: {n:,} values in {rows:,} rows" for name, (n, rows) in list(own.items())[:FEW]]
        more = "; ..." if len(own) > FEW else ""
        sentences.append(
            f"nearly each of the first rows has a category of its own ({'; '.join(shown)}{more}), of which nothing is "
            f"learned for other rows; leave {'it' if len(own) == 1 else 'them'} out by "
            f"{added('ignore', options, *own)}?"
        )
    return sentences
