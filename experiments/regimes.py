"""Batch, online and stream on the same rows: passes over the data, what is kept of it, memory, time, accuracy on a test
set.

    python -m experiments.regimes NAME=TRAIN.svm,TEST.svm [...] [--memory 300000000] [--repeats 3] [--results DIR]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from experiments.processes import ROOT
from experiments.report import machine

LEARNERS = (("pa1", ["-C", "0.1"]), ("arow", []), ("adagrad-rda", ["--l1", "1e-6"]))

# more than two classes, which the batch solver does not have: one against the others, class after class
ONE_AGAINST_THE_OTHERS = """
import sys, json, time
import numpy as np
import blocksvm
from sklearn.datasets import load_svmlight_file
train, test, memory = sys.argv[1], sys.argv[2], int(sys.argv[3])
X, y = load_svmlight_file(train, dtype=np.float32, zero_based=True)
Z, v = load_svmlight_file(test, dtype=np.float32, zero_based=True)
began = time.perf_counter()
labels = np.unique(y)
fits = [blocksvm.fit(X, np.where(y == c, 1.0, -1.0), C=float(sys.argv[4]), memory=memory) for c in labels]
seconds = time.perf_counter() - began
values = np.stack([fit.model.decision_function(Z) for fit in fits], axis=1)
accuracy = float(np.mean(labels[values.argmax(axis=1)] == v))
outer = sum(fit.result.outer for fit in fits) / len(fits)
print(json.dumps({"seconds": seconds, "accuracy": accuracy, "passes": outer}))
"""


def run(*command: object) -> tuple[str, float, float]:
    """(standard output, wall seconds, peak MB) of a command, which must end well."""
    with tempfile.TemporaryFile("w+") as out:
        began = time.perf_counter()
        child = subprocess.Popen([sys.executable, *map(str, command)], cwd=ROOT, stdout=out, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.perf_counter() - began
        out.seek(0)
        told = out.read()
    if child.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: ended with status {child.returncode}")
    return told, wall, usage.ru_maxrss * 1024 / 1e6


def accuracy(model: Path, test: Path, folder: Path) -> float:
    told, _, _ = run("-m", "blocksvm.predict", model, test, folder / "p.txt", "--overwrite", "--quiet")
    return float(re.search(r"accuracy ([0-9.]+)", told)[1])


def measure(train: Path, test: Path, memory: int, C: float, folder: Path) -> list[dict]:
    """One line a regime."""
    store, model = folder / "store.h5", folder / "model.h5"
    lines = []
    _, split_seconds, _ = run("-m", "blocksvm.split", train, store, "--overwrite", "--quiet")
    kept = f"store, {store.stat().st_size / 1e6:.1f} MB on disk"
    with open(train, "rb") as file:
        classes = {line.split(None, 1)[0] for line in file}
    size = ["--memory", f"{memory}B", "--overwrite", "--quiet"]
    if len(classes) == 2:
        trace = folder / "t.jsonl"
        _, wall, peak = run("-m", "blocksvm.train", store, model, "-C", C, "--log", trace, *size)
        end = json.loads(trace.read_text().splitlines()[-1])
        line = {"regime": "batch", "method": f"dual-cd, C {C:g}, gap 1e-3", "passes": end["outer"], "kept": kept}
        lines.append(line | {"seconds": split_seconds + wall, "peak": peak, "accuracy": accuracy(model, test, folder)})
    else:
        told, wall, peak = run("-c", ONE_AGAINST_THE_OTHERS, train, test, memory, C)
        found = json.loads(told.splitlines()[-1])
        lines.append({"regime": "batch", "method": f"dual-cd, C {C:g}, gap 1e-3, one class against the others",
                      "passes": round(found["passes"]), "kept": "all rows in memory", "seconds": found["seconds"],
                      "peak": peak, "accuracy": found["accuracy"]})  # fmt: skip
    for name, options in LEARNERS:
        for epochs in (1, 5):
            more = [*options, "--max-outer", epochs, "--average"]
            _, wall, peak = run("-m", "blocksvm.train", store, model, "--solver", name, *more, *size)
            lines.append({"regime": "online", "method": f"{' '.join([name, *options])}, averaged", "passes": epochs,
                          "kept": kept, "seconds": split_seconds + wall, "peak": peak,
                          "accuracy": accuracy(model, test, folder)})  # fmt: skip
    labels = ["--labels", ",".join(sorted(c.decode() for c in classes))] if len(classes) > 2 else []
    for name, options in LEARNERS:
        more = ["--learner", name, *options, "--average", "--model", model, *labels, *size]
        _, wall, peak = run("-m", "blocksvm.stream", train, *more)
        lines.append({"regime": "stream", "method": f"{' '.join([name, *options])}, averaged", "passes": 1,
                      "kept": "nothing", "seconds": wall, "peak": peak,
                      "accuracy": accuracy(model, test, folder)})  # fmt: skip
    return lines


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("data", nargs="+", metavar="NAME=TRAIN.svm,TEST.svm[,C]")
    p.add_argument("--memory", type=int, default=300_000_000)
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--results", type=Path, default=Path(__file__).resolve().parent / "results")
    options = p.parse_args()
    m = machine()
    out = [
        "# Batch, online, stream", "",
        f"{m['date']}; {m['cpu']}, {m['cores']} cores, {m['ram_gb']} GB RAM; medians of {options.repeats} runs.",
        f"--memory {options.memory / 1e6:.0f} MB. Seconds: whole commands from the text on, the split where there",
        "is a store included (one class against the others: the fits alone, from rows in memory).", "",
    ]  # fmt: skip
    columns = ("data", "regime", "method", "passes", "data kept", "seconds", "peak MB", "test accuracy")
    out += ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for text in options.data:
        name, _, rest = text.partition("=")
        train, test, *more = rest.split(",")
        C = float(more[0]) if more else 1.0
        with tempfile.TemporaryDirectory(dir=Path(train).parent, prefix="regimes-") as folder:
            repeats = [
                measure(Path(train), Path(test), options.memory, C, Path(folder)) for _ in range(options.repeats)
            ]
        for lines in zip(*repeats, strict=True):
            told = lines[0] | {key: median(line[key] for line in lines) for key in ("seconds", "peak", "accuracy")}
            cells = (name, told["regime"], told["method"], told["passes"], told["kept"], f"{told['seconds']:.1f}",
                     f"{told['peak']:.0f}", f"{told['accuracy']:.4f}")  # fmt: skip
            out.append("| " + " | ".join(map(str, cells)) + " |")
            print(out[-1], flush=True)
    (options.results / "regimes.md").write_text("\n".join(out) + "\n")


if __name__ == "__main__":
    main()
