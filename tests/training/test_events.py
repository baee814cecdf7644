"""Events of a run as ``model/events.py`` and the page on traces declare them; progress and remarks in Python's log."""

import logging
import re

import msgspec
import numpy as np
import pytest
from scipy import sparse
from support.paths import ROOT
from support.training_cases import stop_after, train

import blocksvm
from blocksvm.cli.commands import module_of
from blocksvm.model.events import RunEvent
from blocksvm.online.methods import get_method
from blocksvm.sources.matrix import Matrix
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings

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


def levels(caplog) -> set[str]:
    assert {record.name for record in caplog.records} <= {"blocksvm"}
    return {record.levelname for record in caplog.records}


def test_a_run_logs_its_progress_and_why_it_has_not_converged(caplog):
    with caplog.at_level(logging.INFO, "blocksvm"):
        blocksvm.fit(X, TWO, tol=1e-2)
        assert levels(caplog) == {"INFO"}
        assert "converged after" in caplog.text
        blocksvm.fit(X, TWO, C=100.0, tol=1e-9, max_outer=1)
    assert "not converged" in [record.message for record in caplog.records if record.levelname == "WARNING"][0]


@pytest.mark.parametrize(
    ("settings", "numbers"),
    [({"learner": "adagrad-rda", "loss": "squared"}, "targets=numbers"), ({}, "loss=epsilon-insensitive"),
     ({"learner": "ogd", "loss": "squared", "targets": "numbers"}, None),
     ({"loss": "squared-epsilon-insensitive"}, None)],
)  # fmt: skip
def test_numbers_that_are_taken_for_classes_are_told(settings, numbers):
    told = f"the labels are 101 distinct numbers, each taken for a class; where they are real targets, give {numbers}"
    many, fewer = (Plan(Matrix(X, np.arange(200) % n + 0.5), TrainSettings.of(**settings)) for n in (101, 100))
    assert (many.remark(), fewer.remark()) == (told if numbers else "", "")


def test_they_are_told_by_fit_and_by_train(caplog, store, tmp_path, run_in_process, monkeypatch):
    monkeypatch.setattr(Plan, "remark", lambda plan: "they are numbers")
    blocksvm.fit(X, TWO, max_outer=1)
    assert "they are numbers" in caplog.text
    done = run_in_process(module_of("train").main, store, tmp_path / "m.h5")
    assert "note: they are numbers" in done.err


def test_a_stream_logs_its_rows_and_what_it_skips_and_a_command_prints_each_line_once(caplog, tmp_path, run_in_process):
    text = tmp_path / "rows.svm"
    text.write_text("1 1:1\n-1 2:1\nbad line\n" * 5)
    with caplog.at_level(logging.INFO, "blocksvm"):
        blocksvm.Stream("pa1", skip_bad=True).run([text])
    assert levels(caplog) == {"INFO", "WARNING"}
    assert "skipped: " in caplog.text
    done = run_in_process(module_of("stream").main, text, "--learner", "pa1", "--skip-bad")
    lines = [line for line in (done.out + done.err).splitlines() if line.startswith("skipped")]
    assert lines and len(lines) == len(set(lines))
    assert {type(one) for one in logging.getLogger("blocksvm").handlers} <= {logging.NullHandler}
