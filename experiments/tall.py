"""Newton's method on tall data, beside LIBLINEAR's primal solvers and scikit-learn's newton-cholesky.

    python -m experiments.tall NAME=TEXT.svm planted:ROWS:FEATURES[:unscaled|:collinear] ... [--share 8] [--most 60]
    python -m experiments.tall FEATURES ... --figure FILE.png

Squared hinge and logistic loss, no bias, to a certified gap of 1e-6: seconds and readings from a store on disk, in a
memory that holds 1/share of the rows (all: of all), and the peak of the process.  LIBLINEAR (-s 2, -s 0) and
newton-cholesky have all rows in memory, and only training is timed: to a primal within 1e-6 of the certified one, or
at their strictest tolerance.  dual-cd: to a gap of 1e-3 within so many seconds.  planted: normal features, correlated,
and labels of a plane with noise; unscaled: features from 1e-3 to 1e3; collinear: five that are copies of others but for
1e-7.
"""

from itertools import product
from pathlib import Path

import numpy as np
from liblinear.liblinearutil import parameter, problem
from liblinear.liblinearutil import train as train_linear
from scipy import sparse
from sklearn.linear_model import LogisticRegression

from blocksvm import Matrix, fit
from experiments.runs import Clock, budget, in_child, outers, row, rows_of, scratch, script, split, table, train

LOSSES = {"squared-hinge": 2, "logistic": 0}  # and LIBLINEAR's number of the solver
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6)
NEAR = 1e-6


def planted(n: int, d: int, kind: str = ""):
    """(X, y), float32."""
    rng = np.random.default_rng(n + d)
    X = rng.normal(size=(n, d)).astype(np.float32) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))).astype(np.float32)
    z = X @ rng.normal(size=d).astype(np.float32)
    y = np.sign(z + np.std(z) * rng.normal(size=n))
    if kind == "unscaled":
        X *= (10.0 ** rng.uniform(-3, 3, d)).astype(np.float32)
    elif kind == "collinear":
        X[:, -5:] = X[:, :5] * (1.0 + 1e-7 * rng.normal(size=(n, 5)))
    return X, y


def loaded(what: str, store: Path):
    """(name, X, y), of which the store is made."""
    if not what.startswith("planted:"):
        name, _, text = what.partition("=")
        split(text, store)
        return name, *rows_of(text)
    _, n, d, *kind = what.split(":")
    (X, y), texts = planted(int(n), int(d), *kind), [store.with_name(name) for name in ("x.npy", "y.npy")]
    for path, array in zip(texts, (X, y.astype(np.int64)), strict=True):
        np.save(path, array)
    split(texts[0], store, "--labels-from", texts[1])
    return what[8:], X, y


def peers(X, y, C: float, loss: str, best: float) -> list[str]:
    """LIBLINEAR's and newton-cholesky's seconds, and how far above the best primal they have ended."""
    X = X.astype(np.float64)
    dense, rows, found = X.toarray() if sparse.issparse(X) else X, problem(y, X), []

    def linear(tol: float):
        model = train_linear(rows, parameter(f"-s {LOSSES[loss]} -c {C} -e {tol} -q"))
        return lambda: model.get_labels()[0] * np.array(model.get_decfun()[0])[: X.shape[1]]

    def cholesky(tol: float):
        fitted = LogisticRegression(C=C, solver="newton-cholesky", fit_intercept=False, tol=tol).fit(dense, y)
        return lambda: fitted.coef_[0]

    for solve in (linear, cholesky) if loss == "logistic" else (linear,):
        for tol in TOLERANCES:
            clock = Clock()
            weights = solve(tol)
            seconds, w = clock.part(), weights()
            m = y * (X @ w)
            losses = np.square(np.maximum(0.0, 1.0 - m)) if loss == "squared-hinge" else np.logaddexp(0.0, -m)
            above = (0.5 * float(w @ w) + C * float(losses.sum())) / best - 1.0
            if above <= NEAR:
                break
        found.append(f"{seconds:.2f}" + (f" ({above:.0e} above)" if above > NEAR else ""))
    return [*found, ""][:2]


def draw(features: list[str], most: int, path: str) -> None:
    """Seconds to a gap of 1e-3 in memory against the number of features, logistic loss, 40,000 dense rows."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    _, axes = pyplot.subplots(figsize=(6, 4))
    styles, colours = {"newton": "-", "dual-cd": "--"}, {0.1: "tab:green", 1.0: "tab:blue", 100.0: "tab:red"}
    for solver, C in product(styles, colours):
        seconds = []
        for d in features:
            rows, clock = Matrix(*planted(40_000, int(d))), Clock()
            found = fit(rows, solver=solver, loss="logistic", C=C, max_seconds=most, memory=4 * 10**9, n_jobs=-1)
            seconds.append(clock.part())
            print(d, solver, C, f"{seconds[-1]:.2f}", f"{found.certificate.rel_gap:.1e}", flush=True)
        named = {"color": colours[C], "marker": "o", "label": f"{solver}, C = {C:g}"}
        axes.loglog(list(map(int, features)), seconds, styles[solver], **named)
    axes.axhline(most, color="grey", linewidth=0.5)
    axes.set(xlabel="features", ylabel=f"seconds (at {most} not reached)")
    axes.legend(fontsize="small")
    pyplot.savefig(path, dpi=100, bbox_inches="tight")


@script("data", share="8", costs=("0.1", "1", "100"), most=60, figure="")
def main(options) -> None:
    if options.figure:
        draw(options.data, options.most, options.figure)
        return
    table(f"gap 1e-6, 1/{options.share} of the rows in memory", "data", "loss", "C", "newton", "readings", "peak, MB",
          "LIBLINEAR", "newton-cholesky", "dual-cd to 1e-3")  # fmt: skip
    for what in options.data:
        with scratch() as folder:
            store, model = folder / "rows.h5", folder / "m.h5"
            name, X, y = loaded(what, store)
            memory = ("--memory", budget(store, options.share) + 20 * X.shape[1] ** 2 * 8)
            for loss, C in product(LOSSES, options.costs):
                chosen = ("--loss", loss, "-C", C, *memory)
                events, done = train(store, model, "--solver", "newton", "--tol", 1e-6, *chosen)
                others = in_child(peers, X, y, float(C), loss, events[-1]["primal"])
                slow = train(store, model, "--tol", 1e-3, "--max-seconds", options.most, *chosen)[0][-1]
                reached = "" if slow["rel_gap"] <= 1e-3 else f" (gap {slow['rel_gap']:.1e})"
                row(f"{name}: {X.shape[0]:,} x {X.shape[1]:,}", loss, C, f"{events[-1]['seconds']:.2f}",
                    len(outers(events)), f"{done.peak_mb:.0f}", *others, f"{slow['seconds']:.1f}{reached}")  # fmt: skip
