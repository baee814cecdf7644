"""blocksvm report: the traces of runs as a page to look at."""

from __future__ import annotations

from blocksvm.base.errors import InputError
from blocksvm.base.objects.remote_path import place
from blocksvm.cli.console import Parser
from blocksvm.cli.outputs import outputs_of, print_written

EPILOG = """examples:
  blocksvm report run.jsonl -o report.html
  blocksvm report hinge.jsonl logistic.jsonl -o both.html --figure both.png
  blocksvm report run.jsonl --watch               (while the run goes on)
"""


def parser() -> Parser:
    p = Parser(
        "report", "Draw one run or several, from the traces that --log of train and stream wrote:\n"
        "gap, objective, accuracy, where the time went, working set, passes, memory,\nsettings.", EPILOG,
    )  # fmt: skip
    p.add_argument("traces", nargs="+", metavar="TRACE.jsonl", help="files that --log wrote")
    what = p.add_argument_group("what to make")
    what.add_argument(
        "-o", "--output", metavar="FILE.html", help="write the report as a page, one file that loads nothing else"
    )
    what.add_argument("--figure", metavar="FILE.png", help="write the charts as a picture (needs matplotlib)")
    what.add_argument("--overwrite", action="store_true", help="replace existing outputs")
    watching = p.add_argument_group("while a run goes on")
    watching.add_argument("--watch", action="store_true",
                          help="serve the page to browsers on this machine, and update it, until Ctrl-C")  # fmt: skip
    watching.add_argument("--port", type=int, metavar="N", help="port of --watch (default: a free one)")
    return p


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)

    from blocksvm.base.outputs.writing import written_text, written_whole

    if not (options.output or options.figure or options.watch):
        raise InputError("nothing to make; add -o FILE.html, --figure FILE.png or --watch")
    if options.port is not None and not options.watch:
        raise InputError("--port is for --watch; leave it out, or add --watch")
    traces = [place(name) for name in options.traces]
    outputs = outputs_of(options, options.traces, {"report": options.output, "figure": options.figure})
    from blocksvm.reporting.page import page_of
    from blocksvm.reporting.runs import load_runs

    runs = load_runs(traces, unfinished=options.watch)
    if "report" in outputs:
        with written_text(outputs["report"], options.overwrite) as file:
            file.write(page_of(runs))
    if "figure" in outputs:
        from blocksvm.reporting.trace_figure import draw

        with written_whole(outputs["figure"], options.overwrite) as file:
            draw(runs, file)
    print_written(options, outputs)
    if options.watch:
        watch(traces, options.port or 0)
    return 0


def watch(traces: list, port: int) -> None:
    """Serve the page until Ctrl-C or SIGTERM."""
    from contextlib import suppress

    from blocksvm.reporting.server import Pages

    with Pages(traces, port) as pages, suppress(KeyboardInterrupt):
        print(f"{pages.url} shows the runs; Ctrl-C ends this", flush=True)
        pages.serve_forever()
