"""Parts that the solvers of this benchmark share: when they stop, steps of a tolerance, and memory."""

import gc
import math
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
from benchopt import BaseSolver
from benchopt.stopping_criterion import SufficientProgressCriterion

sys.path.append(str(Path(__file__).resolve().parents[3]))  # for experiments.runs
# until two runs that follow each other bring less than 1e-4 of the largest fall of the objective
BY_TOLERANCE, BY_ITERATIONS = (
    SufficientProgressCriterion(eps=1e-4, patience=2, strategy=strategy) for strategy in ("tolerance", "iteration")
)


def next_tolerance(tolerance, per_decade=1):
    """The next of 1, 0.1, 0.01, ...; of 1, 0.3, 0.1, 0.03, ... with two steps a decade."""
    if tolerance > 1.0:
        return 1.0
    steps = math.floor(-per_decade * math.log10(max(tolerance, 1e-15)) + 0.5) + 1
    return float(f"{10.0 ** (-steps / per_decade):.0e}")


class ByTolerance(BaseSolver):
    """A program that takes a tolerance, two a decade."""

    sampling_strategy = "tolerance"
    stopping_criterion = BY_TOLERANCE

    def get_next(self, tolerance):
        return next_tolerance(tolerance, per_decade=2)


class ByIterations(BaseSolver):
    """A program that takes the hinge loss of two classes without a bias, and a number of iterations: its file says
    ``fitted(iterations)``: w (d,) of X, y and C."""

    sampling_strategy = "iteration"
    stopping_criterion = BY_ITERATIONS

    def skip(self, loss, Y, bias, **other):
        fits = loss == "hinge" and Y.shape[1] == 1 and bias == 0
        return (False, None) if fits else (True, "takes the hinge loss of two classes without a bias here")

    def set_objective(self, X, Y, C, **other):
        self.X, self.y, self.C = X, Y[:, 0], C

    def get_next(self, iterations):
        return max(1, 2 * iterations)

    def run(self, iterations):
        self.coef = self.fitted(iterations) if iterations else np.zeros(self.X.shape[1])

    def get_result(self):
        return {"coef": self.coef}


def peak_mb():
    """The largest memory that this process has had since ``forget_peak``, in MB; NaN without /proc."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) * 1024 / 1e6 for line in lines if line.startswith("VmHWM:")), math.nan)


def forget_peak():
    """Begin anew with what the process has now; its MB."""
    gc.collect()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    return peak_mb()
