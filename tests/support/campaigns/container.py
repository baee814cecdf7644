"""A container's life: signals at any moment, the first process, another user, read-only folders, 256 MB of memory.

What needs namespaces, another user or a cgroup is skipped, and says so, where this user may not make them.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from functools import cache, partial
from pathlib import Path

import numpy as np
from support.campaigns import ROOT, Case, check_refusal, command, environment
from support.campaigns.concurrency import LONG, SPLIT, inputs, nothing_else
from support.campaigns.kills import content, verify
from support.campaigns.memory import cgroup, remove, tree_of

CASES = 120
MIB = 1 << 20
SMALL = ("--memory", "40MB")


def works(old: Path, here: Path) -> dict[str, tuple]:
    """Commands of a service, from rows to predictions, with the files that each writes last."""
    return {
        "split": ("split", old / "rows.svm", here / "s.h5", *SPLIT),
        "train": ("train", old / "s.h5", here / "m1.h5", *LONG, "-C", "1", *SMALL),
        "predict": ("predict", old / "m1.h5", old / "rows.svm", here / "p1", "--quiet", *SMALL),
        "stream": ("stream", old / "rows.svm", "--model", here / "o.h5", "--quiet", "--threads", "1", *SMALL),
        "cv": ("cv", old / "s.h5", "-C", "1", "--folds", "2", "--quiet", *SMALL, "--tol", "0.1"),
    }


def all_of_them(before: list[str], folder: Path, user: int | None = None, **more) -> str:
    """Every command behind the words ``before``, with an environment of its own, and what is left at the end."""
    old, here = inputs(), folder
    if user is not None:
        os.chown(here, user, user)
        for path in (old, *old.iterdir()):
            path.chmod(0o755 if path.is_dir() else 0o644)
    options = {"cwd": here, "env": {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **more}}
    for name in ("split", "train", "predict"):
        words = works(old, here)[name]
        done = subprocess.run([*before, *command(*words)], capture_output=True, text=True, timeout=600, **options)
        check_refusal(done.returncode, done.stderr, 0)
    for name in ("s.h5", "m1.h5", "p1"):
        assert content(here / name) == content(old / name), f"{name} is another than outside"
    left = sorted(set(os.listdir(here)) - {"s.h5", "m1.h5", "p1"})
    return "left: " + ", ".join(left) if left else "works"


def allowed(words: list[str]) -> bool:
    """Whether this user may run a command behind these words."""
    with contextlib.suppress(OSError):
        return subprocess.run([*words, "true"], capture_output=True).returncode == 0
    return False


def skipped(words: list[str]) -> str | None:
    return None if allowed(words) else f"skipped: {words[0]} is not allowed here"


def other_user(folder: Path, **more) -> str:
    """Where the interpreter lies in a folder that others may not enter, a namespace shows them what they need of it."""
    script, view = "", folder / "view"
    for parent in reversed(Path(sys.executable).resolve().parents):
        if not parent.stat().st_mode & 0o001:
            inner = Path(sys.executable).resolve().relative_to(parent).parts[0]
            (view / inner).mkdir(parents=True)
            script = f"mount --bind {parent}/{inner} {view}/{inner} && mount --rbind {view} {parent} && "
            break
    user = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups"]
    before = ["unshare", "--mount", "sh", "-c", f'{script} exec "$@"', "sh", *user]
    found = skipped(before) or all_of_them(before, folder, 12345, **more)
    return "works" if found == "left: view" else found


def no_home(folder: Path) -> str:
    return all_of_them([], folder)


def read_only(temporary: bool, folder: Path) -> str:
    """All file systems are read-only but for one folder; temporary: TMPDIR is it."""
    # the folder is mounted over itself first, so that it stays as it is
    script = f'mount --bind {folder} {folder} && mount -o remount,ro,bind / && cd {folder} && exec "$@"'
    before = ["unshare", "--mount", "sh", "-c", script, "sh"]
    return skipped(before) or all_of_them(before, folder, **({"TMPDIR": str(folder)} if temporary else {}))


def little_memory(cold: bool, folder: Path) -> str:
    """A memory cgroup of 256 MiB; cold: with kernels still to be compiled."""
    place = cgroup(256 * MIB)
    if place is None:
        return "skipped: no memory cgroup can be made here"
    try:
        before = ["sh", "-c", f'echo $$ >{place}/cgroup.procs; exec "$@"', "sh"]
        more = {"XDG_CACHE_HOME": str(folder / "cache")} if cold else {}
        home = os.environ.get("HOME", "/root")
        found = all_of_them(before, folder, **more, **({} if cold else {"HOME": home}))
        return "works" if found in ("works", "left: cache") else found
    finally:
        remove(place)


# ------------------------------------------------------------------------------------------------ signals


@cache
def seconds_of(name: str) -> float:
    """What a command takes."""
    import tempfile

    with tempfile.TemporaryDirectory() as here:
        began = time.perf_counter()
        subprocess.run(command(*works(inputs(), Path(here))[name]), env=environment(), capture_output=True)
        return time.perf_counter() - began


def signalled(name: str, number: int, share: float, folder: Path) -> str:
    """The signal comes at a random share of the command's time, its start included."""
    process = subprocess.Popen(
        command(*works(inputs(), folder)[name]), env=environment(), cwd=folder, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    time.sleep(share * seconds_of(name))
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    # before the command has begun, and behind its end, the system's own handling holds
    if process.returncode != -number:
        check_refusal(process.returncode, err, 0, 130)
    outputs = {"split": ["s.h5"], "train": ["m1.h5"], "predict": ["p1"], "stream": ["o.h5"], "cv": []}[name]
    nothing_else(folder, *outputs)
    for output in outputs:
        if (folder / output).exists():
            verify(folder / output)
    return {0: "was done", 130: "exit 130"}.get(process.returncode, "ended by the system")


def saved(number: int, share: float, first: bool, folder: Path) -> str:
    """A training with a checkpoint: what the signal leaves is gone on with, to the same bits.  first: it is process 1
    of a namespace, as in a container."""
    before = ["unshare", "--pid", "--fork", "--kill-child"] if first else []
    if before and not allowed(before):
        return "skipped: no namespace of processes can be made here"
    words = (*works(inputs(), folder)["train"], "--checkpoint", folder / "c.h5")
    process = subprocess.Popen(
        [*before, *command(*words)], env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    time.sleep(share * seconds_of("train"))
    target = tree_of(process.pid)[min(1, len(tree_of(process.pid)) - 1)] if first else process.pid
    with contextlib.suppress(ProcessLookupError):
        os.kill(target, number)
    _, err = process.communicate(timeout=120)
    if process.returncode not in (-number, 128 + number):
        check_refusal(process.returncode, err, 0, 130)
    there = (folder / "c.h5").exists()
    if process.returncode == 130 and "interrupted in outer" in err:
        assert there and "state saved" in err, err
    if not (folder / "m1.h5").exists():
        again = subprocess.run(command(*words, "--resume"), env=environment(), capture_output=True, text=True)
        assert again.returncode == 0, again.stderr
    assert content(folder / "m1.h5") == content(inputs() / "m1.h5"), "another model than alone"
    nothing_else(folder, "m1.h5", "c.h5")
    return "was done" if process.returncode == 0 else "resumed" if there else "begun again"


def while_waiting(name: str, number: int, folder: Path) -> str:
    """The command waits for rows from a pipe that gives none."""
    words = {"stream": ("stream", "-", "--quiet"), "split": ("split", "-", folder / "s.h5", "--quiet"),
             "predict": ("predict", inputs() / "m1.h5", "-", folder / "p1", "--quiet")}[name]  # fmt: skip
    process = subprocess.Popen(
        command(*words), env=environment(), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    process.stdin.write((inputs() / "rows.svm").read_bytes()[:2000].rpartition(b"\n")[0] + b"\n")
    process.stdin.flush()
    time.sleep(4 * seconds_of("predict"))
    process.send_signal(number)
    try:
        err = process.stderr.read().decode() if process.wait(timeout=30) is not None else ""
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError("it still waits") from None
    finally:
        process.stdin.close()
    check_refusal(process.returncode, err, 130, 0)
    nothing_else(folder)
    return f"exit {process.returncode}"


def cases(n: int, seed: int) -> list[Case]:
    draw = np.random.default_rng(seed)
    found = [
        Case("without HOME", no_home),
        Case("user 12345, who has no entry and no HOME", other_user),
        Case("the same, TMPDIR cannot be written", partial(other_user, TMPDIR="/proc/sys")),
        Case("read-only but for one folder", partial(read_only, False)),
        Case("the same, TMPDIR is that folder", partial(read_only, True)),
        Case("256 MiB of memory", partial(little_memory, False)),
        Case("256 MiB of memory, kernels to compile", partial(little_memory, True)),
    ]
    for name in ("stream", "split", "predict"):
        for number in (signal.SIGTERM, signal.SIGINT):
            found.append(Case(f"{number.name} while {name} waits for a pipe", partial(while_waiting, name, number)))
    while len(found) < n:
        share, kind = float(draw.uniform(0.0, 1.1)), len(found) % 8
        number = (signal.SIGTERM, signal.SIGHUP)[int(draw.integers(2))]
        if kind < 5:
            name = ("split", "train", "predict", "stream", "cv")[kind]
            found.append(Case(f"{number.name} at a random moment: {name}", partial(signalled, name, number, share)))
        else:
            where = "train --checkpoint, as process 1" if kind == 7 else "train --checkpoint"
            found.append(Case(f"{number.name} at a random moment: {where}", partial(saved, number, share, kind == 7)))
    return found[:n]
