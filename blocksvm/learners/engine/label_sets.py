"""Sets of classes as the loops over rows take them: a table of the sets, each a run of its members."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class SetTable:
    """m sets of the classes 0 .. k - 1: first (m + 1,) int64, members (n,) int32; those of set i are
    members[first[i]] .. members[first[i + 1] - 1], rising."""

    first: np.ndarray
    members: np.ndarray

    @classmethod
    def of(cls, sets: Iterable[Iterable[int]]) -> SetTable:
        """Of sets of classes, in their order."""
        listed = [sorted(set(own)) for own in sets]
        first = np.append(0, np.cumsum([len(own) for own in listed], dtype=np.int64)).astype(np.int64)
        return cls(first, np.array([c for own in listed for c in own], np.int32))

    @classmethod
    def of_membership(cls, member: np.ndarray) -> SetTable:
        """Of member (m, k) bool: which classes each set has."""
        first = np.append(0, np.cumsum(member.sum(axis=1), dtype=np.int64))
        return cls(first, np.nonzero(member)[1].astype(np.int32))

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        return self.first, self.members

    @property
    def nbytes(self) -> int:
        return self.first.nbytes + self.members.nbytes
