"""Plain-Python readers of the input formats besides svmlight, and of tables of pyarrow: oracles that share nothing with
the package."""

import csv
import math
import re
from collections import Counter

import numpy as np
import pyarrow as pa
from reference import BadLine

_NUMBER = re.compile(rb"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")
_GAP = re.compile(rb"[ \t\r]+")
_ALL = 2**64 - 1


def mix(x: int) -> int:
    """The finaliser of splitmix64 (Steele, Lea and Flood 2014)."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _ALL
    return x ^ (x >> 31)


def name_hash(name: bytes, seed: int = 0) -> int:
    whole = len(name) // 8 * 8
    for k in range(0, whole, 8):
        seed = mix(seed ^ int.from_bytes(name[k : k + 8], "little"))
    rest = name[whole:]
    return mix(seed ^ int.from_bytes(rest, "little") ^ len(rest) << 56)


def feature_id(namespace: bytes, name: bytes) -> int:
    """The id of a feature of Vowpal Wabbit text: 63 bits."""
    return name_hash(name, name_hash(namespace)) >> 1


def _number(word: bytes, line: int) -> float:
    if not _NUMBER.fullmatch(word) or not np.isfinite(float(word)):
        raise BadLine(line, f"{word!r} is not a finite number")
    return float(word)


def _words(text: bytes) -> list[bytes]:
    return [word for word in _GAP.split(text) if word]


def parse_vw(data: bytes, dtype: str = "float32") -> list[tuple]:
    """(label or None, weight, {id: value} with rising ids, {id: name}) of each row of Vowpal Wabbit text.

    Values are products of float64, summed in the order in which they stand, then rounded; zeros are dropped.
    """
    rows = []
    for line, text in enumerate(data.split(b"\n"), start=1):
        try:
            text.decode()
        except UnicodeDecodeError:
            raise BadLine(line, "not UTF-8") from None
        if not _words(text):
            continue
        head, bar, body = text.partition(b"|")
        if not bar:
            raise BadLine(line, "no bar")
        words = _words(head)
        if words and (not _GAP.fullmatch(head[-1:]) or words[-1].startswith(b"'")):
            words.pop()  # a tag
        if len(words) > 3:
            raise BadLine(line, "too many words")
        numbers = [_number(word, line) for word in words]
        label, weight, base = (numbers + [None, 1.0, 0.0][len(numbers) :])[:3]
        if weight < 0 or base != 0:
            raise BadLine(line, "bad weight or base")
        entries: dict[int, float] = {}
        names: dict[int, bytes] = {}
        for part in body.split(b"|"):
            space, scale = b"", 1.0
            words = _words(part)
            if words and not _GAP.fullmatch(part[:1]):
                space, colon, number = words.pop(0).partition(b":")
                if not space:
                    raise BadLine(line, "a scale without a namespace")
                scale = _number(number, line) if colon else 1.0
            for word in words:
                name, colon, number = word.partition(b":")
                if not name:
                    raise BadLine(line, "a value without a name")
                value = (_number(number, line) if colon else 1.0) * scale
                if not np.isfinite(value):
                    raise BadLine(line, "overflow")
                i = feature_id(space, name)
                entries[i] = entries.get(i, 0.0) + value
                names[i] = space + b"^" + name if space else name
        with np.errstate(over="ignore"):
            rounded = {i: float(np.dtype(dtype).type(value)) for i, value in entries.items()}
        if not np.isfinite(list(rounded.values())).all():
            raise BadLine(line, "overflow")
        kept = sorted(i for i, value in rounded.items() if value != 0.0)
        rows.append((label, weight, {i: rounded[i] for i in kept}, {i: names[i] for i in kept}))
    return rows


def ngrams_of(text: str, analyzer: str, low: int, high: int) -> dict[str, int]:
    """How often each n-gram of low to high words or characters occurs in a document."""
    text = text.lower()
    if analyzer == "word":
        words = re.findall(r"(?u)\b\w\w+\b", text)
        spans = [" ".join(words[i : i + n]) for n in range(low, high + 1) for i in range(len(words) - n + 1)]
    elif analyzer == "char":
        text = re.sub(r"\s\s+", " ", text)
        spans = [text[i : i + n] for n in range(low, high + 1) for i in range(len(text) - n + 1)]
    else:
        spans = []
        for word in (f" {word} " for word in text.split()):
            lengths = [n for n in range(low, high + 1) if n < len(word)]
            spans += [word[i : i + n] for n in lengths for i in range(len(word) - n + 1)]
            spans += [word] * (high >= len(word))
    return Counter(spans)


MISSING = ("", "na", "n/a", "nan", "null")


def table_rows(text: str, label: str, categories=(), auto=True) -> list[tuple]:
    """(label, {feature: value}) of each row of a table.  auto: a column
    in which any cell is no number is one of categories, too.

    BadLine where a row has too many or too few cells, or a number is none.
    """
    table = [[cell.strip() for cell in next(csv.reader([own], skipinitialspace=True), [])] for own in text.splitlines()]
    names = table[0]
    if auto:
        columns = zip(*(cells for cells in table[1:] if cells), strict=True)
        categories = set(categories) | {
            name
            for name, cells in zip(names, columns, strict=False)
            if any(_NUMBER.fullmatch(cell.encode()) is None and cell.lower() not in MISSING for cell in cells)
        }
    rows = []
    for line, cells in enumerate(table[1:], start=2):
        if not cells:
            continue
        if len(cells) != len(names):
            raise BadLine(line, "cells")
        entries, target = {}, np.nan
        for name, cell in zip(names, cells, strict=True):
            if name == label:
                target = float(cell) if cell else np.nan
            elif cell.lower() not in MISSING:
                numeric = _NUMBER.fullmatch(cell.encode()) is not None and name not in categories
                if not numeric and not auto and name not in categories:
                    raise BadLine(line, "no number")
                value = float(np.float32(cell)) if numeric else 1.0
                if value != 0.0:
                    entries[name if numeric else f"{name}={cell}"] = value
        rows.append((target, entries))
    return rows


CATEGORIES = 0x452821E638D01377  # a category's hash goes on from that of its column's name, from here on


def number_id(name: str) -> int:
    return name_hash(name.encode()) >> 1


def category_id(column: str, value: str) -> int:
    return name_hash(value.encode(), name_hash(column.encode(), CATEGORIES)) >> 1


def entries_of(column: str, type_, cell, categories) -> list[tuple[int, str, float]]:
    """(id, name, value) of one cell, in its order, zeros among them."""

    def category(value, number=1.0):
        value = value.strip(" \t\r") if isinstance(value, str) else value
        word = str(value) if not isinstance(value, bool) else str(value).lower()
        return [(category_id(column, word), f"{column}={word}", number)] if value is not None and word else []

    def value(name, number):
        own = math.nan if number is None else float(number)
        return [] if math.isnan(own) else [(number_id(name), name, own)]

    if cell is None:
        return []
    if pa.types.is_map(type_):
        found = []
        for key, number in cell:
            own = math.nan if number is None else float(number)
            found += [] if math.isnan(own) else category(key, own)
        return found
    if pa.types.is_list(type_) or pa.types.is_large_list(type_) or pa.types.is_fixed_size_list(type_):
        if not pa.types.is_string(type_.value_type):
            return [one for k, number in enumerate(cell) for one in value(f"{column}[{k}]", number)]
        return [one for item in cell for one in category(item)]
    is_word = pa.types.is_dictionary(type_) or isinstance(cell, str)
    return category(cell) if is_word or column in categories else value(column, cell)


def arrow_rows(table, label: str, categories=(), add_up=False, l2=False, single=True):
    """([(label, [(id, name, value)])] up to the first fault, that fault (what, name) or None)."""
    rows = []
    cells = {name: table.column(name).to_pylist() for name in table.schema.names}
    for r in range(table.num_rows):
        found = []
        for name, own in cells.items():
            if name != label:
                type_ = table.schema.field(name).type
                found += [one for one in entries_of(name, type_, own[r], categories) if one[2] != 0.0]
        for _, name, value in found:
            if not math.isfinite(value):
                return rows, ("not finite", name)
        found.sort(key=lambda one: one[0])
        joined: list[tuple] = []
        for own in found:
            if joined and joined[-1][0] == own[0]:
                if not add_up:
                    return rows, ("twice", own[1])
                joined[-1] = (own[0], own[1], joined[-1][2] + own[2])
            else:
                joined.append(own)
        largest, norm = 1.0, 1.0
        if l2:
            largest = max((abs(own[2]) for own in joined), default=0.0)
            squares = 0.0
            for own in joined:
                part = own[2] / largest if largest > 0.0 else 0.0
                squares += part * part  # math's power may differ from the product in the last bit
            norm = math.sqrt(squares)
        closed, total = [], 0.0
        for id_, name, value in joined:
            if l2 and value != 0.0:
                value = value / largest / norm
            if single:
                with np.errstate(over="ignore"):
                    value = float(np.float32(value))
            if not math.isfinite(value):
                return rows, ("too large", name)
            if value != 0.0:
                closed.append((id_, name, value))
                total += value * value
        if math.isinf(total):
            return rows, ("norm", None)
        target = cells[label][r]
        rows.append((math.nan if target is None else float(target), closed))
    return rows, None
