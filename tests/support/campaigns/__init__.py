"""Campaigns: many cases of one kind of fault, each run in a folder of its own, and the table of what was found.

A campaign is a module of this folder with a one-line docstring, ``CASES`` (how many by default) and ``cases(n, seed)``,
a list of ``Case``: the same list for the same n and seed, so that a case is repeated by its number.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from support.places import ROOT

NAMES = ("kills", "text", "memory", "concurrency", "numbers", "long", "container", "damage")


@dataclass(frozen=True)
class Case:
    """kind: the line of the table; run(folder): raises AssertionError where it fails, returns a remark or None."""

    kind: str
    run: Callable[[Path], str | None]


@dataclass
class Line:
    """A line of the table."""

    cases: int = 0
    failures: int = 0
    seconds: float = 0.0
    remarks: Counter = field(default_factory=Counter)


def run_cases(cases: Iterable[tuple[int, Case]], repeat: Callable[[int], str]) -> dict[str, Line]:
    """Run numbered cases; each failure is printed as it comes, with ``repeat(number)``, how to see it again.  Ctrl-C
    ends the campaign, and the table has the cases that were done."""
    table: dict[str, Line] = {}
    for number, case in cases:
        line = table.setdefault(case.kind, Line())
        folder = Path(tempfile.mkdtemp(prefix="campaign-"))
        began = time.perf_counter()
        try:
            remark = case.run(folder)
            if remark:
                line.remarks[remark] += 1
        except Exception as error:  # a case that breaks off in any other way has failed as well
            line.failures += 1
            text = " ".join(str(error).split())[:600]
            print(f"FAILED {case.kind}, case {number}: {type(error).__name__}: {text}\n  {repeat(number)}", flush=True)
        except KeyboardInterrupt:
            break
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        line.cases += 1
        line.seconds += time.perf_counter() - began
        print(f"{number} {case.kind}: {time.perf_counter() - began:.1f} s", file=sys.stderr, flush=True)
    return table


def shown(table: dict[str, Line]) -> str:
    """The table in Markdown, with a line of sums."""
    lines = ["| what | cases | failures | seconds | |", "|---|---|---|---|---|"]
    whole = Line()
    for kind, line in table.items():
        remarks = ", ".join(f"{text}: {n}" if line.cases > 1 else text for text, n in sorted(line.remarks.items()))
        lines.append(f"| {kind} | {line.cases:,} | {line.failures} | {line.seconds:.1f} | {remarks} |")
        whole.cases += line.cases
        whole.failures += line.failures
        whole.seconds += line.seconds
    return "\n".join([*lines, f"| all | {whole.cases:,} | {whole.failures} | {whole.seconds:.1f} | |"])


# ------------------------------------------------------------------------------------------------ commands


def command(module: str, *arguments) -> list[str]:
    """The words of a command line."""
    return [sys.executable, "-m", f"blocksvm.{module}", *map(str, arguments)]


def environment(**more: str) -> dict[str, str]:
    """Of a command that imports this checkout."""
    return os.environ | {"PYTHONPATH": str(ROOT)} | more


def finished(module: str, *arguments, timeout: float = 300.0, **options) -> subprocess.CompletedProcess:
    """A command in a process of its own, run to its end."""
    options = {"cwd": ROOT, "env": environment()} | options
    line = command(module, *arguments)
    return subprocess.run(line, capture_output=True, text=True, timeout=timeout, **options)


def check_refusal(code: int, err: str, *codes: int) -> None:
    """The command ended with one of these exit statuses and a sentence, without a traceback."""
    assert code in codes, f"exit {code}: {err[-500:]}"
    assert "Traceback" not in err, err[-800:]
    assert "Exception ignored" not in err, err[-800:]
    if code:
        assert err.strip().splitlines()[-1:], "nothing was said"


def forked(work: Callable[[], None], stderr: Path | None = None) -> int:
    """The process number of a child that runs ``work`` with what is loaded here, so that it begins at once."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 99
    try:
        place = os.open(stderr or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(place, 1)
        os.dup2(place, 2)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        work()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(child: int) -> int:
    """The exit status of a child, negative for the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
