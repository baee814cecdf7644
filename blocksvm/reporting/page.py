"""Runs as one HTML page that needs nothing else, without script: a picture of the charts, and tables.

Traces are untrusted: every text of one goes through ``escape``, the picture is data of an image, in which nothing runs,
and the page's policy fetches and runs nothing.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Iterable, Sequence
from html import escape

from blocksvm import __version__
from blocksvm.reporting.figure import draw, spent
from blocksvm.reporting.runs import Iteration, OnlineLoss, TracedRun, thinned

MOST_ROWS = 200  # of a table of iterations
ENDS = {
    "converged": "converged",
    "rounding": "ended by the rounding of double precision",
    "max-outer": "ended by its number of outer iterations",
    "max-passes": "ended by its number of passes",
    "max-seconds": "ended by its time",
    "interrupted": "interrupted",
    None: "going on, or killed",
}
STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #1f2328;
  background: #fff }
img { max-width: 100% }
div { overflow-x: auto }
table { border-collapse: collapse; font-size: 13px }
th, td { border-bottom: 1px solid #d1d9e0; padding: .2rem .6rem; text-align: right; vertical-align: top }
th:first-child { text-align: left }
.differs { font-weight: bold }
"""


def page_of(runs: Sequence[TracedRun]) -> str:
    """The whole page."""
    title, picture = escape(", ".join(run.name for run in runs)), io.BytesIO()
    draw(runs, picture, "svg")
    source = "data:image/svg+xml;base64," + base64.b64encode(picture.getvalue()).decode()
    style = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'"
    names = ["", *(run.name for run in runs)]
    memory = dict.fromkeys(name for run in runs for name in run.memory)
    times = [spent(run) if run.iterations else {} for run in runs]
    kinds = dict.fromkeys(what for of in times for what in of)
    texts = [[getattr(run, what) for run in runs] for what in ("settings", "versions")]
    sections = {
        "Results": _summary(runs),
        "Where the time went": _table(
            names, [[what, *(shown(of.get(what), in_seconds) for of in times)] for what in kinds]
        ),
        "Memory, as planned before the first row was read": _table(names, [
            *([name, *(shown(run.memory.get(name), in_bytes) for run in runs)] for name in memory),
            *([["in all", *(in_bytes(sum(run.memory.values())) for run in runs)]] if memory else []),
        ]),
        "Settings": "".join(_settings(names, of_runs) for of_runs in texts),
        "Figures": "".join(map(_figures, runs)),
    }  # fmt: skip
    body = "\n".join(f"<h2>{name}</h2>\n{text}" for name, text in sections.items() if text)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        f'<meta name="generator" content="blocksvm {__version__}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        f'<img alt="charts of the runs; their figures are in the tables below" src="{source}">\n'
        f"<p>Points with a mark are certified, the others estimates.</p>\n{body}\n</body>\n</html>\n"
    )


def in_bytes(value: float) -> str:
    """'1.2 GB': three digits and an SI prefix."""
    for power, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if value >= 10**power * 0.9995:
            return f"{value / 10**power:.3g} {prefix}B"
    return f"{value:.3g} B"


def in_seconds(value: float) -> str:
    scale, unit = (3600.0, "h") if value >= 7200.0 else (60.0, "min") if value >= 120.0 else (1.0, "s")
    return f"{value / scale:.3g} {unit}"


def percent(value: float) -> str:
    return f"{100.0 * value:.4g}%"


def shown(value: float | None, written: Callable[[float], str] = "{:.6g}".format) -> str:
    return "" if value is None else written(value)


def _table(head: Iterable[str], rows: Sequence[Sequence[str]], marked: Sequence[bool] = ()) -> str:
    """A table of texts, which are escaped, without columns that are empty; marked: emphasised rows."""
    if not rows:
        return ""
    wanted = [j for j in range(len(rows[0])) if j == 0 or any(row[j] for row in rows)]
    names = "".join(f'<th scope="col">{escape(name)}</th>' for j, name in enumerate(head) if j in wanted)
    lines = []
    for k, row in enumerate(rows):
        kind = ' class="differs"' if k < len(marked) and marked[k] else ""
        cells = "".join(f"<td>{escape(row[j])}</td>" for j in wanted[1:])
        lines.append(f'<tr{kind}><th scope="row">{escape(row[0])}</th>{cells}</tr>')
    return f"<div><table><thead><tr>{names}</tr></thead>\n<tbody>{''.join(lines)}</tbody></table></div>\n"


def last(run: TracedRun, of: Callable[[Iteration], float | None]) -> float | None:
    """The last figure of this kind that a run has."""
    return next((value for one in reversed(run.iterations) if (value := of(one)) is not None), None)


def _summary(runs: Sequence[TracedRun]) -> str:
    rows = []
    for run in runs:
        online = [learner[-1] for learner in run.online.values()]
        gap = run.gap if run.gap is not None else last(run, lambda one: one.gap if one.certified else None)
        rows.append([
            run.name, run.method, ENDS.get(run.status, run.status or ""), in_seconds(run.seconds),
            str(len(run.iterations) or ""), shown(gap, "{:.2e}".format),
            shown(last(run, lambda one: one.bytes_read or None), in_bytes),
            shown(last(run, lambda one: one.held_out), percent),
            ", ".join(f"{one.loss:.6g}" for one in online), ", ".join(map(_wrong, online)),
        ])  # fmt: skip
    return _table(["run", "solver", "state", "time", "iterations", "certified gap", "read", "held out", "average loss",
                   "mistakes"], rows)  # fmt: skip


def _wrong(one: OnlineLoss) -> str:
    return shown(one.mistakes, percent) if one.rmse is None else f"rmse {one.rmse:.6g}"


def _settings(names: list[str], of_runs: list[dict[str, str]]) -> str:
    """The settings of each run; those that differ come first, marked."""
    entries = [[name, *(of.get(name, "") for of in of_runs)] for name in dict.fromkeys(n for of in of_runs for n in of)]
    entries.sort(key=lambda entry: len(set(entry[1:])) == 1)
    return _table(names, entries, [len(set(entry[1:])) > 1 for entry in entries])


def _figures(run: TracedRun) -> str:
    """The numbers in the charts of a run."""
    parts = ""
    if run.iterations:
        head = ["iteration", "seconds", "primal", "dual", "gap", "certified", "held out", "read", "passes", "set rows",
                "set passes", "training", "waiting", "on the set", "workers", "sent", "requests"]  # fmt: skip
        parts += _details(f"{run.name}: outer iterations", head, [
            [str(one.number), f"{one.seconds:.3f}", shown(one.primal), shown(one.dual), shown(one.gap, "{:.3e}".format),
             "yes" if one.certified else "", shown(one.held_out, percent) or shown(one.held_out_rmse),
             in_bytes(one.bytes_read), shown(one.passes), shown(one.set_rows, "{:.0f}".format), shown(one.set_passes),
             in_seconds(one.training), in_seconds(one.waiting), shown(one.on_set or None, in_seconds),
             shown(one.workers or None, in_seconds), shown(one.sent or None, in_bytes), shown(one.requests or None)]
            for one in thinned(run.iterations, MOST_ROWS)
        ])  # fmt: skip
    for name, learner in run.online.items():
        rows = [
            [f"{one.rows:.0f}", f"{one.seconds:.3f}", shown(one.loss), _wrong(one)]
            for one in thinned(learner, MOST_ROWS)
        ]
        parts += _details(f"{run.name}: {name}", ["rows", "seconds", "average loss", "mistakes"], rows)
    return parts


def _details(name: str, head: list[str], rows: list[list[str]]) -> str:
    return f"<details><summary>{escape(name)}</summary>{_table(head, rows)}</details>\n"
