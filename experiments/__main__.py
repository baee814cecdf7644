"""Lists the experiments: what each shows, the data that it needs, its commands, and how long it took last.

    python -m experiments [NAME ...] [--folder DIR] [--names] [--keep-times]

``tools/bench --experiments all --sources DIR`` runs them, and goes on where it was broken off.  How long those take
that were never run here experiments/results/times.json tells (--keep-times puts in it what was run here).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from experiments.finished import ROOT
from experiments.registry import BY_NAME, Experiment, files_of, sources_of
from experiments.report import machine
from experiments.rerun import DEFAULT_FOLDER, Rerun

TIMES = ROOT / "experiments" / "results" / "times.json"


def kept_times() -> dict[str, dict]:
    """By experiment: seconds, when, where."""
    return json.loads(TIMES.read_text()) if TIMES.exists() else {}


def keep_times(runner: Rerun) -> None:
    """Those of the experiments of which each piece has been run here; the others' stay."""
    times, about = kept_times(), machine()
    where = f"{about['cpu']}, {about['cores']} cores"
    for name, experiment in BY_NAME.items():
        told = runner.last(experiment)
        if told is not None and told[2] == len(experiment.pieces):
            times[name] = {"seconds": round(told[0]), "when": told[1], "where": where}
    TIMES.write_text(json.dumps(dict(sorted(times.items())), indent=1) + "\n")


def duration(seconds: float) -> str:
    return f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"


def shown(experiment: Experiment, runner: Rerun, times: dict[str, dict]) -> str:
    """One experiment, some lines; times: those that are kept."""
    names = list(dict.fromkeys((*experiment.needs, *(name for piece in experiment.pieces for name in files_of(piece)))))
    sources = sources_of(names)
    data = ", ".join(names) or "none, or it makes its own"
    told = runner.last(experiment)
    last, elsewhere = "not here", times.get(experiment.name)
    if told is not None:
        seconds, when, pieces = told
        of = len(experiment.pieces)
        last = f"{duration(seconds)}, {when}" + (f" ({pieces} of {of} pieces)" if pieces < of else "")
    elif elsewhere is not None:
        last += f"; elsewhere {duration(elsewhere['seconds'])} ({elsewhere['where']}, {elsewhere['when']})"
    lines = [f"{experiment.name}{' (large)' if experiment.large else ''}: {experiment.shows}", f"  data     {data}"]
    if sources and sources != names:
        lines.append(f"  made of  {', '.join(sources)}")
    lines += [f"  {'command' if k == 0 else '':8} python -m {piece}" for k, piece in enumerate(experiment.pieces)]
    lines.append(f"  results  {', '.join(experiment.results)}")
    lines.append(f"  last run {last}")
    return "\n".join(lines)


def main() -> None:
    p = argparse.ArgumentParser(prog="python -m experiments", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    p.add_argument("experiment", nargs="*", metavar="NAME", help=f"only these: {', '.join(BY_NAME)}")
    p.add_argument("--folder", type=Path, default=DEFAULT_FOLDER, help="where runs keep what they have done")
    p.add_argument("--names", action="store_true", help="a line each: the name and what it shows")
    p.add_argument("--keep-times", action="store_true", help="write how long they took to results/times.json")
    options = p.parse_args()
    unknown = set(options.experiment) - set(BY_NAME)
    if unknown:
        p.error(f"no such experiment: {', '.join(sorted(unknown))}; python -m experiments --names lists them")
    found = [BY_NAME[name] for name in options.experiment or BY_NAME]
    if options.names:
        width = max(len(experiment.name) for experiment in found)
        print("\n".join(f"{experiment.name:{width}}  {experiment.shows}" for experiment in found))
        return
    runner = Rerun(options.folder)
    if options.keep_times:
        keep_times(runner)
    times = kept_times()
    print("\n\n".join(shown(experiment, runner, times) for experiment in found))


if __name__ == "__main__":
    main()
