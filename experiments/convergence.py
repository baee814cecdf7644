"""Convergence per byte read: the certified gap after a number of one-pass outer iterations, all rows in memory and
fully shuffled, against blocks of a share of them, redrawn or fixed.

    python -m experiments.convergence STORE.h5 [--outer 14] [--blocks 8]
"""

from __future__ import annotations

import argparse
from pathlib import Path

from blocksvm.store.reader import Store
from blocksvm.training.fit import fit

MANY = 1 << 40  # bytes: whatever the machine has; a resident block takes what it needs


def gap(path: Path, outer: int, **settings) -> tuple[float, int]:
    """(certified relative gap, blocks) after ``outer`` iterations of one pass each."""
    with Store(path) as store:
        fitted = fit(store, schedule="1", max_outer=outer, tol=0.0, **settings)
        return fitted.certificate.rel_gap, len(fitted.loop.plan.blocks.partition.blocks(1))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("store", type=Path)
    p.add_argument("--outer", type=int, default=14)
    p.add_argument("--blocks", type=int, default=8)
    p.add_argument("--seeds", type=int, default=3)
    options = p.parse_args()
    with Store(options.store) as store:
        chunks = -(-len(store.chunks) // options.blocks)
    kinds = {
        "all in memory, full shuffle": {"memory": MANY},
        "blocks redrawn": {"memory": MANY, "block_chunks": chunks},
        "blocks fixed, order redrawn": {"memory": MANY, "block_chunks": chunks, "partition": "fixed"},
    }
    print(f"gap after {options.outer} outer iterations of one pass; the ratio is of means\n")
    print("| | blocks | " + " | ".join(f"seed {seed}" for seed in range(options.seeds)) + " | ratio |")
    print("|---" * (options.seeds + 3) + "|")
    whole = None
    for name, settings in kinds.items():
        found = [gap(options.store, options.outer, seed=seed, **settings) for seed in range(options.seeds)]
        mean = sum(rel_gap for rel_gap, _ in found) / len(found)
        whole = whole or mean
        cells = " | ".join(f"{rel_gap:.2e}" for rel_gap, _ in found)
        print(f"| {name} | {found[0][1]} | {cells} | {mean / whole:.2f} |", flush=True)


if __name__ == "__main__":
    main()
