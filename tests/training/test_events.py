"""The events of a run have the types that ``model/events.py`` declares and the keys that the page on traces lists."""

import re

import msgspec
import numpy as np
import pytest
from scipy import sparse
from support.paths import ROOT
from support.training_cases import stop_after, train

import blocksvm
from blocksvm.model.events import RunEvent
from blocksvm.online.methods import get_method

PAGE = (ROOT / "docs/trace.md").read_text()
KINDS = set(re.findall(r"^\| `(\w+)`", PAGE.partition("| event |")[2].partition("\n\n")[0], re.M))
# of some runs only: with a free bias, several problems, an online learner
SOME = {"alpha_factors", "by_class", "classes_done", "rows", "cumulative_loss", "mistakes", "squared_errors",
        "cumulative_cost", "asked"}  # fmt: skip


def keys_by_event() -> dict[str, set[str]]:
    """What the page's table says; "resume" has those of "start"."""
    keys: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for line in PAGE.partition("| key |")[2].splitlines()[2:]:
        names, of = (set(re.findall(r"`(\w+)`", cell)) for cell in line.split("|")[1:3])
        for kind in KINDS - of if "| all" in line else of:
            keys[kind] |= names
    return keys | {"resume": keys["start"]}


KEYS = keys_by_event()


def faults(event: dict) -> list[str]:
    """Keys that an event lacks or has beside those of the page, and a value of another type than it is declared."""
    declared, free = KEYS[event["event"]], set()
    if event["event"] in ("start", "resume"):
        free = set(get_method(event["solver"], event["learner_settings"] is not None).takes(event).names()) - declared
    wrong = sorted(declared - SOME - set(event)) + sorted(set(event) - declared - free)
    try:
        msgspec.convert({key: value for key, value in event.items() if key not in free}, RunEvent)
    except msgspec.ValidationError as error:
        wrong.append(str(error))
    return wrong


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
    """Runs have all kinds of events, all that the page on traces lists, and ``fit``'s docstring: all but "resume"."""
    options = {"checkpoint": tmp_path / "run.ckpt", "tol": 1e-6}
    train(blocksvm.Matrix(X, TWO), stop=stop_after(3), **options)
    resumed = train(blocksvm.Matrix(X, TWO), resume=True, **options)
    assert [faults(event) for event in resumed.events if faults(event)] == []
    found = {event["event"] for y, settings in RUNS.values() for event in seen(y, **settings)}
    assert found == set(re.findall(r'"(\w+)"', blocksvm.fit.__doc__.partition("on_event")[2].partition(";")[0]))
    assert found | {event["event"] for event in resumed.events} == set(KINDS)


def test_a_run_ends_with_a_certificate_where_on_event_says_so():
    ended = blocksvm.fit(X, TWO, tol=1e-9, on_event=lambda event: event["event"] == "outer" and event["outer"] == 2)
    whole = blocksvm.fit(X, TWO, tol=1e-9, max_outer=2)
    assert (ended.status, ended.result.outer, ended.certificate) == ("stopped", 2, whole.certificate)
    np.testing.assert_array_equal(ended.model.weights, whole.model.weights)


def test_the_page_names_every_key():
    """But the one that streams alone have."""
    assert set.union(*KEYS.values()) | {"learners"} == set(RunEvent.__annotations__)
