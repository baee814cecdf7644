"""blocksvm stream: one pass over text, each row predicted, then learned from, then gone."""

import sys
from contextlib import nullcontext
from dataclasses import replace
from textwrap import fill

from blocksvm.base.errors import InputError
from blocksvm.base.memory import MEMORY
from blocksvm.base.settings import SEED, Setting, Settings
from blocksvm.base.user_code import names_of
from blocksvm.cli import options as cli
from blocksvm.cli.console import Interrupted, Parser, catch_signals, is_closed, run, value_of
from blocksvm.cli.outputs import emit_json, outputs_of, print_next, print_results
from blocksvm.conversion import SKIP_BAD
from blocksvm.files.paths import location
from blocksvm.formats import settings_offered
from blocksvm.online import LEARNERS
from blocksvm.store.recipe import RECIPE

DEFAULT = "auto"
# settings of a stream beside those of learners and formats
OF_STREAM = ("labels", "bits", "bias", "skip_bad", "save_every", "memory", "seed", "normalize", "duplicates", "format",
             "passes", "test")  # fmt: skip
ONE_ROW = ("label", "score", "length", "final")  # of a report, what is about the row seen last
LEARNER = Setting("learner", "a learner of the list below (default auto), or several, as pa1,arow", None,
                  cli.name_of_code, tuple(LEARNERS), metavar="NAME", also="--solver")  # fmt: skip
HELP_LEARNER = Setting("help_learner", "show the settings of a learner, such as pa1, and exit", None, cli.name_of_code,
                       tuple(LEARNERS), metavar="NAME")  # fmt: skip
BIAS = Setting("bias", "append a constant feature of value B (default 0: none)", None, metavar="B")
LABELS = Setting("labels", "all labels that may occur (default: -1 and 1, or 0 and 1)", None, str, metavar="NEG,POS")
ROWS = (SKIP_BAD, Setting("passes", "passes over the inputs", 1, int, least=1))
PREDICTIONS = (
    Setting("predictions", "write what each row was predicted as before learning from it (or -)", None, str,
            metavar="FILE"),
    Setting("scores", "write decision values instead of labels, one a class", False, bool),
    Setting("ask", "with --query: write the rows without a label that it asks for, as FILE:LINE", None, str,
            metavar="FILE"),
    Setting("test", "predict with --from MODEL.h5, and learn nothing", False, bool),
)  # fmt: skip
SAVING = (
    Setting("prior", "start from this model and regularise towards it", None, str, metavar="MODEL.h5"),
    Setting("start_from", "continue the learner of this model where it stopped, with the model's settings, those of "
            "the rows among them", None, str, metavar="MODEL.h5"),
    Setting("model", "the model to write at the end, and on Ctrl-C", None, str, metavar="MODEL.h5"),
    Setting("save_every", "also write the model after every ROWS rows", None, int, least=1, metavar="ROWS"),
    Setting("log", "write a JSON line for each line of progress", None, str, metavar="TRACE.jsonl"),
)  # fmt: skip
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
    p.refusal = cli.refusal(learner, settings)
    p.add_argument("inputs", nargs="*", metavar="INPUT", help="text, one file or several (default: standard input)")
    p.add("the learner", LEARNER, HELP_LEARNER, BIAS, replace(SEED, help="seed of --query"))
    p.add(f"settings of {learner or 'the learner'}", *settings, defaults=False)
    of_recipe = [RECIPE[name] for name in ("bits", "normalize", "duplicates")]
    p.add("the rows", cli.FORMAT, LABELS, *of_recipe, defaults=False)
    p.add("the rows", *ROWS)
    p.add("settings of formats", *settings_offered(format_name), defaults=False)
    p.add("predictions", *PREDICTIONS)
    p.add("starting, watching, saving", *SAVING, cli.json_of("the result of the stream"), cli.OVERWRITE)
    threads = replace(cli.THREADS, help=cli.THREADS.help.replace("one a processor", "all processors but one"))
    p.add("the machine", MEMORY, threads)
    return p


def learner_of(arguments: list[str]) -> tuple[str, Settings]:
    """(name, settings) of the learner that arguments name, or that the model which they continue was
    learned by; of several learners the names with commas between them, and the settings of all."""
    from blocksvm.online.learner import COMMON_SETTINGS

    name = value_of(arguments, *cli.SOLVER_WORDS)
    continued = value_of(arguments, "--from")
    targets, loss = value_of(arguments, "--targets"), value_of(arguments, "--loss")
    if name is None and continued is not None:
        from blocksvm.model.model_file import describe_model

        method = describe_model(continued).method
        name, targets, loss = method.name, method.settings.get("targets"), method.loss
    if name is None and {"-h", "--help"} & set(arguments):
        return "", COMMON_SETTINGS
    name = DEFAULT if name is None else name
    declared = Settings()
    for one in name.split(","):
        with names_of(continued) if continued is not None else nullcontext():
            more = learner_named(one).of_targets(targets).settings_of({"loss": loss})
        declared += more.without(*declared.names())
    return name, declared + COMMON_SETTINGS


def learner_named(name: str):
    from blocksvm.online import get_learner
    from blocksvm.online.methods import SOLVERS, get_method

    if name in SOLVERS and name not in LEARNERS and get_method(name).capabilities.predicts_first:
        raise InputError(f"{name}: learns from a store only; use it with train, or choose one of {', '.join(LEARNERS)}")
    return get_learner(name)


def main(arguments: list[str]) -> int:
    if (name := value_of(arguments, "--help-learner")) is not None:
        from blocksvm.online.learner import COMMON_SETTINGS

        one = learner_named(name)
        example = f"example: blocksvm stream rows.svm --learner {one.example}"
        print(cli.described(name, f"{one.summary} ({one.source})", one.settings + COMMON_SETTINGS, ("", example)))
        return 0
    learner, declared = learner_of(arguments)
    options = parser(learner, declared, value_of(arguments, "--format")).parse_args(arguments)
    inputs = cli.files_named(options.inputs, options.stderr, options.format) or ["-"]
    check_options(options)
    named = {"model": options.model, "log": options.log, "predictions": options.predictions, "questions": options.ask}
    outputs = outputs_of(options, [*inputs, options.prior], named)
    for name in inputs:
        if name != "-" and not location(name).exists():
            raise InputError(f"{name}: no such file")
    stop = catch_signals()
    from contextlib import ExitStack
    from functools import partial

    from blocksvm.api.streams import Stream
    from blocksvm.cli.stream_lines import StreamDisplay
    from blocksvm.streaming.stream_saving import StreamOutputs

    given = cli.chosen_values(options, declared) | cli.chosen_values(options, settings_offered(options.format))
    given |= {name: getattr(options, name) for name in OF_STREAM}
    given["n_jobs"] = cli.n_threads(options.threads, spared=1)  # beside the threads that read and that learn
    display = StreamDisplay(options.stderr)
    warn = partial(print, file=sys.stderr, flush=True)
    with ExitStack() as stack:
        files = StreamOutputs(outputs, options.overwrite, warn, stack)
        if options.predictions:  # whoever reads a pipe gets them as rows come
            files.write_predictions(partial(print, end="", flush=True), options.scores)

        def report(figures) -> None:
            display.show(figures)
            files.report(figures)

        stream = Stream(
            options.learner or "", prior=options.prior, start_from=options.start_from,
            on_report=report, on_fault=display.fault, on_save=files.save if options.model else None, stop=stop,
            on_predicted=files.predicted if options.predictions else None, on_query=files.ask if options.ask else None,
            **given,
        )  # fmt: skip
        files.begin(stream)
        display.begin(inputs, stream)
        done = stream.run(inputs)
        files.end(stream)
        if not done:  # within the block: predictions that were broken off get no name
            saved = f"; model saved in {options.model}" if options.model and stream.rows else "; nothing was saved"
            raise Interrupted(f"interrupted after {stream.rows:,} rows{saved}")
    show_end(options, inputs, outputs, stream, display, files)
    return 0


def check_options(options) -> None:
    """InputError where an option is out of range or lacks another one that it needs."""
    if options.save_every and not options.model:
        raise InputError("--save-every needs --model MODEL.h5, the file to write")
    if options.scores and not options.predictions:
        raise InputError("--scores needs --predictions FILE, where they are written")
    if options.test and options.model:
        raise InputError("--test learns nothing, so there is no model to write; leave --model out")
    if options.predictions == "-" and options.json == "-":
        raise InputError("--json goes to standard output, where the predictions go; name a file for these")
    if options.predictions == "-" and is_closed(sys.stdout):
        raise InputError("standard output is closed; name a file for --predictions")


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
        lines.append(f"{files.n_predictions:,} predictions in {outputs['predictions']}")
    print_results(options, lines, sys.stderr if options.predictions == "-" else sys.stdout)
    if options.model:
        print_next(options, inputs)


if __name__ == "__main__":
    run(main)
