"""What the measurements share: a script's options, commands with their time and memory, ways in turn, rows, tables."""

import argparse
import json
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
# between this process and a command: a process's peak is at least that of the one that it was forked from
CHILD = """
import os, sys
child = os.spawnv(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, used = os.wait4(child, 0)
print(used.ru_maxrss, used.ru_utime + used.ru_stime, file=open(sys.argv[1], "w"))
sys.exit(os.waitstatus_to_exitcode(status))
"""


class Run(NamedTuple):
    """A command's standard output, wall and processor seconds, and the largest memory that it had."""

    out: str
    seconds: float
    cpu: float
    peak_mb: float


def run(*arguments: object) -> Run:
    """Run Python with these arguments; RuntimeError with its last line where it fails."""
    with tempfile.NamedTemporaryFile("r") as used:
        line = [sys.executable, "-S", "-c", CHILD, used.name, sys.executable, *map(str, arguments)]
        began = time.perf_counter()
        done = subprocess.run(line, capture_output=True, text=True)
        seconds = time.perf_counter() - began
        if done.returncode:
            raise RuntimeError(f"{arguments}: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
        peak, cpu = map(float, used.read().split())
    return Run(done.stdout, seconds, cpu, peak * 1024 / 1e6)


def command(name: str, *arguments: object) -> Run:
    """Run a command of blocksvm."""
    return run("-m", f"blocksvm.{name}", *arguments)


def split(text: Path, store: Path, *more: object) -> Run:
    return command("split", text, store, "--overwrite", "--quiet", *more)


def train(store: Path, model: Path, *more: object) -> tuple[list[dict], Run]:
    """The events of a training's trace, and how it ran."""
    trace = model.with_suffix(".jsonl")
    done = command("train", store, model, "--log", trace, "--overwrite", "--quiet", *more)
    return [json.loads(line) for line in trace.read_text().splitlines()], done


def predicted(model: Path, rows: Path) -> dict:
    """The figures of ``predict`` on rows with labels."""
    out = model.with_suffix(".txt")
    return json.loads(command("predict", model, rows, out, "--json", "--overwrite", "--quiet").out)


def described(file: Path) -> dict:
    """What ``info`` says of a store or model."""
    return json.loads(command("info", file, "--json").out)


def budget(store: Path, share: str) -> int:
    """Bytes of memory: of the rows as they are decoded 1/share ('all': room for everything), beside the vectors."""
    about = described(store)
    vectors = 16 * about["n_features"] + 20 * about["n_samples"] + 5_000_000
    return 24 * about["n_nonzeros"] + 4 * vectors if share == "all" else 8 * about["n_nonzeros"] // int(share) + vectors


def outers(events: list[dict]) -> list[dict]:
    return [event for event in events if event["event"] == "outer"]


def readings(events: list[dict]) -> float:
    """Readings of all rows, certificates included; one that leaves resting rows out counts by its share of the rows."""
    rows = [((one["blocks"] > 0) + one["certificates"]) * one["rows_read"] for one in outers(events)]
    return sum(rows) / events[0]["n_samples"]


def in_child(function, *arguments):
    """The value of a function of the calling script, in a new process, of which this one's memory is no part."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def peak_mb() -> float:
    """The largest memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


class Clock:
    """Seconds of the parts so far."""

    def __init__(self):
        self.seconds, self.began = [], time.perf_counter()

    def part(self) -> float:
        """Ends a part, and begins the next one."""
        self.seconds.append(time.perf_counter() - self.began)
        self.began = time.perf_counter()
        return self.seconds[-1]


def drop_from_cache(path: Path) -> None:
    """Let the system forget a file's pages, so that the next reader reads the disk."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read_through(path: Path) -> None:
    """Bring a file into the system's cache."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 22):
            pass


def in_turn(ways: dict[str, Callable[[], dict]], repeats: int, *files: Path) -> dict[str, dict]:
    """By way the medians of the figures that it measures, the ways one after the other, ``repeats`` times; what is no
    number is that of the first time.  The files are in the system's cache."""
    found: dict[str, list[dict]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way, measure in ways.items():
            for file in files:
                read_through(file)
            found[way].append(measure())
    return {way: {key: median(one[key] for one in runs) if isinstance(value, float) else value
                  for key, value in runs[0].items()} for way, runs in found.items()}  # fmt: skip


def rows_of(*texts: Path, **given) -> list:
    """X scipy CSR with indices of 32 bits, and y of +-1, the larger label 1, of each svmlight text."""
    from sklearn.datasets import load_svmlight_files

    found = load_svmlight_files(list(map(str, texts)), zero_based=False, **given)
    for X in found[::2]:
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # some programs take no others
    found[1::2] = [np.where(y == y.max(), 1.0, -1.0) for y in found[1::2]]
    return found


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for files, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        yield Path(name)


def add_options(p: argparse.ArgumentParser, *names: str, **defaults: object) -> None:
    """Arguments (NAME+: one or more), and --KEY of the default's type (False: a flag; a tuple: with commas)."""
    for name in names:
        p.add_argument(name.rstrip("+"), nargs="+" if name.endswith("+") else None)
    for key, default in defaults.items():
        kind = (lambda given: tuple(given.split(","))) if isinstance(default, tuple) else type(default)
        given = {"action": "store_true"} if default is False else {"type": kind, "default": default}
        p.add_argument(f"{'-' * min(2, len(key))}{key.replace('_', '-')}", **given)


def script(*names: str, **defaults: object):
    """Decorates the main function of a script, which is called with its options (see above) where the script is run.
    Prints what the tables are measured on: machine, day, commit."""

    def decorated(main):
        if main.__module__ != "__main__":
            return main
        text, raw = sys.modules["__main__"].__doc__, argparse.RawDescriptionHelpFormatter
        p = argparse.ArgumentParser(description=text, formatter_class=raw)
        add_options(p, *names, **defaults)
        options = p.parse_args()
        models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
        git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
        cpu = models[0].partition(":")[2].strip() if models else "unknown processor"
        cores = len(os.sched_getaffinity(0))
        print(f"Measured on {cpu}, {cores} cores, {time.strftime('%Y-%m-%d')}, at {git.stdout.strip()}.")
        return main(options)

    return decorated


def table(title: str, *columns: str) -> None:
    """Begin a table of Markdown."""
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)


def row(*cells: object) -> None:
    print(f"| {' | '.join(map(str, cells))} |", flush=True)
