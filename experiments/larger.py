"""Larger than memory: seconds and readings from a store on disk to a certified gap.

    python -m experiments.larger STORE.h5 ... [--memory 2000] [-C 0.02]
    python -m experiments.larger STORE.h5 ... --bandwidths 50,500

The first: stores of any size within one memory (in MB), from a cold cache.  bandwidths: by disk speed (MB/s of
compressed bytes at which a reader is held back), memory, working set and inner passes of a visit; all runs are made in
one process, whose kernels are loaded.
"""

import time
from itertools import product
from pathlib import Path

import numpy as np

from blocksvm import fit
from blocksvm.store.reader import Store
from experiments.runs import Clock, budget, drop_from_cache, outers, readings, row, scratch, script, table, train

SCHEDULES = ("1", "3", "10", "overlap", "auto")
SHARES = (("8", "auto"), ("8", "none"), ("32", "auto"))  # of the memory, working set


def sizes(options) -> None:
    table(f"C = {options.C:g}, --memory {options.memory} MB", "store", "nonzeros", "raw CSR, GB", "store, GB", "blocks",
          "readings", "seconds", "gap", "ns a nonzero and reading", "peak, MB")  # fmt: skip
    for store in map(Path, options.stores):
        drop_from_cache(store)
        with scratch() as folder:
            events, ran = train(store, folder / "model.h5", "--memory", f"{options.memory}MB", "-C", options.C)
        first, last, times = events[0], events[-1], readings(events)
        n = first["n_nonzeros"]
        row(store.stem, f"{n:,}", f"{8 * (n + first['n_samples']) / 1e9:.2f}", f"{store.stat().st_size / 1e9:.2f}",
            first["blocks"], f"{times:.0f}", f"{last['seconds']:.1f}", f"{last['rel_gap']:.1e}",
            f"{1e9 * last['seconds'] / times / n:.2f}", f"{ran.peak_mb:,.0f}")  # fmt: skip


class SlowStore(Store):
    """A store whose blocks arrive no faster than ``bandwidth`` bytes a second."""

    bandwidth = float("inf")

    def read_block(self, chunks: np.ndarray, arena):
        clock, before = Clock(), self.cost.bytes_read
        block = super().read_block(chunks, arena)
        time.sleep(max(0.0, (self.cost.bytes_read - before) / self.bandwidth - clock.part()))
        return block


def fitted(path: Path, bandwidth: float, **settings) -> tuple[float, str]:
    """Seconds from the opening of the store to the certificate; with them readings of all rows, and MB read."""
    clock, events = Clock(), []
    with SlowStore(path) as store:
        store.bandwidth = 1e6 * bandwidth
        fit(store, on_event=events.append, **settings)
    seconds, read = clock.part(), sum(event["bytes_read"] for event in outers(events)) / 1e6
    return seconds, f"{seconds:.2f} ({readings(events):.0f}, {read:.0f})"


def schedules(options) -> None:
    table("seconds to a certified gap of 1e-3 (readings of all rows, MB read)", "data", "memory, working set, MB/s",
          *SCHEDULES, "auto / best fixed")  # fmt: skip
    for path in map(Path, options.stores):
        fitted(path, float("inf"), memory=budget(path, "8"), tol=0.1)  # loads the kernels
        for (share, kind), bandwidth in product(SHARES, options.bandwidths.split(",")):
            given = {"memory": budget(path, share), "working_set": kind}
            found = {schedule: fitted(path, float(bandwidth), schedule=schedule, **given) for schedule in SCHEDULES}
            ratio = found["auto"][0] / min(found[schedule][0] for schedule in ("1", "3", "10"))
            row(path.stem, f"1/{share}, {kind}, {bandwidth}", *(cell for _, cell in found.values()), f"{ratio:.2f}")


@script("stores+", memory=2000, C=0.02, bandwidths="")
def main(options) -> None:
    (schedules if options.bandwidths else sizes)(options)
