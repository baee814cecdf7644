"""Damaged files, made from a seed, and what a command makes of them in a process of its own, with limits."""

from __future__ import annotations

import contextlib
import io
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass

PAGE = 4096


def damaged(data: bytes, seed: int) -> bytes:
    """The data with one fault: flipped bytes, a cut, zeros, or two pages of 4 kB that changed places; where it is
    shorter than two pages, halves of it for pages."""
    draw = random.Random(seed)
    found = bytearray(data)
    kind = seed % 5
    at = draw.randrange(len(data))
    if kind < 2:
        # every other fault lies where file formats have their headers, at the beginning or at the end
        near = min(len(data), 1024)
        for _ in range(draw.choice((1, 1, 2, 8))):
            at = draw.choice((draw.randrange(len(data)), draw.randrange(near), len(data) - 1 - draw.randrange(near)))
            found[at] ^= draw.choice((0x01, 0x10, 0x80, 0xFF))
    elif kind == 2:
        del found[at:]
    elif kind == 3:
        n = min(draw.choice((1, 4, 64, 512, PAGE)), len(data) - at)
        found[at : at + n] = bytes(n)
    else:
        page = min(PAGE, len(data) // 2)
        first, second = draw.sample(range(len(data) // page), 2)
        one, other = (slice(k * page, (k + 1) * page) for k in (first, second))
        found[one], found[other] = data[other], data[one]
    return bytes(found)


@dataclass(frozen=True)
class Verdict:
    """How a command took it.  kind: 'same', 'other' (another result), 'refused' (one sentence, exit 1 or 2), or what
    must never be: 'signal', 'hang', 'traceback', 'exit' (another code), 'words' (no sentence); text: its errors."""

    kind: str
    text: str
    seconds: float
    peak_bytes: int

    @property
    def held(self) -> bool:
        return self.kind in ("same", "refused")


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
