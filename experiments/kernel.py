"""The machine with a kernel beside libsvm (scikit-learn's SVC): seconds of the command's run from the store to a
certified gap, within a budget that the kernel matrix is larger than, against libsvm's training alone in memory with a
cache of that size; and both primal objectives.

    python -m experiments.kernel NAME=TEXT.svm:C:GAMMA ... [--rows N] [--memory 300MB] [--tol 1e-3] [--repeats 3]

rbf kernel, a bias that is not regularised; two classes, the larger label against the others; the first N rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from blocksvm.cli.console import size
from experiments.free_bias import cells_of, load, store_of
from experiments.processes import must, run_module
from experiments.report import machine
from experiments.solvers.blocksvm import train


def peer(path: Path, rows: int | None, C: float, gamma: float, tol: float, megabytes: float) -> None:
    """One run of libsvm, as a line of JSON."""
    from sklearn.svm import SVC

    X, y = load(path, rows)
    solver = SVC(kernel="rbf", C=C, gamma=gamma, tol=tol, cache_size=megabytes)
    began = time.perf_counter()
    solver.fit(X, y)
    seconds = time.perf_counter() - began
    f = solver.decision_function(X)
    beta = np.asarray(solver.dual_coef_.todense()).ravel()
    quadratic = float(beta @ (f[solver.support_] - solver.intercept_[0]))
    primal = 0.5 * quadratic + C * float(np.maximum(0.0, 1.0 - y * f).sum())
    print(json.dumps({"seconds": seconds, "primal": primal, "support": len(beta)}))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", nargs="+", metavar="NAME=TEXT.svm:C:GAMMA")
    p.add_argument("--rows", type=int)
    p.add_argument("--memory", type=size, default=size("300MB"))
    p.add_argument("--tol", type=float, default=1e-3)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--peer", type=float, metavar="TOL", help="one run of libsvm, for this program's own use")
    options = p.parse_args()
    about = machine()
    if options.peer is None:
        print(
            f"{about['cpu']}, {about['cores']} cores, {about['date']}; gap {options.tol:g}, "
            f"{options.memory / 1e6:g} MB\n"
        )
        print(
            "| data | rows | C, gamma | kernel matrix | ours | libsvm, -e 0.1 | libsvm, -e 0.001 |\n" + "|---" * 7 + "|"
        )
    for one in options.data:
        name, _, rest = one.partition("=")
        text, C, gamma = rest.split(":")
        if options.peer is not None:
            peer(Path(text), options.rows, float(C), float(gamma), options.peer, options.memory / 1e6)
            return
        with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as folder:
            store, n_rows = store_of(Path(text), options.rows, folder)
            given = ("--solver", "kernel", "--gamma", gamma, "-C", C, "--bias", "free", "--tol", repr(options.tol))
            runs: dict[str, list[dict]] = {}
            for _ in range(options.repeats):
                with tempfile.TemporaryDirectory(dir=folder) as inner:
                    events, *_ = train(store, options.memory, Path(inner), *given)
                runs.setdefault("ours", []).append(events[-1])
                for level in (0.1, 0.001):
                    more = ("--rows", options.rows) if options.rows else ()
                    more += ("--memory", f"{options.memory}B", "--peer", level)
                    line = must(run_module(sys.executable, "experiments.kernel", one, *more))
                    runs.setdefault(f"libsvm {level:g}", []).append(line)
        cells = [name, f"{n_rows:,}", f"{C}, {gamma}", f"{8e-9 * n_rows**2:.1f} GB", *cells_of(runs, 1)]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
