"""Training again after rows were added to a store or left out of it: from the earlier model, and from nothing.

    python -m experiments.incremental DATA.svm [--parts 0.01,0.1,0.5] [--tol 1e-3] [-C 1] [--json FILE]

The lines of DATA.svm in a random order: a store is made of the first of them and trained on; then so many more are
added (--append) or of the oldest left out (--drop), and the store is trained on again to the same gap, with and without
--warm-start, at an eighth of the memory for the rows.  Work is nonzeros visited.  One run each.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from experiments.measuring import Tables, command, described, parser, split, train


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
    p.add_argument("--parts", type=lambda text: [float(part) for part in text.split(",")], default=[0.01, 0.1, 0.5])
    p.add_argument("--tol", default="1e-3")
    p.add_argument("-C", default="1")
    options = p.parse_args()
    lines = options.data.read_bytes().splitlines(keepends=True)
    random.Random(5).shuffle(lines)
    tables = Tables(options)
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        first, more, store, model, new = (Path(name, file) for file in ("a.svm", "b.svm", "rows.h5", "m.h5", "new.h5"))

        def row(what: str, seconds: float) -> None:
            cold, warm = (trained(store, new, options, *how) for how in ((), ("--warm-start", model)))
            cells = (f"{warm[key]:.3g} / {cold[key]:.3g} = {warm[key] / cold[key]:.2f}" for key in cold)
            tables.row(what, f"{seconds:.1f}", *cells)

        tables.begin(f"{options.data.stem} to {options.tol}: from the earlier model / from nothing",
                     "change", "its seconds", "readings", "work", "seconds")  # fmt: skip
        for part in options.parts:
            n = round(len(lines) / (1.0 + part))
            first.write_bytes(b"".join(lines[:n]))
            more.write_bytes(b"".join(lines[n:]))
            split(first, store)
            trained(store, model, options)
            row(f"{part:.0%} more rows", command("split", more, store, "--append", "--quiet").seconds)
            if part < 0.5:
                shutil.copy(new, model)
                dropped = command("split", store, "--drop", f"oldest:{100 * part:g}%", "--quiet")
                row(f"{part:.0%} of the rows left out", dropped.seconds)
    tables.end()


if __name__ == "__main__":
    main()
