"""blocksvm margin: the maximum margin of a store's rows, certified, and its support vectors."""

from collections.abc import Callable
from dataclasses import replace

from blocksvm.base.settings import Setting
from blocksvm.cli.console import Interrupted, Parser, catch_signals, run
from blocksvm.cli.options import FIGURE, OVERWRITE, UNCONVERGED, chosen_values, json_of, unlimited
from blocksvm.cli.outputs import emit_json, outputs_of, print_written
from blocksvm.conversion import TEMP
from blocksvm.theory.settings import MARGIN_SETTINGS
from blocksvm.training.run_settings import ROUNDING

EXAMPLES = """examples:
  blocksvm margin store.h5
  blocksvm margin store.h5 -C 1 --figure margins.png --support-vectors sv.csv
"""
LISTED = 10  # support vectors that are printed

SUPPORT_VECTORS = Setting(
    "support_vectors", "write every support vector: its file and line, label, alpha, margin", None, str,
    metavar="FILE.csv",
)  # fmt: skip


def parser() -> Parser:
    p = Parser(
        "margin", "Find the plane of the largest margin between two classes, certified from both\n"
        "sides, or evidence that no plane separates them; with -C the soft margin.\n"
        "Show its support vectors, how well the optimality conditions are met, and the\n"
        "mistakes of the perceptron beside Novikoff's bound.", EXAMPLES,
    )  # fmt: skip
    p.add_argument("store", metavar="STORE.h5", help="a store of two classes")
    p.add("settings", *MARGIN_SETTINGS, defaults=False)
    p.add("temporary files", replace(TEMP, help="folder for temporary files (default: the system's)"))
    p.add("what to write", json_of("all figures"), FIGURE, SUPPORT_VECTORS, OVERWRITE)
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    import csv
    from contextlib import ExitStack

    from blocksvm.base.labels import label_text
    from blocksvm.files.output import written_text, written_whole

    named = {"figure": options.figure, "support vectors": options.support_vectors}
    outputs = outputs_of(options, [options.store], named)
    settings = MARGIN_SETTINGS.checked(chosen_values(options, MARGIN_SETTINGS), "margin")
    stop = catch_signals()
    from blocksvm.cli.texts import Line, sizes
    from blocksvm.store.reader import Store
    from blocksvm.theory.margin import maximum_margin

    line = Line(options.stderr)
    with Store(options.store) as store, ExitStack() as stack:
        print(f"{options.store}: {sizes(store.n_samples, store.n_features, store.n_nonzeros)}", file=options.stderr)
        listed = None
        if options.support_vectors:
            file = stack.enter_context(written_text(outputs["support vectors"], options.overwrite))
            listing = csv.writer(file, lineterminator="\n")
            listing.writerow(("row", "label", "alpha", "margin"))

            def listed(one) -> None:
                listing.writerow((one.origin, label_text(one.label), f"{one.alpha:.17g}", f"{one.margin:.17g}"))

        report = maximum_margin(
            store, on_event=progress(line), stop=stop, on_support_vector=listed, temp=options.temp, **settings
        )
        line.close()
        if report is None:
            raise Interrupted("interrupted; nothing was written")
        labels = store.labels.values
    if not emit_json(options, {"store": options.store} | report.described()):
        print("\n".join(shown(report)))
    if "figure" in outputs:
        from blocksvm.theory.margin import draw

        with written_whole(outputs["figure"], options.overwrite) as file:
            draw(report, labels, file)
    print_written(options, outputs)
    return UNCONVERGED if report.limited and unlimited(options, report.status) else 0


def progress(line) -> Callable[[dict], None]:
    """What shows the bounds so far and the outer iterations of the trainings on a line."""
    bounds = ""

    def show(event: dict) -> None:
        nonlocal bounds
        if event["event"] == "bounds":
            low = f"from {event['lower']:.4g} " if event["lower"] > 0.0 else ""
            bounds = f"margin {low}to {event['upper']:.4g}; "
        elif event["event"] == "outer":
            line.show(f"{bounds}outer iteration {event['outer']}")

    return show


def shown(report) -> list[str]:
    """The report as lines for a person."""
    from blocksvm.base.labels import label_text
    from blocksvm.cli.texts import number_of

    limited = (
        "not converged: rounding ended a training above its gap; scale the rows"
        if report.status == ROUNDING
        else "not converged: a training ended at --max-outer or --max-seconds, above its gap; raise it, or scale the "
        "rows"
    )
    lines = ([limited] if report.limited else []) + margin_lines(report)
    for pair in report.contradictions:
        first, second = label_text(pair.first_label), label_text(pair.second_label)
        lines.append(f"            the same but for their labels: {pair.first} ({first}) and {pair.second} ({second})")
    if not report.hard or report.separable:
        lines += condition_lines(report)
    look = report.look
    lines.append(f"alpha       {look.at_zero:,} rows at 0, {look.free:,} free, {look.at_bound:,} at the bound")
    perceptron = report.perceptron
    if perceptron is not None:
        ended = "the last epoch made none" if perceptron["separated"] else "every epoch made some"
        most = "" if perceptron["bound"] is None else f"; Novikoff: at most {perceptron['bound']:,.0f}"
        epochs = "1 epoch" if perceptron["epochs"] == 1 else f"{perceptron['epochs']} epochs"
        lines.append(f"perceptron  {perceptron['mistakes']:,} mistakes in {epochs}, {ended}{most}")
    if report.support:
        lines += ["", "support vectors of the largest alpha:", "       alpha       margin  label  row"]
        shown = report.support[:LISTED]
        lines += [f"{v.alpha:12.5g} {v.margin:12.6g}  {label_text(v.label):>5}  {v.origin}" for v in shown]
        lines.append("")
    lines.append(f"{report.seconds:.1f}s and {number_of(report.readings, 'reading')} of the rows")
    return lines


def margin_lines(report) -> list[str]:
    look = report.look
    wrong = "1 row" if look.errors == 1 else f"{look.errors:,} rows"
    if not report.hard:
        margin = f"{report.gamma:.6g} = 1 / ||w||, soft, C {report.C:g}"
        return [f"margin      {margin}", f"            {wrong} on the wrong side of the plane"]
    if report.separable:
        more = "" if report.settled else "; not as near as asked for: the search came to its end"
        bounds = f"{look.lower:.6g} to {look.upper:.6g} (this plane's, and the most that there can be{more})"
        return ["separable   yes: every row lies on its own side of the plane", f"margin      {bounds}"]
    of_norms = f", {look.upper / report.radius:.1e} of the largest norm" if report.radius else ""
    answer = "no" if report.separable is False else "by no plane that was found"
    return [
        f"separable   {answer}; none has a margin above {look.upper:.3g}{of_norms}",
        f"            the soft margin at C {report.C:.3g} leaves {wrong} on the wrong side",
    ]


def condition_lines(report) -> list[str]:
    """The residuals of the conditions of Karush, Kuhn and Tucker, as lines."""
    look = report.look
    name, total = ("sum alpha", look.sum_alpha) if report.hard else ("sum alpha (1 - xi)", look.sum_alpha_slack)
    bound = "" if report.hard else f", |(C - alpha) xi| {look.bound_slackness:.1e}"
    return [
        f"bias        {look.bias * look.scale:.6g}",
        f"||w||^2     {(look.norm * look.scale) ** 2:.8g}; {name} {total:.8g}",
        f"KKT         stationarity {look.stationarity:.1e}, sum alpha y {look.imbalance:.1e}, feasibility "
        f"{look.primal_infeasibility:.1e} and {look.infeasibility:.1e},",
        f"            slackness |alpha (m - 1 + xi)| {look.slackness:.1e}{bound}",
    ]


if __name__ == "__main__":
    run(main)
