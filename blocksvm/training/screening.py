"""What the gap decides for good: rows that no later step can move leave the readings, and the certificates too.

For every w and every feasible a',

    P(w) - D(a') >= 1/2 ||w - w(a')||^2,

since the difference is that square and the terms of Fenchel and Young, which are >= 0 (problems/loss.py).  So after a
certificate of w and a, with gap g, each a' of D(a') >= D(a) has ||w - w(a')|| <= sqrt(2 g): a row that lies farther
beyond its bound than ||x_i|| sqrt(2 g) stays at it for as long as the dual does not fall, which no step of coordinate
descent lets it do (gap-safe screening: Ndiaye, Fercoq, Gramfort, Salmon, JMLR 18, 2017).  Its a is known, its loss is
linear in w, and the sum over all such rows needs none of them (``Decided``): they are left out exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from blocksvm.kernels.margins import decision_values
from blocksvm.kernels.screening import BINS, DECIDED, FARTHEST, ONE, PER_OCTAVE
from blocksvm.problems.problem import Certificate, Decided, predicted
from blocksvm.solvers.protocol import Solver, State
from blocksvm.sources.block import Block
from blocksvm.sources.remainder import KeptRows
from blocksvm.sources.source import Source, bytes_of_blocks
from blocksvm.sources.store.reader import Store
from blocksvm.sources.store.remainder import smaller_store
from blocksvm.training.memory_plan import Blocks

# Relative to P, added to the gap: the w at hand is w(a) but for its drift, and D grows but for rounding.
SLACK = 1e-9
# Of the entries that are read: so few must be left for all rows to be read once more, to leave the rest out.
WORTHWHILE = 0.5
# A certificate is taken for the sake of that when the gap, as it is estimated, puts rows at this distance beyond their
# bounds out of reach, and then at each quarter of the gap: the distance is halved.
NEAR_ENOUGH = 0.3
NEXT_TRY = 0.25
FAR = 10.0  # times the tolerance: from a smaller gap on, leaving rows out is not worth a reading any more


class Stopped(Exception):
    """The user wants to stop."""


class Screening:
    """Which rows are decided, of a run over ``n_samples`` rows.

    bins (n_samples,) uint8: how far w may move before a row does, by the last certificate (kernels/screening.py), or
    DECIDED; decided: what certificates need of the rows that are; kept: rows that are not, and their entries, once some
    have been left out; tried: the gap at which a certificate was last taken.
    """

    def __init__(self, solver: Solver, n_samples: int, n_features: int, max_norm: float):
        self.solver = solver
        self.max_norm = math.hypot(max_norm, solver.bias)
        self.bins = np.zeros(n_samples, np.uint8)
        self.counts = np.zeros((BINS, 2), np.int64)
        self.decided = Decided(np.zeros(n_features + 1))
        self.kept = (n_samples, 0)
        self.tried = math.inf

    # -- while a certificate is taken ----------------------------------------------------------------------------

    def begin(self) -> None:
        """All rows that are undecided will pass by."""
        self.counts[:] = 0

    def look(self, block: Block, scores: np.ndarray, alpha: np.ndarray) -> None:
        """A block at the w of the certificate: scores (n,) its decision values, alpha (n,) of its rows."""
        self.solver.distances(block, scores, alpha, self.bins, self.counts)

    def is_due(self, gap: float) -> bool:
        """Whether a certificate may well decide many rows at a gap (absolute) that is estimated."""
        return math.sqrt(2.0 * max(gap, 0.0)) * self.max_norm <= NEAR_ENOUGH and gap <= NEXT_TRY * self.tried

    def first_decided(self, certificate: Certificate, blocks: Blocks) -> int:
        """The bin from which on a certificate decides the rows that passed by, those of ``blocks``; 0 where too few
        are, or where the others have no place."""
        gap = certificate.primal - certificate.dual
        self.tried = gap
        first = first_bin(math.sqrt(2.0 * (gap + SLACK * abs(certificate.primal))))
        if not self.counts[1:, 0].any():
            self.tried = 0.0  # no row lies beyond a bound (the logistic loss has none): another look would see no more
        left, entries = self.counts[:first].sum(axis=0).tolist()
        if entries > WORTHWHILE * self.counts[:, 1].sum() or left == 0 or not self.counts[first:, 0].any():
            return 0
        # rows that are in memory already are copied there, or stay
        return first if self.fits(first, blocks) or not (blocks.partition.resident or blocks.source.in_memory) else 0

    def fits(self, first: int, blocks: Blocks) -> bool:
        """The rows that are left find room in memory."""
        return bytes_of_blocks(blocks.source, *self.counts[:first].sum(axis=0).tolist()) <= blocks.decided_bytes

    # -- leaving them out ----------------------------------------------------------------------------------------

    def leave_out(
        self, first: int, state: State, source: Source, blocks: Iterable[Block], room: int, temp: Path, stop: Callable
    ) -> Source:
        """The undecided rows of ``source`` as a source of their own, in ``room`` bytes of memory if they fit there,
        else in the folder ``temp``; those in bins from ``first`` on are decided from now on.

        blocks: all of its rows, in its order.  Where stop() says so the reading is broken off by ``Stopped``, and
        nothing has changed; only where no rows were left out before, since what they add up to is not kept twice.
        """
        kept = tuple(self.counts[:first].sum(axis=0).tolist())
        again = self.decided.rows > 0
        pieces = self._pieces(first, blocks, state, (lambda: False) if again else stop)
        try:
            rest = self._source(source, kept, pieces, room, temp)
        except Stopped:
            self.decided.combination[:] = 0.0
            self.decided = Decided(self.decided.combination)
            raise
        self.kept = kept
        self.bins[(self.bins >= first) & (self.bins != DECIDED)] = DECIDED
        return rest

    def leave_out_again(self, source: Source, blocks: Iterable[Block], room: int, temp: Path, stop: Callable) -> Source:
        """The same rows of a whole source as before the run was broken off."""
        return self._source(source, self.kept, self._pieces(DECIDED, blocks, None, stop), room, temp)

    @staticmethod
    def _source(source: Source, kept: tuple[int, int], pieces: Iterator, room: int, temp: Path) -> Source:
        n_rows, nnz = kept
        if source.in_memory or bytes_of_blocks(source, n_rows, nnz) <= room:
            return KeptRows(source, n_rows, nnz, pieces)
        assert isinstance(source, Store)
        return smaller_store(source, n_rows, pieces, temp)

    def _pieces(
        self, first: int, blocks: Iterable[Block], state: State | None, stop: Callable[[], bool]
    ) -> Iterator[tuple[Block, np.ndarray]]:
        """Each block, and which of its rows stay; the others are added up, at the run's state (None: they were)."""
        for block in blocks:
            if stop():
                raise Stopped
            bins = self.bins[block.rows]
            if state is not None:
                self._decide(block, bins >= first, state)
            yield block, np.flatnonzero(bins < first).astype(np.int32)

    def _decide(self, block: Block, mine: np.ndarray, state: State) -> None:
        added = self.decided
        alpha = np.where(mine, state["alpha"][block.rows], 0.0)
        added.conjugates += float(self.solver.combine(block, alpha, added.combination)[0])
        scores = np.empty(block.n_samples)
        decision_values(*block.matrix, state["w"], self.solver.bias, scores)
        added.rows += int(np.count_nonzero(mine))
        added.labelled += int(np.count_nonzero(block.y[mine]))
        added.correct += int(np.count_nonzero(predicted(scores[mine]) == block.y[mine]))

    # -- for checkpoints -----------------------------------------------------------------------------------------

    def saved(self) -> State:
        decided = self.decided
        return {
            "bins": self.bins,
            "counts": self.counts.ravel(),
            "combination": decided.combination,
            "rows": np.array([decided.rows, decided.labelled, decided.correct, *self.kept]),
            "sums": np.array([decided.conjugates, self.tried]),
        }

    def restore(self, saved: State) -> None:
        self.bins[:], self.counts.ravel()[:] = saved["bins"], saved["counts"]
        rows, labelled, correct, *kept = saved["rows"].tolist()
        self.kept = tuple(kept)
        conjugates, self.tried = saved["sums"].tolist()
        self.decided = Decided(saved["combination"], rows, labelled, correct, conjugates)


def first_bin(radius: float) -> int:
    """The first bin whose rows lie farther beyond their bounds than w moves."""
    if radius <= 0.0:
        return 1
    return int(min(max(math.floor(PER_OCTAVE * math.log2(radius * (1.0 + 1e-9))) + ONE + 1, 1), FARTHEST + 1))
