"""Sums over the rounds that need the learner's weights, not its scores alone: one more reading of the rows, feature by
feature, without storing the weights of each round.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from blocksvm.theory import records
from blocksvm.theory.adaptive import adaptive_settle, adaptive_sums

if TYPE_CHECKING:
    from blocksvm.theory.replay import ReplayedRun, ReplayRows


def up_to_times(rows: ReplayRows, times: np.ndarray) -> Iterator[tuple[tuple, np.ndarray, int, int | None]]:
    """(matrix, order of some of its rows, rounds before them, k where they end with round times[k], else None)."""
    k = 0
    for block, order, first in rows:
        start = 0
        while start < block.n_samples:
            stop = min(block.n_samples, int(times[k]) - first)
            ended = first + stop == times[k]
            yield block.matrix, order[start:stop], first + start, k if ended else None
            k, start = k + ended, stop


def add_truncated(rows: ReplayRows, run: ReplayedRun) -> None:
    """Set penalty and ranges of the weights of forward-backward splitting with l1, from its scores, and the sums for
    its bounds and for a regulariser that changes from round to round."""
    ahead = run.learner.rule.number_of(run.settings, "ahead")
    rounds = np.arange(1.0, run.T + 1.0)
    run.steps = run.settings["step"] / (np.ones(run.T) if run.constant_step else np.sqrt(rounds))
    half = run.settings["step"] / (np.ones(run.T) if run.constant_step else np.sqrt(rounds + ahead))
    run.step_products = run.at(run.steps * half)
    run.halves, run.rows = half, rows
    moves, run.thresholds = -run.steps * run.slopes, half * run.settings["l1"]
    S = np.concatenate([[0.0], np.cumsum(run.thresholds)])
    running = (S, np.cumsum(S), np.cumsum(np.diff(S, prepend=0.0) * S), np.arange(1.0, run.T + 2.0))
    parameters = run.runner.parameters
    heights, current_heights = np.ones(run.d), np.empty(run.d)
    run.heights_norm, run.stepped, run.varying = (np.empty(len(run.times)) for _ in range(3))
    # a regulariser with the heights of the last round: these must be known before the sums
    for sweep in range(2 if run.regulariser.heights else 1):
        v, powers, sums, stepped, varying, height_sums, low, high = (np.zeros(run.d) for _ in range(8))
        since = np.zeros(run.d, np.int64)
        penalty = np.empty(len(run.times))
        for matrix, order, first, k in up_to_times(rows, run.times):
            state = (parameters, v, since, powers, sums, stepped, varying, height_sums)
            records.truncated_sums(*matrix, order, first, moves, run.thresholds, *running, *state, low, high)
            if k is not None:
                t = int(run.times[k])
                records.truncated_settle(t, *running, *state)
                penalty[k] = run.settings["l1"] * float(heights @ sums)
                records.heights_of(powers, parameters, current_heights)
                run.heights_norm[k] = run.settings["l1"] * float(np.linalg.norm(current_heights))
                run.stepped[k] = float(stepped.sum()) + run.thresholds[t - 1] * float(np.abs(v).sum())
                run.varying[k] = run.settings["l1"] * float(varying.sum())
        if sweep == 0 and run.regulariser.heights:
            records.heights_of(powers, parameters, heights)
    run.low, run.high = low, high
    if run.truncated:
        run.penalty = penalty
        run.l1_weights = run.settings["l1"] * heights
        if run.regulariser.heights:
            run.l1_weights_of_rounds = run.settings["l1"] * height_sums


def add_adaptive(rows: ReplayRows, run: ReplayedRun, dual: bool) -> None:
    """Of AdaGrad by dual averaging (``dual``) or forward-backward splitting: the run's penalty, ``roots`` (K,)
    sum_j s_t,j, ``largest_entries`` (K,) max |g_t,j| and range of weights."""
    rule = (dual, run.settings["l1"], run.runner.parameters)
    place, squares, sums, low, high = (np.zeros(run.d) for _ in range(5))
    since, largest = np.zeros(run.d, np.int64), np.zeros(1)
    run.roots, run.largest_entries = np.empty(len(run.times)), np.empty(len(run.times))
    for matrix, order, first, k in up_to_times(rows, run.times):
        adaptive_sums(*matrix, order, first, run.slopes, *rule, place, squares, since, sums, low, high, largest)
        if k is not None:
            t = int(run.times[k])
            total, run.roots[k] = adaptive_settle(t, *rule, place, squares, since, sums)
            run.penalty[k] = run.settings["l1"] * total
            run.largest_entries[k] = largest[0]
    run.low, run.high = low, high
    run.l1_weights = np.full(run.d, run.settings["l1"])


def add_potential(rows: ReplayRows, run: ReplayedRun) -> None:
    """The run's ``potential`` (K,): R* of the sum of gradients at each time."""
    theta = np.zeros(run.d)
    run.potential = np.empty(len(run.times))
    for matrix, order, first, k in up_to_times(rows, run.times):
        records.subtract_gradients(*matrix, order, first, run.slopes, theta)
        if k is not None:
            run.potential[k] = run.mirror.potential(theta, run.settings)


def add_weight_sums(rows: ReplayRows, run: ReplayedRun) -> None:
    """Set the sums that the run's learner needs."""
    r = run.regulariser
    if r is not None and r.sums is not None:
        r.sums(rows, run)
    if run.dual_power() is not None:
        add_potential(rows, run)
