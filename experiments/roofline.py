"""What bounds a training run: disk, decoding and kernels each alone, a real run beside them, and LIBLINEAR's
iterations on the same rows; one thread each.

    python -m experiments.roofline STORE.h5 TEXT.svm [--share 8] [-C 1] [--json FILE]

TEXT.svm is what the store was made of.  LIBLINEAR cannot be asked for one iteration without its set-up: of two runs of
different tolerances the difference in seconds, over that in iterations, has none.  Early: from its first iteration to
the next tolerance's, where it has hardly begun to leave rows out; all: up to the last tolerance.
"""

from __future__ import annotations

import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

from blocksvm.api import fit
from blocksvm.kernels.dual_cd import Limits, Objective, PassArrays, dual_cd_pass
from blocksvm.kernels.margins import decision_values
from blocksvm.kernels.shuffle import windowed_order
from blocksvm.problems.problem import make_problem
from blocksvm.problems.settings import PROBLEM_SETTINGS
from blocksvm.sources.block import Arena
from blocksvm.sources.source import bytes_of_blocks
from blocksvm.sources.store.reader import Store
from blocksvm.training.partition import FEWEST_WINDOWS, WINDOW_ROWS
from experiments.measuring import Tables, budget, drop_from_cache, in_child, parser, train

OUTERS, PASSES = 12, 8
SETTLED = 2  # passes or outer iterations left out at the start: most rows move in them
FIGURES = ("seconds", "bytes_read", "nnz_visited", "seconds_waiting", "seconds_training")


def disk(path: Path) -> float:
    """MB/s of reading a file from front to back, none of it cached."""
    drop_from_cache(path)
    began, total = time.perf_counter(), 0
    with open(path, "rb", buffering=0) as file:
        while piece := file.read(1 << 22):
            total += len(piece)
    return total / 1e6 / (time.perf_counter() - began)


def reading(store: Store, path: Path, n_blocks: int) -> tuple[float, float]:
    """Random blocks as a run reads them: MB/s of cold reads alone, then M nonzeros/s of all from the cache."""
    blocks = np.array_split(np.random.default_rng(0).permutation(len(store.chunks)), min(n_blocks, len(store.chunks)))
    sizes = [(int(store.chunks.n_rows[b].sum()), int(store.chunks.nnz[b].sum())) for b in blocks]
    arena = Arena(max(bytes_of_blocks(store, *size) for size in sizes))
    arena.memory[:] = 0
    store.read_block(blocks[0][:1], arena)
    drop_from_cache(path)
    bytes_read, seconds = store.cost.bytes_read, store.cost.seconds_reading
    for block in blocks:
        store.read_block(block, arena)
    cold = (store.cost.bytes_read - bytes_read) / 1e6 / (store.cost.seconds_reading - seconds)
    began = time.perf_counter()
    for block in blocks:
        store.read_block(block, arena)
    return cold, store.n_nonzeros / 1e6 / (time.perf_counter() - began)


def passes(store: Store, block, C: float, window: int) -> list[tuple[float, int]]:
    """(seconds, nonzeros) of passes over a block that stays in memory; the first one loads the kernel."""
    problem = make_problem(PROBLEM_SETTINGS.resolve({"C": C}, "dual-cd"), 0.0, store)
    one_pass, n, found = problem.loss.compiled(dual_cd_pass), block.n_samples, []
    for k in range(PASSES + 1):
        if k < 2:  # the pass that loads the kernel does not count
            w, alpha = np.zeros(store.n_features + 1), np.zeros(n)
            active, rest, order = np.ones(n, np.uint8), np.zeros(n, np.uint8), np.empty(n, np.int32)
        began = time.perf_counter()
        windowed_order(np.uint64(k), n, window, order, np.empty(-(-n // window), np.int32))
        _, _, _, nonzeros, *_ = one_pass(
            block.row_arrays, order, Objective(0.0, problem.cost_by_sign(), problem.own), Limits(), 1.0,
            PassArrays(w, alpha, active, rest, rest[:0], w[:0]),
        )  # fmt: skip
        found.append((time.perf_counter() - began, nonzeros))
    return found[1:]


def sweep(store: Store, block) -> float:
    """M nonzeros/s of inner products alone."""
    out, w, rates = np.empty(block.n_samples), np.zeros(store.n_features + 1), []
    for _ in range(PASSES):
        began = time.perf_counter()
        decision_values(*block.matrix, w, 0.0, out)
        rates.append(block.n_nonzeros / 1e6 / (time.perf_counter() - began))
    return median(rates[SETTLED:])


def training(path: Path, memory: int) -> dict:
    """A run of one pass a visit: medians over its outer iterations, without the first ones and certificates."""
    drop_from_cache(path)
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        given = ("--memory", f"{memory}B", "--schedule", 1, "--tol", 0, "--max-outer", OUTERS)
        events, _ = train(path, Path(name, "model.h5"), *given)
    outers = [event for event in events if event["event"] == "outer"]
    lines = [now | {"seconds": now["seconds"] - before["seconds"]} for before, now in pairwise(outers)
             if now["outer"] > SETTLED and now["primal"] is None]  # fmt: skip
    return {key: median(line[key] for line in lines) for key in FIGURES} | {"blocks": events[0]["blocks"]}


def cold_iteration(path: Path, memory: int) -> float:
    """Median seconds of an outer iteration of one pass a visit that finds nothing of the store in the cache."""
    seconds, began = [], [0.0]

    def on_event(event: dict) -> None:
        if event["event"] == "outer":
            if event["outer"] > SETTLED and event["primal"] is None:
                seconds.append(time.perf_counter() - began[0])
            drop_from_cache(path)
            began[0] = time.perf_counter()

    with Store(path) as store:
        fit(store, memory=memory, schedule="1", tol=0.0, max_outer=OUTERS, on_event=on_event)
    return median(seconds)


def liblinear(text: Path, C: float) -> list[tuple[int, float]]:
    """(iterations, seconds) of the train call at falling tolerances; the first is a single iteration and the set-up."""
    import ctypes
    import re

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
    options = p.parse_args()
    path, tables = options.store.resolve(), Tables(options)
    memory = budget(path, options.share)
    run = training(path, memory)
    with Store(path) as store:
        cold, decoded = reading(store, path, max(2, run["blocks"]))
        sequential = disk(path)
        block = store.read_block(np.arange(len(store.chunks)), None)
        orders = {"full shuffle": block.n_samples, "windows": min(block.n_samples, WINDOW_ROWS)}
        own = {name: passes(store, block, options.C, window) for name, window in orders.items()}
        products, nonzeros = sweep(store, block), store.n_nonzeros
    rates = {name: median(n / 1e6 / s for s, n in found[SETTLED:]) for name, found in own.items()}
    windows = block.n_samples / max(1, run["blocks"]) >= FEWEST_WINDOWS * WINDOW_ROWS
    bounds = {
        "disk": run["bytes_read"] / 1e6 / sequential,
        "decoding": nonzeros / 1e6 / decoded if run["blocks"] > 1 else 0.0,
        "kernel": run["nnz_visited"] / 1e6 / rates["windows" if windows else "full shuffle"],
    }
    most = max(bounds.values())
    tables.begin(
        f"{path.stem}: {nonzeros:,} nonzeros, {memory / 1e6:,.0f} MB, {run['blocks']} blocks", "what", "figure", "unit"
    )
    tables.row("store from disk, front to back", f"{sequential:,.0f}", "MB/s")
    tables.row("store from disk, chunks as a run reads them", f"{cold:,.0f}", "MB/s")
    tables.row("reading a block, store in the cache", f"{decoded:,.0f}", "M nonzeros/s")
    for name, rate in rates.items():
        tables.row(f"a pass, {name}", f"{rate:,.0f}", "M nonzeros/s")
    tables.row("inner products alone", f"{products:,.0f}", "M nonzeros/s")
    for what, seconds in (
        ("", run["seconds"]),
        (", waiting", run["seconds_waiting"]),
        (", training", run["seconds_training"]),
    ):
        tables.row(f"outer iteration, one pass{what}", f"{seconds:.3f}", "s")
    for what, seconds in bounds.items():
        tables.row(f"bound by {what}", f"{seconds:.3f}", "s")
    tables.row("outer iteration in units of the largest bound", f"{run['seconds'] / most:.2f}", "")
    if run["blocks"] > 1:
        tables.row(
            "the same, the store dropped from the cache before", f"{cold_iteration(path, memory) / most:.2f}", ""
        )
    (_, first), *later = found = in_child(liblinear, options.text.resolve(), options.C)
    tables.begin(
        "A pass beside LIBLINEAR's iteration, times as long LIBLINEAR takes in brackets",
        "",
        "first, s",
        "early, s",
        "all, s",
    )
    early, every = (
        (s - first) / (n - found[0][0]) for n, s in (next(r for r in later if r[0] > found[0][0]), later[-1])
    )
    tables.row("LIBLINEAR -s 3", f"{first:.3f}", f"{early:.3f}", f"{every:.3f}")
    for name, seconds in own.items():
        mine, settled = seconds[0][0], median(s for s, _ in seconds[1:])
        tables.row(f"blocksvm, {name}", f"{mine:.3f} ({first / mine:.1f})", f"{settled:.3f} ({early / settled:.1f})",
                   f"{settled:.3f} ({every / settled:.1f})")  # fmt: skip
    tables.end()


if __name__ == "__main__":
    main()
