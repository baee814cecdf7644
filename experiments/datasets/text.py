"""Any svmlight text with two labels, not compressed; with a second file of the same kind to test on."""

from __future__ import annotations

from pathlib import Path

from experiments.datasets import Dataset, Plan

USAGE = "text=TRAIN.svm[,test=TEST.svm]"
OPTIONS = ("test",)
NEEDS_PATH = True
COMPRESSED = (b"\x1f\x8b", b"BZ", b"\xfd7", b"\x28\xb5")


def _files(options: dict[str, str]) -> list[Path]:
    files = [Path(options[key]).resolve() for key in ("path", "test") if key in options]
    for path in files:
        if not path.is_file():
            raise SystemExit(f"{path}: no such file")
        with open(path, "rb") as file:
            if file.read(2) in COMPRESSED:
                raise SystemExit(f"{path}: is compressed; unpack it first, since not every solver reads it")
    return files


def plan(options: dict[str, str]) -> Plan:
    sizes = [path.stat().st_size for path in _files(options)]
    return Plan(Path(options["path"]).stem, sizes[0], sum(sizes[1:]), 0)


def make(folder: Path, options: dict[str, str]) -> Dataset:
    files = _files(options)
    return Dataset(plan(options).name, files[0], files[1] if len(files) > 1 else None)
