"""The demo's real input: windows of the Python source installed beside the interpreter, as documents.

The task: does a window of 16 consecutive lines come from a test module or from library code?  It was chosen over "which
package is this?" because its classes are the best balanced on every machine, and it is a matter of style: assertions,
fixtures and literal data against definitions and docstrings.  Many windows of a test module are plain helper code, and
numpy.testing, unittest and doctest examples look like tests but count as library code.

A line is ``label TAB text``, +1 for tests.  Train and test are divided by file, by a hash of the path relative to its
root, so no window of a held-out file is ever trained on.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

WINDOW_LINES = 16
LEAST_STRIDE, LARGEST_STRIDE = 2, 512  # lines between the starts of neighbouring windows
SHORTEST, LONGEST = 150, 4000  # characters of a window; fewer say nothing, more are a table of data
BYTES_PER_NONZERO = 5.0  # of a window's text for each of its word 1-3-grams that other windows have, too
LARGEST_FILE, HELD_OUT = 1_000_000, 0.1  # larger modules are generated tables; share of the files for the test
SITES = {"site-packages", "dist-packages"}
SKIPPED = SITES | {"__pycache__", "_vendor"}  # roots of their own; caches; copies of other packages


@dataclass
class Side:
    """The counts of one of the two files."""

    files: int = 0
    windows: int = 0
    positives: int = 0  # of test code
    n_bytes: int = 0


@dataclass
class Windows:
    """The counts of both files that ``write_windows`` made."""

    train: Side = field(default_factory=Side)
    test: Side = field(default_factory=Side)

    def n_bytes(self) -> int:
        return self.train.n_bytes + self.test.n_bytes

    def have_both_labels(self) -> bool:
        return all(0 < side.positives < side.windows for side in (self.train, self.test))


@dataclass(frozen=True)
class Module:
    """A file: name is its path relative to its root, with "/"."""

    path: str
    name: str
    n_bytes: int

    @property
    def order(self) -> int:
        """A hash of its name, the same in every process: its place in the output, and where its windows begin."""
        return int.from_bytes(blake2b(self.name.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")

    @property
    def held_out(self) -> bool:
        return self.order % 1000 < 1000 * HELD_OUT

    @property
    def is_test(self) -> bool:
        *folders, base = self.name.split("/")
        in_tests = any(folder in ("test", "tests") or folder.endswith(("_test", "_tests")) for folder in folders)
        return in_tests or base == "conftest.py" or base.startswith("test_") or base.endswith("_test.py")


def default_roots() -> list[Path]:
    """Directories of installed Python source: the standard library, every site/dist-packages on sys.path."""
    paths = sysconfig.get_paths()
    folders = [paths["stdlib"], paths["purelib"], paths["platlib"]]
    folders += [path for path in sys.path if os.path.basename(path) in SITES]
    return [Path(path) for path in dict.fromkeys(map(os.path.realpath, folders)) if os.path.isdir(path)]


def write_windows(
    train: Path,
    test: Path,
    target_nonzeros: int,
    progress: Callable[[float, str], None] = lambda fraction, message: None,
    roots: Sequence[Path] | None = None,
) -> Windows:
    """Write windows of installed Python source to two files, until they have about ``target_nonzeros`` word 1-3-grams,
    or the source runs out.  progress(fraction, message) is called a few times a second; roots: in place of
    ``default_roots()``.

    Equal sources and target give equal bytes.  Raises ValueError where the source lacks a label in either file.
    """
    reported_at = time.monotonic()
    progress(0.0, "listing installed Python source")
    where = default_roots() if roots is None else roots
    modules = sorted(find_modules(where), key=lambda module: module.order)
    wanted = target_nonzeros * BYTES_PER_NONZERO
    all_bytes = sum(module.n_bytes for module in modules)
    # each line is in as many windows as WINDOW_LINES / stride
    stride = min(LARGEST_STRIDE, max(LEAST_STRIDE, int(0.8 * WINDOW_LINES * all_bytes / wanted)))
    totals = Windows()
    with open(train, "w", encoding="utf-8") as out_train, open(test, "w", encoding="utf-8") as out_test:
        for module in modules:
            side, out = (totals.test, out_test) if module.held_out else (totals.train, out_train)
            label = "+1" if module.is_test else "-1"
            texts = list(windows_of(module, stride))
            for text in texts:
                side.n_bytes += out.write(f"{label}\t{text}\n")
            side.files += bool(texts)
            side.windows += len(texts)
            side.positives += len(texts) * module.is_test
            if time.monotonic() - reported_at > 0.25:
                reported_at = time.monotonic()
                progress(min(1.0, totals.n_bytes() / wanted), f"{totals.train.windows + totals.test.windows:,} windows")
            if totals.n_bytes() >= wanted and totals.have_both_labels():
                break
    if not totals.have_both_labels():
        raise ValueError(f"too little Python source for test and library code in both files: {[*map(str, where)]}")
    return totals


def find_modules(roots: Iterable[Path]) -> Iterator[Module]:
    """Every .py file below the roots, once per relative path: the first root wins, as in an import."""
    seen: set[str] = set()
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders[:] = [name for name in folders if name not in SKIPPED and not name.startswith(".")]
            for path in (os.path.join(folder, base) for base in names if base.endswith(".py")):
                name = os.path.relpath(path, root).replace(os.sep, "/")
                n_bytes = os.path.getsize(path) if os.path.isfile(path) else 0
                if name not in seen and 0 < n_bytes <= LARGEST_FILE:
                    seen.add(name)
                    yield Module(path, name, n_bytes)


def windows_of(module: Module, stride: int) -> Iterator[str]:
    """The windows of a file as one line of text each; none where it cannot be read or is not UTF-8."""
    try:
        lines = Path(module.path).read_text("utf-8").split("\n")
    except (OSError, UnicodeDecodeError):
        return
    last = max(0, len(lines) - WINDOW_LINES)  # where the last full window begins
    for start in range(module.order % min(stride, last + 1), last + 1, stride):
        text = " ".join(" ".join(lines[start : start + WINDOW_LINES]).split())
        if SHORTEST <= len(text) <= LONGEST:
            yield text
