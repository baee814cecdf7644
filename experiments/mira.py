"""Why the MIRA of Crammer and Singer (JMLR 2003) is behind passive-aggressive learners where rows are dense: updates
of several classes in kernel form, which differ in what they minimise, in the margin, and in how many classes they hold
off.

    python -m experiments.mira [NAME=TRAIN:TEST ...] [--noise 0,0.2] [--learners-only] [--epochs 20] [--draws 3]
        [--json FILE]

--noise: shares of the training labels that are drawn anew.  Beside the texts sets of scikit-learn, the 1,797 digits
of 64 pixels among them, a third held out at random.  A model is sum_i a_i K(x_i, .) with a_i (k,) a number for each
class; ``last`` and ``mean`` are its accuracy on held-out rows by the last a and by the mean after each row, ``errors``
the wrong predictions of the last epoch.  The first lines are the package's own learners.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_files, load_wine

from blocksvm import fit
from blocksvm.kernels.crammer_singer_loops import best_row
from blocksvm.structured.kernels.multipliers import best_multipliers
from experiments.measuring import Tables, listed, parser

BUILT_IN = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}
KERNELS = {
    "linear": lambda G, p, q: G,
    "polynomial, degree 3": lambda G, p, q: (1.0 + G) ** 3,
    "rbf": lambda G, p, q: np.exp(-(p[:, None] + q[None] - 2.0 * G) / p.mean()),
}
# name: (what is least, margin, most classes that are held off)
RULES = {
    "perceptron": ("step", 0.0, 1),
    "least norm, margin 0 (mira)": ("norm", 0.0, None),
    "least norm, margin 1": ("norm", 1.0, None),
    "least change, margin 1, k = 1 (pa)": ("change", 1.0, 1),
    "least change, margin 1, k = 3": ("change", 1.0, 3),
    "least change, margin 1, all classes": ("change", 1.0, None),
}


@dataclass
class Rows:
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def draws(built_in: list[str], texts: list[str], n: int):
    """(name, seed, Rows) for each of n draws of scikit-learn's sets, and for each text in n orders."""
    for name, seed in ((name, seed) for name in built_in for seed in range(n)):
        X, y = BUILT_IN[name](return_X_y=True)
        X /= X.max() if name == "digits" else np.abs(X).max(axis=0)
        order = np.random.default_rng(seed).permutation(len(y))
        rest, held_out = order[len(y) // 3 :], order[: len(y) // 3]
        yield name, seed, Rows(X[rest], y[rest], X[held_out], y[held_out])
    for text in texts:
        name, _, files = text.partition("=")
        X, y, X_test, y_test = load_svmlight_files(files.split(":"))
        classes = np.unique(y)
        for seed in range(n):
            order = np.random.default_rng(seed).permutation(len(y))
            yield name, seed, Rows(X[order].toarray(), np.searchsorted(classes, y[order]), X_test.toarray(),
                                   np.searchsorted(classes, y_test))  # fmt: skip


def noisy(rows: Rows, share: float, seed: int) -> Rows:
    """A share of the training labels drawn anew, each class as likely."""
    rng, y = np.random.default_rng([seed, 9]), rows.y.copy()
    drawn = rng.permutation(len(y))[: round(share * len(y))]
    y[drawn] = rng.integers(0, y.max() + 1, len(drawn))
    return replace(rows, y=y)


def step_of(rule: tuple, scores: np.ndarray, right: int, q: float, C: float, first: bool) -> np.ndarray | None:
    """What an update adds to a_i (k,); None for nothing.  q = K(x_i, x_i)."""
    what, margin, most = rule
    k = len(scores)
    leads = scores[right] - scores
    leads[right] = np.inf
    start = what == "norm" and first and margin == 0.0  # from 0, of the least norm, nothing would move
    tie = what == "step" and leads.min() == 0.0
    if leads.min() >= margin and not start and not tie:
        return None
    step = np.zeros(k)
    if start:
        step[:] = -1.0 / (k - 1.0)
        step[right] = 1.0
    elif what == "norm":
        shifted = scores.copy()
        shifted[right] -= margin
        best_row(shifted, np.zeros(k), right, 1.0, q, np.empty(k), step)
    else:
        others = np.argsort(leads, kind="stable")[: k - 1 if most is None else most]
        multipliers = np.ones(1)
        if what == "change":
            gram = q * (1.0 + np.eye(len(others)))
            multipliers = np.empty(len(others))
            best_multipliers(gram, margin - leads[others], np.arange(len(others)), C, 1e-9, 10_000, multipliers)
        step[others] = -multipliers
        step[right] = multipliers.sum()
    return step


def learned(rows: Rows, kernel, rule: tuple, C: float, epochs: int, seed: int) -> tuple[float, float, float]:
    """(errors of the last epoch, accuracy by the last a, by the mean)"""
    p, q = (rows.X**2).sum(axis=1), (rows.X_test**2).sum(axis=1)
    K, K_test = kernel(rows.X @ rows.X.T, p, p), kernel(rows.X_test @ rows.X.T, q, p)
    n, k = len(rows.y), int(rows.y.max()) + 1
    a, late, scores = np.zeros((n, k)), np.zeros((n, k)), np.zeros((n, k))
    rng, steps, errors = np.random.default_rng(seed), 0, 0
    for _ in range(epochs):
        errors = 0
        for i in rng.permutation(n):
            right = int(rows.y[i])
            errors += scores[i, right] <= np.delete(scores[i], right).max()
            step = step_of(rule, scores[i], right, K[i, i], C, not a.any())
            if step is not None:
                a[i] += step
                late[i] += steps * step
                scores += K[i][:, None] * step
            steps += 1
    accuracies = (100.0 * np.mean((K_test @ of).argmax(axis=1) == rows.y_test) for of in (a, a - late / steps))
    return errors, *accuracies


def main() -> None:
    p = parser(__doc__)
    p.add_argument("texts", nargs="*", metavar="NAME=TRAIN:TEST")
    p.add_argument("--built-in", type=listed, default=["digits"], help=f"of scikit-learn's sets: {', '.join(BUILT_IN)}")
    p.add_argument("--noise", type=lambda text: list(map(float, listed(text))), default=[0.0])
    p.add_argument("--learners-only", action="store_true", help="the package's own learners, without the kernels")
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--draws", type=int, default=3)
    options = p.parse_args()
    tables = Tables(options)
    every = list(draws(options.built_in, options.texts, options.draws))
    names = dict.fromkeys(name for name, _, _ in every)
    for name, noise in ((name, noise) for name in names for noise in options.noise):
        sets = [(seed, noisy(rows, noise, seed)) for other, seed, rows in every if other == name]
        tables.begin(
            f"{name}, {noise:.0%} of the labels drawn anew, {options.epochs} epochs",
            "kernel",
            "update",
            "C",
            "errors",
            "last",
            "mean",
        )
        for learner, more in (("mira", {}), ("pa", {}), ("pa1", {"C": 0.01})):
            found = []
            for seed, rows in sets:
                given = {"learner": learner, **more, "max_outer": options.epochs, "seed": seed}
                models = [fit(rows.X, rows.y, average=average, **given).model for average in (False, True)]
                found.append([100.0 * np.mean(model.predict(rows.X_test) == rows.y_test) for model in models])
            tables.row("linear", f"`{learner}`", more.get("C", ""), "", *(f"{x:.1f}" for x in np.mean(found, axis=0)))
        for kernel, rule in ((kernel, rule) for kernel in KERNELS for rule in RULES if not options.learners_only):
            for C in (np.inf, 0.01) if RULES[rule][0] == "change" else (np.inf,):
                found = [learned(rows, KERNELS[kernel], RULES[rule], C, options.epochs, seed) for seed, rows in sets]
                errors, last, mean = np.mean(found, axis=0)
                tables.row(kernel, rule, "" if C == np.inf else C, f"{errors:.0f}", f"{last:.1f}", f"{mean:.1f}")
    tables.end()


if __name__ == "__main__":
    main()
