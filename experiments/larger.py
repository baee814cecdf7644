"""Larger than memory: stores trained within a budget, from a cold cache.

    python -m experiments.larger BIG.h5 SMALL.h5 [--memory 2000] [--small-memory 250] [-C 0.02] [--tol 1e-2 1e-3]
    python -m experiments.larger STORE.h5 ... --growth [--memory 2000] [-C 0.02]

--memory is in MB.  Two stores that have as many blocks within their memories, and the cost per nonzero of both: to the
first gap by one pass a visit and no working set (of the median outer iteration after the first one, without a
certificate); to the second gap by the default settings.  --growth: stores of any size within one memory, to a gap of
1e-3.
"""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median

from experiments.runs import Run, begin, drop_from_cache, parser, readings, row, table, train

PLAIN = ("--schedule", 1, "--working-set", "none")


def cold(store: Path, memory: float, *more: object) -> tuple[list[dict], Run]:
    """The events of a run from a cold cache within so many MB, and how it ran."""
    drop_from_cache(store)
    with tempfile.TemporaryDirectory() as folder:
        return train(store, Path(folder, "model.h5"), "--memory", f"{memory:g}MB", *more)


def size(events: list[dict]) -> tuple[str, str]:
    """Nonzeros, and GB as raw CSR."""
    n = events[0]["n_nonzeros"]
    return f"{n:,}", f"{8 * (n + events[0]['n_samples']) / 1e9:.2f}"


def pair(options) -> None:
    columns = ["store", "nonzeros", "raw CSR, GB", "blocks", "--memory, MB", "peak of the process, MB", "seconds",
               "certified gap", "outer iterations"]  # fmt: skip
    big, small = options.stores
    for tol, how, more in zip(options.tol, ("one pass a visit", "default settings"), (PLAIN, ()), strict=True):
        table(f"C = {options.C:g}, gap {tol:g}, {how}", *columns, "ns a nonzero")
        for store, memory in ((small, options.small_memory), (big, options.memory)):
            events, ran = cold(store, memory, "--tol", tol, "-C", options.C, *more)
            outers = [event for event in events if event["event"] == "outer"]
            plain = [after["seconds"] - before["seconds"] for before, after in pairwise(outers)
                     if after["certificate_share"] is None]  # fmt: skip
            cost = f"{median(plain) / events[0]['n_nonzeros'] * 1e9:.2f}" if plain else ""
            row(store.stem, *size(events), events[0]["blocks"], f"{memory:,.0f}", f"{ran.peak_mb:,.0f}",
                f"{events[-1]['seconds']:.1f}", f"{events[-1]['rel_gap']:.1e}", len(outers), cost)  # fmt: skip


def growth(options) -> None:
    table(f"C {options.C}, --memory {options.memory:.0f} MB, gap 1e-3: one machine", "store", "nonzeros",
          "raw CSR, GB", "store, GB", "blocks", "readings", "seconds", "gap", "ns a nonzero and reading",
          "peak, MB")  # fmt: skip
    for store in options.stores:
        events, ran = cold(store, options.memory, "-C", options.C)
        seconds, times = events[-1]["seconds"], readings(events)
        row(store.stem, *size(events), f"{store.stat().st_size / 1e9:.2f}", events[0]["blocks"], f"{times:.0f}",
            f"{seconds:.1f}", f"{events[-1]['rel_gap']:.1e}",
            f"{1e9 * seconds / events[0]['n_nonzeros'] / times:.2f}", f"{ran.peak_mb:.0f}")  # fmt: skip


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", type=Path, nargs="+", metavar="STORE.h5")
    p.add_argument("--growth", action="store_true")
    p.add_argument("--memory", type=float, default=2000)
    p.add_argument("--small-memory", type=float, default=250)
    p.add_argument("-C", type=float, default=0.02)
    p.add_argument("--tol", type=float, nargs=2, default=[1e-2, 1e-3])
    options = p.parse_args()
    begin()
    (growth if options.growth else pair)(options)


if __name__ == "__main__":
    main()
