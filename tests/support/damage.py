"""What a command makes of a damaged file in a process of its own, with limits."""

from __future__ import annotations

import contextlib
import io
import os
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Verdict:
    """How a command took it.  kind: 'same', 'other' (another result), 'refused' (one sentence, exit 1 or 2), or what
    must never be: 'signal', 'hang', 'traceback', 'exit' (another code), 'words' (no sentence); text: its errors."""

    kind: str
    text: str
    seconds: float
    peak_bytes: int


def judge(
    command: Callable[[], bytes | None], expected: bytes | None, seconds: float = 30, memory: int = 2 << 30
) -> Verdict:
    """Run ``command`` in a forked process, which may take so many seconds and so many bytes of addresses more than this
    one.  It returns its result (None: b""), or leaves by SystemExit as commands do.

    expected: the result of the undamaged file; None: any is right, of formats without checksums.
    """
    began = time.perf_counter()
    result, send = os.pipe()
    with tempfile.TemporaryFile() as errors:
        child = os.fork()
        if child == 0:
            os.close(result)
            _run(command, send, errors.fileno(), memory)
        os.close(send)
        found, hung = _result(result, began + seconds)
        os.close(result)
        if hung:
            os.killpg(child, signal.SIGKILL)
        _, status, usage = os.wait4(child, 0)
        with contextlib.suppress(ProcessLookupError):  # what the command left running
            os.killpg(child, signal.SIGKILL)
        errors.seek(0)
        text = errors.read().decode(errors="replace")
    kind = "hang" if hung else _kind(os.waitstatus_to_exitcode(status), text, found, expected)
    return Verdict(kind, text, time.perf_counter() - began, usage.ru_maxrss * 1024)


def _kind(code: int, text: str, found: bytes, expected: bytes | None) -> str:
    if code < 0:
        return "signal"
    if "Traceback" in text or "Exception ignored" in text:
        return "traceback"
    if code == 0:
        return "same" if expected is None or found == expected else "other"
    if code not in (1, 2):
        return "exit"
    last = text.rstrip("\n").rsplit("\n", 1)[-1]
    return "refused" if "error: " in last and text.endswith("\n") else "words"


def _result(pipe: int, deadline: float) -> tuple[bytes, bool]:
    """(all that comes through a pipe until it is closed, whether that took too long)."""
    found = b""
    while (left := deadline - time.perf_counter()) > 0:
        if select.select([pipe], [], [], left)[0]:
            piece = os.read(pipe, 1 << 16)
            if not piece:
                return found, False
            found += piece
    return found, True


def _run(command: Callable[[], bytes | None], send: int, errors: int, memory: int) -> None:
    """The child's part; never returns."""
    code = 1
    try:
        os.setsid()
        os.dup2(errors, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.stdout, sys.stderr = (io.TextIOWrapper(io.FileIO(k, "w", closefd=False)) for k in (1, 2))
        with open("/proc/self/statm") as file:
            most = int(file.read().split()[0]) * resource.getpagesize() + memory
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            found = command()
            os.write(send, found or b"")
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)
