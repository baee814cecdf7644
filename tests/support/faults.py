"""The library that makes calls of the system fail (faults.c): built, and steered in this process."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

KINDS = ("open", "read", "write", "fsync", "rename", "unlink", "mkdir", "close", "truncate")
FULL = "full"  # no call of a kind: writes end after so many bytes
ERRNOS = ("ENOSPC", "EIO", "EACCES", "ENOENT", "EMFILE")
MODES = ("once", "on")  # the one call, or every call from there on
SOURCE = Path(__file__).with_suffix(".c")
NUMBERS = struct.Struct(f"{2 + len(KINDS)}q")
REPORT_BYTES = NUMBERS.size + 4096


class Unavailable(Exception):
    """The library cannot be built or loaded here: the message says why."""


@dataclass(frozen=True)
class Fault:
    """Which call fails: the ``position``-th (from 1) of its kind, with this errno, once or from there on."""

    kind: str
    position: int
    errno: str
    mode: str

    @classmethod
    def parse(cls, text: str) -> Fault:
        """Of ``open:17:EIO:once``; ValueError where it is none."""
        kind, position, name, mode = text.split(":")
        if kind not in (*KINDS, FULL) or name not in ERRNOS or mode not in MODES or int(position) < 0:
            raise ValueError(f"{text} is no fault")
        return cls(kind, int(position), name, mode)

    def __str__(self) -> str:
        return f"{self.kind}:{self.position}:{self.errno}:{self.mode}"

    def order(self) -> tuple[int, int, int, int]:
        """As faults.c takes it."""
        kind = (*KINDS, FULL).index(self.kind)
        return kind, self.position, getattr(errno, self.errno), int(self.mode == "on")


NONE = Fault("open", 0, "EIO", "once")  # calls are counted, and none fails


@dataclass(frozen=True)
class Report:
    """What was counted: calls that failed, bytes written, calls by kind, and the path of the first one that failed."""

    fired: int
    n_bytes: int
    calls: dict[str, int]
    path: str


def build(folder: Path) -> Path:
    """Compile the library into ``folder``; Unavailable where there is no compiler or no Linux."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not sys.platform.startswith("linux"):
        raise Unavailable("calls can be made to fail on Linux only")
    if compiler is None:
        raise Unavailable("there is no C compiler (cc or gcc) to build tests/support/faults.c with")
    library = folder / "faults.so"
    flags = ("-O2", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-U_FORTIFY_SOURCE")
    done = subprocess.run([compiler, *flags, "-o", library, SOURCE, "-ldl"], capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"{SOURCE} does not compile here: {done.stderr.strip()[:500]}")
    return library


def environment(library: Path) -> dict[str, str]:
    """That of a process in which calls can be made to fail."""
    return {"LD_PRELOAD": str(library)}


def new_report(path: Path) -> None:
    path.write_bytes(bytes(REPORT_BYTES))


def read_report(path: Path) -> Report:
    data = path.read_bytes()
    fired, n_bytes, *calls = NUMBERS.unpack_from(data)
    where = data[NUMBERS.size :].split(b"\0", 1)[0]
    return Report(fired, n_bytes, dict(zip(KINDS, calls, strict=True)), os.fsdecode(where))


def arm(folder: Path, fault: Fault, report: Path, stack: bool = False) -> None:
    """From now on calls of this process and its children that concern files below ``folder`` are counted in
    ``report``, and fail as ``fault`` says.  stack: SIGUSR1 is raised in the first call that fails."""
    try:
        steer = ctypes.CDLL(None, use_errno=True).faults_arm
    except AttributeError:
        raise Unavailable("the library is not loaded: start the process with LD_PRELOAD") from None
    steer.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_long, *[ctypes.c_int] * 3, ctypes.c_char_p]
    order = fault.order()
    os.environ["FAULTS_ROOT"], os.environ["FAULTS_REPORT"] = str(folder), str(report)
    os.environ["FAULTS_ORDER"] = " ".join(map(str, order))
    if steer(os.fsencode(folder), *order, int(stack), os.fsencode(report)) != 0:
        raise Unavailable(f"{report} cannot be mapped")
