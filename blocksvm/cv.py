"""blocksvm cv: choose C by cross-validation, many problems in each reading of a store."""

import math
import sys

from blocksvm.base.errors import InputError
from blocksvm.base.settings import Setting, Settings
from blocksvm.cli import options as cli
from blocksvm.cli.console import Interrupted, Parser, catch_signals, run, value_of
from blocksvm.cli.outputs import emit_json, outputs_of, print_written
from blocksvm.losses import get_loss
from blocksvm.problems.problem_settings import WITH_CLASSES
from blocksvm.training.run_settings import ROUNDING, RUN_SETTINGS

EXAMPLES = """examples:
  blocksvm cv store.h5
  blocksvm cv store.h5 --folds 10 -C 0.01:100:9 --figure cv.png --refit model.h5
  blocksvm cv store.h5 --groups authors.txt     (an author's rows stay together)
"""
OF_PROBLEM = [name for name in WITH_CLASSES.names() if name not in ("C", "lam")]
SOLVERS = ("dual-cd", "newton", "auto")
FOLDS = (
    Setting("folds", "number of folds", 5, int, least=2, metavar="K"),
    Setting("C", "values of C, or N values from LOW to HIGH by equal factors (default "
            "0.01,0.03,0.1,0.3,1,3,10,30)", None, lambda text: path_of(text), metavar="C,C,...|LOW:HIGH:N"),
    Setting("groups", "file with a line for each row; rows of equal lines go to one fold", None, str, metavar="FILE"),
    Setting("at_once", "values of C trained in one reading, if the memory allows", 3, int, least=1, metavar="N"),
)  # fmt: skip
SOLVER = Setting("solver", "as for train", SOLVERS[0], str, SOLVERS)
EPSILON = Setting("epsilon", "for regression: largest error that costs nothing (default 0.1)", least=0.0, metavar="E")
SELECT = Setting("select", "measure by which C is chosen (default accuracy; for real targets rmse)", None, str,
                 ("accuracy", "auc", "loss", "rmse"))  # fmt: skip
REFIT = Setting("refit", "train on all rows with the chosen C, and write the model", None, str, metavar="MODEL.h5")


def parser() -> Parser:
    p = Parser(
        "cv", "Choose C by cross-validation: for each C and fold a model is trained to a\ncertified gap on the "
        "rows outside of the fold, and scored on the rows in it.", EXAMPLES,
    )  # fmt: skip
    p.add_argument("store", metavar="STORE.h5", help="the store, made by blocksvm split")
    p.add("folds and values of C", *FOLDS)
    p.add("the solver", SOLVER)
    p.add("the problem", *WITH_CLASSES.without("C", "lam", "multiclass") + (EPSILON,), defaults=False)
    p.add("the runs", *RUN_SETTINGS, defaults=False)
    p.add("the machine", cli.THREADS)
    p.add("a cluster, whose workers read the store", *cli.CLUSTER)
    p.add("what to write", SELECT, REFIT, cli.json_of("all figures"), cli.FIGURE, cli.OVERWRITE)
    return p


def path_of(text: str) -> list[float]:
    """Of C: numbers with commas between them, or LOW:HIGH:N, so many from one to the other by equal factors, each
    rounded to the digits that are printed, so that a printed C is the one that was trained with."""
    try:
        if ":" not in text:
            return [float(part) for part in text.split(",")]
        low, high, count = text.split(":")
        least, largest, n = float(low), float(high), int(count)
        if 0.0 < least < largest < math.inf and 2 <= n <= 1000:
            return [float(f"{least * (largest / least) ** (k / (n - 1)):g}") for k in range(n)]
    except ValueError:
        pass
    raise InputError(f"-C {text}: expected numbers with commas between them, such as 0.1,1,10, or LOW:HIGH:N, such "
                     "as 0.01:100:9")  # fmt: skip


def main(arguments: list[str]) -> int:
    name, of_loss, p = value_of(arguments, "--loss"), Settings(), parser()
    if name is not None:
        of_loss = get_loss(name).settings
    p.add("the loss", *of_loss.without("epsilon"), defaults=False)
    options = p.parse_args(arguments)
    from blocksvm.files.output import written_whole

    named = {"model": options.refit, "figure": options.figure}
    outputs = outputs_of(options, [options.store, options.groups], named)
    names = ("solver", *OF_PROBLEM, "epsilon", *of_loss.names(), *RUN_SETTINGS.names())
    settings = {name: value for name in names if (value := getattr(options, name, None)) is not None}
    stop = catch_signals()
    from blocksvm.cli.texts import Line
    from blocksvm.store.reader import Store
    from blocksvm.validation.path import PATH, cross_validate

    line, part = Line(options.stderr), ""

    def show(event: dict) -> None:
        """Which part of the path is trained, and how far it is."""
        nonlocal part
        if event["event"] == "part":
            low, high = event["path"][0], event["path"][-1]
            part = f"C {low:g}" if low == high else f"C {low:g} to {high:g}"
            part += f" ({event['done'] + len(event['path'])} of {event['of']})"
        elif event["event"] == "outer":
            gap = event["rel_gap"] if event["rel_gap"] is not None else event["gap_estimate"]
            reached = f", gap {gap:.1e}" if gap is not None else ""
            line.show(f"{part}: iteration {event['outer']}{reached}, {event['classes_done']} done")

    with Store(options.store) as store:
        binary = store.labels is not None and store.labels.binary
        measures = ("accuracy", "auc", "loss") if binary else ("accuracy", "loss")
        measures = ("loss", "rmse") if get_loss(settings.get("loss") or "hinge").of_numbers else measures
        if options.select not in (None, *measures):
            wrong = f"--select {options.select}: is not a measure of these rows and this loss"
            raise InputError(f"{wrong}; choose {' or '.join(measures)}")
        print(f"{options.store}: {store.n_samples:,} rows, {store.n_features:,} features, "
              f"{store.n_nonzeros:,} nonzeros; {options.folds} folds", file=options.stderr)  # fmt: skip
        more = settings | {"n_jobs": options.threads or -1, "cluster": cli.cluster_of(options)}
        cv = cross_validate(store, options.C or PATH, options.folds, groups=options.groups, at_once=options.at_once,
                            on_event=show, stop=stop, **more)  # fmt: skip
        line.close()
        if cv.status == "interrupted":
            raise Interrupted("interrupted; no results were written")
        best = cv.best(options.select)
        figures = cv.described() | {"store": options.store, "best": cv.path[best]}
        missed = shortfall(cv, cv.settings["tol"])
        if not emit_json(options, figures):
            by = options.select or ("rmse" if cv.real else "accuracy")
            of_best = [f"-C {cv.path[best]:g}: {by} {cv.mean(by)[best]:.5f}"]
            print("\n".join(missed + (of_best if options.quiet else shown(cv, best))))
        if "figure" in outputs:
            with written_whole(outputs["figure"], options.overwrite) as file:
                draw(cv, file)
        if "model" in outputs:
            from blocksvm.api.fit import fit

            fitted = fit(store, C=cv.path[best], stop=stop, **more | {"cluster": cli.cluster_of(options)})
            if fitted.status == "interrupted":
                raise Interrupted("interrupted; no model was written")
            fitted.save(outputs["model"], options.overwrite)
            if fitted.result.advice is not None:
                missed = [f"{outputs['model']}: {fitted.result.advice}"]
                print(missed[0], file=sys.stderr)
    print_written(options, outputs)
    return cli.UNCONVERGED if missed and cli.unlimited(options, cv.status) else 0


def shortfall(cv, tol: float) -> list[str]:
    """A sentence where problems have not reached their gap, as lines."""
    if not (n := int((cv.rel_gap > tol).sum())):
        return []
    more = "" if cv.status == ROUNDING else "raise --max-outer, "
    return [f"not converged: {n} of {cv.rel_gap.size} problems have a gap above --tol {tol:g}; {more}"
            "leave the largest C out, or scale the rows (split --scale max-abs)"]  # fmt: skip


def shown(cv, best: int) -> list[str]:
    """The figures as lines for a person: mean over the folds and their standard deviation, the largest gap."""
    import numpy as np

    from blocksvm.cli.texts import aligned, fitted, number_of

    names = ["rmse" if cv.real else "accuracy", "loss", *([] if np.isnan(cv.auc).all() else ["auc"])]
    rows = [["C", *(part for name in names for part in (name, "+-")), "gap", ""]]
    for number, C in enumerate(cv.path):
        cells = []
        for name in names:
            values = getattr(cv, name)[number]
            there = values[~np.isnan(values)]  # of the folds that have one
            spread = float(np.std(there, ddof=1)) if len(there) > 1 else 0.0
            cells += [fitted(cv.mean(name)[number], 8, decimals=5), fitted(spread, 8, decimals=5)]
        rows.append([f"{C:g}", *cells, f"{cv.rel_gap[number].max():.1e}", "best" if number == best else ""])
    lines = aligned(rows)
    lacking = [str(fold + 1) for fold in np.flatnonzero(np.isnan(cv.auc[0])).tolist()] if "auc" in names else []
    if lacking:
        lines.append(f"auc: the rows of fold {', '.join(lacking)} are of one class, so that its mean leaves them out")
    problems = len(cv.path) * cv.folds
    lines.append(f"{problems} problems in {cv.seconds:.1f}s and {number_of(round(cv.readings), 'reading')} of the rows")
    return lines


def draw(scores, file) -> None:
    """Write a cross-validation as a PNG: the accuracy (or the root mean squared error), and the loss, by C."""
    from matplotlib.figure import Figure

    names = {"rmse": "root mean squared error"} if scores.real else {"accuracy": "accuracy"}
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(1, 2), (names | {"loss": "loss"}).items(), strict=True):
        values = getattr(scores, name)
        for fold in range(scores.folds):
            label = "one fold each" if fold == 0 else None
            axes.plot(scores.path, values[:, fold], color="0.75", linewidth=1, label=label)
        axes.plot(scores.path, scores.mean(name), color="C0", marker="o", label=f"mean of {scores.folds} folds")
        best = scores.best(name)
        axes.axvline(scores.path[best], color="C3", linestyle=":", label=f"best mean, at C = {scores.path[best]:g}")
        axes.set(xscale="log", xlabel="C", title=f"{title} of the held-out rows")
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    figure.savefig(file, format="png", dpi=150)


if __name__ == "__main__":
    run(main)
