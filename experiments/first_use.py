"""The first use: split, train and predict with an empty cache of kernels, what they take once it is full, and the time
from the start of Python to the first trained row.

    python -m experiments.first_use TEXT.svm ... [--repeats 3]

Each round has a cache of its own.  CPU is that of a command and all that it starts; where two processors are busy with
something else, the wall time says little and the CPU time something.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from experiments.report import machine

ROOT = Path(__file__).resolve().parents[1]
COMMANDS = ("split", "train", "predict")
# the command itself, and a line with the time at which the first block is about to be visited
FIRST_ROW = """
import os, runpy, sys, time
from blocksvm.cli import console
def visit(*arguments):
    print(time.time() - float(os.environ["BEGAN"]), file=sys.stderr, flush=True)
    os._exit(0)
def then():
    from blocksvm.training.loop import OuterLoop
    OuterLoop._visit = visit
    return catch()
catch, console.catch_signals = console.catch_signals, then
sys.argv = ["train", *sys.argv[1:]]
runpy.run_module("blocksvm.train", run_name="__main__")
"""


def environment(cache: Path) -> dict[str, str]:
    """As a user has it: bytecode is kept."""
    given = {k: value for k, value in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
    return given | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)}


def timed(cache: Path, arguments: list) -> tuple[float, float]:
    """(wall, CPU) seconds of a command with this cache; RuntimeError where it fails."""
    began = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=cache.parent,
        env=environment(cache),
    )
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{' '.join(map(str, arguments))}: exit status {child.returncode}")
    return time.perf_counter() - began, used.ru_utime + used.ru_stime


def first_row(cache: Path, store: Path, model: Path) -> float:
    """Seconds from the start of Python to the visit of the first block."""
    done = subprocess.run(
        [sys.executable, "-c", FIRST_ROW, store, model, "--quiet", "--overwrite"],
        capture_output=True,
        text=True,
        cwd=cache.parent,
        env=environment(cache) | {"BEGAN": repr(time.time())},
    )
    return float(done.stderr.splitlines()[-1])


def one_round(text: Path) -> dict[str, tuple[float, float]]:
    """{'cold split': (wall, CPU), ..., 'warm predict': ..., 'first row': (wall, nan)}"""
    found = {}
    with tempfile.TemporaryDirectory(prefix="first-use-") as name:
        folder = Path(name)
        text, store, model = text.resolve(), folder / "rows.h5", folder / "model.h5"
        inputs = {"split": (text, store), "train": (store, model), "predict": (model, text, folder / "labels.txt")}
        for state in ("cold", "warm"):
            for command in COMMANDS:
                arguments = [f"blocksvm.{command}", *inputs[command], "--overwrite"]
                found[f"{state} {command}"] = timed(folder / "cache", arguments)
        found["first row"] = (first_row(folder / "cache", store, model), float("nan"))
    return found


def table(text: Path, rounds: list[dict]) -> str:
    """The least of the rounds for each figure."""
    least = {key: [min(one[key][k] for one in rounds) for k in (0, 1)] for key in rounds[0]}
    lines = [f"{text.name}, the least of {len(rounds)}:", "", "| | wall, s | CPU, s |", "|---|---|---|"]
    for state in ("cold", "warm"):
        lines += [
            f"| {state} {c} | {least[f'{state} {c}'][0]:.2f} | {least[f'{state} {c}'][1]:.2f} |" for c in COMMANDS
        ]
        sums = [min(sum(one[f"{state} {c}"][k] for c in COMMANDS) for one in rounds) for k in (0, 1)]
        lines.append(f"| {state}, all three | {sums[0]:.2f} | {sums[1]:.2f} |")
    lines.append(f"| warm, start of Python to the first row | {least['first row'][0]:.2f} | |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("texts", nargs="+", type=Path, metavar="TEXT.svm")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(machine())
    for text in options.texts:
        print("\n" + table(text, [one_round(text) for _ in range(options.repeats)]))


if __name__ == "__main__":
    main()
