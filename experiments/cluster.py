"""Training on one machine, and where two workers screen the rows: in how many readings both end, and what each costs.

    python -m experiments.cluster STORE.h5 [...] [--loss hinge] [-C 1] [--repeats 3] [--memory-share 8]

Whole commands in turn, on one machine and with ``--cluster local:2``; medians.  Both have an eighth of the rows' memory
beside their state, of which a run whose workers screen has more.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from experiments.runs import begin, described, parser, read_through, readings, row, table, train

VERSIONS = 7  # copies of w, of a run whose workers screen


def memories(about: dict, share: float) -> tuple[int, int]:
    """Of a run on one machine, and of one whose workers screen."""
    w, n = 8 * (about["n_features"] + 1), about["n_samples"]
    alone = w + 10 * n + 4_000_000 + int((8 * about["n_nonzeros"] + 24 * n) / share)
    return alone, alone + VERSIONS * w + 12 * n


def summed(events: list[dict], *names: str) -> float:
    return sum(event[name] for event in events if event["event"] == "outer" for name in names)


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", type=Path, nargs="+", metavar="STORE.h5")
    p.add_argument("--loss", default="hinge")
    p.add_argument("-C", type=float, default=1.0)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--memory-share", type=float, default=8.0)
    options = p.parse_args()
    begin()
    table(f"{options.loss}, C = {options.C:g}, gap 1e-3: processor seconds, medians of {options.repeats}", "data",
          "nonzeros", "readings, one machine", "readings, screened", "one machine", "local:2", "ratio",
          "workers' work", "moving and set", "MB sent")  # fmt: skip
    settings = ("--loss", options.loss, "-C", options.C)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.h5"
        for path in options.stores:
            read_through(path)
            about, found = described(path), []
            alone, more = memories(about, options.memory_share)
            for _ in range(options.repeats):
                of_one, here = train(path, model, *settings, "--memory", alone)
                events, there = train(path, model, *settings, "--memory", more, "--cluster", "local:2")
                work, moved = summed(events, "seconds_workers"), summed(events, "seconds_training", "set_seconds")
                found.append((readings(of_one), readings(events), here.cpu, there.cpu, work, moved,
                              summed(events, "bytes_sent")))  # fmt: skip
            one, two, here, there, workers, moving, sent = map(median, zip(*found, strict=True))
            row(path.stem, f"{about['n_nonzeros'] / 1e6:.0f} M", f"{one:.0f}", f"{two:.0f}", f"{here:.1f}",
                f"{there:.1f}", f"{there / here:.1f}", f"{workers:.1f}", f"{moving:.1f}",
                f"{sent / 1e6:,.0f}")  # fmt: skip


if __name__ == "__main__":
    main()
