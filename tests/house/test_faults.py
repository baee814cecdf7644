"""Calls of the system that fail: the library that makes them fail, the judge of what a command leaves, a part of the
campaign (``tools/faults`` runs all of it)."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.fault_campaign import faults_of, groups
from support.fault_children import Ended, Server
from support.fault_judge import Judge
from support.fault_scenarios import SCENARIOS, Scenario
from support.faults import (
    ERRNOS,
    FULL,
    KINDS,
    MODES,
    Fault,
    Report,
    Unavailable,
    build,
    environment,
    new_report,
    read_report,
)
from support.places import ROOT

PATHS = f"{ROOT}:{ROOT / 'tests'}"


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    try:
        return build(tmp_path_factory.mktemp("library"))
    except Unavailable as why:
        pytest.skip(str(why))


# ------------------------------------------------------------------------------------------------ the library

# kind -> a program that makes three calls of it, in the folder in which it runs
CALLS = {
    "open": "for n in 'abc': os.close(os.open(n, os.O_CREAT | os.O_RDWR))",
    "read": "d = os.open('x', os.O_RDONLY); os.read(d, 1); os.pread(d, 1, 0); np.fromfile('x', 'u1')",
    "write": "d = os.open('x', os.O_RDWR); os.write(d, b'1'); os.writev(d, [b'1']); np.ones(1, 'u1').tofile('z')",
    "fsync": "d = os.open('x', os.O_RDWR); os.fsync(d); os.fdatasync(d); os.fsync(d)",
    "rename": "os.rename('x', 'y'); os.link('y', 'z'); os.replace('z', 'x')",
    "unlink": "os.unlink('x'); os.rmdir('folder'); os.unlink('other', dir_fd=os.open('.', os.O_RDONLY))",
    "mkdir": "os.mkdir('a'); os.mkdir('b'); os.mkdir('c', dir_fd=os.open('.', os.O_RDONLY))",
    "close": "for n in 'xxx': os.close(os.open(n, os.O_RDONLY))",
    "truncate": "d = os.open('x', os.O_RDWR); os.ftruncate(d, 1); os.truncate('x', 0); os.ftruncate(d, 0)",
}
PROGRAM = """
import os, sys
from pathlib import Path
import h5py
import numpy as np
from support.faults import Fault, arm
os.chdir(sys.argv[1])
arm(Path(sys.argv[1]), Fault.parse(sys.argv[2]), Path(sys.argv[3]))
try:
    exec(sys.argv[4])
except OSError as error:
    print(error.errno)
"""


def run_program(library: Path, folder: Path, fault: str, program: str) -> tuple[str, Report]:
    """What it prints, and what was counted; ``folder`` holds x, other and an empty folder."""
    place, report = folder / "place", folder / "report"
    (place / "folder").mkdir(parents=True)
    for name in ("x", "other"):
        (place / name).write_bytes(b"abc")
    new_report(report)
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, place, fault, report, program],
        env=os.environ | environment(library) | {"PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, read_report(report)


@pytest.mark.process
@pytest.mark.parametrize("kind", KINDS)
def test_a_call_fails_as_ordered(library, tmp_path, kind):
    _, report = run_program(library, tmp_path / "count", f"{kind}:0:EIO:once", CALLS[kind])
    assert (report.calls[kind], report.fired, report.path) == (3, 0, "")
    for number, name in ((2, "ENOSPC"), (3, "EMFILE")):
        told, report = run_program(library, tmp_path / name, f"{kind}:{number}:{name}:once", CALLS[kind])
        if kind in ("read", "write") and number == 3:  # numpy says in words that a read or write was short
            assert told in ("", "None\n")
        else:
            assert told == f"{getattr(errno, name)}\n"
        assert (report.fired, report.calls[kind]) == (1, number)
        assert report.path.startswith(str(tmp_path / name / "place"))


@pytest.mark.process
def test_calls_fail_from_there_on(library, tmp_path):
    program = "for n in 'abc':\n try: os.mkdir(n)\n except OSError as error: print(n, error.errno)"
    told, report = run_program(library, tmp_path, "mkdir:2:EACCES:on", program)
    assert told == f"b {errno.EACCES}\nc {errno.EACCES}\n"
    assert report.fired == 2


@pytest.mark.process
def test_calls_elsewhere_do_not_count(library, tmp_path):
    program = "os.mkdir('../beside'); os.mkdir('../place2'); open('../f', 'w').write('1'); os.mkdir('folder/../a')"
    told, report = run_program(library, tmp_path, "mkdir:1:EIO:once", program)
    assert (told, report.calls["mkdir"], report.calls["open"]) == (f"{errno.EIO}\n", 1, 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside", "f", "place", "place2", "report"]


@pytest.mark.process
def test_a_close_that_fails_closes(library, tmp_path):
    program = (
        "d = os.open('x', os.O_RDONLY)\ntry: os.close(d)\nexcept OSError: pass\n"
        "try: os.fstat(d)\nexcept OSError as error: print(error.errno)"
    )
    told, report = run_program(library, tmp_path, "close:1:EIO:once", program)
    assert (told, report.fired) == (f"{errno.EBADF}\n", 1)


@pytest.mark.process
def test_a_place_that_is_full(library, tmp_path):
    program = "d = os.open('x', os.O_RDWR); print(os.write(d, b'123456'), os.write(d, b'123456')); os.write(d, b'1')"
    told, report = run_program(library, tmp_path, f"{FULL}:10:ENOSPC:on", program)
    assert told == f"6 4\n{errno.ENOSPC}\n"
    assert (tmp_path / "place" / "x").read_bytes() == b"1234561234"
    assert (report.fired, report.n_bytes) == (2, 13)


@pytest.mark.process
def test_hdf5_is_caught(library, tmp_path):
    """HDF5 writes through the calls that are caught, at the latest when it closes a file."""
    program = "f = h5py.File('h', 'w'); f['x'] = np.arange(10); f.close()"
    _, report = run_program(library, tmp_path / "count", "write:0:EIO:once", program)
    assert report.calls["write"] > 3
    told, report = run_program(library, tmp_path / "fails", "write:1:EIO:on", program.replace("f.close()", "f.flush()"))
    assert told == f"{errno.EIO}\n" and report.fired


# ------------------------------------------------------------------------------------------------ the judge

SCENARIO = Scenario("some", "split in/a out/s", {"out/s": "text"})
ERROR = "blocksvm split: error: out/s: input/output error; check the disk\n"
DONE, FAILED = Ended(0, "", ""), Ended(1, "", ERROR)


class Left:
    """In place of the server: what a child has left."""

    case = Path("/case")
    reading = Server.reading

    def __init__(self, **files: bytes):
        self.files = {"in/a": b"rows"} | {name.replace("_", "/"): data for name, data in files.items()}

    def left(self) -> dict[str, bytes]:
        return self.files


def judged(ended: Ended, old: bytes | None, left: Left, path: str = "/case/out/s") -> set[str]:
    """Kinds of failures of a case over an ``old`` output, or none; whole is b'new'."""
    before = {"in/a": b"rows"} | ({} if old is None else {"out/s": old})
    judge = Judge(left, SCENARIO, "over", before, {"out/s": Server.reading(left, "out/s", "text", b"new")}, "")
    return {what for what, _ in judge.failures(ended, Report(1, 0, {}, path), Fault("write", 1, "EIO", "once"))}


@pytest.mark.parametrize(
    ("ended", "old", "now"),
    [(DONE, None, b"new"), (DONE, b"old", b"new"), (FAILED, b"old", b"old"), (FAILED, None, None)],
)
def test_what_is_right(ended, old, now):
    assert judged(ended, old, Left(**({} if now is None else {"out_s": now}))) == set()


@pytest.mark.parametrize(
    ("what", "ended", "old", "now"),
    [
        ("missing at exit 0", DONE, None, None),
        ("lost", FAILED, b"old", None),
        ("another output at exit 0", DONE, b"old", b"old"),
        ("half-written", FAILED, None, b"ne"),
        ("lost and damaged", FAILED, b"old", b"ne"),
        ("new and not told", FAILED, b"old", b"new"),
    ],
)
def test_outputs_that_are_wrong(what, ended, old, now):
    assert judged(ended, old, Left(**({} if now is None else {"out_s": now}))) == {what}


@pytest.mark.parametrize(
    ("what", "code", "err"),
    [
        ("no end", None, ""),
        ("crash", -11, ""),
        ("Traceback", 1, "Traceback (most recent call last):\n"),
        ("Exception ignored", 1, "Exception ignored in x\n" + ERROR),
        ("exit 3", 3, ERROR),
        ("no sentence", 1, "ended\n"),
        ("no sentence", 1, ERROR + "and more\n"),
        ("no sentence", 1, ERROR + ERROR),
        ("no advice", 1, "blocksvm split: error: out/s: input/output error\n"),
        ("advice does not fit", 1, "blocksvm split: error: out/s: input/output error; free some space\n"),
        ("cause not told", 1, "blocksvm split: error: out/s: is damaged; make it again\n"),
        ("path not told", 1, "blocksvm split: error: input/output error; check the disk\n"),
    ],
)
def test_endings_that_are_wrong(what, code, err):
    assert judged(Ended(code, "", err), b"old", Left(out_s=b"old")) == {what}


def test_what_is_left_behind_or_changed():
    assert judged(FAILED, b"old", Left(out_s=b"old", out_more=b"")) == {"left behind"}
    assert judged(FAILED, b"old", Left(out_s=b"old", in_a=b"other")) == {"input changed"}
    assert judged(FAILED, b"old", Left(out_s=b"old"), path="/case/in/a") == {"path not told"}


def test_every_position_and_pair_is_tried():
    """Ten pairs of errno and mode at each of the first 200 calls; a part has the first and the last call."""
    report = Report(0, 10_000, dict.fromkeys(KINDS, 3) | {"read": 500}, "")
    every = list(faults_of(report, 10, 1))
    assert len(every) == len(set(every)) == 10 * (3 * (len(KINDS) - 1) + 200) + 3
    part = list(faults_of(report, 1, 7))
    assert set(part) <= set(every)
    assert {fault.position for fault in part if fault.kind == "read"} >= {1, 200}
    turns = {(fault.errno, fault.mode) for fault in part}
    assert turns == {(name, mode) for name in ERRNOS for mode in MODES}
    assert Fault.parse(str(every[0])) == every[0]


# ------------------------------------------------------------------------------------------------ commands


@pytest.fixture(scope="module")
def records(library, tmp_path_factory) -> list[dict]:
    """Of a part of the campaign, one for each case."""
    path = tmp_path_factory.mktemp("campaign") / "records"
    done = subprocess.run(
        [sys.executable, "-P", "-m", "support.fault_campaign", "--part", "--records", path],
        env=os.environ | {"PYTHONPATH": PATHS},
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, 1), done.stderr
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.process
def test_commands_take_failing_calls_well(records):
    assert not any(record["failures"] for record in records), groups(records)


@pytest.mark.process
def test_each_command_and_kind_of_call_is_tried(records):
    fired = [record for record in records if record["fired"]]
    assert {record["scenario"] for record in fired} == {
        f"{s.name}/{v}" for s in SCENARIOS if s.part for v in s.variants
    }
    assert {record["kind"] for record in fired} == {*KINDS, FULL}
    assert len(fired) > 0.9 * len(records)
