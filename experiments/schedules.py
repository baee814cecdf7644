"""Seconds to a certified gap by disk speed, memory, working set and inner passes of a visit.

    python -m experiments.schedules STORE.h5 ... [--tol 1e-3] [--bandwidths 50,500]

Bandwidths are MB/s of compressed bytes at which a reader is held back.  All runs are made in one process, whose kernels
are loaded.
"""

import time
from itertools import product
from pathlib import Path

import numpy as np

from blocksvm.api.fit import fit
from blocksvm.store.reader import Store
from experiments.runs import Clock, budget, outers, readings, row, script, table

SCHEDULES = ("1", "3", "10", "overlap", "auto")
SHARES = (("8", "auto"), ("8", "none"), ("32", "auto"))  # of the memory, working set


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


@script("stores", tol=1e-3, bandwidths=("50", "500"))
def main(options) -> None:
    table(f"seconds to a certified gap of {options.tol:g} (readings of all rows, MB read)", "data",
          "memory, working set, MB/s", *SCHEDULES, "auto / best fixed")  # fmt: skip
    for path in map(Path, options.stores):
        fitted(path, float("inf"), memory=budget(path, "8"), tol=0.1)  # loads the kernels
        for (share, kind), bandwidth in product(SHARES, options.bandwidths):
            given = {"memory": budget(path, share), "tol": options.tol, "working_set": kind}
            found = {schedule: fitted(path, float(bandwidth), schedule=schedule, **given) for schedule in SCHEDULES}
            ratio = found["auto"][0] / min(found[schedule][0] for schedule in ("1", "3", "10"))
            row(path.stem, f"1/{share}, {kind}, {bandwidth}", *(cell for _, cell in found.values()), f"{ratio:.2f}")
