"""Film reviews (aclImdb) as hashed word 1-3-grams: 25,000 rows to train on, 25,000 to test on, long rows."""

from __future__ import annotations

from pathlib import Path

from experiments.datasets import Dataset, Plan, call_tool

USAGE = "imdb=PATH/aclImdb.tar.gz[,rows=N][,bits=B]"
OPTIONS = ("rows", "bits")
NEEDS_PATH = True
BYTES_PER_ROW = 10_500


def plan(options: dict[str, str]) -> Plan:
    rows, bits = int(options.get("rows", 25_000)), int(options.get("bits", 22))
    size = rows * BYTES_PER_ROW
    return Plan("imdb" + (f"-{rows}" if rows < 25_000 else "") + (f"-{bits}bits" if bits != 22 else ""), size, size,
                2 * size)  # fmt: skip


def make(folder: Path, options: dict[str, str]) -> Dataset:
    train, test = folder / "train.svm", folder / "test.svm"
    if not (train.exists() and test.exists()):
        more = ["--rows", options["rows"]] if "rows" in options else []
        call_tool("make_imdb.py", options["path"], train, test, "--bits", options.get("bits", "22"), *more)
    return Dataset(plan(options).name, train, test)
