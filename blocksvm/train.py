"""blocksvm train: a store to a certified model, within a budget of memory."""

from textwrap import fill
from typing import Any

from blocksvm.base.errors import option_string
from blocksvm.base.settings import Setting, Settings
from blocksvm.cli import options as cli
from blocksvm.cli.console import Interrupted, Parser, catch_signals, run, value_of
from blocksvm.cli.outputs import emit_json, outputs_of, print_next, print_results
from blocksvm.files.paths import location
from blocksvm.online.methods import NAMES, get_method
from blocksvm.problems.problem_settings import WITH_CLASSES
from blocksvm.training.run_settings import RUN_SETTINGS

NAMED: Any = {"kind": cli.name_of_code, "choices": NAMES, "metavar": "NAME"}
SOLVER = (
    Setting("solver", "dual-cd (default), or another name of the list below", **NAMED),
    Setting("learner", "an online learner of the list below, such as pa1", **NAMED),
    Setting("help_solver", "show the settings of a solver or learner, such as pa1, and exit", **NAMED),
)
STARTING = (
    Setting("start_from", "begin from a model or checkpoint of this store, or continue an online learner from its "
            "model, with its settings", None, str, metavar="MODEL.h5"),
    Setting("prior", "regularise towards this model instead of 0", None, str, metavar="MODEL.h5"),
    Setting("calibrate", "fit probabilities to the decision values of five held-out folds", None, str,
            ("platt", "isotonic")),
    Setting("drop_below", "leave weights below this size out of the model, which keeps the others one by one", None,
            float, least=0.0, metavar="X"),
    Setting("valid", "show the accuracy on this store after each outer iteration", None, str, metavar="STORE2.h5"),
    Setting("log", "write a JSON line for each outer iteration", None, str, metavar="TRACE.jsonl"),
)  # fmt: skip
EXAMPLES = """examples:
  blocksvm train store.h5 model.h5
  blocksvm train store.h5 model.h5 -C 0.1 --loss squared-hinge --memory 4GB
  blocksvm train store.h5 model.h5 --solver arow --max-outer 3 --average
  blocksvm train store.h5 model.h5 --checkpoint run.ckpt --resume

The exit status is 3 where the default --max-outer or rounding ends it above
--tol.
"""
METHOD = ("bias", "schedule", "working_set", "partition", "block_chunks", "order", "memory", "seed")
END = ("tol", "max_outer", "max_passes", "max_seconds")


def parser(solver: str, settings: Settings) -> Parser:
    """The options of a run by this solver, which takes ``settings`` of its own."""
    names = fill(f"solvers and online learners: {', '.join(NAMES)}", 80, break_on_hyphens=False)
    p = Parser(
        "train", "Train a linear model on a store until a duality gap over all rows is certified.",
        f"{names}\n(--help-solver NAME shows the settings of one)\n\n{EXAMPLES}",
    )  # fmt: skip
    p.refusal = cli.refusal(solver, settings)
    p.add_argument("store", metavar="STORE.h5", help="the store, made by blocksvm split")
    p.add_argument("model", metavar="MODEL.h5", help="the model to write")
    p.add("the solver", *SOLVER)
    p.add(f"settings of {solver}", *settings, defaults=False)
    p.add("the run", *RUN_SETTINGS.only(METHOD), defaults=False)
    p.add("the machine", cli.THREADS)
    p.add("a cluster, whose workers read the store", *cli.CLUSTER)
    p.add("when to stop", *RUN_SETTINGS.only(END), defaults=False)
    p.add("starting, watching, resuming", *STARTING, *cli.CHECKPOINT)
    p.add("starting, watching, resuming", cli.json_of("the result of the run"), cli.OVERWRITE)
    return p


def solver_of(arguments: list[str]) -> tuple[str, Settings]:
    """(name, settings) of the solver that arguments name, or that the model which they continue was learned by."""
    name = value_of(arguments, *cli.SOLVER_WORDS)
    learner = value_of(arguments, "--learner") is not None
    start = value_of(arguments, "--from") if name is None else None
    if name is None and start is None and value_of(arguments, "--loss") is None:
        return "dual-cd", WITH_CLASSES
    if name is None:
        name = "dual-cd"
    if start is not None:
        from blocksvm.model.solver_state import start_of

        continued, _ = start_of(location(start))
        if continued is not None:
            from blocksvm.model.model_file import describe_model

            method = describe_model(continued).method
            name, learner = method.name, method.learner
    method = get_method(name, learner)
    choices = {setting.name: value_of(arguments, option_string(setting.name)) for setting in method.settings}
    return name, method.takes(choices)


def main(arguments: list[str]) -> int:
    name = value_of(arguments, "--help-solver")
    if name is not None:
        method = get_method(name)
        print(cli.described(method.name, method.summary, method.settings))
        return 0
    solver, declared = solver_of(arguments)
    options = parser(solver, declared).parse_args(arguments)

    from blocksvm.model.solver_state import start_of
    from blocksvm.store.hdf5_files import open_hdf5, read_meta
    from blocksvm.training.settings import TrainSettings

    with open_hdf5(options.store, "store") as file:
        about = read_meta(file)
    keywords = {"solver": options.solver, "learner": options.learner}
    keywords |= cli.chosen_values(options, declared) | cli.chosen_values(options, RUN_SETTINGS)
    start = (None, None) if options.start_from is None else start_of(location(options.start_from))
    settings = TrainSettings.of(**keywords) if start[0] is None else TrainSettings.continuing(start[0], **keywords)
    if options.resume and options.checkpoint is not None and not options.overwrite:
        from blocksvm.training.checkpoint import is_result_of

        options.overwrite = is_result_of(location(options.model), location(options.checkpoint), settings)
        if options.overwrite:
            print(f"{options.model}: is the model of this run, which had ended; it is written again",
                  file=options.stderr)  # fmt: skip
    # the model that a run starts from may be replaced by its result
    inputs = [options.store, options.valid, options.prior]
    named = {"model": options.model, "checkpoint": options.checkpoint, "log": options.log}
    outputs = outputs_of(options, inputs, named)
    if options.calibrate:
        from blocksvm.validation.calibration import check_calibrated

        check_calibrated(options.calibrate, settings, len(about.labels or []) == 2 and about.label_kind != "sets")
    stop = catch_signals()
    from blocksvm.cli.session import Session

    session = Session(options, start, settings, outputs, stop)
    result, lines = session.run()
    if result.status == "interrupted":
        last, checkpoint = session.end.get("rel_gap"), outputs.get("checkpoint")
        gap = "no certificate was taken" if last is None else f"last certified relative gap {last:.2e}"
        saved = f"; state saved in {checkpoint}, go on with --resume"
        if checkpoint is None:
            saved = "; nothing was saved (--checkpoint FILE saves the state)"
        raise Interrupted(f"interrupted in outer iteration {result.outer + 1}: {gap}{saved}")
    if not emit_json(options, session.figures()):
        print_results(options, lines)
    if result.advice is not None:
        return cli.UNCONVERGED if settings.ended_by_default(result.status) else 0
    print_next(options, [source.name for source in about.sources])
    return 0


if __name__ == "__main__":
    run(main)
