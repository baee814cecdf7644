"""A plain-Python reader of tables of pyarrow: an oracle that shares nothing with the package."""

import math

import numpy as np
import pyarrow as pa
from reference_formats import name_hash

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


def rows_of(table, label: str, categories=(), add_up=False, l2=False, single=True):
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
