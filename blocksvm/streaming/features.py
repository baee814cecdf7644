"""The memory of a learner whose features are met one after the other: hashed to some bits, or a table that grows.

What grows is reserved at its largest size from the start (memory that is not touched is not taken) and used up to a
capacity that grows by half at a time: nothing is copied but the constant feature, and of several classes what lies
behind the first one's.
"""

from __future__ import annotations

from copy import copy

import numpy as np

from blocksvm.conversion.ids import BYTES_AN_ID, FULLEST, IdTable
from blocksvm.errors import InputError, called, said
from blocksvm.learners.loops import TALLY_LENGTH
from blocksvm.learners.runner import LearnerState, Runner

SMALLEST = 4_096  # features at first


def feature_bytes(runner: Runner, prior: bool) -> int:
    """What a feature takes: weights and what the learner keeps beside them, and what saving it takes."""
    return 8 * runner.feature_numbers() + 8 * runner.n_vectors * (1 + prior)


def spans(start: int, stop: int, length: int) -> list[tuple[int, int, int]]:
    """(class, first, last) of the parts of a range over class after class of ``length`` entries each."""
    found = []
    while start < stop:
        c = start // length
        last = min(stop, (c + 1) * length)
        found.append((c, start - c * length, last - c * length))
        start = last
    return found


class StreamFeatures:
    """A ``LearnerState`` over features that come as ids.

    bits: hash the ids to 2^bits places; None: a table of the ids within ``budget`` bytes.  copied: it shall be possible
    to save a copy while learning goes on (``holds_copy``: it is; hashed features may leave no room).  Raises InputError
    where the budget does not hold what is asked for.
    """

    def __init__(self, runner: Runner, bits: int | None, budget: int, has_prior: bool, copied: bool = False):
        self.runner = runner
        self.bits = bits
        self.budget = budget
        per_feature = feature_bytes(runner, has_prior)
        with_copy = per_feature + 8 * runner.feature_numbers() + 8 * runner.n_vectors * has_prior
        self.holds_copy = copied and (bits is None or (1 << bits) * with_copy <= budget)
        if self.holds_copy:
            per_feature = with_copy
        if bits is not None:
            need = (1 << bits) * per_feature
            if need > budget:
                raise InputError(
                    f"{said('bits', bits)}: takes {need / 1e6:,.0f} MB where {called('memory')} leaves "
                    f"{budget / 1e6:,.0f} MB; lower {called('bits')} or raise {called('memory')}"
                )
            self.table, most = None, 1 << bits
        else:
            # slots grow by half at a time: up to 1.5 / FULLEST of them for an id
            most = max(1024, int(budget / (per_feature + BYTES_AN_ID + 6.0 / FULLEST)))
            self.table = IdTable(most * (BYTES_AN_ID + int(6.0 / FULLEST)))
        self.most = most
        n_vectors = runner.n_vectors
        self.reserved = np.zeros(n_vectors * (most + 1) * runner.width)
        self.reserved_prior = np.zeros(n_vectors * (most + 1)) if has_prior else np.empty(0)
        self.capacity = most if bits is not None else 0
        self.filled = 0  # features whose columns have been begun
        self.state = LearnerState(self.reserved[:0], np.zeros(runner.scalar_length()), np.zeros(TALLY_LENGTH))
        if bits is not None:
            self._use(most)
            runner.start(self.state)
        else:
            self._grow(SMALLEST)
            runner.start(self.state)

    @property
    def n_features(self) -> int:
        return (1 << self.bits) if self.table is None else len(self.table)

    def _use(self, capacity: int) -> None:
        width, n_vectors = self.runner.width, self.runner.n_vectors
        self.capacity = capacity
        self.state.columns = self.reserved[: n_vectors * (capacity + 1) * width]
        if len(self.reserved_prior):
            self.state.prior = self.reserved_prior[: n_vectors * (capacity + 1)]

    def _grow(self, wanted: int) -> None:
        """Make room for ``wanted`` features; the constant one's and the later classes' numbers move back."""
        before = self.capacity
        capacity = min(self.most, max(wanted, before + before // 2, SMALLEST))
        if wanted > capacity:
            raise InputError(
                f"{wanted:,} features do not fit in {called('memory')}; raise it, or hash them with {called('bits')} "
                f"(up to {int(np.log2(max(2, self.most)))} fit)"
            )
        for array, width in ((self.reserved, self.runner.width), (self.reserved_prior, 1)):
            if len(array) == 0:
                continue
            for c in reversed(range(self.runner.n_vectors)):
                old = array[c * (before + 1) * width : (c + 1) * (before + 1) * width].copy() if before else None
                new = array[c * (capacity + 1) * width : (c + 1) * (capacity + 1) * width]
                if old is not None:
                    new[before * width :] = 0.0
                    new[: before * width] = old[: before * width]
                    new[capacity * width :] = old[before * width :]
        self._use(capacity)
        if before:
            # new features begin as the learner says; those of before were moved away
            for c in range(self.runner.n_vectors):
                start = (c * (capacity + 1) + before) * self.runner.width
                stop = (c * (capacity + 1) + capacity) * self.runner.width
                self.runner.fill_new(self.reserved[start:stop])

    def indices(self, ids: np.ndarray) -> np.ndarray:
        """Features (int32) of ids (int64) that are not hashed, new ones taken in."""
        found = self.table.add(ids)
        self.runner.check_features(len(self.table))
        if len(self.table) > self.capacity:
            self._grow(len(self.table))
        return found

    def frozen(self) -> StreamFeatures:
        """A copy that stays as it is; only what grows at its end is shared."""
        other = copy(self)
        other.table = copy(self.table)
        own = self.state
        other.state = LearnerState(own.columns.copy(), own.scalars.copy(), own.tally.copy(), own.prior.copy())
        return other

    def put_back(self, start: int, numbers: np.ndarray) -> None:
        """A piece of a saved state: class after class, the numbers of its features and of the constant one."""
        width, n = self.runner.width, self.n_features * self.runner.width
        done = 0
        for c, first, last in spans(start, start + len(numbers), n + width):
            own = self.state.columns[c * (self.capacity + 1) * width : (c + 1) * (self.capacity + 1) * width]
            part = numbers[done : done + last - first]
            done += last - first
            known = max(0, min(last, n) - first)
            own[first : first + known] = part[:known]
            constant = self.capacity * width + max(first, n) - n
            own[constant : constant + len(part) - known] = part[known:]

    def ids(self) -> np.ndarray:
        """Of each feature: the id, or the place it was hashed to."""
        return np.arange(1 << self.bits) if self.table is None else self.table.known[: len(self.table)]

    def numbers_of(self, start: int, stop: int, c: int) -> np.ndarray:
        """The learner's numbers of features start..stop-1 of class c; ``n_features`` is the constant one's number."""
        width = self.runner.width
        first = c * (self.capacity + 1)
        rows = self.state.columns.reshape(-1, width)
        n = self.n_features
        if stop <= n:
            return rows[first + start : first + stop]
        constant = rows[first + self.capacity : first + self.capacity + 1]
        return np.concatenate([rows[first + start : first + n], constant])

    def prior_of(self, start: int, stop: int, c: int) -> np.ndarray:
        first = c * (self.capacity + 1)
        n = self.n_features
        own = self.state.prior[first + start : first + min(stop, n)]
        return own if stop <= n else np.append(own, self.state.prior[first + self.capacity])
