"""The page of runs: what it shows, that it needs nothing else, that a trace's texts stay texts, and who may see it."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from support.training_cases import make_store, random_rows

from blocksvm import InputError, fit
from blocksvm.model.events import UNTRACED
from blocksvm.reporting.figure import charts_of, spent
from blocksvm.reporting.page import page_of
from blocksvm.reporting.runs import distinct_names, load_runs
from blocksvm.store.reader import Store

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

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, tag

    def handle_data(self, data):
        self.texts.setdefault(self.open[-1] if self.open else "", []).append(data)


@pytest.mark.slow
def test_a_page_shows_what_a_run_did(tmp_path, trace, events, succeeds, refusal):
    page = tmp_path / "report.html"
    assert f"written to {page}" in succeeds("report", trace, "-o", page).out
    parsed = Parsed(page.read_text())
    assert parsed.tags.count("table") == 1 and {"certified gap", "memory planned", "tol"} <= set(parsed.texts["th"])
    end = events[-1]
    assert f"{end['rel_gap']:.2e}" in parsed.texts["td"]
    assert "exists already" in refusal("report", trace, "-o", page)
    succeeds("report", trace, "-o", page, "--overwrite")
    assert "nothing to make" in refusal("report", trace)


def test_bytes_have_a_place_where_there_are_some(tmp_path, events):
    told = [event | {"bytes_read": 1000} if event["event"] == "outer" else event for event in events]
    (run,) = load_runs([written(tmp_path / "run.jsonl", told)])
    n = len(run.iterations)
    assert [one["bytes_read"] for one in run.iterations] == [1000.0 * k for k in range(1, n + 1)]
    drawn = {(chart.title, chart.x): curves for chart, curves in charts_of([run])}
    (curve,) = drawn["gap", "bytes read"]
    assert curve.points == [(one["bytes_read"], one["gap"], one["certified"]) for one in run.iterations if one["gap"]]
    for later in (0, 1000):  # nothing read, or all at first and nothing later
        none = [event | {"bytes_read": later * (event["event"] == "outer" and event["outer"] == 1)} for event in events]
        assert "bytes read" not in {chart.x for chart, _ in charts_of(load_runs([written(tmp_path / "n.jsonl", none)]))}


@pytest.mark.slow
def test_runs_beside_each_other(tmp_path, events):
    other = [events[0] | {"C": 7.5, "store": "another"}, *events[1:]]
    paths = [written(tmp_path / "one.jsonl", events), written(tmp_path / "two.jsonl", other)]
    runs = load_runs([*paths, written(tmp_path / "stream.jsonl", STREAM)])
    parsed = Parsed(page_of(runs))
    assert {"C", "store"} <= set(parsed.texts["th"]) and "7.5" in parsed.texts["td"]
    assert ("tr", "class", "differs") in parsed.attributes
    curves = {(chart.title, one.label): one.points for chart, found in charts_of(runs) for one in found}
    assert curves["average loss", "stream, arow"] == [(rows, 0.25, True) for rows in (1.0, 2.0, 4.0, 8.0)]
    assert curves["mistakes", "stream, pa1"][-1] == (8.0, 0.25, True)
    assert curves["gap", "one"] == curves["gap", "two"]
    assert distinct_names(["a/b/run.jsonl"]) == ["run"]
    assert distinct_names(["a/b/run.jsonl", "a/c/run.jsonl"]) == ["b/run", "c/run"]
    assert distinct_names(["x.jsonl", "x.jsonl"]) == ["x (1)", "x (2)"]


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
    assert not {"script", "b", "iframe", "object", "link", "a", "form"} & set(parsed.tags)
    assert parsed.tags.count("img") == 1
    assert not [name for _, name, _ in parsed.attributes if name.startswith("on") or name in ("href", "style")]
    (source,) = [value for _, name, value in parsed.attributes if name == "src"]
    picture = base64.b64decode(source.removeprefix("data:image/svg+xml;base64,")).decode()
    assert "<script" not in picture and "<img" not in picture and ElementTree.fromstring(picture) is not None
    assert any(EVIL in one for one in parsed.texts["td"])
    # and if one did slip through, the page's policy runs no script
    (policy,) = [value for tag, name, value in parsed.attributes if tag == "meta" and value and "default-src" in value]
    assert "default-src 'none'" in policy and "script-src" not in policy and "unsafe" not in policy
    assert not re.search(r"https?://|@import|url\(", text)  # nothing is fetched
    style = base64.b64encode(hashlib.sha256(parsed.texts["style"][0].encode()).digest()).decode()
    assert f"style-src 'sha256-{style}'" in policy


@pytest.mark.parametrize(
    ("line", "words"),
    [("nonsense", "is not a line of a trace"), ("[" * 100_000, "is not a line of a trace"),
     *((f'{{"event": "outer", "{key}": {value}}}', f"- at `$.{key}") for key, value in (
         ("seconds", '"soon"'), ("seconds", "NaN"), ("seconds", "1" + "0" * 400), ("seconds", "-1"),
         ("set_passes", "[1.5]"))),
     ('{"event": "start", "memory_plan": {"x": "much"}}', "- at `$.memory_plan[...]`"),
     ('{"event": "progress", "cumulative_loss": 1, "learners": {"pa": 1}}', "- at `$.learners[...]`")],
)  # fmt: skip
def test_a_bad_line_is_named(tmp_path, events, refusal, line, words):
    path = written(tmp_path / "bad.jsonl", [*events[:2], line])
    told = refusal("report", path, "-o", tmp_path / "page.html")
    assert f"{path}:3: " in told and words in told
    assert not (tmp_path / "page.html").exists()


def test_a_line_that_is_half_written_is_left_out(tmp_path, events, trace):
    (whole,) = load_runs([written(tmp_path / "whole.jsonl", events[:-1])])
    (cut,) = load_runs([written(tmp_path / "cut.jsonl", [*events[:-1], json.dumps(events[-1])[:40]], end="")])
    assert (cut.iterations, cut.gap) == (whole.iterations, events[-1]["rel_gap"])
    assert (cut.status, load_runs([trace])[0].status) == (None, "converged")


@pytest.mark.slow
def test_any_events_make_a_page(tmp_path):
    """Of iterations that tell next to nothing, of one alone, and of many."""
    few = [{"event": "start"},
           {"event": "outer", "outer": 1, "seconds": 0.0, "rel_gap": 0.0, "primal": -1.0, "dual": 0}]  # fmt: skip
    outer = {"event": "outer", "blocks": 3}
    many = [outer | {"outer": k, "seconds": 1e-3 * k, "gap_estimate": 0.5 / k} for k in range(1, 5000)]
    for name, told in (("few", few), ("many", many), ("end", [{"event": "end", "status": "x", "seconds": 1e300}])):
        text = page_of(load_runs([written(tmp_path / f"{name}.jsonl", [{"event": "start", "C": 1}, *told])]))
        Parsed(text)
        assert len(text) < 300_000
    for text, words in (("", "holds no run"), ('{"event": "other"}\n', "Invalid enum value 'other'")):
        (tmp_path / "empty.jsonl").write_text(text)
        with pytest.raises(InputError, match=words):
            load_runs([tmp_path / "empty.jsonl"])
    with pytest.raises(InputError, match="no such file"):
        load_runs([tmp_path / "nowhere.jsonl"])


def test_all_seconds_are_accounted_for(tmp_path, events):
    (run,) = load_runs([written(tmp_path / "run.jsonl", events)])
    seconds = spent(run)
    assert seconds["training"] > 0.0
    meanwhile = seconds["reading"] + seconds["decoding"]
    assert sum(seconds.values()) - meanwhile == pytest.approx(run.iterations[-1]["seconds"])


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_a_picture(tmp_path, events, kind, begins, refusal, succeeds):
    odd = written(tmp_path / "_$x$.jsonl", [events[0] | {"C": 2.0}, *events[1:]])
    pictures = [tmp_path / f"{k}.{kind}" for k in range(2)]
    for picture in pictures:
        line = odd, written(tmp_path / "s.jsonl", STREAM), "--figure", picture
        succeeds("report", *line)
    assert pictures[0].read_bytes().startswith(begins) and len({one.read_bytes() for one in pictures}) == 1
    assert "name a file that ends in .png, .svg, .pdf" in refusal("report", odd, "--figure", tmp_path / "runs.gif")
