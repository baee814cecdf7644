"""A pass of dual coordinate descent beside an iteration of LIBLINEAR's, on the same rows in memory, one thread each.

    python -m experiments.iteration FOLDER [--repeats 3]

FOLDER is a data set's folder that the benchmark has prepared: its train/ and store.h5.  LIBLINEAR cannot be asked
for one iteration without its set-up; the difference between its runs of two tolerances, over that of their iterations,
has none.  Early: between its first iteration and the next tolerance's, where it has hardly begun to leave rows out;
all: up to the last tolerance, where its shrinking makes iterations shorter.  Our pass visits every row.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from blocksvm.kernels.dual_cd_loops import Limits, Objective, PassArrays, dual_cd_pass
from blocksvm.kernels.shuffle import windowed_order
from blocksvm.problems.problem import make_problem
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS
from blocksvm.store.reader import Store
from blocksvm.training.partition import WINDOW_ROWS

PASSES = 8

CHILD = """
import ctypes, json, re, sys, time
from pathlib import Path
from liblinear.liblinear import PRINT_STRING_FUN
from liblinear.liblinearutil import parameter, problem, train
from experiments.solvers.child import load_csr
X, y = load_csr(Path(sys.argv[1]))
rows = problem(y, X)
for eps in ("1e9", "8", "4", "2", "0.5", "0.1"):
    log = []
    param = parameter(f"-s 3 -c {sys.argv[2]} -e {eps} -B -1 -q")
    param.print_func = PRINT_STRING_FUN(log.append)
    ctypes.CDLL(None).srand(1)
    began = time.perf_counter()
    train(rows, param)
    took = time.perf_counter() - began
    print(json.dumps([int(re.search(rb"#iter = (\\d+)", b"".join(log))[1]), took]), flush=True)
"""


def liblinear(folder: Path, C: float) -> list[tuple[int, float]]:
    """(iterations, seconds) of the train call at falling tolerances; the first is a single iteration and the set-up."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(folder), repr(C)], capture_output=True, text=True, check=True
    )
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


def ours(path: Path, C: float) -> dict[str, tuple[float, float]]:
    """{order: (seconds of the first pass, median seconds of the later ones)}, all rows in one block."""
    found = {}
    with Store(path) as store:
        block = store.read_block(np.arange(len(store.chunks)), None)
        problem = make_problem(PROBLEM_SETTINGS.resolve({"C": C}, "dual-cd"), 0.0, store)
        one_pass, costs = problem.loss.compiled(dual_cd_pass), problem.cost_by_sign()
        n = block.n_samples
        order = np.empty(n, np.int32)
        for name, window in (("loading", n), ("full shuffle", n), (f"windows of {WINDOW_ROWS:,} rows", WINDOW_ROWS)):
            w, alpha = np.zeros(store.n_features + 1), np.zeros(n)
            active, rest = np.ones(n, np.uint8), np.zeros(n, np.uint8)
            seconds = []
            for k in range(2 if name == "loading" else PASSES):
                began = time.perf_counter()
                windowed_order(np.uint64(k), n, window, order, np.empty(-(-n // window), np.int32))
                one_pass(
                    block.row_arrays, order, Objective(0.0, costs, problem.own), Limits(), 1.0,
                    PassArrays(w, alpha, active, rest, rest[:0], w[:0]),
                )  # fmt: skip
                seconds.append(time.perf_counter() - began)
            found[name] = (seconds[0], statistics.median(seconds[1:]))
        del found["loading"]
        found["nonzeros"] = store.n_nonzeros
    return found


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", type=Path)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument(
        "-C", type=float, default=1.0, help="a large one keeps rows from the bounds, so that none is left out"
    )
    options = p.parse_args()
    theirs, own = [], []
    for _ in range(options.repeats):
        theirs.append(liblinear(options.folder, options.C))
        own.append(ours(options.folder / "store.h5", options.C))
    nonzeros = [run.pop("nonzeros") for run in own][0] / 1e6
    first = statistics.median(runs[0][1] for runs in theirs)
    early = statistics.median(per_iteration(runs, next(run for run in runs if run[0] > runs[0][0])) for runs in theirs)
    later = statistics.median(per_iteration(runs, runs[-1]) for runs in theirs)
    columns = "first pass, s", "early passes, s", "all passes, s", "M nonzeros/s, early", "LIBLINEAR takes (each)"
    print("| | " + " | ".join(columns) + " |")
    print("|---|---|---|---|---|---|")
    print(f"| LIBLINEAR -s 3 | {first:.2f} | {early:.3f} | {later:.3f} | {nonzeros / early:.0f} | |")
    for name in own[0]:
        mine = [statistics.median(run[name][k] for run in own) for k in range(2)]
        cells = f"{mine[0]:.2f} | {mine[1]:.3f} | {mine[1]:.3f} | {nonzeros / mine[1]:.0f}"
        print(
            f"| blocksvm, {name} | {cells} | {first / mine[0]:.1f}x, {early / mine[1]:.1f}x, {later / mine[1]:.1f}x |"
        )


def per_iteration(runs: list[tuple[int, float]], until: tuple[int, float]) -> float:
    """Seconds an iteration between the first run, of one iteration, and a later one."""
    return (until[1] - runs[0][1]) / (until[0] - runs[0][0])


if __name__ == "__main__":
    main()
