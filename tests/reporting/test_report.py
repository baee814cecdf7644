"""The page of runs: what it shows, that it needs nothing else, that a trace's texts stay texts, and who may see it."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from support.training_cases import make_store, random_rows, run_in_process

from blocksvm.api.fit import fit
from blocksvm.base.errors import InputError
from blocksvm.commands.report import main
from blocksvm.model.events import UNTRACED
from blocksvm.reporting import charts
from blocksvm.reporting.charts import in_bytes, in_seconds
from blocksvm.reporting.page import page_of
from blocksvm.reporting.runs import distinct_names, load_run, load_runs
from blocksvm.reporting.svg import HALF_A_LETTER, LANES_WIDTH, MOST_SPANS, WIDTH, drawn, merged, timeline
from blocksvm.store.reader import Store

FOLDER = Path(page_of.__code__.co_filename).parent
EVIL = "\"><script>alert(1)</script>'&<img src=x onerror=alert(2)>"
STREAM = [
    {"event": "start", "learner": "pa1,arow", "learners": {"pa1": {"C": 1.0}, "arow": {"r": 1.0}},
     "memory_plan": {"text": 10**6}},
    *({"event": "progress", "rows": n, "cumulative_loss": 0.5 * n, "mistakes": n // 3, "squared_errors": None,
       "seconds": 0.01 * n,
       "learners": {name: {"rows": n, "cumulative_loss": loss * n, "mistakes": n // 3, "squared_errors": None}
                    for name, loss in (("pa1", 0.5), ("arow", 0.25))}} for n in (1, 2, 4, 8)),
]  # fmt: skip


def written(path, events, end="\n"):
    path.write_text("\n".join(event if isinstance(event, str) else json.dumps(event) for event in events) + end)
    return path


@pytest.fixture(scope="module")
def events(tmp_path_factory):
    path, found = tmp_path_factory.mktemp("report"), []
    path = make_store(path, *random_rows(n=200, d=30, seed=71, dtype=np.float32), chunk_nonzeros=128)
    with Store(path) as store, Store(path) as valid:
        fit(store, tol=1e-3, memory=10**7, valid=valid, on_event=found.append)
    return [event for event in found if event["event"] not in UNTRACED]


@pytest.fixture
def trace(tmp_path, events):
    return written(tmp_path / "run.jsonl", events)


class Parsed(HTMLParser):
    """A page's elements; fails where a tag is not closed, or closed twice."""

    VOID = ("meta", "br", "img", "link", "input")

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.attributes, self.texts = [], [], [], {}
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attributes]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attributes]

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)


def test_a_page_shows_what_a_run_did(tmp_path, trace, events, capsys):
    page = tmp_path / "report.html"
    code, out, err = run_in_process(capsys, main, trace, "-o", page)
    assert (code, err) == (0, "")
    assert f"written to {page}" in out
    parsed = Parsed(page.read_text())
    titles = parsed.texts["h3"]
    assert {f"{what} against time" for what in ("Gap", "Primal and dual", "Accuracy")} <= set(titles)
    assert "Gap against bytes read" not in titles  # rows that stay in memory are read once
    headings = parsed.texts["h2"]
    assert headings == ["Progress", "Where the time went", "Working set and passes", "Memory", "Settings", "Figures"]
    end = events[-1]
    assert f"{end['rel_gap']:.2e}" in parsed.texts["td"]
    # the curve's last point is what was certified
    gaps = [text for text in parsed.texts["title"] if text.startswith("run: ")]
    last = [event for event in events if event["event"] == "outer" and event["rel_gap"] is not None][-1]
    assert any(text.startswith(f"run: {last['rel_gap']:.3g} (seconds ") for text in gaps)
    # its own file and kind of file is replaced, nothing else
    assert run_in_process(capsys, main, trace, "-o", page)[0] == 2
    assert run_in_process(capsys, main, trace, "-o", page, "--overwrite")[0] == 0
    other = tmp_path / "other.html"
    other.write_text("<!doctype html>\n<p>mine")
    assert "is not a report" in run_in_process(capsys, main, trace, "-o", other, "--overwrite")[2]


def test_bytes_have_a_place_where_there_are_some(tmp_path, events):
    told = [event | {"bytes_read": 1000} if event["event"] == "outer" else event for event in events]
    (run,) = load_runs([written(tmp_path / "run.jsonl", told)])
    n = len(run.iterations)
    assert [one.bytes_read for one in run.iterations] == [1000.0 * k for k in range(1, n + 1)]
    drawn = {one.title: one for one in charts.progress_charts([run])}
    points = drawn["Gap against bytes read"].series[0].points
    assert [point.x for point in points] == [one.bytes_read for one in run.iterations if one.gap]
    for later in (0, 1000):  # nothing read, or all at first and nothing later
        none = [event | {"bytes_read": later * (event["event"] == "outer" and event["outer"] == 1)} for event in events]
        drawn = charts.progress_charts(load_runs([written(tmp_path / "none.jsonl", none)]))
        assert "Gap against bytes read" not in {one.title for one in drawn}


def test_runs_beside_each_other(tmp_path, events):
    other = [events[0] | {"C": 7.5, "store": "another"}, *events[1:]]
    paths = [written(tmp_path / "one.jsonl", events), written(tmp_path / "two.jsonl", other)]
    stream = written(tmp_path / "stream.jsonl", STREAM)
    parsed = Parsed(page_of(load_runs([*paths, stream])))
    settings = parsed.texts["th"][parsed.texts["th"].index("store") - 12 :]
    assert {"C", "store"} <= set(settings)
    assert "7.5" in parsed.texts["td"]
    assert {"Average loss against rows", "Mistakes against time"} <= set(parsed.texts["h3"])
    points = parsed.texts["title"]
    assert "stream, arow: 0.25 (rows 8)" in points
    assert "stream, pa1: 0.5 (rows 1)" in points
    assert ("tr", "class", "differs") in parsed.attributes


def test_names_of_traces_are_told_apart():
    assert distinct_names(["a/b/run.jsonl"]) == ["run"]
    assert distinct_names(["a/b/run.jsonl", "a/c/run.jsonl"]) == ["b/run", "c/run"]
    assert distinct_names(["x.jsonl", "x.jsonl"]) == ["x (1)", "x (2)"]


def test_a_trace_tells_the_seconds_of_reading_and_of_decoding(events):
    first = next(event for event in events if event["event"] == "outer")
    assert first["seconds_decoding"] > 0.0
    assert first["seconds_reading"] > 0.0
    assert first["bytes_read"] > 0


# -- what a trace may hold -----------------------------------------------------------------------------------------


def test_a_text_of_a_trace_stays_a_text(tmp_path, events):
    """Whatever a trace says, the page has the same elements and the same one script."""
    start = events[0] | {"store": EVIL, EVIL: EVIL, "solver": EVIL, "memory_plan": {EVIL: 5}, "versions": {EVIL: EVIL}}
    end = events[-1] | {"status": EVIL}
    stream = [STREAM[0] | {"learners": {EVIL: {EVIL: EVIL}}}]
    stream += [event | {"learners": event["learners"] | {EVIL: event["learners"]["pa1"]}} for event in STREAM[1:]]
    paths = [written(tmp_path / "<script>alert(3)<b>.jsonl", [start, *events[1:-1], end])]
    paths.append(written(tmp_path / "stream.jsonl", stream))
    text = page_of(load_runs(paths))
    parsed = Parsed(text)
    assert parsed.tags.count("script") == 1
    assert parsed.texts["script"] == [(FOLDER / "page.js").read_text()]
    assert not {"img", "b", "iframe", "object", "link", "a", "form"} & set(parsed.tags)
    assert not [name for _, name, _ in parsed.attributes if name.startswith("on") or name in ("src", "href", "style")]
    assert any(EVIL in one for one in parsed.texts["td"]) and any(EVIL in one for one in parsed.texts["title"])
    # and if one did slip through, the page's policy runs no script but its own
    (policy,) = [value for tag, name, value in parsed.attributes if tag == "meta" and value and "script-src" in value]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r"https?://(?!www\.w3\.org)|@import|url\(", text)  # nothing is fetched


def test_the_policy_names_the_script_as_browsers_hash_it(trace):
    import base64
    import hashlib

    text = page_of(load_runs([trace]))
    for tag in ("script", "style"):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src &#x27;sha256-{digest}&#x27;" in text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nonsense", ":3: is not a line of a trace"),
        ('"event"', ":3: is not a line of a trace"),
        ("[" * 100_000, ":3: is not a line of a trace"),
        ('{"event": "outer", "outer": 1, "seconds": "soon"}', ":3: 'seconds' is not a number"),
        ('{"event": "outer", "outer": 1, "seconds": NaN}', ":3: 'seconds' is not a number"),
        ('{"event": "outer", "outer": 1, "seconds": 1' + "0" * 400 + "}", ":3: 'seconds' is not a number"),
        ('{"event": "outer", "outer": 1, "seconds": -1}', ":3: 'seconds' is below 0"),
        ('{"event": "outer", "outer": 1, "set_passes": [1.5]}', ":3: 'set_passes' is not a list of whole numbers"),
        ('{"event": "start", "memory_plan": {"x": "much"}}', ":3: 'x' is not a number"),
        ('{"event": "start", "memory_plan": 5}', ":3: 'memory_plan' is not an object"),
        ('{"event": "progress", "cumulative_loss": 1, "learners": {"pa": 1}}', ":3: 'pa' is not an object"),
    ],
)
def test_a_bad_line_is_named(tmp_path, events, capsys, line, words):
    path = written(tmp_path / "bad.jsonl", [*events[:2], line])
    code, out, err = run_in_process(capsys, main, path, "-o", tmp_path / "page.html")
    assert (code, out) == (2, "")
    assert f"{path}{words}" in err and err.count("\n") == 1
    assert not (tmp_path / "page.html").exists()


def test_a_line_that_is_half_written_is_left_out(tmp_path, events, trace):
    (whole,) = load_runs([written(tmp_path / "whole.jsonl", events[:-1])])
    (cut,) = load_runs([written(tmp_path / "cut.jsonl", [*events[:-1], json.dumps(events[-1])[:40]], end="")])
    assert cut.iterations == whole.iterations
    assert (cut.status, load_runs([trace])[0].status) == (None, "converged")


def test_the_figures_of_a_cluster_are_in_the_table(tmp_path, events):
    for on_cluster in (False, True):
        more = {"bytes_sent": 300_770_000, "bytes_received": 400_000_000, "seconds_workers": 1.25} if on_cluster else {}
        changed = [event | more if event["event"] == "outer" else event for event in events]
        text = page_of(load_runs([written(tmp_path / "run.jsonl", changed)]))
        assert (">workers<" in text, in_bytes(700.77e6) in text, in_seconds(1.25) in text) == (on_cluster,) * 3


def test_any_events_make_a_page(tmp_path):
    """Of iterations that tell next to nothing, of one alone, and of many."""
    few = [
        {"event": "start"},
        {"event": "outer", "outer": 1, "seconds": 0.0, "rel_gap": 0.0, "primal": -1.0, "dual": 0},
    ]
    many = [
        {"event": "outer", "outer": k, "seconds": 1e-3 * k, "gap_estimate": 0.5 / k, "blocks": 3}
        for k in range(1, 5000)
    ]
    for name, told in (("few", few), ("many", many), ("end", [{"event": "end", "status": "x", "seconds": 1e300}])):
        text = page_of(load_runs([written(tmp_path / f"{name}.jsonl", [{"event": "start", "C": 1}, *told])]))
        Parsed(text)
        assert len(text) < 300_000
    for text, words in (("", "holds no run"), ('{"event": "other"}\n', "holds no run")):
        (tmp_path / "empty.jsonl").write_text(text)
        with pytest.raises(InputError, match=words):
            load_runs([tmp_path / "empty.jsonl"])
    with pytest.raises(InputError, match="no such file"):
        load_runs([tmp_path / "nowhere.jsonl"])


# -- what is drawn -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("least", "most"), [(1e-9, 1.0), (0.3, 40.0), (1742.8, 1760.2), (5.0, 5.0001), (1e-300, 1e300)]
)
@pytest.mark.parametrize("log", [True, False])
def test_ticks_are_few_round_and_within_the_range(least, most, log):
    axis = charts.Axis("x", log)
    ticks = axis.ticks(least, most)
    assert 2 <= len(ticks) <= 8
    assert ticks == sorted(set(ticks))
    # but for rounding
    space = 1e-6 * (most - least)
    assert all(least - space <= tick <= most + space or axis.scaled(tick) <= axis.scaled(most) for tick in ticks)
    assert all(len(f"{tick:.6g}") <= 8 for tick in ticks)


def test_a_timeline_accounts_for_all_seconds(tmp_path, events):
    (run,) = load_runs([written(tmp_path / "run.jsonl", events)])
    spans = merged(run.iterations)
    assert [one for span in spans for one in span] == run.iterations
    assert len(merged(run.iterations * 1000)) <= 2 * MOST_SPANS
    assert sum(one.lasted for one in run.iterations) == pytest.approx(run.iterations[-1].seconds)
    assert any(one.training > 0.0 for one in run.iterations)


@pytest.mark.parametrize("factor", [1.0, 0.999, 0.99, 1.0 / 60.0, 1e-3, 7.0, 3600.0])
def test_labels_along_x_lie_within_the_drawing_and_apart(tmp_path, events, factor):
    # a run that ends where a tick is, and a little before and after it
    last = [event for event in events if event["event"] == "outer"][-1]["seconds"]
    factor *= 30.0 / last
    events = [event | {"seconds": event["seconds"] * factor} if "seconds" in event else event for event in events]
    (run,) = load_runs([written(tmp_path / "run.jsonl", events)])
    drawings = [(timeline(run), LANES_WIDTH), *((drawn(chart), WIDTH) for chart in charts.progress_charts([run]))]
    assert len(drawings) >= 4
    for drawing, width in drawings:
        along = re.findall(r'<text x="([\d.]+)" y="(\d+)" text-anchor="middle">([^<]+)</text>', drawing)
        last = max(int(y) for _, y, text in along if text[0].isdigit())
        labels = [(float(x), HALF_A_LETTER * len(text)) for x, y, text in along if int(y) == last]
        assert len(labels) >= 2
        assert all(x - half >= -0.1 and x + half <= width + 0.1 for x, half in labels)
        assert all(x + half < y - other for (x, half), (y, other) in itertools.pairwise(labels))


def luminance(colour):
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    """As the Web Content Accessibility Guidelines define it."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_colours_read_in_light_in_dark_and_on_paper():
    style = (FOLDER / "page.css").read_text()
    schemes = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", part)) for part in style.split(":root")[1:]]
    assert len(schemes) == 3
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    for scheme in schemes:
        for ground in ("ground", "raised"):
            for name in ("text", "faint"):
                assert contrast(scheme[name], scheme[ground]) >= 4.5, name
            for name in (
                "axis",
                "training",
                "on-set",
                "waiting",
                "rest",
                "reading",
                "decoding",
                *(f"c{k}" for k in range(8)),
            ):
                assert contrast(scheme[name], scheme[ground]) >= 3.0, name
    assert set(re.findall(r"var\(--([\w-]+)\)", style)) <= set(schemes[0])
    assert "@media print" in style and "prefers-color-scheme: dark" in style


NODE = shutil.which("node")


@pytest.mark.process
@pytest.mark.skipif(NODE is None, reason="needs node")
def test_the_script_finds_the_nearest_point_and_keeps_its_words_on_the_page():
    asked = """
const { nearest, beside, begin } = require(process.argv[1]);
const points = [{ x: 0, y: 0, text: "a" }, { x: 10, y: 0, text: "b" }];
// a page as far as the script knows one
const heard = {};
const mark = (text) => ({ tagName: "circle", classList: { add() {}, remove() {} }, getAttribute: (name) => (name === "cx" ? 50 : 60),
  querySelector: () => ({ textContent: text, remove() {} }) });
const svg = { viewBox: { baseVal: { width: 440 } }, getBoundingClientRect: () => ({ width: 220, left: 0, top: 0 }),
  querySelectorAll: () => [mark("<b>gap</b>")], addEventListener: (name, what) => { heard[name] = what; } };
const tip = { style: {}, getBoundingClientRect: () => ({ width: 100, height: 20 }) };
globalThis.innerWidth = 320; globalThis.innerHeight = 200;
begin({ createElement: () => tip, body: { append() {} }, querySelectorAll: () => [svg] });
heard.pointermove({ clientX: 26, clientY: 31 });
const shown = [tip.textContent, tip.hidden];
heard.pointermove({ clientX: 200, clientY: 190 });
console.log(JSON.stringify([nearest(points, 6, 1, 30).text, nearest(points, 60, 0, 30), beside(310, 190, 100, 20, 320, 200),
  ...shown, tip.hidden]));
"""  # noqa: E501
    done = subprocess.run([NODE, "-e", asked, FOLDER / "page.js"], capture_output=True, text=True)
    assert done.stderr == ""
    assert json.loads(done.stdout) == ["b", None, [216, 160], "<b>gap</b>", False, True]


@pytest.mark.slow
def test_a_picture(tmp_path, events, capsys):
    pytest.importorskip("matplotlib")
    odd = written(tmp_path / "_$x$.jsonl", [events[0] | {"C": 2.0}, *events[1:]])
    picture = tmp_path / "runs.png"
    code, _, err = run_in_process(capsys, main, odd, written(tmp_path / "s.jsonl", STREAM), "--figure", picture)
    assert (code, err) == (0, "")
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_curves_of_a_picture_are_told_apart(tmp_path, events):
    """Of equal ones too: by colour, marker and width; the legend is there once, and the grid has no holes."""
    pytest.importorskip("matplotlib")
    from blocksvm.reporting.trace_figure import figure_of

    names = ["first", "second", "stream"]
    runs = [load_run(written(tmp_path / f"{name}.jsonl", events), name) for name in names[:2]]
    runs.append(load_run(written(tmp_path / "stream.jsonl", STREAM), "stream"))
    figure = figure_of(runs)
    [legend] = figure.legends
    told = [text.get_text() for text in legend.get_texts()]
    assert told[:2] == names[:2] and len(told) == len(set(told)) > 2
    for axes in figure.axes:
        assert axes.get_legend() is None and axes.lines
        looks = {
            (line.get_color(), line.get_marker(), line.get_linewidth(), line.get_linestyle()) for line in axes.lines
        }
        assert len(looks) == len(axes.lines)
        first = [line for line in axes.lines if line.get_color() == axes.lines[0].get_color()]
        assert all(line.get_linewidth() > other.get_linewidth() for line in first for other in axes.lines
                   if other not in first and other.get_zorder() > line.get_zorder())  # fmt: skip
    rows = {}
    for axes in figure.axes:
        place = axes.get_subplotspec()
        rows.setdefault(place.rowspan.start, []).append((place.colspan.start, place.colspan.stop))
    for spans in rows.values():
        assert spans[0][0] == 0 and spans[-1][1] == figure.axes[0].get_gridspec().ncols
        assert all(before[1] == after[0] for before, after in zip(spans, spans[1:], strict=False))


def test_what_was_not_asked_for(trace, capsys):
    code, _, err = run_in_process(capsys, main, trace)
    assert code == 2 and "nothing to make" in err


def test_a_trace_is_a_table_of_pandas_in_one_line(trace, events):
    pandas = pytest.importorskip("pandas")
    table = pandas.read_json(trace, lines=True)
    outer = table[table["event"] == "outer"]
    assert len(outer) == sum(event["event"] == "outer" for event in events)
    assert outer["rel_gap"].dropna().iloc[-1] == pytest.approx(events[-1]["rel_gap"])


@pytest.mark.parametrize(
    "axis", [charts.SHARE, charts.GAP, charts.SECONDS, charts.BYTES, charts.OBJECTIVE, charts.ROWS]
)
@pytest.mark.parametrize("width", [0.5, 1e-2, 1e-4, 1e-6])
def test_ticks_differ_as_texts(axis, width):
    """Accuracies of 93.851 % to 93.853 % have five digits, and other figures theirs."""
    least, most = axis.range_of([0.93851, 0.93851 * (1 + width)])
    ticks = charts.round_numbers(least, most)
    texts = axis.tick_texts(ticks)
    assert len(set(texts)) == len(texts) == len(ticks) >= 2
    assert charts.SHARE.tick_texts([0.9385, 0.93852, 0.93854]) == ["93.85%", "93.852%", "93.854%"]
    assert charts.SHARE.tick_texts([0.5, 0.75, 1.0]) == ["50%", "75%", "100%"]
