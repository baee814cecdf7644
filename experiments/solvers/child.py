"""What every solver's process shares: its arguments, the prepared rows, the weights and the one line it prints."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path


@dataclass(frozen=True)
class Task:
    """One run: the folder of prepared data, the level's settings, C, and the budget of memory where there is one."""

    folder: Path
    level: dict[str, str]
    C: float
    memory: int

    def settings(self, name: str, default: str = "") -> str:
        return self.level.get(name, default)


@dataclass(frozen=True)
class Outcome:
    """w (columns,) by feature id; seconds of training alone; load_seconds before it; the process's peak memory."""

    w: object
    seconds: float
    load_seconds: float
    peak_rss_mb: float
    more: dict = field(default_factory=dict)


def parse_level(text: str) -> dict[str, str]:
    """'tol=0.1,n_jobs=2' as a dict."""
    return dict(part.partition("=")[::2] for part in text.split(","))


def curve_of(solver: str, level: str) -> str:
    """The curve that a level lies on: the solver, and all settings but the first."""
    return " ".join([solver, *level.split(",")[1:]])


def peak_rss_mb() -> float:
    """The largest memory that this process has had, in MB; not its parent's, which getrusage may report."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024 / 1e6
    return float("nan")


def load_csr(folder: Path, values: str = "values64"):
    """(X scipy CSR, y) of the prepared training rows, read into memory."""
    import numpy as np
    from scipy import sparse

    parts = {name: np.load(folder / "train" / f"{name}.npy") for name in ("indptr", "indices", values, "y")}
    columns = json.loads((folder / "train" / "made.json").read_text())["columns"]
    shape = (len(parts["y"]), columns)
    if parts["indptr"][-1] < 2**31 - 1:
        parts["indptr"] = parts["indptr"].astype(np.int32)
    X = sparse.csr_matrix((parts[values], parts["indices"], parts["indptr"]), shape=shape)
    X.has_sorted_indices = True
    return X, parts["y"]


def fit_estimator(estimator, X, y, load_seconds: float) -> Outcome:
    """Time the fit of an estimator with scikit-learn's interface."""
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.perf_counter()
        estimator.fit(X, y)
        seconds = time.perf_counter() - began
    peak = peak_rss_mb()
    more = {"iterations": int(estimator.n_iter_)} if hasattr(estimator, "n_iter_") else {}
    if caught:
        more["warnings"] = sorted({f"{warning.category.__name__}: {warning.message}" for warning in caught})
    return Outcome(estimator.coef_.ravel(), seconds, load_seconds, peak, more)


def main(name: str, distribution: str, imported: str, run: Callable[[Task], Outcome]) -> None:
    """The solver's command: --check says whether it can run here, otherwise one run and one line of JSON."""
    parser = argparse.ArgumentParser(prog=f"python -m experiments.solvers.{name}")
    parser.add_argument("--check", action="store_true", help="only import the solver and print its version")
    parser.add_argument("--folder", type=Path, help="folder of prepared data")
    parser.add_argument("--level", default="")
    parser.add_argument("-C", type=float, default=1.0)
    parser.add_argument("--memory", type=int, default=0, help="bytes")
    parser.add_argument("--out", type=Path, help="file for the weights, .npy")
    options = parser.parse_args()
    if options.check:
        __import__(imported)
        print(json.dumps({"version": version(distribution)}))
        return
    outcome = run(Task(options.folder, parse_level(options.level), options.C, options.memory))
    import numpy as np

    np.save(options.out, np.asarray(outcome.w, dtype=np.float64))
    line = {
        "solver": name,
        "version": version(distribution),
        "level": options.level,
        "seconds": outcome.seconds,
        "load_seconds": outcome.load_seconds,
        "peak_rss_mb": outcome.peak_rss_mb,
    }
    sys.stdout.flush()
    print("\n" + json.dumps(line | outcome.more), flush=True)
