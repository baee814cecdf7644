"""Owns the demo's real input: windows of the Python source installed beside the interpreter, as svmlight text.

The task: does a window of 16 consecutive lines come from a test module (+1) or from library code (-1)?
It was chosen over "which package is this?" because its classes are the best balanced on every machine,
it stays a matter of style (assertions, fixtures and literal data against definitions and docstrings) and
a linear model gets about 95 % of held-out windows right, not 99 %. Many windows of a test module are plain
helper code, and numpy.testing, unittest and doctest examples look like tests but count as library code.

Rows: windows of a file, `stride` lines apart. Columns: 1-, 2- and 3-grams of tokens hashed to ids in
1 .. 2**22. Values: how often the n-gram occurs in the window. Train and test are split by file, by a hash
of the path relative to its root, so no window of a held-out file is ever trained on.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path

import numpy as np

WINDOW_LINES = 16
ID_BITS = 22
MIN_STRIDE, MAX_STRIDE = 2, 32 * WINDOW_LINES  # lines; a sparse stride spreads a small data set over many files
MIN_TOKENS, MAX_TOKENS = 30, 2000  # per window; fewer says nothing, more is a table of data
MAX_FILE_BYTES, HELD_OUT = 1_000_000, 0.1  # larger modules are generated tables; share of files for the test

_TOKEN = re.compile(r"[^\W\d]\w*|\n|\d[\w.]*|[-+*/%@&|^=<>!:]=|\*\*|//|->|<<|>>|[^\s\w]")
_SITE_DIRS = {"site-packages", "dist-packages"}
_SKIP_DIRS = _SITE_DIRS | {"__pycache__", "_vendor"}  # roots of their own; caches; copies of other packages
_LABELS = {1: "test code (modules of test packages, test_*.py, conftest.py)", -1: "library code (all others)"}
_INLINE_BELOW = 1_000_000  # nonzeros; less work than starting processes
_ROWS_AT_ONCE = 1 << (32 - ID_BITS)  # (row, id) must fit one uint32 sort key
_BATCH_BYTES = 1 << 18  # most source bytes of one task
_SAMPLE_BYTES, _SAMPLE_STRIDE = 2_000_000, 64  # source read to estimate nonzeros per window


@dataclass(frozen=True)
class WindowSummary:
    """What `write_windows` made; every number is a plain count, sizes are bytes."""

    files: int  # with at least one window
    files_test: int  # of these, held out
    files_skipped: int  # unreadable, not UTF-8, or without a usable window
    windows_train: int
    windows_test: int
    positives_train: int  # rows labelled +1
    positives_test: int
    nonzeros_train: int
    nonzeros_test: int
    bytes_source: int  # of the files used
    bytes_text: int  # svmlight text written, both files together
    labels: dict[int, str]
    window_lines: int
    stride: int  # lines between the starts of neighbouring windows; they overlap when it is below window_lines
    max_id: int  # largest possible feature id; the smallest is 1
    roots: tuple[str, ...]
    target_nonzeros: int
    reached_target: bool  # False: the installed source gave less than 80 % of it
    note: str  # one sentence for a person


@dataclass(frozen=True)
class _Source:
    path: str
    name: str  # path relative to its root, with "/"
    size: int  # bytes
    order: int  # 64-bit hash of seed and name: place in the output and phase of the windows
    label: int
    held_out: bool


def default_roots() -> list[Path]:
    """Directories of installed Python source: the standard library, every site/dist-packages on sys.path."""
    paths = sysconfig.get_paths()
    found = [paths["stdlib"], paths["purelib"], paths["platlib"]]
    found += [p for p in sys.path if os.path.basename(p) in _SITE_DIRS]
    return [Path(p) for p in dict.fromkeys(map(os.path.realpath, found)) if os.path.isdir(p)]


def write_windows(
    train: Path,
    test: Path,
    *,
    target_nonzeros: int,
    seed: int = 0,
    jobs: int = 2,
    progress: Callable[[float, str], None] | None = None,
    roots: Sequence[Path] | None = None,
) -> WindowSummary:
    """Write windows of installed Python source to `train` and `test` as lines `label id:count id:count ...`.

    `target_nonzeros` is for both files together. The result is within about 20 % of it, less where the source
    runs out at a stride of 2 lines (`reached_target`, `note`), more only if both labels in both files need it.
    `seed` chooses which files come first and where their windows start, not which are held out. Equal sources,
    target and seed give equal bytes for any number of worker processes `jobs`; they are spawned, so a script
    needs its `if __name__ == "__main__"`. `progress(fraction 0 .. 1, message)` is called at the start, the end
    and a few times a second. `roots` replaces the directories searched, `default_roots()`.

    Raises ValueError if an argument is out of range or the source lacks a label in either file, OSError if the
    outputs cannot be written. An error while writing removes both files.
    """
    if target_nonzeros < 1 or jobs < 1:
        raise ValueError(f"target_nonzeros and jobs must be at least 1, not {target_nonzeros} and {jobs}")
    tell = progress or (lambda fraction, message: None)
    told = time.monotonic()
    tell(0.0, "listing installed Python source")
    where = [Path(r) for r in roots] if roots is not None else default_roots()
    lacking = f"too little Python source for test and library code in both files: {[*map(str, where)]} gave"
    sources = sorted(_find_sources(where, seed), key=lambda s: (s.order, s.name))
    if len({(s.label, s.held_out) for s in sources}) < 4:
        raise ValueError(f"{lacking} {len(sources)} usable .py files")
    stride, per_byte = _choose_stride(sources, target_nonzeros)
    # A batch is a small part of the target too, so that stopping after one overshoots little.
    batches = _batches(sources, min(_BATCH_BYTES, target_nonzeros / 50 / per_byte))
    sums: Counter[str] = Counter()
    nonzeros = 0
    with open(train, "wb") as out_train, open(test, "wb") as out_test:
        try:
            with closing(_run(batches, stride, jobs if target_nonzeros > _INLINE_BELOW else 1)) as results:
                for done, (train_text, test_text, more) in enumerate(results, 1):
                    out_train.write(train_text)
                    out_test.write(test_text)
                    sums.update(more)
                    nonzeros = sums["nonzeros_train"] + sums["nonzeros_test"]
                    if time.monotonic() - told > 0.25:
                        told = time.monotonic()
                        part = min(1.0, max(nonzeros / target_nonzeros, done / len(batches)))
                        tell(part, f"{nonzeros:,} nonzeros written")
                    if nonzeros >= target_nonzeros and _has_both_labels(sums):
                        break
            if not _has_both_labels(sums):
                raise ValueError(f"{lacking} {sums['windows_train']} + {sums['windows_test']} windows")
        except BaseException:
            for path in filter(os.path.isfile, (train, test)):  # not /dev/null
                os.unlink(path)
            raise
    reached = nonzeros >= 0.8 * target_nonzeros
    note = f"{sums['files']:,} source files, one window of {WINDOW_LINES} lines every {stride} lines"
    note += "." if reached else f", which is all there is: {nonzeros:,} of {target_nonzeros:,} nonzeros."
    tell(1.0, note)
    return WindowSummary(
        **sums,
        labels=dict(_LABELS),
        window_lines=WINDOW_LINES,
        stride=stride,
        max_id=1 << ID_BITS,
        roots=tuple(map(str, where)),
        target_nonzeros=target_nonzeros,
        reached_target=reached,
        note=note,
    )


def _has_both_labels(sums: Counter[str]) -> bool:
    return all(0 < sums["positives_" + side] < sums["windows_" + side] for side in ("train", "test"))


@lru_cache(maxsize=200_000)  # most tokens come again and again
def _hash64(text: str) -> int:
    """The same in every process and run, unlike hash()."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest(), "little")


def _is_test(name: str) -> bool:
    *dirs, base = name.split("/")
    in_tests = any(d in ("test", "tests") or d.endswith(("_test", "_tests")) for d in dirs)
    return in_tests or base == "conftest.py" or base.startswith("test_") or base.endswith("_test.py")


def _find_sources(roots: Iterable[Path], seed: int) -> Iterator[_Source]:
    """Every .py file below the roots, once per relative path: the first root wins, as in an import."""
    seen: set[str] = set()
    for root in roots:
        for folder, dirs, names in os.walk(root):
            dirs[:] = [d for d in dirs if d not in _SKIP_DIRS and not d.startswith(".")]
            for path in (os.path.join(folder, base) for base in names if base.endswith(".py")):
                name = os.path.relpath(path, root).replace(os.sep, "/")
                size = os.path.getsize(path) if os.path.isfile(path) else 0
                if name not in seen and 0 < size <= MAX_FILE_BYTES:
                    seen.add(name)
                    label, held_out = (1 if _is_test(name) else -1), _hash64(name) < HELD_OUT * 2**64
                    yield _Source(path, name, size, _hash64(f"{seed}:{name}"), label, held_out)


def _choose_stride(sources: Sequence[_Source], target: int) -> tuple[int, float]:
    """Largest stride (lines) expected to give a tenth more than the target; its nonzeros per source byte."""
    sizes = np.array([s.size for s in sources], dtype=np.float64)
    head = int(np.searchsorted(np.cumsum(sizes), _SAMPLE_BYTES)) + 1
    lines = nonzeros = 0
    for source in sources[:head]:
        text = _read(source)
        lines += text.count("\n")
        nonzeros += sum(len(ids) for _, ids, _ in _counted(text, source.order, _SAMPLE_STRIDE))
    if nonzeros == 0:
        return MIN_STRIDE, 1.0
    spans = sizes * (lines / sizes[:head].sum()) - WINDOW_LINES  # lines a window may start on
    # Per window asked for: how many of them turn out usable is in the sample as well.
    each = nonzeros / np.maximum(1.0, spans[:head] / _SAMPLE_STRIDE).sum()
    for stride in range(MAX_STRIDE, MIN_STRIDE - 1, -1):
        expected = each * np.maximum(1.0, spans / stride).sum()
        if expected >= 1.1 * target:
            break
    return stride, expected / sizes.sum()


def _batches(sources: Sequence[_Source], size: float) -> list[Sequence[_Source]]:
    """The files in order, cut into runs of about `size` bytes."""
    cuts = np.flatnonzero(np.diff(np.cumsum([s.size for s in sources]) // size)) + 1
    return [sources[a:b] for a, b in pairwise([0, *cuts, len(sources)])]


def _run(batches: Iterable[Sequence[_Source]], stride: int, jobs: int) -> Iterator[tuple]:
    """Results of `_work` in order, with few batches in flight so that memory stays bounded."""
    if jobs == 1:
        yield from (_work(batch, stride) for batch in batches)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:  # fork is unsafe beside threads
        waiting: deque = deque()
        for batch in batches:
            waiting.append(pool.submit(_work, batch, stride))
            if len(waiting) > 3 * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _work(batch: Sequence[_Source], stride: int) -> tuple[bytes, bytes, Counter[str]]:
    """The svmlight text (train, test) of a batch of files, and its sums by field of `WindowSummary`."""
    sums: Counter[str] = Counter()
    text: dict[str, list[bytes]] = {"train": [], "test": []}
    for source in batch:
        side, rows = "test" if source.held_out else "train", 0
        for row_starts, ids, counts in _counted(_read(source), source.order, stride):
            text[side].append(_format(source.label, row_starts, ids, counts))
            rows += len(row_starts)
            sums["nonzeros_" + side] += len(ids)
        sums["windows_" + side] += rows
        sums["positives_" + side] += rows if source.label > 0 else 0
        sums["files"] += rows > 0
        sums["files_test"] += rows > 0 and source.held_out
        sums["files_skipped"] += rows == 0
        sums["bytes_source"] += source.size if rows else 0
    train, test = (b"".join(parts) for parts in text.values())
    sums["bytes_text"] = len(train) + len(test)
    return train, test, sums


def _read(source: _Source) -> str:
    """The file's text; empty if it cannot be read or is not UTF-8."""
    try:
        return Path(source.path).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _counted(text: str, order: int, stride: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Counted n-grams of the windows of one file, some rows at a time.

    Yields (row_starts, ids, counts): ids (int64, 1 .. 2**22, ascending within a row) and counts, row after row,
    and where each row starts in them. No row is empty.
    """
    lines = text.split("\n")
    last = max(0, len(lines) - WINDOW_LINES)  # start of the last full window
    starts = np.arange(order % min(stride, last + 1), last + 1, stride)
    if stride > WINDOW_LINES:  # tokenise only what the windows hold
        text = "\n".join("\n".join(lines[s : s + WINDOW_LINES]) for s in starts)
        starts = np.arange(len(starts)) * WINDOW_LINES
    tokens = _TOKEN.findall(text)
    hashes = np.fromiter(map(_hash64, tokens), np.uint64, len(tokens))
    newlines = np.flatnonzero(hashes == np.uint64(_hash64("\n")))
    hashes = np.delete(hashes, newlines)
    # line_starts[k] is the first token of line k once the newlines are gone.
    line_starts = np.concatenate(([0], newlines - np.arange(len(newlines)), [len(hashes)]))
    first = line_starts[starts]
    length = line_starts[np.minimum(starts + WINDOW_LINES, len(line_starts) - 1)] - first
    usable = (length >= MIN_TOKENS) & (length <= MAX_TOKENS)
    first, length = first[usable], length[usable]
    grams = _ngram_ids(hashes)
    for at in range(0, len(first), _ROWS_AT_ONCE):
        part = slice(at, at + _ROWS_AT_ONCE)
        yield _count_rows(grams, first[part], length[part])


def _ngram_ids(hashes: np.ndarray) -> list[np.ndarray]:
    """Ids less 1 (uint32, below 2**22) of the 1-, 2- and 3-grams that start at each token."""
    odd, other = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
    top, fold = np.uint64(64 - ID_BITS), np.uint64(29)
    mixed, grams = hashes, []
    for n in (1, 2, 3):
        if n > 1:
            # Multiplying before the next token is added makes the order of the tokens matter.
            mixed = (mixed[:-1] ^ (mixed[:-1] >> fold)) * odd + hashes[n - 1 :] * other
        grams.append(((mixed * odd) >> top).astype(np.uint32))
    return grams


def _count_rows(grams: list[np.ndarray], first: np.ndarray, length: np.ndarray) -> tuple[np.ndarray, ...]:
    """(row_starts, ids, counts) of windows of tokens first .. first + length, by one sort of (row, id) keys."""
    rows = np.arange(len(first), dtype=np.uint32) << np.uint32(ID_BITS)
    keys = []
    for n, gram in enumerate(grams):
        size = length - n  # n-grams that lie inside the window
        ends = np.cumsum(size)
        at = np.arange(ends[-1]) + np.repeat(first - (ends - size), size)
        keys.append(gram[at] | np.repeat(rows, size))
    key = np.concatenate(keys)
    key.sort()
    begins = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    counts = np.diff(begins, append=len(key))
    unique = key[begins]
    row_starts = np.searchsorted(unique, rows)
    return row_starts, (unique & np.uint32((1 << ID_BITS) - 1)).astype(np.int64) + 1, counts


def _words(pattern: str, values: range) -> np.ndarray:
    """Each formatted value as one 4-byte word, shorter ones filled up with NUL."""
    return np.frombuffer(b"".join((pattern % v).encode().ljust(4, b"\0") for v in values), dtype=np.uint32)


_HIGH = np.concatenate((np.frombuffer(b" \0\0\0", np.uint32), _words(" %d", range(1, 1000))))
_LOW, _LOW_ALONE = _words("%04d", range(10_000)), _words("%d", range(10_000))
_COUNT = _words(":%d", range(1000))
_LABEL = {label: np.frombuffer(b"\n%+d\0" % label, np.uint32)[0] for label in _LABELS}


def _format(label: int, row_starts: np.ndarray, ids: np.ndarray, counts: np.ndarray) -> bytes:
    """Lines of svmlight text: 4-byte words from tables, then the NULs taken out; '%d:%d' is far too slow."""
    rows = np.arange(len(row_starts))
    words = np.zeros((len(ids) + len(rows), 3), dtype=np.uint32)
    words[row_starts + rows, 0] = _LABEL[label]
    at = np.arange(len(ids)) + np.repeat(rows + 1, np.diff(row_starts, append=len(ids)))  # behind its label
    high, low = np.divmod(ids, 10_000)
    words[at, 0] = _HIGH[high]
    words[at, 1] = np.where(high > 0, _LOW[low], _LOW_ALONE[low])
    words[at, 2] = _COUNT[np.minimum(counts, 999)]
    return words.tobytes().translate(None, b"\0")[1:] + b"\n"
