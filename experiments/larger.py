"""Larger than memory: a store trained within its budget, inside a memory cgroup where one can be made (so that the page
cache counts too), beside a smaller store with as many blocks; cost per nonzero of both.

    python -m experiments.larger BIG.h5 SMALL.h5 [--memory 2000] [--small-memory 250] [-C 0.02] [--tol 1e-2 1e-3]
        [--json FILE]

Stores are those of ``tools/make_store.py``; --memory is in MB.  The cache is cold.  The first table, to the first gap,
is of one pass a visit and no working set.  Its cost is that of the median outer iteration after the first one, without
a certificate.  The second, to the other gap, is of the default settings.
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

from experiments.measuring import ROOT, Tables, drop_from_cache, parser

PARENT = Path("/sys/fs/cgroup/memory")  # of version 1
BEYOND = 300_000_000  # bytes above the budget: interpreter, libraries, compiled kernels


def caged(folder: Path, limit: int):
    """A function that puts the calling process into a new memory cgroup; OSError where none can be made."""
    folder.mkdir()
    (folder / "memory.limit_in_bytes").write_text(str(limit))
    return lambda: (folder / "cgroup.procs").write_text(str(os.getpid()))


PLAIN = ("--schedule", 1, "--working-set", "none")


def train(store: Path, memory: int, limited: bool, C: float, tol: float, *more: object) -> list[object]:
    """Cells of one run from a cold cache."""
    drop_from_cache(store)
    cage, enter, limit = PARENT / f"blocksvm-{os.getpid()}", None, "none"
    if limited:
        try:
            enter = caged(cage, memory + BEYOND)
        except OSError as error:
            limit = f"none could be made: {error.strerror}"
    with tempfile.TemporaryDirectory(dir=store.parent, prefix="larger-") as name:
        trace = Path(name, "trace.jsonl")
        given = ["--memory", f"{memory}B", "--tol", tol, "-C", C, *more, "--log", trace]
        line = [sys.executable, "-m", "blocksvm.train", store, Path(name, "model.h5"), *given, "--quiet"]
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
    peak, gap = f"{usage.ru_maxrss * 1024 / 1e6:,.0f}", f"{end['rel_gap']:.1e}"
    return [store.stem, f"{first['n_nonzeros']:,}", csr, first["blocks"], f"{memory / 1e6:,.0f}", limit, peak,
            f"{end['seconds']:.1f}", gap, len(outers), cost]  # fmt: skip


def main() -> None:
    p = parser(__doc__)
    p.add_argument("big", type=Path)
    p.add_argument("small", type=Path)
    p.add_argument("--memory", type=float, default=2000)
    p.add_argument("--small-memory", type=float, default=250)
    p.add_argument("-C", type=float, default=0.02)
    p.add_argument("--tol", type=float, nargs=2, default=[1e-2, 1e-3])
    options = p.parse_args()
    tables = Tables(options)
    stores = [(options.small.resolve(), round(1e6 * options.small_memory))]
    stores += [(options.big.resolve(), round(1e6 * options.memory))]
    columns = ["store", "nonzeros", "raw CSR, GB", "blocks", "--memory, MB", "cgroup limit / peak, MB",
               "peak of the process, MB", "seconds", "certified gap", "outer iterations"]  # fmt: skip
    loose, tight = options.tol
    tables.begin(f"C = {options.C:g}, gap {loose:g}, one pass a visit", *columns, "ns a nonzero")
    for limited in (False, True):
        for store, memory in stores:
            tables.row(*train(store, memory, limited, options.C, loose, *PLAIN))
    tables.begin(f"C = {options.C:g}, gap {tight:g}, default settings", *columns)
    for store, memory in stores:
        tables.row(*train(store, memory, False, options.C, tight)[:-1])
    tables.end()


if __name__ == "__main__":
    main()
