"""One training run as the command makes it: files opened, the trace written, the run resumed or replayed, the model
saved."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from blocksvm import kernels
from blocksvm.api import save_result
from blocksvm.cli.display import TrainDisplay, train_summary
from blocksvm.cli.log import JsonLines
from blocksvm.cli.options import learner_settings
from blocksvm.errors import InputError
from blocksvm.learners.solver import OnlineSettings
from blocksvm.model.files import describe_checkpoint, saved_state
from blocksvm.sources.store.reader import Store
from blocksvm.training.checkpoint import check_resume
from blocksvm.training.methods import NAMES, is_online
from blocksvm.training.progress import Result
from blocksvm.training.settings import TrainSettings
from blocksvm.training.training import Trainer

TRACED = ("start", "resume", "progress", "outer", "end")


class Trace:
    """TRACE.jsonl: one JSON object a line.  Resuming keeps what lies before the checkpoint and appends to it."""

    def __init__(self, path: Path, resumed_outer: int | None):
        kept: list[str] = []
        if resumed_outer is not None and path.exists():
            kept = _before(path, resumed_outer)
        if kept or not path.exists() or resumed_outer is None:
            # replaced whole: a kill in between loses nothing
            partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
            partial.write_text("".join(kept), encoding="utf-8")
            os.replace(partial, path)
        self.lines = JsonLines(path, open(path, "a", encoding="utf-8"))  # noqa: SIM115 (closed by the session)

    def write(self, event: dict) -> None:
        if event["event"] in TRACED:
            self.lines.write(event)

    def close(self) -> None:
        self.lines.close()


def read_trace(path: Path, cut_short: bool = False) -> list[dict]:
    """The events of a trace; InputError where a line is not one.  cut_short: a last line without its end is left out,
    as a run that was killed may leave it."""
    events = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            if cut_short and not line.endswith(b"\n"):
                break
            try:
                event = json.loads(line)
                event["event"]
            except (ValueError, TypeError, KeyError):
                raise InputError(f"{path}:{number}: is not a line of a trace; name a file written by --log") from None
            events.append(event)
    return events


def _before(path: Path, outer: int) -> list[str]:
    """Lines of a trace that a run resumed in this outer iteration has behind it."""
    kept = [
        e for e in read_trace(path, cut_short=True) if e["event"] in ("start", "resume") or e.get("outer", 0) < outer
    ]
    return [json.dumps(event) + "\n" for event in kept if event["event"] != "end"]


def replayed_passes(path: Path) -> list[int]:
    """Inner passes of each visit of an earlier run, from its trace, its model or its checkpoint."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; --replay names a trace, a model or a checkpoint")
    with open(path, "rb") as file:
        is_hdf5 = file.read(8) == b"\x89HDF\r\n\x1a\n"
    if is_hdf5:
        saved, _ = saved_state(path)
        return saved.get("progress", saved)["passes"]
    events = read_trace(path)
    # an end names all visits, also those of an iteration that a limit cut short
    outers = [event.get("passes") for event in events if event["event"] == "end"][-1:]
    outers = outers or [event.get("passes") for event in events if event["event"] == "outer"]
    passes = [number for outer in outers if isinstance(outer, list) for number in outer]
    if not passes or not all(isinstance(number, int) for number in passes):
        raise InputError(f"{path}: names no passes; --replay takes a trace, a model or a checkpoint of an earlier run")
    return passes


class Session:
    """A run from the parsed options of ``python -m blocksvm.train``."""

    def __init__(self, options, outputs: dict[str, Path], class_weight, stop):
        self.options = options
        self.outputs = outputs
        self.stop = stop
        online = is_online(options.solver) if options.solver in NAMES else False
        learner = learner_settings(options)
        if not online:  # loss, C and lambda are the batch problem's own
            learner = replace(learner, loss=None, C=None, lam=None)
        self.settings = TrainSettings(
            solver=options.solver,
            loss="hinge" if online or options.loss is None else options.loss,
            C=1.0 if online or options.C is None else options.C,
            lam=None if online else options.lam,
            online=OnlineSettings(learner, options.average, options.multiclass, options.query),
            bias=options.bias,
            class_weight=class_weight,
            batch=options.batch,
            schedule=options.schedule,
            partition=options.partition,
            block_chunks=options.block_chunks,
            order=options.order,
            memory=options.memory,
            seed=options.seed,
            tol=options.tol,
            max_outer=options.max_outer,
            max_seconds=options.max_seconds,
        )
        self.end: dict = {}

    def last_gap(self) -> float | None:
        return self.end.get("rel_gap")

    def run(self) -> tuple[Result, list[str]]:
        options = self.options
        checkpoint = self.outputs.get("checkpoint")
        kernels.start()
        began = time.perf_counter()  # seconds count from the opening of the store
        with ExitStack() as stack:
            source = stack.enter_context(Store(options.store))
            valid = stack.enter_context(Store(options.valid)) if options.valid else None
            resume = self._resume(source, checkpoint)
            replay = replayed_passes(Path(options.replay)) if options.replay else resume and resume.get("replay")
            display = TrainDisplay(sys.stderr, options.quiet)
            writers = [display.show]
            trainer = Trainer(
                source,
                self.settings,
                on_event=lambda event: [write(event) for write in writers],
                stop=self.stop,
                valid=valid,
                checkpoint=checkpoint,
                checkpoint_seconds=options.checkpoint_seconds,
                resume=resume,
                replay=replay,
                warm_start=Path(options.warm_start) if options.warm_start else None,
                continue_from=Path(options.continue_from) if options.continue_from else None,
                prior=Path(options.prior) if options.prior else None,
                began=began,
            )
            if "log" in self.outputs:
                writers.append(self._open_trace(stack, resume))
            writers.append(self._remember)
            with display:
                result = trainer.run()
            lines = train_summary(result)
            if result.status != "interrupted":
                save_result(self.outputs["model"], source, trainer, result)
                size = os.path.getsize(self.outputs["model"]) / 1e6
                lines.append(f"model written to {self.outputs['model']} ({size:.1f} MB)")
        return result, lines

    def _open_trace(self, stack: ExitStack, resume: dict | None):
        """A writer of events that opens the trace at the first one, when all that was given has been found right."""
        opened: list[Trace] = []

        def write(event: dict) -> None:
            if not opened:
                opened.append(Trace(self.outputs["log"], resume and resume["progress"]["position"]["outer"]))
                stack.callback(opened[0].close)
            opened[0].write(event)

        return write

    def _remember(self, event: dict) -> None:
        if event["event"] == "end":
            self.end = event

    def _resume(self, source: Store, checkpoint: Path | None) -> dict | None:
        """The description of the checkpoint to go on from, if there is one."""
        if not self.options.resume:
            return None
        if not checkpoint.exists():
            print(f"{checkpoint}: no checkpoint yet; starting afresh", file=sys.stderr)
            return None
        saved = describe_checkpoint(checkpoint)
        check_resume(saved, self.settings, source, checkpoint)
        return saved
