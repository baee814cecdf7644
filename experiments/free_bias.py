"""A bias that is not regularised beside libsvm's linear kernel: seconds to a certified gap of the whole command's run
from the store, against libsvm's training alone in memory (scikit-learn's SVC), and both primal objectives.

    python -m experiments.free_bias NAME=TEXT.svm[:C] ... [--rows N] [--tol 1e-3] [--repeats 3]

Two classes, the larger label against the others; the first N rows.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from experiments.processes import must, run_module
from experiments.report import machine
from experiments.solvers.blocksvm import train
from experiments.working_set import budget


def load(path: Path, rows: int | None):
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(path))
    return X[:rows], np.where(y[:rows] == y.max(), 1.0, -1.0)


def store_of(text: Path, rows: int | None, folder: str) -> tuple[Path, int]:
    """A store of the first rows of a text, two classes as ``load`` has them; and how many rows it has."""
    from sklearn.datasets import dump_svmlight_file

    from blocksvm.conversion.convert import write_store

    X, y = load(text, rows)
    dump_svmlight_file(X, y, f"{folder}/rows.svm")
    store = Path(folder) / "rows.h5"
    write_store([f"{folder}/rows.svm"], store)
    return store, X.shape[0]


def cells_of(runs: dict[str, list[dict]], digits: int) -> list[str]:
    """Of each program's runs the median of their seconds, to so many digits, and the last one's primal and gap."""
    cells = []
    for found in runs.values():
        seconds = statistics.median(run["seconds"] for run in found)
        gap = f", gap {found[-1]['rel_gap']:.1e}" if "rel_gap" in found[-1] else ""
        cells.append(f"{seconds:.{digits}f} s, P {found[-1]['primal']:.6g}{gap}")
    return cells


def peer(path: Path, rows: int | None, C: float, tolerance: float) -> None:
    """One run of libsvm, as a line of JSON."""
    from sklearn.svm import SVC

    X, y = load(path, rows)
    solver = SVC(kernel="linear", C=C, tol=tolerance, cache_size=2000)
    began = time.perf_counter()
    solver.fit(X, y)
    seconds = time.perf_counter() - began
    w, b = np.asarray(solver.coef_.todense()).ravel(), float(solver.intercept_[0])
    primal = 0.5 * float(w @ w) + C * float(np.maximum(0.0, 1.0 - y * (X @ w + b)).sum())
    print(json.dumps({"seconds": seconds, "primal": primal}))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", nargs="+", metavar="NAME=TEXT.svm:C")
    p.add_argument("--rows", type=int)
    p.add_argument("--tol", type=float, default=1e-3)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--peer", type=float, metavar="TOL", help="one run of libsvm, for this program's own use")
    options = p.parse_args()
    about = machine()
    if options.peer is None:
        print(f"{about['cpu']}, {about['cores']} cores, {about['date']}; gap {options.tol:g}\n")
        print(
            "| data | rows | C | 1/8 of the memory | in memory | libsvm, -e 0.1 | libsvm, -e 0.001 |\n"
            + "|---" * 7
            + "|"
        )
    for one in options.data:
        name, _, rest = one.partition("=")
        text, _, C = rest.partition(":")
        if options.peer is not None:
            peer(Path(text), options.rows, float(C or 1), options.peer)
            return
        with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as folder:
            store, n_rows = store_of(Path(text), options.rows, folder)
            runs: dict[str, list[dict]] = {}
            for _ in range(options.repeats):
                for share in ("8", "mem"):
                    with tempfile.TemporaryDirectory(dir=folder) as inner:
                        given = ("--tol", repr(options.tol), "--bias", "free", "-C", C or "1")
                        events, *_ = train(store, budget(store, share), Path(inner), *given)
                    runs.setdefault(share, []).append(events[-1])
                for level in (0.1, 0.001):
                    rows = ("--rows", options.rows) if options.rows else ()
                    line = must(run_module(sys.executable, "experiments.free_bias", one, *rows, "--peer", level))
                    runs.setdefault(f"libsvm {level:g}", []).append(line)
        cells = [name, f"{n_rows:,}", C or "1", *cells_of(runs, 2)]
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
