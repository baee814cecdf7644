"""Training on one machine, and where workers screen the rows: in how many readings both end, and what each costs.

    python -m experiments.cluster STORE.h5 [...] [--loss hinge] [-C 1] [--seeds 0] [--memory-share 8] [--json FILE]
    python -m experiments.cluster --commands 3 STORE.h5 [...]

Both have an eighth of the rows' memory beside their state.  Readings are counted with two threads of this process as
workers, whose number changes no figure but the time.  ``--commands N`` runs whole commands in turn, on one machine and
with ``--cluster local:2``, and shows medians of N.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

import blocksvm
from blocksvm.cluster.cluster_plan import VERSIONS
from blocksvm.cluster.workers import ThreadWorkers
from blocksvm.store.reader import Store
from experiments.measuring import Tables, parser, read_through, train


class Count:
    """Of a run's events."""

    def __init__(self):
        self.readings = self.set_passes = self.received = self.sent = 0.0

    def __call__(self, event: dict) -> None:
        if event["event"] == "certificate":
            self.readings += event["share"]
        elif event["event"] == "outer":
            self.readings += 1
            self.set_passes += event["set_nnz_visited"]
            self.received += event["bytes_received"]
            self.sent += event["bytes_sent"]


def entries_of(rows: Store) -> int:
    """Bytes of all rows as they are decoded."""
    return rows.n_nonzeros * (4 + rows.value_bytes) + rows.n_samples * rows.row_bytes


def memories(rows: Store, share: float) -> tuple[int, int]:
    """Of a run on one machine, and of one whose workers screen, which has versions of w and a byte a row besides."""
    w = 8 * (rows.n_features + 1)
    alone = w + 10 * rows.n_samples + 4_000_000 + int(entries_of(rows) / share)
    return alone, alone + VERSIONS * w + 12 * rows.n_samples


def count_readings(tables: Tables, options) -> None:
    tables.begin(f"{options.loss}, C {options.C:g}, seeds {options.seeds}: readings to a certified gap of 1e-3", "run",
                 "data", "readings, one machine", "readings, screened", "set passes, one machine",
                 "set passes, screened", "rows sent", "sent to two workers")  # fmt: skip
    for path in options.stores:
        found: list[list[str]] = []
        for seed in options.seeds:
            with blocksvm.open_store(path) as rows:
                counts = []
                for workers, memory in zip((None, ThreadWorkers(2)), memories(rows, options.memory_share), strict=True):
                    counts.append(Count())
                    blocksvm.fit(rows, loss=options.loss, C=options.C, seed=seed, memory=memory, cluster=workers,
                                 on_event=counts[-1])  # fmt: skip
                here, screened, entries = *counts, entries_of(rows)
                found.append([
                    f"{here.readings:.0f}", f"{screened.readings:.0f}", f"{here.set_passes / rows.n_nonzeros:.1f}",
                    f"{screened.set_passes / rows.n_nonzeros:.1f}", f"{screened.received / entries:.1f}",
                    f"{screened.sent / entries:.1f}",
                ])  # fmt: skip
        run = options.loss if options.C == 1 else f"{options.loss}, C = {options.C:g}"
        tables.row(run, path.stem, *(", ".join(cells) for cells in zip(*found, strict=True)))


def summed(events: list[dict], *names: str) -> float:
    return sum(event[name] for event in events if event["event"] == "outer" for name in names)


def time_commands(tables: Tables, options) -> None:
    tables.begin("commands: processor seconds, medians", "data", "nonzeros", "one machine", "local:2", "ratio",
                 "workers' work", "moving and set", "MB sent")  # fmt: skip
    settings = ("--loss", options.loss, "-C", options.C)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "model.h5"
        for path in options.stores:
            read_through(path)
            with blocksvm.open_store(path) as rows:
                n_nonzeros, (alone, more) = rows.n_nonzeros, memories(rows, options.memory_share)
            found = []
            for _ in range(options.commands):
                _, here = train(path, model, *settings, "--memory", alone)
                events, there = train(path, model, *settings, "--memory", more, "--cluster", "local:2")
                work, moved = summed(events, "seconds_workers"), summed(events, "seconds_training", "set_seconds")
                found.append((here.cpu, there.cpu, work, moved, summed(events, "bytes_sent")))
            here, there, workers, moving, sent = map(median, zip(*found, strict=True))
            tables.row(path.stem, f"{n_nonzeros / 1e6:.0f} M", f"{here:.1f}", f"{there:.1f}", f"{there / here:.1f}",
                       f"{workers:.1f}", f"{moving:.1f}", f"{sent / 1e6:,.0f}")  # fmt: skip


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", type=Path, nargs="+", metavar="STORE.h5")
    p.add_argument("--loss", default="hinge")
    p.add_argument("-C", type=float, default=1.0)
    p.add_argument("--seeds", type=lambda text: [int(seed) for seed in text.split(",")], default=[0])
    p.add_argument("--memory-share", type=float, default=8.0)
    p.add_argument("--commands", type=int, metavar="N")
    options = p.parse_args()
    tables = Tables(options)
    (time_commands if options.commands else count_readings)(tables, options)
    tables.end()


if __name__ == "__main__":
    main()
