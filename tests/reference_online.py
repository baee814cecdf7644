"""Slow, obvious online learners on dense rows that the fast code is judged by.

Everything here is written from the published formulas with numpy: the whole weight vector is
renewed in every round, nothing is lazy, and nothing of the package under test is imported.

Conventions
-----------
``x``   one row, (d,) float64.
``y``   its label, -1 or +1 (any real number for the losses ``squared``, ``epsilon-insensitive`` and ``absolute``).
``w``   d weights, the ones that the next row is predicted with; all zero at first.
``m``   the margin y <w, x>.
``t``   the number of the round, from 1; it counts every row, and runs on over epochs.

``learn(x, y)`` is one round: prediction, gradient, step, and round t's own threshold or projection.
A row of zeros takes no step, while t, the decay of the step and thresholds go on. ``w`` is always
replaced and never written to, so that a caller may keep it.

Sources
-------
Novikoff 1962   On convergence proofs on perceptrons (with bias: Cristianini, Shawe-Taylor 2000, Table 2.1).
Orabona 2009    Orabona, Keshet, Caputo: Bounded kernel-based online learning, JMLR 10.
Wang 2010       Wang, Vucetic: Online passive-aggressive algorithms on a budget, AISTATS.
Crammer 2006    Crammer, Dekel, Keshet, Shalev-Shwartz, Singer: Online passive-aggressive algorithms, JMLR 7.
Dredze 2008     Dredze, Crammer, Pereira: Confidence-weighted linear classification, ICML.
Crammer 2008    Crammer, Dredze, Pereira: Exact convex confidence-weighted learning, NIPS.
Crammer 2009    Crammer, Kulesza, Dredze: Adaptive regularization of weight vectors, NIPS.
Wang 2012       Wang, Zhao, Hoi: Exact soft confidence-weighted learning, ICML.
Zinkevich 2003  Online convex programming and generalized infinitesimal gradient ascent, ICML.
Shalev 2012     Shalev-Shwartz: Online learning and online convex optimization, Found. Trends ML 4(2).
Kivinen 1997    Kivinen, Warmuth: Exponentiated gradient versus gradient descent, Inf. and Comp. 132.
Gentile 2003    The robustness of the p-norm algorithms, Machine Learning 53.
Duchi 2009      Duchi, Singer: Efficient online and batch learning using forward backward splitting, JMLR 10.
Oiwa 2011       Oiwa, Matsushima, Nakagawa: Frequency-aware truncated methods for sparse online learning, ECML PKDD.
Duchi 2011      Duchi, Hazan, Singer: Adaptive subgradient methods, JMLR 12.
Pegasos 2011    Shalev-Shwartz, Singer, Srebro, Cotter: Pegasos, Mathematical Programming 127.
Ross 2013       Ross, Mineiro, Langford: Normalized online learning, UAI.
McMahan 2013    McMahan et al.: Ad click prediction: a view from the trenches, KDD.
Orabona 2016    Orabona, Pal: Coin betting and parameter-free online learning, NIPS; with Tommasi, NIPS 2017.
Karampatziakis 2011  Karampatziakis, Langford: Online importance weight aware updates, UAI.
Cesa 2006       Cesa-Bianchi, Gentile, Zaniboni: Worst-case analysis of selective sampling, JMLR 7.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtri


def _margin(z, y):
    """m = y z, for a label that is -1 or +1."""
    if y not in (-1, 1):
        raise ValueError(f"a label must be -1 or +1, not {y!r}")
    return y * z


def hinge(z, y, epsilon=0.1):
    """max(0, 1 - m); derivative -y where m < 1, so 0 at the kink m = 1."""
    m = _margin(z, y)
    return (1.0 - m, -float(y)) if m < 1 else (0.0, 0.0)


def perceptron(z, y, epsilon=0.1):
    """max(0, -m); derivative -y where m <= 0: at the kink m = 0 too, or w = 0 would never be left."""
    m = _margin(z, y)
    return (-m, -float(y)) if m <= 0 else (0.0, 0.0)


def squared_hinge(z, y, epsilon=0.1):
    """max(0, 1 - m)^2; derivative -2 y max(0, 1 - m)."""
    gap = max(0.0, 1.0 - _margin(z, y))
    return gap * gap, -2.0 * y * gap


def logistic(z, y, epsilon=0.1):
    """log(1 + exp(-m)); derivative -y / (1 + exp(m))."""
    m = _margin(z, y)
    return np.logaddexp(0.0, -m), -y * expit(-m)


def squared(z, y, epsilon=0.1):
    """(z - y)^2 / 2; derivative z - y."""
    return 0.5 * (z - y) ** 2, z - y


def epsilon_insensitive(z, y, epsilon=0.1):
    """max(0, |z - y| - epsilon); derivative sign(z - y) where |z - y| > epsilon, so 0 at the kink."""
    distance = abs(z - y)
    return (distance - epsilon, float(np.sign(z - y))) if distance > epsilon else (0.0, 0.0)


def absolute(z, y, epsilon=0.1):
    """|z - y|; derivative sign(z - y), 0 at the kink."""
    return abs(z - y), float(np.sign(z - y))


LOSSES = {
    "hinge": hinge,
    "perceptron": perceptron,
    "squared-hinge": squared_hinge,
    "logistic": logistic,
    "squared": squared,
    "epsilon-insensitive": epsilon_insensitive,
    "absolute": absolute,
}


def norm(w):
    """||w||, scaled by the largest entry so that no square overflows or vanishes."""
    largest = np.max(np.abs(w), initial=0.0)
    return largest * np.sqrt(np.sum((w / largest) ** 2)) if largest > 0 else 0.0


def project(w, radius):
    """The nearest point of the ball ||w|| <= radius: w min(1, radius / ||w||)."""
    length = norm(w)
    return w * (radius / length) if length > radius else w


def soft_threshold(w, threshold):
    """argmin_u ||u - w||^2 / 2 + sum_j threshold_j |u_j| = sign(w) max(0, |w| - threshold)."""
    return np.sign(w) * np.maximum(np.abs(w) - threshold, 0.0)


class Learner:
    """What all learners share: d weights, zero at first, and the count t of rounds."""

    def __init__(self, d):
        self.d = d
        self.w = np.zeros(d)
        self.t = 0

    def score(self, x):
        return self.w @ x


# Perceptrons and the passive-aggressive family


class Perceptron(Learner):
    """m <= 0: w += step y x (Rosenblatt)."""

    def __init__(self, d, *, step=1.0):
        super().__init__(d)
        self.step = step

    def learn(self, x, y):
        self.t += 1
        if _margin(self.score(x), y) <= 0:
            self.w = self.w + self.step * y * x


class PerceptronBias(Learner):
    """y (<w, x> + b) <= 0: w += step y x, b += step y R^2, with R = max_norm >= every ||x|| (Novikoff 1962).

    A row of zeros still moves b: with the bias as a feature of value R it is not a row of zeros.
    """

    def __init__(self, d, *, max_norm, step=1.0):
        super().__init__(d)
        self.max_norm = max_norm
        self.step = step
        self.b = 0.0

    def score(self, x):
        return self.w @ x + self.b

    def learn(self, x, y):
        self.t += 1
        if _margin(self.score(x), y) <= 0:
            self.w = self.w + self.step * y * x
            self.b = self.b + self.step * y * self.max_norm**2


class PA(Learner):
    """l = max(0, 1 - m) > 0: w += tau y x, tau = l / ||x||^2 (Crammer 2006, figure 1).

    A row counts as zero where ||x||^2 vanishes (||x|| below 1e-162); ||x||^2 overflows above 1e154.
    """

    def __init__(self, d):
        super().__init__(d)

    def tau(self, loss, q):
        return loss / q

    def learn(self, x, y):
        self.t += 1
        loss, _ = hinge(self.score(x), y)
        q = x @ x
        if loss > 0 and q > 0:
            self.w = self.w + self.tau(loss, q) * y * x


class PA1(PA):
    """PA-I: tau = min(C, l / ||x||^2)."""

    def __init__(self, d, *, C=1.0):
        super().__init__(d)
        self.C = C

    def tau(self, loss, q):
        return min(self.C, loss / q)


class PA2(PA1):
    """PA-II: tau = l / (||x||^2 + 1 / (2 C))."""

    def tau(self, loss, q):
        return loss / (q + 1.0 / (2.0 * self.C))


class MIRA(Learner):
    """Of two classes (Crammer, Singer 2003): w += tau y x, tau = -m / ||x||^2 within 0 and 1; the first row with
    entries gives w = y x."""

    def __init__(self, d):
        super().__init__(d)
        self.started = False

    def learn(self, x, y):
        self.t += 1
        q, m = x @ x, _margin(self.score(x), y)
        if q > 0:
            tau = min(max(-m / q, 0.0), 1.0) if self.started else 1.0
            self.w = self.w + tau * y * x
            self.started = True


class MIRAOfClasses:
    """k classes: min 1/2 sum ||w_r + tau_r x||^2, tau_r <= [r = y], sum tau = 0; the first row with entries takes
    tau_y = 1, the others -1 / (k - 1)."""

    def __init__(self, k, d):
        self.k = k
        self.W = np.zeros((k, d))
        self.started = False

    def scores(self, x):
        return self.W @ x

    def predict(self, x):
        return int(np.argmax(self.scores(x)))

    def steps(self, x, c):
        """tau (k,) by sorting: tau_r = min(theta - B_r, [r = c]) with theta from sum tau = 0."""
        own = np.arange(self.k) == c
        if not self.started:
            return np.where(own, 1.0, -1.0 / (self.k - 1))
        edges = self.scores(x) / (x @ x) + own
        falling = np.sort(edges)[::-1]
        thetas = (np.cumsum(falling) - 1.0) / np.arange(1, self.k + 1)
        theta = thetas[np.flatnonzero(falling > thetas)[-1]]
        return own - np.maximum(edges - theta, 0.0)

    def learn(self, x, c):
        if x @ x > 0:
            self.W = self.W + np.outer(self.steps(x, c), x)
            self.started = True


class PARegression(Learner):
    """l = max(0, |<w, x> - y| - epsilon) > 0: w += sign(y - <w, x>) tau x (Crammer 2006, section 4); kind 0, 1, 2: tau
    as PA, PA-I, PA-II have it."""

    def __init__(self, d, *, kind=0, C=1.0, epsilon=0.1):
        super().__init__(d)
        self.epsilon = epsilon
        self.rule = (PA(d), PA1(d, C=C), PA2(d, C=C))[kind]

    def learn(self, x, y):
        self.t += 1
        z = self.score(x)
        loss, q = max(0.0, abs(z - y) - self.epsilon), x @ x
        if loss > 0 and q > 0:
            self.w = self.w + np.sign(y - z) * self.rule.tau(loss, q) * x


class Uniclass(Learner):
    """l = max(0, ||w - x|| - epsilon) > 0: w += tau (x - w) / ||x - w||, tau as PA, PA-I, PA-II (kind 0, 1, 2) have it
    for ||x||^2 = 1 (Crammer 2006, section 6).  learned: w and x have a coordinate more, the last of ``extended``, which
    begins at epsilon in w and is 0 in x.  The score is the distance."""

    def __init__(self, d, *, kind=0, C=1.0, epsilon=1.0, learned=False):
        super().__init__(d)
        self.extended = np.append(np.zeros(d), epsilon if learned else 0.0)
        self.kind, self.C, self.epsilon = kind, C, epsilon

    def score(self, x):
        return np.sqrt(((self.extended - np.append(x, 0.0)) ** 2).sum())

    def learn(self, x, y=None, importance=1.0):
        self.t += 1
        apart = self.score(x)
        loss, C = max(0.0, apart - self.epsilon), self.C * importance
        if loss > 0.0 and importance > 0.0:
            tau = (loss, min(C, loss), loss / (1.0 + 1.0 / (2.0 * C)))[self.kind]
            self.extended = self.extended + tau * (np.append(x, 0.0) - self.extended) / apart
        self.w = self.extended[:-1]
        return apart


class KernelLearner:
    """The perceptron (kind "perceptron") or passive-aggressive (0, 1, 2: PA, PA-I, PA-II) in the space of a kernel
    K(x, z) of rows: w = sum_i a_i phi(x_i), in ``terms`` {number of the row: [x_i, a_i]}, the oldest first.

    budget: a row that is one too many, or in the span of the others, moves the a of these such that w moves by
    tau y P phi(x), P the projection on the span, with ||P phi(x)||^2 in the place of ||phi(x)||^2 (Orabona 2009, Wang
    and Vucetic 2010).  importance: C times it, or the perceptron's step.
    """

    def __init__(self, kernel, *, kind=0, C=1.0, step=1.0, budget=None):
        self.kernel, self.kind, self.C, self.step, self.budget = kernel, kind, C, step, budget
        self.terms = {}

    def score(self, x):
        return sum(a * self.kernel(z, x) for z, a in self.terms.values())

    def tau(self, loss, q, importance):
        if self.kind == "perceptron":
            return self.step * importance
        C = self.C * importance
        return (loss / q, min(C, loss / q), loss / (q + 1.0 / (2.0 * C)))[self.kind]

    def learn(self, number, x, y, importance=1.0):
        z = self.score(x)
        loss, q = max(0.0, 1.0 - y * z), self.kernel(x, x)
        acts = y * z <= 0.0 if self.kind == "perceptron" else loss > 0.0
        if not acts or q <= 0.0 or importance == 0.0:
            return z
        if number in self.terms:
            self.terms[number][1] += y * self.tau(loss, q, importance)
            return z
        if self.budget is not None and self.terms:
            rows = [z for z, _ in self.terms.values()]
            matrix = np.array([[self.kernel(u, v) for v in rows] for u in rows])
            values = np.array([self.kernel(u, x) for u in rows])
            d = np.linalg.solve(matrix, values)
            if len(rows) == self.budget or q - d @ values <= 1e-10 * q:
                if d @ values > 0.0:
                    step = y * self.tau(loss, d @ values, importance)
                    for term, part in zip(self.terms.values(), d, strict=True):
                        term[1] += step * part
                return z
        self.terms[number] = [x, y * self.tau(loss, q, importance)]
        return z


# Second order: a Gaussian over weights, N(w, diag(Sigma))


class CWVar(Learner):
    """CW-var, diagonal (Dredze 2008): min KL to N(w_t, Sigma_t) such that m >= phi v, phi = ndtri(confidence).

    v = x'Sigma x; alpha >= 0 solves 2 phi v alpha^2 + b alpha + (m - phi v) / v = 0, b = 1 + 2 phi m;
    w += alpha y Sigma x; Sigma^-1 += 2 alpha phi diag(x^2).
    The discriminant b^2 - 8 phi (m - phi v) equals (1 - 2 phi m)^2 + 8 phi^2 v, which does not cancel, and neither
    does alpha = 2 (phi - m / v) / (b + root) where b > 0.
    A row counts as zero where v vanishes; v overflows where the entries of x exceed 1e154.
    Huge and tiny rows together may make a precision overflow: as inf, it leaves its weight where it is.
    """

    def __init__(self, d, *, confidence=0.9, variance=1.0):
        super().__init__(d)
        self.phi = ndtri(confidence)
        self.precision = np.full(d, 1.0 / variance)

    @property
    def variance(self):
        return 1.0 / self.precision

    def learn(self, x, y):
        self.t += 1
        phi = self.phi
        m = _margin(self.score(x), y)
        v = np.sum(x * x / self.precision)
        if v == 0 or m >= phi * v:
            return
        b = 1.0 + 2.0 * phi * m
        root = np.hypot(1.0 - 2.0 * phi * m, phi * np.sqrt(8.0 * v))
        alpha = 2.0 * (phi - m / v) / (b + root) if b > 0 else (root - b) / (4.0 * phi * v)
        self.w = self.w + alpha * y * (x / self.precision)
        with np.errstate(over="ignore"):
            self.precision = self.precision + 2.0 * alpha * phi * x * x


class CWStdev(Learner):
    """CW-stdev (Crammer 2008): min KL to N(w_t, Sigma_t) such that m >= phi sqrt(v), the diagonal of Sigma kept.

    psi = 1 + phi^2/2, zeta = 1 + phi^2; alpha = max(0, (-m psi + sqrt(m^2 phi^4/4 + v phi^2 zeta)) / (v zeta));
    u = (-alpha v phi + sqrt(alpha^2 v^2 phi^2 + 4 v))^2 / 4; beta = alpha phi / (sqrt(u) + v alpha phi);
    w += alpha y Sigma x; Sigma -= beta Sigma x x' Sigma.

    Computed in units of sqrt(v), with s = m / sqrt(v), a = alpha sqrt(v), q = sqrt(u / v): no product of v with
    itself, no difference of near numbers. n = v + 1/(2 C) of SCW-II enters as ratio = v / n, which is 1 here:
    a solves a^2 (1 + phi^2 ratio) / ratio^2 + a s (2 + phi^2 ratio) / ratio + s^2 - phi^2 = 0.
    A row counts as zero where v vanishes; v overflows where the entries of x exceed 1e154.
    """

    def __init__(self, d, *, confidence=0.9, variance=1.0):
        super().__init__(d)
        self.phi = ndtri(confidence)
        self.variance = np.full(d, float(variance))

    def ratio(self, v):
        return 1.0

    def clip(self, a, v):
        return a

    def learn(self, x, y):
        self.t += 1
        phi = self.phi
        m = _margin(self.score(x), y)
        v = np.sum(self.variance * x * x)
        if v == 0:
            return
        s = m / np.sqrt(v)
        if s >= phi:
            return
        ratio = self.ratio(v)
        zeta = 1.0 + phi**2 * ratio
        linear = s * (2.0 + phi**2 * ratio)
        root = phi * np.hypot(phi * s * ratio, 2.0 * np.sqrt(zeta))
        if s > 0:
            a = 2.0 * (phi - s) * (phi + s) * ratio / (linear + root)
        else:
            a = (root - linear) * ratio / (2.0 * zeta)
        a = self.clip(a, v)
        q = 2.0 / (a * phi + np.hypot(a * phi, 2.0))
        share = self.variance * x * x / v
        self.w = self.w + a * y * (self.variance * x / np.sqrt(v))
        # 1 - beta v share_j with beta v = a phi / (q + a phi): positive whatever the rounding
        self.variance = self.variance * (q + a * phi * np.maximum(0.0, 1.0 - share)) / (q + a * phi)


class SCW1(CWStdev):
    """SCW-I (Wang 2012): min KL + C max(0, phi sqrt(v) - m): CW-stdev with alpha clipped at C."""

    def __init__(self, d, *, confidence=0.9, C=1.0, variance=1.0):
        super().__init__(d, confidence=confidence, variance=variance)
        self.C = C

    def clip(self, a, v):
        return min(a, self.C * np.sqrt(v))


class SCW2(CWStdev):
    """SCW-II (Wang 2012): min KL + C max(0, phi sqrt(v) - m)^2.

    n = v + 1/(2 C), gamma = phi sqrt(phi^2 m^2 v^2 + 4 n v (n + v phi^2));
    alpha = max(0, (-(2 m n + phi^2 m v) + gamma) / (2 (n^2 + n v phi^2))); u and beta as in CW-stdev.
    """

    def __init__(self, d, *, confidence=0.9, C=1.0, variance=1.0):
        super().__init__(d, confidence=confidence, variance=variance)
        self.C = C

    def ratio(self, v):
        return v / (v + 1.0 / (2.0 * self.C))


class AROW(Learner):
    """AROW (Crammer 2009): min KL + max(0, 1 - m)^2 / (2 r) + x'Sigma x / (2 r), the diagonal of Sigma kept.

    m < 1: beta = 1 / (v + r), alpha = (1 - m) beta; w += alpha y Sigma x; Sigma -= beta Sigma x x' Sigma.
    A row counts as zero where v vanishes; v overflows where the entries of x exceed 1e154.
    """

    def __init__(self, d, *, r=1.0, variance=1.0):
        super().__init__(d)
        self.r = r
        self.variance = np.full(d, float(variance))

    def learn(self, x, y):
        self.t += 1
        loss, _ = hinge(self.score(x), y)
        v = np.sum(self.variance * x * x)
        if v == 0 or loss == 0:
            return
        self.w = self.w + loss / (v + self.r) * y * (self.variance * x)
        # 1 - beta Sigma_j x_j^2 with the difference taken from v first: positive whatever the rounding
        rest = np.maximum(0.0, v - self.variance * x * x)
        self.variance = self.variance * ((self.r + rest) / (v + self.r))


# First order: the gradient of a loss


class GradientLearner(Learner):
    """Round t's step eta_t (step, or step / sqrt(t) with decay "sqrt") and gradient g_t = loss'(<w, x>, y) x."""

    def __init__(self, d, *, step=1.0, decay="sqrt", loss="hinge", epsilon=0.1):
        super().__init__(d)
        if decay not in ("sqrt", "constant"):
            raise ValueError(f"decay must be sqrt or constant, not {decay!r}")
        self.step = step
        self.decay = decay
        self.loss = LOSSES[loss]
        self.epsilon = epsilon

    def eta(self):
        return self.step / np.sqrt(self.t) if self.decay == "sqrt" else self.step

    def gradient(self, x, y):
        return self.loss(self.score(x), y, self.epsilon)[1] * x


class OGD(GradientLearner):
    """w -= eta_t g_t, then the projection on ||w|| <= radius where one is given (Zinkevich 2003)."""

    def __init__(self, d, *, step=1.0, decay="sqrt", radius=None, loss="hinge", epsilon=0.1):
        super().__init__(d, step=step, decay=decay, loss=loss, epsilon=epsilon)
        self.radius = radius

    def learn(self, x, y):
        self.t += 1
        self.w = self.w - self.eta() * self.gradient(x, y)
        if self.radius is not None:
            self.w = project(self.w, self.radius)


class OMD(GradientLearner):
    """theta -= g_t; w = gradient of R* at theta (Shalev 2012, section 2.7), eta = step, constant.

    euclidean  R = ||w||^2 / (2 eta): w = eta theta.
    entropic   EG+- with radius U (Kivinen 1997): w_j = U (e^(eta theta_j) - e^(-eta theta_j)) / Z with
               Z = sum_k (e^(eta theta_k) + e^(-eta theta_k)); shifted by the largest exponent.
    p-norm     R = ||w||_q^2 / (2 eta), 1/p + 1/q = 1, p >= 2 (Gentile 2003):
               w_j = eta sign(theta_j) |theta_j|^(p-1) / ||theta||_p^(p-2); scaled by the largest |theta_j|; 0 at 0.
    """

    def __init__(self, d, *, mirror="euclidean", step=1.0, radius=1.0, p=2.0, loss="hinge", epsilon=0.1):
        super().__init__(d, step=step, decay="constant", loss=loss, epsilon=epsilon)
        if mirror not in ("euclidean", "entropic", "p-norm"):
            raise ValueError(f"no mirror map {mirror!r}")
        if p < 2:
            raise ValueError(f"p must be at least 2, not {p!r}")
        self.mirror = mirror
        self.radius = radius
        self.p = p
        self.theta = np.zeros(d)

    def from_mirror(self, theta):
        if self.mirror == "euclidean":
            return self.step * theta
        if self.mirror == "entropic":
            a = np.abs(self.step * theta)
            up = np.exp(a - np.max(a))
            total = np.sum(up * (1.0 + np.exp(-2.0 * a)))
            # e^a - e^-a = e^a (1 - e^-2a), by expm1 or small theta would cancel
            return self.radius * np.sign(theta) * up * -np.expm1(-2.0 * a) / total
        largest = np.max(np.abs(theta))
        if largest == 0:
            return np.zeros(self.d)
        r = np.abs(theta) / largest
        p_norm = np.sum(r**self.p) ** (1.0 / self.p)
        return self.step * largest * np.sign(theta) * r ** (self.p - 1.0) / p_norm ** (self.p - 2.0)

    def learn(self, x, y):
        self.t += 1
        self.theta = self.theta - self.gradient(x, y)
        self.w = self.from_mirror(self.theta)


class FoReL(GradientLearner):
    """Linearised: w = argmin <w, sum_s g_s> + ||w||^2 / (2 eta) = -eta sum_s g_s (Shalev 2012, section 2.3)."""

    def __init__(self, d, *, step=1.0, loss="hinge", epsilon=0.1):
        super().__init__(d, step=step, decay="constant", loss=loss, epsilon=epsilon)
        self.total = np.zeros(d)

    def learn(self, x, y):
        self.t += 1
        self.total = self.total + self.gradient(x, y)
        self.w = -self.step * self.total


class Subgradient(GradientLearner):
    """w -= eta_t (g_t + l1 sign(w)), sign(0) = 0: the subgradient method on loss + l1 ||w||_1 (Oiwa 2011, eq. 6)."""

    def __init__(self, d, *, l1=0.0, step=1.0, decay="sqrt", loss="hinge", epsilon=0.1):
        super().__init__(d, step=step, decay=decay, loss=loss, epsilon=epsilon)
        self.l1 = l1

    def learn(self, x, y):
        self.t += 1
        self.w = self.w - self.eta() * (self.gradient(x, y) + self.l1 * np.sign(self.w))


class FOBOS(GradientLearner):
    """Half step w - eta_t g_t, then the prox of eta_t (l1 |w| + l2 w^2 / 2) (Duchi 2009):

    soft-threshold by eta_t l1, then divide by 1 + eta_t l2; with half_steps "next" both by eta_{t+1}.  Or that of
    group ||w||_2: w max(0, 1 - eta_t group / ||w||).
    """

    def __init__(self, d, *, l1=0.0, l2=0.0, step=1.0, decay="sqrt", loss="hinge", epsilon=0.1, half_steps="same",
                 regulariser="l1", group=0.0):  # fmt: skip
        super().__init__(d, step=step, decay=decay, loss=loss, epsilon=epsilon)
        self.half_steps = half_steps
        self.group = group
        self.l1 = l1
        self.l2 = l2

    def learn(self, x, y):
        self.t += 1
        eta = self.eta()
        half = self.w - eta * self.gradient(x, y)
        if self.half_steps == "next" and self.decay == "sqrt":
            eta = self.step / np.sqrt(self.t + 1)
        self.w = soft_threshold(half, eta * self.l1) / (1.0 + eta * self.l2)
        if self.group:  # the prox of eta group ||w||
            length = norm(self.w)
            self.w = self.w * max(0.0, 1.0 - eta * self.group / length) if length > 0.0 else self.w


class HFFOBOS(GradientLearner):
    """HF-FOBOS (Oiwa 2011, eq. 12-13): FOBOS whose threshold of feature j is eta_t l1 h_j.

    h_j = (sum_{s<=t} |eta_s g_s,j|^p)^(1/p), the largest |eta_s g_s,j| for p = inf, round t's gradient included;
    capped at V = cap where p <= 2. ``h`` is kept without the cap, as the norm of (h, |eta_t g_t|).
    """

    def __init__(self, d, *, l1=0.0, p=2, cap=None, step=1.0, decay="sqrt", loss="hinge", epsilon=0.1):
        super().__init__(d, step=step, decay=decay, loss=loss, epsilon=epsilon)
        if not p >= 1:
            raise ValueError(f"p must be 1 or more, not {p!r}")
        self.l1 = l1
        self.p = p
        self.cap = cap
        self.h = np.zeros(d)

    def learn(self, x, y):
        self.t += 1
        eta = self.eta()
        move = eta * self.gradient(x, y)
        self.h = np.array([_p_norm_of_two(*pair, self.p) for pair in zip(self.h, np.abs(move), strict=True)])
        h = self.h if self.cap is None or self.p > 2 else np.minimum(self.h, self.cap)
        self.w = soft_threshold(self.w - move, eta * self.l1 * h)


def _p_norm_of_two(a, b, p):
    """(a^p + b^p)^(1/p) of a, b >= 0, scaled by the larger so that no power overflows."""
    largest = max(a, b)
    if p == np.inf or largest == 0:
        return largest
    return largest * ((a / largest) ** p + (b / largest) ** p) ** (1.0 / p)


class AdaGradRDA(GradientLearner):
    """u = sum g, H_j = delta + sqrt(sum g_j^2); w_j = -sign(u_j) (eta t / H_j) max(0, |u_j| / t - l1) (Duchi 2011).

    A feature with H_j = 0 (delta = 0, no gradient yet) has w_j = 0. The root of the sum is kept by hypot, so that
    no square overflows.
    """

    def __init__(self, d, *, l1=0.0, step=1.0, delta=1.0, loss="hinge", epsilon=0.1):
        super().__init__(d, step=step, decay="constant", loss=loss, epsilon=epsilon)
        self.l1 = l1
        self.delta = delta
        self.u = np.zeros(d)
        self.root = np.zeros(d)

    def learn(self, x, y):
        self.t += 1
        g = self.gradient(x, y)
        self.u = self.u + g
        self.root = np.hypot(self.root, g)
        h = self.delta + self.root
        excess = np.maximum(0.0, np.abs(self.u) - self.t * self.l1)
        self.w = -np.sign(self.u) * self.step * _ratio(excess, h)


class AdaGradRDASquares(GradientLearner):
    """AdaGrad-RDA with proximal term sum_j h_j w_j^2 / (2 t), h_j = sum g_j^2, without step and delta:

    w_j = -sign(u_j) (t / h_j) max(0, |u_j| / t - l1); 0 where h_j = 0. A square overflows where |g_j| exceeds 1e154,
    and vanishes (w_j = 0) where it is below 1e-162.
    """

    def __init__(self, d, *, l1=0.0, loss="hinge", epsilon=0.1):
        super().__init__(d, decay="constant", loss=loss, epsilon=epsilon)
        self.l1 = l1
        self.u = np.zeros(d)
        self.h = np.zeros(d)

    def learn(self, x, y):
        self.t += 1
        g = self.gradient(x, y)
        self.u = self.u + g
        self.h = self.h + g * g
        excess = np.maximum(0.0, np.abs(self.u) - self.t * self.l1)
        self.w = -np.sign(self.u) * _ratio(excess, self.h)


class AdaGradFOBOS(GradientLearner):
    """H_j = delta + sqrt(sum g_j^2) with round t's g; w_j -= eta g_j / H_j; soft-threshold by eta l1 / H_j.

    (Duchi 2011.) A feature with H_j = 0 has w_j = 0 and keeps it.
    """

    def __init__(self, d, *, l1=0.0, step=1.0, delta=1.0, loss="hinge", epsilon=0.1):
        super().__init__(d, step=step, decay="constant", loss=loss, epsilon=epsilon)
        self.l1 = l1
        self.delta = delta
        self.root = np.zeros(d)

    def learn(self, x, y):
        self.t += 1
        g = self.gradient(x, y)
        self.root = np.hypot(self.root, g)
        h = self.delta + self.root
        half = self.w - self.step * _ratio(g, h)
        self.w = soft_threshold(half, self.step * _ratio(np.full(self.d, self.l1), h))


def _ratio(a, h):
    """a / h, and 0 where h = 0."""
    return np.divide(a, h, out=np.zeros(len(a)), where=h > 0)


class NAG(GradientLearner):
    """Normalised adaptive gradient (Ross 2013, Alg. 2) with importance-aware steps (Karampatziakis 2011).

    s_j the largest |x_j| so far, w_j shrunk by old s_j / new s_j when it grows; N += h sum (x_j / s_j)^2, t += h,
    G_j += h g_j^2, h the importance; w moves along y rate x with rate_j = step sqrt(t / N) / (s_j sqrt(G_j)) as the
    differential equation dm / dh = -q loss'(m), q = sum rate_j x_j^2, takes the margin m.
    """

    def __init__(self, d, *, step=0.5, loss="hinge", epsilon=0.1):
        super().__init__(d, step=step, decay="constant", loss=loss, epsilon=epsilon)
        self.name = loss
        self.scale, self.G = np.zeros(d), np.zeros(d)
        self.N = self.weight = 0.0

    def rescaled(self, x):
        """(w, s) as they are before x is predicted."""
        grown = np.maximum(self.scale, np.abs(x))
        return self.w * np.where(grown > self.scale, _ratio(self.scale, grown), 1.0), grown

    def score(self, x):
        return self.rescaled(x)[0] @ x

    def learn(self, x, y, h=1.0):
        self.t += 1
        self.w, self.scale = self.rescaled(x)
        z = self.w @ x
        self.weight += h
        self.N += h * np.sum(_ratio(x, self.scale) ** 2)
        g = self.loss(z, y, self.epsilon)[1] * x
        if not g.any():
            return
        self.G = self.G + h * g * g
        large = self.scale * np.sqrt(self.G) > 1e-305  # where it is smaller it counts as 0
        rate = np.zeros(self.d)
        rate[large] = self.step * np.sqrt(self.weight / self.N) / self.scale[large] / np.sqrt(self.G[large])
        q = np.sum(rate * x * x)
        if q > 0:
            if self.name in ("squared", "epsilon-insensitive", "absolute"):
                change = prediction_change(self.name, z, y, q, h, self.epsilon)
            else:
                change = importance_aware(self.name, y * z, q, h) * y
            self.w = self.w + change / q * rate * x


def prediction_change(loss, z, y, q, h, epsilon):
    """How far z moves by dz / dh = -q loss'(z) in time h, for a number y (Karampatziakis 2011, Table 1)."""
    if loss == "squared":
        return (y - z) * (1.0 - np.exp(-h * q))
    reach = abs(y - z) - (epsilon if loss == "epsilon-insensitive" else 0.0)
    return np.sign(y - z) * min(h * q, max(0.0, reach))


def importance_aware(loss, m, q, h):
    """How far the margin m rises by dm / dh = -q loss'(m) in time h (Karampatziakis 2011, Table 1)."""
    if loss == "hinge":
        return min(h * q, 1.0 - m)
    if loss == "logistic":  # m' + e^m' = m + e^m + h q

        def excess(rise):
            return rise + np.exp(m) * np.expm1(rise) - h * q

        high = h * q / (1.0 + np.exp(m))
        return high if excess(high) <= 0.0 else brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-15)
    return (1.0 - m) * (1.0 - np.exp(-(2.0 if loss == "squared-hinge" else 1.0) * h * q))


class FTRL(GradientLearner):
    """FTRL-Proximal (McMahan 2013, Alg. 1), written as the minimiser that it is: after round t

    w = argmin_w sum_s (<g_s, w> + sum_j sigma_s,j (w_j - w_s,j)^2 / 2) + l1 ||w||_1 + (beta / alpha + l2) ||w||^2 / 2
    with sum_{r <= s} sigma_r,j = sqrt(sum_{r <= s} g_r,j^2) / alpha.
    """

    def __init__(self, d, *, alpha=0.1, beta=1.0, l1=0.0, l2=0.0, loss="hinge", epsilon=0.1):
        super().__init__(d, decay="constant", loss=loss, epsilon=epsilon)
        self.alpha, self.l1, self.fixed = alpha, l1, beta / alpha + l2
        self.squares, self.linear, self.curvature = np.zeros(d), np.zeros(d), np.zeros(d)

    def learn(self, x, y, h=1.0):
        self.t += 1
        g = h * self.gradient(x, y)
        self.squares = self.squares + g * g
        curvature = np.sqrt(self.squares) / self.alpha
        self.linear = self.linear + g - (curvature - self.curvature) * self.w
        self.curvature = curvature
        self.w = -_ratio(soft_threshold(self.linear, self.l1), curvature + self.fixed)


class Coin(GradientLearner):
    """Coin betting by coordinates (Orabona, Pal 2016, Alg. 1; gradients by their size, Orabona, Tommasi 2017).

    Coordinate j bets the fraction beta = theta / (L + G) of its wealth, in units of 1 / L, where L = max |x_j| times
    the steepest loss' so far (at least 1), theta the sum of -g_j, G of |g_j|; it wins -g_j w_j. The wealth is
    ``wealth`` t / (entries of the first t rows) when its first gradient comes, and where nothing is left of it.
    """

    def __init__(self, d, *, wealth=16.0, loss="hinge", epsilon=0.1):
        super().__init__(d, decay="constant", loss=loss, epsilon=epsilon)
        self.start, self.entries, self.steepest = wealth, 0, 1.0
        self.wealth, self.scale = np.full(d, np.nan), np.zeros(d)
        self.theta, self.total = np.zeros(d), np.zeros(d)

    def learn(self, x, y, h=1.0):
        self.t += 1
        self.entries += np.count_nonzero(x)
        g = h * self.gradient(x, y)
        self.steepest = max(self.steepest, abs(h * self.loss(self.score(x), y, self.epsilon)[1]))
        moved = (g != 0) & (np.abs(x) >= 1e-290)  # bets on smaller ones would overflow
        if not moved.any():
            return
        g = np.where(moved, g, 0.0)
        first = self.start * self.t / self.entries
        self.wealth = np.where(moved & np.isnan(self.wealth), first, self.wealth)
        self.wealth = np.where(moved, self.wealth - g * self.w, self.wealth)
        self.wealth = np.where(self.wealth <= 0.0, first, self.wealth)
        self.scale = np.where(moved, np.maximum(self.scale, np.abs(x)), self.scale)
        self.theta, self.total = self.theta - g, self.total + np.abs(g)
        bound = np.where(moved, self.scale * self.steepest, 1.0)
        self.w = np.where(moved, self.theta / (bound + self.total) * (self.wealth / bound), self.w)


class Auto(Learner):
    """NAG on the squared hinge and Coin on the hinge see every row; w is that of the one with fewer mistakes (m <= 0)
    so far, NAG's where they are even; for numbers (``real``) both follow the squared loss, and squared errors count."""

    def __init__(self, d, *, real=False):
        super().__init__(d)
        self.real = real
        self.members = NAG(d, loss="squared" if real else "squared-hinge"), Coin(d, loss="squared" if real else "hinge")
        self.charged = [0.0, 0.0]

    @property
    def leader(self):
        return self.members[0 if self.charged[0] <= self.charged[1] else 1]

    @property
    def w(self):
        return self.leader.w

    @w.setter
    def w(self, zero):
        pass

    def score(self, x):
        return self.leader.score(x)

    def learn(self, x, y, h=1.0):
        self.t += 1
        for place, member in enumerate(self.members):
            z = member.score(x)
            self.charged[place] += h * ((z - y) ** 2 if self.real else _margin(z, y) <= 0.0)
            member.learn(x, y, h)


class Pegasos(Learner):
    """eta_t = 1 / (lam t): w = (1 - eta_t lam) w - eta_t derivative x; then ||w|| <= 1 / sqrt(lam) (Pegasos 2011).

    Of other losses than hinge the ball is that of lam/2 ||w||^2 <= loss at w = 0.  ``learn_batch``: a round of several
    rows, by the mean of their gradients at one w.
    """

    def __init__(self, d, *, lam, loss="hinge", unprojected=False, epsilon=0.1):
        super().__init__(d)
        self.lam = lam
        self.epsilon = epsilon
        self.loss = LOSSES[loss]
        self.radius = np.sqrt((1.0 if loss == "hinge" else 2.0 * self.loss(0.0, 1.0, epsilon)[0]) / lam)
        if unprojected:
            self.radius = np.inf

    def learn(self, x, y):
        self.learn_batch(x[None], [y])

    def learn_batch(self, X, y):
        self.t += 1
        slopes = [self.loss(x @ self.w, label, self.epsilon)[1] for x, label in zip(X, y, strict=True)]
        half = (self.t - 1) / self.t * self.w - np.mean(np.array(slopes)[:, None] * X, axis=0) / (self.lam * self.t)
        self.w = project(half, self.radius)


LEARNERS = {
    "perceptron": Perceptron,
    "perceptron-bias": PerceptronBias,
    "pa": PA,
    "pa1": PA1,
    "pa2": PA2,
    "mira": MIRA,
    "cw-var": CWVar,
    "cw-stdev": CWStdev,
    "arow": AROW,
    "scw1": SCW1,
    "scw2": SCW2,
    "ogd": OGD,
    "forel": FoReL,
    "omd": OMD,
    "subgradient": Subgradient,
    "fobos": FOBOS,
    "hf-fobos": HFFOBOS,
    "adagrad-rda": AdaGradRDA,
    "adagrad-rda-squares": AdaGradRDASquares,
    "adagrad-fobos": AdaGradFOBOS,
    "pegasos": Pegasos,
    "nag": NAG,
    "ftrl": FTRL,
    "coin": Coin,
    "auto": Auto,
}


# Running them, more than two classes, and labels that cost


def run(learner, X, y, epochs=1):
    """(scores before each round (T,), last w, mean over rounds of the w after it), T = epochs times the rows of X."""
    scores, total = [], np.zeros(learner.d)
    for _ in range(epochs):
        for row, label in zip(X, y, strict=True):
            scores.append(learner.score(row))
            learner.learn(row, label)
            total = total + learner.w
    return np.array(scores), learner.w, total / max(1, len(scores))


class MultiPrototype:
    """k classes by the multi-prototype rule of Crammer 2006, section 7, for any binary learner, made by make(k d).

    s is the wrong class of the highest score (ties: the smallest); the learner gets, with y = +1, the row of k d
    places that has x in the place of the class c of the row, -x in the place of s, and zeros: its score is
    score_c - score_s and its squared norm 2 ||x||^2. (A learner's own bias is no part of the scores of classes.)
    """

    def __init__(self, make, k, d):
        if k < 2:
            raise ValueError("two classes at least")
        self.k = k
        self.d = d
        self.learner = make(k * d)

    @property
    def W(self):
        return self.learner.w.reshape(self.k, self.d)

    def scores(self, x):
        """Of each class: the learner's of the row that has x in the place of the class."""
        virtual = np.zeros((self.k, self.k, self.d))
        virtual[np.arange(self.k), np.arange(self.k)] = x
        return np.array([self.learner.score(one.reshape(-1)) for one in virtual])

    def predict(self, x):
        return int(np.argmax(self.scores(x)))

    def learn(self, x, c):
        if not 0 <= c < self.k:
            raise ValueError(f"no class {c!r} among {self.k}")
        scores = self.scores(x)
        scores[c] = -np.inf
        s = int(np.argmax(scores))
        self._learn_pair(x, c, s)

    def learn_set(self, x, Y):
        """The same for a set Y of classes: r = argmin score in Y, s = argmax score outside (ties: the smaller); of an
        empty or complete set the learner gets a row of zeros.  Returns (score_r - score_s or None)."""
        scores = self.scores(x)
        inside = np.isin(np.arange(self.k), sorted(Y))
        if inside.all() or not inside.any():
            self.learner.learn(np.zeros(self.k * self.d), 1)
            return None
        r = int(np.argmin(np.where(inside, scores, np.inf)))
        s = int(np.argmax(np.where(inside, -np.inf, scores)))
        self._learn_pair(x, r, s)
        return scores[r] - scores[s]

    def costly(self, x, c, costs, max_loss):
        """(s, loss) of a row of class c where predicting r for it costs costs[c, r] (Crammer 2006, section 8): s the
        class predicted, or that of the largest score_s - score_c + sqrt(cost); (None, 0) where s is c."""
        scores = self.scores(x)
        roots = np.sqrt(costs[c])
        s = int(np.argmax(scores + roots if max_loss else scores))
        return (None, 0.0) if s == c else (s, scores[s] - scores[c] + roots[s])

    def _learn_pair(self, x, r, s):
        virtual = np.zeros((self.k, self.d))
        virtual[r] = x
        virtual[s] = -x
        self.learner.learn(virtual.reshape(-1), 1)


class OneVsRest:
    """k learners made by make(d), that of class c with y = +1 on the rows of c and -1 on the others."""

    def __init__(self, make, k, d):
        self.k = k
        self.d = d
        self.learners = [make(d) for _ in range(k)]

    @property
    def W(self):
        return np.array([learner.w for learner in self.learners])

    def scores(self, x):
        return np.array([learner.score(x) for learner in self.learners])

    def predict(self, x):
        return int(np.argmax(self.scores(x)))

    def learn(self, x, c):
        if not 0 <= c < self.k:
            raise ValueError(f"no class {c!r} among {self.k}")
        for place, learner in enumerate(self.learners):
            learner.learn(x, 1 if place == c else -1)


def query_probability(b, margin):
    """b / (b + |margin|): how likely the label of a row is asked for (Cesa 2006)."""
    return b / (b + abs(margin))
