"""Takes the certificates of a run: of its current weights and dual variables, over all rows, rebuilding drifted
weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from blocksvm.problems.problem import Certificate, CertificateSums
from blocksvm.solvers.protocol import State
from blocksvm.sources.block import Block
from blocksvm.training.certificate import Missed, certify, evaluate
from blocksvm.training.plan import Plan
from blocksvm.training.supply import Supply
from blocksvm.training.visits import part_of, put_rows
from blocksvm.training.working_set import WorkingSet

BY_TWO = 1_000_000  # nonzeros of a block from which on two threads share it, where the one that reads has nothing to do
LARGEST_DRIFT = 1e-9  # relative to ||w||^2: w is recomputed from alpha where the two have drifted apart by more


class Certifier:
    """Certifies the ``state`` of a run.

    weights() gives w; supply: reads every row once; stop() ends a certificate that is under way; working_set: is chosen
    anew while all rows pass by, at the w of the certificate.
    """

    def __init__(
        self,
        plan: Plan,
        state: State,
        weights: Callable[[], np.ndarray],
        supply: Supply,
        stop: Callable[[], bool],
        working_set: WorkingSet | None = None,
    ):
        self.plan = plan
        self.state = state
        self.weights = weights
        self.supply = supply
        self.stop = stop
        self.working_set = working_set

    def certify(
        self,
        blocks: list[np.ndarray],
        dual: float | None = None,
        gather: bool = False,
        then: list[np.ndarray] | None = None,
    ) -> Certificate | Missed | None:
        """A certificate of exactly the w and alpha that the state has when it returns; None where the run was stopped.

        dual: D as it is known beforehand, by which an attempt that cannot succeed is broken off.  A solver that
        minimises nothing has its accuracy or error measured.  gather: choose the working set anew
        meanwhile; then: the blocks that are read next.
        """
        solver = self.plan.solver
        if not solver.capabilities.minimises:
            rows = self.supply.all_blocks(blocks)
            return evaluate(solver, self.weights(), solver.completion(self.state), rows, self.stop)
        # a reading that gathers is not in vain where the certificate misses the tolerance
        enough = math.inf if gather else self._enough(dual)
        rebuilt = False
        while True:
            alpha = solver.dual_variables(self.state)
            if gather:
                self.working_set.begin_reading(anew=True)
            seen = {"seen_block": self._gather} if gather else {}
            found = certify(
                solver.problem_at(self.state), self.weights(), alpha, self.supply.all_blocks(blocks, then), self.stop,
                enough,
                solver.prior, scores_of=self._scores, **seen,
            )  # fmt: skip
            if found is None or isinstance(found, Missed):
                return found
            certificate, drift = found
            # w made anew from alpha differs from it by rounding alone, and what is measured of that is in the gap
            if alpha is None or drift <= LARGEST_DRIFT or rebuilt:
                return certificate
            solver.rebuild(self.state, self.supply.all_blocks(blocks))
            rebuilt = True

    def _scores(self, sums: CertificateSums, block: Block) -> np.ndarray:
        """A block's decision values; each is of its row alone, whoever makes it."""
        feed = self.supply.feed
        if feed.kept is None or block.n_nonzeros < BY_TWO:
            return sums.scores(block)
        half = int(np.searchsorted(block.indptr, block.n_nonzeros // 2))
        other = feed.beside(sums.scores, block[half:])
        return np.concatenate([sums.scores(block[:half]), other.result()])

    def _gather(self, block: Block, scores: np.ndarray) -> None:
        solver, part = self.plan.solver, part_of(self.plan.solver, block, self.state)
        share = np.empty(block.n_samples)
        solver.shares(block, scores, part, share)
        rows = [a.name for a in solver.state_arrays if a.axis == "row" and a.in_visits]
        put_rows(block, {name: part[name] for name in rows}, self.state)
        self.working_set.gather(block, share)

    def _enough(self, dual: float | None) -> float:
        """The gap from which on the tolerance is missed whatever rows are still to come: gap / (D + gap) > tol; D is
        known but for rounding."""
        if dual is None or not dual > 0.0:
            return math.inf
        tol = min(0.5, self.plan.settings.tol) * (1.0 + 1e-6)
        return dual * tol / (1.0 - tol)
