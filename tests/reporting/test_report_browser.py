"""The page of runs in a real browser: what a screen, a phone and paper show of it, and that it follows a run."""

from __future__ import annotations

import json
import re
from itertools import combinations

import numpy as np
import pytest
from support import browser
from support.training_cases import make_store, random_rows

from blocksvm.api.fit import fit
from blocksvm.model.events import UNTRACED
from blocksvm.reporting.charts import progress_charts, working_charts
from blocksvm.reporting.page import page_of
from blocksvm.reporting.runs import load_runs
from blocksvm.store.reader import Store

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(browser.found() is None, reason="no browser is installed (tools/browser loads one)"),
]
SCREEN, PHONE, PAPER = (1280, 800), (375, 700), (718, 1000)
LEAST_CONTRAST, LEAST_LETTERS = 4.5, 12.0

# Each text that is shown: what it says, its colour and the colour that it stands on as [r, g, b], the height of its
# letters and its box, both in CSS pixels as they are on the screen.
TEXTS = """
(() => {
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const seen = (parts) => parts.length < 4 || parts[3] > 0;
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest("script, style, title") || !element.checkVisibility()) continue;
    const style = getComputedStyle(element), drawn = element instanceof SVGElement;
    let ground = [255, 255, 255];
    for (let under = element; under; under = under.parentElement) {
      const colour = parts(getComputedStyle(under).backgroundColor);
      if (seen(colour)) { ground = colour; break; }
    }
    const range = document.createRange();
    range.selectNodeContents(node);
    const box = range.getBoundingClientRect();
    found.push({ text: node.data.trim(), ground: ground.slice(0, 3),
      colour: parts(drawn ? style.fill : style.color).slice(0, 3),
      letters: parseFloat(style.fontSize) * (drawn ? element.getScreenCTM().a : 1),
      box: [box.left, box.top, box.right, box.bottom] });
  }
  return found;
})()
"""
# Each chart and timeline: its title, the boxes of itself, of its curves and of its labels.
DRAWN = """
[...document.querySelectorAll("figure")].map((figure) => {
  const box = (element) => { const b = element.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom]; };
  const svg = figure.querySelector("svg");
  return { title: figure.querySelector("h3").textContent, box: box(svg),
    curves: [...svg.querySelectorAll(".curve, rect")].map(box),
    labels: [...svg.querySelectorAll("text")].map((text) => ({ text: text.textContent, box: box(text) })) };
})
"""
WIDE = "[document.documentElement.scrollWidth, innerWidth]"


def contrast(colour, ground) -> float:
    """As the Web Content Accessibility Guidelines define it; colours as (r, g, b) up to 255."""

    def luminance(parts):
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in parts)]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(colour), luminance(ground)))
    return (high + 0.05) / (low + 0.05)


def meet(one, other) -> bool:
    """Two boxes (left, top, right, bottom) share more than a pixel both ways."""
    return min(one[2], other[2]) - max(one[0], other[0]) > 1 and min(one[3], other[3]) - max(one[1], other[1]) > 1


def within(inner, outer) -> bool:
    return all(inner[k] >= outer[k] - 1 for k in (0, 1)) and all(inner[k] <= outer[k] + 1 for k in (2, 3))


def trace(path, events):
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return path


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    """Two trainings of different C, as if read from disk each time, and a stream of two learners."""
    folder, paths = tmp_path_factory.mktemp("page"), []
    store_path = make_store(folder, *random_rows(n=200, d=30, seed=71, dtype=np.float32), chunk_nonzeros=128)
    for name, C, end in (("narrow", 1.0, 0.03), ("wide", 0.1, 0.02)):
        events = []
        with Store(store_path) as store, Store(store_path) as valid:
            fit(store, C=C, tol=1e-3, memory=10**7, valid=valid, on_event=events.append)
        # as long as a round number of seconds, so that the last tick is where the drawing ends
        last = next(event["seconds"] for event in reversed(events) if event["event"] == "outer")
        events = [
            event | {"bytes_read": 12_500, "seconds": event["seconds"] * end / last}
            if event["event"] == "outer"
            else event
            for event in events
        ]
        paths.append(trace(folder / f"{name}.jsonl", [event for event in events if event["event"] not in UNTRACED]))
    events = [{"event": "start", "learner": "pa1,arow", "learners": {"pa1": {"C": 1.0}, "arow": {"r": 1.0}}}]
    for k in range(12):
        n = 2**k
        learners = {
            name: {"rows": n, "cumulative_loss": loss * n**0.9, "mistakes": int(loss * n**0.8), "squared_errors": None}
            for name, loss in (("pa1", 0.5), ("arow", 0.25))
        }
        events.append({"event": "progress", "seconds": 0.01 * n, "learners": learners} | learners["pa1"])
    return [*paths, trace(folder / "stream.jsonl", events)]


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with browser.Browser(browser.found(), tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def page(traces, chromium):
    """The report of the traces, open; titles: of the charts and timelines that it should show."""
    runs = load_runs(traces)
    path = traces[0].with_name("report.html")
    path.write_text(page_of(runs), encoding="utf-8")
    opened = chromium.page()
    opened.show(*SCREEN)
    opened.open(path.as_uri())
    opened.titles = [chart.title for chart in progress_charts(runs)] + ["narrow", "wide"]
    opened.titles += [chart.title for chart in working_charts(runs)]
    return opened


def check_drawn(page) -> None:
    """Every chart is there, within its figure, with curves inside and labels that can be told from each other."""
    drawn = page.value(DRAWN)
    assert [one["title"] for one in drawn] == page.titles
    for one in drawn:
        (left, top, right, bottom), title = one["box"], one["title"]
        assert right - left > 150 and bottom - top > 60, title
        assert one["curves"] and all(within(curve, one["box"]) for curve in one["curves"]), title
        # ticks on both axes (of a timeline: two lanes and seconds) and what the axis across is
        assert len(one["labels"]) >= 5, title
        for label in one["labels"]:
            assert within(label["box"], one["box"]), (title, label)
        for a, b in combinations(one["labels"], 2):
            assert not meet(a["box"], b["box"]), (title, a, b)


@pytest.mark.parametrize("size", [SCREEN, PHONE, (320, 600)], ids=["screen", "phone", "small-phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_screen_shows_all_of_it(page, size, scheme):
    page.show(*size, scheme)
    wide, window = page.value(WIDE)
    assert window == size[0] and wide <= window
    check_drawn(page)
    page.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    assert page.value(WIDE)[0] <= window
    texts = page.value(TEXTS)
    assert len(texts) > 300
    for one in texts:
        assert contrast(one["colour"], one["ground"]) >= LEAST_CONTRAST, one
        if size[0] >= PHONE[0]:
            assert one["letters"] >= LEAST_LETTERS, one
    dark = sum(page.value("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")) < 300
    assert dark == (scheme == "dark")


def test_it_says_nothing_on_the_console_and_asks_for_nothing_else(page, tmp_path):
    page.tell("Page.reload")
    page.value("new Promise((done) => setTimeout(done, 50))")
    assert page.said == []
    assert {address.partition("#")[0] for address in page.requests} == {page.value("location.href")}
    # and both would be heard: a page of others that says something, and asks for something that its policy forbids
    other = page.browser.page()
    path = tmp_path / "other.html"
    path.write_text(
        "<!doctype html><meta http-equiv='Content-Security-Policy' content=\"img-src 'none'\">"
        "<script>console.warn('mind'); setTimeout(() => { throw new Error('lost'); });</script>"
        "<img src='http://127.0.0.1:9/a.png'><link rel='stylesheet' href='b.css'>"
    )
    other.open(path.as_uri())
    other.value("new Promise((done) => setTimeout(done, 50))")
    heard = "\n".join(other.said)
    assert all(words in heard for words in ("mind", "lost", "Content Security Policy")), heard
    assert any(address.endswith("b.css") for address in other.requests)


def test_a_point_is_told_where_the_pointer_is(page):
    page.show(*PHONE)
    x, y = page.value(
        "(() => { const circle = document.querySelector('svg.chart circle:last-of-type');"
        " circle.scrollIntoView({ block: 'center' }); const b = circle.getBoundingClientRect();"
        " return [b.left + b.width / 2, b.top + b.height / 2]; })()"
    )
    page.point_at(x, y + 3)
    text, left, right = page.value(
        "(() => { const tip = document.getElementById('tip'), b = tip.getBoundingClientRect();"
        " return [tip.hidden ? '' : tip.textContent, b.left, b.right]; })()"
    )
    assert re.fullmatch(r"narrow: [\d.e-]+ \(seconds [\d.]+ s\)", text)
    assert left >= 0 and right <= PHONE[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_shows_all_charts_in_dark_letters(page, scheme):
    page.show(*PAPER, scheme, "print")
    wide, window = page.value(WIDE)
    assert wide <= window
    check_drawn(page)
    for one in page.value(TEXTS):
        assert sum(one["ground"]) == 3 * 255 and contrast(one["colour"], one["ground"]) >= LEAST_CONTRAST, one
    printed = page.printed()
    assert printed.startswith(b"%PDF-")
    pages = len(re.findall(rb"/Type\s*/Page\b", printed))
    assert 2 <= pages <= 8
    told = re.findall(rb"/Alt \((.*?)\)", printed, re.S)
    for title in page.titles:
        assert any(title.encode() in one.replace(b"\\", b"") for one in told), (title, told)


CELLS = """
[...document.querySelectorAll("td, th[scope=row]")].filter((cell) => cell.offsetParent !== null).map((cell) => {
  const box = cell.getBoundingClientRect();
  return [box.left, box.right, cell.scrollWidth - cell.clientWidth];
})
"""


@pytest.mark.parametrize("width", [390, 320])
def test_tables_are_read_on_a_phone_without_scrolling_aside(page, width):
    """Each cell lies within the window, beside the name of its column."""
    page.show(width, 844)
    page.value("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    cells = page.value(CELLS)
    assert len(cells) > 100
    assert all(left >= 0 and right <= width and over <= 1 for left, right, over in cells)
    names = page.value("[...document.querySelectorAll('td')].map((cell) => cell.dataset.column)")
    assert {"solver", "state", "primal", "narrow", "wide"} <= set(names)
    page.show(*SCREEN)
    assert page.value("getComputedStyle(document.querySelector('thead')).display") == "table-header-group"
