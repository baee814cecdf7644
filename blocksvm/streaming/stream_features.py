"""The features of a stream: hashes that ids are hashed to, or a table of ids that grows, by half at a time, with the
learners' memory.

Where learners have much memory for each hash, hashes are numbered by first occurrence, too: the first touch of memory
is slow, and hashing touches all of it however few the features are."""

from __future__ import annotations

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.conversion.feature_ids import BYTES_AN_ID, FULLEST, IdTable
from blocksvm.kernels.hash_table import number_new
from blocksvm.streaming.ahead import ParsedPart
from blocksvm.streaming.stream_learner import StreamLearner

SMALLEST = 4_096  # features at first
# Bytes of learners for all hashes, from which on these are numbered: three numbers of each at 22 bits.  An entry's
# number costs some 4 ns; without it a learner of three to eight numbers takes up to five times as long on short texts,
# up to twice as long on longer ones, and as long where nearly all hashes are used.  One of two numbers takes a tenth
# less without.
NUMBERED_FROM = 3 << 25
BYTES_A_HASH = 4 + 4  # its number, and the hash of a number


class HashNumbers:
    """Hashes below ``n`` that occur, in order of first occurrence."""

    def __init__(self, n: int):
        self.numbers = np.zeros(n, np.int32)
        self.known = np.empty(n + 1, np.int32)  # memory that is not touched is not taken
        self.n_known = 0

    def __len__(self) -> int:
        return self.n_known

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Positions (int32) of hashes, which are overwritten with them where they are int32."""
        positions = np.ascontiguousarray(hashes, dtype=np.int32)
        self.n_known = number_new(positions, self.numbers, self.known, self.n_known)
        return positions


class StreamFeatures:
    """The feature of each id, the same for all ``learners``, and memory for it in these.

    bits: hash the ids to 2^bits hashes; None: a table of the ids within ``budget`` bytes.  numbered: hashes are
    numbered by first occurrence, or None: where learners have much memory for each, and it fits.  Raises InputError
    where the budget is too small.
    """

    def __init__(self, learners: list[StreamLearner], bits: int | None, budget: int, numbered: bool | None = None):
        self.learners, self.bits = learners, bits
        per_feature = sum(learner.feature_bytes() for learner in learners)
        if bits is not None:
            known = 1 << bits
            learner_bytes = 8 * known * sum(learner.runner.feature_numbers() for learner in learners)
            if numbered is None:
                numbered = learner_bytes >= NUMBERED_FROM and known * (per_feature + BYTES_A_HASH) <= budget
            if numbered:
                per_feature += BYTES_A_HASH
            need = known * per_feature
            if need > budget:
                raise InputError(
                    f"{option('bits', bits)}: takes {need / 1e6:,.0f} MB where {option('memory')} leaves "
                    f"{budget / 1e6:,.0f} MB; lower {option('bits')} or raise {option('memory')}"
                )
            self.table, self.most = HashNumbers(known) if numbered else None, known
        else:
            # slots grow by half at a time: up to 1.5 / FULLEST of them for an id
            self.most = max(1024, int(budget / (per_feature + BYTES_AN_ID + 6.0 / FULLEST)))
            self.table = IdTable(self.most * (BYTES_AN_ID + int(6.0 / FULLEST)))
        self.n_features = self.most if self.table is None else 0  # that learners know
        self.capacity = self.most if self.table is None else min(self.most, SMALLEST)
        for learner in learners:
            learner.reserve(self.most, self.capacity)

    def _grow(self, wanted: int) -> None:
        """Give the learners memory for ``wanted`` features."""
        capacity = min(self.most, max(wanted, self.capacity + self.capacity // 2))
        if wanted > capacity:
            raise InputError(
                f"{wanted:,} features do not fit in {option('memory')}; raise it, or hash them with {option('bits')} "
                f"(up to {int(np.log2(max(2, self.most)))} fit)"
            )
        self.capacity = capacity
        for learner in self.learners:
            learner.grow(capacity)

    def find(self, part: ParsedPart) -> None:
        """Set the features of a part's rows, new ones added to the table.  The learners' memory stays as it is, so that
        earlier rows may be learned from meanwhile: ``hold`` follows."""
        try:
            part.indices, part.n_features = self._positions(part.batch.ids)
        except InputError as error:
            part.error = error

    def _positions(self, ids: np.ndarray) -> tuple[np.ndarray, int]:
        """Features (int32) of ids (int64), or of the hashes that they are hashed to; and how many there are then."""
        return (ids, self.most) if self.table is None else (self.table.add(ids), len(self.table))

    def hold(self, n_features: int) -> None:
        """Let the learners have so many features."""
        if self.table is None:
            return
        for learner in self.learners:
            learner.runner.check_features(n_features)
        if n_features > self.capacity:
            self._grow(n_features)
        self.n_features = n_features

    def indices(self, ids: np.ndarray) -> np.ndarray:
        """Features (int32) of ids that are known before rows are read."""
        positions, n_features = self._positions(ids)
        self.hold(n_features)
        return positions

    def ids(self) -> np.ndarray:
        """Of each feature: the id, or the hash it was hashed to."""
        return np.arange(self.most) if self.table is None else self.table.known[: self.n_features]
