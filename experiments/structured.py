"""The structured learners on real text: chunks (CoNLL-2000), dependency trees and words of lines (a treebank sample).

    python -m experiments.structured [--chunks conll2000.zip] [--trees dependency_treebank.zip] [--epochs 10] [--seed 0]

Every run is the command structure in a process of its own; the seconds are those of the training alone, the memory the
peak of the process.  Of the treebank's sentences each tenth is tested on; lines are its words without blanks.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from experiments.processes import ROOT
from experiments.report import machine

RUNS = {
    "chunks": [
        ("perceptron",), ("pa",), ("pa1", "-C", "0.1"), ("pa1", "-C", "0.1", "--against", "max-loss"),
        ("pa2", "-C", "0.1"), ("mira", "-C", "0.01", "--k", "1"), ("mira", "-C", "0.01", "--k", "5"),
        ("mira", "-C", "0.01", "--k", "5", "--slack", "shared"),
        ("frank-wolfe", "-C", "0.01", "--epochs", "50"), ("frank-wolfe", "-C", "0.1", "--epochs", "50"),
    ],
    "trees": [
        ("perceptron",), ("pa1", "-C", "0.1"), ("mira", "-C", "0.01", "--k", "1"), ("mira", "-C", "0.01", "--k", "5"),
        ("frank-wolfe", "-C", "0.01", "--epochs", "30"),
    ],
    "words": [
        ("perceptron",), ("pa1", "-C", "0.1"), ("mira", "-C", "0.01", "--k", "5"),
        ("frank-wolfe", "-C", "0.1", "--epochs", "30"),
    ],
}  # fmt: skip
MEASURE = {"chunks": "F1", "trees": "UAS", "words": "F1"}


def command(*words: object) -> tuple[str, float]:
    """(standard output, peak memory in MB) of the command structure."""
    child = subprocess.Popen([sys.executable, "-m", "blocksvm.structure", *map(str, words)], cwd=ROOT, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
    out = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise SystemExit(f"structure {' '.join(map(str, words))} ended with status {child.returncode}")
    return out, usage.ru_maxrss * 1024 / 1e6


def unpack_chunks(archive: Path, folder: Path) -> tuple[Path, Path]:
    with zipfile.ZipFile(archive) as file:
        for name in ("train.txt", "test.txt"):
            (folder / name).write_bytes(file.read(f"conll2000/{name}"))
    return folder / "train.txt", folder / "test.txt"


def unpack_trees(archive: Path, folder: Path) -> dict[str, tuple[Path, Path]]:
    """(training, test) texts of trees, and of words: nine sentences of ten, and the others."""
    sentences = []
    with zipfile.ZipFile(archive) as file:
        for name in sorted(file.namelist()):
            if name.endswith(".dp"):
                parts = re.split(r"\n[ \t\r]*\n", file.read(name).decode())
                sentences += [part.strip("\n") for part in parts if part.strip()]
    found = {}
    for task in ("trees", "words"):
        for part in ("train", "test"):
            chosen = [s for k, s in enumerate(sentences) if (k % 10 == 9) == (part == "test")]
            if task == "words":
                chosen = [" ".join(line.split()[0] for line in s.split("\n")) for s in chosen]
            (folder / f"{task}.{part}").write_text(("\n" if task == "words" else "\n\n").join(chosen) + "\n")
        found[task] = folder / f"{task}.train", folder / f"{task}.test"
    return found


def table(task: str, train: Path, test: Path, epochs: int, seed: int, folder: Path) -> None:
    print(f"\n## {task}\n\n| learner | {MEASURE[task]} | certified gap | epochs | seconds | peak memory | model |")
    print("|---|---|---|---|---|---|---|")
    model = folder / "model.h5"
    # the kernels are compiled by a run that does not count
    command("train", train, model, "--task", task, "--learner", "mira", "--epochs", 1, "--overwrite")
    for learner, *settings in RUNS[task]:
        given = settings if "--epochs" in settings else [*settings, "--epochs", epochs]
        out, peak = command(
            "train", train, model, "--task", task, "--learner", learner, *given, "--seed", seed, "--overwrite"
        )
        figures = json.loads(command("evaluate", model, test, "--json")[0])
        told = re.search(r"(\d+) epochs? in ([\d.]+)s", out)
        gap = re.search(r"relative gap (\S+)", out)
        name = " ".join([learner, *settings])
        cells = [f"`{name}`", f"{100 * figures[MEASURE[task]]:.2f}", gap[1] if gap else "", told[1], told[2]]
        cells += [f"{peak:,.0f} MB", f"{model.stat().st_size / 1e6:.1f} MB"]
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--chunks", type=Path, metavar="conll2000.zip")
    p.add_argument("--trees", type=Path, metavar="dependency_treebank.zip")
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--seed", type=int, default=0)
    options = p.parse_args()
    about = machine()
    print(f"{about['cpu']}, {about['cores']} cores, {about['date']}")
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        folder, texts = Path(name), {}
        if options.chunks is not None:
            texts["chunks"] = unpack_chunks(options.chunks, folder)
        if options.trees is not None:
            texts |= unpack_trees(options.trees, folder)
        for task, (train, test) in texts.items():
            table(task, train, test, options.epochs, options.seed, folder)


if __name__ == "__main__":
    main()
