"""blocksvm regret: an online learner's regret on a store, and the proven bounds beside it."""

from blocksvm.base.errors import InputError, option_string
from blocksvm.base.settings import Setting, Settings
from blocksvm.cli.console import Parser, run, value_of
from blocksvm.cli.options import FIGURE, OVERWRITE, SOLVER_WORDS, chosen_values, json_of, name_of_code, refusal
from blocksvm.cli.outputs import emit_json, outputs_of, print_written
from blocksvm.online import LEARNERS
from blocksvm.theory.settings import MAX_ROWS, REPLAY

EPILOG = """examples:
  blocksvm regret store.h5 --learner perceptron
  blocksvm regret store.h5 --learner ogd --decay constant --figure regret.png
  blocksvm regret store.h5 --learner pa1 -C 0.1 --json regret.json
"""

LEARNER = Setting("learner", "perceptron, pa1, ogd, fobos, pegasos, ... (train --help lists them)", None, name_of_code,
                  tuple(LEARNERS), metavar="NAME", also="--solver")  # fmt: skip


def parser(learner: str, settings: Settings) -> Parser:
    """The options of a replay of this learner, which takes ``settings`` of its own."""
    p = Parser(
        "regret",
        "Replay an online learner over a store of classes. Show its cumulative loss, its\n"
        "mistakes, its regret against the best fixed weights in hindsight, and each\n"
        "proven bound with its assumptions checked on these rows.",
        EPILOG,
    )
    p.refusal = refusal(learner, settings)
    p.add_argument("store", metavar="STORE.h5", help="the store, made by blocksvm split")
    p.add("the learner", LEARNER, REPLAY["average"])
    p.add(f"settings of {learner}", *settings, defaults=False)
    p.add("the rows", MAX_ROWS, *REPLAY.without("average"))
    p.add("what to write", json_of("the figures and all assumptions"), FIGURE, OVERWRITE)
    return p


def learner_of(arguments: list[str]) -> tuple[str, Settings]:
    """(name, settings) of the learner that arguments name."""
    name = value_of(arguments, *SOLVER_WORDS)
    if name is None:
        if {"-h", "--help"} & set(arguments):
            return "the learner", Settings()
        raise InputError("--learner NAME is needed; train --help lists the learners")
    from blocksvm.online.learner import COMMON_SETTINGS
    from blocksvm.online.methods import get_method

    method = get_method(name, learner=True)
    if not method.capabilities.linear:
        raise InputError(f"{name}: has a kernel, and regret is against the best fixed weights; choose another learner")
    choices = {setting.name: value_of(arguments, option_string(setting.name)) for setting in method.settings}
    takes = method.takes(choices)
    unused = [name for name in COMMON_SETTINGS.names() if name != "targets"]
    return name, takes.without(*unused)


def main(arguments: list[str]) -> int:
    learner, declared = learner_of(arguments)
    options = parser(learner, declared).parse_args(arguments)
    outputs = outputs_of(options, [options.store], {"figure": options.figure})
    settings = chosen_values(options, declared)
    from blocksvm.cli.texts import Line
    from blocksvm.store.reader import Store
    from blocksvm.theory.report import measure_regret

    line = Line(options.stderr)
    with Store(options.store) as store:
        report = measure_regret(
            store, options.learner, max_rows=options.max_rows, on_progress=line.show, order=options.order,
            seed=options.seed, memory=options.memory, average=options.average, batch=options.batch, **settings,
        )  # fmt: skip
    line.close()
    figures = {"store": options.store, "order": options.order, "seed": options.seed} | report.described()
    if not emit_json(options, figures):
        print("\n".join(shown(report)))
    if "figure" in outputs:
        from blocksvm.files.output import written_whole
        from blocksvm.theory.report import draw

        with written_whole(outputs["figure"], options.overwrite) as file:
            draw(report, file)
    print_written(options, outputs)
    return 0


def shown(report) -> list[str]:
    """The report as lines for a person."""
    from blocksvm.cli.texts import aligned

    run, best = report.run, report.best
    shown_as = run.settings | ({"costs": f"of {run.runner.n_classes} labels"} if run.settings.get("costs") else {})
    settings = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in shown_as.items()
        if value is not None
    )
    gap = "" if best.rel_gap is None else f", certified to a relative gap of {best.rel_gap:.1e}"
    if report.gap_in_ball is not None:
        gap = f"; at most {report.gap_in_ball:.1e} of its loss above the least in the learner's ball"
    lines = [
        f"learner     {run.name}{f' ({settings})' if settings else ''}",
        f"rows        {run.T:,}, {run.d:,} features, max ||x|| {run.R[-1]:.4g}",
        f"loss        {run.judging.name}",
        f"u           the best of {len(report.comparators)} fixed vectors on all {run.T:,} rows: {best.name}, "
        f"||u|| {best.norm:.4g}{gap}",
    ]
    if (mean := report.mean) is not None:
        lines.append(f"mean        of the weights: loss {number(mean.judged[-1])}, {int(mean.mistakes[-1]):,} mistakes "
                     "on the same rows")  # fmt: skip
    lines += [f"note        {note}" for note in report.notes]
    heads = ["rows", "loss", "mistakes", "loss of u", "least so far", "regret", "regret/sqrt(t)"]
    cells = ([f"{v:,}" if isinstance(v, int) else number(v) for v in row.values()] for row in report.table())
    lines += ["", *aligned([heads, *cells])]
    for judged in report.bounds:
        bound = judged.bound
        lines += ["", f"{bound.name} ({bound.source}): {bound.statement}"]
        if bound.remark:
            lines.append(f"  {bound.remark}")
        if not judged.applies:
            lines.append(f"  does not apply: {judged.failures()}")
            continue
        met = "; ".join(check.text for check in judged.checks)
        state = "VIOLATED, though its assumptions are met" if judged.violated else "holds"
        lines.append(f"  {state if bound.proven else 'as measured, not as proven'}; assumptions met: {met}")
        rows = [
            [f"{t:,}", number(a), number(b), by]
            for t, a, b, by in zip(run.times.tolist(), judged.measured, judged.right, judged.by, strict=True)
        ]
        lines += ["  " + line for line in aligned([["rows", bound.quantity, "bound", "by u"], *rows])]
    return lines


def number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1e5 else f"{value:.5g}"


if __name__ == "__main__":
    run(main)
