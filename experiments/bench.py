"""The benchmark: every solver at every level, interleaved, each run a process of its own, judged by one objective.

tools/bench                                           1,000,000 made-up rows
tools/bench --data imdb=PATH/aclImdb.tar.gz --data text=FILE.svm,test=FILE2.svm --repeats 5
tools/bench --tables all                              the other tables of the data set, too
tools/bench --data zipf,rows=20000,features=100000 --solvers blocksvm,liblinear --roofline
tools/bench --experiments all --sources FOLDER        every table that README.md and experiments/results show

A run that is broken off goes on where it was, unless the code has changed; python -m experiments lists the experiments.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from importlib import import_module
from pathlib import Path

import numpy as np

from experiments import report, tables
from experiments.datasets import Dataset, parse
from experiments.finished import Finished, digest_of_code
from experiments.objective import Rows, evaluate
from experiments.prepare import read_rows
from experiments.processes import compile_kernels, drop_from_cache, find_solvers, must, run_module, split, total_memory
from experiments.rerun import rerun
from experiments.solvers import NAMES
from experiments.solvers.blocksvm import budget
from experiments.solvers.child import curve_of

HERE = Path(__file__).resolve().parent
UNFINISHED = "unfinished"  # in a data set's folder: the runs of a measurement that is not whole yet


def parser() -> argparse.ArgumentParser:
    p = argparse.ArgumentParser(prog="tools/bench", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    p.add_argument("--data", action="append", metavar="KIND[=PATH][,option=value]", help="imdb, zipf (default) or text")
    p.add_argument("--repeats", type=int, default=3, metavar="N")
    p.add_argument("--folder", type=Path, default=HERE / "data", metavar="DIR", help="for data; kept and used again")
    p.add_argument("--results", type=Path, default=HERE / "results", metavar="DIR")
    p.add_argument("--solvers", default=",".join(NAMES), metavar="a,b,...", help=f"of {', '.join(NAMES)}")
    p.add_argument("--levels", type=int, metavar="N", help="only the N loosest levels of each solver")
    p.add_argument("--python-peers", type=Path, metavar="PATH", help="interpreter for peers that this one lacks")
    p.add_argument("--memory", type=int, metavar="BYTES", help="blocksvm's budget (default: an eighth of the text)")
    p.add_argument("--reference-tol", type=float, default=1e-5, metavar="T", help="of the untimed run that gives P*")
    p.add_argument("--timeout", type=float, default=3600.0, metavar="S", help="for one run")
    p.add_argument("--tables", default="", metavar="a,b,...", help=f"also these, or all: {', '.join(tables.NAMES)}")
    p.add_argument("--roofline", action="store_true", help="also measure disk, decoding, kernels and an outer loop")
    p.add_argument("--experiments", metavar="a,b,...", help="instead of all this: these of the registry, or all")
    p.add_argument("--sources", type=Path, metavar="DIR", help="where the public data lie that experiments need")
    p.add_argument("--again", action="store_true", help="run experiments again that are finished")
    return p


def check_space(plan, folder: Path, with_vw: bool) -> None:
    """Say what the data set takes on disk; end where there is no room for it."""
    made = folder / plan.name
    there = sum(path.stat().st_size for path in made.rglob("*") if path.is_file()) if made.exists() else 0
    # CSR 16 bytes a nonzero, i.e. up to 1.6 times the text; store, its shuffle, weights; VW's text and cache
    need = plan.made_bytes + (3.0 + 2.2 * with_vw) * plan.train_bytes + 1.6 * plan.test_bytes
    free = shutil.disk_usage(folder).free
    print(f"{plan.name}: about {plan.train_bytes / 1e9:.2f} GB of text to train on; takes up to {need / 1e9:.1f} GB in "
          f"{folder} ({there / 1e9:.1f} GB are there already, {free / 1e9:.0f} GB are free)", flush=True)  # fmt: skip
    if free < need - there:
        raise SystemExit(f"tools/bench: not enough room in {folder}; free some, or name another --folder")


def prepare(data: Dataset, folder: Path, with_vw: bool) -> dict:
    """CSR, VW's text and blocksvm's store in the folder; what there is to tell of them."""
    more = ["--vw", folder / "train.vw"] if with_vw else []
    must(run_module(sys.executable, "experiments.prepare", data.train_text, folder / "train", *more))
    if data.test_text is not None:
        must(run_module(sys.executable, "experiments.prepare", data.test_text, folder / "test"))
    # always made anew: it is blocksvm's own work, quick, and belongs to this version
    store = folder / "store.h5"
    compile_kernels()
    seconds = split(data.train_text, store)
    made = read_rows(folder / "train")
    return {name: made[name] for name in ("rows", "nonzeros", "columns")} | {
        "name": data.name, "C": data.C, "text_bytes": data.train_text.stat().st_size,
        "store_bytes": store.stat().st_size, "split_seconds": seconds}  # fmt: skip


class Judge:
    """Evaluates the weights of one run on the rows of a data set."""

    def __init__(self, folder: Path, C: float, has_test: bool):
        self.train, self.C = Rows.open(folder / "train"), C
        self.test = Rows.open(folder / "test") if has_test else None

    def figures(self, weights: Path) -> dict:
        w = np.load(weights)
        primal, accuracy = evaluate(self.train, w, self.C)
        test = None if self.test is None else evaluate(self.test, w, self.C)[1]
        return {"primal": primal, "train_accuracy": accuracy, "test_accuracy": test}


def fits(module, nonzeros: int) -> bool:
    """The rows in memory, as this solver holds them, fit in this machine."""
    return module.BYTES_PER_NONZERO * nonzeros < total_memory() - 1e9


def bench(data: Dataset, folder: Path, solvers: dict[str, dict], options) -> dict:
    """All runs on one data set."""
    about = prepare(data, folder, bool(solvers.get("vw", {}).get("version")))
    store, weights = folder / "store.h5", folder / "w.npy"
    eighth = about["text_bytes"] // 8
    about["memory"] = options.memory or budget(store, about["text_bytes"])
    about["memory_rule"] = (
        "as asked for" if options.memory else "an eighth of the text" if about["memory"] == eighth
        else "room for the weights and alpha, and an eighth of the text"
    )  # fmt: skip
    judge = Judge(folder, data.C, data.test_text is not None)
    kept = Finished(folder / UNFINISHED)
    size = [about[name] for name in ("rows", "nonzeros", "text_bytes")]

    def one(name: str, level: str, memory: int, repeat: int) -> dict:
        asked = (name, level, memory, repeat, data.C, size, solvers[name].get("version"), digest_of_code())
        return kept.get(*asked) or kept.put(measured(name, level, memory), *asked)

    def measured(name: str, level: str, memory: int) -> dict:
        if name == "blocksvm":
            drop_from_cache(store)
        arguments = ("--folder", folder, "--level", level, "-C", data.C, "--memory", memory, "--out", weights)
        load = os.getloadavg()[0]
        module = f"experiments.solvers.{name}"
        line = run_module(solvers[name]["python"], module, *arguments, timeout=options.timeout)
        line |= {"solver": name, "level": level, "curve": curve_of(name, level), "load_average": load}
        return line if "error" in line else line | judge.figures(weights)

    plenty = min(2 * about["text_bytes"] + 10**9, about["memory"] + total_memory() // 2)
    solvers = {"blocksvm": {"python": sys.executable}} | solvers
    reference = must(one("blocksvm", f"tol={options.reference_tol!r}", plenty, -1))
    jobs = []
    for name, solver in solvers.items():
        module = import_module(f"experiments.solvers.{name}")
        if solver.get("version") and not fits(module, about["nonzeros"]):
            solver |= {"version": None, "missing": "left out: these rows do not fit in memory as it holds them"}
        if solver.get("version"):
            jobs += [(k, name, level) for k, level in enumerate(module.LEVELS[: options.levels])]
    jobs.sort(key=lambda job: job[0])
    runs = []
    for repeat in range(options.repeats):
        for _, name, level in jobs if repeat % 2 == 0 else reversed(jobs):
            line = one(name, level, about["memory"], repeat) | {"repeat": repeat}
            runs.append(line)
            shown = line.get("error") or f"{line['seconds']:8.2f} s   P {line['primal']:.8g}"
            print(f"  {repeat + 1}/{options.repeats} {name:10} {level:22} {shown}", flush=True)
    weights.unlink(missing_ok=True)
    certified = [line for line in [reference, *runs] if line["solver"] == "blocksvm" and line.get("dual")]
    best = max(certified, key=lambda line: line["dual"])
    for line in runs:
        if "primal" in line:
            line["distance"] = (line["primal"] - best["dual"]) / best["dual"]
    runs.sort(key=lambda line: (list(solvers).index(line["solver"]), jobs_order(jobs, line), line["repeat"]))
    summary = report.summarise(runs)
    return {
        "data": about, "machine": report.machine(), "repeats": options.repeats,
        "ratios": report.ratios(summary) + report.ratios_at_ours(summary),
        "reference": {"optimum": best["dual"], "tol": float(best["level"].partition("=")[2]),
                      "rel_gap": best["rel_gap"], "run": reference},
        "solvers": {name: {key: solver[key] for key in ("version", "missing", "about")}
                    for name, solver in solvers.items() if "about" in solver},
        "summary": summary, "runs": runs,
    }  # fmt: skip


def jobs_order(jobs: list[tuple], line: dict) -> int:
    return next(k for k, name, level in jobs if (name, level) == (line["solver"], line["level"]))


def write_results(result: dict, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = result["data"]["name"]
    (folder / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    text = report.markdown(result)
    (folder / f"{name}.md").write_text(text)
    if result["runs"]:
        try:
            report.figure(result, folder / f"{name}.png")
        except ImportError:
            print("no figure: matplotlib is not installed", file=sys.stderr)
    print(f"\n{text}\nwritten: {folder / name}.json, .md, .png", flush=True)


def main() -> None:
    options = parser().parse_args()
    if options.experiments is not None:
        sys.exit(rerun(options.experiments, options.folder, options.sources, options.again))
    if options.repeats < 1:
        raise SystemExit("tools/bench: --repeats must be 1 or more")
    names = [name for name in options.solvers.split(",") if name]
    if set(names) - set(NAMES):
        raise SystemExit(f"tools/bench: --solvers: choose among {', '.join(NAMES)}")
    others = list(tables.NAMES) if options.tables == "all" else [name for name in options.tables.split(",") if name]
    if set(others) - set(tables.NAMES):
        raise SystemExit(f"tools/bench: --tables: choose among {', '.join(tables.NAMES)}, or all")
    specs = [parse(text) for text in options.data or ["zipf"]]
    options.folder = options.folder.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    solvers = find_solvers(names, options.python_peers)
    for name, solver in solvers.items():
        print(f"{name}: {solver['version'] or solver['missing']}")
    for module, settings in specs:
        check_space(module.plan(settings), options.folder, bool(solvers.get("vw", {}).get("version")))
    if os.getloadavg()[0] > 0.5:
        print(f"note: the machine is busy (load {os.getloadavg()[0]:.1f}); times will be too long", file=sys.stderr)
    for module, settings in specs:
        folder = options.folder / module.plan(settings).name
        folder.mkdir(exist_ok=True)
        data = module.make(folder, settings)
        result = bench(data, folder, {name: dict(solver) for name, solver in solvers.items()}, options)
        if options.roofline:
            arguments = (folder / "store.h5", data.train_text, "--json", "--memory", result["data"]["memory"])
            result["roofline"] = must(run_module(sys.executable, "experiments.roofline", *arguments))
        write_results(result, options.results)
        Finished(folder / UNFINISHED).clear()  # the next time all is measured anew
        told = tables.write_tables(
            others, data, folder, options.results, result["data"]["memory"], options.repeats, options.python_peers
        )
        print("\n".join(told))


if __name__ == "__main__":
    main()
