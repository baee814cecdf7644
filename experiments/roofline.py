"""Bounds of a training run: the disk alone, decoding and passes as a run's trace has them, and LIBLINEAR's iterations
on the same rows.

    python -m experiments.roofline STORE.h5 TEXT.svm [--share 8] [-C 1] [--outer 12] [--json FILE]

TEXT.svm is what the store was made of.  Runs have one pass a visit and no working set; figures are medians over outer
iterations without a certificate, after the first two, in which most rows move.  LIBLINEAR cannot be asked for one
iteration without its set-up: of two runs of different tolerances the difference in seconds, over that in iterations,
has none.  Early: from its first iteration to the next tolerance's, where it has hardly begun to leave rows out.
"""

from __future__ import annotations

import ctypes
import re
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

from experiments.measuring import Tables, budget, described, drop_from_cache, in_child, parser, train

SETTLED = 2
FIGURES = ("seconds", "seconds_waiting", "seconds_training", "seconds_decoding", "bytes_read", "nnz_visited")


def disk(path: Path) -> float:
    """MB/s of reading a file from front to back, none of it cached."""
    drop_from_cache(path)
    began, total = time.perf_counter(), 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(1 << 22):
            total += len(piece)
    return total / 1e6 / (time.perf_counter() - began)


def training(path: Path, share: str, options) -> tuple[dict, dict]:
    """(the start event, medians of an outer iteration's figures) at a share of the memory."""
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        given = ("--memory", f"{budget(path, share)}B", "--schedule", 1, "--working-set", "none", "-C", options.C)
        more = ("--tol", 0, "--max-outer", options.outer)
        events, _ = train(path, Path(name, "model.h5"), *given, *more)
    outers = [event for event in events if event["event"] == "outer"]
    lines = [now | {"seconds": now["seconds"] - before["seconds"]} for before, now in pairwise(outers)
             if now["outer"] > SETTLED and now["primal"] is None]  # fmt: skip
    found = {key: median(line[key] for line in lines) for key in FIGURES}
    return events[0], found | {"first_pass": outers[0]["seconds_training"]}


def liblinear(text: Path, C: float) -> list[tuple[int, float]]:
    """(iterations, seconds) of the train call at falling tolerances; the first is a single iteration and the set-up."""
    import numpy as np
    from liblinear.liblinear import PRINT_STRING_FUN
    from liblinear.liblinearutil import parameter, problem
    from liblinear.liblinearutil import train as solve
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(str(text), zero_based=True)
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    rows, found = problem(y, X), []
    for eps in ("1e9", "8", "4", "2", "0.5", "0.1"):
        log: list[bytes] = []
        given = parameter(f"-s 3 -c {C!r} -e {eps} -B -1 -q")
        given.print_func = PRINT_STRING_FUN(log.append)  # the only way to its iteration count
        ctypes.CDLL(None).srand(1)
        began = time.perf_counter()
        solve(rows, given)
        seconds = time.perf_counter() - began
        found.append((int(re.search(rb"#iter = (\d+)", b"".join(log))[1]), seconds))
    return found


def main() -> None:
    p = parser(__doc__)
    p.add_argument("store", type=Path)
    p.add_argument("text", type=Path)
    p.add_argument("--share", default="8", help="of the memory")
    p.add_argument("-C", type=float, default=1.0)
    p.add_argument("--outer", type=int, default=12)
    options = p.parse_args()
    path, tables = options.store.resolve(), Tables(options)
    start, run = training(path, options.share, options)
    sequential, nonzeros = disk(path), described(path)["n_nonzeros"]
    bounds = {
        "disk": run["bytes_read"] / 1e6 / sequential,
        "decoding": run["seconds_decoding"],
        "the kernel": run["seconds_training"],
    }
    tables.begin(f"{path.stem}: {nonzeros:,} nonzeros, {start['blocks']} blocks", "what", "figure", "unit")
    tables.row("store from disk, front to back", f"{sequential:,.0f}", "MB/s")
    for what, rate in (
        ("decoding", nonzeros / max(1e-9, run["seconds_decoding"])),
        ("a pass", run["nnz_visited"] / run["seconds_training"]),
    ):
        tables.row(f"{what}, one thread", f"{rate / 1e6:,.0f}", "M nonzeros/s")
    tables.row("outer iteration, one pass", f"{run['seconds']:.3f}", "s")
    tables.row("outer iteration, waiting", f"{run['seconds_waiting']:.3f}", "s")
    for what, seconds in bounds.items():
        tables.row(f"bound by {what}", f"{seconds:.3f}", "s")
    larger = max(bounds["decoding"], bounds["the kernel"])  # the system has the store in memory after the first reading
    tables.row("outer iteration in units of the larger of decoding and kernel", f"{run['seconds'] / larger:.2f}", "")
    _, memory = [training(path, "all", options) for _ in range(2)][1]  # the first one compiles
    (once, first), *later = in_child(liblinear, options.text.resolve(), options.C)
    next_one = next(one for one in later if one[0] > once)
    early, every = ((seconds - first) / (n - once) for n, seconds in (next_one, later[-1]))
    tables.begin(f"{path.stem}: a pass in memory, in brackets how many times as long LIBLINEAR's iteration takes",
                 "program", "first, s", "early, s", "all, s")  # fmt: skip
    tables.row("LIBLINEAR -s 3", f"{first:.3f}", f"{early:.3f}", f"{every:.3f}")
    mine, settled = memory["first_pass"], memory["seconds_training"]
    tables.row("blocksvm", f"{mine:.3f} ({first / mine:.1f})", f"{settled:.3f} ({early / settled:.1f})",
               f"{settled:.3f} ({every / settled:.1f})")  # fmt: skip
    tables.end()


if __name__ == "__main__":
    main()
