"""Transfer: few labels of one domain, regularised towards a model of another (``--prior``).

    python -m experiments.transfer FIRST.svm SECOND.svm [--labels 10,20,...] [--draws 20] [-C 1]
    python -m experiments.transfer ROWS.svm --by FEATURE ...

Both texts number their features alike (experiments.make_data counts reviews); --by: the rows that have a feature are
one domain, those that do not the other.  In each direction a model of all rows of one domain, and so many labels of the
other, whose other rows are the test; rows are scaled to length 1.  Hinge loss; all machines have the same C.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse

from blocksvm import fit
from experiments.runs import begin, listed, parser, row, table

WAYS = ("its labels alone", "the other domain's model", "near that model (--prior)", "both domains' rows together")


def load(path: Path, n_features: int | None = None) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """(X of rows of length 1, y of +-1)."""
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path), n_features=n_features, zero_based=False)
    norms = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    X.data /= np.repeat(np.where(norms > 0.0, norms, 1.0), np.diff(X.indptr))
    return X, np.where(y == y.max(), 1.0, -1.0)


def parted(path: Path, feature: int) -> dict:
    """Two domains: the rows with and without a feature, numbered from 1."""
    X, y = load(path)
    has = X[:, feature - 1].toarray().ravel() != 0.0
    return {f"{path.stem} with {feature}": (X[has], y[has]), f"{path.stem} without": (X[~has], y[~has])}


def accuracies(other, target, n_labels: int, C: float, seed: int, model: Path, w: np.ndarray) -> list[float]:
    """Percentages by WAYS, of the rows of ``target`` without the n_labels that are learned from; other, target: (X, y);
    model: the file of that of all rows of ``other``, w (d,): its weights."""
    (X_other, y_other), (X, y) = other, target
    order = np.random.default_rng([seed, n_labels]).permutation(len(y))
    # as many of each class: with ten labels chance decides which else there are
    sides = [order[y[order] == side][: n_labels // 2] for side in (-1.0, 1.0)]
    known = np.concatenate(sides)
    test = np.setdiff1d(order, known)
    both = scipy.sparse.vstack([X_other, X[known]]).tocsr(), np.append(y_other, y[known])
    ways = (
        fit(X[known], y[known], C=C).model.weights,
        w,
        fit(X[known], y[known], C=C, prior=model).model.weights,
        fit(*both, C=C).model.weights,
    )
    return [100.0 * float(np.mean((X[test] @ one > 0.0) == (y[test] > 0.0))) for one in ways]


def main() -> None:
    p = parser(__doc__)
    p.add_argument("texts", nargs="+", type=Path, metavar="TEXT.svm")
    p.add_argument("--by", type=int, metavar="FEATURE", help="parts the rows of one text")
    p.add_argument("--labels", type=listed, default=("10", "20", "50", "100", "200", "500", "1000"))
    p.add_argument("--draws", type=int, default=20)
    p.add_argument("-C", type=float, default=1.0)
    options = p.parse_args()
    if options.by:
        domains = parted(options.texts[0], options.by)
    else:
        n_features = max(load(path)[0].shape[1] for path in options.texts)
        domains = {path.stem.rpartition("-")[2]: load(path, n_features) for path in options.texts}
    begin()
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as folder:
        for name, other_name in (tuple(domains), tuple(reversed(domains))):
            other, target, model = domains[other_name], domains[name], Path(folder, f"{other_name}.h5")
            fitted = fit(*other, C=options.C)
            fitted.save(model)
            table(f"{other_name} to {name}: test accuracy %, means of {options.draws} draws ± their deviation",
                  "labels", *WAYS)  # fmt: skip
            for n_labels in map(int, options.labels):
                found = np.array([
                    accuracies(other, target, n_labels, options.C, seed, model, fitted.model.weights)
                    for seed in range(options.draws)
                ])  # fmt: skip
                means, deviations = found.mean(axis=0), found.std(axis=0)
                cells = (f"{mean:.1f} ± {one:.1f}" for mean, one in zip(means, deviations, strict=True))
                row(n_labels, *cells)


if __name__ == "__main__":
    main()
