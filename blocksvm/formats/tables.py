"""Tables of every form: what their columns are (labels, numbers, categories, lists, maps, texts, or left out).

Of text the first lines decide what columns are, as whole lines: at most ``SAMPLED_ROWS`` rows within text_source.py's
bound of bytes.  A column is one of numbers where all of its cells that are not missing are numbers, else one of
categories; labels likewise.  Of Parquet and Arrow the columns' types do.  It is stored in the recipe, so that later
rows are read alike, in whatever form.  What is unclear is a sentence that names the option to add.

Numbers and booleans are values of a feature of the column's name; words, and the whole numbers that ``categorical``
names, are features 'column=value' of value 1; a list of words is several of them; a list of numbers is features
'column[0]', 'column[1]', ...; a map features 'column=key' with the map's values.  Nulls, nan, empty words and zeros are
no entries.  Columns of texts are n-grams.  Ids are the same in every form.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as compute

from blocksvm.base.errors import InputError, nearest, option
from blocksvm.formats.arrow_arrays import is_list, is_number, is_text, is_word, value_type
from blocksvm.formats.choices import KEEP, KINDS, WORDS, added
from blocksvm.formats.text.text_source import LONE_RETURNS, NOT_UTF8
from blocksvm.kernels.hash_table import hash_of


class Role(IntEnum):
    """What a column is; LOGARITHM: a number x that becomes sign(x) log(1 + |x|); VECTOR: a list of numbers; BAG: a list
    of words; MAP: from words to numbers; TEXT: of whose n-grams features are made."""

    LEFT_OUT, LABEL, NUMBER, LOGARITHM, WORD, VECTOR, BAG, MAP, TEXT = range(9)


OWN_ROWS, OWN_SHARE = 20, 0.95  # so many first rows, and different ones among their values, make a column one of 'own'
SAMPLED_ROWS = 2_000  # rows
SHOWN, FEW = 12, 5  # columns that a sentence names
LONGEST_SHOWN = 40  # characters of the name of one
COMMA_NUMBER = re.compile(rb"[-+]?\d+,\d+")
# in the recipe (KINDS): the names of the columns of each of these kinds, of those that are 'mixed', and of those with a
# value of its 'own' in nearly each row
KIND_WORDS = {"numeric": "numbers", "categorical": "categories", "lists": "lists or maps"}
INDEX = re.compile(r"__index_level_\d+__")  # of pandas, whose csv gives it no name
NO_QUOTE = -1
CATEGORIES_GO_ON = np.uint64(0x452821E638D01377)  # a category's hash goes on from another one than that of a number


class Dialect(NamedTuple):
    """How cells lie in lines: bytes of the delimiter and quote (``NO_QUOTE``: none); comma: decimals follow one."""

    delimiter: int
    quote: int
    comma: bool = False

    def cells(self, line: bytes) -> list[str]:
        """The cells of a line; InputError where it is not UTF-8, or is none."""
        try:
            text = line.decode().rstrip("\r\n")
        except UnicodeDecodeError:
            raise InputError(NOT_UTF8) from None
        if "\r" in text:
            raise InputError(LONE_RETURNS)
        plain = self.quote == NO_QUOTE
        quoting, quote = (csv.QUOTE_NONE, None) if plain else (csv.QUOTE_MINIMAL, chr(self.quote))
        delimiter = chr(self.delimiter)
        rows = csv.reader([text], delimiter=delimiter, skipinitialspace=True, quoting=quoting, quotechar=quote)
        try:
            return [cell.strip() for cell in next(rows, [])]
        except csv.Error:
            most = csv.field_size_limit()
            raise InputError(f"a cell is longer than {most:,} characters; is this a table with a row a line?") from None


@dataclass
class TableColumns:
    """The columns of one file: names and roles (m,) of all; types: of Parquet and Arrow, none of cells of text; notes:
    what was left out, as ``RowBatch.notes``; words: whether labels are words, None where nothing says it; decided: of
    which an option or the rows before say what they are; texts: the columns of texts, in the order that was asked for;
    kept: those that are wanted beside the rows; calendar: what ``calendar_columns`` has made of dates.

    As kernels take them: numbers, words, lists: positions of the columns of these roles, label: that of the labels;
    order: as of ``columns_to_rows``; ids (k,) of the numbers' features; seeds: column -> the hash that its words' go on
    from; prefixes: the bytes 'column=' of all, and spans: column -> where its own lie.
    """

    names: list[str]
    roles: np.ndarray
    types: Mapping = field(default_factory=dict)
    notes: Mapping = field(default_factory=dict)
    words: bool | None = None
    decided: Set[str] = frozenset()
    texts: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    calendar: Mapping = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers = self.of(Role.NUMBER, Role.LOGARITHM)
        self.categories = self.of(Role.WORD)
        self.lists = self.of(Role.VECTOR, Role.BAG, Role.MAP)
        self.label = next((self.names[j] for j in self.of(Role.LABEL)), None)
        codes = {j: k for k, j in enumerate(self.numbers)} | {j: -1 - k for k, j in enumerate(self.categories)}
        self.order = np.array([codes[j] for j in sorted(codes)], np.int64)
        used = self.numbers + self.categories + self.lists
        encoded = [self.names[j].encode() + b"=" for j in used]
        ends = np.cumsum([0, *map(len, encoded)]).tolist()
        self.prefixes = np.frombuffer(b"".join(encoded), np.uint8)
        self.spans = {j: (a, b) for j, a, b in zip(used, ends[:-1], ends[1:], strict=True)}
        self.ids = np.array([number_id(self.names[j]) for j in self.numbers], np.int64)
        self.seeds = {j: hash_of(self.names[j].encode(), CATEGORIES_GO_ON) for j in self.categories + self.lists}

    def of(self, *roles: int) -> list[int]:
        """The positions of the columns with one of these roles."""
        return np.flatnonzero(np.isin(self.roles, roles)).tolist()

    def used(self) -> list[str]:
        """The columns that rows are made of."""
        return [name for name, role in zip(self.names, self.roles.tolist(), strict=True) if role != Role.LEFT_OUT]

    def read(self) -> list[str]:
        """The columns that are read, those that are wanted beside the rows among them."""
        wanted = {self.calendar.get(name, (name,))[0] for name in self.used()} | {*self.kept}
        return [name for name in self.names if name in wanted]


def number_id(name: str) -> int:
    return int(hash_of(name.encode(), np.uint64(0)) >> np.uint64(1))


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
    return f"the columns are {some_of(names)}"


def chosen_categories(options: Mapping, names: list[str]) -> tuple[str, bool]:
    """(the patterns of the columns that are categories, whether other columns may be) of the setting."""
    listed = options["categorical"].split(",")
    auto = "auto" in listed and "auto" not in names
    return ",".join(name for name in listed if name != "auto" or not auto), auto


def columns_before(options: Mapping) -> list[str]:
    """The columns that the first rows had features of, where they have names, as far as they are known."""
    kinds = options.get(KINDS)
    if kinds is None or options.get("header") == "no":
        return []
    named = ",".join(filter(None, (options["numeric"], options["categorical"]))).split(",")
    named = [name for name in named if name not in ("", "auto", options["label"]) and not re.search(r"[*?[]", name)]
    return list(dict.fromkeys((*chain(*(kinds.get(kind, ()) for kind in KIND_WORDS)), *named)))


def some_of(names: list[str], most: int = SHOWN) -> str:
    return f"{', '.join(map(short, names[:most]))}{', ...' if len(names) > most else ''}"


def columns_of(names: list[str], types: Mapping, options: Mapping, labelled: bool, hint: str = "") -> TableColumns:
    """The columns of a table; types: of Parquet and Arrow by name, none of text; hint: what else a table without the
    labels' column may be.  InputError where one is not there, or is not as it was in the rows before."""
    label, kinds, kept = options["label"], options.get(KINDS), named_by(options.get(KEEP), names, "keep")
    if labelled and label not in names:
        listed = all_columns(names) + (f"; did you mean {meant}?" if (meant := nearest(label, names)) else "")
        raise InputError(f"no column is called {label}; name that of the labels by {option('label')}{hint}; {listed}")
    again = next((name for name, n in Counter(names).items() if n > 1 and name), None)
    if again is not None:
        raise InputError(f"the column {again} is there twice; rename one")
    own = [name for name in names if name in kept]
    if options.get("text") is not None:
        return replace(text_columns(names, options, types), kept=own)
    calendar = calendar_columns(types, label, options)
    for name, (of, part) in calendar.items():
        if name in types:
            raise InputError(f"the column {name} is named as what is made of the column {of}; rename one")
        types = {**types, name: pa.float64() if part == "years" else pa.string()}
    names = [*names, *calendar]
    others = [name for name in names if name != label]
    patterns, auto = chosen_categories(options, names)
    # labels are of a kind, too, but only where they are named themselves, not by a pattern; and of rows that are read
    # as earlier ones were, columns may be missing
    categories, numeric, left_out = (
        named_by(listed, names if label in listed.split(",") else others, setting, not labelled or kinds is not None)
        for listed, setting in (
            (patterns, "categorical"), (options.get("numeric") or "", "numeric"), (options["ignore"] or "", "ignore")
        )
    )  # fmt: skip
    if both := categories & numeric:
        settings = f"{option('numeric')} and {option('categorical')}"
        raise InputError(f"{settings} both name the column {min(both)}; leave one out")
    words = True if label in categories else False if label in numeric else options.get(WORDS)
    check_label(label, types.get(label), words)
    before = {name: kind for kind in KIND_WORDS for name in (kinds or {}).get(kind, ())}
    numeric = {name for name in numeric if name not in types or is_word(types[name])}
    unnamed = [name for name in names if not name or INDEX.fullmatch(name)]
    left_out |= {*unnamed}
    for name in others:
        if name not in left_out and name not in numeric:
            require_kind(name, types.get(name), before.get(name), name in categories)
    left_out |= {of for of, _ in calendar.values()}
    decided = (categories | numeric if auto else set(names)) | before.keys()
    categories |= {name for name, kind in before.items() if kind == "categorical"} - numeric
    notes = {}
    if unnamed:
        notes["columns without a name, which were left out"] = len(unnamed), 0, min(unnamed)
    if kinds is not None:
        known, now = columns_before(options), set(names)
        if not labelled and known and now.isdisjoint(known):
            wrong = f"the table has none of the columns that the model was trained on ({some_of(known)})"
            raise InputError(f"{wrong}; {all_columns(names)}; are its separators others?")
        if missing := [name for name in known if name not in now]:
            what = "columns that the rows before had and the table lacks, taken as empty"
            notes[what] = len(missing), 0, some_of(missing)
        there = decided | left_out
        if new := [name for name in others if name not in there and not labelled]:
            notes["columns that the rows before did not have, which were left out"] = len(new), 0, some_of(new)
            left_out |= set(new)
    used = [name for name in others if name not in left_out]
    roles = {name: Role.NUMBER if name in numeric else role_of(types.get(name), name in categories) for name in used}
    refused = [name for name, role in roles.items() if role is None]
    if labelled and refused:
        shown, cure = (f"{name} of the type {types[name]}" for name in refused), added("ignore", options, *refused)
        what, make, them = ("column", "makes", "it") if len(refused) == 1 else ("columns", "make", "them")
        raise InputError(f"the {what} {', '.join(shown)} {make} no features; leave {them} out by {cure}")
    if labelled and not roles:
        raise InputError(f"no column is left to make features of; {all_columns(names)}")
    every = np.array([Role.LABEL if name == label else roles.get(name) or Role.LEFT_OUT for name in names])
    return TableColumns(names, every, types, notes, words, decided=decided, kept=own, calendar=calendar)


def text_columns(names: list[str], options: Mapping, types: Mapping = {}) -> TableColumns:
    """The columns of a table of texts (types: of Parquet and Arrow); InputError where one is not there."""
    label, texts, words = options["label"], options["text"].split(","), options.get(WORDS)
    for name in texts:
        if name not in names or name == label:
            wrong = "is that of the labels" if name in names else "is not there"
            raise InputError(f"the column {name}, which {option('text')} names, {wrong}; {all_columns(names)}")
        if not is_text(value_type(types.get(name, pa.string()))):
            wrong = f"the column {name}, which {option('text')} names, is of the type {types[name]}; texts are strings"
            raise InputError(wrong)
    check_label(label, types.get(label), words)
    roles = [Role.LABEL if name == label else Role.TEXT if name in texts else Role.LEFT_OUT for name in names]
    return TableColumns(names, np.array(roles), types, words=words, texts=texts)


def check_label(label: str, type_, words: bool | None) -> None:
    """InputError for labels of a type that makes none, or of another kind than before (None: not known)."""
    if type_ is None or is_list(type_) or pa.types.is_null(type_) or (is_number(type_) and not words):
        return
    if not is_word(type_) or words is False:
        wanted = "words and whole numbers make such" if words else "they were numbers in the rows before"
        wanted = "labels are numbers or strings" if words is None else wanted
        raise InputError(f"the column {label} is of the type {type_}; {wanted}")


# what is made of a date or time, by the ending of its column's name: categories, and years since 2000 as a number
CALENDAR = {
    "years": lambda column: compute.divide(compute.subtract(days(column), 10_957.0), 365.25),
    "month": compute.month,
    "weekday": partial(compute.day_of_week, count_from_zero=False),
    "hour": compute.hour,
}


def days(column) -> pa.Array:
    """A column of dates or times as float64 days since 1970."""
    return column.cast(pa.date32(), safe=False).cast(pa.int32()).cast(pa.float64())


def calendar_columns(types: Mapping, label: str, options: Mapping) -> dict[str, tuple[str, str]]:
    """What is made of the columns of dates that are not left out: name -> (the date's column, of ``CALENDAR``)."""
    left_out = named_by(options["ignore"], list(types), "ignore", missing=True) | {label}
    timed = {name for name, type_ in types.items() if pa.types.is_timestamp(type_)}
    dates = [name for name, type_ in types.items() if name in timed or pa.types.is_date(type_)]
    parts = [(of, part) for of in dates if of not in left_out for part in CALENDAR if part != "hour" or of in timed]
    return {f"{of}.{part}": (of, part) for of, part in parts}


def kind_of(type_) -> str:
    """What the recipe keeps of a column of this type, 'nothing' or 'other' where it keeps nothing."""
    if pa.types.is_null(type_):
        return "nothing"
    if pa.types.is_nested(type_):
        return "lists"
    return "numeric" if is_number(type_) else "categorical" if is_word(type_) else "other"


def role_of(type_, category: bool) -> int | None:
    """The role of a column of this type (None: cells of text); None where it makes no features."""
    t = pa.types
    if type_ is None:
        return Role.WORD if category else Role.NUMBER
    if t.is_null(type_):
        return Role.LEFT_OUT
    if t.is_map(type_):
        return Role.MAP if is_text(type_.key_type) and is_number(type_.item_type) else None
    if is_list(type_):
        item = type_.value_type
        if is_number(item) and not category:
            return Role.VECTOR
        return Role.BAG if is_text(item) or t.is_integer(item) else None
    if is_number(type_) and not category:
        return Role.NUMBER
    return Role.WORD if is_word(type_) else None


def require_kind(name: str, type_, before: str | None, category: bool) -> None:
    """InputError for a column of another kind than before, or for categories that text writes in several ways."""
    if type_ is None:
        if before == "lists":
            wrong = f"the column {name} had lists or maps in the rows before, which text has not; write Parquet"
            raise InputError(wrong)
        return
    now = kind_of(type_)
    if before is not None and now not in (before, "nothing") and not (before == "categorical" and is_word(type_)):
        wrong = f"the column {name} is of the type {type_}, and had {KIND_WORDS[before]} in the rows before"
        raise InputError(f"{wrong}; write it as those have it")
    if category and now == "numeric" and not pa.types.is_integer(type_):
        wrong = "makes no categories, as its values may be written in several ways"
        cure = f"write words, or do not name it by {option('categorical')}"
        raise InputError(f"the column {name} of the type {type_} {wrong}; {cure}")


def kinds_of_types(columns: TableColumns) -> dict:
    """What the columns have, by their types, as the recipe keeps it."""
    kinds: dict = {kind: [] for kind in KIND_WORDS} | {"mixed": {}}
    for name, role in zip(columns.names, columns.roles.tolist(), strict=True):
        if role not in (Role.LABEL, Role.LEFT_OUT, Role.TEXT):
            kind = {Role.WORD: "categorical", Role.NUMBER: "numeric"}.get(role) or kind_of(columns.types[name])
            kinds[kind].append(name)
    return kinds


def own_values(counts: Mapping[str, tuple[int, int]]) -> dict:
    """The columns whose first rows nearly each have a value of their own, by (different values, values) of each."""
    own = {name: [n, rows] for name, (n, rows) in counts.items() if rows >= OWN_ROWS and n >= OWN_SHARE * rows}
    return {"own": own} if own else {}


def columns_line(options: Mapping) -> str:
    """What was decided of the columns, in a line; '' where nothing was."""
    kinds, parts = options.get(KINDS) or {}, []
    for kind, what in (("numeric", "numbers"), ("categorical", "categories"), ("lists", "lists")):
        if names := kinds.get(kind):
            parts.append(f"{len(names):,} of {what} ({some_of(names, FEW)})")
    return f"columns: {'; '.join(parts)}" if parts else ""


def remarks(options: Mapping) -> list[str]:
    """Sentences on columns that are categories, although they look like numbers, or have a value a row."""
    kinds = options.get(KINDS) or {}
    mixed, own = kinds.get("mixed", {}), kinds.get("own", {})
    sentences = []
    for name, (others, cells, line, token) in list(mixed.items())[:SHOWN]:
        comma = COMMA_NUMBER.fullmatch(token[1:-1].encode()) is not None
        cure = f"say {option('decimal', ',')}" if comma else "leave those empty or mend them"
        none = "is no number" if others == 1 else "are no numbers"
        wrong = f"the column {name} was taken as categories, since {others:,} of its first {cells:,} cells {none}"
        sentences.append(f"{wrong} (the first, {token}, in line {line:,}); if they are to be numbers, {cure}")
    if len(mixed) > SHOWN:
        sentences.append(f"so were {len(mixed) - SHOWN:,} other columns")
    if own:
        shown = [f"{short(name)}: {n:,} values in {rows:,} rows" for name, (n, rows) in list(own.items())[:FEW]]
        more = "; ..." if len(own) > FEW else ""
        wrong = f"nearly each of the first rows has a category of its own ({'; '.join(shown)}{more})"
        cure = f"leave {'it' if len(own) == 1 else 'them'} out by {added('ignore', options, *own)}?"
        sentences.append(f"{wrong}, of which nothing is learned for other rows; {cure}")
    return sentences
