"""blocksvm cv: choose C by cross-validation, many problems in each reading of a store."""

from __future__ import annotations

import math
import sys

from blocksvm.base.errors import InputError
from blocksvm.base.settings import Settings
from blocksvm.cli.console import Parser, catch_signals, duration, seed, size
from blocksvm.cli.json_output import add_json, emit_json, json_file
from blocksvm.cli.options import add_checkpoint, add_settings, checkpoint_of, given, resumes, value_of
from blocksvm.problems.problem_settings import WITH_CLASSES
from blocksvm.training.run_settings import RUN_SETTINGS

EXAMPLES = """examples:
  blocksvm cv store.h5
  blocksvm cv store.h5 --folds 10 -C 0.01:100:9 --figure cv.png --refit model.h5
  blocksvm cv store.h5 --groups authors.txt     (an author's rows stay together)
"""
OF_PROBLEM = [name for name in WITH_CLASSES.names() if name not in ("C", "lam")]
TYPES = {"memory": size, "seed": seed, "max_seconds": duration}
CHOICES = ("accuracy", "auc", "loss", "rmse")


def parser() -> Parser:
    p = Parser(
        "cv", "Choose C by cross-validation: for each C and fold a model is trained to a\ncertified gap on the "
        "rows outside of the fold, and scored on the rows in it.", EXAMPLES,
    )  # fmt: skip
    p.add_argument("store", metavar="STORE.h5", help="the store, made by blocksvm split")
    what = p.add_argument_group("folds and values of C")
    what.add_argument("--folds", type=int, default=5, metavar="K", help="number of folds (default 5)")
    what.add_argument("-C", metavar="C,C,...|LOW:HIGH:N", help="values of C, or N values from LOW to HIGH by equal "
                      "factors (default 0.01,0.03,0.1,0.3,1,3,10,30)")  # fmt: skip
    what.add_argument(
        "--groups", metavar="FILE", help="file with a line for each row; rows of equal lines go to one fold"
    )
    what.add_argument("--at-once", type=int, default=3, metavar="N",
                      help="values of C trained in one reading, if the memory allows (default 3)")  # fmt: skip
    add_settings(p, "the problem", WITH_CLASSES.without("C", "lam", "multiclass"))
    p.add_argument("--epsilon", metavar="E", help="for regression: largest error that costs nothing (default 0.1)")
    add_settings(p, "the runs", RUN_SETTINGS, None, TYPES)
    add_checkpoint(p.add_argument_group("resuming"), "the state of the run")
    then = p.add_argument_group("what to write")
    then.add_argument(
        "--select", choices=CHOICES, help="measure by which C is chosen (default accuracy; for real targets rmse)"
    )
    then.add_argument("--refit", metavar="MODEL.h5", help="train on all rows with the chosen C, and write the model")
    add_json(then, "all figures")
    then.add_argument("--figure", metavar="FILE.png", help="draw the figures (needs matplotlib)")
    then.add_argument("--overwrite", action="store_true", help="replace existing outputs")
    return p


def values_of(text: str) -> list[float]:
    """Of C: numbers with commas between them, or LOW:HIGH:N, so many from one to the other by equal factors."""
    if ":" not in text:
        return [float(part) for part in text.split(",")]
    low, high, count = text.split(":")
    least, largest, n = float(low), float(high), int(count)
    if not 0.0 < least < largest < math.inf or not 2 <= n <= 1000:
        raise ValueError
    return [least * (largest / least) ** (k / (n - 1)) for k in range(n)]


def path_of(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        return values_of(text)
    except ValueError:
        raise InputError(f"-C {text}: expected numbers with commas between them, such as 0.1,1,10, or LOW:HIGH:N, such "
                         "as 0.01:100:9") from None  # fmt: skip


def parsed(arguments: list[str]):
    """(options, the settings of the loss that they name)."""
    name, of_loss = value_of(arguments, "--loss"), Settings()
    if name is not None:
        from blocksvm.losses import get_loss

        of_loss = get_loss(name).settings
    p = parser()
    if of_loss.names():
        add_settings(p, "the loss", of_loss.without("epsilon"))
    return p.parse_args(arguments), of_loss


def main(arguments: list[str]) -> int:
    options, of_loss = parsed(arguments)
    from pathlib import Path

    from blocksvm.base.outputs.checks import check_outputs
    from blocksvm.base.outputs.writing import written_whole

    path = path_of(options.C)
    kinds = {"model": options.refit, "json": json_file(options), "figure": options.figure}
    outputs = {kind: Path(name) for kind, name in kinds.items() if name}
    checkpoint = checkpoint_of(options)
    check_outputs(outputs, options.overwrite, [Path(options.store), *([checkpoint] if checkpoint else [])])
    if options.figure:
        from blocksvm.base.optional_libraries import require_library

        require_library("matplotlib", "--figure", ", or leave it out")
    settings = {name: getattr(options, name, None) for name in (*OF_PROBLEM, "epsilon", *of_loss.names())}
    settings = {name: value for name, value in settings.items() if value is not None} | given(options, RUN_SETTINGS)
    stop = catch_signals()
    from blocksvm.cli.display.line import Line
    from blocksvm.store.reader import Store
    from blocksvm.validation.cross import PATH, PathCheckpoint, cross_validate

    kept = checkpoint and PathCheckpoint(checkpoint, options.checkpoint_seconds, resumes(options, checkpoint))
    line = Line(sys.stderr, options.quiet)
    with Store(options.store) as store:
        if not options.quiet:
            print(f"{options.store}: {store.n_samples:,} rows, {store.n_features:,} features, "
                  f"{store.n_nonzeros:,} nonzeros; {options.folds} folds", file=sys.stderr)  # fmt: skip
        found = cross_validate(
            store, path or PATH, options.folds, groups=options.groups, at_once=options.at_once,
            on_event=CvProgress(line).show, stop=stop, checkpoint=kept, **settings,
        )  # fmt: skip
        line.close()
        if found.status == "interrupted":
            saved = f"; how far it was is kept in {checkpoint}, go on with --resume" if checkpoint else ""
            print(f"interrupted; no results were written{saved}", file=sys.stderr)
            return 130
        best = found.best(options.select)
        told = found.described() | {"store": options.store, "best": found.path[best]}
        if not emit_json(options, told):
            print("\n".join(shown(found, best)))
        if "figure" in outputs:
            from blocksvm.validation.validation_figure import draw

            with written_whole(outputs["figure"], options.overwrite) as file:
                draw(found, file)
        if "model" in outputs:
            from blocksvm.api.fit import fit

            fitted = fit(store, C=found.path[best], stop=stop, **settings)
            if fitted.status == "interrupted":
                print("interrupted; no model was written", file=sys.stderr)
                return 130
            fitted.save(outputs["model"], options.overwrite)
    for output in outputs.values():
        print(f"written to {output}", file=sys.stderr if options.json == "-" else sys.stdout)
    return 0


class CvProgress:
    """The line of progress, with the time left once a part of the path is done."""

    def __init__(self, line):
        from time import perf_counter

        self.line = line
        self.part = ""
        self.now = perf_counter
        self.began: tuple[float, int] | None = None  # when, and how much of the path was done then
        self.end: float | None = None

    def show(self, event: dict) -> None:
        from blocksvm.cli.display.number_texts import clock

        if event["event"] == "part":
            low, high = event["path"][0], event["path"][-1]
            self.part = f"C {low:g}" if low == high else f"C {low:g} to {high:g}"
            self.part += f" ({event['done'] + len(event['path'])} of {event['of']})"
            now, done = self.now(), event["done"]
            self.began = self.began or (now, done)
            if done > self.began[1]:
                self.end = now + (now - self.began[0]) / (done - self.began[1]) * (event["of"] - done)
        elif event["event"] == "outer":
            gap = event["rel_gap"] if event["rel_gap"] is not None else event["gap_estimate"]
            reached = f", gap {gap:.1e}" if gap is not None else ""
            left = "" if self.end is None else f", {clock(max(0.0, self.end - self.now()))} left"
            self.line.show(f"{self.part}: iteration {event['outer']}{reached}, {event['classes_done']} done{left}")


def shown(found, best: int) -> list[str]:
    """The figures as lines for a person: mean over the folds and their standard deviation, the largest gap."""
    import math

    import numpy as np

    from blocksvm.cli.display.number_texts import fitted

    names = ["rmse", "loss"] if found.real else ["accuracy", "loss"]
    names += ["auc"] if not np.isnan(found.auc).all() else []
    rows = [["C", *(part for name in names for part in (name, "+-")), "gap", ""]]
    for number, C in enumerate(found.path):
        cells = []
        for name in names:
            values = getattr(found, name)[number]
            spread = float(np.std(values, ddof=1)) if found.folds > 1 else math.nan
            cells += [fitted(found.mean(name)[number], 8, places=5), fitted(spread, 8, places=5)]
        marks = "best" if number == best else ""
        rows.append([f"{C:g}", *cells, f"{found.rel_gap[number].max():.1e}", marks])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    problems = len(found.path) * found.folds
    lines.append(f"{problems} problems in {found.seconds:.1f}s and {found.readings:.0f} readings of the rows")
    return lines
