"""Probabilities for decision values that are none, from rows that the models have not seen: Platt's sigmoid, or an
isotonic function.  The held-out values are counted in bins (the upper bits of their float32), each of which stands for
the mean of the values in it."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import expit

from blocksvm.base.errors import InputError, option
from blocksvm.base.threads import Threads
from blocksvm.model.measures import bins_of
from blocksvm.model.probabilities import ISOTONIC, PLATT
from blocksvm.sources.source import Source
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings
from blocksvm.validation.folds import folds_of, held_out_method, targets_of
from blocksvm.validation.path import check_folds

FOLDS = 5
BITS = 16
SMALL = 1e-10  # of a gradient's length, over the rows


def check_calibrated(kind: str, settings: TrainSettings, two_classes: bool) -> None:
    """InputError where a run makes no decision values that could be calibrated."""
    setting = option("calibrate", kind)
    if not settings.capabilities.working_set or settings.free_bias or not two_classes:
        raise InputError(f"{setting}: is for dual-cd on rows of two classes, without a free bias; leave it out")
    if settings.method.get("lam") is not None:
        raise InputError(f"{setting}: needs {option('C')} instead of {option('lam')}")


def calibrated(source: Source, settings: TrainSettings, kind: str,
               on_event: Callable[[dict], None] = lambda event: None, stop: Callable[[], bool] = lambda: False,
               threads: Threads | None = None) -> dict | None:  # fmt: skip
    """The calibration of a model of these settings, None where the user stopped: trained on the rows outside of each of
    five folds, all in the same readings.  InputError where the rows are not of two classes."""
    check_calibrated(kind, settings, source.labels is not None and source.labels.binary)
    folds = folds_of(source, FOLDS, settings.seed)
    y, weights = targets_of(source, real=False)
    check_folds(source, folds, y, settings)
    of_method = dict(settings.method)
    method = held_out_method(settings.solver, [of_method.pop("C", 1.0)], folds)
    besides = {"folds": 32 * source.n_samples + (24 << BITS)}
    plan = Plan(source, replace(settings, method=of_method), method=method, besides=besides)
    plan.share_work(threads or Threads(1))
    loop = OuterLoop(plan, on_event, stop)
    if loop.run().status == "interrupted":
        return None
    values, weights = plan.solver.held(loop.state).reshape(-1), np.ones(len(y)) if weights is None else weights
    bins = bins_of(values, BITS)
    parts = (np.bincount(bins, part, 1 << BITS) for part in (weights * (y <= 0), weights * (y > 0), weights * values))
    negative, positive, total = parts
    there = negative + positive > 0.0
    means = total[there] / (negative + positive)[there]  # of the decision values of each bin, rising
    return {PLATT: platt, ISOTONIC: isotonic}[kind](means, negative[there], positive[there])


def platt(values: np.ndarray, negative: np.ndarray, positive: np.ndarray) -> dict:
    """The slope a and intercept b of P(larger label) = 1 / (1 + exp(-(a z + b))) that maximise the likelihood, each
    class's targets a little inside of 0 and 1 (Platt 1999).  With the values divided by the largest of them the problem
    in (a, b) is smooth, convex and well scaled, and Newton steps within a trust region solve it."""
    from scipy.optimize import minimize

    n, p = float(negative.sum()), float(positive.sum())
    high, low = (p + 1.0) / (p + 2.0), 1.0 / (n + 2.0)
    weights, targets = negative + positive, high * positive + low * negative
    scale = float(np.abs(values).max()) or 1.0
    features = np.stack([values / scale, np.ones(len(values))])

    def loss(line: np.ndarray) -> tuple[float, np.ndarray]:
        z = line @ features  # -t log P - (1 - t) log(1 - P) = log(1 + e^z) - t z
        return float(np.sum(weights * np.logaddexp(0.0, z) - targets * z)), features @ (weights * expit(z) - targets)

    def hessian(line: np.ndarray) -> np.ndarray:
        P = expit(line @ features)
        return (features * (weights * P * (1.0 - P))) @ features.T

    begin = np.array([0.0, math.log((p + 1.0) / (n + 1.0))])
    options = {"gtol": SMALL * (n + p), "initial_trust_radius": 10.0, "max_trust_radius": 1e6}
    line = minimize(loss, begin, jac=True, hess=hessian, method="trust-exact", options=options).x
    return {"kind": PLATT, "slope": float(line[0]) / scale, "intercept": float(line[1])}


def isotonic(values: np.ndarray, negative: np.ndarray, positive: np.ndarray) -> dict:
    """The rising function of least squares (Ayer et al., Ann. Math. Stat. 26, 1955): its corners, between which
    probabilities are interpolated (Zadrozny, Elkan, KDD 2002)."""
    from scipy.optimize import isotonic_regression

    weights = negative + positive
    fitted = isotonic_regression(positive / weights, weights=weights)
    corners = np.unique(np.concatenate([fitted.blocks[:-1], fitted.blocks[1:] - 1]))
    return {"kind": ISOTONIC, "values": values[corners].tolist(), "probabilities": fitted.x[corners].tolist()}
