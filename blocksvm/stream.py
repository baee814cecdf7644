"""python -m blocksvm.stream: one pass over text, each row predicted, then learned from, then gone."""

from __future__ import annotations

import sys
from contextlib import nullcontext

from blocksvm.cli.console import (
    Interrupted,
    Known,
    Parser,
    catch_signals,
    run,
    seed,
    size,
)
from blocksvm.cli.json_output import add_json, json_file, told_as_json
from blocksvm.cli.options import (
    SOLVER_WORDS,
    add_choices,
    add_format,
    add_settings,
    chosen_in,
    described,
    files_named,
    given,
    refusal,
    value_of,
)
from blocksvm.cli.standard import is_closed
from blocksvm.errors import InputError
from blocksvm.learners import LEARNERS
from blocksvm.named import names_of
from blocksvm.processors import n_processors
from blocksvm.settings import Settings

DEFAULT = "auto"
ONE_ROW = ("label", "score", "length", "final")  # of a report, what is about the row seen last
EPILOG = """examples:
  python -m blocksvm.stream train.svm --model model.h5
  python -m blocksvm.stream train.svm --learner pa1,arow,nag -C 0.1
  python -m blocksvm.stream new.svm --continue-from model.h5 --test --predictions predicted.txt
  zcat clicks.gz | python -m blocksvm.stream - --learner adagrad-rda --l1 1e-6 --bits 24 --skip-bad --model model.h5
"""


def parser(learner: str, settings: Settings) -> Parser:
    """The options of a stream to this learner, which takes ``settings`` of its own."""
    p = Parser(
        "stream", "Learn from text (plain, compressed, or - for standard input) in one pass.",
        f"learners: {', '.join(LEARNERS)}\n(--help-learner NAME tells their settings)\n\n{EPILOG}",
    )  # fmt: skip
    p.refusal = refusal(learner, settings)
    p.add_argument("inputs", nargs="*", metavar="INPUT", help="text (default: standard input)")
    method = p.add_argument_group("the learner")
    method.add_argument("--learner", "--solver", dest="learner", metavar="NAME", choices=Known(LEARNERS),
                        help="pa1, arow, ... (below; default auto), or several side by side: pa1,arow")  # fmt: skip
    method.add_argument(
        "--help-learner", metavar="NAME", choices=Known(LEARNERS), help="tell the settings of a learner, and exit"
    )
    method.add_argument(
        "--bias", type=float, metavar="B", help="append a constant feature of value B (default 0: none)"
    )
    method.add_argument("--seed", type=seed, default=0, help="seed of selective sampling (default 0)")
    add_settings(p, f"settings of {learner or 'the learner'}", settings)
    rows = p.add_argument_group("the rows")
    add_format(rows)
    rows.add_argument("--labels", metavar="NEG,POS", help="the labels, two or more (default: -1 and 1, or 0 and 1)")
    rows.add_argument("--bits", type=int, metavar="B", help="hash ids to 2^B features (default: a table that grows)")
    rows.add_argument("--normalize", choices=("none", "l2"), default="none", help="l2: scale each row to norm 1")
    rows.add_argument(
        "--duplicates", choices=("error", "sum"), default="error", help="an id that occurs twice in a row"
    )
    rows.add_argument("--skip-bad", action="store_true", help="count, show and skip malformed lines")
    rows.add_argument("--passes", type=int, default=1, metavar="N", help="over the inputs (default 1)")
    add_choices(p)
    what = p.add_argument_group("what is predicted")
    what.add_argument("--predictions", metavar="FILE",
                      help="write what each row is predicted as, before it is learned from (- to stdout)")  # fmt: skip
    what.add_argument("--scores", action="store_true", help="write decision values in place of labels (one a class)")
    what.add_argument("--ask", metavar="FILE",
                      help="with --query: write which rows without a label it asks for, as FILE:LINE")  # fmt: skip
    what.add_argument("--test", action="store_true", help="learn nothing: only predict, by --continue-from MODEL.h5")
    more = p.add_argument_group("starting, watching, saving")
    more.add_argument("--prior", metavar="MODEL.h5", help="a model to start from and to be regularised towards")
    more.add_argument("--continue-from", metavar="MODEL.h5", help="go on where the learner of a model stopped")
    more.add_argument("--model", metavar="MODEL.h5", help="the model to write at the end, and on Ctrl-C")
    more.add_argument("--save-every", type=int, metavar="ROWS", help="write it after every so many rows, too")
    more.add_argument("--log", metavar="TRACE.jsonl", help="write a JSON line for each line of progress")
    add_json(more, "how the stream ended")
    more.add_argument("--overwrite", action="store_true", help="replace existing outputs")
    machine = p.add_argument_group("the machine")
    machine.add_argument("--memory", type=size, default=size("1GB"), help="memory to use, e.g. 512MB (default 1GB)")
    machine.add_argument("--jobs", type=int, metavar="N", help="threads that parse (default: all processors but one)")
    return p


def labels_given(text: str | None) -> tuple | None:
    """Of 'NEG,POS' the numbers, or if one of them is none the words, rising."""
    if text is None:
        return None
    from blocksvm.labels import label_fault

    parts = [part.strip() for part in text.split(",")]
    try:
        labels = [float(part) for part in parts]
    except ValueError:
        labels = parts
    if not all(parts) or label_fault(labels) is not None or any(label != label for label in labels):
        raise InputError(f"--labels {text}: expected finite numbers such as 1,2, or words such as ham,spam")
    return tuple(sorted(labels))


def known_labels(options) -> tuple:
    """The labels as far as they are known before the first row."""
    from blocksvm.model.files import describe_model

    given = labels_given(options.labels)
    for path in (options.continue_from, options.prior):
        if given is None and path is not None:
            given = tuple(describe_model(path)["labels"])
    return given or (-1.0, 1.0)


def learner_of(arguments: list[str]) -> tuple[str, Settings, str | None]:
    """(name, settings, kind of targets) of the learner that arguments name, or that the model which they continue was
    learned by; of several learners the names with commas between them, and the settings of all."""
    from blocksvm.learners.protocol import COMMON_SETTINGS

    name = value_of(arguments, *SOLVER_WORDS)
    continued = value_of(arguments, "--continue-from")
    targets, loss = value_of(arguments, "--targets"), value_of(arguments, "--loss")
    if name is None and continued is not None:
        from blocksvm.model.files import describe_model

        method = describe_model(continued)["method"]
        name, targets, loss = method["name"], *(method["settings"].get(key) for key in ("targets", "loss"))
    if name is None and {"-h", "--help"} & set(arguments):
        return "", COMMON_SETTINGS, None
    name = DEFAULT if name is None else name
    own = Settings()
    for one in name.split(","):
        with names_of(continued) if continued is not None else nullcontext():
            more = settings_named(one, targets, loss)
        own += more.without(*own.names())
    return name, own + COMMON_SETTINGS, targets


def settings_named(name: str, targets: str | None, loss: str | None) -> Settings:
    """A learner's own settings, and those of its loss."""
    return learner_named(name).of_targets(targets).settings_of({"loss": loss})


def learner_named(name: str):
    from blocksvm.learners import get_learner
    from blocksvm.learners.exact import EXACT
    from blocksvm.learners.methods import SOLVERS, get_method

    if name in EXACT:
        raise InputError(f"{name}: needs all rows in memory, which a stream has not; train and regret know it")
    if name in SOLVERS and name not in LEARNERS and get_method(name).capabilities.predicts_first:
        raise InputError(f"{name}: learns from a store, by train; choose one of {', '.join(LEARNERS)}")
    return get_learner(name)


def main(arguments: list[str]) -> int:
    asked = value_of(arguments, "--help-learner")
    if asked is not None:
        from blocksvm.learners.protocol import COMMON_SETTINGS

        learner = learner_named(asked)
        example = f"example: python -m blocksvm.stream rows.svm --learner {learner.example}"
        print(
            described(asked, f"{learner.summary} ({learner.source})", learner.settings + COMMON_SETTINGS, ("", example))
        )
        return 0
    learner, own, targets = learner_of(arguments)
    options = parser(learner, own).parse_args(arguments)
    import os
    from contextlib import ExitStack
    from functools import partial
    from pathlib import Path

    from blocksvm.outputs import check_output, open_text, written_text

    inputs = files_named(options.inputs, options.quiet) or ["-"]
    # beside the threads that read and that learn
    jobs = options.jobs if options.jobs is not None else max(1, n_processors() - 1)
    for name, value in (("--jobs", jobs), ("--save-every", options.save_every)):
        if value is not None and value < 1:
            raise InputError(f"{name} {value}: must be 1 or more")
    if options.save_every and not options.model:
        raise InputError("--save-every needs --model MODEL.h5, the file to write")
    if options.ask and value_of(arguments, "--query") is None:
        raise InputError("--ask needs --query B, which says how likely labels are asked for")
    if options.scores and not options.predictions:
        raise InputError("--scores needs --predictions FILE, where they are written")
    if options.test and options.model:
        raise InputError("--test learns nothing, so there is no model to write; leave --model out")
    read_from = {Path(name).resolve() for name in (*inputs, options.prior) if name and name != "-"}
    outputs = {name: Path(path) for name, path in (("model", options.model), ("log", options.log)) if path}
    if options.predictions not in (None, "-"):
        outputs["predictions"] = Path(options.predictions)
    elif options.predictions and options.json == "-":
        raise InputError("--json goes to standard output, where the predictions go; name a file for these")
    elif options.predictions and is_closed(sys.stdout):
        raise InputError("standard output is closed; name a file for --predictions")
    if options.ask:
        outputs["questions"] = Path(options.ask)
    if json_file(options):
        outputs["json"] = json_file(options)
    for name, path in outputs.items():
        check_output(path, options.overwrite, "trace" if name == "log" else name, known_labels(options))
        if path.resolve() in read_from or list(outputs.values()).count(path) > 1:
            raise InputError(f"{path}: is given twice; choose another name for the output")
    for name in inputs:
        if name != "-" and not os.path.exists(name):
            raise InputError(f"{name}: no such file")
    settings_given = given(options, own)
    stop = catch_signals()
    from blocksvm.cli.display import StreamDisplay, folded
    from blocksvm.formats import AUTO
    from blocksvm.learners.protocol import COMMON_SETTINGS
    from blocksvm.log import JsonLines
    from blocksvm.settings import plain
    from blocksvm.streaming.predictions import Predictions
    from blocksvm.streaming.saving import Saver, save_stream
    from blocksvm.streaming.stream import Stream, StreamSettings, notes_of

    shared = {setting: settings_given.pop(setting) for setting in COMMON_SETTINGS.names() if setting in settings_given}
    settings = StreamSettings(
        learner=options.learner or ("" if options.continue_from else DEFAULT), settings=settings_given,
        labels=labels_given(options.labels), bits=options.bits,
        bias=options.bias, skip_bad=options.skip_bad, save_every=options.save_every, memory=options.memory, jobs=jobs,
        seed=options.seed, normalize=options.normalize, sum_duplicates=options.duplicates == "sum",
        format=options.format or AUTO, options=chosen_in(options), passes=options.passes, test=options.test, **shared,
    )  # fmt: skip
    display = StreamDisplay(sys.stderr, options.quiet)
    warn = partial(print, file=sys.stderr, flush=True)
    with ExitStack() as stack:
        log = None

        def write(event: dict) -> None:
            if log is not None:
                log.write(event)

        def report(figures) -> None:
            display.show(figures)
            write({"event": "end" if figures.final else "progress", **vars(figures)})

        predictions = None
        if options.predictions:
            put = partial(print, end="", flush=True)  # whoever reads a pipe gets them as rows come
            if "predictions" in outputs:
                put = stack.enter_context(written_text(outputs["predictions"], options.overwrite)).write
            predictions = Predictions(put, options.scores)
        ask, asked = None, 0
        if options.ask:
            questions = stack.enter_context(written_text(outputs["questions"], options.overwrite))

            def ask(place: str) -> None:
                nonlocal asked
                asked += 1
                questions.write(place + "\n")

        saver = stack.enter_context(Saver(outputs["model"], options.overwrite)) if "model" in outputs else None
        stream = Stream(
            settings, prior=None if options.prior is None else Path(options.prior), on_report=report,
            continue_from=None if options.continue_from is None else Path(options.continue_from),
            on_fault=display.fault, save=None if saver is None else saver.save, stop=stop,
            on_predicted=predictions and predictions.add, on_asked=ask,
        )  # fmt: skip
        if predictions:
            predictions.sets = stream.leading.runner.sets and not stream.leading.runner.ranks
        if "log" in outputs:
            log = JsonLines(outputs["log"], open_text(outputs["log"], options.overwrite), warn)
            stack.callback(log.close)
        each = {learner.name: plain(learner.runner.settings) for learner in stream.learners}
        own = {"learners": each} if len(each) > 1 else each[learner]
        write({"event": "start", "learner": learner, **own, "memory_plan": stream.plan()})
        display.begin(inputs, settings, stream)
        done = stream.run(inputs)
        if saver is not None and stream.rows:
            saver.wait()
            save_stream(outputs["model"], stream, saver.replaces)
        if not done:  # within the stack: predictions that were broken off get no name
            saved = f"; model saved in {options.model}" if options.model and stream.rows else "; nothing was saved"
            raise Interrupted(f"interrupted after {stream.rows:,} rows{saved}")
    if options.json:
        ended = {name: value for name, value in vars(stream.report()).items() if name not in ONE_ROW}
        written = {kind: str(path) for kind, path in outputs.items()}
        if told_as_json(options, ended | {"notes": notes_of(stream)} | written):
            return 0
    to = sys.stderr if options.predictions == "-" else sys.stdout
    notes = [f"note: {note}" for note in notes_of(stream)]
    print(folded("\n".join(display.summary(stream) + notes), to), file=to)
    if options.ask:
        print(f"{asked:,} labels are asked for in {outputs['questions']}")
    if predictions and "predictions" in outputs:
        print(f"{predictions.rows:,} predictions in {outputs['predictions']}")
    if options.model and not options.quiet:
        print(f"next: python -m blocksvm.predict {options.model} NEW.svm", file=sys.stderr)
    return 0


if __name__ == "__main__":
    run(main)
