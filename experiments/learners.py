"""Every online learner on every stream, by its defaults: progressive mistakes, seconds from text and memory, beside
Vowpal Wabbit and scikit-learn.

    python -m experiments.learners NAME=TEXT.svm ... [--folder DIR] [--learners pa1,arow,...] [--bits 22] [--repeats 3]
                                   [--python-peers PATH] [--peers vw] [--json FILE]

Each row is predicted before it is learned from, in the order of the text, once; labels are two.  A mistake is a row
whose margin is not above 0.  Runs are interleaved; seconds are those from the first row to the last, start-up aside (of
both, a run without rows to speak of comes first in the same process), of which the median is told; memory is at hand.
Vowpal Wabbit reads the same rows in its own format, hashed to as many bits, with its constant feature; its mistakes are
counted in a run that writes its predictions.  scikit-learn's learners get the text by ``load_svmlight_file`` in pieces
that double up to 1,000 rows, each predicted before ``partial_fit``, ids folded to as many bits; seconds include the
parsing.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from experiments.prepare import write_vw
from experiments.processes import ROOT, read_through, touch_memory
from experiments.report import machine

NEEDS = {"pegasos": ["--lambda", "1e-4"], "perceptron-bias": ["--max-norm", "10"], "omd": ["--mirror", "p-norm"]}
VW = {"default": "", "--sgd": "--sgd", "--ftrl": "--ftrl", "--coin": "--coin"}
SCIKIT_LEARN = ("SGDClassifier", "Perceptron")
# whose counterpart in Vowpal Wabbit is another than --sgd
COUNTERPARTS = {"auto": "default", "nag": "default", "ftrl": "--ftrl", "coin": "--coin"}
PEER = """
import json, resource, sys, tempfile, time
from vowpalwabbit import Workspace
text, bits, more, predictions = sys.argv[1], sys.argv[2], sys.argv[3].split(), sys.argv[4:]
def learn(path, *more):
    began = time.perf_counter()
    Workspace(arg_list=["--quiet", "--holdout_off", "-b", bits, "-d", path, *more]).finish()
    return time.perf_counter() - began
with tempfile.NamedTemporaryFile(suffix=".vw") as empty:
    start_up = learn(empty.name, *more)
seconds = learn(text, *more, *(["-p", predictions[0]] if predictions else [])) - start_up
print(json.dumps({"seconds": seconds, "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3}))
"""
OURS = """
import sys
from blocksvm.cli.console import run
from blocksvm.stream import main
few, text, log, *arguments = sys.argv[1:]
for path in (few, text):
    try:
        run(main, [path, *arguments, "--quiet", *(["--log", log] if path == text else [])])
    except SystemExit as ended:
        if ended.code:
            raise
"""
SKLEARN = """
import io, json, resource, sys, time
import numpy as np
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file
from sklearn.linear_model import Perceptron, SGDClassifier
text, bits, kind = sys.argv[1], int(sys.argv[2]), sys.argv[3]
made = {"SGDClassifier": SGDClassifier, "Perceptron": Perceptron}[kind]()
began, mistakes, rows = time.perf_counter(), 0, 0
with open(text, "rb") as file:
    while True:
        lines = [line for _, line in zip(range(min(1000, max(1, rows))), file)]
        if not lines:
            break
        X, y = load_svmlight_file(io.BytesIO(b"".join(lines)), zero_based=False)
        folded = X.indices.astype(np.int32) & np.int32((1 << bits) - 1)  # what meets in a row is added up
        X = csr_matrix((X.data, folded, X.indptr.astype(np.int32)), shape=(X.shape[0], 1 << bits))
        X.sum_duplicates()
        y = np.where(y > 0, 1, -1)
        mistakes += int((made.decision_function(X) * y <= 0).sum()) if rows else len(y)
        made.partial_fit(X, y, classes=[-1, 1])
        rows += len(y)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
print(json.dumps({"seconds": time.perf_counter() - began, "peak_mb": peak, "mistakes": mistakes}))
"""


def last_line(command: list) -> dict:
    done = subprocess.run([*map(str, command)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def ours(text: Path, bits: int, name: str) -> dict:
    """One stream by the command: seconds and mistakes by its trace, the most memory its process had."""
    with tempfile.TemporaryDirectory() as folder:
        trace, few = Path(folder, "trace.jsonl"), Path(folder, "few.svm")
        few.write_text("1 1:1\n-1 2:1\n")
        command = [
            sys.executable,
            "-c",
            OURS,
            few,
            text,
            trace,
            "--learner",
            name,
            *NEEDS.get(name, []),
            "--bits",
            bits,
        ]
        child = subprocess.Popen([*map(str, command)], cwd=ROOT, stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        if status:
            raise SystemExit(f"{name} on {text}: ended with status {status}")
        end = json.loads(trace.read_text().splitlines()[-1])
    return {
        "seconds": end["seconds"],
        "mistakes": end["mistakes"],
        "rows": end["rows"],
        "peak_mb": usage.ru_maxrss / 1e3,
    }


def mistakes_of_vw(text: Path, bits: int, more: str, python: Path) -> int:
    """Rows whose margin was not above 0 when they were predicted."""
    with tempfile.TemporaryDirectory(dir=text.parent) as folder:
        predictions = Path(folder, "predictions")
        last_line([python, "-c", PEER, text, bits, more, predictions])
        with open(text, "rb") as rows, open(predictions, "rb") as values:
            return sum(float(row.split(b" ", 1)[0]) * float(value.split()[0]) <= 0.0
                       for row, value in zip(rows, values, strict=True))  # fmt: skip


def measure(name: str, text: Path, options) -> dict:
    """All runs on one stream: {"learner or peer": [line, ...]}."""
    vw = options.folder / f"{name}.vw"
    if not vw.exists():
        write_vw(text, vw, 1.0)
    learners, python = options.learners.split(","), options.python_peers
    runs: dict[str, list[dict]] = {}
    for _ in range(options.repeats):
        for learner in learners:
            read_through(text)
            touch_memory()
            runs.setdefault(learner, []).append(ours(text, options.bits, learner))
        for kind, more in VW.items():
            read_through(vw)
            touch_memory()
            runs.setdefault(f"vw {kind}", []).append(last_line([python, "-c", PEER, vw, options.bits, more]))
    for kind, more in VW.items():
        runs[f"vw {kind}"][0]["mistakes"] = mistakes_of_vw(vw, options.bits, more, python)
    for kind in SCIKIT_LEARN if "scikit-learn" in options.peers else ():
        runs[f"scikit-learn {kind}"] = [last_line([sys.executable, "-c", SKLEARN, text, options.bits, kind])]
    print(f"  {name} done", flush=True)
    return {"name": name, "rows": runs[learners[0]][0]["rows"], "megabytes": text.stat().st_size / 1e6, "runs": runs}


def tables(results: list[dict], options) -> str:
    """Markdown: mistakes, then seconds, a line a learner and a column a stream."""
    about = machine()
    names = list(results[0]["runs"])
    head = "| | " + " | ".join(result["name"] for result in results) + " |\n" + "|---" * (len(results) + 1) + "|"
    lines = [f"{about['cpu']}, {about['cores']} cores, {about['date']}; {options.bits} bits.\n",
             "Rows predicted wrongly, per cent:\n", head]  # fmt: skip
    for name in names:
        shares = [100.0 * result["runs"][name][0]["mistakes"] / result["rows"] for result in results]
        lines.append(f"| {name} | " + " | ".join(f"{share:.3f}" for share in shares) + " |")
    of = f"Seconds, medians of {options.repeats}"
    lines += [f"\n{of} (how many times as long Vowpal Wabbit's counterpart takes; MB at most):\n", head]
    for name in names:
        cells = []
        for result in results:
            taken = median(line["seconds"] for line in result["runs"][name])
            peak = median(line["peak_mb"] for line in result["runs"][name])
            peer = result["runs"]["vw " + COUNTERPARTS.get(name, "--sgd")]
            times = "" if " " in name else f"{median(line['seconds'] for line in peer) / taken:.1f}x; "
            cells.append(f"{taken:.2f} ({times}{peak:.0f})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    from blocksvm.learners import LEARNERS

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", nargs="+", metavar="NAME=TEXT.svm")
    p.add_argument("--folder", type=Path, default=Path(__file__).resolve().parent / "data", metavar="DIR")
    p.add_argument("--learners", default=",".join(LEARNERS))
    p.add_argument("--bits", type=int, default=22)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--peers", default="vw,scikit-learn", help="without scikit-learn: vw")
    p.add_argument("--python-peers", type=Path, default=Path(sys.executable), metavar="PATH")
    p.add_argument("--json", type=Path, metavar="FILE")
    options = p.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    results = []
    first = Path(options.data[0].partition("=")[2]).resolve()
    for learner in options.learners.split(","):
        ours(first, options.bits, learner)  # compiles what is not compiled yet
    for one in options.data:
        name, _, text = one.partition("=")
        results.append(measure(name, Path(text).resolve(), options))
        if options.json:
            options.json.write_text(json.dumps(results, indent=1) + "\n")
    print("\n" + tables(results, options))


if __name__ == "__main__":
    main()
