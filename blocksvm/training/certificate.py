"""The certificate: primal, dual and gap over all rows for one fixed w; and when it is worth a reading of the data."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.files.paths import Location
from blocksvm.model.decision_values import count_right, decision_pieces, sum_squared_errors
from blocksvm.problems.certificate import Certificate
from blocksvm.problems.expansion import Expansion
from blocksvm.solvers.solver import Solver, State
from blocksvm.sources.block import Block
from blocksvm.training.visit import of_axis, part_of, put_rows


class Stopped(Exception):
    """The run was stopped where it is to be interrupted at once."""


def beyond_bounds(saved: Location) -> InputError:
    return InputError(f"{saved}: holds dual variables beyond their bounds; it is damaged, start afresh")


def offer_shares(
    solver: Solver, state: State, block: Block, scores: np.ndarray, offer: Callable[[Block, np.ndarray], None]
) -> None:
    """Offer the rows of a block that can still move, by their decision values; they are at rest no longer."""
    part = part_of(solver, block, state)
    share = np.empty(block.n_samples)
    solver.shares(block, scores, part, share)
    put_rows(state, block.rows, of_axis(solver, part, "row"))
    offer(block, share)


def evaluate(
    solver: Solver, w: np.ndarray, completion: Expansion | None, blocks: Iterable[Block], stopped: Callable[[], bool]
) -> Certificate:
    """The accuracy of w (n_vectors * (d + 1),), one vector or one a class, over blocks of all rows, or, of real
    targets, the root of its mean squared error; Stopped if stopped() says so.  completion: what makes the solver's
    decision values of <w, x>, None where they are that.  Of rows without labels nothing is measured."""
    if solver.predicts_rows:
        return Certificate(None, None, None, None)
    total, rows = 0.0, 0
    for block in blocks:
        pieces = decision_pieces(block.entries, w.reshape(solver.n_vectors, -1), solver.bias, completion)
        if solver.real_targets:
            total += sum_squared_errors(pieces, block.y)
        else:
            total += count_right(pieces, block.y, solver.member, solver.ranks)
        rows += block.n_samples
        if stopped():
            raise Stopped
    mean = total / max(1, rows)
    if solver.real_targets:
        return Certificate(None, None, None, None, math.sqrt(mean))
    return Certificate(None, None, None, mean)


# The gap that visits suggest is computed before each row's own step, while w moves on.  The certified gap is taken to
# be this part of it, until the first certificate has measured the ratio (on other data: 0.05 to 0.25 where passes over
# a working set come between the visits, 0.45 to 0.75 on a million rows without).  With 1 ten data sets take 1.1 times
# as many readings; with 0, so that the first reading is followed by a certificate, 21 million nonzeros one more, of 7.
FIRST_RATIO = 0.2
WORK_BETWEEN = 10.0  # readings of all rows, in nonzeros visited: after so many a certificate is due


@dataclass
class CertificatePolicy:
    """Decides when a certificate is due: where the gap that the visits suggest, times the ratio that the last
    certificate has shown, is within the tolerance; or when the work since the last attempt is many times its own.

    ratio: by what the gap is estimated from, all rows as they were visited, or the working set alone after its passes;
    work: nonzeros visited since the last attempt, further passes over a block in memory aside.
    """

    ratio: dict[str, float] = field(default_factory=lambda: {"rows": FIRST_RATIO, "set": 1.0})
    work: float = 0.0

    def due(self, kind: str, estimated_gap: float | None, tol: float, work_of_reading: float) -> bool:
        """kind: 'rows' or 'set', what the estimate was made from."""
        if estimated_gap is None:
            return False
        overdue = kind == "rows" and self.work >= WORK_BETWEEN * work_of_reading
        return estimated_gap * self.ratio[kind] <= tol or overdue

    def learn(self, kind: str, estimated_gap: float | None, rel_gap: float | None) -> None:
        """rel_gap: as certified."""
        self.work = 0.0
        if estimated_gap and rel_gap and estimated_gap > 0.0:
            ratio = rel_gap / estimated_gap
            # above 1: of all rows, the estimate lacked those at rest, which the certificate has brought back; the set
            # lacks none, so that it comes of rounding
            self.ratio[kind] = min(1.0, ratio) if kind == "rows" else ratio
