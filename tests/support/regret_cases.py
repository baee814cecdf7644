"""Tests of regret: cases, rows made to meet or miss assumptions, every bound from dense weights of each round."""

import math

import numpy as np
import scipy.sparse
from scipy.optimize import brentq
from scipy.special import logsumexp
from support.plain_learners import LEARNERS, LOSSES, plain_runner

from blocksvm.sources.matrix import Matrix
from blocksvm.theory import report
from blocksvm.theory.bounds import bounds_of
from blocksvm.theory.comparators import FixedWeights, measured
from blocksvm.theory.rows import ReplayRows, log_spaced
from blocksvm.theory.run import Run, replay

CASES = [(name, case) for name, cases in {
    "perceptron": [{}], "perceptron-bias": [{}], "pa": [{}], "pa1": [{"C": 0.05}], "pa2": [{"C": 0.05}],
    "ogd": [{"decay": "constant", "step": 0.1}, {"decay": "constant", "step": 0.3, "radius": 0.7}, {"radius": 0.7},
            {"radius": 2.0, "loss": "logistic", "step": 0.3}, {"decay": "constant", "step": 0.02, "loss": "squared"}],
    "forel": [{"step": 0.2}, {"step": 0.01, "loss": "squared-hinge"},
              {"step": 0.1, "loss": "epsilon-insensitive", "epsilon": 0.2}],
    "omd": [{"step": 0.2}, {"mirror": "entropic", "step": 0.1, "radius": 3.0},
            {"mirror": "entropic", "step": 1.0, "radius": 1.0, "loss": "logistic"},
            {"mirror": "p-norm", "p": 5.0, "step": 0.05, "loss": "logistic"}],
    "pegasos": [{"lam": 0.02}, {"lam": 0.05, "unprojected": True},
                {"lam": 0.1, "loss": "logistic", "unprojected": True},
                {"lam": 0.2, "loss": "epsilon-insensitive", "epsilon": 0.3},
                {"lam": 0.1, "loss": "squared-hinge", "unprojected": True}],
    "subgradient": [{"l1": 0.02, "step": 0.3}, {"l1": 0.2, "step": 0.1, "loss": "logistic", "decay": "constant"}],
    "fobos": [{"l1": 0.01}, {"l1": 0.2, "step": 0.3, "loss": "logistic"}, {"regulariser": "group", "group": 0.2},
              {"regulariser": "group", "group": 0.02, "step": 0.3, "loss": "logistic"},
              {"l1": 0.05, "half_steps": "next"}, {"l1": 0.1, "step": 0.2, "decay": "constant"}],
    "adagrad-fobos": [{"l1": 0.02, "step": 0.3}, {"l1": 0.0, "delta": 0.0, "loss": "logistic"}],
    "adagrad-rda": [{"l1": 0.03, "step": 0.5, "delta": 8.0}, {"l1": 0.1, "delta": 0.01, "loss": "logistic"}],
    "adagrad-rda-squares": [{"l1": 0.02}, {"l1": 0.1, "loss": "logistic"}],
    "hf-fobos": [{"l1": 0.02}, {"l1": 0.2, "p": 1.0, "cap": 0.5}, {"l1": 0.1, "p": math.inf},
                 {"l1": 0.1, "p": 2.5, "step": 0.5}],
}.items() for case in cases]  # fmt: skip
ids = [f"{name}-{'-'.join(f'{k}={v}' for k, v in case.items())}" for name, case in CASES]


def sample(n=80, d=6, seed=0, noise=0.0, unit=False, zeros=0):
    """(X dense, y of +-1, the plane that the labels came from before the noise)."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.6)
    X[np.arange(n), rng.integers(0, d, n)] += 1.0
    if unit:
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    plane = rng.standard_normal(d)
    y = np.where(X @ plane > 0.0, 1.0, -1.0)
    y[rng.random(n) < noise] *= -1.0
    y[:2] = 1.0, -1.0
    X[:2] = np.where((X[:2] @ plane * y[:2])[:, None] > 0.0, X[:2], -X[:2])
    if zeros:
        X[rng.choice(np.arange(2, n), zeros, replace=False)] = 0.0
    return X, y, plane


def replayed(X, y, name, case, times=None) -> Run:
    source = Matrix(scipy.sparse.csr_matrix(X), y)
    known = {"max_norm": source.max_norm, "n_features": float(source.n_features)}
    runner = plain_runner(name, case, known)
    run = Run(runner).begin(ReplayRows(source), log_spaced(len(y)) if times is None else times)
    return replay(run, lambda text: None)


def compared(run: Run, *vectors) -> list:
    """Comparators of dense weights, and of these scaled, as a report has them."""
    return [u for w in (np.zeros(run.d), *vectors) for u in measured(run, FixedWeights("u", np.append(w, 0.0)))]


def judged(run, found):
    best = min(found, key=lambda u: u.judged[-1])
    return {bound.name: report.judge(bound, run, found, best) for bound in bounds_of(run)}


class Dense:
    """A run of the learner, everything written down: w_t before each round, scores, losses, gradients, tau."""

    def __init__(self, X, y, name, case):
        d = X.shape[1]
        own = dict(case)
        if name == "perceptron-bias":
            own["max_norm"] = np.linalg.norm(X, axis=1).max()
            X = np.hstack([X, np.full((len(y), 1), own["max_norm"])])
        learner = LEARNERS[name](d, **own)
        loss = LOSSES[case.get("loss", "hinge")]
        self.X, self.y = X, y
        self.W, self.z, self.loss, self.g, self.tau, self.H = [], [], [], [], [], []
        for x, label in zip(X, y, strict=True):
            w = np.append(learner.w, learner.b / own["max_norm"]) if name == "perceptron-bias" else learner.w
            value, slope = loss(w @ x, label, case.get("epsilon", 0.1))
            self.W.append(w)
            self.z.append(w @ x)
            self.loss.append(value)
            self.g.append(slope * x)
            learner.learn(x[:d], label)
            self.H.append(self.heights(case) if name == "hf-fobos" else None)
            after = np.append(learner.w, 0.0)[: len(x)]
            self.tau.append(np.linalg.norm(after - w) / np.linalg.norm(x) if x.any() else 0.0)
        self.learner = learner
        self.W, self.z, self.loss, self.g = (np.array(a) for a in (self.W, self.z, self.loss, self.g))
        self.tau = np.array(self.tau)
        self.hinge = np.maximum(0.0, 1.0 - y * self.z)

    def heights(self, case):
        number = np.arange(1.0, len(self.g) + 1.0)
        eta = case.get("step", 1.0) / (number if case.get("decay") != "constant" else number**0) ** 0.5
        h = np.linalg.norm(eta[:, None] * np.array(self.g), ord=case.get("p", 2.0), axis=0)
        return h if case.get("cap") is None else np.minimum(h, case["cap"])


def dense_bound(name, dense, u, case, t):
    """(left, right) of a bound after t rounds, of every quantity by its definition."""
    X, y, W, g, tau, hinge = (a[:t] for a in (dense.X, dense.y, dense.W, dense.g, dense.tau, dense.hinge))
    after = np.vstack([dense.W, np.append(dense.learner.w, 0.0)[: len(u)]])  # w_1, ..., and the last one
    loss, falls = LOSSES[case.get("loss", "hinge")], case.get("decay") != "constant"
    eta, l1, lam, C, p = (case.get(name, 1.0) for name in ("step", "l1", "lam", "C", "p"))
    U, delta, group = (case.get(name, 1.0) for name in ("radius", "delta", "group"))
    number, d = np.arange(1.0, t + 1.0), len(u)
    of_u = np.array([loss(u @ x, label, case.get("epsilon", 0.1))[0] for x, label in zip(X, y, strict=True)])
    regret = dense.loss[:t].sum() - of_u.sum()
    margins = y * (X @ u)
    star, M = np.maximum(0.0, 1.0 - margins), sum(y * dense.z[:t] <= 0)
    squares, x_squares = np.sum(g**2, axis=1), np.sum(X**2, axis=1)
    R, G, two = math.sqrt(x_squares.max()), math.sqrt(squares.max()), np.linalg.norm(u)
    length, from_zero = np.linalg.norm(W, axis=1), two**2 / (2 * eta)
    D = np.linalg.norm(np.maximum(after.max(axis=0) - u, u - after.min(axis=0)))
    assert D >= np.linalg.norm(after - u, axis=1).max()

    def with_r(weights):  # the regret of loss + sum_j weights_j |w_j|
        return regret + np.sum(np.abs(W) @ weights) - t * np.abs(u) @ weights

    def splitting(G, D=D):
        return 2 * G * D + (D**2 / (2 * eta) + 8 * G**2 * eta) * math.sqrt(t)

    def tuned(factor):
        L = math.sqrt(squares.sum() / t)
        B = eta * L * math.sqrt(factor * t)
        return B * L * math.sqrt(factor * t) if two <= B else math.inf

    def mirror(half):
        if case.get("mirror") == "entropic":
            return U * math.log(2 * d) / eta + half * eta * U * np.sum(np.abs(g).max(axis=1) ** 2)
        q = case.get("p", 2.0)
        gradients = sum(np.linalg.norm(one, ord=q) ** 2 for one in g)
        return np.linalg.norm(u, ord=q / (q - 1)) ** 2 / (2 * eta) + half * eta * (q - 1) * gradients

    if name.startswith("subgradient, "):
        s = np.sum((g + l1 * np.sign(W)) ** 2, axis=1)
        right = from_zero + eta / 2 * s.sum()
        if name == "subgradient, falling step":
            right = D**2 * math.sqrt(t) / (2 * eta) + eta / 2 * np.sum(s / np.sqrt(number))
        return with_r(np.full(d, l1)), right
    if name.startswith(("Pegasos, ", "strongly convex, ")):
        s, log = np.sum((lam * W + g) ** 2, axis=1), (1 + math.log(t)) / (2 * lam)
        right = {"Pegasos, projected": (math.sqrt(lam) + R) ** 2 * log, "Pegasos, no projection": 4 * R**2 * log,
                 "strongly convex, largest gradient": s.max() * log,
                 "strongly convex, steps 1 / (lambda t)": np.sum(s / (2 * lam * number))}  # fmt: skip
        return regret + lam / 2 * (np.sum(W**2) - t * two**2), right[name]
    if name.startswith("AdaGrad, "):
        roots = np.sqrt(np.sum(g**2, axis=0)).sum()
        reach = np.abs(u).max() if name == "AdaGrad, RDA form" else np.abs(after - u).max()
        return with_r(np.full(d, l1)), (delta * two**2 + reach**2 * roots) / (2 * eta) + eta * roots
    if name == "FOBOS, HF-FOBOS: inequality of each round":
        return 0.0, min(slack_of_round(dense, u, case, s) for s in range(t))
    if name == "FOBOS, sum of one-round inequalities":
        steps = eta / np.sqrt(number) if falls else np.full(t, eta)
        halves = eta / np.sqrt(number + 1) if falls and case.get("half_steps") == "next" else steps
        moved = np.abs(after[1 : t + 1]).sum(axis=1) - np.abs(u).sum()
        left = np.sum(2 * steps * (dense.loss[:t] - of_u) + 2 * halves * l1 * moved)
        return left, two**2 + 8 * max(G, l1 * math.sqrt(d)) ** 2 * np.sum(steps * halves)
    if name == "FOBOS, group ||w||":
        largest = np.linalg.norm(dense.W, axis=1).max()
        return regret + group * (length.sum() - t * two), splitting(max(G, group), largest + two)
    if name in ("FOBOS", "HF-FOBOS") or name.startswith("HF-FOBOS, "):
        weights = l1 * (np.ones(d) if name == "FOBOS" else dense.heights(case))
        Z = 1.0 if p == math.inf else np.sum(number ** (-p / 2)) ** (1 / p)
        heights = l1 * G * eta * Z * math.sqrt(d)
        if name == "HF-FOBOS, heights":
            return l1 * np.linalg.norm(dense.H[t - 1]), heights
        other = heights if name == "HF-FOBOS, largest heights" else np.linalg.norm(weights)
        return with_r(weights), splitting(max(G, other))
    falling = eta / 2 * np.sum(squares / np.sqrt(number)) + (2 * U) ** 2 * math.sqrt(t) / (2 * eta)
    lossy = np.sum(tau * (2 * hinge - tau * x_squares - 2 * star))
    with np.errstate(divide="ignore"):
        separable = (R / margins.min()) ** 2 * two**2
        biased = (2 * X[0, -1] * np.linalg.norm(u[:-1]) / margins.min()) ** 2
    return {
        "FoReL lemma, linearised losses": lambda: (np.sum(g * (W - u)), from_zero + np.sum(g * (W - after[1 : t + 1]))),
        "mirror descent, Bregman form": lambda: (np.sum(g * (W - u)), bregman(g, u, case)),
        "OGD, constant step": lambda: (regret, from_zero + eta / 2 * squares.sum()),
        "OGD, looser FoReL form": lambda: (regret, from_zero + eta * squares.sum()),
        "OGD, tuned: B L sqrt(t)": lambda: (regret, tuned(1)),
        "FoReL, tuned: B L sqrt(2 t)": lambda: (regret, tuned(2)),
        "OGD, falling step, projected": lambda: (regret, falling),
        "EG+-": lambda: (regret, mirror(0.5)),
        "p-norm": lambda: (regret, mirror(0.5)),
        "mirror descent in general": lambda: (regret, mirror(1.0)),
        "perceptron, hinge of u": lambda: (M - star.sum(), R * two * math.sqrt(M)),
        "perceptron, separable": lambda: (M, separable),
        "perceptron with bias": lambda: (M, biased),
        "PA, lemma": lambda: (lossy, two**2),
        "PA, separable": lambda: (np.sum(hinge**2), R**2 * two**2),
        "PA, rows of norm 1": lambda: (np.sum(hinge**2), (two + 2 * math.sqrt(np.sum(star**2))) ** 2),
        "PA-I": lambda: (M, max(R**2, 1 / C) * (two**2 + 2 * C * star.sum())),
        "PA-II": lambda: (np.sum(hinge**2), (R**2 + 1 / (2 * C)) * (two**2 + 2 * C * np.sum(star**2))),
    }[name]()


def slack_of_round(dense, u, case, s):
    """Right minus left side of the inequality of round s + 1 (Oiwa 2011, Lemma A.2.1), r as it is in the round."""
    falls = case.get("decay") != "constant"
    step = case.get("step", 1.0) / (math.sqrt(s + 1) if falls else 1.0)
    half = case.get("step", 1.0) / math.sqrt(s + 2) if falls and case.get("half_steps") == "next" else step
    before, after = dense.W[s], dense.W[s + 1] if s + 1 < len(dense.W) else dense.learner.w
    h = case["l1"] * (np.ones(len(u)) if dense.H[s] is None else dense.H[s])
    loss = LOSSES[case.get("loss", "hinge")](u @ dense.X[s], dense.y[s], case.get("epsilon", 0.1))[0]
    left = 2 * step * (dense.loss[s] - loss) + 2 * half * h @ (np.abs(after) - np.abs(u))
    G2 = max(np.sum(dense.g[s] ** 2), np.sum(h**2))
    return np.sum((before - u) ** 2) - np.sum((after - u) ** 2) + 8 * step * half * G2 - left


def bregman(g, u, case):
    """R(u) - R(w_1) + the divergences of R* one by one, each map by its definition; R(u) by the theta whose w is u."""
    eta, p, U = case.get("step", 1.0), case.get("p", 2.0), case.get("radius", 1.0)
    entropic = case.get("mirror") == "entropic"

    def dual(theta):
        if entropic:
            return U / eta * logsumexp(np.concatenate([eta * theta, -eta * theta]))
        return eta / 2 * np.linalg.norm(theta, ord=p) ** 2

    def weights(theta):
        if entropic:
            e = np.exp(eta * theta)
            return U * (e - 1 / e) / np.sum(e + 1 / e)
        length = np.linalg.norm(theta, ord=p)
        return eta * np.sign(theta) * np.abs(theta) ** (p - 1) / length ** (p - 2) if length > 0 else 0 * theta

    total, theta = 0.0, np.zeros(len(u))
    for one in g:
        total += dual(theta - one) - dual(theta) + weights(theta) @ one
        theta = theta - one
    if not entropic:
        return total + np.linalg.norm(u, ord=p / (p - 1)) ** 2 / (2 * eta)
    if np.abs(u).sum() > U:
        return math.inf

    def excess(Z):  # of Z against the sum of 2 cosh where sinh(eta theta_j) = Z u_j / (2 U)
        return np.sum(2 * np.hypot(1, Z * u / (2 * U))) - Z

    high = 1.0
    while excess(high) > 0:
        high *= 4.0
    theta = np.arcsinh(brentq(excess, 0.0, high, rtol=1e-14) * u / (2 * U)) / eta
    return total + theta @ u - dual(theta) + dual(0 * theta)
