"""python -m blocksvm.train: a store to a certified model, within a budget of memory."""

from __future__ import annotations

import sys

from blocksvm.cli.console import (
    Interrupted,
    Parser,
    catch_signals,
    compile_kernels,
    compile_learner,
    duration,
    run,
    seed,
    size,
)
from blocksvm.cli.options import add_learner_options
from blocksvm.errors import InputError

EPILOG = """online learners: perceptron, perceptron-bias, pa, pa1, pa2, cw-var, cw-stdev, arow, scw1, scw2, ogd, forel,
omd, subgradient, fobos, hf-fobos, adagrad-rda, adagrad-rda-squares, adagrad-fobos; for few rows: forel-exact, ftl

examples:
  python -m blocksvm.train store.h5 model.h5
  python -m blocksvm.train store.h5 model.h5 -C 0.1 --loss squared-hinge --tol 1e-4 --memory 4GB
  python -m blocksvm.train store.h5 model.h5 --solver arow --max-outer 3 --average
  python -m blocksvm.train store.h5 model.h5 --checkpoint run.ckpt --resume     (go on after an interruption)
"""


def parser() -> Parser:
    p = Parser(
        "train", "Train a linear model on a store made by blocksvm.split, to a certified relative duality gap.", EPILOG
    )
    p.add_argument("store", metavar="STORE.h5")
    p.add_argument("model", metavar="MODEL.h5", help="the model to write")
    problem = p.add_argument_group("the problem")
    problem.add_argument("--loss", help="hinge (default) or squared-hinge; a learner that follows gradients has more")
    problem.add_argument("-C", type=float, help="weight of the sum of losses (default 1)")
    problem.add_argument("--lambda", dest="lam", type=float, metavar="L", help="instead of -C: C = 1 / (L * rows)")
    problem.add_argument(
        "--bias", type=float, default=0.0, metavar="B", help="append a constant feature of value B (default 0: none)"
    )
    problem.add_argument("--class-weight", metavar="W", help="balanced, or LABEL=WEIGHT,LABEL=WEIGHT: factors of C")
    method = p.add_argument_group("the method")
    method.add_argument("--solver", default="dual-cd", help="dual-cd (default), pegasos, or an online learner (below)")
    method.add_argument("--batch", type=int, default=1, metavar="N", help="rows in a sub-batch of pegasos (default 1)")
    method.add_argument(
        "--schedule", default="auto", help="inner passes a visit: auto (default), N, tol:EPS or overlap"
    )
    method.add_argument(
        "--partition", default="redrawn", help="blocks redrawn at each outer iteration (default) or fixed"
    )
    method.add_argument("--block-chunks", type=int, metavar="N", help="chunks in a block (default: as --memory allows)")
    method.add_argument("--order", default="shuffled", help="order of visits: shuffled (default) or stored")
    method.add_argument("--memory", type=size, default=size("1GB"), help="memory to use, e.g. 512MB (default 1GB)")
    method.add_argument("--seed", type=seed, default=0, help="seed of all orders (default 0)")
    add_learner_options(p, without=("loss", "C", "lam"))
    online = p.add_argument_group("online learners (their epochs are outer iterations)")
    online.add_argument("--average", action="store_true", help="the mean of the weights after each row, not the last")
    online.add_argument("--multiclass", metavar="RULE", help="more than two labels: prototype (default) or rest")
    online.add_argument("--query", type=float, metavar="B", help="ask for a label with probability B / (B + |margin|)")
    end = p.add_argument_group("when to stop")
    end.add_argument("--tol", type=float, default=1e-3, help="certified relative gap to reach (default 0.001)")
    end.add_argument(
        "--max-outer", type=int, metavar="N", help="outer iterations at most (1000; pegasos 50; learners 1)"
    )
    end.add_argument(
        "--max-seconds", type=duration, default=float("inf"), metavar="S", help="time limit, e.g. 90 or 10m"
    )
    more = p.add_argument_group("starting, watching, resuming")
    more.add_argument("--warm-start", metavar="MODEL.h5", help="begin from a model or checkpoint of the same store")
    more.add_argument("--continue-from", metavar="MODEL.h5", help="an online learner goes on where it stopped")
    more.add_argument("--prior", metavar="MODEL.h5", help="regularise towards this model, in place of 0")
    more.add_argument("--valid", metavar="STORE2.h5", help="show the accuracy on this store after each outer iteration")
    more.add_argument("--log", metavar="TRACE.jsonl", help="write a JSON line for each outer iteration")
    more.add_argument("--checkpoint", metavar="FILE", help="save the whole state there, now and then and on Ctrl-C")
    more.add_argument(
        "--checkpoint-seconds", type=duration, default=600.0, metavar="S", help="time between saves (default 10m)"
    )
    more.add_argument("--resume", action="store_true", help="go on from --checkpoint, if it exists")
    more.add_argument("--replay", metavar="TRACE|MODEL", help="repeat the passes that an earlier run chose")
    more.add_argument("--overwrite", action="store_true", help="replace existing outputs")
    return p


def class_weights(text: str | None):
    """None, 'balanced', or {label: weight} from 'LABEL=W,LABEL=W'; a label that is no number is a string."""
    if text is None or text == "balanced":
        return text
    weights = {}
    for part in text.split(","):
        name, equals, weight = part.partition("=")
        try:
            if not equals:
                raise ValueError
            weights[_label(name)] = float(weight)
        except ValueError:
            raise InputError(f"--class-weight {text}: expected balanced or LABEL=WEIGHT,LABEL=WEIGHT") from None
    return weights


def _label(text: str):
    try:
        return float(text)
    except ValueError:
        return text


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    if options.C is not None and options.lam is not None:
        raise InputError("-C and --lambda say the same thing; give one of them")
    if options.resume and options.checkpoint is None:
        raise InputError("--resume needs --checkpoint FILE, the file to go on from")
    if options.resume and options.replay:
        raise InputError("--resume goes on as the run was begun; leave --replay out")
    from pathlib import Path

    from blocksvm.outputs import check_output
    from blocksvm.sources.store.files import open_hdf5, read_meta

    with open_hdf5(Path(options.store), "store") as file:
        about = read_meta(file)
    values = about["values"]
    outputs = _check_outputs(options, check_output)
    stop = catch_signals()
    compile_kernels("train", values, options.quiet)
    if options.solver not in ("dual-cd", "pegasos"):
        compile_learner(options, values, len(about["labels"] or []))
    if not options.quiet:
        print("loading", end="\r", file=sys.stderr) if sys.stderr.isatty() else None
    from blocksvm.cli.session import Session

    session = Session(options, outputs, class_weights(options.class_weight), stop)
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
    print("\n".join(lines))
    if not options.quiet:
        print(f"next: python -m blocksvm.predict {options.model} NEW.svm", file=sys.stderr)
    return 0


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
    if options.checkpoint is not None:
        outputs["checkpoint"] = Path(options.checkpoint)
        # one that is gone on with is told from other files when it is opened
        kind = None if options.resume else "checkpoint"
        check_output(outputs["checkpoint"], options.overwrite or options.resume, kind)
    if options.log is not None:
        outputs["log"] = Path(options.log)
        # with --resume it is gone on with, or begun anew where no checkpoint was saved before the run was killed
        check_output(outputs["log"], options.overwrite or options.resume, "trace")
    names = [path.resolve() for path in outputs.values()]
    for path in names:
        if path in inputs or names.count(path) > 1:
            raise InputError(
                f"{path}: is given twice, as an input and an output or as two outputs; choose another name"
            )
    return outputs


if __name__ == "__main__":
    run(main)
