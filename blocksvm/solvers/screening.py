"""Many screen, one moves: a pass over a block by several threads, with the same bits for any number of them.

    for each batch of the rows, in their order:
        all threads: at one w, pick out the rows that a step would move
        one thread: visit these in their order, each with its exact step at the w of its turn

Most rows do not move when they are visited, and finding that out, <w, x_i>, is nearly all of the work.  There are as
many batches as each has pieces, since threads wait for each other at the end of a batch, and its later rows are
screened at a w that has moved on.  <w, x_i> of a row that moves is computed twice, so a batch that follows one of which
many rows moved is visited without being screened.
"""

import math
from collections.abc import Callable

import numpy as np

from blocksvm.base.threads import Threads
from blocksvm.solvers.dual_cd_kernels import Limits, PassArrays

# Of a batch's rows: where more have moved, the next batch is not screened.  Where a part p moves, screening costs one
# thread p of a pass, and N threads save 1 - 1/N - p.  On five data sets and one thread a half took 1.01 to 1.42 times
# as long as never, a fifth 0.86 to 1.12; with 4 and 8 threads a half gains at most a tenth over a fifth.
MOST_MOVING = 0.2

NO_SHARES, NO_PAUSES, NONE_MOVING = np.empty(0), np.empty((0, 1), np.uint8), np.empty(0, np.int32)
GAIN, SHARES_SEEN, MOVING = 6, 7, 8  # entries of what the kernel returns

Step = Callable[[np.ndarray, Limits, PassArrays, np.ndarray], tuple]


def screened_pass(step: Step, threads: Threads, order: np.ndarray, piece: int, first: tuple[Limits, PassArrays, bool]):
    """The result of ``one_problem_pass`` over the rows in ``order`` (n,) int32, that of its batches, added up.
    step(order, limits, arrays, moving): the kernel on this block; piece: rows of a piece of work; first: the limits and
    arrays of the pass, and whether its first batch is screened."""
    limits, arrays, screening = first
    without_notes = arrays._replace(pauses=NO_PAUSES, share=NO_SHARES)  # rows are noted as they are screened
    each = min(len(order), math.isqrt(len(order) * piece))
    moving = np.empty(each, np.int32)
    results = []

    def screen(batch: np.ndarray) -> Callable[[slice], tuple]:
        return lambda rows: step(batch[rows], limits, arrays, moving[rows])

    for start in range(0, len(order), each or 1):
        batch = order[start : start + each]
        if not screening:
            done = [step(batch, limits, arrays, NONE_MOVING)]
        else:
            parts = [slice(a, min(a + piece, len(batch))) for a in range(0, len(batch), piece)]
            done = threads.map(screen(batch), parts)
            movers = [moving[rows.start : rows.start + part[MOVING]] for rows, part in zip(parts, done, strict=True)]
            served = step(np.concatenate(movers), Limits(), without_notes, NONE_MOVING)
            done.append((-np.inf, np.inf, *([0] * 4), served[GAIN], 0, 0))
        screening = sum(part[MOVING] for part in done) <= MOST_MOVING * len(batch)
        results += done
    if not results:
        return step(order, limits, arrays, NONE_MOVING)
    columns = list(zip(*results, strict=True))
    return max(columns[0]), min(columns[1]), *map(sum, columns[2:])
