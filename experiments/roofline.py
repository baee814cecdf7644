"""What bounds a training run: disk, decoding, kernels and memory each alone, then a real run beside them.

python -m experiments.roofline STORE.h5 TEXT.svm [--memory BYTES] [--json]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from itertools import islice, pairwise
from pathlib import Path
from statistics import median

import numpy as np

from blocksvm.kernels.block_check import check_rows
from blocksvm.kernels.dual_cd_loops import Limits, Objective, PassArrays, dual_cd_pass
from blocksvm.kernels.margins import decision_values
from blocksvm.kernels.shuffle import windowed_order
from blocksvm.problems.problem import make_problem
from blocksvm.problems.problem_settings import PROBLEM_SETTINGS
from blocksvm.sources.block import Arena, Block
from blocksvm.sources.source import bytes_of_blocks
from blocksvm.store import codec
from blocksvm.store.reader import Store
from blocksvm.training.fit import fit
from blocksvm.training.partition import FEWEST_WINDOWS, WINDOW_ROWS
from experiments.processes import compile_kernels, drop_from_cache, read_through, split
from experiments.report import machine
from experiments.solvers.blocksvm import budget, train

OUTERS = 12
PASSES = 8
SETTLED = 2  # passes or outer iterations left out at the start: most rows move in them


def disk(path: Path) -> float:
    """MB/s of reading a file from front to back, none of it cached."""
    drop_from_cache(path)
    buffer = bytearray(1 << 22)
    with open(path, "rb", buffering=0) as file:
        began = time.perf_counter()
        total = 0
        while (got := os.preadv(file.fileno(), [buffer], total)) > 0:
            total += got
    return total / 1e6 / (time.perf_counter() - began)


def copying(n_bytes: int = 1 << 28) -> float:
    """GB/s of memory read and written by a copy, the best of five."""
    source, target = np.ones(n_bytes // 8), np.empty(n_bytes // 8)
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        np.copyto(target, source)
        seconds.append(time.perf_counter() - began)
    return 2 * n_bytes / 1e9 / min(seconds[1:])


def groups(store: Store, blocks: int) -> list[np.ndarray]:
    """All chunks in random order, in about so many blocks."""
    return np.array_split(np.random.default_rng(0).permutation(len(store.chunks)), min(blocks, len(store.chunks)))


def arena_for(store: Store, blocks: list[np.ndarray]) -> Arena:
    return Arena(
        max(bytes_of_blocks(store, int(store.chunks.n_rows[b].sum()), int(store.chunks.nnz[b].sum())) for b in blocks)
    )


def reading(store: Store, path: Path, blocks: list[np.ndarray]) -> dict:
    """Blocks as a run reads them: from disk (MB/s of the preads alone), then from the cache (M nonzeros/s of all)."""
    arena = arena_for(store, blocks)
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
    return {
        "random_mb_per_second": cold,
        "decode_m_per_second": store.n_nonzeros / 1e6 / (time.perf_counter() - began),
    }


def decode_steps(store: Store) -> dict[str, float]:
    """M nonzeros/s of each step of decoding alone, over all chunks, each read beforehand."""
    steps = dict.fromkeys(("checksum", "indices", "values", "check"), 0.0)
    indices = np.empty(store.chunk_nnz, np.int32)
    values = None if store.value_dtype is None else np.empty(store.chunk_nnz, store.value_dtype)
    for record in store.parts:
        kinds = ["indices"] if values is None else ["indices", "values"]
        raw = [os.pread(store.fd, int(record[f"{k}_size"]), int(record[f"{k}_offset"])) for k in kinds]
        times = [time.perf_counter()]
        codec.checksum(*raw)
        times.append(time.perf_counter())
        codec.decode(raw[0], indices)
        times.append(time.perf_counter())
        if values is not None:
            if len(raw[1]) == values.nbytes:  # stored as they are
                values[:] = np.frombuffer(raw[1], values.dtype)
            else:
                codec.decode(raw[1], values)
        times.append(time.perf_counter())
        check_rows(indices, values, store.n_features, None)
        times.append(time.perf_counter())
        for name, (start, stop) in zip(steps, pairwise(times), strict=True):
            steps[name] += stop - start
    return {name: store.n_nonzeros / 1e6 / seconds if seconds > 1e-9 else None for name, seconds in steps.items()}


def kernels(store: Store, block: Block) -> dict[str, float]:
    """M nonzeros/s of the kernels over one block that stays in memory."""
    problem = make_problem(PROBLEM_SETTINGS.resolve({}, "dual-cd"), 0.0, store)
    one_pass = problem.loss.compiled(dual_cd_pass)
    n = block.n_samples
    order = np.empty(n, np.int32)
    found: dict[str, float] = {}
    # the first call of each kernel, which loads or compiles it, is part of the passes that are left out
    for name, window in (("full", n), ("windows", min(n, WINDOW_ROWS))):
        w, alpha = np.zeros(store.n_features + 1), np.zeros(n)
        active, rest = np.ones(n, np.uint8), np.zeros(n, np.uint8)
        rates = []
        for k in range(PASSES):
            windowed_order(np.uint64(k), n, window, order, np.empty(-(-n // window), np.int32))
            began = time.perf_counter()
            _, _, _, nonzeros, *_ = one_pass(
                block.row_arrays, order, Objective(0.0, problem.cost_by_sign(), problem.own), Limits(), 1.0,
                PassArrays(w, alpha, active, rest, rest[:0], w[:0]),
            )  # fmt: skip
            rates.append(nonzeros / 1e6 / (time.perf_counter() - began))
        found[f"dual_cd_{name}"] = median(rates[SETTLED:])
    out, rates = np.empty(n), []
    for _ in range(PASSES):
        began = time.perf_counter()
        decision_values(*block.matrix, w, 0.0, out)
        rates.append(block.n_nonzeros / 1e6 / (time.perf_counter() - began))
    return found | {"decision_values": median(rates[SETTLED:])}


def training(path: Path, memory: int, folder: Path) -> dict:
    """A run of one pass a visit: medians over its outer iterations, without the first ones and certificates."""
    drop_from_cache(path)
    events, *_ = train(path, memory, folder, "--schedule", "1", "--tol", "0", "--max-outer", str(OUTERS))
    outers = [event for event in events if event["event"] == "outer"]
    told = [
        {"seconds": now["seconds"] - before["seconds"]} | now["tally"]
        for before, now in pairwise({**e, "tally": {k: e[k] for k in TALLY}} for e in outers)
        if now["outer"] > SETTLED and now["primal"] is None
    ]
    return {key: median(line[key] for line in told) for key in ("seconds", *TALLY)} | {
        "outer_iterations": len(told), "blocks": events[0]["blocks"], "resident": events[0]["resident"]}  # fmt: skip


def cold_iteration(path: Path, memory: int) -> float:
    """Median seconds of an outer iteration of one pass a visit that finds nothing of the store in the cache."""
    seconds: list[float] = []
    began = 0.0

    def on_event(event: dict) -> None:
        nonlocal began
        if event["event"] == "outer":
            if event["outer"] > SETTLED and event["primal"] is None:
                seconds.append(time.perf_counter() - began)
            drop_from_cache(path)
            began = time.perf_counter()

    with Store(path) as store:
        fit(store, memory=memory, schedule="1", tol=0.0, max_outer=OUTERS, on_event=on_event)
    return median(seconds)


SPLITS = 3  # of a text, of which the median is told
TALLY = ("bytes_read", "nnz_visited", "seconds_waiting", "seconds_training")


def splitting(text: Path, folder: Path) -> dict:
    """MB/s of text with one and two jobs, medians, start-up (a split of two rows) aside; the text is cached."""
    few, store = folder / "few.svm", folder / "split.h5"
    with open(text, "rb") as source:
        few.write_bytes(b"".join(islice(source, 2)))
    told: dict[str, float] = {"start_up_seconds": min(split(few, store) for _ in range(2))}
    taken: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(SPLITS):
        for jobs, seconds in taken.items():
            read_through(text)
            seconds.append(split(text, store, "--jobs", str(jobs)))
    for jobs, seconds in ((jobs, median(seconds)) for jobs, seconds in taken.items()):
        told[f"jobs{jobs}_seconds"] = seconds
        told[f"jobs{jobs}_mb_per_second"] = text.stat().st_size / 1e6 / max(1e-3, seconds - told["start_up_seconds"])
    return told


def measure(path: Path, text: Path, memory: int | None) -> dict:
    """All figures of a store and the text that it was made of."""
    compile_kernels()
    memory = memory or budget(path, text.stat().st_size)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix="roofline-") as name:
        run = training(path, memory, Path(name))
        made = splitting(text, Path(name))
    result = {"machine": machine(), "memory": memory, "training": run, "split": made}
    with Store(path) as store:
        blocks = groups(store, max(2, run["blocks"]))
        result |= {
            "nonzeros": store.n_nonzeros,
            "sequential_mb_per_second": disk(path),
            "copy_gb_per_second": copying(),
        }
        result["reading"] = reading(store, path, blocks)
        result["decode_steps"] = decode_steps(store)
        block = store.read_block(blocks[0], None)
        result["kernels"] = kernels(store, block)
        result["block"] = {"rows": block.n_samples, "nonzeros": block.n_nonzeros}
    windows = result["block"]["rows"] >= FEWEST_WINDOWS * WINDOW_ROWS
    result["bounds"] = bounds = {
        "disk": run["bytes_read"] / 1e6 / result["sequential_mb_per_second"],
        "decode": 0.0 if run["resident"] else store.n_nonzeros / 1e6 / result["reading"]["decode_m_per_second"],
        "kernel": run["nnz_visited"] / 1e6 / result["kernels"]["dual_cd_windows" if windows else "dual_cd_full"],
    }
    result["bound_seconds"] = max(bounds.values())
    result["cold_seconds"] = None if run["resident"] else cold_iteration(path, memory)
    return result


def markdown(result: dict) -> str:
    """The figures as a table."""
    run, made, bounds, k = result["training"], result["split"], result["bounds"], result["kernels"]
    steps = ", ".join(f"{name} {rate:,.0f}" for name, rate in result["decode_steps"].items() if rate)
    place = "all rows kept in memory" if run["resident"] else f"{run['blocks']} blocks"
    rows = [
        ("store from disk, front to back / chunks as a run reads them", f"{result['sequential_mb_per_second']:,.0f} / "
         f"{result['reading']['random_mb_per_second']:,.0f} MB/s"),
        ("memory, copied (read and written)", f"{result['copy_gb_per_second']:.1f} GB/s"),
        ("read_block, store in the cache", f"{result['reading']['decode_m_per_second']:,.0f} M nonzeros/s"),
        ("its steps alone", f"{steps} M nonzeros/s"),
        (f"dual_cd_pass, block of {result['block']['rows']:,} rows, full shuffle / windows of {WINDOW_ROWS:,}",
         f"{k['dual_cd_full']:,.0f} / {k['dual_cd_windows']:,.0f} M nonzeros/s"),
        ("decision_values", f"{k['decision_values']:,.0f} M nonzeros/s"),
        (f"outer iteration, one pass, {result['memory'] / 1e6:,.0f} MB ({place})",
         f"{run['seconds']:.3f} s (waiting {run['seconds_waiting']:.3f}, training {run['seconds_training']:.3f})"),
        ("bound: the largest of disk, decode, kernel", f"{result['bound_seconds']:.3f} s ({bounds['disk']:.3f}, "
         f"{bounds['decode']:.3f}, {bounds['kernel']:.3f}): the run takes "
         f"{run['seconds'] / result['bound_seconds']:.2f} times that"),
        *([] if result["cold_seconds"] is None else
          [("outer iteration, the store dropped from the cache before it", f"{result['cold_seconds']:.3f} s: "
            f"{result['cold_seconds'] / result['bound_seconds']:.2f} times the bound")]),
        ("split, 1 / 2 jobs, start-up aside", f"{made['jobs1_mb_per_second']:,.0f} / "
         f"{made['jobs2_mb_per_second']:,.0f} MB/s of text (start-up {made['start_up_seconds']:.2f} s)"),
    ]  # fmt: skip
    lines = ["## What bounds a run", "", f"{result['nonzeros']:,} nonzeros; {result['machine']['cpu']}; one thread "
             "each. A run's later outer iterations read the store from the system's cache where it has room.",
             "", "| what | figure |", "|---|---|"]  # fmt: skip
    return "\n".join(lines + [f"| {what} | {figure} |" for what, figure in rows])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("text", type=Path, help="the text that the store was made of")
    parser.add_argument("--memory", type=int, metavar="BYTES", help="of the training run (default: as the benchmark)")
    parser.add_argument("--json", action="store_true", help="print JSON, not a table")
    options = parser.parse_args()
    result = measure(options.store.resolve(), options.text.resolve(), options.memory)
    print(json.dumps(result) if options.json else markdown(result))


if __name__ == "__main__":
    main()
