"""Learning from text in one pass beside Vowpal Wabbit: the same rows, hashed to as many bits, start-up of both aside.

    python -m experiments.streams TEXT.svm TEXT.vw [--bits 22] [--repeats 5] [--python-peers PATH]

TEXT.vw: the same rows in Vowpal Wabbit's format, as ``experiments.prepare TEXT FOLDER --vw FILE`` writes them.
Each run finds its text in the system's cache and memory at hand.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from experiments.processes import ROOT, read_through, touch_memory
from experiments.report import machine

OURS = (("pa1", ["-C", "0.1"]), ("ogd", []), ("arow", []), ("adagrad-fobos", []))
THEIRS = (("default (adaptive, normalized, invariant)", ""), ("--sgd", "--sgd"))
VW = """
import json, sys, tempfile, time
from vowpalwabbit import Workspace
def learn(path, bits, more):
    began = time.perf_counter()
    arguments = f"--loss_function hinge --noconstant --quiet -b {bits} --passes 1 {more}".split()
    Workspace(arg_list=[*arguments, "-d", path]).finish()
    return time.perf_counter() - began
path, bits, more = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with tempfile.NamedTemporaryFile(suffix=".vw") as empty:
    start_up = learn(empty.name, bits, more)
print(json.dumps(learn(path, bits, more) - start_up))
"""


def ours(text: Path, bits: int, name: str, options: list[str]) -> float:
    """Seconds of one stream, by its own trace: from its first to its last row."""
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder, "trace.jsonl")
        command = [sys.executable, "-m", "blocksvm.stream", text, "--learner", name, *options, "--bits", bits,
                   "--log", trace, "--quiet"]  # fmt: skip
        subprocess.run(list(map(str, command)), cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        return json.loads(trace.read_text().splitlines()[-1])["seconds"]


def theirs(text: Path, bits: int, more: str, python: Path) -> float:
    done = subprocess.run([python, "-c", VW, str(text), str(bits), more], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("text", type=Path)
    p.add_argument("vw", type=Path)
    p.add_argument("--bits", type=int, default=22)
    p.add_argument("--repeats", type=int, default=5)
    p.add_argument("--python-peers", type=Path, default=Path(sys.executable))
    options = p.parse_args()
    text, vw = options.text.resolve(), options.vw.resolve()
    ours(text, options.bits, *OURS[0])  # compiles what is not compiled yet
    seconds: dict[str, list[float]] = {}
    for _ in range(options.repeats):
        for name, more in OURS:
            read_through(text)
            touch_memory()
            seconds.setdefault(f"blocksvm {name}", []).append(ours(text, options.bits, name, more))
        for name, more in THEIRS:
            read_through(vw)
            touch_memory()
            taken = theirs(vw, options.bits, more, options.python_peers)
            seconds.setdefault(f"Vowpal Wabbit {name}", []).append(taken)
    m, size = machine(), text.stat().st_size / 1e6
    print(
        f"{m['date']}; {m['cpu']}, {m['cores']} cores. {size:,.0f} MB of text, cached; {options.bits} bits, one pass; "
        f"medians of {options.repeats} interleaved runs, start-up aside.\n"
    )
    print("| | seconds (least-most) | MB/s of text | Vowpal Wabbit --sgd takes |\n|---|---|---|---|")
    slowest = median(seconds["Vowpal Wabbit --sgd"])
    for name, taken in seconds.items():
        middle = median(taken)
        print(f"| {name} | {middle:.2f} ({min(taken):.2f}-{max(taken):.2f}) | {size / middle:,.0f} "
              f"| {slowest / middle:.2f}x |")  # fmt: skip


if __name__ == "__main__":
    main()
