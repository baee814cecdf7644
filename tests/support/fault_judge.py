"""Judgement of what a command leaves behind, and says, after a call of the system has failed."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass

from support.fault_children import LIMIT, Ended, Server
from support.fault_scenarios import Scenario
from support.faults import Fault, Report

# errno -> what a sentence must say of it
CAUSES = {
    "ENOSPC": "no space left|MB free",
    "EIO": "input/output error",
    "EACCES": "permission",
    "ENOENT": "no such file|does not exist|vanished|not there|is missing",
    "EMFILE": "too many open files",
}
SPACE = re.compile("free some space|more space|is full", re.IGNORECASE)
TOLD = re.compile(r"written|whole|complete|saved|replaced|in its place|made")


@dataclass
class Judge:
    """What a scenario's outputs are without faults, and what lies there before."""

    server: Server
    scenario: Scenario
    variant: str
    before: dict[str, bytes]  # all files, inputs too
    whole: dict[str, str]  # output -> its reading
    shown: str

    def failures(self, ended: Ended, report: Report, fault: Fault | None) -> list[tuple[str, str]]:
        """(what kind of failure, detail) of a case.  fault: None where no call has failed."""
        left = self.server.left()
        found = list(self._ending(ended, report, fault))
        for path, data in self.before.items():
            if path not in self.scenario.outputs and left.get(path) != data:
                found.append(("input changed", path))
        for path, kind in self.scenario.outputs.items():
            found += self._output(path, kind, left.get(path), ended)
        if fault is None or fault.kind != "unlink":
            extra = [path for path in left if path not in self.before and path not in self.scenario.outputs]
            found += [("left behind", re.sub(r"/\d+$", "/N", _plain(path))) for path in extra]
        return found

    def _output(self, path: str, kind: str, now: bytes | None, ended: Ended) -> Iterator[tuple[str, str]]:
        before = self.before.get(path)
        told = path in ended.err
        if now is None:
            if ended.code == 0 or before is not None:
                yield ("lost" if before is not None else "missing at exit 0", path)
            return
        if now == before and ended.code != 0:
            return
        reading = self.server.reading(path, kind, now)
        if ended.code == 0:
            if reading != self.whole[path] and not (kind == "trace" and told):
                yield ("damaged at exit 0" if not reading else "another output at exit 0", path)
        elif path in self.scenario.growing:
            if not reading and not (kind == "trace" and told):
                yield ("half-written", path)
        elif reading != self.whole[path]:
            yield ("half-written" if before is None else "lost and damaged", path)
        elif not (TOLD.search(ended.err) and os.path.basename(path) in ended.err):
            yield ("new and not told", path)

    def _ending(self, ended: Ended, report: Report, fault: Fault | None) -> Iterator[tuple[str, str]]:
        if ended.code is None:
            yield "no end", f"within {LIMIT:g} seconds"
            return
        if ended.code < 0:
            yield "crash", signal.Signals(-ended.code).name
            return
        for sign in ("Traceback", "Exception ignored", "HDF5-DIAG", "Fatal Python error"):
            if sign in ended.err:
                yield sign, _frames(ended.err)
        if ended.code == 0:
            if self.scenario.shown and ended.out != self.shown:
                yield "shown differs at exit 0", ended.out[-100:]
            return
        if "Traceback" in ended.err:
            return
        lines = [line for line in ended.err.splitlines() if ": error: " in line]
        last = ended.err.rstrip("\n").rsplit("\n", 1)[-1]
        if ended.code not in (1, 2):
            yield f"exit {ended.code}", last
        if len(lines) != 1 or last != lines[0]:
            yield "no sentence", last
            return
        plain = _plain(last)
        if ";" not in last:
            yield "no advice", plain
        if fault is not None and fault.errno != "ENOSPC" and SPACE.search(last):
            yield "advice does not fit", f"{fault.errno}: {plain}"
        if fault is not None and not re.search(CAUSES[fault.errno], last, re.IGNORECASE):
            yield "cause not told", f"{fault.errno}: {plain}"
        place = os.path.relpath(report.path, self.server.case) if report.path else ""
        names = [*self.scenario.outputs, ".shuffle", "out:"]
        if fault is not None and fault.mode == "on":  # the first call that failed may have been taken well
            names += self.before
        elif place in self.before and place not in self.scenario.outputs:
            names = [place]
        elif not place.endswith(".partial"):
            names.append(place)
        if not any(path in last for path in (*names, str(self.server.case))):
            yield "path not told", f"{_plain(place)}: {plain}"


def _plain(text: str) -> str:
    """Without what differs from case to case: processes and numbers of temporary files."""
    text = re.sub(r"\d+-\d+-[0-9a-f]{8}", "OWNER", text)
    return re.sub(r"OWNER\.\w+", "OWNER.N", re.sub(r"0x[0-9a-f]+", "ADDRESS", text))


def _frames(text: str) -> str:
    """The package's last frames of a traceback, and what was raised, without paths and numbers."""
    frames = re.findall(r'File "[^"]*?(blocksvm/[^"]+)", line (\d+)', text)
    raised = [line for line in text.splitlines() if re.match(r"[A-Za-z_.]*(Error|Exception|Exit)\b", line)]
    where = " < ".join(f"{path}:{line}" for path, line in frames[:-3:-1])
    return f"{where or 'outside'}: {re.split(r', errno|: time|: .?out/|: ./', raised[-1])[0] if raised else ''}"
