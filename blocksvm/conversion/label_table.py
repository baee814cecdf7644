"""The labels that a conversion meets: numbers as they are, strings and sets by their position in a table."""

from __future__ import annotations

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.labels import LABEL_BYTES, NUMBERS, SETS, kind_of
from blocksvm.base.row_batch import CodedLabels


class RowError(InputError):
    """The fault of a row of a batch, by its number there."""

    def __init__(self, row: int, sentence: str):
        super().__init__(sentence)
        self.row = row


class LabelTable:
    """Distinct labels in order of their first row, and what is kept of each row's label: a float64.

    kind: of the labels met so far, None before the first one; n_bytes: what the table takes.
    """

    def __init__(self):
        self.kind: str | None = None
        self.members: str | None = None  # the kind of the members of sets
        self.position: dict = {}
        self.n_bytes = 0

    def keep(self, labels: np.ndarray | CodedLabels) -> np.ndarray:
        """(n,) float64: the labels themselves where they are numbers, else their positions; nan for none.  Raises
        RowError where labels of two kinds meet."""
        if isinstance(labels, np.ndarray):
            known = np.flatnonzero(~np.isnan(labels))
            if len(known):
                try:
                    self._meet(NUMBERS)
                except InputError as error:
                    raise RowError(int(known[0]), str(error)) from None
            return labels
        kept = np.full(len(labels.distinct) + 1, np.nan)
        codes, rows = np.unique(labels.codes, return_index=True)
        for row in np.sort(rows[codes >= 0]).tolist():  # the first of each label
            try:
                kept[labels.codes[row]] = self._one(labels[row])
            except InputError as error:
                raise RowError(row, str(error)) from None
        return kept[labels.codes]

    def _one(self, label) -> float:
        kind = kind_of(label)
        self._meet(kind)
        if kind == NUMBERS:
            return float(label)
        if kind == SETS:
            label = self._set(label)
        known = self.position.get(label)
        if known is None:
            known = self.position[label] = float(len(self.position))
            members = label if kind == SETS else (label,)
            self.n_bytes += LABEL_BYTES + sum(len(m.encode()) if isinstance(m, str) else 32 for m in members)
        return known

    def _set(self, label: tuple) -> tuple:
        """The members once each, rising."""
        kinds = {kind_of(member) for member in label} | ({self.members} if self.members else set())
        if len(kinds) > 1 or SETS in kinds:
            raise InputError("the members of sets of labels must be all numbers or all strings; give one kind")
        self.members = next(iter(kinds), None)
        if self.members == NUMBERS:
            label = map(float, label)
        return tuple(sorted(set(label)))

    def _meet(self, kind: str) -> None:
        if self.kind not in (None, kind):
            raise InputError(f"the labels are {self.kind} in some rows and {kind} in others; give one kind")
        self.kind = kind

    def sorted(self) -> tuple[tuple | None, np.ndarray | None]:
        """(the labels rising, for each position of before its position among them), or (None, None): the labels are
        numbers."""
        if self.kind in (None, NUMBERS):
            return None, None
        labels = tuple(sorted(self.position))
        new = np.empty(len(labels))
        for position, label in enumerate(labels):
            new[int(self.position[label])] = position
        return labels, new
