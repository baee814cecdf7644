"""The MIRA of Crammer and Singer (JMLR 2003) beside passive-aggressive learners on dense rows, without and with noise.

    python -m experiments.mira NAME=TRAIN:TEST ... [--epochs 20] [--draws 3]

Beside the texts three sets of scikit-learn, a third held out at random.  A cell is the accuracy on held-out rows by the
last weights and by their mean after each row, where a share of the training labels is drawn anew.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_files, load_wine

from blocksvm import fit
from experiments.runs import begin, row, table

BUILT_IN = {"digits": load_digits, "wine": load_wine, "cancer": load_breast_cancer}
LEARNERS = ({"learner": "mira"}, {"learner": "pa"}, {"learner": "pa1", "C": 0.01})
NOISE = (0.0, 0.1, 0.3)


def drawn(name: str, files: str, seed: int):
    """(X, y, X of the test rows, their y): a draw of a set of scikit-learn, or a text in a random order."""
    if files:
        X, y, X_test, y_test = load_svmlight_files(files.split(":"))
        classes, order = np.unique(y), np.random.default_rng(seed).permutation(len(y))
        y, y_test = np.searchsorted(classes, y[order]), np.searchsorted(classes, y_test)
        return X[order].toarray(), y, X_test.toarray(), y_test
    X, y = BUILT_IN[name](return_X_y=True)
    X = X / (X.max() if name == "digits" else np.abs(X).max(axis=0))
    order = np.random.default_rng(seed).permutation(len(y))
    rest, held_out = order[len(y) // 3 :], order[: len(y) // 3]
    return X[rest], y[rest], X[held_out], y[held_out]


def noisy(y: np.ndarray, share: float, seed: int) -> np.ndarray:
    """A share of the labels drawn anew, each class as likely."""
    rng, y = np.random.default_rng([seed, 9]), y.copy()
    chosen = rng.permutation(len(y))[: round(share * len(y))]
    y[chosen] = rng.integers(0, y.max() + 1, len(chosen))
    return y


def main() -> None:
    options = begin(__doc__, "texts", epochs=20, draws=3)
    table(f"{options.epochs} epochs: last / mean", "data", "update", "C", *(f"{share:.0%} noise" for share in NOISE))
    for name, _, files in (one.partition("=") for one in (*BUILT_IN, *options.texts)):
        for settings in LEARNERS:
            cells = []
            for noise in NOISE:
                found = np.empty((options.draws, 2))
                for seed in range(options.draws):
                    X, y, X_test, y_test = drawn(name, files, seed)
                    for k, average in enumerate((False, True)):
                        given = settings | {"max_outer": options.epochs, "seed": seed, "average": average}
                        model = fit(X, noisy(y, noise, seed), **given).model
                        found[seed, k] = 100.0 * np.mean(model.predict(X_test) == y_test)
                cells.append(" / ".join(f"{mean:.1f}" for mean in found.mean(axis=0)))
            row(name, f"`{settings['learner']}`", settings.get("C", ""), *cells)


if __name__ == "__main__":
    main()
