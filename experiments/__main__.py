"""Lists the experiments: what each shows, the data that it needs, its commands, and how long it took last.

    python -m experiments [NAME ...] [--folder DIR] [--names]

``tools/bench --experiments all --sources DIR`` runs them, and goes on where it was broken off.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from experiments.registry import BY_NAME, Experiment, files_of, sources_of
from experiments.rerun import DEFAULT_FOLDER, Rerun


def shown(experiment: Experiment, runner: Rerun) -> str:
    """One experiment, some lines."""
    names = list(dict.fromkeys((*experiment.needs, *(name for piece in experiment.pieces for name in files_of(piece)))))
    sources = sources_of(names)
    data = ", ".join(names) or "none, or it makes its own"
    told = runner.last(experiment)
    last = "not here"
    if told is not None:
        seconds, when, pieces = told
        took = f"{seconds / 60:.1f} min" if seconds >= 60 else f"{seconds:.0f} s"
        of = len(experiment.pieces)
        last = f"{took}, {when}" + (f" ({pieces} of {of} pieces)" if pieces < of else "")
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
    print("\n\n".join(shown(experiment, runner) for experiment in found))


if __name__ == "__main__":
    main()
