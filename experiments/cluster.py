"""Readings of all rows by one machine, and where workers screen them: in how many it ends, and which rows are sent.

python -m experiments.cluster STORE.h5 [...] [--loss hinge] [-C 1] [--seed 0] [--memory-share 8] [--json FILE]

Both have an eighth of the rows' memory beside their state, and the workers are two threads of this process; their
number changes no figure but the time.
"""

from __future__ import annotations

from pathlib import Path

import blocksvm
from blocksvm.cluster.cluster_plan import VERSIONS
from blocksvm.cluster.workers import ThreadWorkers
from experiments.measuring import Tables, parser


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


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", type=Path, nargs="+", metavar="STORE.h5")
    p.add_argument("--loss", default="hinge")
    p.add_argument("-C", type=float, default=1.0)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--memory-share", type=float, default=8.0)
    options = p.parse_args()
    tables = Tables(options)
    tables.begin(f"{options.loss}, C {options.C:g}, seed {options.seed}: readings to a certified gap of 1e-3", "data",
                 "one machine", "screened", "set passes", "screened", "rows sent", "versions")  # fmt: skip
    for path in options.stores:
        with blocksvm.open_store(path) as rows:
            entries = rows.n_nonzeros * (4 + rows.value_bytes) + rows.n_samples * rows.row_bytes
            w = 8 * (rows.n_features + 1)
            state = w + 10 * rows.n_samples + 4_000_000 + int(entries / options.memory_share)
            counts = []
            for workers, memory in ((None, state), (ThreadWorkers(2), state + VERSIONS * w + 12 * rows.n_samples)):
                counts.append(Count())
                blocksvm.fit(rows, loss=options.loss, C=options.C, seed=options.seed, memory=memory, cluster=workers,
                             on_event=counts[-1])  # fmt: skip
            here, screened = counts
            tables.row(path.stem, f"{here.readings:.1f}", f"{screened.readings:.1f}",
                       f"{here.set_passes / rows.n_nonzeros:.1f}", f"{screened.set_passes / rows.n_nonzeros:.1f}",
                       f"{screened.received / entries:.2f}", f"{screened.sent / entries:.2f}")  # fmt: skip
    tables.end()


if __name__ == "__main__":
    main()
