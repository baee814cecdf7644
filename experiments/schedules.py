"""Schedules on a slow disk: seconds to a certified gap by the fixed numbers of passes, by overlap and by auto, with a
reader that is held back to a given bandwidth.

    python -m experiments.schedules STORE.h5 [--memory 138000000] [--tol 1e-3] [--bandwidths 50,100,inf] [--repeats 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np

from blocksvm.api import fit
from blocksvm.sources.store.reader import Store

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


def seconds_to_gap(path: Path, bandwidth: float, schedule: str, memory: int, tol: float) -> dict:
    """One run: seconds from the opening of the store to the certificate, outer iterations, passes a visit."""
    began = time.perf_counter()
    with SlowStore(path) as store:
        store.bandwidth = bandwidth
        result = fit(store, schedule=schedule, memory=memory, tol=tol).result
    return {
        "seconds": time.perf_counter() - began,
        "outer": result.outer,
        "passes": statistics.mean(result.passes),
        "rel_gap": result.certificate.rel_gap,
    }


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("store", type=Path)
    p.add_argument("--memory", type=int, default=138_000_000)
    p.add_argument("--tol", type=float, default=1e-3)
    p.add_argument("--bandwidths", default="50,100,200,inf", help="MB/s of compressed bytes")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--json", type=Path)
    options = p.parse_args()
    bandwidths = [float(text) for text in options.bandwidths.split(",")]
    seconds_to_gap(options.store, float("inf"), "2", options.memory, 1e-1)  # loads the kernels
    runs: dict[float, dict[str, list[dict]]] = {b: {s: [] for s in SCHEDULES} for b in bandwidths}
    for _ in range(options.repeats):
        for bandwidth in bandwidths:
            for schedule in SCHEDULES:
                run = seconds_to_gap(options.store, bandwidth * 1e6, schedule, options.memory, options.tol)
                runs[bandwidth][schedule].append(run)
    print(f"median seconds to a certified gap of {options.tol:g} (outer iterations, passes a visit)\n")
    print("| MB/s | " + " | ".join(SCHEDULES) + " | auto / best fixed | overlap / best fixed |")
    print("|---" * (len(SCHEDULES) + 3) + "|")
    for bandwidth, by_schedule in runs.items():
        median = {s: statistics.median(run["seconds"] for run in found) for s, found in by_schedule.items()}
        best = min(median[s] for s in SCHEDULES if s.isdigit())
        cells = [f"{median[s]:.2f} ({found[0]['outer']}, {found[0]['passes']:.1f})" for s, found in by_schedule.items()]
        ratios = [f"{median[s] / best:.2f}" for s in ("auto", "overlap")]
        print("| " + " | ".join([f"{bandwidth:g}", *cells, *ratios]) + " |")
    if options.json:
        options.json.write_text(json.dumps({str(b): found for b, found in runs.items()}, indent=1))


if __name__ == "__main__":
    main()
