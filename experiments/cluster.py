"""Training on one machine, and where two workers screen the rows: in how many readings both end, and what each costs.

    python -m experiments.cluster STORE.h5 ... [--loss hinge] [-C 1] [--repeats 3]
    python -m experiments.cluster SMALL.h5 LARGE.h5 --limits [-C 1]

Whole commands in turn, on one machine and with ``--cluster local:2``; medians.  Both have an eighth of the rows' memory
beside their state.  --limits: from two stores of one kind how the time grows with the nonzeros, and where more workers
stop helping: a reading takes as long as the process that trains is busy, as the workers' work by their number, or as
its bytes at 10 Gbit/s, whichever is the longest.
"""

from __future__ import annotations

import math
import tempfile
import threading
from pathlib import Path
from statistics import median

import psutil

from experiments.runs import begin, described, outers, read_through, readings, row, table, train

VERSIONS = 5  # copies of w, of a run whose workers screen
PART = 60  # bytes for each nonzero of a part, of parts under way
NETWORK = 1.25e9  # bytes a second
WORKERS = 2, 4, 8, 16, 64
LARGE, ENOUGH = (10e9, 100e9), 1.1  # nonzeros; times the least time, above which more workers are worth it


def summed(events: list[dict], *names: str) -> float:
    return sum(event[name] for event in outers(events) for name in names)


def budgets(about: dict) -> tuple[int, int]:
    """Of one machine, and of the process that trains where workers screen."""
    w, n, nonzeros = 8 * (about["n_features"] + 1), about["n_samples"], about["n_nonzeros"]
    alone = w + 13 * n + 4_000_000 + nonzeros
    return alone, alone + VERSIONS * w + n + PART * min(1 << 23, (nonzeros + n) // 32)


class Messages(threading.Thread):
    """Watches the processes that the commands of this one start: the share of the processor time of the process that
    trains that its thread of messages has."""

    def __init__(self):
        super().__init__(daemon=True)
        self.share, self.total, self.ended = 0.0, 0.0, threading.Event()
        self.start()

    def run(self) -> None:
        while not self.ended.wait(0.2):
            for process in psutil.Process().children(recursive=True):
                try:
                    if "blocksvm.train" in process.cmdline()[:3]:
                        times = sorted(one.user_time + one.system_time for one in process.threads())
                        if sum(times) > self.total:  # not while it ends
                            self.share, self.total = times[-2] / sum(times), sum(times)
                except (psutil.Error, IndexError):
                    continue


def compared(options) -> None:
    table(f"{options.loss}, C = {options.C:g}, gap 1e-3: processor seconds, medians of {options.repeats}", "data",
          "nonzeros", "readings, one machine", "readings, screened", "one machine", "local:2", "ratio",
          "workers' work", "moving and set", "MB sent", "MB received", "messages' share", "peak, MB")  # fmt: skip
    given = "--loss", options.loss, "-C", options.C, "--memory"
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model.h5")
        for path in map(Path, options.stores):
            read_through(path)
            about, found = described(path), []
            alone, leading = budgets(about)
            for _ in range(options.repeats):
                of_one, here = train(path, model, *given, alone)
                watching = Messages()
                events, there = train(path, model, *given, leading, "--cluster", "local:2")
                watching.ended.set()
                found.append((readings(of_one), readings(events), here.cpu, there.cpu, there.cpu / here.cpu,
                              summed(events, "seconds_workers"), summed(events, "seconds_training", "set_seconds"),
                              summed(events, "bytes_sent") / 1e6, summed(events, "bytes_received") / 1e6,
                              watching.share, there.peak_mb))  # fmt: skip
            one, two, *seconds, sent, received, share, peak = map(median, zip(*found, strict=True))
            row(path.stem, f"{about['n_nonzeros'] / 1e6:,.0f} M", f"{one:.0f}", f"{two:.0f}",
                *(f"{s:.1f}" for s in seconds), f"{sent:,.0f}", f"{received:,.0f}", f"{share:.0%}",
                f"{peak:,.0f}")  # fmt: skip


def limits(options) -> None:
    """Runs of the two stores, one each; then the times at larger sizes."""
    runs, sizes = [], []
    with tempfile.TemporaryDirectory() as folder:
        for path in map(Path, options.stores):
            read_through(path)
            about = described(path)
            alone, leading = budgets(about)
            given = path, Path(folder, "model.h5"), "--loss", options.loss, "-C", options.C, "--memory"
            of_one, events = train(*given, alone)[0], train(*given, leading, "--cluster", "local:2")[0]
            sizes.append(about["n_nonzeros"])
            runs.append((of_one[-1]["seconds"], costs(events)))
    growth = math.log(sizes[1] / sizes[0])
    of_one = math.log(runs[1][0] / runs[0][0]) / growth
    totals = [[sum(costs) for costs in zip(*of_run, strict=True)] for _, of_run in runs]
    grown = [math.log(large / small) / growth for small, large in zip(*totals, strict=True)]
    table(f"C = {options.C:g}, from {sizes[0] / 1e6:,.0f} M and {sizes[1] / 1e6:,.0f} M nonzeros: one machine's time "
          f"grows as N^{of_one:.2f}, of the process that trains, the workers and the bytes as "
          f"{', '.join(f'N^{e:.2f}' for e in grown)}; minutes", "data", "nonzeros", "one machine",
          *(f"{k} workers" for k in WORKERS), "at best", "workers for that", "bound by")  # fmt: skip
    for n in LARGE:
        scale = n / sizes[1]
        parts = [tuple(cost * scale**e for cost, e in zip(one, grown, strict=True)) for one in runs[1][1]]

        def seconds(k: float, parts=parts) -> float:
            return sum(max(busy, work / k, n_bytes / NETWORK) for busy, work, n_bytes in parts)

        best = seconds(math.inf)
        enough = next(k for k in range(1, 10_000) if seconds(k) <= ENOUGH * best)
        busy, sending = sum(part[0] for part in parts), sum(part[2] for part in parts) / NETWORK
        row(Path(options.stores[1]).stem, f"{n / 1e9:.0f} G", f"{runs[1][0] * scale**of_one / 60:.0f}",
            *(f"{seconds(k) / 60:.0f}" for k in WORKERS), f"{best / 60:.0f}", enough,
            "moving rows and the set" if busy > sending else "the network")  # fmt: skip


def costs(events: list[dict]) -> list[tuple[float, float, float]]:
    """Of each outer iteration: seconds for which the process that trains was busy, the workers', and bytes."""
    found, before = [], 0.0
    for one in outers(events):
        busy = one["seconds"] - before - one["seconds_waiting"]
        found.append((busy, one["seconds_workers"], one["bytes_sent"] + one["bytes_received"]))
        before = one["seconds"]
    return found


def main() -> None:
    options = begin(__doc__, "stores", loss="hinge", C=1.0, repeats=3, limits=False)
    (limits if options.limits else compared)(options)


if __name__ == "__main__":
    main()
