"""The hinge loss with a kernel: its settings, and primal and dual as sums over the rows' scores and dual variables."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.settings import Setting, Settings
from blocksvm.kernels.kernel_machine_loops import LINEAR, POLYNOMIAL, RBF
from blocksvm.kernels.loss_functions import UNIT_ROUNDOFF
from blocksvm.problems.certificate import OF_TERMS, Certificate, certified, rounding_of_sums
from blocksvm.problems.expansion import KERNELS
from blocksvm.problems.problem import Problem, make_problem
from blocksvm.sources.source import Source

KERNEL_SETTINGS = Settings((
    Setting("kernel", "the kernel: rbf exp(-gamma ||x - z||^2), polynomial (gamma <x, z> + coef0)^degree, or linear",
            default="rbf", kind=str, choices=KERNELS),
    Setting("gamma", "gamma of the kernel (default: 1 / number of features)", above=0.0),
    Setting("degree", "degree of the polynomial kernel", default=3, kind=int, least=1, most=50),
    Setting("coef0", "constant term of the polynomial kernel", default=0.0),
))  # fmt: skip


def known_of_kernel(source: Source) -> dict:
    """What a source's rows decide of these settings."""
    return {"gamma": 1.0 / max(1, source.n_features)}


def described_kernel(settings: Mapping) -> dict:
    """The kernel as a ``Support`` has it."""
    return {"name": settings["kernel"]} | {name: settings[name] for name in ("gamma", "coef0", "degree")}


def check_kernel(settings: Mapping, source: Source, total: float) -> None:
    """InputError for a polynomial that is no kernel, or whose values, times ``total``, are beyond double precision."""
    if KERNELS.index(settings["kernel"]) != POLYNOMIAL:
        return
    if settings["coef0"] < 0.0:
        raise InputError(f"{option('coef0', settings['coef0'])}: below 0 the polynomial is no kernel; give 0 or more")
    with np.errstate(over="ignore"):
        largest = settings["gamma"] * source.max_norm**2 + settings["coef0"]
        value = float(np.power(largest, settings["degree"]))
    if not value * total < 1e150:
        raise InputError(
            f"{option('degree', settings['degree'])}: the kernel's values, up to {value:.1e}, are beyond what double "
            "precision can solve; scale the rows, or choose a smaller degree or gamma"
        )


def kernel_problem(settings: Mapping, bias: float, free_bias: bool, source: Source) -> Problem:
    """That of the hinge loss, where the square of ``bias`` is added to the kernel; InputError where the labels are not
    two, or the costs beyond what double precision can solve."""
    problem = make_problem({**settings, "loss": "hinge"}, bias, source)
    check_kernel(settings, source, problem.total_cost)
    return replace(problem, free_bias=free_bias)


def best_bias(scores: np.ndarray, sides: np.ndarray) -> float:
    """The b that minimises sum_i C_i max(0, 1 - y_i (score_i + b)); sides (n,): y_i C_i.

    Its slope is -sum of the C_i of the positive rows far to the left, and grows by C_i at each y_i - score_i.
    """
    there = sides != 0.0
    corners = np.where(sides[there] > 0.0, 1.0, -1.0) - scores[there]
    order = np.argsort(corners, kind="stable")
    slopes = np.cumsum(np.abs(sides[there])[order]) - float(sides[sides > 0.0].sum())
    at = min(int(np.searchsorted(slopes, 0.0)), len(order) - 1)
    low = float(corners[order[at]])
    # where the slope is 0 up to the next corner, the middle
    if slopes[at] == 0.0 and at + 1 < len(order):
        return 0.5 * (low + float(corners[order[at + 1]]))
    return low


def errors_of_values(settings: Mapping, source: Source, constant: float) -> tuple[float, float]:
    """(the largest kernel value of a source's rows, with a constant added; by how much one may be off by rounding)."""
    longest = min(source.n_features, int(source.chunks.nnz.max())) + 8.0
    square = source.max_norm**2
    kernel = KERNELS.index(settings["kernel"])
    if kernel == RBF:  # |x|^2 + |z|^2 - 2 <x, z> has the sizes of its three parts
        largest, operations = 1.0, 2.0 + 4.0 * settings["gamma"] * square * longest
    elif kernel == LINEAR:
        largest, operations = square, longest
    else:
        largest = (settings["gamma"] * square + settings["coef0"]) ** settings["degree"]
        operations = settings["degree"] * longest
    return largest + constant, UNIT_ROUNDOFF * (operations * largest + largest + constant)


def certificate_of(
    free_bias: bool, scores: np.ndarray, sides: np.ndarray, alpha: np.ndarray, within: float = 0.0
) -> tuple:
    """(Certificate, b) of dual variables and the scores that belong to them, each of which may be off by ``within``.
    Raises InputError as ``certified``."""
    bias = best_bias(scores, sides) if free_bias else 0.0
    cost, signs = np.abs(sides), np.sign(sides)
    margins = signs * (scores + bias)
    losses = cost * np.maximum(0.0, 1.0 - margins)
    n, product = len(scores), float((alpha * signs * scores).sum())
    primal = 0.5 * product + float(losses.sum())
    of_rows = float((losses + alpha * (margins - 1.0)).sum())
    magnitude = float((np.abs(losses) + np.abs(alpha * margins) + np.abs(alpha * scores) + alpha).sum())
    # a row's loss and its share of the gap are largest at an end of the interval that its margin is known to lie in
    off = within + 4.0 * UNIT_ROUNDOFF * (np.abs(scores) + abs(bias) + 1.0)
    more = cost * np.maximum(0.0, 1.0 - margins + off) - losses
    wider = np.maximum(more - alpha * off, cost * np.maximum(0.0, 1.0 - margins - off) - losses + alpha * off)
    moved = 0.5 * float((alpha * off).sum())
    net = abs(float((alpha * signs).sum())) + rounding_of_sums(n, float(alpha.sum()))  # 0 but for rounding
    of_primal = float(more.sum()) + moved + rounding_of_sums(n, magnitude)
    of_gap = float(np.maximum(wider, 0.0).sum()) + OF_TERMS * magnitude + rounding_of_sums(n, max(of_rows, 0.0))
    bounds = of_primal, of_gap + abs(bias) * net, 0.5 * product - moved
    labelled = int((sides != 0.0).sum())
    right = int(((margins > 0.0) | ((margins == 0.0) & (sides < 0.0))).sum())
    *figures, rounding = certified(primal, of_rows, of_rows, magnitude, *bounds)
    return Certificate(*figures, right / max(1, labelled), rounding=rounding), bias
