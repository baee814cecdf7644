"""Labels as the user writes them (numbers, strings, sets of either), and the codes that solvers see in their place.

A source stores one float64 a row: the label itself where labels are numbers, else its position in the source's table of
labels; nan where a row has none.  ``Labels`` are the classes of a problem; a ``Coding`` makes a block's ``y`` of what a
source stores.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from blocksvm.base.errors import CONTROLS, InputError, option, printable

NUMBERS, STRINGS, SETS = "numbers", "strings", "sets"
MOST_LABELS = 10_000  # more distinct ones are not classes
MOST_SETS = 100_000  # more distinct sets are not counted
MANY = 100  # distinct numbers, which are rather targets of a regression than classes
EXACT = 2.0**53  # whole numbers below it are told apart by float64
MENDED = "mend it, or leave the row out"
LABEL_BYTES = 200  # that a distinct label takes in a table beside its text, members and copies, at most


def kind_of(label) -> str:
    """The kind of one label: a str, a tuple (a set), or a number."""
    return STRINGS if isinstance(label, str) else SETS if isinstance(label, tuple) else NUMBERS


def label_text(label) -> str:
    """A label as a person writes it, on one line: 1, -1, 0.1, spam, a,b (a set)."""
    if isinstance(label, str):
        return printable(label)
    if isinstance(label, tuple):
        return ",".join(label_text(member) for member in label)
    label = float(label)
    return str(int(label)) if label.is_integer() and abs(label) < 1e15 else repr(label)


def label_fault(labels: "np.ndarray | list | CodedLabels") -> tuple[int, str] | None:
    """(row, sentence) of the first that can't be a label, as a batch or a caller in Python gives them; or None."""
    if isinstance(labels, np.ndarray):
        infinite = np.isinf(labels)
        bad = labels[infinite.argmax()] if infinite.any() else None
        return None if bad is None else (int(infinite.argmax()), f"the label {bad} is not a finite number; {MENDED}")
    for row in labels.first_rows().tolist() if isinstance(labels, CodedLabels) else range(len(labels)):
        label = labels[row]
        for member in label if isinstance(label, tuple) else (label,):
            if isinstance(member, str) and CONTROLS.search(member):
                what = f"the label {member[:40]!r} has a line break or another control character in it, and "
                return row, what + "predictions are a label a line; take it out"
            # nan by itself says that a row has no label
            if isinstance(member, float) and (math.isinf(member) or (member != member and isinstance(label, tuple))):
                return row, f"the label {member} is not a finite number; {MENDED}"
    return None


def as_exact(label: str, cure: str) -> str:
    """The sentence for a whole number that float64 does not hold."""
    return (
        f"the label {label[:40]} is a whole number beyond 2^53 that float64 does not hold, so that it would merge with "
        f"others; {cure or 'number the labels anew'}"
    )


def exact(numbers: np.ndarray, originals: np.ndarray, cure: str) -> np.ndarray:
    """``numbers`` (n,) float64, made of ``originals``; InputError where a whole number became another one."""
    if originals.dtype.kind in "iuO":
        for row in np.flatnonzero(np.abs(numbers) >= EXACT).tolist():
            label = originals[row]
            if not isinstance(label, float) and label == int(label) and int(label) != int(numbers[row]):
                raise InputError(as_exact(str(label), cure))
    return numbers


def labels_given(given: str | Iterable | None) -> tuple | None:
    """The labels of 'NEG,POS', rising: numbers, or words if one of them is none; others are as they are."""
    if given is None:
        return None
    if isinstance(given, Iterable) and not isinstance(given, str):
        return tuple(given)
    parts = [part.strip() for part in str(given).split(",")]
    try:
        labels: list = [float(part) for part in parts]
    except ValueError:
        labels = parts
    if not all(parts) or label_fault(labels) is not None or any(label != label for label in labels):
        raise InputError(f"{option('labels', given)}: expected finite numbers such as 1,2, or words such as ham,spam")
    return tuple(sorted(labels))


def listed(labels) -> str:
    """Labels as a sentence names them."""
    return ", ".join(label_text(label) for label in labels)


@dataclass(frozen=True)
class Labels:
    """The labels of a classification problem, rising: two, of which the larger is +1, or more, counted from 0.

    values: numbers (float) or strings, all of one kind.
    """

    values: tuple

    @property
    def kind(self) -> str:
        return kind_of(self.values[0])

    @property
    def binary(self) -> bool:
        return len(self.values) == 2

    @property
    def negative(self):
        return self.values[0]

    @property
    def positive(self):
        return self.values[-1]

    @property
    def unknown(self) -> int:
        """The code of a row whose label is none of these, or that has none: 0 of two classes, -1 of more."""
        return 0 if self.binary else -1

    def table(self) -> np.ndarray:
        """(k,) float64, as the kernels take them; of numbers only."""
        return np.array(self.values, dtype=np.float64) + 0.0

    def codes(self, labels: Sequence | np.ndarray) -> np.ndarray:
        """int16: of two labels -1, +1, and 0 for any other; of more 0 .. k - 1, and -1 for any other."""
        if self.kind != NUMBERS:
            code = {value: 2 * c - 1 if self.binary else c for c, value in enumerate(self.values)}
            return np.array([code.get(label, self.unknown) for label in labels], dtype=np.int16)
        if not (isinstance(labels, np.ndarray) and labels.dtype.kind in "fiu"):
            labels = np.array([label if kind_of(label) == NUMBERS else np.nan for label in labels], dtype=np.float64)
        table = self.table()
        if self.binary:
            return (labels == table[1]).astype(np.int16) - (labels == table[0]).astype(np.int16)
        positions = np.searchsorted(table, labels)
        known = table[np.minimum(positions, len(table) - 1)] == labels
        return np.where(known, positions, -1).astype(np.int16)


def members_of(counts: list[tuple] | None) -> tuple:
    """The members of the sets that were counted, rising."""
    return tuple(sorted({member for labels, _ in counts or [] for member in labels}))


def labels_of(counts: list[tuple] | None) -> Labels | None:
    """The labels that were counted, where they make classes: two or more, no sets, not one of its own for each row."""
    if counts is None or len(counts) < 2 or kind_of(counts[0][0]) == SETS:
        return None
    return Labels(tuple(label for label, _ in counts))


@dataclass(frozen=True)
class Coding:
    """The mapping of a source's labels to ``y``: by ``labels`` (None: y is 0), or ``real``: y float64 is the label.

    source_labels: the source's table of labels, strings or sets; None where its labels are numbers.  Of sets, y is the
    position in it; the caller sees to it that there are at most ``MOST_LABELS``.  kinds (m + 1,) int16: what y is
    of each of the m labels or sets of the source, and, the last one, where a row has none.
    """

    labels: Labels | None
    source_labels: tuple | None = None
    real: bool = False
    kinds: np.ndarray | None = None

    @property
    def y_dtype(self) -> type:
        return np.float64 if self.real else np.int16

    @cached_property
    def table(self) -> np.ndarray:
        """(k,) float64: numbers that the kernels look labels up in; empty where that is not the way."""
        if self.source_labels is not None or self.real or self.labels is None or self.labels.kind != NUMBERS:
            return np.empty(0)
        return self.labels.table()

    @cached_property
    def sets(self) -> bool:
        """``y`` is the position of the row's set of labels in the source's table, or -1."""
        table = self.source_labels or ()
        return not self.real and len(table) > 0 and kind_of(table[0]) == SETS

    @cached_property
    def by_kernel(self) -> bool:
        """The kernel's table is all that is needed."""
        ours = self.labels is None or len(self.table) > 0
        return not self.real and not self.sets and self.kinds is None and ours

    @cached_property
    def _source_codes(self) -> np.ndarray:
        """int16 (m + 1,): the code of each label of the source's table, and behind them that of a row without one."""
        assert self.labels is not None and self.source_labels is not None
        return np.append(self.labels.codes(self.source_labels), np.int16(self.labels.unknown))

    def y(self, stored: np.ndarray) -> np.ndarray:
        """``y`` of rows, from the float64 that a source stores for each."""
        if self.real:
            return stored.astype(np.float64)
        if self.kinds is not None:
            of_numbers = None if self.source_labels is not None else self.labels
            return self.kinds[positions_of(stored) if of_numbers is None else of_numbers.codes(stored)]
        if self.sets:
            return positions_of(stored).astype(np.int16)
        if self.labels is None:
            return np.zeros(len(stored), np.int16)
        if self.source_labels is None:
            if self.labels.kind == NUMBERS:
                return self.labels.codes(stored)
            return np.full(len(stored), self.labels.unknown, np.int16)
        return self._source_codes[positions_of(stored)]

    def labels_of_rows(self, stored: np.ndarray) -> np.ndarray:
        """The user's labels of rows: float64 with nan, or an object array of strings or tuples with None."""
        if self.source_labels is None:
            return stored.astype(np.float64)
        return CodedLabels(positions_of(stored), self.source_labels).array()


def positions_of(stored: np.ndarray) -> np.ndarray:
    """int64: the positions in a source's table that it stores of rows, -1 of one without a label."""
    return np.where(np.isnan(stored), -1, stored).astype(np.int64)


def require_labels(source) -> None:
    """InputError unless a source's rows are of two classes or more, and every row has a label."""
    if source.label_kind == SETS:
        raise InputError(
            f"{source.name}: its rows have sets of labels, and this solver learns one label a row; "
            f"{option('solver', 'dual-cd')} learns each label against the rest, {option('learner', 'pa1')} to rank them"
        )
    _require_every_label(source)
    if source.label_counts is None:
        raise InputError(
            f"{source.name}: has more than {MOST_LABELS:,} distinct labels; a classifier accepts at most that many; "
            f"for real targets choose {option('loss', 'epsilon-insensitive')}"
        )
    if source.labels is None:
        (label, _), *_ = source.label_counts
        raise InputError(
            f"{source.name}: all rows have the label {label_text(label)}; training needs rows of two classes, add the "
            "other"
        )


def require_numbers(source) -> None:
    """InputError unless every row of a source has a number for a label."""
    if source.label_kind != NUMBERS:
        raise InputError(f"{source.name}: its labels are {source.label_kind}, and regression needs numbers; choose a "
        "loss for classes")  # fmt: skip
    _require_every_label(source)


def _require_every_label(source) -> None:
    if source.n_unlabelled and source.n_unlabelled == source.n_samples:
        raise InputError(
            f"{source.name}: none of its {source.n_samples:,} rows has a label, which training needs; split rows with "
            f"labels, of tables and matrices by {option('label')} or {option('labels_from')}"
        )
    if source.n_unlabelled:
        raise InputError(
            f"{source.name}: {source.n_unlabelled:,} of its {source.n_samples:,} rows have no label, which training "
            "needs; split the labelled rows alone, and give the others to predict"
        )


def refuse_weights(source, who: str) -> None:
    """InputError where rows have weights other than 1, which ``who`` would not heed."""
    if source.weighted:
        raise InputError(f"{source.name}: its rows have weights, which {who} does not accept; split it without weights")


def has_label(labels: np.ndarray) -> np.ndarray:
    """(n,) bool: which of the user's labels (as ``Coding.labels_of_rows`` gives them) there are."""
    if labels.dtype == object:
        return np.array([label is not None for label in labels], dtype=bool)
    return ~np.isnan(labels)


class RowError(InputError):
    """The fault of a row of a batch, by its number there."""

    def __init__(self, row: int, sentence: str):
        super().__init__(sentence)
        self.row = row


class CodedLabels:
    """Labels of n rows that are words or sets: codes (n,) int32, positions in ``distinct``, -1 where a row has none."""

    def __init__(self, codes: np.ndarray, distinct: Sequence):
        self.codes, self.distinct = codes, distinct

    @classmethod
    def of(cls, labels: Sequence) -> Self:
        """Of labels that are told apart by being equal, or None."""
        known: dict = {None: -1}
        codes = np.fromiter((known.setdefault(label, len(known) - 1) for label in labels), np.int32, len(labels))
        return cls(codes, list(known)[1:])

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows):
        """The label of a row, or those of some rows."""
        codes = self.codes[rows]
        if isinstance(codes, np.ndarray):
            return CodedLabels(codes, self.distinct)
        return self.distinct[codes] if codes >= 0 else None

    def copy(self) -> Self:
        return self  # its arrays are its own

    def first_rows(self) -> np.ndarray:
        """The first row of each label that occurs, rising."""
        first = np.full(len(self.distinct) + 1, len(self))
        first[self.codes[::-1]] = np.arange(len(self))[::-1]  # of the rows with a label the last one assigned remains
        return np.sort(first[:-1][first[:-1] < len(self)])

    def array(self) -> np.ndarray:
        """(n,) objects."""
        objects = np.empty(len(self.distinct) + 1, dtype=object)
        objects[:-1] = self.distinct
        return objects[self.codes]


class LabelTable:
    """Distinct labels, numbered in the order of their first rows, and what is kept of each row's label: a float64.

    kind: of the labels met so far, None before the first one; n_bytes: what the table takes.
    """

    def __init__(self) -> None:
        self.kind: str | None = None
        self.members: str | None = None  # the kind of the members of sets
        self.position: dict = {}
        self.n_bytes = 0

    def keep(self, labels: np.ndarray | CodedLabels) -> np.ndarray:
        """(n,) float64: the labels themselves where they are numbers, else their positions; nan for none.  Raises
        RowError where labels of two kinds meet."""
        if isinstance(labels, np.ndarray):
            for row in np.flatnonzero(~np.isnan(labels))[:1].tolist():
                self._position(row, labels[row])
            return labels
        kept = np.full(len(labels.distinct) + 1, np.nan)
        for row in labels.first_rows().tolist():
            kept[labels.codes[row]] = self._position(row, labels[row])
        return kept[labels.codes]

    def _position(self, row: int, label) -> float:
        kind = kind_of(label)
        if self.kind not in (None, kind):
            raise RowError(row, f"the labels are {self.kind} in some rows and {kind} in others; give one kind")
        self.kind = kind
        if kind == NUMBERS:
            return float(label)
        members = label if kind == SETS else (label,)
        kinds = {kind_of(member) for member in members} | ({self.members} if self.members else set())
        if len(kinds) > 1 or SETS in kinds:
            raise RowError(row, "the members of sets of labels must be all numbers or all strings; give one kind")
        self.members = next(iter(kinds), None)
        if kind == SETS:  # the members once each, rising
            label = tuple(sorted(set(members if self.members == STRINGS else map(float, members))))
        if label not in self.position:
            self.position[label] = float(len(self.position))
            self.n_bytes += LABEL_BYTES + sum(len(m.encode()) if isinstance(m, str) else 32 for m in members)
        return self.position[label]

    def sorted(self) -> tuple[tuple | None, np.ndarray | None]:
        """(the labels rising, for each position of before its position among them), of numbers (None, None)."""
        if self.kind in (None, NUMBERS):
            return None, None
        labels = tuple(sorted(self.position))
        new = np.empty(len(labels))
        new[[int(self.position[label]) for label in labels]] = np.arange(len(labels))
        return labels, new


SET_TYPES = (tuple, list, set, frozenset)


def encode_labels(y, n: int) -> tuple[np.ndarray, tuple | None]:
    """(float64 (n,) that a source stores of n labels from Python, its table of labels or None).

    y: real numbers, booleans or strings, nan or None where a row has none; or sets (also as tuples, lists or
    frozensets) of numbers or of strings, None where a row has not even an empty one; or an array (n, k) of 0 and 1,
    whose columns are the labels 0 .. k - 1.  Raises InputError for anything else.
    """
    if hasattr(y, "to_numpy") and np.asarray(y).dtype == object:  # pandas.NA is missing
        y = y.to_numpy(dtype=object, na_value=None)
    if not isinstance(y, np.ndarray) or y.dtype == object:
        labels = list(y)
        if any(isinstance(label, SET_TYPES) for label in labels):
            if len(labels) != n:
                raise InputError(f"the sets of labels must be {n}, one a row")
            return _by_position([_checked_set(label) for label in labels])
    y = np.asarray(y)
    if y.shape == (n, 1):  # a column of labels; which rows have the only one of one label, says nothing
        y = y[:, 0]
    if y.ndim == 2 and len(y) == n and np.isin(y, (0, 1)).all():
        rows, position = np.unique(y.astype(bool), axis=0, return_inverse=True)
        sets, table = _by_position([tuple(np.flatnonzero(row).astype(np.float64).tolist()) for row in rows])
        return sets[position.reshape(-1)], table
    if y.shape != (n,):
        raise InputError(f"the labels must be {n} finite numbers or strings, one a row")
    labels = y.tolist() if y.dtype.kind not in "biuf" else []
    if y.dtype.kind in "US" or any(isinstance(label, str) for label in labels):
        labels = [label.decode() if isinstance(label, bytes) else label for label in labels]
        labels = [None if isinstance(label, float) and np.isnan(label) else label for label in labels]
        if not all(label is None or isinstance(label, str) for label in labels):
            raise InputError("the labels must be all numbers or all strings; write the numbers as strings")
        return _by_position(labels)
    numbers = numbers_of(y)
    _refuse(numbers)
    return numbers, None


def numbers_of(y: np.ndarray) -> np.ndarray:
    """Labels (n,) of any type as float64; InputError for no real numbers, and whole ones that become another one."""
    try:
        if y.dtype.kind == "c" or any(isinstance(one, complex) for one in (y.tolist() if y.dtype == object else ())):
            raise TypeError
        numbers = y.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError("the labels must be numbers or strings") from error
    return exact(numbers, y, "give them as strings, as y.astype(str) does")


def _refuse(labels: np.ndarray | CodedLabels) -> None:
    """InputError for the first label that is none."""
    fault = label_fault(labels)
    if fault is not None:
        raise InputError(f"row {fault[0]} of y: {fault[1]}")


def _checked_set(label) -> tuple | None:
    """A set of labels from Python; numbers of any type are of ours."""
    if label is None:
        return None
    if not isinstance(label, SET_TYPES):
        raise InputError(f"the label {label!r} stands among sets of labels; write it as a set of one")
    numbers = [member for member in label if not isinstance(member, str)]
    return tuple(member for member in label if isinstance(member, str)) + tuple(
        numbers_of(np.array(numbers, dtype=object)).tolist() if numbers else ()
    )


def _by_position(labels: list) -> tuple[np.ndarray, tuple]:
    """``encode_labels`` of strings or tuples, None where a row has none."""
    coded, table = CodedLabels.of(labels), LabelTable()
    _refuse(coded)
    kept = table.keep(coded)
    known, new = table.sorted()
    assert known is not None and new is not None
    return np.append(new, np.nan)[positions_of(kept)], known


def count_labels(stored: np.ndarray, table: tuple | None) -> tuple[list[tuple] | None, int]:
    """(each label with its rows, rising, or None where there are too many; rows without one); see ``encode_labels``."""
    codes, counts = np.unique(stored[~np.isnan(stored)], return_counts=True)
    unlabelled = len(stored) - int(counts.sum())
    if len(codes) > MOST_LABELS:
        return None, unlabelled
    labels = codes.tolist() if table is None else [table[int(code)] for code in codes]
    return list(zip(labels, counts.tolist(), strict=True)), unlabelled
