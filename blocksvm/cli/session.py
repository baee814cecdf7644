"""One training run as the command makes it: files opened, the trace written, the run resumed, the model saved."""

import sys
import time
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from blocksvm.base.errors import InputError, option
from blocksvm.base.memory import TooLittleMemory
from blocksvm.base.threads import Threads
from blocksvm.cli.options import cluster_of
from blocksvm.cli.train_table import TrainDisplay, train_summary
from blocksvm.cluster import makers
from blocksvm.files.paths import Location, location, location_given
from blocksvm.model.events import Trace
from blocksvm.model.model_file import describe_model
from blocksvm.model.solver_state import InitialModels, describe_checkpoint
from blocksvm.store.descriptions import CheckpointMeta
from blocksvm.store.reader import Store
from blocksvm.training.checkpoint import Checkpoint, save_result
from blocksvm.training.groups import ClassGroups, is_of_a_group, may_be_grouped, must_be_grouped, rare_labels
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.record import Result, end_event
from blocksvm.training.settings import TrainSettings

ENDS_BESIDES = ("event", "passes", "set_passes", "alpha_factors")  # fields of the event "end" that --json leaves out


class Session:
    """A run from the parsed options of ``blocksvm train``, with the settings that they make."""

    def __init__(self, options, start: tuple[Path | None, Path | None], settings: TrainSettings, outputs: dict, stop):
        self.options, (self.continued, self.begin) = options, start
        self.settings, self.outputs, self.stop = settings, outputs, stop
        self.cluster, self.end = cluster_of(options), {}

    def figures(self) -> dict:
        """The end of the run and the paths of its outputs, for ``--json``."""
        ended = {name: value for name, value in self.end.items() if name not in ENDS_BESIDES}
        return ended | {kind: str(path) for kind, path in self.outputs.items()}

    def run(self) -> tuple[Result, list[str]]:
        options = self.options
        began = time.perf_counter()  # seconds count from the opening of the store
        with ExitStack() as stack:
            source = stack.enter_context(Store(options.store))
            self.cluster, self.make_plan, self.make_loop = makers(self.cluster, source)
            valid = stack.enter_context(Store(options.valid)) if options.valid else None
            checkpoint = self.outputs.get("checkpoint")
            resume = None
            if options.resume and checkpoint.exists():
                resume = describe_checkpoint(checkpoint)
            elif options.resume:
                print(f"{checkpoint}: no checkpoint yet; starting afresh", file=options.stderr)
            may = self.cluster is None and may_be_grouped(source, self.settings)
            if may and (must_be_grouped(source, self.settings) if resume is None else is_of_a_group(resume, source)):
                return self._run_in_groups(source, resume, began)
            try:
                plan = self._plan(source, valid, resume)
            except TooLittleMemory:
                if resume is not None or not may:
                    raise
                return self._run_in_groups(source, None, began)
            if plan.held_out is not None:
                self._note(plan.held_out.note)

            @cache
            def trace() -> Trace:
                """Opened at the first event, when no input can be refused any more."""
                outer = resume and resume.progress["outer"] + (resume.progress.get("phase") in ("told", "at rest"))
                how = partial(print, file=sys.stderr), options.overwrite or options.resume
                return stack.enter_context(closing(Trace(self.outputs["log"], outer, *how)))

            log = (lambda event: trace().write(event)) if "log" in self.outputs else None
            loop, result = self._ran(plan, began, self.begin, log)
            if result.status == "interrupted":
                return result, []
            lines, calibration = train_summary(result), None
            if options.calibrate:
                calibration = self._calibrated(source)
                if calibration is None:
                    return replace(result, status="interrupted"), []
                lines.append(f"probabilities calibrated on rows held out: {calibration['kind']}")
            save_result(
                self.outputs["model"], loop.plan, loop.state, result,
                overwrite=options.overwrite, calibration=calibration, drop_below=options.drop_below,
            )  # fmt: skip
        return result, lines + self._written()

    def _ran(self, plan: Plan, began: float, warm_start=None, log=None) -> tuple[OuterLoop, Result]:
        """The loop of a plan, and what came of it; log(event): besides the display."""
        display, checkpoint = TrainDisplay(self.options.stderr), None
        if "checkpoint" in self.outputs:
            checkpoint = Checkpoint(self.outputs["checkpoint"], self.options.checkpoint_seconds)

        def watched(event: dict) -> None:
            for write in filter(None, (display.show, log)):
                write(event)
            self.end = event if event["event"] == "end" else self.end

        with closing(display):
            loop = self.make_loop(plan, watched, self.stop, checkpoint=checkpoint, warm_start=warm_start, began=began)
            return loop, loop.run()

    def _written(self) -> list[str]:
        path, sparse = self.outputs["model"], describe_model(self.outputs["model"]).sparse
        lines = [f"model written to {path} ({path.stat().st_size / 1e6:.1f} MB)"]
        if sparse is not None and sparse.n_dropped:
            n, size = f"{sparse.n_dropped:,} of {sparse.n_dropped + sparse.n_weights:,}", sparse.drop_below
            lines.insert(0, f"{n} weights are below {size:g} and left out; the gap is that of all of them")
        return lines

    def _run_in_groups(self, source: Store, resume: CheckpointMeta | None, began: float) -> tuple[Result, list[str]]:
        """Groups of classes one after the other, each as a run of its own."""
        options, checkpoint = self.options, self.outputs.get("checkpoint")
        for setting in ("valid", "log", "calibrate", "prior", "start_from"):  # of one run of all classes
            if getattr(options, setting) is not None:
                held = f"is for classes that {option('memory')} holds together"
                raise InputError(f"{option(setting)}: {held}; leave it out, or raise {option('memory')}")
        model = self.outputs["model"]
        beside = model.parent if isinstance(model, Path) else None
        with TemporaryDirectory(dir=beside, prefix=".blocksvm-groups-") as folder:

            def part(g: int) -> Location:
                return location(f"{folder}/{g + 1}.h5" if checkpoint is None else f"{checkpoint}.group-{g + 1}")

            groups = ClassGroups(source, self.settings, part, options.drop_below or 0.0, resume is not None)
            k = len(groups.labels)
            self._note(rare_labels(source))
            while (first := groups.first) < k:
                plan = groups.next_plan(resume)
                plan.share_work(Threads(options.threads))
                print(f"classes {first + 1:,} to {first + plan.solver.n_vectors:,} of {k:,}", file=options.stderr)
                begun = began if plan.resume else time.perf_counter() - groups.seconds
                loop, result = self._ran(plan, begun)
                if result.status == "interrupted":
                    return result, []
                groups.add(plan, loop.state, result)
                plan.source.close()
                del loop, plan, result  # before there is memory for the next group
            result = groups.save(model, options.overwrite)
        self.end |= end_event(result, None)
        groups_of = f"{k:,} classes in {len(groups.parts):,} groups: the gap is the largest of a class"
        return result, [*train_summary(result), groups_of, *self._written()]

    def _note(self, text: str | None) -> None:
        if text:
            print(f"note: {text}", file=self.options.stderr)

    def _plan(self, source: Store, valid: Store | None, resume: CheckpointMeta | None) -> Plan:
        initial_models = InitialModels(source, self.continued, location_given(self.options.prior))
        plan = self.make_plan(source, self.settings, initial_models=initial_models, valid=valid, resume=resume)
        plan.share_work(Threads(self.options.threads))
        self._note(plan.remark())
        if plan.labels is not None:
            self._note(rare_labels(source))
        if self.options.drop_below is not None:
            for capability in ("linear", "minimises"):  # a learner goes on from all that it has learned
                plan.solver.capabilities.require(capability, plan.solver.name, "drop_below")
        return plan

    def _calibrated(self, source: Store) -> dict | None:
        from blocksvm.cli.texts import Line
        from blocksvm.validation.calibration import FOLDS, calibrated

        line, threads = Line(self.options.stderr), Threads(self.options.threads)

        def show(event: dict) -> None:
            if event["event"] == "outer":
                done = f"{event['classes_done']} of {FOLDS} folds done"
                line.show(f"calibrating: outer iteration {event['outer']}, {done}")

        calibration = calibrated(source, self.settings, self.options.calibrate, show, self.stop, threads)
        line.close()
        return calibration
