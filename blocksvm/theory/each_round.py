"""Figures that need all weights in each round: subgradient steps on loss + l1 ||w||_1, and the inequality of one round
of forward-backward splitting (Oiwa, Matsushima, Nakagawa, ECML PKDD 2011, Lemma A.2.1), checked in every round.

A round costs as many steps as features have occurred: rows times features at most, ``MOST_STEPS``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.kernels import inlined, kernel
from blocksvm.kernels.loss_placeholders import derivative
from blocksvm.kernels.prefetch import value_at
from blocksvm.online.rule_parts import soft
from blocksvm.online.rules.sparse import height, raised

if TYPE_CHECKING:
    from blocksvm.theory.replay import ReplayedRun, ReplayRows

MOST_STEPS = 20_000_000_000  # some tens of seconds
WEIGHTS_BYTES = 40  # of a feature: weights, steps under way, heights, their order; the range of each weight


@inlined
def touch(j, seen, touched, n):
    """The number of features that have occurred, with j; a new j is appended to the ``n`` of ``touched``."""
    if seen[j] == 0:
        seen[j] = 1
        touched[n] = j
        return n + 1
    return n


@kernel
def subgradient_rounds(
    indptr, indices, values, y, order, first, p, steps, l1, w, step, touched, seen, count, low, high,
    scores, lengths, squares,
):  # fmt: skip
    """w -= eta_t (z_t + l1 sign(w)); of each round, before its step, the score, ||w||_1 and ||z_t + l1 sign(w)||^2.

    first: rounds before this block; steps (T,): eta_t; w, step (d,), touched (d,) int32 with count[0] features that
    have occurred, seen (d,) uint8; low, high (d,): the range of each weight.
    """
    n = count[0]
    for r in range(order.shape[0]):
        i, t = order[r], first + r
        z = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            z += value_at(values, k) * w[indices[k]]
        slope = derivative(z, float(y[i]), 1.0, p)
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            n = touch(j, seen, touched, n)
            step[j] = slope * value_at(values, k)
        length = square = 0.0
        for a in range(n):
            j = touched[a]
            sign = 1.0 if w[j] > 0.0 else (-1.0 if w[j] < 0.0 else 0.0)
            g = step[j] + l1 * sign
            step[j] = 0.0
            length += abs(w[j])
            square += g * g
            w[j] -= steps[t] * g
            low[j] = min(low[j], w[j])
            high[j] = max(high[j], w[j])
        scores[t], lengths[t], squares[t] = z, length, square
    count[0] = n


@kernel
def one_round_slacks(
    indptr, indices, values, order, first, moves, steps, halves, l1, gradients, losses, losses_of_u, u, parameters, w,
    step, powers, touched, seen, count, out,
):  # fmt: skip
    """``out[t]`` = right - left side of

        2 eta_t (l_t(w_t) - l_t(u)) + 2 eta_t+1/2 (r_t(w_t+1) - r_t(u))
            <= ||w_t - u||^2 - ||w_t+1 - u||^2 + 8 eta_t eta_t+1/2 G_t^2,

    r_t(w) = l1 sum h_j |w_j| with the heights of round t, G_t = max(||z_t||, l1 ||h||).  moves (T,): -eta_t slope_t;
    steps, halves: eta_t, eta_t+1/2; gradients: ||z_t||^2; losses, losses_of_u; u (d,); the rest as
    ``subgradient_rounds`` has it, powers (d,): sums of powers of the heights.
    """
    n, plain = count[0], height(0.0, parameters) == 1.0
    for r in range(order.shape[0]):
        i, t = order[r], first + r
        if moves[t] != 0.0:
            for k in range(indptr[i], indptr[i + 1]):
                j = indices[k]
                n = touch(j, seen, touched, n)
                step[j] = moves[t] * value_at(values, k)
                if not plain:
                    powers[j] = raised(powers[j], abs(step[j]), parameters)
        threshold = halves[t] * l1
        apart = of_w = of_u = heights = 0.0
        for a in range(n):
            j = touched[a]
            h = height(powers[j], parameters)
            after = soft(w[j] + step[j], threshold * h)
            step[j] = 0.0
            of_w += h * abs(after)
            of_u += h * abs(u[j])
            heights += h * h
            apart += (w[j] - after) * (w[j] + after - 2.0 * u[j])
            w[j] = after
        if plain:  # heights are 1 where no gradient has been, too
            of_u, heights = np.abs(u).sum(), float(w.shape[0])
        largest = max(gradients[t], l1 * l1 * heights)
        left = 2.0 * steps[t] * (losses[t] - losses_of_u[t]) + 2.0 * threshold * (of_w - of_u)
        out[t] = apart + 8.0 * steps[t] * halves[t] * largest - left
    count[0] = n


def check_steps(n_rounds: int, d: int) -> None:
    """InputError where all weights in each round are too many."""
    if n_rounds * d > MOST_STEPS:
        raise InputError(
            f"subgradient: its regret with l1 takes all {d:,} weights in each of {n_rounds:,} rounds, more than "
            f"{MOST_STEPS:,} in all; give fewer rows by {option('max_rows')}"
        )


def new_weights(d: int) -> tuple[np.ndarray, ...]:
    """(touched, seen, count), nothing of them yet."""
    return np.empty(d, np.int32), np.zeros(d, np.uint8), np.zeros(1, np.int64)


def add_subgradient(rows: ReplayRows, run: ReplayedRun) -> None:
    """Replay the run with all weights: scores (the same but for rounding; losses are of these from here on), penalty,
    squares of the objective's gradients, and the range of each weight."""
    l1, d = run.settings["l1"], run.d
    rounds = np.arange(1.0, run.T + 1.0)
    steps = run.settings["step"] / (np.ones(run.T) if run.constant_step else np.sqrt(rounds))
    w, step, run.low, run.high = (np.zeros(d) for _ in range(4))
    lengths, squares, known = np.empty(run.T), np.empty(run.T), new_weights(d)
    rule = (run.p, steps, l1)
    rounds_of_loss = run.loss_function.compiled(subgradient_rounds)
    for block, order, first in rows:
        rounds_of_loss(*block.matrix, block.y, order, first, *rule, w, step, *known, run.low, run.high, run.scores,
                           lengths, squares)  # fmt: skip
    if not np.isfinite(run.scores).all():
        run.runner.diverged("in the rows learned from")
    run.penalty = l1 * run.at(lengths)
    run.l1_weights = np.full(d, l1)
    run.objective_squares = run.at(squares)
    run.objective_falling_squares = run.at(squares / np.sqrt(rounds))


def least_slack(run: ReplayedRun, w: np.ndarray, scores: np.ndarray) -> np.ndarray | None:
    """(K,) the least right minus left side of the one-round inequality so far, for weights w (d + 1,) of these scores;
    None for other learners, and where it takes too many steps."""
    if run.rows is None or not run.checks_rounds:
        return None
    out, state = np.empty(run.T), (np.zeros(run.d), np.zeros(run.d), np.zeros(run.d), *new_weights(run.d))
    each = (-run.steps * run.slopes, run.steps, run.halves, run.settings["l1"], run.slopes**2 * run.sq_norms)
    losses = [run.losses_of(z)[0] for z in (run.scores, scores)]
    u = np.ascontiguousarray(w[: run.d])
    for block, order, first in run.rows:
        one_round_slacks(*block.matrix, order, first, *each, *losses, u, run.runner.parameters, *state, out)
    return -run.largest(-out)
