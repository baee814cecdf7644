"""Runs as one HTML page that needs nothing else, without script: a picture of the charts, and a table.  Traces are
untrusted: every text of one goes through ``escape``, the picture is data of an image, in which nothing runs, and the
page's policy fetches and runs nothing."""

import base64
import hashlib
import io
from collections.abc import Callable, Sequence
from html import escape

from blocksvm import __version__
from blocksvm.reporting.figure import draw
from blocksvm.reporting.runs import TracedRun

MARKED = ' class="differs"'
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
    title, picture = escape(", ".join(run.name for run in runs)), io.BytesIO()
    draw(runs, picture, "svg")
    source = "data:image/svg+xml;base64," + base64.b64encode(picture.getvalue()).decode()
    style = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{style}'; img-src data:; base-uri 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">\n'
        f'<meta name="generator" content="blocksvm {__version__}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        f'<img alt="charts of the runs" src="{source}">\n'
        f"<p>Points with a mark are certified, the others estimates.</p>\n{_table(runs)}</body>\n</html>\n"
    )


def percent(value: float) -> str:
    return f"{100.0 * value:.4g}%"


def shown(value: float | None, written: Callable[[float], str] = "{:.6g}".format) -> str:
    return "" if value is None else written(value)


def _table(runs: Sequence[TracedRun]) -> str:
    """A row for each result, then for each setting, those that differ first and marked; a column for each run."""
    from matplotlib.ticker import EngFormatter

    in_bytes = EngFormatter("B", places=2)
    results = {
        "solver": lambda run: run.method,
        "state": lambda run: run.status or "going on, or killed",
        "time": lambda run: f"{run.seconds:.3g} s",
        "iterations": lambda run: str(len(run.iterations) or ""),
        "certified gap": lambda run: shown(run.gap, "{:.2e}".format),
        "read": lambda run: shown(last(run, "bytes_read") or None, in_bytes),
        "requests": lambda run: shown(last(run, "requests") or None),
        "held out": lambda run: shown(last(run, "valid_accuracy"), percent),
        "average loss": lambda run: ", ".join(f"{learner[-1]['loss']:.6g}" for learner in run.online.values()),
        "mistakes": lambda run: ", ".join(_wrong(learner[-1]) for learner in run.online.values()),
        "memory planned": lambda run: shown(run.memory or None, in_bytes),
    }
    rows = [(name, [of(run) for run in runs], False) for name, of in results.items()]
    names = dict.fromkeys(name for run in runs for name in run.settings)
    settings = [(name, [run.settings.get(name, "") for run in runs]) for name in names]
    differing = [(name, values, len(set(values)) > 1) for name, values in settings]
    rows += sorted(differing, key=lambda row: not row[2])
    head = "".join(f'<th scope="col">{escape(run.name)}</th>' for run in runs)
    lines = [
        f'<tr{MARKED if differs else ""}><th scope="row">{escape(name)}</th>'
        + "".join(f"<td>{escape(value)}</td>" for value in values) + "</tr>"
        for name, values, differs in rows if any(values)
    ]  # fmt: skip
    return f"<div><table><thead><tr><th></th>{head}</tr></thead>\n<tbody>{''.join(lines)}</tbody></table></div>\n"


def last(run: TracedRun, name: str) -> float | None:
    """The last figure of this name that a run has."""
    return next((value for one in reversed(run.iterations) if (value := one.get(name)) is not None), None)


def _wrong(one: dict[str, float]) -> str:
    return f"rmse {one['error']:.6g}" if "error" in one else shown(one.get("share_wrong"), percent)
