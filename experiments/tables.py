"""The other tables of a data set that ``tools/bench`` has prepared, each by its own experiment.

All experiments, with the data of each, are in ``experiments.registry``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from experiments.datasets import Dataset
from experiments.processes import ROOT

NAMES = ("streams", "regimes", "iteration", "convergence", "schedules", "codecs")


def arguments_of(table: str, data: Dataset, folder: Path, memory: int, repeats: int, peers: Path | None) -> list | None:
    """What an experiment is given for this data set, or None where the data set lacks what it needs: Vowpal Wabbit's
    text, or rows to test on."""
    store, vw = folder / "store.h5", folder / "train.vw"
    texts = f"{data.name}={data.train_text},{data.test_text},{data.C:g}"
    return {
        "streams": [data.train_text, vw, "--repeats", repeats, *(["--python-peers", peers] if peers else [])]
        if vw.exists() else None,
        "regimes": None if data.test_text is None else [texts, "--memory", memory, "--repeats", repeats],
        "iteration": [folder, "--repeats", repeats, "-C", data.C],
        "convergence": [store],
        "schedules": [store, "--memory", memory, "--repeats", repeats],
        "codecs": [store],
    }[table]  # fmt: skip


def write_tables(names: list[str], data: Dataset, folder: Path, results: Path, memory: int, repeats: int,
                 peers: Path | None) -> list[str]:  # fmt: skip
    """Run the experiments one after the other, each table to RESULTS/TABLE-DATA.md; a sentence for each."""
    results = results.resolve()
    results.mkdir(parents=True, exist_ok=True)
    told = []
    for table in names:
        given = arguments_of(table, data, folder, memory, repeats, peers)
        path = results / f"{table}-{data.name}.md"
        if given is None:
            told.append(f"{table}: left out, {data.name} has not what it needs")
            continue
        more = ["--results", results] if table == "regimes" else []
        line = [sys.executable, "-m", f"experiments.{table}", *map(str, [*given, *more])]
        done = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            told.append(f"{table}: ended with status {done.returncode}")
            continue
        path.write_text(done.stdout)
        told.append(f"{table}: written to {path}")
    return told
