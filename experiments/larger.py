"""Larger than memory: stores trained within a budget, from a cold cache.

    python -m experiments.larger BIG.h5 SMALL.h5 [--memory 2000] [--small-memory 250] [-C 0.02] [--tol 1e-2 1e-3]
    python -m experiments.larger STORE.h5 ... --growth [--memory 2000] [-C 0.02]

--memory is in MB.  Two stores that have as many blocks within their memories, and the cost per nonzero of both: to the
first gap by one pass a visit and no working set (of the median outer iteration after the first one, without a
certificate), also inside a memory cgroup (version 1) where one can be made, so that the page cache counts too; to the
second gap by the default settings.  --growth: stores of any size within one memory, to a gap of 1e-3.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median

from experiments.runs import ROOT, begin, described, drop_from_cache, parser, readings, row, table, train

PARENT = Path("/sys/fs/cgroup/memory")
BEYOND = 300_000_000  # bytes above the budget: interpreter, libraries, compiled kernels
PLAIN = ("--schedule", 1, "--working-set", "none")


def caged(folder: Path, limit: int):
    """A function that puts the calling process into a new memory cgroup; OSError where none can be made."""
    folder.mkdir()
    (folder / "memory.limit_in_bytes").write_text(str(limit))
    return lambda: (folder / "cgroup.procs").write_text(str(os.getpid()))


def one_run(store: Path, memory: int, limited: bool, C: float, tol: float, *more: object) -> list[object]:
    """Cells of one run."""
    drop_from_cache(store)
    cage, enter, limit = PARENT / f"blocksvm-{os.getpid()}", None, "none"
    if limited:
        try:
            enter = caged(cage, memory + BEYOND)
        except OSError as error:
            limit = f"none could be made: {error.strerror}"
    with tempfile.TemporaryDirectory(dir=store.parent) as name:
        trace = Path(name, "trace.jsonl")
        given = ["--memory", f"{memory}B", "--tol", tol, "-C", C, *more, "--log", trace, "--quiet"]
        line = [sys.executable, "-m", "blocksvm.train", store, Path(name, "model.h5"), *given]
        child = subprocess.Popen(list(map(str, line)), cwd=ROOT, stdout=subprocess.DEVNULL, preexec_fn=enter)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if enter:
            peak = int((cage / "memory.max_usage_in_bytes").read_text())
            limit = f"{(memory + BEYOND) / 1e6:,.0f} / {peak / 1e6:,.0f}"
            cage.rmdir()
        if child.returncode:
            raise RuntimeError(f"train ended with status {child.returncode}")
        first, *events, end = [json.loads(text) for text in trace.read_text().splitlines()]
    outers = [event for event in events if event["event"] == "outer"]
    plain = [after["seconds"] - before["seconds"] for before, after in pairwise(outers)
             if after["certificate_share"] is None]  # fmt: skip
    cost = f"{median(plain) / first['n_nonzeros'] * 1e9:.2f}" if plain else ""
    csr = f"{8 * (first['n_nonzeros'] + first['n_samples']) / 1e9:.2f}"
    return [store.stem, f"{first['n_nonzeros']:,}", csr, first["blocks"], f"{memory / 1e6:,.0f}", limit,
            f"{usage.ru_maxrss * 1024 / 1e6:,.0f}", f"{end['seconds']:.1f}", f"{end['rel_gap']:.1e}", len(outers),
            cost]  # fmt: skip


def growth(stores: list[Path], memory: float, C: float) -> None:
    table(f"C {C}, --memory {memory:.0f} MB, gap 1e-3: one machine", "store", "nonzeros", "raw CSR, GB", "store, GB",
          "blocks", "readings", "seconds", "gap", "ns a nonzero and reading", "peak, MB")  # fmt: skip
    for store in stores:
        about = described(store)
        drop_from_cache(store)
        with tempfile.TemporaryDirectory() as folder:
            events, ran = train(store, Path(folder) / "m.h5", "--memory", round(1e6 * memory), "-C", C)
        n, seconds, times = about["n_nonzeros"], events[-1]["seconds"], readings(events)
        row(store.stem, f"{n:,}", f"{8e-9 * n + 8e-9 * about['n_samples']:.2f}", f"{store.stat().st_size / 1e9:.2f}",
            events[0]["blocks"], f"{times:.0f}", f"{seconds:.1f}", f"{events[-1]['rel_gap']:.1e}",
            f"{1e9 * seconds / n / times:.2f}", f"{ran.peak_mb:.0f}")  # fmt: skip


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", type=Path, nargs="+", metavar="STORE.h5")
    p.add_argument("--growth", action="store_true")
    p.add_argument("--memory", type=float, default=2000)
    p.add_argument("--small-memory", type=float, default=250)
    p.add_argument("-C", type=float, default=0.02)
    p.add_argument("--tol", type=float, nargs=2, default=[1e-2, 1e-3])
    options = p.parse_args()
    begin()
    if options.growth:
        return growth(options.stores, options.memory, options.C)
    big, small = (path.resolve() for path in options.stores)
    stores = [(small, round(1e6 * options.small_memory)), (big, round(1e6 * options.memory))]
    columns = ["store", "nonzeros", "raw CSR, GB", "blocks", "--memory, MB", "cgroup limit / peak, MB",
               "peak of the process, MB", "seconds", "certified gap", "outer iterations"]  # fmt: skip
    loose, tight = options.tol
    table(f"C = {options.C:g}, gap {loose:g}, one pass a visit", *columns, "ns a nonzero")
    for limited in (False, True):
        for store, memory in stores:
            row(*one_run(store, memory, limited, options.C, loose, *PLAIN))
    table(f"C = {options.C:g}, gap {tight:g}, default settings", *columns)
    for store, memory in stores:
        row(*one_run(store, memory, False, options.C, tight)[:-1])
    return None


if __name__ == "__main__":
    main()
