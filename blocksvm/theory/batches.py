"""Pegasos with sub-batches of several rows, replayed for its bounds, with the norms of each round.

Round t has the rows A_t, k of them, and the loss lambda/2 ||w||^2 + mean over A_t (Shalev-Shwartz, Singer, Srebro,
Cotter, Math. Prog. 2011, section 2): w <- (1 - 1/t) w - m / (lambda t), m the mean of the gradients of the losses at w,
then the projection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from blocksvm.kernels import kernel
from blocksvm.kernels.loss_placeholders import derivative
from blocksvm.kernels.prefetch import value_at
from blocksvm.online.rule_parts import SMALLEST_SCALE
from blocksvm.theory.each_round import touch

if TYPE_CHECKING:
    from blocksvm.online.runner import Runner
    from blocksvm.theory.replay import ReplayedRun, ReplayRows

BATCH_BYTES = 8 + 8 + 4 + 1  # of a feature: v, m, and which have an entry in the round


@kernel
def learn_batches(
    indptr, indices, values, y, order, first, size, p, lam, radius, v, m, touched, seen, state, scores,
    sq_norms, sq_gradients,
):  # fmt: skip
    """Rounds of ``size`` rows each, w = scale v; a round that a block breaks off goes on in the next one.

    first: rows before this block; v, m (d,), touched (d,) int32, seen (d,) uint8, state: [scale, ||w||^2, sum of slope
    times score and number of touched features of the round]; of each row: scores, and of its round ||w||^2 and
    ||lambda w + m||^2.
    """
    scale, norm, along, count = state[0], state[1], state[2], np.int64(state[3])
    for r in range(order.shape[0]):
        i = order[r]
        z = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            z += value_at(values, k) * v[indices[k]]
        z *= scale
        scores[first + r] = z
        slope = derivative(z, float(y[i]), 1.0, p)
        along += slope * z / size
        if slope != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                count = touch(j, seen, touched, count)
                m[j] += slope / size * value_at(values, k)
        if (first + r + 1) % size:
            continue
        number = (first + r + 1) // size
        square = 0.0
        for a in range(count):
            square += m[touched[a]] * m[touched[a]]
        for row in range(first + r + 1 - size, first + r + 1):
            sq_norms[row] = norm
            sq_gradients[row] = max(lam * (lam * norm + 2.0 * along) + square, 0.0)
        shrink, step = 1.0 - 1.0 / number, 1.0 / (lam * number)
        norm = max(shrink * (shrink * norm - 2.0 * step * along) + step * step * square, 0.0)
        scale = scale * shrink if number > 1 else 1.0  # w is 0 before the first round
        for a in range(count):
            j = touched[a]
            v[j] -= step / scale * m[j]
            m[j] = 0.0
            seen[j] = 0
        if norm > radius * radius:
            scale *= radius / np.sqrt(norm)
            norm = radius * radius
        if scale < SMALLEST_SCALE:
            for j in range(v.shape[0]):
                v[j] *= scale
            scale = 1.0
        along, count = 0.0, 0
    state[0], state[1], state[2], state[3] = scale, norm, along, count


def replay_batches(runner: Runner, rows: ReplayRows, run: ReplayedRun, tell: Callable[[str], None]) -> ReplayedRun:
    """Fill the run's records by one epoch in rounds of ``run.batch`` rows."""
    d = run.d
    arrays = np.zeros(d), np.zeros(d), np.empty(d, np.int32), np.zeros(d, np.uint8), np.array([1.0, 0.0, 0.0, 0.0])
    sq_norms, sq_gradients = np.empty(run.T), np.empty(run.T)
    radius = math.inf if run.ball is None else run.ball[1]
    rule = (run.batch, run.p, run.settings["lam"], radius)
    learn = run.loss_function.compiled(learn_batches)
    for block, order, first in rows:
        learn(*block.matrix, block.y, order, first, *rule, *arrays, run.scores, sq_norms, sq_gradients)
        span = slice(first, first + block.n_samples)
        run.y[span] = block.y[order]
        run.sq_norms[span] = block.sq_norms[order]
        tell(f"{runner.name}: {span.stop:,} of {run.T:,} rows")
    if not np.isfinite(run.scores).all():
        runner.diverged("in the rows learned from")
    run.add_strong(sq_norms, sq_gradients)
    return run
