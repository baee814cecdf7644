"""The losses as the literature states them, in extended precision: the oracle of ``test_losses``.

Each entry gives the loss c * phi(z, y), its dual term (the conjugate at -a y for labels, at -a for real targets) and
the interval of a, from Yu, Huang, Lin (Machine Learning 85, 2011), Hsieh et al. (ICML 2008) and Ho, Lin (JMLR 2012).
Imports nothing of the package under test.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

LONG = np.longdouble


@dataclass(frozen=True)
class ReferenceLoss:
    """value(z, y, c, p); conjugate(a, y, c, p); interval(c): the a allowed; labels: y is +-1, else a real number."""

    value: Callable
    conjugate: Callable
    interval: Callable
    labels: bool = True
    settings: tuple = ()


def hinge(z, y, c, p=()):
    return c * max(LONG(0), 1 - y * z)


def squared_hinge(z, y, c, p=()):
    return c * max(LONG(0), 1 - y * z) ** 2


def logistic(z, y, c, p=()):
    return c * np.logaddexp(LONG(0), -y * z)


def logistic_conjugate(a, y, c, p=()):
    return sum(part * np.log(part) for part in (a, c - a) if part > 0) - c * np.log(c)


def epsilon_insensitive(z, y, c, p):
    return c * max(LONG(0), abs(z - y) - p[0])


def squared_epsilon_insensitive(z, y, c, p):
    return c * max(LONG(0), abs(z - y) - p[0]) ** 2


def huber(z, y, c, p):
    error = abs(z - y)
    return c * (error * error / 2 if error <= p[0] else p[0] * (error - LONG(p[0]) / 2))


def smooth_hinge(z, y, c, p):
    m = y * z
    return c * (LONG(0) if m >= 1 else 1 - m - LONG(p[0]) / 2 if m <= 1 - p[0] else (1 - m) ** 2 / (2 * LONG(p[0])))


def perceptron(z, y, c, p=()):
    return c * max(LONG(0), -y * z)


def of_numbers(value, conjugate, bound=np.inf, settings=()):
    """The loss of a real target, whose a is at most c times this."""
    ends = (lambda c: (-np.inf, np.inf)) if bound == np.inf else (lambda c: (-c * bound, c * bound))
    return ReferenceLoss(value, conjugate, ends, False, settings)


# losses without a dual
PRIMAL = {"perceptron": ReferenceLoss(perceptron, None, None)}
REFERENCES = {
    "hinge": ReferenceLoss(hinge, lambda a, y, c, p: -a, lambda c: (0.0, c)),
    "squared-hinge": ReferenceLoss(squared_hinge, lambda a, y, c, p: a * a / (4 * c) - a, lambda c: (0.0, np.inf)),
    "logistic": ReferenceLoss(logistic, logistic_conjugate, lambda c: (0.0, c)),
    "epsilon-insensitive": of_numbers(epsilon_insensitive, lambda a, y, c, p: p[0] * abs(a) - a * y, 1.0, (0.3,)),
    "squared-epsilon-insensitive": of_numbers(
        squared_epsilon_insensitive, lambda a, y, c, p: p[0] * abs(a) - a * y + a * a / (4 * c), settings=(0.3,)
    ),
    "squared": of_numbers(lambda z, y, c, p: c * (z - y) ** 2 / 2, lambda a, y, c, p: a * a / (2 * c) - a * y),
    "absolute": of_numbers(lambda z, y, c, p: c * abs(z - y), lambda a, y, c, p: -a * y, 1.0),
    "huber": of_numbers(huber, lambda a, y, c, p: a * a / (2 * c) - a * y, 0.7, (0.7,)),
    "support.smooth_hinge:SMOOTH_HINGE": ReferenceLoss(
        smooth_hinge, lambda a, y, c, p: p[0] * a * a / (2 * c) - a, lambda c: (0.0, c), settings=(0.6,)
    ),
}


def shares_of_gap(name, z, y, a, c, near):
    """Each row's term of P(w) - D(a) at w = w(a) (Fenchel, Young); -1 where the row costs nothing, and where a is at a
    bound and the gradient of -D, y z - 1 + a / (2 c) with that term for the squared hinge alone, farther than ``near``
    beyond it."""
    loss = REFERENCES[name]
    shares = []
    for zi, yi, ai, ci in zip(*map(np.atleast_1d, (z, y, a, c)), strict=True):
        if ci == 0.0:
            shares.append(-1.0)
            continue
        gradient = yi * zi - 1.0 + (ai / (2.0 * ci) if name == "squared-hinge" else 0.0)
        low, high = loss.interval(ci)
        beyond = (ai == low and gradient > near) or (ai == high and gradient < -near)
        if beyond and name != "logistic":
            shares.append(-1.0)
            continue
        value, conjugate = (loss.value(LONG(zi), LONG(yi), LONG(ci), ()),
                            loss.conjugate(LONG(ai), LONG(yi), LONG(ci), ()))  # fmt: skip
        shares.append(max(0.0, float(value + conjugate + LONG(ai) * LONG(yi) * LONG(zi))))
    return np.array(shares)


# the derivatives by z, of losses with kinks one of those there
DERIVATIVES = {
    "hinge": lambda z, y, c, p: -c * y * (y * z < 1),
    "squared-hinge": lambda z, y, c, p: -2 * c * y * max(LONG(0), 1 - y * z),
    "logistic": lambda z, y, c, p: -c * y / (1 + np.exp(y * z)),
    "squared": lambda z, y, c, p: c * (z - y),
    "huber": lambda z, y, c, p: c * max(-LONG(p[0]), min(LONG(p[0]), z - y)),
    "epsilon-insensitive": lambda z, y, c, p: c * np.sign(z - y) * (abs(z - y) > p[0]),
    "squared-epsilon-insensitive": lambda z, y, c, p: 2 * c * np.sign(z - y) * max(LONG(0), abs(z - y) - p[0]),
    "support.smooth_hinge:SMOOTH_HINGE": lambda z, y, c, p: (
        -c * y * min(LONG(1), max(LONG(0), (1 - y * z) / LONG(p[0])))
    ),
}


def dense_rows(X):
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X, LONG)


def primal_of(name, X, y, w, costs, p=(), prior=0.0):
    """1/2 ||w - w0||^2 + the losses of the rows that cost something, p: the loss's settings."""
    z, some = dense_rows(X) @ np.asarray(w, LONG), np.flatnonzero(costs)
    losses = (REFERENCES[name].value(z[i], LONG(y[i]), LONG(costs[i]), p) for i in some)
    return float(LONG(0.5) * np.sum((np.asarray(w, LONG) - prior) ** 2) + sum(losses))


def dual_of(name, X, y, a, costs, p=(), prior=0.0):
    """-the conjugates of those rows - 1/2 ||u||^2 - <w0, u>, u = sum a direction x; a must be allowed."""
    loss, a, some = REFERENCES[name], np.asarray(a, LONG), np.flatnonzero(costs)
    u = dense_rows(X).T @ np.where(costs, a * y if loss.labels else a, 0.0)
    for i in some:
        low, high = loss.interval(costs[i])
        assert low * (1 + 1e-15) <= a[i] <= high * (1 + 1e-15)
    conjugates = sum(loss.conjugate(a[i], LONG(y[i]), LONG(costs[i]), p) for i in some)
    return float(-conjugates - LONG(0.5) * u @ u - np.sum(prior * u))


def smooth_objective(name, X, y, w, costs, p=(), prior=0.0):
    """(P(w), its gradient, dual variables, D(a)), where the loss has a derivative."""
    loss, X, w = REFERENCES[name], dense_rows(X), np.asarray(w, LONG)
    gradient, alpha = w - prior, np.zeros(len(y), LONG)
    for i in np.flatnonzero(costs):
        slope = DERIVATIVES[name](X[i] @ w, LONG(y[i]), LONG(costs[i]), p)
        alpha[i] = -slope / (y[i] if loss.labels else 1.0)
        gradient = gradient + slope * X[i]
    both = primal_of(name, X, y, w, costs, p, prior), dual_of(name, X, y, alpha, costs, p, prior)
    return both[0], gradient.astype(float), alpha.astype(float), both[1]
