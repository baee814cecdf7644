"""The events of a run have the keys and types that ``model/events.py`` declares, and the page on traces names them."""

import json
import re
from typing import get_args, get_type_hints

import msgspec
import numpy as np
import pytest
from scipy import sparse
from support.paths import ROOT
from support.training_cases import stop_after, train

import blocksvm
from blocksvm.model import events
from blocksvm.model.events import RunEvent
from blocksvm.online.methods import get_method

KINDS = {name: kind for kind in get_args(RunEvent) for name in get_args(get_type_hints(kind)["event"])}


def faults(event: dict) -> list[str]:
    """Keys that an event has without a declaration; one that it lacks, or of another kind, is an error."""
    kind = KINDS[event["event"]]
    msgspec.convert(json.loads(json.dumps(event)), kind)
    free = set()
    if kind is events.StartEvent:
        free = set(get_method(event["solver"], event["learner_settings"] is not None).takes(event).names())
    return sorted(set(event) - set(get_type_hints(kind)) - free)


def seen(y, **settings) -> list[dict]:
    found = []
    blocksvm.fit(X, y, on_event=found.append, **settings)
    return found


X = sparse.random(200, 20, density=0.6, format="csr", random_state=3)
VALUES = X @ np.random.default_rng(3).normal(size=20)
TWO, THREE = np.where(VALUES > 0, 1, -1), np.digitize(VALUES, [-0.5, 0.5])
RUNS = {"two classes": (TWO, {"valid": blocksvm.Matrix(X, TWO)}), "a free bias": (TWO, {"bias": "free"}),
        "regression": (VALUES, {"loss": "epsilon-insensitive", "valid": blocksvm.Matrix(X, VALUES)}),
        "three classes": (THREE, {}), "online": (TWO, {"learner": "pa1", "max_outer": 1, "query": 1.0})}  # fmt: skip


@pytest.mark.parametrize("run", RUNS)
def test_events_are_as_declared(run):
    y, settings = RUNS[run]
    found = seen(y, **settings)
    assert {f"{event['event']}: {fault}" for event in found for fault in faults(event)} == set()
    assert {"start", "visit", "outer", "end"} <= {event["event"] for event in found}


def test_every_declared_event_occurs_and_is_documented(tmp_path):
    """Runs have all kinds of events, which the page on traces lists, and ``fit``'s docstring: all but "resume"."""
    options = {"checkpoint": tmp_path / "run.ckpt", "tol": 1e-6}
    train(blocksvm.Matrix(X, TWO), stop=stop_after(3), **options)
    resumed = train(blocksvm.Matrix(X, TWO), resume=True, **options)
    assert [faults(event) for event in resumed.events if faults(event)] == []
    found = {event["event"] for y, settings in RUNS.values() for event in seen(y, **settings)}
    assert found == set(re.findall(r'"(\w+)"', blocksvm.fit.__doc__.partition("on_event")[2].partition(";")[0]))
    assert found | {event["event"] for event in resumed.events} == set(KINDS)
    rows = (ROOT / "docs/trace.md").read_text().partition("| event |")[2].partition("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)`", rows, re.M)) == set(KINDS)


def test_a_run_ends_with_a_certificate_where_on_event_says_so():
    ended = blocksvm.fit(X, TWO, tol=1e-9, on_event=lambda event: event["event"] == "outer" and event["outer"] == 2)
    whole = blocksvm.fit(X, TWO, tol=1e-9, max_outer=2)
    assert (ended.status, ended.result.outer, ended.certificate) == ("stopped", 2, whole.certificate)
    np.testing.assert_array_equal(ended.model.weights, whole.model.weights)


def test_the_page_names_every_key():
    page = (ROOT / "docs/trace.md").read_text()
    cells = [line.split("|")[1] for line in page.partition("| key |")[2].splitlines() if line.startswith("| `")]
    named = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert named == {name for kind in get_args(RunEvent) for name in get_type_hints(kind)}
