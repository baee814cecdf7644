"""Commands in children of a process that has the package loaded, and what they leave."""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import gc
import hashlib
import io
import json
import os
import re
import select
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from support.faults import NONE, Fault, Unavailable, arm, new_report

from blocksvm.commands import module_of

LIMIT = 20.0  # seconds for a command


@dataclass(frozen=True)
class Ended:
    """How a child ended: exit code or minus the signal, None: not in time; what it printed."""

    code: int | None
    out: str
    err: str


def command_in_child(folder: Path, words: list[str], fault: Fault | None, report: Path, stack: bool) -> None:
    """What a child does: run the command as ``python -m`` does, and end as Python ends."""
    from blocksvm.cli import console

    os.chdir(folder)
    module = module_of(words[0])
    if stack:
        faulthandler.register(signal.SIGUSR1, file=2)
    if fault is not None:
        arm(folder, fault, report, stack)
    code = 1
    try:
        console.run(module.main, words[1:])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    del module
    gc.collect()  # what was not closed is closed now, and says so where it fails
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).exit(code)  # libraries' last acts (HDF5's among them) run


class Server:
    """A process that has loaded the package and the library of faults, and a folder for its cases."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.case = folder / "case"
        self.report = folder / "report"
        self.streams = folder / "out", folder / "err"

    def child(self, act, *arguments) -> Ended:
        """Run ``act`` in a child with streams of its own."""
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            try:
                for number, path in enumerate(self.streams, 1):
                    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
                sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), encoding="utf-8")
                sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), encoding="utf-8", write_through=True)
                act(*arguments)
            except BaseException:
                sys.excepthook(*sys.exc_info())
            finally:
                os._exit(99)
        descriptor = os.pidfd_open(pid)
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        in_time = bool(waiting.poll(LIMIT * 1000))
        os.close(descriptor)
        if not in_time:
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        out, err = (path.read_text(errors="replace") for path in self.streams)
        return Ended(os.waitstatus_to_exitcode(status) if in_time else None, out, err)

    def run(
        self, files: dict[str, bytes], words: list[str], fault: Fault | None = NONE, stack=False, disk=None
    ) -> Ended:
        """The command on these files; disk: bytes of the one that its outputs go to."""
        shutil.rmtree(self.case, ignore_errors=True)
        (self.case / "in").mkdir(parents=True)
        (self.case / "out").mkdir()
        if disk:
            mount(self.case / "out", disk)
        for name, data in files.items():
            (self.case / name).write_bytes(data)
        new_report(self.report)
        return self.child(command_in_child, self.case, words, fault, self.report, stack)

    def left(self) -> dict[str, bytes | None]:
        """What lies in the folder: files with their contents, folders but in/ and out/ with None."""
        found: dict[str, bytes | None] = {}
        for place, folders, names in os.walk(self.case):
            for name in folders + names:
                path = Path(place, name)
                found[str(path.relative_to(self.case))] = None if path.is_dir() else path.read_bytes()
        return {name: data for name, data in found.items() if name not in ("in", "out")}

    def reading(self, name: str, kind: str, data: bytes) -> str:
        """What tells outputs with other contents apart; '' where a file is not whole."""
        if kind == "hdf5":
            path = self.folder / "read.h5"
            path.write_bytes(data)
            done = self.child(read_hdf5, path)
            return done.out if done.code == 0 else ""
        if kind == "text":
            return hashlib.sha256(data).hexdigest()
        try:
            text = data.decode()
            if kind == "trace":
                return " ".join(json.loads(line)["event"] for line in text.splitlines()) * text.endswith("\n")
            return json.dumps(lasting(json.loads(text)), sort_keys=True)
        except (ValueError, KeyError, TypeError):
            return ""


def mount(folder: Path, n_bytes: int) -> None:
    system = ctypes.CDLL(None, use_errno=True)
    if system.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={n_bytes}".encode()) != 0:
        raise Unavailable(f"no tmpfs can be mounted here ({os.strerror(ctypes.get_errno())})")


def unmount(folder: Path) -> None:
    ctypes.CDLL(None).umount2(os.fsencode(folder), 2)


TIMES = re.compile("second|memory|wait|peak|elapsed|time|rate|ended|began|started")


def lasting(told):
    """JSON without what differs from run to run."""
    if isinstance(told, dict):
        return {key: lasting(value) for key, value in told.items() if not TIMES.search(key)}
    return [lasting(value) for value in told] if isinstance(told, list) else told


def read_hdf5(path: Path) -> None:
    """Verify a file as ``info --verify`` does, and print a hash of what it holds."""
    import h5py

    from blocksvm.cli import console

    info = module_of("info")
    with contextlib.redirect_stdout(io.StringIO()):
        try:
            console.run(info.main, ["--verify", str(path)])
        except SystemExit as ended:
            if ended.code:
                os._exit(3)
    digest = hashlib.sha256()

    def add(name, node) -> None:
        attributes = {k: str(v) for k, v in node.attrs.items() if k not in ("meta_checksum", "fingerprint")}
        digest.update(f"{name} {sorted(attributes.items())}".encode())
        if name == "meta":
            digest.update(json.dumps(lasting(json.loads(node[()].tobytes())), sort_keys=True).encode())
        elif isinstance(node, h5py.Dataset):
            digest.update(f"{node.dtype} {node.shape}".encode() + node[()].tobytes())

    with h5py.File(path, "r") as file:
        file.visititems(add)
    print(digest.hexdigest(), flush=True)
    os._exit(0)
