"""Damaged files of each kind: bytes flipped, cuts, zeros, pages that changed places; given to what reads them."""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import sys
import tempfile
from functools import cache, partial
from pathlib import Path
from types import SimpleNamespace

from support.campaigns import Case, ended
from support.damage_files import KINDS, Trial, prepare

from blocksvm.store import foreign

CASES = 10_000 * round(sum(kind.share for kind in KINDS.values()))


class ForkedReader:
    """What ``foreign`` uses of ``subprocess.Popen``, of a child that is forked from this process, which has the
    libraries loaded: the same code runs, without half a second of imports."""

    def __init__(self, words: list[str], **_):
        reading, writing = os.pipe()
        self.child = os.fork()
        if not self.child:
            try:
                os.setsid()
                os.dup2(writing, 1)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                os.close(reading)
                sys.argv = ["-c", *words[3:]]
                exec(words[2], {})
            finally:
                os._exit(99)
        os.close(writing)
        self.stdout = os.fdopen(reading, "rb", buffering=0)
        self.status: int | None = None

    def kill(self) -> None:
        if self.status is None:
            os.kill(self.child, signal.SIGKILL)

    def wait(self) -> int:
        if self.status is None:
            self.status = ended(self.child)
        return self.status


@cache
def prepared() -> Path:
    """The folder of the examples, made once."""
    folder = Path(tempfile.mkdtemp(prefix="campaign-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    prepare(folder)
    return folder


@cache
def trial(kind: str) -> Trial:
    return Trial(kind, prepared())


def one(kind: str, seed: int, folder: Path) -> str:
    foreign.PATIENCE = 1  # seconds after which what hangs is ended; damaged files are small
    foreign.subprocess = SimpleNamespace(Popen=ForkedReader, PIPE=None, DEVNULL=None)
    verdicts = trial(kind).verdicts(seed)
    for words, verdict in zip(KINDS[kind].commands, verdicts, strict=True):
        assert verdict.held, f"{words.split()[0]}: {verdict}"
    refused = sum(verdict.kind == "refused" for verdict in verdicts)
    return "refused by all" if refused == len(verdicts) else "by some" if refused else "by none"


def cases(n: int, seed: int) -> list[Case]:
    """A kind after the other."""
    each = n / sum(kind.share for kind in KINDS.values())
    return [
        Case(name, partial(one, name, seed * 1_000_000 + k))
        for name, kind in KINDS.items()
        for k in range(round(each * kind.share))
    ]
