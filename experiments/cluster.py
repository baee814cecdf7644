"""Training on one machine, and where two workers screen the rows: in how many readings both end, and what each costs.

    python -m experiments.cluster STORE.h5 ... [--loss hinge] [-C 1] [--repeats 3]
    python -m experiments.cluster SMALL.h5 LARGE.h5 --limits [-C 1]

Whole commands in turn, on one machine and with ``--cluster local:2``; medians.  Both have an eighth of the rows' memory
beside their state.  --limits: from two stores of one kind how the time grows with the nonzeros, and where more workers
stop helping: a run takes as long as the process that trains is busy, as the workers' work by their number, or as its
bytes at 10 Gbit/s, whichever is the longest.
"""

import math
from pathlib import Path

from experiments.runs import described, in_turn, outers, read_through, readings, row, scratch, script, table, train

VERSIONS = 5  # copies of w, of a run whose workers screen
PART = 60  # bytes for each nonzero of a part, of parts under way
NETWORK = 1.25e9  # bytes a second
COSTS = ("seconds_waiting", "seconds_workers", "bytes_sent", "bytes_received")
WORKERS = 2, 4, 8, 16, 64
LARGE, ENOUGH = (10e9, 100e9), 1.1  # nonzeros; times the least time, above which more workers are worth it


def both(path: Path, model: Path, options) -> tuple[dict, list]:
    """What the store is, and the trainings of one machine and with two workers."""
    read_through(path)
    about = described(path)
    w, n, nonzeros = 8 * (about["n_features"] + 1), about["n_samples"], about["n_nonzeros"]
    alone = w + 13 * n + 4_000_000 + nonzeros
    leading = alone + VERSIONS * w + n + PART * min(1 << 23, (nonzeros + n) // 32)  # of the process that trains
    given = path, model, "--loss", options.loss, "-C", options.C, "--memory"
    return about, [lambda: train(*given, alone), lambda: train(*given, leading, "--cluster", "local:2")]


def compared(options) -> None:
    table(f"{options.loss}, C = {options.C:g}, gap 1e-3: processor seconds, medians of {options.repeats}", "data",
          "nonzeros", "readings, one machine", "readings, screened", "one machine", "local:2", "ratio",
          "workers' work", "moving and set", "MB sent", "MB received", "peak, MB")  # fmt: skip
    with scratch() as folder:
        for path in map(Path, options.stores):
            about, runs = both(path, folder / "model.h5", options)

            def measure(runs=runs) -> dict:
                (of_one, here), (events, there) = (one() for one in runs)

                def summed(*names: str) -> float:
                    return float(sum(event[name] for event in outers(events) for name in names))

                return {"one": readings(of_one), "two": readings(events), "here": here.cpu, "there": there.cpu,
                        "ratio": there.cpu / here.cpu, "work": summed("seconds_workers"),
                        "moving": summed("seconds_training", "set_seconds"), "sent": summed("bytes_sent") / 1e6,
                        "received": summed("bytes_received") / 1e6, "peak": there.peak_mb}  # fmt: skip

            one, two, *seconds, sent, received, peak = in_turn({"": measure}, options.repeats)[""].values()
            row(path.stem, f"{about['n_nonzeros'] / 1e6:,.0f} M", f"{one:.0f}", f"{two:.0f}",
                *(f"{s:.1f}" for s in seconds), f"{sent:,.0f}", f"{received:,.0f}", f"{peak:,.0f}")  # fmt: skip


def limits(options) -> None:
    """Runs of the two stores, one each; then the times at larger sizes."""
    found, sizes = [], []
    with scratch() as folder:
        for path in map(Path, options.stores):
            about, (alone, led) = both(path, folder / "model.h5", options)
            sizes.append(about["n_nonzeros"])
            one, events = alone()[0][-1]["seconds"], led()[0]
            waiting, work, *sent = (sum(event[key] for event in outers(events)) for key in COSTS)
            found.append((one, events[-1]["seconds"] - waiting, work, sum(sent)))
    growth = math.log(sizes[1] / sizes[0])
    grown = [math.log(large / small) / growth for small, large in zip(*found, strict=True)]
    powers = ", ".join(f"N^{e:.2f}" for e in grown)
    table(f"C = {options.C:g}, from {' and '.join(f'{size / 1e6:,.0f} M' for size in sizes)} nonzeros: the time of one "
          f"machine, of the process that trains, the workers' and the bytes grow as {powers}; minutes", "data",
          "nonzeros", "one machine", *(f"{k} workers" for k in WORKERS), "at best", "workers for that")  # fmt: skip
    for n in LARGE:
        one, busy, work, sent = (cost * (n / sizes[1]) ** e for cost, e in zip(found[1], grown, strict=True))
        best = max(busy, sent / NETWORK)
        row(Path(options.stores[1]).stem, f"{n / 1e9:.0f} G", f"{one / 60:.0f}",
            *(f"{max(best, work / k) / 60:.0f}" for k in WORKERS), f"{best / 60:.0f}",
            math.ceil(work / (ENOUGH * best)))  # fmt: skip


@script("stores+", loss="hinge", C=1.0, repeats=3, limits=False)
def main(options) -> None:
    (limits if options.limits else compared)(options)
