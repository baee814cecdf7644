"""Runs as one HTML page that needs nothing else: its style and script are in it, and nothing is fetched.

Traces are untrusted: every text of one goes through ``escape``, and the page's policy runs one script only, given by
its hash.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from html import escape
from importlib.resources import files

from blocksvm import __version__
from blocksvm.reporting.charts import (
    Chart,
    in_bytes,
    in_seconds,
    number,
    percent,
    progress_charts,
    working_charts,
)
from blocksvm.reporting.runs import Iteration, OnlineLoss, TracedRun, thinned
from blocksvm.reporting.svg import COLOURS, IDLE, READS, REST, TRAINS, drawn, timeline

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


def page_of(runs: Sequence[TracedRun]) -> str:
    """The whole page."""
    style, script = (files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    title = escape(", ".join(run.name for run in runs))
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'"
    sections = [
        ("", _summary(runs)),
        ("Progress", _charts(progress_charts(runs))),
        ("Where the time went", _timelines(runs)),
        ("Working set and passes", _charts(working_charts(runs))),
        ("Memory", _memory(runs)),
        ("Settings", _settings(runs)),
        ("Figures", _figures(runs)),
    ]
    body = "\n".join((f"<h2>{name}</h2>\n" if name else "") + text for name, text in sections if text)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        f'<meta name="generator" content="blocksvm {__version__}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        f"{_legend(runs)}\n{body}\n<p>Made by blocksvm {__version__}.</p>\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def colour(k: int) -> str:
    """The CSS class of the run of this number."""
    return f"c{k % COLOURS}"


def _swatch(name: str) -> str:
    return f'<svg viewBox="0 0 14 8" aria-hidden="true"><rect class="{name}" width="14" height="8"/></svg>'


def _legend(runs: Sequence[TracedRun]) -> str:
    entries = (
        f'<li><span class="{colour(k)}">{_swatch("swatch")}</span>{escape(run.name)}</li>' for k, run in enumerate(runs)
    )
    return f'<ul class="legend">{"".join(entries)}</ul>'


def _table(head: Iterable[str], rows: Iterable[Sequence[str]], words: bool = False, marked: Sequence[bool] = ()) -> str:
    """A table of texts, which are escaped; marked: emphasised rows."""
    columns, lines = [escape(name) for name in head], []
    for k, cells in enumerate(rows):
        kind = ' class="differs"' if k < len(marked) and marked[k] else ""
        first, *others = map(escape, cells)
        # a narrow screen shows a line for each cell, with its column's name
        named = zip(columns[1:], others, strict=True)
        others = [f'<td data-column="{column}">{cell}</td>' for column, cell in named]
        lines.append(f'<tr{kind}><th scope="row">{first}</th>{"".join(others)}</tr>')
    names = "".join(f'<th scope="col">{column}</th>' for column in columns)
    return (
        f'<div class="scrolled"><table{" class=words" if words else ""}><thead><tr>{names}</tr></thead>\n<tbody>'
        + "\n".join(lines)
        + "</tbody></table></div>"
    )


def _charts(charts: list[Chart]) -> str:
    figures = []
    for chart in charts:
        note = f"<figcaption>{escape(chart.note)}</figcaption>" if chart.note else ""
        figures.append(f"<figure><h3>{escape(chart.title)}</h3>\n{drawn(chart)}\n{note}</figure>")
    return f'<div class="charts">\n{"".join(figures)}\n</div>' if figures else ""


def shown(value: float | None, written: Callable[[float], str] = number) -> str:
    return "" if value is None else written(value)


def _last(run: TracedRun, of: Callable[[Iteration], float | None]) -> float | None:
    return next((value for one in reversed(run.iterations) if (value := of(one)) is not None), None)


def _summary(runs: Sequence[TracedRun]) -> str:
    """The state and results of each run."""
    rows = []
    for run in runs:
        gap = run.gap if run.gap is not None else _last(run, lambda one: one.gap if one.certified else None)
        online = [learner[-1] for learner in run.online.values()]
        rows.append([
            run.name, run.method, ENDS.get(run.status, run.status or ""), in_seconds(run.seconds),
            shown(float(len(run.iterations)) if run.iterations else None), shown(gap, lambda value: f"{value:.2e}"),
            shown(_last(run, lambda one: one.bytes_read or None), in_bytes),
            shown(_last(run, lambda one: one.held_out), percent),
            ", ".join(f"{one.loss:.6g}" for one in online), ", ".join(map(_wrong, online)),
        ])  # fmt: skip
    head = ["run", "solver", "state", "time", "iterations", "certified gap", "read", "held out",
            "average loss", "mistakes"]  # fmt: skip
    wanted = [j for j in range(len(head)) if j < 4 or any(row[j] for row in rows)]
    return _table([head[j] for j in wanted], [[row[j] for j in wanted] for row in rows])


def _wrong(one: OnlineLoss) -> str:
    return shown(one.mistakes, percent) if one.rmse is None else f"rmse {one.rmse:.6g}"


def _timelines(runs: Sequence[TracedRun]) -> str:
    timed = [run for run in runs if any(one.lasted > 0.0 for one in run.iterations)]
    if not timed:
        return ""
    kinds = [*TRAINS, (*REST, None), *READS]
    legend = "".join(f"<li>{_swatch(name)}{what}</li>" for name, what, _ in kinds)
    figures = "".join(f"<figure><h3>{escape(run.name)}</h3>\n{timeline(run)}</figure>" for run in timed)
    totals = []
    for _, what, seconds in kinds:
        cells = []
        for run in timed:
            lasted = sum(one.lasted for one in run.iterations)
            if seconds is None:
                spent = lasted - sum(of(one) for one in run.iterations for *_, of in TRAINS)
            else:
                spent = sum(map(seconds, run.iterations))
            cells.append(f"{in_seconds(max(0.0, spent))} ({percent(round(max(0.0, spent) / max(lasted, 1e-12), 3))})")
        totals.append([what, *cells])
    note = (
        "<p>Above what the thread that trains does in each outer iteration, below what the threads that read do "
        f"meanwhile ({IDLE[1]}: nothing drawn). Traces of older versions do not tell the latter.</p>"
    )
    head = ["", *(run.name for run in timed)]
    return f'{note}<ul class="legend">{legend}</ul><div class="timelines">{figures}</div>{_table(head, totals)}'


def _memory(runs: Sequence[TracedRun]) -> str:
    names = list(dict.fromkeys(name for run in runs for name in run.memory))
    if not names:
        return ""
    rows = [[name, *(shown(run.memory.get(name), in_bytes) for run in runs)] for name in names]
    rows.append(["in all", *(in_bytes(sum(run.memory.values())) for run in runs)])
    return "<p>As planned before the first row was read.</p>" + _table(
        ["", *(run.name for run in runs)], rows, marked=[False] * len(names) + [True]
    )


def _settings(runs: Sequence[TracedRun]) -> str:
    """The settings and versions of each run; those that differ come first, marked."""
    tables = []
    for what in ("settings", "versions"):
        names = list(dict.fromkeys(name for run in runs for name in getattr(run, what)))
        entries = [(name, [getattr(run, what).get(name, "") for run in runs]) for name in names]
        differs = {name: len(set(values)) > 1 for name, values in entries}
        entries.sort(key=lambda entry: not differs[entry[0]])
        rows, marked = [[name, *values] for name, values in entries], [differs[name] for name, _ in entries]
        if rows:
            tables.append(_table(["", *(run.name for run in runs)], rows, words=True, marked=marked))
    note = "<p>What differs between the runs stands first.</p>" if len(runs) > 1 else ""
    return note + "\n".join(tables) if tables else ""


def _figures(runs: Sequence[TracedRun]) -> str:
    """The numbers in the charts."""
    parts = []
    for run in runs:
        if run.iterations:
            head = ["iteration", "seconds", "primal", "dual", "gap", "certified", "held out", "read", "passes",
                    "set rows", "set passes", "training", "waiting"]  # fmt: skip
            on_cluster = any(one.sent for one in run.iterations)
            head += ["on the set", "workers", "sent"] if on_cluster else []
            of_objects = any(one.requests for one in run.iterations)
            head += ["requests"] if of_objects else []
            rows = [
                [str(one.number), f"{one.seconds:.3f}", shown(one.primal), shown(one.dual),
                 shown(one.gap, lambda value: f"{value:.3e}"), "yes" if one.certified else "",
                 shown(one.held_out, percent) or shown(one.held_out_rmse), in_bytes(one.bytes_read), shown(one.passes),
                 shown(one.set_rows, lambda value: f"{value:.0f}"), shown(one.set_passes), in_seconds(one.training),
                 in_seconds(one.waiting),
                 *([in_seconds(one.on_set), in_seconds(one.workers), in_bytes(one.sent)] if on_cluster else []),
                 *([f"{one.requests:.0f}"] if of_objects else [])]
                for one in thinned(run.iterations, MOST_ROWS)
            ]  # fmt: skip
            parts.append(_details(f"{run.name}: outer iterations", _table(head, rows)))
        for name, learner in run.online.items():
            points = thinned(learner, MOST_ROWS)
            rows = [[f"{one.rows:.0f}", f"{one.seconds:.3f}", shown(one.loss), _wrong(one)] for one in points]
            head = ["rows", "seconds", "average loss", "mistakes"]
            parts.append(_details(f"{run.name}: {name}", _table(head, rows)))
    return "\n".join(parts)


def _details(name: str, text: str) -> str:
    return f"<details><summary>{escape(name)}</summary>{text}</details>"
