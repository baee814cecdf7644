"""TRACE.jsonl: one JSON object a line for each event of a run; its writer and its reader."""

from __future__ import annotations

import json
from collections.abc import Callable

from blocksvm.base.errors import InputError, option
from blocksvm.files.input import open_input
from blocksvm.files.output import JsonLines, written_text
from blocksvm.files.paths import Location
from blocksvm.model.events import UNTRACED, RunEvent


class Trace:
    """A trace being written.  Resuming retains what lies before the checkpoint and appends to it.

    warn(sentence) is called once where the disk takes no more: the run itself goes on.
    """

    def __init__(self, path: Location, resumed_outer: int | None, warn: Callable[[str], None], overwrite: bool = True):
        lines: list[str] = []
        if resumed_outer is not None and path.is_file():
            lines = _before(path, resumed_outer)
        if lines:
            # replaced whole: a kill in between loses nothing
            with written_text(path) as file:
                file.write("".join(lines))
        self.lines = JsonLines(path, warn, overwrite, going_on=resumed_outer is not None)

    def write(self, event: RunEvent) -> None:
        if event["event"] not in UNTRACED:
            self.lines.write(event)

    def close(self) -> None:
        self.lines.close()


def read_trace(path: Location, cut_short: bool = False) -> list[dict]:
    """The events of a trace; InputError where a line is not one.  cut_short: a last line without its end is left out,
    as a run that was killed may leave it."""
    events = []
    with open_input(path) as file:
        for number, line in enumerate(file, 1):
            if cut_short and not line.endswith(b"\n"):
                break
            try:
                event = json.loads(line)
                event["event"]
            except (ValueError, TypeError, KeyError, RecursionError):
                raise InputError(
                    f"{path}:{number}: is not a line of a trace; name one that {option('log')} wrote"
                ) from None
            events.append(event)
    return events


def _before(path: Location, outer: int) -> list[str]:
    """Lines of a trace that a run resumed in this outer iteration has behind it."""
    begins = "start", "resume"
    events = [e for e in read_trace(path, cut_short=True) if e["event"] in begins or e.get("outer", 0) < outer]
    return [json.dumps(event) + "\n" for event in events if event["event"] != "end"]
