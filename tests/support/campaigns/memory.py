"""Peak memory of each command that has --memory, on data of difficult shapes, against --memory + 300 MB.

The process tree is sampled every 10 ms (resident bytes; of code and files that processes share, the largest part once),
and the kernel's own high-water mark of each process is read.  Where a memory cgroup can be made (version 1 or 2), the
command runs inside one whose limit is --memory + 300 MB, so that more would have it killed.  A command that ends with
exit status 2 and a sentence has kept its promise as well; the table says which did.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from support.campaigns import ROOT, Case, check_refusal, command, environment, finished

CASES = 1000  # the list ends before
BESIDES = 300_000_000  # interpreter, libraries, loaded kernels
FIRST_ID = 100_000_000  # ids of nine digits
PIECE = 200_000  # rows written at a time
CGROUPS = (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"))


# ------------------------------------------------------------------------------------------------ measuring


def tree_of(pid: int) -> list[int]:
    """A process and all that it has started."""
    found, at = [pid], 0
    while at < len(found):
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{found[at]}/task"):
                text = Path(f"/proc/{found[at]}/task/{task}/children").read_text()
                found += [int(child) for child in text.split()]
        at += 1
    return found


def status_of(pid: int) -> dict[str, int]:
    """VmHWM, VmRSS, RssFile and RssShmem in bytes; nothing of a process that has gone."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        fields = (
            line.split() for line in lines if line.startswith(("VmHWM", "VmRSS", "RssFile", "RssShmem", "Threads"))
        )
        return {field[0][:-1]: int(field[1]) * (1024 if len(field) > 2 else 1) for field in fields}
    return {}


def measured(line: list[str], memory: int, timeout: float = 900.0, **options) -> tuple[int, int, str]:
    """(exit status, peak bytes of the process tree, standard error) of a command within the cgroup, if there is one."""
    place = cgroup(memory + BESIDES)
    if place is not None:
        line = ["sh", "-c", f'echo $$ >{place}/cgroup.procs; exec "$@"', "sh", *line]
    options = {"cwd": ROOT, "env": environment()} | options
    with tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=err, **options)
        peak = 0
        began = time.monotonic()
        while process.poll() is None:
            found = [status for pid in tree_of(process.pid) if (status := status_of(pid))]
            files = [status.get("RssFile", 0) for status in found]
            tree = sum(status.get("VmRSS", 0) for status in found) - sum(files) + max(files, default=0)
            peak = max([peak, tree, *(status.get("VmHWM", 0) for status in found)])
            if time.monotonic() - began > timeout:
                process.kill()
            time.sleep(0.01)
        if place is not None:
            remove(place)
        err.seek(0)
        return process.returncode, peak, err.read()


def cgroup(limit: int) -> Path | None:
    """A new memory cgroup of this limit; None where none can be made."""
    for root, name in CGROUPS:
        place = Path(root) / f"blocksvm-{os.getpid()}-{threading.get_ident()}"
        try:
            place.mkdir()
        except OSError:
            continue
        try:
            (place / name).write_text(str(limit))
            return place
        except OSError:
            remove(place)
    return None


def remove(place: Path) -> None:
    for _ in range(100):
        try:
            place.rmdir()
            return
        except OSError:
            time.sleep(0.02)


# ------------------------------------------------------------------------------------------------ data


def digits(numbers: np.ndarray, width: int) -> np.ndarray:
    """(n, width) uint8: numbers in decimal."""
    powers = 10 ** np.arange(width - 1, -1, -1, dtype=np.int64)
    return ((numbers[..., None] // powers) % 10 + 48).astype(np.uint8)


def write_rows(path: Path, n: int, a_row: int, features: int, classes: int = 2, copies: int = 1) -> Path:
    """svmlight text: in each row one of each ``features // a_row`` ids, values 1 to 9; the text of a piece is repeated
    ``copies`` times.  Labels have four digits."""
    rng = np.random.default_rng(n + a_row)
    spread, every = features // a_row, max(1, PIECE // a_row)
    with open(path, "wb") as file:
        for start in range(0, n, every):
            rows = min(every, n - start)
            ids = FIRST_ID + np.arange(a_row) * spread + rng.integers(0, spread, (rows, a_row))
            if features == n * a_row:  # each feature occurs once
                ids = FIRST_ID + (start + np.arange(rows))[:, None] * a_row + np.arange(a_row)
            values = rng.integers(1, 10, (rows, a_row, 1))
            labels = 1000 + (start + np.arange(rows)) % classes if classes > 2 else 1000 + (values[:, 0, 0] > 4)
            sign = np.full((rows, a_row, 1), 32, np.uint8)
            colon = np.full((rows, a_row, 1), 58, np.uint8)
            entries = np.concatenate([sign, digits(ids, 9), colon, (values + 48).astype(np.uint8)], axis=2)
            ends = np.full((rows, 1), 10, np.uint8)
            text = np.concatenate([digits(labels, 4), entries.reshape(rows, -1), ends], axis=1).tobytes()
            for _ in range(copies):
                file.write(text)
    return path


def write_long_row(path: Path, entries: int) -> Path:
    """A few rows of three entries, and one of so many, as text and as a matrix."""
    from scipy import sparse

    n = np.full(101, 3)
    n[50] = entries
    columns = np.concatenate([np.arange(length) for length in n.tolist()])
    X = sparse.csr_matrix((np.ones(len(columns), np.float32), columns, np.append(0, n.cumsum())))
    y = np.arange(101) % 2
    parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": X.shape}
    np.savez(path.with_suffix(".npz"), format=np.array("csr"), y=y, **parts)
    few = b"".join(b"%d 100000000:1 100000001:%d 100000002:1\n" % (1 - 2 * (i % 2), i % 7) for i in range(50))
    with open(path, "wb") as file:
        file.write(few + b"1")
        for start in range(0, entries, 1_000_000):
            ids = FIRST_ID + start + np.arange(min(1_000_000, entries - start))
            sign, colon = np.full((len(ids), 1), 32, np.uint8), np.tile(np.frombuffer(b":1", np.uint8), (len(ids), 1))
            file.write(np.concatenate([sign, digits(ids, 9), colon], axis=1).tobytes())
        file.write(b"\n" + few)
    return path


def write_table(path: Path, n: int, columns: int) -> Path:
    """Parquet with all rows in one group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    names = [f"c{j}" for j in range(columns)]
    values = [pa.array(rng.standard_normal(n)) for _ in names]
    table = pa.table([pa.array(rng.integers(0, 2, n)), *values], names=["label", *names])
    pq.write_table(table, path, row_group_size=n, compression="none", use_dictionary=False)
    return path


def write_line(path: Path, n_bytes: int, word: bytes, first: bytes, end: bytes) -> Path:
    """A line of words between two short ones."""
    with open(path, "wb") as file:
        file.write(first + word + end)
        file.write(first)
        for _ in range(n_bytes // (1000 * len(word))):
            file.write(word * 1000)
        file.write(word + end)
        file.write(first + word + end)
    return path


def write_sentences(path: Path, n: int) -> Path:
    """Tokens with tags, an empty line behind each sentence."""
    rng = np.random.default_rng(0)
    with open(path, "w") as file:
        for _ in range(n):
            words = rng.integers(0, 5000, 20)
            file.write("".join(f"w{word} t{word % 12}\n" for word in words.tolist()) + "\n")
    return path


# ------------------------------------------------------------------------------------------------ the cases


class Shape:
    """Data of one shape: made when the first case asks for it, removed when a case of another shape does."""

    current: Shape | None = None
    base: Path | None = None

    def __init__(self, name: str, make: Callable[[Path], Path], prepare: list[tuple] = ()):
        self.name, self.make, self.prepare = name, make, prepare

    def folder(self) -> Path:
        """With ``rows`` and what ``prepare``, words of commands, makes of it."""
        if Shape.base is None:
            Shape.base = Path(tempfile.mkdtemp(prefix="campaign-memory-", dir=os.environ.get("CAMPAIGN_DIR")))
            atexit.register(shutil.rmtree, Shape.base, ignore_errors=True)
        place = Shape.base / self.name.replace(" ", "-")
        if Shape.current is not self:
            if Shape.current is not None:
                shutil.rmtree(Shape.base / Shape.current.name.replace(" ", "-"), ignore_errors=True)
            Shape.current = self
            place.mkdir()
            self.make(place)
            for words in self.prepare:
                done = finished(*(str(word).format(here=place) for word in words), timeout=1200)
                assert done.returncode == 0, done.stderr[-500:]
        return place


def within(shape: Shape, memory: int, must_work: bool, words: tuple, folder: Path) -> str:
    """Run ``words`` (``{here}`` the data's folder, ``{out}`` an empty one) and check what it took."""
    here = shape.folder()
    line = command(*(str(word).format(here=here, out=folder) for word in words), "--memory", f"{memory // 10**6}MB")
    code, peak, err = measured(line, memory)
    allowed = memory + BESIDES
    remark = f"{peak / 1e6:.0f} of {allowed / 1e6:.0f} MB" + ("" if code == 0 else ", refused with a sentence")
    assert code != -9, f"killed at {peak / 1e6:.0f} MB by the limit of {allowed / 1e6:.0f} MB: {err[-300:]}"
    assert peak <= allowed, (
        f"took {peak / 1e6:.0f} MB where {allowed / 1e6:.0f} are allowed (exit {code}): {err[-300:]}"
    )
    # cross-validation has several problems' state, regret a record of each round, for which there may be no room
    check_refusal(code, err, 0, *(() if must_work and words[0] not in ("cv", "regret") else (2,)))
    return remark


MB = 10**6
TRAIN = ("--schedule", "1", "--max-outer", "2", "--tol", "0", "--quiet")


def shapes() -> list[tuple[Shape, int, bool, list[tuple]]]:
    """(shape, --memory, whether every command must do its work, words of commands)."""
    store = ("split", "{here}/rows", "{here}/s.h5", "--quiet", "--memory", "1GB")
    model = ("train", "{here}/s.h5", "{here}/m.h5", *TRAIN, "--memory", "4GB")
    perceptron = ("train", "{here}/s.h5", "{here}/m.h5", "--learner", "perceptron", "--quiet", "--memory", "4GB")
    usual = [
        ("split", "{here}/rows", "{out}/s.h5", "--quiet"),
        ("train", "{here}/s.h5", "{out}/m.h5", *TRAIN),
        ("train", "{here}/s.h5", "{out}/m.h5", *TRAIN, "--checkpoint", "{out}/c.h5", "--loss", "logistic"),
        ("train", "{here}/s.h5", "{out}/m.h5", *TRAIN, "--solver", "pegasos", "--dual"),
        ("train", "{here}/s.h5", "{out}/m.h5", "--learner", "arow", "--quiet"),
        ("cv", "{here}/s.h5", "-C", "1", "--folds", "3", *TRAIN),
        ("predict", "{here}/m.h5", "{here}/rows", "{out}/p", "--quiet"),
        ("predict", "{here}/m.h5", "{here}/s.h5", "{out}/p", "--quiet"),
        ("stream", "{here}/rows", "--labels", "1000,1001", "--model", "{out}/m.h5", "--quiet"),
        ("regret", "{here}/s.h5", "--learner", "ogd", "--quiet"),
        ("margin", "{here}/s.h5", "-C", "1", "--quiet", "--max-seconds", "20"),
    ]
    # of text such a row takes 80 bytes of memory for each of its bytes, so the store is made of a matrix
    npz = ("--format", "npz", "--label", "y")
    matrix = [("split", "{here}/rows.npz", "{here}/s.h5", "--quiet", "--memory", "4GB", *npz), model]
    rows = "{here}/rows"
    classes = [
        ("split", rows, "{out}/s.h5", "--quiet"),
        ("train", "{here}/s.h5", "{out}/m.h5", *TRAIN),
        ("train", "{here}/s.h5", "{out}/m.h5", *TRAIN, "--multiclass", "crammer-singer"),
        ("train", "{here}/s.h5", "{out}/m.h5", "--learner", "pa1", "--quiet"),
        ("cv", "{here}/s.h5", "-C", "1", "--folds", "2", *TRAIN),
        ("predict", "{here}/m.h5", rows, "{out}/p", "--scores", "--quiet"),
    ]
    text = [usual[0], (*usual[8][:2], *usual[8][4:])]

    def rows_of(*arguments, **options) -> Callable[[Path], Path]:
        return lambda place: write_rows(place / "rows", *arguments, **options)

    return [
        (Shape("10 times the budget", rows_of(40_000, 100, 50_000, copies=12), [store, model]), 40 * MB, True, usual),
        (Shape("a row of 10 M entries", lambda place: write_long_row(place / "rows", 10_000_000), matrix), 100 * MB,
         False, usual),
        (Shape("a row of 10 M entries, with room", lambda place: write_long_row(place / "rows", 10_000_000), matrix),
         1500 * MB, True, [*usual[1:4], usual[7], ("split", "{here}/rows.npz", "{out}/s.h5", "--quiet", *npz)]),
        (Shape("1,000 classes", rows_of(10_000, 20, 1000, classes=1000), [store, perceptron]), 400 * MB, False,
         classes),
        (Shape("5,000 classes", rows_of(10_000, 20, 400, classes=5000), [store, perceptron]), 700 * MB, False, classes),
        (Shape("5,000 classes, with room", rows_of(10_000, 20, 400, classes=5000), [store]), 1500 * MB, True,
         [classes[1]]),
        (Shape("a row group of 400 MB", lambda place: write_table(place / "rows", 25_000, 2_000)), 60 * MB, False,
         text),
        (Shape("a row group of 400 MB, with room", lambda place: write_table(place / "rows", 25_000, 2_000)),
         1300 * MB, True, text),
        (Shape("a line of 200 MB", lambda place: write_line(place / "rows", 200 * MB, b" 1:1", b"1", b"\n")), 60 * MB,
         False, text),
        (Shape("a document of 200 MB", lambda place: write_line(place / "rows", 200 * MB, b"word ", b"1\t", b"\n")),
         60 * MB, False, [(*words, "--format", "documents") for words in text]),
        (Shape("a document of 200 MB, with room",
               lambda place: write_line(place / "rows", 200 * MB, b"word ", b"1\t", b"\n")), 1500 * MB,
         False, [(*words, "--format", "documents") for words in text]),
        (Shape("a csv line of 200 MB", lambda place: write_line(place / "rows", 200 * MB, b",1", b"1", b"\n")), 60 * MB,
         False, [(*words, "--format", "csv", "--label", "1") for words in text]),
        (Shape("100 times the budget", rows_of(2_000, 1000, 50_000, copies=160), [store, model]), 25 * MB, True,
         [*usual[:2], usual[4], *usual[6:9]]),
        (Shape("sentences", lambda place: write_sentences(place / "rows", 20_000)), 100 * MB, False,
         [("structure", "train", "{here}/rows", "{out}/m.h5", "--task", "tags", "--epochs", "2", "--quiet")]),
        (Shape("100 M rows of one entry", rows_of(1_000_000, 1, 100_000, copies=100), [store]), 100 * MB, False,
         [usual[0], usual[1], usual[8]]),
        (Shape("20 M rows of one entry", rows_of(1_000_000, 1, 100_000, copies=20), [store, model]), 1200 * MB, True,
         usual[1:8] + usual[9:]),
        (Shape("100 M features", rows_of(1_000_000, 100, 100_000_000), [(*store[:-1], "4GB")]), 1000 * MB, False,
         [usual[0], usual[1], usual[4], usual[8]]),
        (Shape("100 M features, with room", rows_of(1_000_000, 100, 100_000_000), [(*store[:-1], "4GB"), model]),
         4100 * MB, True, [usual[1], usual[3], usual[7]]),
    ]  # fmt: skip


def cases(n: int, seed: int) -> list[Case]:
    found = []
    for shape, memory, must_work, lines in shapes():
        for words in lines:
            kind = f"{shape.name}: {' '.join(word for word in words if '{' not in word and word not in TRAIN)}"
            kind += f", {memory // MB} MB"
            found.append(Case(kind, partial(within, shape, memory, must_work, words)))
    return found[:n]
