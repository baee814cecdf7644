"""Larger than memory: a store trained within its budget, inside a memory cgroup where one can be made (so that the page
cache counts too), beside a smaller store with as many blocks; cost per nonzero of both.

    tools/make_store.py big.h5 --rows 56000000 --features 20000000
    tools/make_store.py small.h5 --rows 1120000 --features 20000000
    python -m experiments.larger big.h5 small.h5 --memory 2000000000 --small-memory BYTES [-C 0.02] [--tol 1e-2]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

from experiments.processes import ROOT, drop_from_cache
from experiments.report import machine

PARENT = Path("/sys/fs/cgroup/memory")  # of version 1
BEYOND = 300_000_000  # bytes above the budget: interpreter, libraries, compiled kernels


class Cage:
    """A memory cgroup of version 1 for one child process and all that it reads; None where none can be made."""

    def __init__(self, limit: int):
        self.folder = PARENT / f"blocksvm-{os.getpid()}"
        try:
            self.folder.mkdir()
            (self.folder / "memory.limit_in_bytes").write_text(str(limit))
            self.limit = int((self.folder / "memory.limit_in_bytes").read_text())
        except OSError as error:
            self.limit, self.why_not = None, str(error)

    def enter(self) -> None:
        """In the child, before it becomes another program."""
        if self.limit is not None:
            (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def told(self) -> dict:
        if self.limit is None:
            return {"cgroup": f"none could be made: {self.why_not}"}
        names = ("max_usage_in_bytes", "failcnt")
        found = {name: int((self.folder / f"memory.{name}").read_text()) for name in names}
        return {"cgroup_limit": self.limit, "cgroup_peak": found["max_usage_in_bytes"], "reclaims": found["failcnt"]}

    def remove(self) -> None:
        if self.limit is not None:
            self.folder.rmdir()


def resident_bytes(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in text.splitlines() if line.startswith("VmRSS")), 0)


def train(store: Path, memory: int, C: float, tol: float, caged: bool) -> dict:
    """One run from a cold cache: its outer iterations, the memory that it held."""
    drop_from_cache(store)
    cage = Cage(memory + BEYOND) if caged else None
    with tempfile.TemporaryDirectory(dir=store.parent, prefix="larger-") as name:
        trace = Path(name, "trace.jsonl")
        command = [sys.executable, "-m", "blocksvm.train", store, Path(name, "model.h5"), "--memory", f"{memory}B",
                   "--tol", repr(tol), "-C", repr(C), "--schedule", "1", "--quiet", "--log", trace]  # fmt: skip
        child = subprocess.Popen(list(map(str, command)), cwd=ROOT, stdout=subprocess.DEVNULL,
                                 preexec_fn=cage.enter if cage else None)  # fmt: skip
        held: list[int] = []

        def watch() -> None:
            while child.returncode is None:
                held.append(resident_bytes(child.pid))
                time.sleep(0.5)

        watcher = threading.Thread(target=watch)
        watcher.start()
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        watcher.join()
        told = cage.told() if cage else {}
        if cage:
            cage.remove()
        if child.returncode:
            raise SystemExit(f"blocksvm.train ended with status {child.returncode}")
        events = [json.loads(line) for line in trace.read_text().splitlines()]
    outers = [event for event in events if event["event"] == "outer"]
    spent = [b["seconds"] - a["seconds"] for a, b in zip([{"seconds": 0.0}, *outers], outers, strict=False)]
    # the first iteration also loads kernels and touches the weights for the first time
    plain = [s for s, event in list(zip(spent, outers, strict=True))[1:] if event["certificate_share"] is None]
    nonzeros = events[0]["n_nonzeros"]
    shown = ("outer", "seconds", "primal", "rel_gap", "gap_estimate")
    tenths = [held[k * len(held) // 10 : (k + 1) * len(held) // 10 + 1] for k in range(10)]
    return told | {
        "store": store.name, "nonzeros": nonzeros, "rows": events[0]["n_samples"], "blocks": events[0]["blocks"],
        "memory": memory, "peak_rss": usage.ru_maxrss * 1024, "rss_by_tenth": [max(tenth) for tenth in tenths],
        "seconds": events[-1]["seconds"], "rel_gap": events[-1]["rel_gap"], "status": events[-1]["status"],
        "outers": [{key: event[key] for key in shown} for event in outers],
        "ns_a_nonzero": median(plain) / nonzeros * 1e9,
    }  # fmt: skip


COLUMNS = ("store", "nonzeros", "raw CSR, GB", "blocks", "--memory, MB", "cgroup limit / peak, MB",
           "peak of the process, MB", "seconds", "certified gap", "outer iterations", "ns a nonzero")  # fmt: skip


def markdown(runs: list[dict]) -> str:
    """A line for each run, and how much memory each held while it went on."""
    m = machine()
    lines = ["# Larger than memory", "", f"{m['date']}; {m['cpu']}, {m['cores']} cores, {m['ram_gb']} GB RAM. "
             "Cold cache, --schedule 1. Cost: median outer iteration after the first, no certificate.", ""]  # fmt: skip
    lines += ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for run in runs:
        cage = run.get("cgroup", "not limited")
        if "cgroup_limit" in run:
            cage = f"{run['cgroup_limit'] / 1e6:,.0f} / {run['cgroup_peak'] / 1e6:,.0f}"
        csr = 8 * (run["nonzeros"] + run["rows"]) / 1e9
        cells = (
            run["store"], f"{run['nonzeros']:,}", f"{csr:.2f}", str(run["blocks"]), f"{run['memory'] / 1e6:,.0f}", cage,
            f"{run['peak_rss'] / 1e6:,.0f}", f"{run['seconds']:.1f}", f"{run['rel_gap']:.1e}", str(len(run["outers"])),
            f"{run['ns_a_nonzero']:.2f}",
        )  # fmt: skip
        lines.append("| " + " | ".join(cells) + " |")
    lines += ["", "Largest resident memory in each tenth of the run, MB:", ""]
    for run in runs:
        lines.append(f"- {run['store']}: " + ", ".join(f"{held / 1e6:,.0f}" for held in run["rss_by_tenth"]))
    return "\n".join(lines) + "\n"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("big", type=Path)
    p.add_argument("small", type=Path)
    p.add_argument("--memory", type=int, default=2_000_000_000)
    p.add_argument("--small-memory", type=int, default=250_000_000)
    p.add_argument("-C", type=float, default=0.02)
    p.add_argument("--tol", type=float, default=1e-2)
    options = p.parse_args()
    runs = []
    for store, memory, caged in (
        (options.small, options.small_memory, False),
        (options.big, options.memory, True),
        (options.small, options.small_memory, True),
        (options.big, options.memory, False),
    ):
        runs.append(train(store.resolve(), memory, options.C, options.tol, caged))
        print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    print(markdown(runs))


if __name__ == "__main__":
    main()
