"""python -m blocksvm.train: a store to a certified model, within a budget of memory."""

from __future__ import annotations

import sys

from blocksvm.cli.console import (
    Interrupted,
    Known,
    Parser,
    catch_signals,
    duration,
    run,
    seed,
    size,
)
from blocksvm.cli.json_output import add_json, json_file, told_as_json
from blocksvm.cli.options import SOLVER_WORDS, add_checkpoint, add_settings, checkpoint_of, given, refusal, value_of
from blocksvm.cli.standard import drawing
from blocksvm.errors import InputError, option
from blocksvm.learners.methods import NAMES
from blocksvm.named import names_of
from blocksvm.problems.settings import WITH_CLASSES
from blocksvm.settings import Settings
from blocksvm.training.run_settings import RUN_SETTINGS

EXAMPLES = """examples:
  python -m blocksvm.train store.h5 model.h5
  python -m blocksvm.train store.h5 model.h5 -C 0.1 --loss squared-hinge --tol 1e-4 --memory 4GB
  python -m blocksvm.train store.h5 model.h5 --solver arow --max-outer 3 --average
  python -m blocksvm.train store.h5 model.h5 --checkpoint run.ckpt --resume     (go on after an interruption)
"""
TYPES = {"memory": size, "seed": seed, "max_seconds": duration}
METHOD = ("bias", "schedule", "working_set", "partition", "block_chunks", "order", "memory", "seed")
END = ("tol", "max_outer", "max_passes", "max_seconds")


def parser(solver: str, settings: Settings) -> Parser:
    """The options of a run by this solver, which takes ``settings`` of its own."""
    names = ", ".join(NAMES)
    p = Parser(
        "train", "Train a linear model on a store made by blocksvm.split, to a certified relative duality gap.",
        f"solvers and online learners: {names}\n(--help-solver NAME tells their settings)\n\n{EXAMPLES}",
    )  # fmt: skip
    p.refusal = refusal(solver, settings)
    p.add_argument("store", metavar="STORE.h5")
    p.add_argument("model", metavar="MODEL.h5", help="the model to write")
    method = p.add_argument_group("the solver")
    known = Known(NAMES)
    method.add_argument("--solver", metavar="NAME", choices=known,
                        help="dual-cd (default), or another of those below")  # fmt: skip
    method.add_argument("--learner", metavar="NAME", choices=known, help="the same for an online learner")
    method.add_argument("--help-solver", metavar="NAME", choices=known,
                        help="tell the settings of a solver or learner, and exit")  # fmt: skip
    add_settings(p, f"settings of {solver}", settings)
    add_settings(p, "the run", RUN_SETTINGS, METHOD, TYPES)
    add_settings(p, "when to stop", RUN_SETTINGS, END, TYPES)
    more = p.add_argument_group("starting, watching, resuming")
    more.add_argument("--warm-start", metavar="MODEL.h5", help="begin from a model or checkpoint of the same store")
    more.add_argument("--continue-from", metavar="MODEL.h5", help="an online learner goes on where it stopped, with "
                      "the settings that it had")  # fmt: skip
    more.add_argument("--prior", metavar="MODEL.h5", help="regularise towards this model, in place of 0")
    more.add_argument("--calibrate", choices=("platt", "isotonic"),
                      help="make probabilities of decision values, by five folds of held-out rows")  # fmt: skip
    more.add_argument("--valid", metavar="STORE2.h5", help="show the accuracy on this store after each outer iteration")
    more.add_argument("--log", metavar="TRACE.jsonl", help="write a JSON line for each outer iteration")
    add_checkpoint(more, "the whole state")
    more.add_argument("--replay", metavar="TRACE|MODEL", help="repeat the passes that an earlier run chose")
    add_json(more, "how the run ended")
    more.add_argument("--overwrite", action="store_true", help="replace existing outputs")
    return p


def solver_of(arguments: list[str]) -> tuple[str, Settings]:
    """(name, settings) of the solver that arguments name, or that the model which they continue was learned by."""
    name = value_of(arguments, *SOLVER_WORDS)
    learner = value_of(arguments, "--learner") is not None
    continued = value_of(arguments, "--continue-from")
    if name is None and continued is None and value_of(arguments, "--loss") is None:
        return "dual-cd", WITH_CLASSES
    from blocksvm.learners.methods import get_method

    if name is None and continued is None:
        name = "dual-cd"
    if name is None:
        from blocksvm.model.files import describe_model

        method = describe_model(continued)["method"]
        name, learner = method["name"], method["learner"]
        with names_of(continued):
            get_method(name, learner)
    method = get_method(name, learner)
    choices = {setting.name: value_of(arguments, option(setting.name)) for setting in method.settings}
    return name, method.takes(choices)


def _label(text: str):
    try:
        return float(text)
    except ValueError:
        return text


def main(arguments: list[str]) -> int:
    asked = value_of(arguments, "--help-solver")
    if asked is not None:
        print(told(asked))
        return 0
    solver, own = solver_of(arguments)
    options = parser(solver, own).parse_args(arguments)
    if options.resume and options.replay:
        raise InputError("--resume goes on as the run was begun; leave --replay out")
    from pathlib import Path

    from blocksvm.outputs import check_output
    from blocksvm.sources.store.files import open_hdf5, read_meta
    from blocksvm.training.settings import TrainSettings

    with open_hdf5(Path(options.store), "store") as file:
        about = read_meta(file)
    keywords = {"solver": options.solver, "learner": options.learner}
    keywords |= given(options, own) | given(options, RUN_SETTINGS)
    if options.continue_from is None:
        settings = TrainSettings.of(**keywords)
    else:
        settings = TrainSettings.continuing(options.continue_from, **keywords)
    outputs = _check_outputs(options, check_output)
    if options.calibrate:
        check_calibrated(options.calibrate, settings, about)
    stop = catch_signals()
    if not options.quiet:
        print("loading", end="\r", file=drawing(sys.stderr)) if sys.stderr.isatty() else None
    from blocksvm.cli.session import Session

    session = Session(options, settings, outputs, stop)
    result, lines = session.run()
    if result.status == "interrupted":
        last = session.last_gap()
        saved = (
            f"; state saved in {options.checkpoint}, go on with --resume"
            if options.checkpoint
            else "; nothing was saved"
        )
        gap = "no certificate was taken" if last is None else f"last certified relative gap {last:.2e}"
        raise Interrupted(f"interrupted in outer iteration {result.outer + 1}: {gap}{saved}")
    if not told_as_json(options, session.told()):
        from blocksvm.cli.display import folded

        print(folded("\n".join(lines), sys.stdout))
    if not options.quiet:
        print(f"next: python -m blocksvm.predict {options.model} NEW.svm", file=sys.stderr)
    return 0


def told(name: str) -> str:
    """What ``--help-solver`` prints."""
    from blocksvm.cli.options import described
    from blocksvm.learners.methods import get_method

    method = get_method(name)
    return described(method.name, method.summary, method.settings)


def check_calibrated(kind: str, settings, about: dict) -> None:
    """InputError where a run makes no decision values that could be calibrated."""
    plain = settings.capabilities.cross_validates and not settings.free_bias
    if not plain or len(about["labels"] or []) != 2 or about.get("label_kind") == "sets":
        raise InputError(
            f"--calibrate {kind}: is for dual-cd on rows of two classes, without a free bias; leave it out"
        )
    if settings.method.get("lam") is not None:
        raise InputError(f"--calibrate {kind}: needs -C in the place of --lambda")


def _check_outputs(options, check_output) -> dict:
    """Paths of what will be written, refused before anything is computed."""
    from pathlib import Path

    outputs = {"model": Path(options.model)}
    check_output(outputs["model"], options.overwrite, "model")
    inputs = {
        Path(name).resolve()
        for name in (options.store, options.valid, options.warm_start, options.continue_from, options.prior)
        if name
    }
    checkpoint = checkpoint_of(options)
    if checkpoint is not None:
        outputs["checkpoint"] = checkpoint
    if options.log is not None:
        outputs["log"] = Path(options.log)
        # with --resume it is gone on with, or begun anew where no checkpoint was saved before the run was killed
        check_output(outputs["log"], options.overwrite or options.resume, "trace")
    if (figures := json_file(options)) is not None:
        outputs["json"] = figures
        check_output(figures, options.overwrite, "json")
    names = [path.resolve() for path in outputs.values()]
    for path in names:
        if path in inputs or names.count(path) > 1:
            raise InputError(
                f"{path}: is given twice, as an input and an output or as two outputs; choose another name"
            )
    return outputs


if __name__ == "__main__":
    run(main)
