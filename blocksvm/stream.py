"""blocksvm stream: one pass over text, each row predicted, then learned from, then gone."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from textwrap import fill

from blocksvm.base.errors import InputError
from blocksvm.base.settings import Settings
from blocksvm.base.user_code import names_of
from blocksvm.cli.console import Interrupted, Known, Parser, catch_signals, run, seed, size
from blocksvm.cli.json_output import add_json, emit_json
from blocksvm.cli.options import (
    SOLVER_WORDS,
    add_choices,
    add_format,
    add_settings,
    add_threads,
    chosen_in,
    chosen_values,
    described,
    files_named,
    n_threads,
    refusal,
    value_of,
)
from blocksvm.cli.outputs import outputs_of, print_next, print_results
from blocksvm.cli.standard import is_closed
from blocksvm.files.paths import location
from blocksvm.online import LEARNERS

DEFAULT = "auto"
ONE_ROW = ("label", "score", "length", "final")  # of a report, what is about the row seen last
EPILOG = """examples:
  blocksvm stream train.svm --model model.h5
  blocksvm stream train.svm --learner pa1,arow,nag -C 0.1
  blocksvm stream new.svm --from model.h5 --test --predictions p.txt
  zcat clicks.gz | blocksvm stream - --bits 24 --skip-bad --model model.h5
"""


def parser(learner: str, settings: Settings, format_name: str | None = None) -> Parser:
    """The options of a stream to this learner, which takes ``settings`` of its own."""
    names = fill(f"learners: {', '.join(LEARNERS)}", 80, break_on_hyphens=False)
    p = Parser(
        "stream", "Learn from text (plain, compressed, or - for standard input) in one pass.",
        f"{names}\n(--help-learner NAME shows the settings of one)\n\n{EPILOG}",
    )  # fmt: skip
    p.refusal = refusal(learner, settings)
    p.add_argument("inputs", nargs="*", metavar="INPUT", help="text, one file or several (default: standard input)")
    method = p.add_argument_group("the learner")
    method.add_argument("--learner", "--solver", dest="learner", metavar="NAME", choices=Known(LEARNERS),
                        help="a learner of the list below (default auto), or several, as pa1,arow")  # fmt: skip
    method.add_argument(
        "--help-learner", metavar="NAME", choices=Known(LEARNERS), help="show the settings of a learner, and exit"
    )
    method.add_argument(
        "--bias", type=float, metavar="B", help="append a constant feature of value B (default 0: none)"
    )
    method.add_argument("--seed", type=seed, default=0, help="seed of --query (default 0)")
    add_settings(p, f"settings of {learner or 'the learner'}", settings)
    rows = p.add_argument_group("the rows")
    add_format(rows)
    rows.add_argument("--labels", metavar="NEG,POS", help="all labels that may occur (default: -1 and 1, or 0 and 1)")
    rows.add_argument("--bits", type=int, metavar="B", help="hash feature ids to 2^B (default: a table that grows)")
    rows.add_argument("--normalize", choices=("none", "l2"), help="l2: scale each row to norm 1 (default none)")
    rows.add_argument(
        "--duplicates",
        choices=("error", "sum"),
        help="a feature id that occurs twice in a row: an error (default), or sum the values",
    )
    rows.add_argument("--skip-bad", action="store_true", help="skip malformed lines; they are counted and shown")
    rows.add_argument("--passes", type=int, default=1, metavar="N", help="passes over the inputs (default 1)")
    add_choices(p, format_name)
    what = p.add_argument_group("predictions")
    what.add_argument("--predictions", metavar="FILE",
                      help="write what each row was predicted as before learning from it (or -)")  # fmt: skip
    what.add_argument("--scores", action="store_true", help="write decision values instead of labels, one a class")
    what.add_argument("--ask", metavar="FILE",
                      help="with --query: write the rows without a label that it asks for, as FILE:LINE")  # fmt: skip
    what.add_argument("--test", action="store_true", help="predict with --from MODEL.h5, and learn nothing")
    more = p.add_argument_group("starting, watching, saving")
    more.add_argument("--prior", metavar="MODEL.h5", help="start from this model and regularise towards it")
    more.add_argument("--from", dest="start_from", metavar="MODEL.h5", help="continue the learner of this model where "
                      "it stopped, with the model's settings, those of the rows among them")  # fmt: skip
    more.add_argument("--model", metavar="MODEL.h5", help="the model to write at the end, and on Ctrl-C")
    more.add_argument("--save-every", type=int, metavar="ROWS", help="also write the model after every ROWS rows")
    more.add_argument("--log", metavar="TRACE.jsonl", help="write a JSON line for each line of progress")
    add_json(more, "the result of the stream")
    more.add_argument("--overwrite", action="store_true", help="replace existing outputs")
    machine = p.add_argument_group("the machine")
    machine.add_argument("--memory", type=size, default=size("1GB"), help="memory to use, e.g. 512MB (default 1GB)")
    add_threads(machine, "all processors but one")
    return p


def learner_of(arguments: list[str]) -> tuple[str, Settings, str | None]:
    """(name, settings, kind of targets) of the learner that arguments name, or that the model which they continue was
    learned by; of several learners the names with commas between them, and the settings of all."""
    from blocksvm.online.learner import COMMON_SETTINGS

    name = value_of(arguments, *SOLVER_WORDS)
    continued = value_of(arguments, "--from")
    targets, loss = value_of(arguments, "--targets"), value_of(arguments, "--loss")
    if name is None and continued is not None:
        from blocksvm.model.model_file import describe_model

        method = describe_model(continued).method
        name, targets, loss = method.name, method.settings.get("targets"), method.loss
    if name is None and {"-h", "--help"} & set(arguments):
        return "", COMMON_SETTINGS, None
    name = DEFAULT if name is None else name
    declared = Settings()
    for one in name.split(","):
        with names_of(continued) if continued is not None else nullcontext():
            more = settings_named(one, targets, loss)
        declared += more.without(*declared.names())
    return name, declared + COMMON_SETTINGS, targets


def settings_named(name: str, targets: str | None, loss: str | None) -> Settings:
    """A learner's own settings, and those of its loss."""
    return learner_named(name).of_targets(targets).settings_of({"loss": loss})


def learner_named(name: str):
    from blocksvm.online import get_learner
    from blocksvm.online.exact import EXACT
    from blocksvm.online.methods import SOLVERS, get_method

    if name in EXACT:
        raise InputError(
            f"{name}: needs all rows in memory, so it cannot learn from a stream; use it with train or regret"
        )
    if name in SOLVERS and name not in LEARNERS and get_method(name).capabilities.predicts_first:
        raise InputError(f"{name}: learns from a store only; use it with train, or choose one of {', '.join(LEARNERS)}")
    return get_learner(name)


def main(arguments: list[str]) -> int:
    if (name := value_of(arguments, "--help-learner")) is not None:
        print(help_text(name))
        return 0
    learner, declared, _ = learner_of(arguments)
    options = parser(learner, declared, value_of(arguments, "--format")).parse_args(arguments)
    inputs = files_named(options.inputs, options.quiet) or ["-"]
    check_options(options, declared)
    outputs = checked_outputs(options, inputs)
    check_inputs(inputs)
    stop = catch_signals()
    from functools import partial

    from blocksvm.cli.display.streaming import StreamDisplay
    from blocksvm.streaming.stream_outputs import stream_outputs
    from blocksvm.streaming.stream_pass import StreamPass

    settings = stream_settings(options, declared)
    display = StreamDisplay(sys.stderr, options.quiet)
    warn = partial(print, file=sys.stderr, flush=True)
    with stream_outputs(outputs, options.overwrite, warn) as files:
        if options.predictions:  # whoever reads a pipe gets them as rows come
            files.write_predictions(partial(print, end="", flush=True), options.scores)

        def report(figures) -> None:
            display.show(figures)
            files.report(figures)

        stream = StreamPass(
            settings, prior=path_of(options.prior), start_from=path_of(options.start_from), on_report=report,
            on_fault=display.fault, on_save=files.saver and files.saver.save, stop=stop,
            on_predicted=files.predictions and files.predictions.add, on_query=files.ask if options.ask else None,
        )  # fmt: skip
        files.begin(stream)
        display.begin(inputs, settings, stream)
        done = stream.run(inputs)
        files.end(stream)
        if not done:  # within the block: predictions that were broken off get no name
            saved = f"; model saved in {options.model}" if options.model and stream.rows else "; nothing was saved"
            raise Interrupted(f"interrupted after {stream.rows:,} rows{saved}")
    show_end(options, inputs, outputs, stream, display, files)
    return 0


def help_text(name: str) -> str:
    """The text of ``--help-learner``."""
    from blocksvm.online.learner import COMMON_SETTINGS

    learner = learner_named(name)
    example = f"example: blocksvm stream rows.svm --learner {learner.example}"
    summary = f"{learner.summary} ({learner.source})"
    return described(name, summary, learner.settings + COMMON_SETTINGS, ("", example))


def check_options(options, settings: Settings) -> None:
    """InputError where an option is out of range or lacks another one that it needs."""
    if options.save_every is not None and options.save_every < 1:
        raise InputError(f"--save-every {options.save_every}: must be 1 or more")
    if options.save_every and not options.model:
        raise InputError("--save-every needs --model MODEL.h5, the file to write")
    if options.ask and chosen_values(options, settings).get("query") is None:
        raise InputError("--ask needs --query B, which says how likely labels are asked for")
    if options.scores and not options.predictions:
        raise InputError("--scores needs --predictions FILE, where they are written")
    if options.test and options.model:
        raise InputError("--test learns nothing, so there is no model to write; leave --model out")


def path_of(name: str | None):
    return None if name is None else location(name)


def checked_outputs(options, inputs: list[str]) -> dict:
    """The paths of the outputs, by kind; InputError where one cannot be written, before anything is computed."""
    if options.predictions == "-" and options.json == "-":
        raise InputError("--json goes to standard output, where the predictions go; name a file for these")
    if options.predictions == "-" and is_closed(sys.stdout):
        raise InputError("standard output is closed; name a file for --predictions")
    named = {"model": options.model, "log": options.log, "predictions": options.predictions, "questions": options.ask}
    return outputs_of(options, [*inputs, options.prior], named)


def check_inputs(inputs: list[str]) -> None:
    """InputError where there is no such file."""
    for name in inputs:
        if name != "-" and not location(name).exists():
            raise InputError(f"{name}: no such file")


def stream_settings(options, declared: Settings):
    """The settings of the stream; own: those that the learner takes."""
    from blocksvm.formats import AUTO
    from blocksvm.online.learner import COMMON_SETTINGS
    from blocksvm.streaming.stream_pass import StreamSettings

    values = chosen_values(options, declared)
    shared = {name: values.pop(name) for name in COMMON_SETTINGS.names() if name in values}
    return StreamSettings(
        learner=options.learner or ("" if options.start_from else DEFAULT), settings=values,
        labels=options.labels, bits=options.bits, bias=options.bias, skip_bad=options.skip_bad,
        save_every=options.save_every, memory=options.memory,
        n_jobs=n_threads(options.threads, spared=1),  # beside the threads that read and that learn
        seed=options.seed, normalize=options.normalize, duplicates=options.duplicates,
        format=options.format or AUTO, options=chosen_in(options), passes=options.passes, test=options.test, **shared,
    )  # fmt: skip


def show_end(options, inputs: list[str], outputs: dict, stream, display, files) -> None:
    """Print how the stream ended, or write it as ``--json`` says."""
    from blocksvm.streaming.stream_pass import notes_of

    if options.json:
        ended = {name: value for name, value in vars(stream.report()).items() if name not in ONE_ROW}
        written = {kind: str(path) for kind, path in outputs.items()}
        if emit_json(options, ended | {"notes": notes_of(stream)} | written):
            return
    lines = display.summary(stream) + [f"note: {note}" for note in notes_of(stream)]
    if options.ask:
        lines.append(f"{files.n_questions:,} labels are asked for in {outputs['questions']}")
    if "predictions" in outputs:
        lines.append(f"{files.predictions.rows:,} predictions in {outputs['predictions']}")
    print_results(options, lines, sys.stderr if options.predictions == "-" else sys.stdout)
    if options.model:
        print_next(options, inputs)


if __name__ == "__main__":
    run(main)
