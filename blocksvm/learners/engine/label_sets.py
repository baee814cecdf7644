"""The table of label sets that the loops over rows take: the members of all sets, one set after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SetTable:
    """m sets of the classes 0 .. k - 1: first (m + 1,) int64, members (n,) int32.  Set i has members[first[i]] ..
    members[first[i + 1] - 1], in ascending order."""

    first: np.ndarray
    members: np.ndarray

    @classmethod
    def of(cls, sets: Iterable[Iterable[int]]) -> SetTable:
        """The table of sets of classes, in their order."""
        members = [sorted(set(classes)) for classes in sets]
        first = np.append(0, np.cumsum([len(classes) for classes in members], dtype=np.int64)).astype(np.int64)
        return cls(first, np.array([c for classes in members for c in classes], np.int32))

    @classmethod
    def of_membership(cls, member: np.ndarray) -> SetTable:
        """The table of member (m, k) bool: whether set i has class c."""
        first = np.append(0, np.cumsum(member.sum(axis=1), dtype=np.int64))
        return cls(first, np.nonzero(member)[1].astype(np.int32))

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return self.first, self.members

    @property
    def nbytes(self) -> int:
        return self.first.nbytes + self.members.nbytes
