"""Damaged files of each kind: bytes flipped, cuts, zeros, pages that changed places; given to what reads them."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache, partial
from pathlib import Path

from support.campaigns import Case
from support.damage_files import KINDS, Trial, prepare

from blocksvm.store import foreign

CASES = 10_000 * round(sum(kind.share for kind in KINDS.values()))


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
