"""Growth: runs on stores of any size within one memory.

python -m experiments.scale STORE.h5 [...] [--memory 2000] [-C 0.02] [--repeats 1] [--json FILE]
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from experiments.measuring import Tables, described, drop_from_cache, parser, readings, train


def measured(tables: Tables, options) -> None:
    """Runs, each with a cold cache."""
    tables.begin(f"C {options.C}, --memory {options.memory:.0f} MB, gap 1e-3: one machine", "store", "nonzeros",
                 "raw CSR, GB", "store, GB", "blocks", "readings", "seconds", "gap", "ns a nonzero and reading",
                 "peak, MB")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for store in options.stores:
            about, found = described(store), []
            for _ in range(options.repeats):
                drop_from_cache(store)
                found.append(train(store, Path(folder) / "m.h5", "--memory", round(1e6 * options.memory), "-C",
                                   options.C))  # fmt: skip
            events, ran = sorted(found, key=lambda one: one[0][-1]["seconds"])[len(found) // 2]
            n, seconds, times = about["n_nonzeros"], events[-1]["seconds"], readings(events)
            tables.row(store.stem, f"{n:,}", f"{8e-9 * n + 8e-9 * about['n_samples']:.2f}",
                       f"{store.stat().st_size / 1e9:.2f}", events[0]["blocks"], f"{times:.0f}", f"{seconds:.1f}",
                       f"{events[-1]['rel_gap']:.1e}", f"{1e9 * seconds / n / times:.2f}",
                       f"{ran.peak_mb:.0f}")  # fmt: skip


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", type=Path, nargs="+", metavar="STORE.h5")
    p.add_argument("--memory", type=float, default=2000, metavar="MB")
    p.add_argument("-C", default="0.02")
    p.add_argument("--repeats", type=int, default=1)
    options = p.parse_args()
    tables = Tables(options)
    measured(tables, options)
    tables.end()


if __name__ == "__main__":
    main()
