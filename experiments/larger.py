"""Larger than memory: stores of any size trained within one memory, from a cold cache, to a certified gap of 1e-3.

    python -m experiments.larger STORE.h5 ... [--memory 2000] [-C 0.02]

--memory is in MB.
"""

from pathlib import Path

from experiments.runs import drop_from_cache, readings, row, scratch, script, table, train


@script("stores", memory=2000, C=0.02)
def main(options) -> None:
    table(f"C = {options.C:g}, --memory {options.memory} MB", "store", "nonzeros", "raw CSR, GB", "store, GB", "blocks",
          "readings", "seconds", "gap", "ns a nonzero and reading", "peak, MB")  # fmt: skip
    for store in map(Path, options.stores):
        drop_from_cache(store)
        with scratch() as folder:
            events, ran = train(store, folder / "model.h5", "--memory", f"{options.memory}MB", "-C", options.C)
        first, last, times = events[0], events[-1], readings(events)
        n = first["n_nonzeros"]
        row(store.stem, f"{n:,}", f"{8 * (n + first['n_samples']) / 1e9:.2f}", f"{store.stat().st_size / 1e9:.2f}",
            first["blocks"], f"{times:.0f}", f"{last['seconds']:.1f}", f"{last['rel_gap']:.1e}",
            f"{1e9 * last['seconds'] / times / n:.2f}", f"{ran.peak_mb:,.0f}")  # fmt: skip
