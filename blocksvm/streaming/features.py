"""The features that a stream meets: hashed to some bits, or a table of ids that grows, by half at a time, with the
learners' memory."""

from __future__ import annotations

from copy import copy

import numpy as np

from blocksvm.conversion.ids import BYTES_AN_ID, FULLEST, IdTable
from blocksvm.errors import InputError, called, said
from blocksvm.streaming.learner import StreamLearner

SMALLEST = 4_096  # features at first


class StreamFeatures:
    """Which feature an id is, the same for all ``learners``, and room for it in their memory.

    bits: hash the ids to 2^bits places; None: a table of the ids within ``budget`` bytes.  Of learners of joint
    features these are the features, and ids are columns of the map.  copied: it shall be possible to save a copy of a
    learner while learning goes on (``holds_copy``: it is; hashed features may leave no room).
    Raises InputError where the budget does not hold what is asked for.
    """

    def __init__(self, learners: list[StreamLearner], bits: int | None, budget: int, copied: bool = False):
        self.learners = learners
        self.bits = bits
        per_feature = sum(learner.feature_bytes() for learner in learners)
        with_copy = per_feature + max(learner.copy_bytes() for learner in learners)
        joint = learners[0].runner.joint
        known = None if bits is None else 1 << bits
        if joint is not None:
            known = joint.n_features
        self.holds_copy = copied and (known is None or known * with_copy <= budget)
        if self.holds_copy:
            per_feature = with_copy
        if known is not None:
            need = known * per_feature
            if need > budget:
                what = said("bits", bits) if joint is None else joint.name
                lower = f"lower {called('bits')} or raise" if joint is None else "raise"
                raise InputError(
                    f"{what}: takes {need / 1e6:,.0f} MB where {called('memory')} leaves "
                    f"{budget / 1e6:,.0f} MB; {lower} {called('memory')}"
                )
            self.table, self.most = None, known
        else:
            # slots grow by half at a time: up to 1.5 / FULLEST of them for an id
            self.most = max(1024, int(budget / (per_feature + BYTES_AN_ID + 6.0 / FULLEST)))
            self.table = IdTable(self.most * (BYTES_AN_ID + int(6.0 / FULLEST)))
        self.capacity = self.most if known is not None else min(self.most, SMALLEST)
        for learner in learners:
            learner.reserve(self.most, self.capacity)

    @property
    def n_features(self) -> int:
        return self.most if self.table is None else len(self.table)

    def _grow(self, wanted: int) -> None:
        """Make room for ``wanted`` features."""
        capacity = min(self.most, max(wanted, self.capacity + self.capacity // 2))
        if wanted > capacity:
            raise InputError(
                f"{wanted:,} features do not fit in {called('memory')}; raise it, or hash them with {called('bits')} "
                f"(up to {int(np.log2(max(2, self.most)))} fit)"
            )
        self.capacity = capacity
        for learner in self.learners:
            learner.grow(capacity)

    def indices(self, ids: np.ndarray) -> np.ndarray:
        """Features (int32) of ids (int64) that are not hashed, new ones taken in."""
        found = self.table.add(ids)
        for learner in self.learners:
            learner.runner.check_features(len(self.table))
        if len(self.table) > self.capacity:
            self._grow(len(self.table))
        return found

    def ids(self) -> np.ndarray:
        """Of each feature: the id, or the place it was hashed to, or the joint feature."""
        return np.arange(self.most) if self.table is None else self.table.known[: len(self.table)]

    def frozen(self) -> StreamFeatures:
        """A copy that stays as it is; only what grows at its end is shared."""
        other = copy(self)
        other.table = copy(self.table)
        return other
