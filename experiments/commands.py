"""How fast text is split, by jobs and memory, and how long a command takes to start up.

    python -m experiments.commands TEXT.svm [--folder DIR] [--repeats 3]

Whole commands, start-up and the flush to disk included; kernels are compiled before, the text lies in the cache.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from experiments.processes import ROOT, compile_kernels, read_through, split
from experiments.report import machine

SETTINGS = (("1GB", 1), ("1GB", 2), ("300MB", 2))
ROWS = "+1 1:1 2:0.5\n-1 2:1 3:0.5\n+1 1:0.25 3:1\n"


def seconds_of(*arguments: object) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", *map(str, arguments)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("text", type=Path)
    p.add_argument("--folder", type=Path, help="for stores, which are removed again (default: the system's)")
    p.add_argument("--repeats", type=int, default=3)
    options = p.parse_args()
    compile_kernels()
    found, size = machine(), options.text.stat().st_size
    print(f"{found['cpu']}, {found['cores']} cores, {found['date']}; {size / 1e6:,.0f} MB of text; medians of "
          f"{options.repeats}\n\n| | seconds | MB/s of text |\n|---|---|---|")  # fmt: skip
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        read_through(options.text)
        for memory, jobs in SETTINGS:
            runs = [split(options.text, folder / "rows.h5", "--memory", memory, "--jobs", str(jobs))
                    for _ in range(options.repeats)]  # fmt: skip
            seconds = statistics.median(runs)
            rate = size / 1e6 / seconds
            print(f"| split --memory {memory} --jobs {jobs} | {seconds:.1f} | {rate:,.0f} |", flush=True)
        (folder / "three.svm").write_text(ROWS)
        split(folder / "three.svm", folder / "three.h5")
        train = ("blocksvm.train", folder / "three.h5", folder / "m.h5", "--overwrite", "--quiet")
        seconds_of(*train)  # compiles what it needs
        for what, arguments in (("train --help", ("blocksvm.train", "--help")), ("train, three rows", train)):
            seconds = statistics.median(seconds_of(*arguments) for _ in range(options.repeats))
            print(f"| {what} | {seconds:.2f} | |", flush=True)


if __name__ == "__main__":
    main()
