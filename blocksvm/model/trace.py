"""TRACE.jsonl: one JSON object a line for each event of a run; its writer and reader, and the replay of a run's
passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from blocksvm.base.errors import InputError, option
from blocksvm.base.inputs import open_input
from blocksvm.base.json_lines import JsonLines
from blocksvm.base.outputs.writing import open_text, written_text
from blocksvm.model.events import UNTRACED, RunEvent
from blocksvm.model.solver_state import open_state

# of a run's settings, those that decide which rows a visit has: passes mean the same only where these are equal
SIZES = ("resident", "capacity", "set_bytes", "unit_bytes", "blocks")
OF_BLOCKS = ("seed", "partition", "block_chunks", "order", "working_set")


class Trace:
    """A trace being written.  Resuming retains what lies before the checkpoint and appends to it.

    warn(sentence) is called once where the disk takes no more: the run itself goes on.
    """

    def __init__(self, path: Path, resumed_outer: int | None, warn: Callable[[str], None], overwrite: bool = True):
        lines: list[str] = []
        if resumed_outer is not None and path.is_file():
            lines = _before(path, resumed_outer)
        if lines:
            # replaced whole: a kill in between loses nothing
            with written_text(path) as file:
                file.write("".join(lines))
        self.lines = JsonLines(path, open_text(path, overwrite, going_on=resumed_outer is not None), warn)

    def write(self, event: RunEvent) -> None:
        if event["event"] not in UNTRACED:
            self.lines.write(event)

    def close(self) -> None:
        self.lines.close()


def read_trace(path: Path, cut_short: bool = False) -> list[dict]:
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


def _before(path: Path, outer: int) -> list[str]:
    """Lines of a trace that a run resumed in this outer iteration has behind it."""
    events = [
        e for e in read_trace(path, cut_short=True) if e["event"] in ("start", "resume") or e.get("outer", 0) < outer
    ]
    return [json.dumps(event) + "\n" for event in events if event["event"] != "end"]


@dataclass(frozen=True)
class RecordedPasses:
    """The inner passes of a previous run, of each visit to a block and to its working set; and the settings that decide
    which rows these visits had."""

    name: str
    passes: list[int]
    set_passes: list[int]
    fingerprint: str | None
    settings: dict
    blocks: dict

    def check(self, plan) -> None:
        """InputError where a plan's visits have other rows than those of this run."""
        name, source = self.name, plan.source
        if self.fingerprint not in (None, source.fingerprint):
            raise InputError(f"{name}: is of a run on another store than {source.name}; replay it on its own")
        ours = plan.settings.arithmetic()
        for setting in OF_BLOCKS:
            if setting in self.settings and self.settings[setting] != ours[setting]:
                raise InputError(
                    f"{name}: is of a run with {option(setting)} {self.settings[setting]}, not {ours[setting]}; replay "
                    "it with the same"
                )
        now = plan.describe_blocks() | {"blocks": len(plan.blocks.partition.blocks(1))}
        if any(now[key] != value for key, value in self.blocks.items()):
            raise InputError(
                f"{name}: is of a run whose blocks had another size; replay it with the same {option('memory')}"
            )


def replayed_by(checkpoint: dict | None) -> tuple[list[int], list[int]] | None:
    """The passes that the run of a checkpoint repeats, by its description; None where it repeats none."""
    if checkpoint is None or checkpoint["replay"] is None:
        return None
    return checkpoint["replay"], checkpoint.get("set_replay") or []


def load_replay(path: Path) -> RecordedPasses:
    """The passes to repeat, from a trace, a model or a checkpoint; InputError where the file names no passes."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; {option('replay')} names a trace, a model or a checkpoint")
    with open_input(path) as file:
        is_hdf5 = file.read(8) == b"\x89HDF\r\n\x1a\n"
    if is_hdf5:
        meta = open_state(path).meta
        chosen = meta.get("progress", meta)
        passes, set_passes = chosen.get("passes"), chosen.get("set_passes", [])
        blocks = dict(meta.get("partition") or {})
        fingerprint, settings = meta.get("fingerprint"), meta["settings"]
    else:
        events = read_trace(path)
        # an end names all visits, also those of an iteration that a limit cut short
        chosen_events = [event for event in events if event["event"] == "end"][-1:]
        chosen_events = chosen_events or [event for event in events if event["event"] == "outer"]
        passes, set_passes = _joined(chosen_events, "passes"), _joined(chosen_events, "set_passes")
        start = next((event for event in events if event["event"] in ("start", "resume")), {})
        blocks = {key: start[key] for key in SIZES if key in start}
        fingerprint, settings = start.get("fingerprint"), start
    settings = {"working_set": "none"} | settings  # older runs had none
    if not passes or not all(isinstance(number, int) for number in [*passes, *set_passes]):
        raise InputError(
            f"{path}: has no passes to repeat; {option('replay')} accepts a trace, a model or a checkpoint"
        )
    return RecordedPasses(str(path), passes, set_passes, fingerprint, settings, blocks)


def _joined(events: list[dict], name: str) -> list:
    return [number for event in events if isinstance(event.get(name), list) for number in event[name]]
