"""Made-up sparse rows with zipf-distributed features: 64 nonzeros a row, of any size."""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from experiments.datasets import Dataset, Plan, call_tool

USAGE = "zipf[,rows=N][,features=N][,test=N]"
OPTIONS = ("rows", "features", "test")
NEEDS_PATH = False
BYTES_PER_ROW = 1_120


def _sizes(options: dict[str, str]) -> tuple[int, int, int]:
    rows = int(options.get("rows", 1_000_000))
    return rows, int(options.get("features", 5_000_000)), int(options.get("test", max(200, rows // 20)))


def plan(options: dict[str, str]) -> Plan:
    rows, features, test = _sizes(options)
    size = (rows + test) * BYTES_PER_ROW  # the rows are written twice: together, then train and test apart
    return Plan(f"zipf-{rows}x{features}", rows * BYTES_PER_ROW, test * BYTES_PER_ROW, 2 * size)


def make(folder: Path, options: dict[str, str]) -> Dataset:
    """Train and test are the first and the last rows of one file: they share the hyperplane planted in it."""
    rows, features, test = _sizes(options)
    outputs = [(folder / "train.svm", rows), (folder / f"test-{test}.svm", test)]
    if not all(path.exists() for path, _ in outputs):
        both = folder / "both.svm"
        call_tool("make_zipf.py", both, "--rows", rows + test, "--features", features)
        with open(both, "rb") as source:
            for path, count in outputs:
                part = path.with_suffix(".part")
                with open(part, "wb") as out:
                    out.writelines(islice(source, count))
                os.replace(part, path)
        both.unlink()
    return Dataset(plan(options).name, outputs[0][0], outputs[1][0])
