"""Foreign files that a library trusts are read in a child process.

A damaged or hostile HDF5 file makes HDF5 loop, crash or take all memory, and a Parquet file pyarrow.

The process streams arrays through a pipe as frames: the length of a JSON object (4 bytes), the object, the bytes of the
arrays that its ``arrays`` list as [dtype, length].  Nothing in them is executed, and who takes them checks what they
hold.  The process ends by itself after ``PATIENCE`` seconds of computing without a frame, when it wants more memory
than ``memory``, and when nobody listens any longer.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from blocksvm.base.errors import InputError, option

PATIENCE = 10  # seconds of a processor; and ``WAITING`` times as many of waiting for a disk
WAITING = 30
DTYPES = ("|u1", "<i4", "<i8", "<f8")
LONGEST_HEADER = 1 << 16
CODE = """import json, sys
sys.path[:], spoken, given = map(json.loads, sys.argv[1:])
from blocksvm.base.errors import use_option_names
from {} import serve
use_option_names(spoken)
serve(*given)"""


@dataclass(frozen=True)
class Frame:
    """A message of the child: its kind, its JSON fields (``about``) and 1-D arrays."""

    kind: str
    about: dict
    arrays: list[np.ndarray]


def memory_for(n_bytes: int) -> int:
    """Bytes that a process may take whose frames have about ``n_bytes``: they and its interpreter
    and libraries, 50 MB, lie in the 300 MB that a command may take beside its budget."""
    return (48 << 20) + 8 * n_bytes


# -- the process that reads -------------------------------------------------------------------------------------------


def send(frames: Iterable[Frame], memory: int, patience: int) -> None:
    """Write the frames to standard output, then one of kind 'end'; or 'fault', with a sentence.  Ends the process."""
    with open("/proc/self/statm") if os.path.exists("/proc/self/statm") else open(os.devnull) as file:
        used = int((file.read().split() or ["0"])[0]) * resource.getpagesize()
    with suppress(OSError, ValueError):  # where the system knows no such limit
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if used:
            resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
    try:
        _renew(patience)
        try:
            for frame in frames:
                _write(frame)
                _renew(patience)
            _write(Frame("end", {}, []))
        except InputError as error:
            _write(Frame("fault", {"text": str(error)}, []))
        except MemoryError:
            text = f"needs more memory at once than {option('memory')} leaves; raise {option('memory')}"
            _write(Frame("fault", {"text": text}, []))
        except BrokenPipeError:
            raise
        except Exception as error:  # HDF5's faults come as any kind
            first = (str(error).splitlines() or [type(error).__name__])[0]
            _write(Frame("fault", {"text": f"is damaged ({first[:200]}); get it again"}, []))
    except BrokenPipeError:
        pass
    finally:
        os._exit(0)  # closing a damaged file may not end either


def _write(frame: Frame) -> None:
    arrays = [np.ascontiguousarray(array) for array in frame.arrays]
    about = frame.about | {"kind": frame.kind, "arrays": [[array.dtype.str, len(array)] for array in arrays]}
    header = json.dumps(about).encode()
    for part in (len(header).to_bytes(4, "little"), header, *(memoryview(a).cast("B") for a in arrays if len(a))):
        left = memoryview(part)
        while left:
            left = left[os.write(1, left) :]


def _renew(patience: int) -> None:
    """Allow as much computing as ever until the next frame."""
    used = time.process_time()
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    most = int(used) + patience + 1
    resource.setrlimit(resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


# -- who takes what it sends ------------------------------------------------------------------------------------------


@contextmanager
def frames_from(
    module: str, path: str, *arguments, memory: int, shown: str, library: str = "HDF5"
) -> Iterator[Callable[[str], Frame | None]]:
    """``take(kind)`` of the frames of ``module.serve(path, *arguments, limits)``, which calls ``send`` with these two
    limits: the next frame, which is of this kind, or None where there is no more.  InputError, with the file's name as
    it is ``shown``; library: that reads it, for messages."""
    spoken = option("memory").startswith("-")
    options = [json.dumps(sys.path), json.dumps(spoken), json.dumps([path, *arguments, [memory, PATIENCE]])]
    child = subprocess.Popen(
        [sys.executable, "-c", CODE.format(module), *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        start_new_session=True,  # Ctrl-C is for us
    )
    try:
        yield _Frames(child, shown, memory, library).take
    finally:
        child.kill()
        assert child.stdout is not None
        child.stdout.close()
        child.wait()


class _Frames:
    def __init__(self, child: subprocess.Popen, path: str, memory: int, library: str):
        assert child.stdout is not None
        self.child, self.path, self.memory, self.library = child, path, memory, library
        self.pipe = child.stdout.fileno()
        self.ready = select.poll()
        self.ready.register(self.pipe, select.POLLIN)
        self.ended = False

    def take(self, kind: str) -> Frame | None:
        frame = None if self.ended else self._next()
        if frame is None or frame.kind == "end":
            self.ended = True
            return None
        if frame.kind == "fault":
            text = str(frame.about.get("text"))[:1000]
            shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
            raise InputError(f"{self.path}: {shown}")
        if frame.kind != kind:
            raise self._broken()
        return frame

    def _next(self) -> Frame:
        n = int.from_bytes(self._bytes(4), "little")
        if n > LONGEST_HEADER:
            raise self._broken()
        try:
            about = json.loads(bytes(self._bytes(n)))
            arrays = about.pop("arrays")
            sizes = [(np.dtype(dtype), length) for dtype, length in arrays if dtype in DTYPES and 0 <= length]
            fits = len(sizes) == len(arrays) and sum(t.itemsize * length for t, length in sizes) <= self.memory
            kind = about.pop("kind")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise self._broken() from None
        if not fits:
            raise self._broken()
        return Frame(kind, about, [self._bytes(dtype.itemsize * length).view(dtype) for dtype, length in sizes])

    def _bytes(self, n: int) -> np.ndarray:
        """The next n bytes; InputError where there are none for too long, or the process has ended."""
        data = np.empty(n, np.uint8)
        filled = 0
        while filled < n:
            if not self.ready.poll(1000 * PATIENCE * WAITING):
                raise self._endless()
            more = os.readv(self.pipe, [memoryview(data)[filled:]])
            if not more:
                raise self._ended()
            filled += more
        return data

    def _ended(self) -> InputError:
        """The sentence for a process that ended before its time."""
        status = self.child.wait()
        if status == -signal.SIGXCPU:
            return self._endless()
        if status < 0:
            what = f"{self.library} crashed reading it (signal {-status})"
            return InputError(f"{self.path}: {what}; it is damaged: get it again")
        return InputError(f"{self.path}: the process that reads it ended with status {status}; get the file again")

    def _endless(self) -> InputError:
        return InputError(f"{self.path}: {self.library} did not finish reading it; it is damaged: get it again")

    def _broken(self) -> InputError:
        return InputError(
            f"{self.path}: what {self.library} read of it contradicts itself; it is damaged: get it again"
        )
