"""Training again after rows were added to a store, or left out of it: from the earlier model, and from nothing.

    python -m experiments.incremental DATA.svm [--parts 0.01,0.1,0.5] [--tol 1e-3] [--folder DIR]

The lines of DATA.svm in a random order: a store is made of the first of them and trained on; then so many more are
added (--append) or of the oldest left out (--drop), and the store is trained on again to the same gap, with and without
--warm-start.  At an eighth of the memory for the rows.  Work is nonzeros visited.  One run each.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from experiments.processes import ROOT
from experiments.report import machine


def command(module: str, *arguments) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", f"blocksvm.{module}", *map(str, arguments)], capture_output=True, text=True, cwd=ROOT
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return time.perf_counter() - began


def memory_of(store: Path) -> str:
    from blocksvm.store.hdf5_files import open_hdf5, read_meta

    with open_hdf5(store, "store") as file:
        meta = read_meta(file)
    return f"{8 * meta['n_features'] + 24 * meta['n_samples'] + 4_000_000 + meta['n_nonzeros']}B"


def trained(store: Path, model: Path, options, *more) -> dict:
    trace = model.with_suffix(".jsonl")
    command(
        "train", store, model, "-C", options.cost, "--memory", memory_of(store), "--tol", options.tol, "--log", trace,
        "--quiet", "--overwrite", *more,
    )  # fmt: skip
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    outers = [event for event in events if event["event"] == "outer"]
    work = sum(event.get("nnz_visited", 0) + event.get("set_nnz_visited", 0) for event in outers)
    return {"readings": len(outers), "work": work, "seconds": events[-1]["seconds"]}


def line(what: str, change: float, cold: dict, warm: dict) -> str:
    more = " | ".join(
        f"{warm[name]:.3g} / {cold[name]:.3g} = {warm[name] / cold[name]:.2f}"
        for name in ("readings", "work", "seconds")
    )
    return f"| {what} | {change:.1f} | {more} |"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", type=Path)
    p.add_argument("--parts", type=lambda text: [float(part) for part in text.split(",")], default=[0.01, 0.1, 0.5])
    p.add_argument("--tol", default="1e-3")
    p.add_argument("-C", dest="cost", default="1")
    p.add_argument("--folder", type=Path, default=Path(__file__).resolve().parent / "data" / "incremental")
    options = p.parse_args()
    folder = options.folder
    folder.mkdir(parents=True, exist_ok=True)
    lines = options.data.read_bytes().splitlines(keepends=True)
    random.Random(5).shuffle(lines)
    first, more, store, model = (folder / name for name in ("first.svm", "more.svm", "store.h5", "model.h5"))
    about = machine()
    print(f"{about['cpu']}, {about['cores']} cores, {about['date']}; {options.data.name}, --tol {options.tol}")
    print("\n| change | its seconds | readings | work | seconds |\n|---|---|---|---|---|")
    for part in options.parts:
        n = round(len(lines) / (1.0 + part))
        first.write_bytes(b"".join(lines[:n]))
        more.write_bytes(b"".join(lines[n:]))
        command("split", first, store, "--quiet", "--overwrite")
        trained(store, model, options)
        began = command("split", more, store, "--append", "--quiet")
        cold, warm = (trained(store, folder / "new.h5", options, *how) for how in ((), ("--warm-start", model)))
        print(line(f"{part:.0%} more rows", began, cold, warm), flush=True)
        # what was there at first is left out again: the rows of today but those
        if part < 0.5:
            shutil.copy(folder / "new.h5", model)
            began = command("split", store, "--drop", f"oldest:{100 * part:g}%", "--quiet")
            cold, warm = (trained(store, folder / "new.h5", options, *how) for how in ((), ("--warm-start", model)))
            print(line(f"{part:.0%} of the rows left out", began, cold, warm), flush=True)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
