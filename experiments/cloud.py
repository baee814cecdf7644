"""Training from an object store held back to the latency and rate of a network, beside the same store on this disk.

python -m experiments.cloud STORE.h5 [...] [--share 8] [--latency 50] [--rate 200] [-C 1] [--repeats 3]
    [--json FILE]

Latency in milliseconds, rate in MB a second; both may be given several times, and all pairs are measured.  Each run is
held against the larger of its seconds from the disk and its bytes / rate, and its weights against those from the disk.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from blocksvm.model.model_file import load_model
from experiments.measuring import ROOT, Tables, budget, parser, read_through, train


@contextmanager
def network(folder: Path, latency: float, rate: float):
    """The address of a server of the folder's files."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "experiments.network", str(folder), str(port), str(latency), str(rate)]
    server = subprocess.Popen(words, cwd=ROOT)
    try:
        for _ in range(100):
            with socket.socket() as there:
                if there.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


def served(address: str) -> dict:
    """Requests, bytes and the most requests at once since the last question."""
    with urllib.request.urlopen(f"{address}/served") as answer:
        return json.load(answer)


def total(events: list[dict], name: str) -> float:
    return sum(event[name] for event in events if event["event"] == "outer")


class Measured(NamedTuple):
    """A run from the store: its seconds over the larger of those from the disk and of its bytes at the rate."""

    ratio: float
    disk: float
    wire: float
    seconds: float
    n_bytes: float
    requests: int
    most: int
    peak_mb: float
    same: bool


def measured(store: Path, folder: Path, address: str, rate: float, settings: tuple) -> Measured:
    """One run from the disk, one from the network."""
    ours, theirs = folder / "ours.h5", folder / "theirs.h5"
    local, _ = train(store, ours, *settings)
    served(address)
    events, done = train(f"{address}/{store.name}", theirs, *settings)
    asked, n_bytes = served(address), total(events, "bytes_read")
    disk, wire, seconds = local[-1]["seconds"], n_bytes / rate / 1e6, events[-1]["seconds"]
    same = np.array_equal(load_model(ours).weights, load_model(theirs).weights)
    return Measured(
        seconds / max(disk, wire), disk, wire, seconds, n_bytes, asked["requests"], asked["most"], done.peak_mb, same
    )


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", nargs="+", type=Path, metavar="STORE.h5")
    p.add_argument("--share", default="8")
    p.add_argument("--memory", type=int, help="bytes, in place of a share")
    p.add_argument("--latency", action="append", type=float)
    p.add_argument("--rate", action="append", type=float)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("-C", default="1")
    options = p.parse_args()
    tables = Tables(options)
    tables.begin(
        "Certified runs from an object store", "store", "memory, MB", "network", "disk, s", "bytes / rate, s", "run, s",
        "of the larger", "requests", "each 8 MB", "most at once", "peak - memory, MB", "same bits",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as place:
        for store in options.stores:
            memory = options.memory or budget(store, options.share)
            settings = ("--memory", memory, "-C", options.C)
            read_through(store)
            train(store, Path(place) / "ours.h5", *settings, "--max-outer", 1)  # compiled, whatever comes
            for latency, rate in product(options.latency or [50.0], options.rate or [200.0]):
                with network(store.resolve().parent, latency / 1e3, rate * 1e6) as address:
                    runs = [measured(store, Path(place), address, rate, settings) for _ in range(options.repeats)]
                one = sorted(runs)[len(runs) // 2]
                tables.row(
                    store.stem, f"{memory / 1e6:.0f}", f"{latency:g} ms, {rate:g} MB/s", f"{one.disk:.1f}",
                    f"{one.wire:.1f}", f"{one.seconds:.1f}", f"{one.ratio:.2f}", one.requests,
                    f"{one.requests / max(1.0, one.n_bytes / 8e6):.1f}", max(run.most for run in runs),
                    f"{max(run.peak_mb for run in runs) - memory / 1e6:.0f}",
                    "yes" if all(run.same for run in runs) else "no",
                )  # fmt: skip
    tables.end()


if __name__ == "__main__":
    main()
