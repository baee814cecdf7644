"""Data sets, one file each: ``make(folder, options)`` gives a Dataset, ``plan(options)`` what it will take."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).resolve().parents[2] / "tools"
KINDS = ("imdb", "zipf", "text")


@dataclass(frozen=True)
class Dataset:
    """A binary problem: svmlight text to train on, text to test on (or None), and the C of the benchmark."""

    name: str
    train_text: Path
    test_text: Path | None
    C: float = 1.0


@dataclass(frozen=True)
class Plan:
    """A data set before it is made: its name, about how large its texts are, and the bytes that making it writes."""

    name: str
    train_bytes: int
    test_bytes: int
    made_bytes: int


def parse(text: str) -> tuple[ModuleType, dict[str, str]]:
    """'kind', 'kind=PATH' or either with ',option=value' behind it: the data set's module and its options."""
    head, *rest = text.split(",")
    kind, _, path = head.partition("=")
    options = dict(part.partition("=")[::2] for part in rest)
    if kind not in KINDS:
        raise SystemExit(f"--data {text}: choose one of {', '.join(KINDS)}")
    module = import_module(f"experiments.datasets.{kind}")
    unknown = set(options) - set(module.OPTIONS)
    if unknown or bool(path) != module.NEEDS_PATH:
        raise SystemExit(f"--data {text}: expected {module.USAGE}")
    return module, options | {"path": path}


def call_tool(name: str, *arguments: object) -> None:
    """Run one of the generators in tools/."""
    subprocess.run([sys.executable, str(TOOLS / name), *map(str, arguments)], check=True)
