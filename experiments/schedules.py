"""Seconds to a certified gap by disk speed, memory, working set and inner passes of a visit; and what compressed blocks
save (Yu, Hsieh, Chang, Lin, KDD 2010).

    python -m experiments.schedules STORE.h5 [--tol 1e-3] [--bandwidths 50,150,500,inf] [--shares 8,32]
        [--schedules 1,3,10,overlap,auto] [--working-sets auto,none] [--repeats 1] [--figure FILE.png]
    python -m experiments.schedules STORE.h5 ... --compression

The figure is the map: seconds by bandwidth, a line for each schedule, a panel for each share and working set.
Bandwidths are MB/s of compressed bytes at which a reader is held back.  All runs are made in one process, whose kernels
are loaded.  A working set is left out (none) for the first share of the memory alone.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import numpy as np

from blocksvm.api.fit import fit
from blocksvm.store.reader import Store
from experiments.runs import begin, budget, listed, panels, parser, row, table


class SlowStore(Store):
    """A store whose blocks arrive no faster than ``bandwidth`` bytes a second."""

    bandwidth = float("inf")

    def read_block(self, chunks: np.ndarray, arena):
        began, before = time.perf_counter(), self.cost.bytes_read
        block = super().read_block(chunks, arena)
        due = (self.cost.bytes_read - before) / self.bandwidth
        time.sleep(max(0.0, due - (time.perf_counter() - began)))
        return block


def seconds_to_gap(path: Path, bandwidth: float, **settings) -> tuple[float, float, float]:
    """(seconds from the opening of the store to the certificate, readings of all rows, MB read) of one run."""
    began, outers = time.perf_counter(), []
    with SlowStore(path) as store:
        store.bandwidth = 1e6 * bandwidth
        fit(store, on_event=lambda e: outers.append(e) if e["event"] == "outer" else None, **settings)
    readings = sum((event["blocks"] > 0) + (event["certificate_share"] or 0.0) for event in outers)
    return time.perf_counter() - began, readings, sum(event["bytes_read"] for event in outers) / 1e6


def compression(stores: list[Path], bandwidths: list[str]) -> None:
    """A reading of all rows, compressed as stored, and of indices and values as they are in memory."""
    table("seconds of a reading; uncompressed: bytes / bandwidth, without any work", "data", "MB/s", "compressed MB",
          "seconds", "uncompressed MB", "seconds at least")  # fmt: skip
    for path in stores:
        for bandwidth in map(float, bandwidths):
            with SlowStore(path) as store:
                store.bandwidth = 1e6 * bandwidth
                raw = store.n_nonzeros * (4 + store.value_bytes) / 1e6
                began = time.perf_counter()
                for chunks in np.array_split(np.arange(len(store.chunks)), 20):
                    store.read_block(chunks, None)
                seconds, read = time.perf_counter() - began, store.cost.bytes_read / 1e6
            row(path.stem, f"{bandwidth:g}", f"{read:.0f}", f"{seconds:.2f}", f"{raw:.0f}", f"{raw / bandwidth:.2f}")


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", type=Path, nargs="+", metavar="STORE.h5")
    p.add_argument("--compression", action="store_true")
    p.add_argument("--tol", type=float, default=1e-3)
    p.add_argument("--bandwidths", type=listed, default=("50", "150", "500", "inf"))
    p.add_argument("--shares", type=listed, default=("8", "32"))
    p.add_argument("--schedules", type=listed, default=("1", "3", "10", "overlap", "auto"))
    p.add_argument("--working-sets", type=listed, default=("auto", "none"))
    p.add_argument("--repeats", type=int, default=1)
    p.add_argument("--figure", type=Path, metavar="FILE.png")
    options = p.parse_args()
    begin()
    if options.compression:
        return compression(options.stores, options.bandwidths)
    (path,), shares, schedules = options.stores, options.shares, options.schedules
    seconds_to_gap(path, float("inf"), memory=budget(path, shares[0]), tol=0.1)  # loads the kernels
    table(f"{path.stem}: seconds to a certified gap of {options.tol:g} (readings of all rows, MB read)",
          "memory, working set, MB/s", *schedules, "auto / best fixed")  # fmt: skip
    drawn: dict[str, dict[float, dict[str, float]]] = {}  # of a memory and set, by bandwidth: seconds by schedule
    for share in shares:
        for kind in options.working_sets[: None if share == shares[0] else 1]:
            for bandwidth in map(float, options.bandwidths):
                given = {"memory": budget(path, share), "tol": options.tol, "working_set": kind}
                cells, seconds = [], {}
                for schedule in schedules:
                    runs = [seconds_to_gap(path, bandwidth, schedule=schedule, **given) for _ in range(options.repeats)]
                    seconds[schedule] = median(run[0] for run in runs)
                    cells.append(f"{seconds[schedule]:.2f} ({runs[0][1]:.0f}, {runs[0][2]:.0f})")
                drawn.setdefault(f"1/{share} of the memory, working set {kind}", {})[bandwidth] = seconds
                fixed = [seconds[s] for s in schedules if s.isdigit()]
                ratio = f"{seconds['auto'] / min(fixed):.2f}" if fixed and "auto" in seconds else ""
                row(f"1/{share}, {kind}, {bandwidth:g}", *cells, ratio)
    if options.figure:
        draw(options.figure, path.stem, drawn)
    return None


def draw(path: Path, name: str, drawn: dict[str, dict[float, dict[str, float]]]) -> None:
    with panels(path, 1, len(drawn)) as axes:
        for one, (title, by_bandwidth) in zip(axes[0], drawn.items(), strict=True):
            places = range(len(by_bandwidth))
            for schedule in next(iter(by_bandwidth.values())):
                one.plot(places, [seconds[schedule] for seconds in by_bandwidth.values()], marker="o", label=schedule)
            one.set(title=f"{name}, {title}", yscale="log", ylabel="seconds to the gap")
            one.set_xticks(places, ["not held back" if b == float("inf") else f"{b:g} MB/s" for b in by_bandwidth])
            one.legend(fontsize=8, title="inner passes")


if __name__ == "__main__":
    main()
