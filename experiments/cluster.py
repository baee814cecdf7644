"""Training on one machine, and where two workers screen the rows: in how many readings both end, and what each costs.

    python -m experiments.cluster STORE.h5 ... [--loss hinge] [-C 1] [--repeats 3]

Whole commands in turn, on one machine and with ``--cluster local:2``; medians.  Both have an eighth of the rows' memory
beside their state, of which a run whose workers screen has more.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from experiments.runs import begin, described, outers, read_through, readings, row, table, train

VERSIONS = 7  # copies of w, of a run whose workers screen


def summed(events: list[dict], *names: str) -> float:
    return sum(event[name] for event in outers(events) for name in names)


def main() -> None:
    options = begin(__doc__, "stores", loss="hinge", C=1.0, repeats=3)
    table(f"{options.loss}, C = {options.C:g}, gap 1e-3: processor seconds, medians of {options.repeats}", "data",
          "nonzeros", "readings, one machine", "readings, screened", "one machine", "local:2", "ratio",
          "workers' work", "moving and set", "MB sent")  # fmt: skip
    given = ("--loss", options.loss, "-C", options.C, "--memory")
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "model.h5")
        for path in map(Path, options.stores):
            read_through(path)
            about, found = described(path), []
            w, n, nonzeros = 8 * (about["n_features"] + 1), about["n_samples"], about["n_nonzeros"]
            alone = w + 13 * n + 4_000_000 + nonzeros
            for _ in range(options.repeats):
                of_one, here = train(path, model, *given, alone)
                events, there = train(path, model, *given, alone + VERSIONS * w + 12 * n, "--cluster", "local:2")
                work, moved = summed(events, "seconds_workers"), summed(events, "seconds_training", "set_seconds")
                found.append((readings(of_one), readings(events), here.cpu, there.cpu, there.cpu / here.cpu, work,
                              moved, summed(events, "bytes_sent") / 1e6))  # fmt: skip
            one, two, *seconds, sent = map(median, zip(*found, strict=True))
            row(path.stem, f"{nonzeros / 1e6:.0f} M", f"{one:.0f}", f"{two:.0f}", *(f"{s:.1f}" for s in seconds),
                f"{sent:,.0f}")  # fmt: skip


if __name__ == "__main__":
    main()
