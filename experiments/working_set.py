"""What the working set saves: seconds and readings to a certified gap, with it and without, at several shares of the
memory, beside LIBLINEAR's training alone in memory to the same primal objective.

    python -m experiments.working_set NAME=TEXT.svm ... [--folder DIR] [--tol 1e-3] [--repeats 3] [--shares 8,32,mem]

A share of 8 is a budget of 1 byte a nonzero, 16 a feature that occurs, 20 a row and 5 MB: an eighth of the rows as they
are decoded; 32 a quarter of the first of these; 'mem' room for everything.  All runs are interleaved, each a process of
its own, which finds memory at hand; stores are read from the system's cache.  LIBLINEAR has the ids of the text, as its
users do.  Its time begins when its rows are in memory; runs in memory are also told without the seconds in which they
waited for theirs.  LIBLINEAR stops at 300 iterations, which is compiled in; --longer: where it has not got to the
primal by then, its code in scikit-learn's LinearSVC goes on, by a quarter of the iterations more each time, without the
seconds that this takes for one of them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

import numpy as np

from experiments.objective import Rows, evaluate
from experiments.processes import must, read_through, run_module, split, touch_memory
from experiments.report import machine
from experiments.solvers.blocksvm import train

LEVELS = (1, 0.5, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.003, 0.001, 0.0003, 1e-4, 3e-5, 1e-5)
SETS = ("auto", "none")
ITERATIONS = tuple(round(300 * 1.25**k) for k in range(16))


def budget(store: Path, share: str) -> int:
    """Bytes of memory."""
    from blocksvm.store.hdf5_files import open_hdf5, read_meta

    with open_hdf5(store, "store") as file:
        meta = read_meta(file)
    nonzeros, rest = meta["n_nonzeros"], 16 * meta["n_features"] + 20 * meta["n_samples"] + 5_000_000
    return 24 * nonzeros + 4 * rest if share == "mem" else nonzeros * 8 // int(share) + rest


def ours(store: Path, memory: int, tol: float, working_set: str) -> dict:
    """One run of the command: seconds by its trace, readings of all rows, bytes read, gap and primal."""
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        events, _, peak, _ = train(store, memory, Path(name), "--tol", repr(tol), "--working-set", working_set)
    outers, end = [event for event in events if event["event"] == "outer"], events[-1]
    n = events[0]["n_samples"]
    readings = sum(((event["blocks"] > 0) + (event["certificate_share"] or 0.0)) * event["rows_read"] / n
                   for event in outers)  # fmt: skip
    readings += sum(event["event"] == "left-out" for event in events)
    return {
        "seconds": end["seconds"],
        "waiting": sum(event["seconds_waiting"] for event in outers),
        "readings": readings,
        "bytes_read": sum(event["bytes_read"] for event in outers),
        "primal": end["primal"],
        "dual": end["dual"],
        "rel_gap": end["rel_gap"],
        "set": max((event["set_rows"] or 0 for event in outers), default=0) / events[0]["n_samples"],
        "peak_mb": peak,
        "memory": memory,
    }


def trained(solver: str, setting: str, folder: Path, rows: Rows, primal: float) -> dict:
    """A peer's run, its primal objective, and whether this has ``reached`` ours."""
    weights = folder / "w.npy"
    given = ("--folder", folder, "--level", setting, "-C", 1.0, "--memory", 0, "--out", weights)
    line = must(run_module(sys.executable, f"experiments.solvers.{solver}", *given))
    found, _ = evaluate(rows, np.load(weights), 1.0)
    return line | {"primal": found, "reached": found <= primal}


def liblinear(folder: Path, rows: Rows, primal: float, level: int) -> tuple[dict, int]:
    """(its run at the loosest level, from this one on, that reaches the primal objective, or at the tightest; level)"""
    while True:
        line = trained("liblinear", f"eps={LEVELS[level]}", folder, rows, primal)
        if line["reached"] or level + 1 == len(LEVELS) or line.get("warnings"):
            return line, level
        level += 1


def longer(folder: Path, rows: Rows, primal: float) -> dict:
    """The first run of LIBLINEAR's code in scikit-learn, by its iterations, that reaches the primal objective, or the
    longest; its seconds without those of a run of one iteration."""
    start_up = trained("linear_svc", "tol=1e-12,max_iter=1", folder, rows, primal)["seconds"]
    for iterations in ITERATIONS:
        line = trained("linear_svc", f"tol=1e-12,max_iter={iterations}", folder, rows, primal)
        if line["reached"]:
            break
    return line | {"seconds": line["seconds"] - start_up}


def measure(name: str, text: Path, folder: Path, options) -> dict:
    """All runs on one data set."""
    folder.mkdir(parents=True, exist_ok=True)
    store = folder / "store.h5"
    split(text, store)
    must(run_module(sys.executable, "experiments.prepare", text, folder / "train"))
    rows = Rows.open(folder / "train")
    shares = options.shares.split(",")
    runs: dict[tuple[str, str], list[dict]] = {(share, kind): [] for share in shares for kind in SETS}
    read_through(store)
    ours(store, budget(store, shares[0]), 0.1, "auto")  # compiles
    peer, level = [], LEVELS.index(options.eps)
    for repeat in range(options.repeats):
        for share, kind in list(runs) if repeat % 2 == 0 else list(runs)[::-1]:
            if kind == "none" and (share != shares[0] or options.only_set):
                continue
            touch_memory()
            line = ours(store, budget(store, share), options.tol, kind)
            runs[share, kind].append(line)
            print(f"  {name} {share} {kind} {line['seconds']:.2f} s, {line['readings']:.1f} readings", flush=True)
        primal = statistics.median(line["primal"] for line in runs[shares[0], "auto"])
        touch_memory()
        line, level = liblinear(folder, rows, primal, level)
        peer.append(line)
        print(f"  {name} LIBLINEAR {line['seconds']:.2f} s, eps {LEVELS[level]}", flush=True)
    more = longer(folder, rows, primal) if options.longer and not peer[-1]["reached"] else None
    if more is not None:
        print(f"  {name} its code in scikit-learn {more['seconds']:.2f} s, {more['iterations']} iterations", flush=True)
    return {"name": name, "nonzeros": int(rows.indptr[-1]), "liblinear": peer, "eps": LEVELS[level], "longer": more,
            "runs": {f"{share} {kind}": found for (share, kind), found in runs.items() if found}}  # fmt: skip


def table(results: list[dict], options) -> str:
    """Markdown, a line a data set."""
    shares = options.shares.split(",")
    columns = [*([] if options.only_set else [f"{shares[0]} none"]), *(f"{share} auto" for share in shares)]
    head = ["data", "nonzeros", "LIBLINEAR"]
    head += [f"1/{c.split()[0]}, {'no set' if 'none' in c else 'set'}".replace("1/mem", "in memory") for c in columns]
    about = machine()
    beyond = ", or, where it stops before, its code in scikit-learn, whose time follows" if options.longer else ""
    lines = [
        f"Seconds to a certified relative gap of {options.tol:g} (readings of all rows, certificates included), "
        f"medians of {options.repeats}; then how many times as long LIBLINEAR takes in memory, training alone, to the "
        f"primal objective of the 1/{shares[0]} run{beyond}. {about['cpu']}, {about['cores']} cores, "
        f"{about['ram_gb']} GB, {about['date']}.\n",
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
    ]
    for result in results:
        stopped = peer = statistics.median(line["seconds"] for line in result["liblinear"])
        mark = "" if result["liblinear"][-1]["reached"] else " (not reached)"
        if (more := result["longer"]) is not None:
            end = "" if more["reached"] else ", not reached"
            mark, peer = f"{mark}; {more['seconds']:.2f} s in {more['iterations']} iterations{end}", more["seconds"]
        cells = [result["name"], f"{result['nonzeros'] / 1e6:.1f} M", f"{stopped:.2f} s{mark}"]
        for column in columns:
            found = result["runs"][column]
            seconds = statistics.median(line["seconds"] for line in found)
            readings = statistics.median(line["readings"] for line in found)
            cell = f"{seconds:.2f} s ({readings:.1f}); {peer / seconds:.1f}x"
            if column.startswith("mem"):
                alone = statistics.median(line["seconds"] - line["waiting"] for line in found)
                cell += f", without reading {alone:.2f} s; {peer / alone:.1f}x"
            cells.append(cell)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", nargs="+", metavar="NAME=TEXT.svm")
    p.add_argument("--folder", type=Path, default=Path(__file__).resolve().parent / "data", metavar="DIR")
    p.add_argument("--tol", type=float, default=1e-3)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--shares", default="8,32,mem")
    p.add_argument("--only-set", action="store_true", help="no runs without a working set, which may take long")
    p.add_argument("--longer", action="store_true", help="have LIBLINEAR's code go on beyond its limit of iterations")
    p.add_argument("--eps", type=float, default=1, choices=LEVELS, help="LIBLINEAR's -e to begin with")
    p.add_argument("--json", type=Path, metavar="FILE")
    options = p.parse_args()
    results = []
    for one in options.data:
        name, _, text = one.partition("=")
        results.append(measure(name, Path(text).resolve(), options.folder.resolve() / name, options))
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    print("\n" + table(results, options))


if __name__ == "__main__":
    main()
