"""The search of L-BFGS: from the value and the gradient of P at a point to the next point that is evaluated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from blocksvm.base.threads import Threads
from blocksvm.solvers.lbfgs_kernels import accept, step_along, step_back, two_loops

PAIRS = 10  # m, from 3 to 20 in Nocedal and Wright, sec. 7.2
DECREASE = 1e-4  # c_1 of the Armijo condition, there in sec. 3.1
FEATURES = 1 << 14  # of a piece, whose sums are added up in order
SEARCH = VALUE, SLOPE, STEP, N_PAIRS, NEWEST, STARTED = range(6)  # entries of state["search"], of each problem


class Evaluation(NamedTuple):
    """P at the trial; ||grad P||^2; <grad P, trial - point>."""

    primal: float
    square: float
    along: float


class SearchArrays(NamedTuple):
    """What the search of problem c changes.

    trial, gradient, point, before, scale (d + 1, width), pairs (d + 1, 2m k), gram (2m, 2m): as lbfgs_kernels.py has
    them; numbers (6,): P at the point, the slope of P along the direction there, the step to the trial, how many
    pairs there are, the slot of the newest, and 1 once there is a point.
    """

    c: int
    trial: np.ndarray
    gradient: np.ndarray
    point: np.ndarray
    before: np.ndarray
    scale: np.ndarray
    pairs: np.ndarray
    gram: np.ndarray
    numbers: np.ndarray


class Search:
    """Nocedal, Wright, Alg. 7.5, in scaled variables, with steps that satisfy the Armijo condition.

    P is strongly convex, so every pair has <s, y> >= ||s||^2 > 0, and no step need be made longer for it; nor need one
    be made shorter that ends where P still falls.
    """

    def __init__(self, arrays: SearchArrays, threads: Threads):
        self.arrays, self.threads = arrays, threads

    def move(self, at: Evaluation) -> None:
        """Accept the trial, or not; then write the next one in its place."""
        numbers = self.arrays.numbers
        value, slope, step = numbers[[VALUE, SLOPE, STEP]].tolist()
        if numbers[STARTED]:
            ends_at = at.along / step
            if ends_at > 0.0 and at.primal > value + DECREASE * step * slope:
                self.shorten(shorter_step(step, value, slope, at.primal, ends_at) / step)
                return
        of_gradient = self.accept()
        numbers[VALUE], numbers[STARTED] = at.primal, 1.0
        # by rounding the direction of the pairs may not descend: that of the gradient does
        if at.square and not (numbers[N_PAIRS] and self.step(of_gradient) < 0.0):
            numbers[N_PAIRS] = 0.0
            self.shorten(1.0 / math.sqrt(-self.step(of_gradient)))

    def accept(self) -> np.ndarray:
        """The trial becomes the point, and the way to it a pair; (2m,): products of the gradient with all pairs."""
        arrays, numbers, gram = self.arrays, self.arrays.numbers, self.arrays.gram
        slot = (int(numbers[NEWEST]) + 1) % PAIRS if numbers[STARTED] else -1
        vectors = arrays.trial, arrays.gradient, arrays.point, arrays.before, arrays.scale, arrays.pairs, arrays.c, slot
        products = over_features(self.threads, accept, vectors, np.zeros((3, 2 * PAIRS)))
        if slot >= 0:
            for k, of_vector in ((slot, products[0]), (PAIRS + slot, products[1])):
                gram[k, :] = gram[:, k] = of_vector
            numbers[NEWEST] = slot
            # where all of the difference is rounding, nothing is learned from it
            numbers[N_PAIRS] = min(PAIRS, numbers[N_PAIRS] + 1) if gram[slot, PAIRS + slot] > 0.0 else 0.0
        return products[2]

    def step(self, of_gradient: np.ndarray) -> float:
        """The next trial, a step of 1 along the direction of the pairs; the slope of P along it."""
        arrays, numbers = self.arrays, self.arrays.numbers
        coefficients = np.empty(2 * PAIRS + 1)
        two_loops(arrays.gram, of_gradient, int(numbers[NEWEST]), int(numbers[N_PAIRS]), coefficients)
        vectors = arrays.pairs, coefficients, arrays.point, arrays.before, arrays.scale, arrays.trial, arrays.c
        (slope,) = over_features(self.threads, step_along, vectors, np.zeros(1)).tolist()
        numbers[SLOPE], numbers[STEP] = slope, 1.0
        return slope

    def shorten(self, factor: float) -> None:
        """The step to the trial, times this."""
        arrays = self.arrays
        over_features(self.threads, step_back, (arrays.point, factor, arrays.trial, arrays.c))
        arrays.numbers[STEP] *= factor


def shorter_step(step: float, value: float, slope: float, value_at: float, slope_at: float) -> float:
    """The minimum of the cubic through values and slopes at 0 and at ``step`` (Nocedal, Wright, eq. 3.59), at most half
    of it."""
    first = slope + slope_at - 3.0 * (value_at - value) / step
    second = math.sqrt(max(first * first - slope * slope_at, 0.0))
    cubic = step - step * (slope_at + second - first) / (slope_at - slope + 2.0 * second)
    return min(cubic, 0.5 * step) if cubic > 0.0 else 0.5 * step


def over_features(threads: Threads, kernel: Callable, arguments: tuple, sums: np.ndarray | None = None) -> np.ndarray:
    """``kernel(*arguments, start, stop, sums)`` on pieces of the features, by all threads; the pieces' sums are added
    up in order, so that they do not depend on how many threads there are.  The first array has the features."""
    n = next(len(one) for one in arguments if isinstance(one, np.ndarray))

    def work(start: int) -> np.ndarray | None:
        piece = None if sums is None else np.zeros_like(sums)
        kernel(*arguments, start, min(start + FEATURES, n), *(() if piece is None else (piece,)))
        return piece

    total = np.zeros(0) if sums is None else sums
    for piece in threads.map(work, range(0, n, FEATURES)):
        if piece is not None:
            total += piece
    return total
