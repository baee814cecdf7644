"""Larger than memory: stores of any size trained within one memory, from a cold cache, to a certified gap of 1e-3.

    python -m experiments.larger STORE.h5 ... [--memory 2000] [-C 0.02] [--plain]

--memory is in MB.  plain: to a gap of 1e-2 by one pass a visit and no working set; the cost of a nonzero is that of the
median outer iteration after the first one, without a certificate, and that of all else divided by readings.
"""

from __future__ import annotations

import tempfile
from itertools import pairwise
from pathlib import Path
from statistics import median

from experiments.runs import begin, drop_from_cache, outers, readings, row, table, train

PLAIN = ("--schedule", 1, "--working-set", "none", "--tol", 1e-2)


def main() -> None:
    options = begin(__doc__, "stores", memory=2000, C=0.02, plain=False)
    table(f"C = {options.C:g}, --memory {options.memory} MB, {'one pass a visit' if options.plain else 'defaults'}",
          "store", "nonzeros", "raw CSR, GB", "store, GB", "blocks", "outer iterations", "readings", "seconds",
          "certified gap", "ns a nonzero and reading", "peak of the process, MB")  # fmt: skip
    for store in map(Path, options.stores):
        drop_from_cache(store)
        with tempfile.TemporaryDirectory() as folder:
            given = ("--memory", f"{options.memory}MB", "-C", options.C, *(PLAIN if options.plain else ()))
            events, ran = train(store, Path(folder, "model.h5"), *given)
        first, last, visits = events[0], events[-1], outers(events)
        n, times = first["n_nonzeros"], readings(events)
        plain = [after["seconds"] - before["seconds"] for before, after in pairwise(visits)
                 if options.plain and after["certificate_share"] is None]  # fmt: skip
        cost = median(plain or [last["seconds"] / times])
        row(store.stem, f"{n:,}", f"{8 * (n + first['n_samples']) / 1e9:.2f}", f"{store.stat().st_size / 1e9:.2f}",
            first["blocks"], len(visits), f"{times:.0f}", f"{last['seconds']:.1f}", f"{last['rel_gap']:.1e}",
            f"{1e9 * cost / n:.2f}", f"{ran.peak_mb:,.0f}")  # fmt: skip


if __name__ == "__main__":
    main()
