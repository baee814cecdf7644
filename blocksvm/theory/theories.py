"""What is known of each learner, by which regret is measured: its mirror map, its ball, its regulariser.

The mirror map is the conjugate R of a potential R*: w_t is the gradient of R* at theta_t, the sum of the gradients so
far, negated.  Euclidean: R* = eta / 2 ||theta||^2; p-norm: R* = eta / 2 ||theta||_p^2 (Gentile, Machine Learning 2003);
entropic, of radius U: R* = (U / eta) log sum_j (e^(eta theta_j) + e^(-eta theta_j)) (Kivinen, Warmuth, Inf. and Comp.
1997).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import xlogy


class Euclidean:
    name = "euclidean"

    def power(self, settings: Mapping) -> float | None:
        """p of the norm that gradients are measured in; None for the Euclidean one."""
        return None

    def smoothness(self, settings: Mapping) -> float:
        """eta' where R is 1 / eta'-strongly convex in the norm dual to that of the gradients."""
        return settings["step"]

    def distances(self, w: np.ndarray, settings: Mapping) -> tuple[float, float]:
        """(R(w) - min R at most, R(w) - R(w_1)), the latter inf outside of its domain."""
        distance = float(w @ w) / (2.0 * settings["step"])
        return distance, distance


class PNorm(Euclidean):
    name = "p-norm"

    def power(self, settings: Mapping) -> float:
        return settings["p"]

    def smoothness(self, settings: Mapping) -> float:
        return settings["step"] * (settings["p"] - 1.0)

    def distances(self, w: np.ndarray, settings: Mapping) -> tuple[float, float]:
        norm, p = float(np.linalg.norm(w)), settings["p"]
        if norm > 0.0:
            norm *= float(np.sum((np.abs(w) / norm) ** (p / (p - 1.0)))) ** (1.0 - 1.0 / p)
        distance = norm**2 / (2.0 * settings["step"])
        return distance, distance

    def potential(self, theta: np.ndarray, settings: Mapping) -> float:
        """R*(theta) - R*(0); theta (d,)."""
        p, largest = settings["p"], float(np.abs(theta).max(initial=0.0)) or 1.0
        return settings["step"] / 2.0 * largest**2 * float(np.sum(np.abs(theta / largest) ** p)) ** (2.0 / p)


class Entropic(Euclidean):
    name = "entropic"

    def power(self, settings: Mapping) -> float:
        return math.inf

    def smoothness(self, settings: Mapping) -> float:
        return settings["step"] * settings["radius"]

    def distances(self, w: np.ndarray, settings: Mapping) -> tuple[float, float]:
        """R(w) = (U / eta) min sum p log p over 2 n numbers p >= 0 of sum 1 with U (p+ - p-) = w: there p+_j p-_j = s^2
        for all j."""
        U, n, eta = settings["radius"], settings["n_features"], settings["step"]
        most = U * math.log(2.0 * n) / eta
        a = np.abs(w[w != 0.0]) / (2.0 * U)
        rest = 2.0 * (n - len(a))

        def excess(s: float) -> float:
            return 2.0 * float(np.hypot(s, a).sum()) + rest * s - 1.0

        if excess(0.0) > 0.0:
            return most, math.inf
        s = brentq(excess, 0.0, 1.0 / (2.0 * n), xtol=1e-300, rtol=1e-14) if excess(0.0) < 0.0 else 0.0
        larger = np.hypot(s, a) + a
        smaller = s * s / larger
        total = float(np.sum(xlogy(larger, larger) + xlogy(smaller, smaller))) + rest * float(xlogy(s, s))
        return most, U / eta * (total + math.log(2.0 * n))

    def potential(self, theta: np.ndarray, settings: Mapping) -> float:
        U, n, eta, d = settings["radius"], settings["n_features"], settings["step"], len(theta)
        a = eta * np.abs(theta)
        rest = math.log(2.0 * (n - d)) if n > d else -math.inf
        total = np.logaddexp(np.logaddexp.reduce(np.logaddexp(a, -a)), rest)
        return U / eta * (total - math.log(2.0 * n))


EUCLIDEAN, P_NORM, ENTROPIC = Euclidean(), PNorm(), Entropic()


@dataclass(frozen=True)
class Regulariser:
    """r(w) of a learner's objective: weight times ||w||_1 (kind l1), sum_j h_j |w_j| with the heights of the last round
    (heights), ||w||^2 / 2 (l2) or ||w|| (norm); text: the formula for people."""

    text: str
    kind: str
    weight: float

    @property
    def of_each_weight(self) -> bool:
        """It is a sum over the weights: what it has been in each round takes all of them."""
        return self.kind in ("l1", "heights")


@dataclass(frozen=True, kw_only=True)
class Theory:
    """What is known of a learner.

    mirror: the map that makes it mirror descent; ball: 1 or 2, the norm of the ball that it stays in; regulariser(
    settings): r(w) of its objective, where regret can measure it; passive_aggressive: its step is min(most, hinge /
    (||x||^2 + slack)) with these two among its numbers; splits: a round is a gradient step, then that of r; steps: a
    round is a step against the gradient of loss + r; bounded_entries: the largest |x_j| of rows are needed.
    """

    mirror: Euclidean | None = None
    ball: int | None = None
    regulariser: Callable[[Mapping], Regulariser | None] = lambda settings: None
    passive_aggressive: bool = False
    splits: bool = False
    steps: bool = False
    bounded_entries: bool = False

    def dual_power(self, settings: Mapping) -> float | None:
        """p of the norm of rows that its bounds are in, None for the Euclidean one alone."""
        return math.inf if self.bounded_entries else self.mirror.power(settings) if self.mirror else None


def l1_norm(settings: Mapping) -> Regulariser | None:
    """None where there is an l2, too."""
    return None if settings.get("l2") else Regulariser("l1 ||w||_1", "l1", settings["l1"])


ADAPTIVE = Theory(regulariser=l1_norm, bounded_entries=True)
# by the learner's name, and what chooses among its variants
THEORIES = {
    **dict.fromkeys(("pa", "pa1", "pa2"), Theory(passive_aggressive=True)),
    "ogd": Theory(mirror=EUCLIDEAN, ball=2), "forel": Theory(mirror=EUCLIDEAN), "ftl": Theory(ball=2),
    "omd euclidean": Theory(mirror=EUCLIDEAN), "omd p-norm": Theory(mirror=P_NORM),
    "omd entropic": Theory(mirror=ENTROPIC, ball=1),
    "pegasos": Theory(ball=2, regulariser=lambda s: Regulariser("lambda / 2 ||w||^2", "l2", s["lam"])),
    "subgradient": Theory(regulariser=lambda s: l1_norm(s) if s["l1"] else None, steps=True),
    "fobos l1": Theory(regulariser=l1_norm, splits=True),
    "fobos group": Theory(regulariser=lambda s: Regulariser("group ||w||_2", "norm", s["group"])),
    "hf-fobos": Theory(splits=True, regulariser=lambda s: Regulariser(
        "l1 sum h_j |w_j| with the heights h of the last round", "heights", s["l1"])),
    **dict.fromkeys(("adagrad-rda", "adagrad-rda-squares", "adagrad-fobos"), ADAPTIVE),
}  # fmt: skip


def variant_of(name: str, settings: Mapping) -> str:
    """Name and variant of a learner, by which ``THEORIES`` has it; of one from outside nothing is known."""
    chosen = settings.get("mirror") or settings.get("regulariser")
    return f"{name} {chosen}" if chosen else name
