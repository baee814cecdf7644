"""Schedules on a slow disk: seconds to a certified gap by the fixed numbers of passes, by overlap and by auto, with the
working set and without, with a reader that is held back to a given bandwidth.

    python -m experiments.schedules STORE.h5 [--memory 138000000] [--tol 1e-3] [--bandwidths 50,100,inf] [--repeats 3]
                                    [--working-sets auto,none] [--schedules 1,3,overlap,auto]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

from blocksvm.store.reader import Store
from blocksvm.training.fit import fit

SCHEDULES = ("1", "2", "3", "5", "overlap", "auto")


class SlowStore(Store):
    """A store whose blocks arrive no faster than ``bandwidth`` bytes a second."""

    bandwidth = float("inf")

    def read_block(self, chunks: np.ndarray, arena):
        began, before = time.perf_counter(), self.cost.bytes_read
        block = super().read_block(chunks, arena)
        due = (self.cost.bytes_read - before) / self.bandwidth
        time.sleep(max(0.0, due - (time.perf_counter() - began)))
        return block


def seconds_to_gap(path: Path, bandwidth: float, schedule: str, working_set: str, memory: int, tol: float) -> dict:
    """One run: seconds from the opening of the store to the certificate, readings of all rows, passes, MB read."""
    began = time.perf_counter()
    outers: list[dict] = []
    with SlowStore(path) as store:
        store.bandwidth = bandwidth
        settings = {"schedule": schedule, "working_set": working_set, "memory": memory, "tol": tol}
        result = fit(store, on_event=lambda e: outers.append(e) if e["event"] == "outer" else None, **settings).result
    return {
        "seconds": time.perf_counter() - began,
        "readings": sum((event["blocks"] > 0) + (event["certificate_share"] or 0.0) for event in outers),
        "mb_read": sum(event["bytes_read"] for event in outers) / 1e6,
        "passes": statistics.mean(result.passes),
        "set_passes": sum(result.set_passes),
        "rel_gap": result.certificate.rel_gap,
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("store", type=Path)
    p.add_argument("--memory", type=int, default=138_000_000)
    p.add_argument("--tol", type=float, default=1e-3)
    p.add_argument("--bandwidths", default="50,100,200,inf", help="MB/s of compressed bytes")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--schedules", default=",".join(SCHEDULES))
    p.add_argument("--working-sets", default="auto,none")
    p.add_argument("--json", type=Path)
    options = p.parse_args()
    bandwidths = [float(text) for text in options.bandwidths.split(",")]
    schedules, sets = options.schedules.split(","), options.working_sets.split(",")
    seconds_to_gap(options.store, float("inf"), "2", "auto", options.memory, 1e-1)  # loads the kernels
    runs: dict[tuple[float, str], dict[str, list[dict]]] = {(b, w): {s: [] for s in schedules} for b in bandwidths
                                                            for w in sets}  # fmt: skip
    for _ in range(options.repeats):
        for (bandwidth, working_set), by_schedule in runs.items():
            for schedule, found in by_schedule.items():
                asked = (bandwidth * 1e6, schedule, working_set, options.memory, options.tol)
                found.append(seconds_to_gap(options.store, *asked))
    print(f"median seconds to a certified gap of {options.tol:g} (readings of all rows, MB read)\n")
    print("| MB/s, working set | " + " | ".join(schedules) + " | auto / best fixed | overlap / best fixed |")
    print("|---" * (len(schedules) + 3) + "|")
    for (bandwidth, working_set), by_schedule in runs.items():
        median = {s: statistics.median(run["seconds"] for run in found) for s, found in by_schedule.items()}
        best = min((median[s] for s in schedules if s.isdigit()), default=float("nan"))
        cells = [f"{median[s]:.2f} ({found[0]['readings']:.0f}, {found[0]['mb_read']:.0f})"
                 for s, found in by_schedule.items()]  # fmt: skip
        ratios = [f"{median[s] / best:.2f}" if s in median else "" for s in ("auto", "overlap")]
        print("| " + " | ".join([f"{bandwidth:g}, {working_set}", *cells, *ratios]) + " |", flush=True)
    if options.json:
        kept = {f"{bandwidth} {working_set}": found for (bandwidth, working_set), found in runs.items()}
        options.json.write_text(json.dumps(kept, indent=1))


if __name__ == "__main__":
    main()
