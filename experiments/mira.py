"""The MIRA of Crammer and Singer (JMLR 2003) beside passive-aggressive learners on dense rows, without and with noise.

    python -m experiments.mira [NAME=TRAIN:TEST ...] [--noise 0,0.1,0.3] [--epochs 20] [--draws 3]

--noise: shares of the training labels that are drawn anew.  Beside the texts sets of scikit-learn, the 1,797 digits of
64 pixels among them, a third held out at random.  ``last`` and ``mean`` are the accuracy on held-out rows by the last
weights and by their mean after each row.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_files, load_wine

from blocksvm import fit
from experiments.runs import begin, listed, parser, row, table

BUILT_IN = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}
LEARNERS = ({"learner": "mira"}, {"learner": "pa"}, {"learner": "pa1", "C": 0.01})


def draws(texts: list[str], n: int):
    """(name, seed, X, y, X of the test rows, their y) for each of n draws of scikit-learn's sets, and for each text in
    n orders."""
    for name, seed in ((name, seed) for name in BUILT_IN for seed in range(n)):
        X, y = BUILT_IN[name](return_X_y=True)
        X /= X.max() if name == "digits" else np.abs(X).max(axis=0)
        order = np.random.default_rng(seed).permutation(len(y))
        rest, held_out = order[len(y) // 3 :], order[: len(y) // 3]
        yield name, seed, X[rest], y[rest], X[held_out], y[held_out]
    for text in texts:
        name, _, files = text.partition("=")
        X, y, X_test, y_test = load_svmlight_files(files.split(":"))
        classes = np.unique(y)
        for seed in range(n):
            order = np.random.default_rng(seed).permutation(len(y))
            rows = X[order].toarray(), np.searchsorted(classes, y[order])
            yield name, seed, *rows, X_test.toarray(), np.searchsorted(classes, y_test)


def noisy(y: np.ndarray, share: float, seed: int) -> np.ndarray:
    """A share of the labels drawn anew, each class as likely."""
    rng, y = np.random.default_rng([seed, 9]), y.copy()
    drawn = rng.permutation(len(y))[: round(share * len(y))]
    y[drawn] = rng.integers(0, y.max() + 1, len(drawn))
    return y


def main() -> None:
    p = parser(__doc__)
    p.add_argument("texts", nargs="*", metavar="NAME=TRAIN:TEST")
    p.add_argument("--noise", type=listed, default=["0", "0.1", "0.3"])
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--draws", type=int, default=3)
    options = p.parse_args()
    begin()
    every = list(draws(options.texts, options.draws))
    for name in dict.fromkeys(one[0] for one in every):
        for noise in map(float, options.noise):
            table(
                f"{name}, {noise:.0%} of the labels drawn anew, {options.epochs} epochs", "update", "C", "last", "mean"
            )
            for settings in LEARNERS:
                found = []
                for _, seed, X, y, X_test, y_test in (one for one in every if one[0] == name):
                    given = settings | {"max_outer": options.epochs, "seed": seed}
                    models = [
                        fit(X, noisy(y, noise, seed), average=average, **given).model for average in (False, True)
                    ]
                    found.append([100.0 * np.mean(model.predict(X_test) == y_test) for model in models])
                means = (f"{mean:.1f}" for mean in np.mean(found, axis=0))
                row(f"`{settings['learner']}`", settings.get("C", ""), *means)


if __name__ == "__main__":
    main()
