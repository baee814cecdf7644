"""The mirror maps of online mirror descent, as bounds of regret need them: R, its conjugate R*, and the norms.

R is the conjugate of the potential R*: w_t is the gradient of R* at theta_t = -sum of the gradients so far.  Euclidean:
R* = eta / 2 ||theta||^2; p-norm: R* = eta / 2 ||theta||_p^2 (Gentile, Machine Learning 2003); entropic, of radius U:
R* = (U / eta) log sum_j (e^(eta theta_j) + e^(-eta theta_j)) (Kivinen, Warmuth, Inf. and Comp. 1997).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from scipy.optimize import brentq
from scipy.special import xlogy


class Euclidean:
    """The map of gradient descent."""

    name = "euclidean"

    def gradient_norm(self, settings: Mapping) -> float | None:
        """p of the norm that gradients are measured in; None for the Euclidean one."""
        return None

    def norm(self, w: np.ndarray, settings: Mapping) -> float:
        """||w|| in the norm dual to that of the gradients."""
        return float(np.linalg.norm(w))

    def entropy(self, w: np.ndarray, settings: Mapping) -> float:
        """R(w) - R(w_1) where that is no norm; inf where it is one."""
        return math.inf

    def distance(self, u, settings: Mapping) -> float:
        """R(u) - min R of a comparator, at most."""
        return u.norm_dual**2 / (2.0 * settings["step"])

    def exact_distance(self, u, settings: Mapping) -> float:
        """R(u) - R(w_1); inf outside of its domain."""
        return self.distance(u, settings)

    def smoothness(self, settings: Mapping) -> float:
        """eta' where R is 1 / eta'-strongly convex in the norm dual to that of the gradients."""
        return settings["step"]

    def potential(self, theta: np.ndarray, settings: Mapping) -> float:
        """R*(theta) - R*(0); theta (d,)."""
        raise NotImplementedError


class PNorm(Euclidean):
    """The p-norm map."""

    name = "p-norm"

    def gradient_norm(self, settings: Mapping) -> float:
        return settings["p"]

    def norm(self, w: np.ndarray, settings: Mapping) -> float:
        norm, p = float(np.linalg.norm(w)), settings["p"]
        if norm == 0.0:
            return norm
        return norm * float(np.sum((np.abs(w) / norm) ** (p / (p - 1.0)))) ** (1.0 - 1.0 / p)

    def smoothness(self, settings: Mapping) -> float:
        return settings["step"] * (settings["p"] - 1.0)

    def potential(self, theta: np.ndarray, settings: Mapping) -> float:
        p, largest = settings["p"], float(np.abs(theta).max(initial=0.0)) or 1.0
        return settings["step"] / 2.0 * largest**2 * float(np.sum(np.abs(theta / largest) ** p)) ** (2.0 / p)


class Entropic(Euclidean):
    """The map of exponentiated gradients."""

    name = "entropic"

    def gradient_norm(self, settings: Mapping) -> float:
        return math.inf

    def entropy(self, w: np.ndarray, settings: Mapping) -> float:
        """R(w) - R(w_1); inf beyond U.

        R(w) = (U / eta) min sum p log p over 2 n numbers p >= 0 of sum 1 with U (p+ - p-) = w: there p+_j p-_j = s^2
        for all j.
        """
        U, n = settings["radius"], settings["n_features"]
        a = np.abs(w[w != 0.0]) / (2.0 * U)
        rest = 2.0 * (n - len(a))

        def excess(s: float) -> float:
            return 2.0 * float(np.hypot(s, a).sum()) + rest * s - 1.0

        if excess(0.0) > 0.0:
            return math.inf
        s = brentq(excess, 0.0, 1.0 / (2.0 * n), xtol=1e-300, rtol=1e-14) if excess(0.0) < 0.0 else 0.0
        larger = np.hypot(s, a) + a
        smaller = s * s / larger
        total = float(np.sum(xlogy(larger, larger) + xlogy(smaller, smaller))) + rest * float(xlogy(s, s))
        return U / settings["step"] * (total + math.log(2.0 * n))

    def distance(self, u, settings: Mapping) -> float:
        return settings["radius"] * math.log(2.0 * settings["n_features"]) / settings["step"]

    def exact_distance(self, u, settings: Mapping) -> float:
        return u.entropy

    def smoothness(self, settings: Mapping) -> float:
        return settings["step"] * settings["radius"]

    def potential(self, theta: np.ndarray, settings: Mapping) -> float:
        U, n, eta, d = settings["radius"], settings["n_features"], settings["step"], len(theta)
        a = eta * np.abs(theta)
        rest = math.log(2.0 * (n - d)) if n > d else -math.inf
        total = np.logaddexp(np.logaddexp.reduce(np.logaddexp(a, -a)), rest)
        return U / eta * (total - math.log(2.0 * n))


EUCLIDEAN, P_NORM, ENTROPIC = Euclidean(), PNorm(), Entropic()
