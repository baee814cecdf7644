"""Training again after rows were added to a store: from the earlier model, and from nothing.

    python -m experiments.incremental DATA.svm [--parts 0.01,0.1,0.5] [--tol 1e-3] [-C 1]

The lines of DATA.svm in a random order: a store is made of the first of them and trained on; then so many more are
added (--append), and the store is trained on again to the same gap, with and without --warm-start, at an eighth of the
memory for the rows.  Work is nonzeros visited.  One run each.
"""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

from experiments.runs import begin, command, described, listed, parser, row, split, table, train


def trained(store: Path, model: Path, options, *more: object) -> dict:
    about = described(store)
    memory = 8 * about["n_features"] + 24 * about["n_samples"] + 4_000_000 + about["n_nonzeros"]
    events, _ = train(store, model, "-C", options.C, "--memory", f"{memory}B", "--tol", options.tol, *more)
    outers = [event for event in events if event["event"] == "outer"]
    work = sum(event.get("nnz_visited", 0) + event.get("set_nnz_visited", 0) for event in outers)
    return {"readings": len(outers), "work": work, "seconds": events[-1]["seconds"]}


def main() -> None:
    p = parser(__doc__)
    p.add_argument("data", type=Path, metavar="DATA.svm")
    p.add_argument("--parts", type=listed, default=["0.01", "0.1", "0.5"])
    p.add_argument("--tol", default="1e-3")
    p.add_argument("-C", default="1")
    options = p.parse_args()
    lines = options.data.read_bytes().splitlines(keepends=True)
    random.Random(5).shuffle(lines)
    begin()
    table(f"{options.data.stem} to {options.tol}: from the earlier model / from nothing", "change", "its seconds",
          "readings", "work", "seconds")  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        first, more, store, model, new = (Path(name, file) for file in ("a.svm", "b.svm", "rows.h5", "m.h5", "new.h5"))
        for part in map(float, options.parts):
            n = round(len(lines) / (1.0 + part))
            first.write_bytes(b"".join(lines[:n]))
            more.write_bytes(b"".join(lines[n:]))
            split(first, store)
            trained(store, model, options)
            added = command("split", more, store, "--append", "--quiet").seconds
            cold, warm = (trained(store, new, options, *how) for how in ((), ("--warm-start", model)))
            cells = (f"{warm[key]:.3g} / {cold[key]:.3g} = {warm[key] / cold[key]:.2f}" for key in cold)
            row(f"{part:.0%} more rows", f"{added:.1f}", *cells)


if __name__ == "__main__":
    main()
