"""python -m blocksvm.stream: one pass over text, each row predicted, then learned from, then gone."""

from __future__ import annotations

import sys

from blocksvm.cli.console import (
    Interrupted,
    Parser,
    catch_signals,
    compile_kernels,
    compile_learner,
    compile_reader,
    run,
    seed,
    size,
)
from blocksvm.cli.options import add_format, add_learner_options, learner_settings
from blocksvm.errors import InputError

EPILOG = """examples:
  python -m blocksvm.stream train.svm --learner pa1 -C 0.1 --model model.h5
  zcat clicks.gz | python -m blocksvm.stream - --learner adagrad-rda --l1 1e-6 --bits 24 --skip-bad --model model.h5
"""


def parser() -> Parser:
    p = Parser("stream", "Learn from text (plain, compressed, or - for standard input) in one pass.", EPILOG)
    p.add_argument("inputs", nargs="*", metavar="INPUT", help="text (default: standard input)")
    add_format(p)
    p.add_argument("--learner", required=True, metavar="NAME", help="pa1, arow, fobos, ... (train --help lists them)")
    p.add_argument("--labels", metavar="NEG,POS", help="the labels, two or more (default: -1 and 1, or 0 and 1)")
    p.add_argument("--bits", type=int, metavar="B", help="hash ids to 2^B features (default: a table that grows)")
    p.add_argument("--query", type=float, metavar="B", help="ask for a label with probability B / (B + |margin|)")
    p.add_argument("--average", action="store_true", help="the model is the mean of the weights after each row")
    p.add_argument("--multiclass", metavar="RULE", help="more than two labels: prototype (default) or rest")
    p.add_argument("--bias", type=float, default=0.0, metavar="B", help="append a constant feature of value B")
    p.add_argument("--normalize", choices=("none", "l2"), default="none", help="l2: scale each row to norm 1")
    p.add_argument("--duplicates", choices=("error", "sum"), default="error", help="an id that occurs twice in a row")
    add_learner_options(p)
    p.add_argument("--prior", metavar="MODEL.h5", help="a model to start from and to be regularised towards")
    p.add_argument("--continue-from", metavar="MODEL.h5", help="go on where the learner of a model stopped")
    p.add_argument("--skip-bad", action="store_true", help="count, show and skip malformed lines")
    p.add_argument("--model", metavar="MODEL.h5", help="the model to write at the end, and on Ctrl-C")
    p.add_argument("--save-every", type=int, metavar="ROWS", help="write it after every so many rows, too")
    p.add_argument("--log", metavar="TRACE.jsonl", help="write a JSON line for each line of progress")
    p.add_argument("--memory", type=size, default=size("1GB"), help="memory to use, e.g. 512MB (default 1GB)")
    p.add_argument("--jobs", type=int, help="threads that parse (default: one less than there are processors)")
    p.add_argument("--seed", type=seed, default=0, help="seed of selective sampling (default 0)")
    p.add_argument("--overwrite", action="store_true", help="replace existing outputs")
    return p


def labels_of(text: str | None) -> tuple[float, ...] | None:
    """Rising numbers of 'NEG,POS'."""
    if text is None:
        return None
    try:
        return tuple(sorted(float(part) for part in text.split(",")))
    except ValueError:
        raise InputError(f"--labels {text}: expected numbers such as 1,2") from None


def known_labels(options) -> tuple[float, ...]:
    """The labels as far as they are known before the first row."""
    from blocksvm.model.files import describe_model

    given = labels_of(options.labels)
    for path in (options.continue_from, options.prior):
        if given is None and path is not None:
            given = tuple(describe_model(path)["labels"])
    return given or (-1.0, 1.0)


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    import os
    from contextlib import ExitStack
    from pathlib import Path

    from blocksvm.sources.store.files import check_output

    inputs = options.inputs or ["-"]
    # beside the threads that read and that learn
    jobs = options.jobs if options.jobs is not None else max(1, len(os.sched_getaffinity(0)) - 1)
    for name, value in (("--jobs", jobs), ("--save-every", options.save_every)):
        if value is not None and value < 1:
            raise InputError(f"{name} {value}: must be 1 or more")
    if options.save_every and not options.model:
        raise InputError("--save-every needs --model MODEL.h5, the file to write")
    read_from = {Path(name).resolve() for name in (*inputs, options.prior) if name and name != "-"}
    outputs = {name: Path(path) for name, path in (("model", options.model), ("log", options.log)) if path}
    for path in outputs.values():
        check_output(path, options.overwrite)
        if path.resolve() in read_from or list(outputs.values()).count(path) > 1:
            raise InputError(f"{path}: is given twice; choose another name for the output")
    for name in inputs:
        if name != "-" and not os.path.exists(name):
            raise InputError(f"{name}: no such file")
    stop = catch_signals()
    compile_kernels("split", "float32", options.quiet)
    compile_learner(options, "float64", len(known_labels(options)))
    from blocksvm import kernels
    from blocksvm.cli.display import StreamDisplay
    from blocksvm.cli.log import JsonLines
    from blocksvm.formats import AUTO
    from blocksvm.streaming.saving import Saver, save_stream
    from blocksvm.streaming.stream import Stream, StreamSettings

    kernels.start()
    settings = StreamSettings(
        learner=options.learner, settings=learner_settings(options), labels=labels_of(options.labels),
        bits=options.bits, query=options.query, average=options.average, multiclass=options.multiclass,
        bias=options.bias, skip_bad=options.skip_bad, save_every=options.save_every, memory=options.memory, jobs=jobs,
        seed=options.seed, normalize=options.normalize, sum_duplicates=options.duplicates == "sum",
        format=options.format or AUTO,
    )  # fmt: skip
    display = StreamDisplay(sys.stderr, options.quiet)
    with ExitStack() as stack:
        log = None

        def write(event: dict) -> None:
            if log is not None:
                log.write(event)

        def report(told) -> None:
            display.show(told)
            write({"event": "end" if told.final else "progress", **vars(told)})

        saver = stack.enter_context(Saver(outputs["model"])) if "model" in outputs else None
        stream = Stream(
            settings, prior=None if options.prior is None else Path(options.prior), on_report=report,
            continue_from=None if options.continue_from is None else Path(options.continue_from),
            on_fault=display.fault, save=None if saver is None else saver.save, stop=stop,
            on_format=compile_reader("float32", options.bits, options.quiet),
        )  # fmt: skip
        if "log" in outputs:
            log = JsonLines(outputs["log"], open(outputs["log"], "w", encoding="utf-8"))  # noqa: SIM115 (by its close)
            stack.callback(log.close)
        write({"event": "start", "learner": options.learner, **stream.machine.settings, "memory_plan": stream.plan()})
        display.begin(inputs, settings, stream)
        done = stream.run(inputs)
        if saver is not None and stream.rows:
            saver.wait()
            save_stream(outputs["model"], stream)
    if not done:
        saved = f"; model saved in {options.model}" if options.model and stream.rows else "; nothing was saved"
        raise Interrupted(f"interrupted after {stream.rows:,} rows{saved}")
    for line in display.summary(stream):
        print(line)
    if options.model and not options.quiet:
        print(f"next: python -m blocksvm.predict {options.model} NEW.svm", file=sys.stderr)
    return 0


if __name__ == "__main__":
    run(main)
