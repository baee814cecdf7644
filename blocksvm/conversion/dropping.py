"""The rule by which rows of a store are dropped: those whose numbers a file lists, or the oldest ones."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.objects.remote_path import place
from blocksvm.conversion.number_lines import number_lines
from blocksvm.store.reader import Store

OLDEST = "oldest:"
BINS = 1 << 16  # of row numbers, in a search for the age at which rows are left out
LARGEST_NUMBER = 2.0**53


class Dropping(Protocol):
    """A rule that has looked at a store."""

    def chosen(self, numbers: np.ndarray) -> np.ndarray:
        """Which of the rows with these numbers (n,) uint64 in the source, from 0, are left out: (n,) bool."""
        ...

    def finish(self) -> None:
        """All rows have been shown; InputError where the rule asks for others."""
        ...


def dropping(rule: str, store: Store, memory: int) -> Dropping:
    """The rule of ``--drop``: the name of a file of row numbers, from 1, or 'oldest:1000', or 'oldest:10%'.  memory:
    bytes that the numbers may take.  InputError for a rule that is neither."""
    if not rule.startswith(OLDEST):
        return ListedRows(rule, store, memory)
    amount = rule[len(OLDEST) :]
    try:
        n = int(amount) if not amount.endswith("%") else round(store.n_samples * float(amount[:-1]) / 100.0)
    except (ValueError, OverflowError):
        n = -1
    if n < 0:
        raise InputError(
            f"{option('drop', rule)}: how many of the oldest rows? give a number of rows, as {OLDEST}1000, or a share, "
            f"as {OLDEST}10%"
        )
    if n >= store.n_samples:
        raise InputError(f"{option('drop', rule)}: {store.path} has {store.n_samples:,} rows, so none would be left")
    return Oldest(n, store)


class ListedRows:
    """Rows by their numbers, which a file lists one a line."""

    def __init__(self, name: str, store: Store, memory: int):
        if not place(name).exists():
            raise InputError(
                f"{name}: no such file; {option('drop', 'ROWS.txt')} names a file of row numbers, and "
                f"{option('drop', OLDEST + '1000')} the oldest rows"
            )
        self.name = name
        self.store = store
        wanted = "a row's number; each line has one whole number, counted from 1"
        parts, n = [], 0
        for piece in number_lines(name, whole_numbers, wanted):
            parts.append(piece.astype(np.int64) - 1)
            n += len(piece)
            if 24 * n > memory:  # as they come, one after the other, and once each
                raise InputError(
                    f"{name}: more than {n - len(piece):,} rows take more than the {memory / 1e6:,.0f} MB that "
                    f"there are for their numbers; raise {option('memory')}, or leave them out in several steps"
                )
        self.numbers = np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)
        if not len(self.numbers):
            raise InputError(f"{name}: lists no rows; give the number of each row that is to be left out")
        self.met = np.zeros(len(self.numbers), bool)

    def chosen(self, numbers: np.ndarray) -> np.ndarray:
        numbers = numbers.astype(np.int64)
        place = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        listed = self.numbers[place] == numbers
        self.met[place[listed]] = True
        return listed

    def finish(self) -> None:
        missing = np.flatnonzero(~self.met)
        if len(missing):
            number, last = int(self.numbers[missing[0]]) + 1, int(self.store.meta["source_rows"])
            why = f"its rows have numbers from 1 to {last}" if number > last else "it was left out before, or held out"
            raise InputError(f"{self.name}: row {number} is not in {self.store.path}: {why}; remove that line")


def whole_numbers(numbers: np.ndarray) -> np.ndarray:
    return (numbers >= 1.0) & (numbers < LARGEST_NUMBER) & (numbers == np.floor(numbers))


class Oldest:
    """The n rows that have been in the store for the longest time: those of the smallest numbers."""

    def __init__(self, n: int, store: Store):
        # by bins of numbers first, then number by number in the one bin where the last of them lies
        width = store.meta["source_rows"] // BINS + 1
        counts = np.zeros(BINS + 1, np.int64)
        for numbers in _numbers_of(store):
            counts += np.bincount((numbers // width).astype(np.int64), minlength=len(counts))[: len(counts)]
        before = np.append(0, np.cumsum(counts))
        last = int(np.searchsorted(before, n, side="left")) - 1 if n else 0
        in_bin = np.zeros(width, np.int64)
        for numbers in _numbers_of(store):
            inside = numbers[numbers // width == last].astype(np.int64) - last * width
            in_bin += np.bincount(inside, minlength=width)
        self.end = last * width + int(np.searchsorted(np.append(0, np.cumsum(in_bin)), n - before[last]))

    def chosen(self, numbers: np.ndarray) -> np.ndarray:
        return numbers < self.end

    def finish(self) -> None:
        pass


def _numbers_of(store: Store):
    """The source numbers of the rows, chunk by chunk."""
    for chunk in range(len(store.chunks)):
        numbers = store.read_rows(chunk)["source"]
        if int(numbers.max()) >= store.meta["source_rows"]:
            raise InputError(f"{store.path}: is damaged (a row's number is beyond its source); make it again")
        yield numbers
