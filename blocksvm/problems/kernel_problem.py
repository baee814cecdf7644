"""The hinge loss with a kernel: its settings, the rows that a result stands on, decision values by them, and primal and
dual as sums over the rows' scores and dual variables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.settings import Setting, Settings
from blocksvm.kernels.columns import row_sq_norms
from blocksvm.kernels.kernel_machine_loops import LINEAR, POLYNOMIAL, RBF, columns_of, kernel_sums
from blocksvm.kernels.loss_functions import UNIT_ROUNDOFF
from blocksvm.kernels.rows import Entries
from blocksvm.problems.certificate import OF_TERMS, Certificate, certified, rounding_of_sums
from blocksvm.sources.source import Source

KERNELS = ("linear", "polynomial", "rbf")  # in the order of the numbers in kernels/kernel_machine_loops.py
KERNEL_SETTINGS = Settings((
    Setting("kernel", "the kernel: rbf exp(-gamma ||x - z||^2), polynomial (gamma <x, z> + coef0)^degree, or linear",
            default="rbf", kind=str, choices=KERNELS),
    Setting("gamma", "gamma of the kernel (default: 1 / number of features)", above=0.0),
    Setting("degree", "degree of the polynomial kernel", default=3, kind=int, least=1, most=50),
    Setting("coef0", "constant term of the polynomial kernel", default=0.0),
))  # fmt: skip


@dataclass(frozen=True)
class Support:
    """The rows that a model with a kernel stands on: decision value(x) = sum_m coefficients[m] K(z_m, x) + b."""

    indptr: np.ndarray  # (m + 1,) int64
    indices: np.ndarray  # (nnz,) int32
    values: np.ndarray  # (nnz,) float64
    norms: np.ndarray  # (m,): of the rows, squared
    coefficients: np.ndarray  # (m,): a y
    kernel: dict  # name, gamma, coef0 and degree


def function_of(kernel: Mapping) -> tuple:
    """As kernels/kernel_machine_loops.py takes what ``Support`` has: (number of the kernel, gamma, coef0, degree)."""
    return KERNELS.index(kernel["name"]), kernel["gamma"], kernel["coef0"], kernel["degree"]


@dataclass(frozen=True)
class Expansion:
    """Completes <w, x> of rows to decision values: adds sum_m coefficients[m] K(z_m, x)."""

    columns: tuple[np.ndarray, np.ndarray, np.ndarray]  # of the rows z_m, see kernels/kernel_machine_loops.py
    norms: np.ndarray  # (m,): squared
    coefficients: np.ndarray
    function: tuple  # ``function_of``

    @classmethod
    def of(cls, support: Support, positions: np.ndarray, n_features: int) -> Expansion:
        """For rows over other features: positions (d,): the feature that each of the model's is among theirs, -1 for
        none; n_features: theirs.  A feature that the model does not know counts in a row's norm alone."""
        lengths = np.diff(support.indptr)
        moved = positions[support.indices]
        known = moved >= 0
        owner = np.repeat(np.arange(len(lengths)), lengths)[known]
        indptr = np.append(0, np.cumsum(np.bincount(owner, minlength=len(lengths)).astype(np.int64)))
        indices, values = moved[known].astype(np.int32), support.values[known]
        first = np.zeros(n_features + 3, np.int64)  # and one for what is unknown
        columns = first, np.empty(len(indices), np.int32), np.empty(len(indices))
        columns_of(indptr, indices, values, *columns)
        return cls(columns, support.norms, support.coefficients, function_of(support.kernel))

    def complete(self, entries: Entries, values: np.ndarray) -> None:
        """``values`` (1, m), <w, x> of so many plain rows."""
        norms = np.empty(values.shape[1])
        row_sq_norms(*entries[:3], norms)
        self.add(entries, norms, values[0])

    def add(self, entries: Entries, sq_norms: np.ndarray, scores: np.ndarray) -> None:
        """``scores`` (m,) gain it for so many plain rows of these squared norms."""
        work = np.empty(len(self.norms))
        kernel_sums(entries, sq_norms, self.columns, self.norms, self.coefficients, self.function, work, scores)


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
        beyond = f"the kernel's values, up to {value:.1e}, are beyond what double precision can solve"
        given = option("degree", settings["degree"])
        raise InputError(f"{given}: {beyond}; scale the rows, or choose a smaller degree or gamma")


def best_bias(scores: np.ndarray, sides: np.ndarray) -> float:
    """The b that minimises sum_i C_i max(0, 1 - y_i (score_i + b)); sides (n,): y_i C_i.  The slope is -sum of the C_i
    of the positive rows far to the left, and grows by C_i at each y_i - score_i."""
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
    """(Certificate, b) of dual variables and their scores, each known to +- within; InputError as ``certified``."""
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
