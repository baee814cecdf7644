"""Commands at the same time on the same files: each is right, or ends with a sentence; no file is a mix of two.

Two trainings on a store, an append during a training, two appends, two writers of one output, two runs with one
checkpoint, four cold starts on one cache of kernels.  Each is a process of its own; the second begins a random part of
a second after the first.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import time
from functools import cache, partial
from pathlib import Path

import numpy as np
from support.campaigns import ROOT, Case, check_refusal, command, environment, finished
from support.campaigns.kills import content, rows, verify

CASES = 80
LONG = ("--schedule", "3", "--block-chunks", "3", "--tol", "0", "--max-outer", "60", "--quiet")
SPLIT = ("--quiet", "--memory", "16MB", "--threads", "1")


@cache
def inputs() -> Path:
    """A folder of inputs, and what commands make of them alone."""
    folder = Path(tempfile.mkdtemp(prefix="campaign-concurrency-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for name, seed, n in (("rows", 1, 6000), ("more", 2, 3000), ("others", 3, 4000)):
        (folder / f"{name}.svm").write_text(rows(seed, n))
    for words in (
        ("split", folder / "rows.svm", folder / "s.h5", *SPLIT),
        ("split", folder / "others.svm", folder / "o.h5", *SPLIT),
        ("train", folder / "s.h5", folder / "m1.h5", *LONG, "-C", "1"),
        ("train", folder / "s.h5", folder / "m2.h5", *LONG, "-C", "2"),
        ("predict", folder / "m1.h5", folder / "rows.svm", folder / "p1", "--quiet"),
        ("predict", folder / "m2.h5", folder / "rows.svm", folder / "p2", "--quiet"),
    ):
        done = finished(*words)
        assert done.returncode == 0, done.stderr
    return folder


def together(pause: float, *lines: tuple, **options) -> list[tuple[int, str]]:
    """(exit status, standard error) of commands, each begun ``pause`` seconds after the one before."""
    options = {"cwd": ROOT, "env": environment()} | options
    running = []
    for number, words in enumerate(lines):
        if number:
            time.sleep(pause)
        running.append(
            subprocess.Popen(command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)
        )
    found = [process.communicate(timeout=300)[1] for process in running]
    for process, err in zip(running, found, strict=True):
        check_refusal(process.returncode, err, 0, 2)
    return [(process.returncode, err) for process, err in zip(running, found, strict=True)]


def nothing_else(folder: Path, *names: str) -> None:
    left = sorted(set(os.listdir(folder)) - set(names))
    assert not left, f"left behind: {left}"


def two_trainings(pause: float, folder: Path) -> str:
    old = inputs()
    lines = [("train", old / "s.h5", folder / f"{C}.h5", *LONG, "-C", C) for C in (1, 2)]
    assert [code for code, _ in together(pause, *lines)] == [0, 0]
    for C in (1, 2):
        assert content(folder / f"{C}.h5") == content(old / f"m{C}.h5"), "another model than alone"
    nothing_else(folder, "1.h5", "2.h5")
    return "both as alone"


def append_during_training(pause: float, folder: Path) -> str:
    old = inputs()
    (folder / "s.h5").write_bytes((old / "s.h5").read_bytes())
    lines = [
        ("train", folder / "s.h5", folder / "m.h5", *LONG, "-C", "1"),
        ("split", old / "more.svm", folder / "s.h5", "--append", *SPLIT),
    ]
    (trained, err), (appended, _) = together(pause, *lines)
    assert appended == 0
    verify(folder / "s.h5")
    assert count(folder / "s.h5") == 9000
    if trained == 0:
        verify(folder / "m.h5")
        before = content(folder / "m.h5") == content(old / "m1.h5")
        nothing_else(folder, "s.h5", "m.h5")
        return "training went on with the old store" if before else "training had the new store"
    nothing_else(folder, "s.h5")
    assert "s.h5" in err, err
    return "training ended with a sentence"


def count(path: Path) -> int:
    from blocksvm.store.reader import Store

    with Store(path) as store:
        return store.n_samples


def two_appends(pause: float, folder: Path) -> str:
    old = inputs()
    (folder / "s.h5").write_bytes((old / "s.h5").read_bytes())
    lines = [("split", old / f"{name}.svm", folder / "s.h5", "--append", *SPLIT) for name in ("more", "others")]
    codes = [code for code, _ in together(pause, *lines)]
    verify(folder / "s.h5")
    expected = 6000 + sum(n for code, n in zip(codes, (3000, 4000), strict=True) if code == 0)
    assert count(folder / "s.h5") == expected, f"{count(folder / 's.h5')} rows for {expected}, exits {codes}"
    nothing_else(folder, "s.h5")
    return f"{codes.count(0)} of 2 appended"


def two_writers(kind: str, overwrite: bool, pause: float, folder: Path) -> str:
    old = inputs()
    out = folder / ("p" if kind == "predict" else "m.h5" if kind == "train" else "s.h5")
    whole = {"split": ("s.h5", "o.h5"), "train": ("m1.h5", "m2.h5"), "predict": ("p1", "p2")}[kind]
    lines = {
        "split": [("split", old / f"{name}.svm", out, *SPLIT) for name in ("rows", "others")],
        "train": [("train", old / "s.h5", out, *LONG, "-C", C) for C in (1, 2)],
        "predict": [("predict", old / f"m{C}.h5", old / "rows.svm", out, "--quiet") for C in (1, 2)],
    }[kind]
    if overwrite:
        lines = [(*words, "--overwrite") for words in lines]
    codes = [code for code, _ in together(pause, *lines)]
    assert codes.count(0) == (2 if overwrite else 1), f"exits {codes}"
    verify(out)
    found = content(out)
    places = [place for place in (0, 1) if found == content(old / whole[place])]
    assert places, "neither the one nor the other"
    assert codes[places[0]] == 0 or found == content(old / whole[1 - places[0]]), "of the one that was refused"
    nothing_else(folder, out.name)
    return "one of two, whole"


def one_checkpoint(costs: tuple, resume: bool, pause: float, folder: Path) -> str:
    old = inputs()
    lines = [
        ("train", old / "s.h5", folder / f"{number}.h5", *LONG, "-C", C, "--checkpoint", folder / "c.h5",
         "--checkpoint-seconds", "0.05", *(["--resume"] if resume else []))
        for number, C in enumerate(costs)
    ]  # fmt: skip
    codes = [code for code, _ in together(pause, *lines)]
    for number, (C, code) in enumerate(zip(costs, codes, strict=True)):
        if code == 0:
            assert content(folder / f"{number}.h5") == content(old / f"m{C}.h5"), "another model than alone"
    verify(folder / "c.h5")
    assert 0 in codes
    nothing_else(folder, "0.h5", "1.h5", "c.h5")
    return f"{codes.count(0)} of 2 trained"


def cold_starts(pause: float, folder: Path) -> str:
    old = inputs()
    lines = [("train", old / "s.h5", folder / f"{k}.h5", *LONG, "-C", "1") for k in range(4)]
    found = together(pause, *lines, env=environment(XDG_CACHE_HOME=str(folder / "cache")))
    assert [code for code, _ in found] == [0] * 4
    for k in range(4):
        assert content(folder / f"{k}.h5") == content(old / "m1.h5"), "another model than alone"
    left = [path.name for path in (folder / "cache").rglob(".*")]
    assert not left, f"left in the cache: {left[:5]}"
    done = finished(*lines[0][:2], folder / "after.h5", *LONG, env=environment(XDG_CACHE_HOME=str(folder / "cache")))
    assert done.returncode == 0 and "compiling" not in done.stderr, done.stderr
    return "all as alone, and the cache is whole"


def cases(n: int, seed: int) -> list[Case]:
    draw = np.random.default_rng(seed)
    kinds = [
        ("two trainings on a store", two_trainings, 1.0),
        ("an append during a training", append_during_training, 2.5),
        ("two appends to a store", two_appends, 0.5),
        ("two writers of a store", partial(two_writers, "split", False), 0.5),
        ("two writers of a store, --overwrite", partial(two_writers, "split", True), 0.5),
        ("two writers of a model", partial(two_writers, "train", False), 0.5),
        ("two writers of a model, --overwrite", partial(two_writers, "train", True), 0.5),
        ("two writers of predictions", partial(two_writers, "predict", False), 0.3),
        ("two writers of predictions, --overwrite", partial(two_writers, "predict", True), 0.3),
        ("one checkpoint, equal runs", partial(one_checkpoint, (1, 1), False), 1.0),
        ("one checkpoint, equal runs, --resume", partial(one_checkpoint, (1, 1), True), 1.0),
        ("one checkpoint, other C", partial(one_checkpoint, (1, 2), False), 1.0),
        ("one checkpoint, other C, --resume", partial(one_checkpoint, (1, 2), True), 1.0),
    ]
    found = [Case("four cold starts on a cache", partial(cold_starts, 0.0)) for _ in range(max(1, n // 40))]
    while len(found) < n:
        kind, run, longest = kinds[len(found) % len(kinds)]
        # half of them at once, where the races are
        pause = float(draw.uniform(0.0, longest)) if draw.integers(2) else 0.0
        found.append(Case(kind, partial(run, pause)))
    return found
