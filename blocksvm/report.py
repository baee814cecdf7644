"""blocksvm report: the traces of runs as a page to look at."""

from blocksvm.base.errors import InputError, require_library
from blocksvm.base.settings import Setting
from blocksvm.cli.console import Parser, run
from blocksvm.cli.options import OVERWRITE
from blocksvm.cli.outputs import outputs_of, print_written
from blocksvm.files.paths import location

KINDS = ("png", "svg", "pdf")
OUTPUT = Setting("output", "write the report as a page, one file that loads nothing else", None, str,
                 metavar="FILE.html", also="-o")  # fmt: skip
PICTURE = Setting("figure", "write the charts as a picture: .png, .svg or .pdf", None, str, metavar="FILE")
EPILOG = """examples:
  blocksvm report run.jsonl -o report.html
  blocksvm report hinge.jsonl logistic.jsonl -o both.html --figure both.png
"""


def parser() -> Parser:
    p = Parser("report", "Draw one run or several, from the traces that --log of train and stream wrote:\n"
               "gap, objective, accuracy, where the time went, working set, passes, memory,\nsettings.  Needs "
               "matplotlib.", EPILOG)  # fmt: skip
    p.add_argument("traces", nargs="+", metavar="TRACE.jsonl", help="files that --log wrote")
    p.add("what to make", OUTPUT, PICTURE, OVERWRITE)
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)

    from blocksvm.files.output import written_text, written_whole

    if not (options.output or options.figure):
        raise InputError("nothing to make; add -o FILE.html or --figure FILE.png")
    kind = str(options.figure or ".png").rpartition(".")[2].lower()
    if kind not in KINDS:
        raise InputError(f"--figure {options.figure}: name a file that ends in .{', .'.join(KINDS)}")
    traces = [location(name) for name in options.traces]
    outputs = outputs_of(options, options.traces, {"report": options.output, "figure": options.figure})
    require_library("matplotlib", "A report")
    from blocksvm.reporting.page import page_of
    from blocksvm.reporting.runs import load_runs

    runs = load_runs(traces)
    if "report" in outputs:
        with written_text(outputs["report"], options.overwrite) as file:
            file.write(page_of(runs))
    if "figure" in outputs:
        from blocksvm.reporting.figure import draw

        with written_whole(outputs["figure"], options.overwrite) as file:
            draw(runs, file, kind)
    print_written(options, outputs)
    return 0


if __name__ == "__main__":
    run(main)
