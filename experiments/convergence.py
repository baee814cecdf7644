"""Convergence by bytes read: the certified gap after some outer iterations of one pass, all rows shuffled in memory
beside blocks of a share of them, redrawn or fixed.

    python -m experiments.convergence STORE.h5 [--outer 14] [--blocks 8] [--seeds 3] [--json FILE]
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean

import blocksvm
from experiments.measuring import Tables, described, parser

MEMORY = 1 << 40  # bytes: whatever the machine has; a resident block takes what it needs


def main() -> None:
    p = parser(__doc__)
    p.add_argument("store", type=Path, metavar="STORE.h5")
    p.add_argument("--outer", type=int, default=14)
    p.add_argument("--blocks", type=int, default=8)
    p.add_argument("--seeds", type=int, default=3)
    options = p.parse_args()
    block = {"block_chunks": -(-described(options.store)["n_chunks"] // options.blocks)}
    kinds = {
        "all in memory, full shuffle": {},
        "blocks redrawn": block,
        "blocks fixed, order redrawn": block | {"partition": "fixed"},
    }
    tables, whole, seeds = Tables(options), None, range(options.seeds)
    tables.begin(f"{options.store.stem}: gap after {options.outer} outer iterations of one pass; the ratio is of means",
                 "rows", *(f"seed {seed}" for seed in seeds), "ratio")  # fmt: skip
    for name, settings in kinds.items():
        gaps = []
        for seed in seeds:
            given = {
                "schedule": "1",
                "max_outer": options.outer,
                "tol": 0.0,
                "memory": MEMORY,
                "seed": seed,
                "working_set": "none",
            }
            with blocksvm.open_store(options.store) as store:
                gaps.append(blocksvm.fit(store, **given, **settings).certificate.rel_gap)
        whole = whole or mean(gaps)
        tables.row(name, *(f"{gap:.2e}" for gap in gaps), f"{mean(gaps) / whole:.2f}")
    tables.end()


if __name__ == "__main__":
    main()
