"""What the commands share: sizes and durations, exit codes, errors as one line, and kernels compiled beforehand.

Imports nothing heavy, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable

from blocksvm import __version__
from blocksvm.errors import InputError, speak_options

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
COMPILED_WITH = "svmlight"  # the format of the rows by which all other kernels are compiled
SECONDS = {"": 1, "S": 1, "M": 60, "H": 3600, "D": 86400}


def _with_unit(text: str, units: dict[str, int], what: str) -> float:
    number = text.strip().upper()
    unit = ""
    while number and number[-1].isalpha():
        unit = number[-1] + unit
        number = number[:-1]
    try:
        value = float(number) * units[unit]
    except (KeyError, ValueError):
        raise argparse.ArgumentTypeError(f"'{text}' is not {what}") from None
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' must be above 0")
    return value


def size(text: str) -> int:
    """Bytes from '512MB' or '1.5GB' (MB = 10^6 bytes)."""
    return int(_with_unit(text, UNITS, "a size such as 512MB or 2GB"))


def duration(text: str) -> float:
    """Seconds from '90', '10m' or '2h'."""
    return _with_unit(text, SECONDS, "a duration such as 90, 10m or 2h")


def seed(text: str) -> int:
    """A whole number of 64 bits, as generators take it."""
    try:
        value = int(text)
    except ValueError:
        value = -1
    if not 0 <= value < 2**63:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number from 0 to 2**63 - 1")
    return value


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def __init__(self, module: str, description: str, epilog: str | None = None):
        super().__init__(
            prog=f"python -m blocksvm.{module}",
            description=description,
            epilog=epilog,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        self.add_argument("--version", action="version", version=f"blocksvm {__version__}")
        self.add_argument("--quiet", action="store_true", help="print no progress, only results and errors")

    def error(self, message: str):
        self.exit(2, f"{self.prog}: error: {message} (see --help)\n")


class Interrupted(Exception):
    """The user stopped the run; what there was to save has been saved."""


def run(main: Callable[[list[str]], int | None], arguments: list[str] | None = None) -> None:
    """Run a command and exit: 0 done, 2 wrong input, 130 interrupted, 1 anything else."""
    prog = f"blocksvm.{main.__module__.rsplit('.', 1)[-1]}"
    if main.__module__ == "__main__":
        prog = "blocksvm." + os.path.splitext(os.path.basename(sys.argv[0]))[0]
    before = speak_options(True)
    try:
        code = _exit_code(main, prog, sys.argv[1:] if arguments is None else arguments)
    finally:
        speak_options(before)
    sys.exit(code)


def _exit_code(main: Callable[[list[str]], int | None], prog: str, arguments: list[str]) -> int:
    try:
        code = main(arguments) or 0
        sys.stdout.flush()
        return code
    except InputError as error:
        return _fail(prog, str(error), 2)
    except (KeyboardInterrupt, Interrupted) as error:
        return _fail(prog, str(error) or "interrupted", 130)
    except BrokenPipeError:
        # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except MemoryError:
        return _fail(prog, "the machine has no more memory; lower --memory", 1)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EFBIG):
            raise
        name = f"{error.filename}: " if error.filename else ""
        text = f"{name}{(error.strerror or str(error)).lower()}; free some space or choose another place"
        return _fail(prog, text, 2)


def _fail(prog: str, message: str, code: int) -> int:
    sys.stdout.flush()
    print(f"{prog}: error: {' '.join(message.split())}" if code != 130 else f"{prog}: {message}", file=sys.stderr)
    return code


def catch_signals() -> Callable[[], bool]:
    """From now on Ctrl-C and SIGTERM only set a flag, which the returned function tells; a second one ends at once."""
    seen = []

    def handler(number, frame) -> None:
        if seen:
            raise KeyboardInterrupt
        seen.append(number)

    signal.signal(signal.SIGINT, handler)
    signal.signal(signal.SIGTERM, handler)
    return lambda: bool(seen)


def sigterm_interrupts() -> None:
    """Let SIGTERM end a command as Ctrl-C does, so that what is half written is removed."""

    def handler(number, frame) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, handler)


def compile_learner(options, kind: str, n_classes: int) -> None:
    """The same for the online learner that the options name, on rows of so many classes."""
    from blocksvm.learners import LEARNERS
    from blocksvm.learners.runner import RULES

    name = getattr(options, "learner", None) or options.solver
    rule = (getattr(options, "multiclass", None) or RULES[0]) if n_classes > 2 else ""
    if name in LEARNERS and rule in ("", *RULES):
        mirror = options.mirror or "" if name == "omd" else ""
        compile_kernels(f"learn:{name}:{mirror}:{rule}", kind, options.quiet)


def compile_reader(dtype: str, bits: int | None, quiet: bool) -> Callable:
    """What is to be called with the format that text has, before it is read: its kernels are compiled."""

    def ready(found) -> None:
        if found.name != COMPILED_WITH or bits is not None:
            compile_kernels(f"read:{found.name}:{'' if bits is None else 'hashed'}", dtype, quiet)

    return ready


def compile_kernels(purpose: str, kind: str, quiet: bool) -> None:
    """Where the kernel cache is cold, compile in a child process, whose memory is given back when it ends.

    purpose: 'split', 'train', 'predict', 'read:FORMAT:hashed' or 'learn:LEARNER:MAP:RULE'; kind: 'float32', 'float64'
    or 'ones'.
    """
    from blocksvm.kernels import cache_folder

    ready = cache_folder() / f"ready-{purpose}-{kind}"
    if ready.exists() or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return
    if not quiet:
        what = " ".join(part for part in purpose.removeprefix("learn:").removeprefix("read:").split(":") if part)
        print(f"compiling the {what} kernels for {kind} values (first run only, some seconds)", file=sys.stderr)
    child = subprocess.run(
        [sys.executable, "-m", "blocksvm.cli.warmup", purpose, kind],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if child.returncode == 0:
        ready.touch()
    elif not quiet:
        print(f"compiling ended early ({child.returncode}); going on, more slowly", file=sys.stderr)
