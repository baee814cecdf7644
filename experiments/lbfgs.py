"""Readings of all rows until the certified gap is small: the limited-memory BFGS method beside dual coordinate descent.

python -m experiments.lbfgs STORE.h5 [-C 1,100] [--most 150] [--json FILE]
"""

from __future__ import annotations

from pathlib import Path

import blocksvm
from experiments.measuring import Tables, listed, parser

MEMORY = 1 << 40  # bytes: whatever the machine has; a resident block takes what it needs
GAPS = (1e-2, 1e-3, 1e-4)


def readings(store: Path, solver: str, loss: str, C: float, gap: float, most: int) -> dict[float, int]:
    """How many readings of all rows, those for certificates among them, come before each of ``GAPS`` is certified."""
    done, found = 0, {}

    def seen(event: dict) -> None:
        nonlocal done
        if event["event"] == "outer":
            done += 1 + event["certificates"]
            for one in GAPS:
                if event["rel_gap"] is not None and event["rel_gap"] <= one:
                    found.setdefault(one, done)

    with blocksvm.open_store(store) as rows:
        blocksvm.fit(rows, solver=solver, loss=loss, C=C, tol=gap, max_outer=most, memory=MEMORY, on_event=seen)
    return found


def main() -> None:
    p = parser(__doc__)
    p.add_argument("store", type=Path, metavar="STORE.h5")
    p.add_argument("-C", type=listed, default=["1"])
    p.add_argument("--most", type=int, default=150)
    options = p.parse_args()
    tables = Tables(options)
    tables.begin(
        f"{options.store.stem}: readings to a certified gap", "C", "loss", "solver", *map("{:.0e}".format, GAPS)
    )
    for C, loss in ((float(C), loss) for C in options.C for loss in ("logistic", "squared-hinge")):
        for solver in ("lbfgs", "dual-cd"):
            # dual-cd takes a certificate when it expects to be within the gap: a run for each
            runs = {gap: readings(options.store, solver, loss, C, gap, options.most)
                    for gap in (GAPS if solver == "dual-cd" else GAPS[-1:])}  # fmt: skip
            tables.row(f"{C:g}", loss, solver, *(str(runs.get(gap, runs[GAPS[-1]]).get(gap, "-")) for gap in GAPS))
    tables.end()


if __name__ == "__main__":
    main()
