"""Probabilities for decision values that are none, from rows that the models have not seen: Platt's sigmoid, or an
isotonic function.

The held-out decision values are counted in bins (the upper bits of their float32), each of which stands for the mean of
the values in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from blocksvm.errors import InputError, called, said
from blocksvm.model.measures import places_of
from blocksvm.model.probabilities import ISOTONIC, PLATT
from blocksvm.solvers.dual_methods import METHOD
from blocksvm.sources.source import Source
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.run import Watch
from blocksvm.training.settings import TrainSettings
from blocksvm.validation.cross import check_folds
from blocksvm.validation.folds import folds_of, targets_of
from blocksvm.validation.problems import HeldOutCD

FOLDS = 5
BITS = 16
STEPS = 100  # of Newton's method at most
SMALL = 1e-10  # of a gradient's length, over the rows


def binned(values: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values rising, weights of the negative rows, of the positive rows) of the bins that have rows; values (n,)
    decision values, positive (n,) bool, weights (n,)."""
    places = places_of(values, BITS)
    parts = (np.bincount(places, own, 1 << BITS) for own in (weights * ~positive, weights * positive, weights * values))
    below, above, total = parts
    there = below + above > 0.0
    return total[there] / (below + above)[there], below[there], above[there]


def calibrated(
    source: Source,
    asked: TrainSettings,
    kind: str,
    on_event: Callable[[dict], None] = lambda event: None,
    stop: Callable[[], bool] = lambda: False,
) -> dict | None:
    """What a model of these settings keeps to make probabilities; None where the user stopped.  Trains on the rows
    outside of each of five folds, all in the same readings.  InputError where the rows are not of two classes."""
    if not asked.capabilities.cross_validates:
        raise InputError(f"{called('calibrate')}: calibrates dual-cd, not {asked.solver}; leave it out")
    if source.labels is None or not source.labels.binary:
        raise InputError(f"{said('calibrate', kind)}: is for rows of two classes; leave it out")
    folds = folds_of(source, FOLDS, asked.seed)
    y, weights = targets_of(source, real=False)
    check_folds(source, folds, y, asked)
    given = dict(asked.method)
    C = given.pop("C", None)
    if given.get("lam") is not None:
        raise InputError(f"{called('calibrate')}: needs C, not {called('lam')}")
    own = replace(asked, method=given)
    method = replace(METHOD, make=partial(HeldOutCD, path=[1.0 if C is None else C], folds=folds))
    plan = Plan(source, own, method=method, besides={"folds": 32 * source.n_samples + (24 << BITS)})
    loop = OuterLoop(plan, Watch(on_event, stop))
    if loop.run().status == "interrupted":
        return None
    values = plan.solver.held(loop.state).reshape(-1)
    counted = binned(values, y > 0, np.ones(len(y)) if weights is None else weights)
    return {PLATT: platt, ISOTONIC: isotonic}[kind](*counted)


def platt(values: np.ndarray, negative: np.ndarray, positive: np.ndarray) -> dict:
    """The slope a and intercept b of P(larger label) = 1 / (1 + exp(-(a z + b))) that maximise the likelihood, each
    class's targets a little inside of 0 and 1 (Platt 1999), by Newton's method with a line search (Lin, Lin, Weng,
    Machine Learning 68, 2007)."""
    n, p = float(negative.sum()), float(positive.sum())
    high, low = (p + 1.0) / (p + 2.0), 1.0 / (n + 2.0)
    weights, wanted = negative + positive, high * positive + low * negative

    def loss(a: float, b: float) -> float:
        z = a * values + b  # -t log P - (1 - t) log(1 - P) = log(1 + e^z) - t z
        return float(np.sum(weights * np.logaddexp(0.0, z) - wanted * z))

    a, b = 0.0, math.log((p + 1.0) / (n + 1.0))
    best = loss(a, b)
    for _ in range(STEPS):
        P = 1.0 / (1.0 + np.exp(-np.clip(a * values + b, -700.0, 700.0)))
        error, curve = weights * P - wanted, weights * P * (1.0 - P)
        gradient = float(error @ values), float(error.sum())
        if math.hypot(*gradient) <= SMALL * (n + p):
            break
        h = float(curve @ values**2) + 1e-12, float(curve @ values), float(curve.sum()) + 1e-12
        det = h[0] * h[2] - h[1] * h[1]
        step = -(h[2] * gradient[0] - h[1] * gradient[1]) / det, -(h[0] * gradient[1] - h[1] * gradient[0]) / det
        slope, length = gradient[0] * step[0] + gradient[1] * step[1], 1.0
        while length > 1e-10:
            found = loss(a + length * step[0], b + length * step[1])
            if found <= best + 1e-4 * length * slope:
                break
            length *= 0.5
        else:
            break
        a, b, best = a + length * step[0], b + length * step[1], found
    return {"kind": PLATT, "slope": a, "intercept": b}


def isotonic(values: np.ndarray, negative: np.ndarray, positive: np.ndarray) -> dict:
    """The rising function of least squares, by pooling neighbours that fall (Ayer et al., Ann. Math. Stat. 26, 1955):
    its corners, between which probabilities are interpolated (Zadrozny, Elkan, KDD 2002)."""
    weights, means, starts = [], [], []
    for place, (n, p) in enumerate(zip(negative.tolist(), positive.tolist(), strict=True)):
        weight, mean, start = n + p, p / (n + p), place
        while means and means[-1] >= mean:
            before = weights.pop()
            mean = (means.pop() * before + mean * weight) / (before + weight)
            weight += before
            start = starts.pop()
        weights.append(weight)
        means.append(mean)
        starts.append(start)
    ends = [*[start - 1 for start in starts[1:]], len(values) - 1]
    corners = sorted({(values[k], mean) for pair, mean in zip(zip(starts, ends, strict=True), means, strict=True)
                      for k in pair})  # fmt: skip
    return {"kind": ISOTONIC, "values": [float(z) for z, _ in corners], "probabilities": [m for _, m in corners]}
