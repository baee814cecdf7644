"""Settings as Python users give them: sizes as text, learners as objects, sentences for what is none; keywords are the
settings that are declared, with their types; events are those that ``model/events.py`` and the page on traces declare;
progress and remarks stand in Python's log."""

import logging
import math
import re
from dataclasses import fields, replace
from typing import get_args, get_type_hints

import msgspec
import numpy as np
import pytest
from scipy import sparse
from support.paths import ROOT
from support.training_cases import stop_after, svmlight, train

import blocksvm
from blocksvm import InputError, Matrix
from blocksvm.api import FitKeywords
from blocksvm.api.fit import OF_ROWS
from blocksvm.api.streams import HIDDEN
from blocksvm.base.errors import Bytes, option, use_option_names
from blocksvm.conversion.convert import SplitSettings
from blocksvm.estimators import LinearSVC
from blocksvm.formats.choices import all_choices
from blocksvm.losses import LOSSES
from blocksvm.losses.box import HINGE
from blocksvm.model.events import RunEvent
from blocksvm.online import LEARNERS
from blocksvm.online.learner import COMMON_SETTINGS
from blocksvm.online.methods import SOLVERS, get_method
from blocksvm.online.rules.passive_aggressive import PA1
from blocksvm.streaming.stream_pass import StreamSettings
from blocksvm.structured.settings import RUN
from blocksvm.theory.report import REPLAY
from blocksvm.theory.settings import MARGIN_SETTINGS
from blocksvm.training.plan import Plan
from blocksvm.training.run_settings import RUN_SETTINGS
from blocksvm.training.settings import TrainSettings

MY_LEARNER = replace(PA1, name="mine")
WITHOUT_MEAN = replace(PA1, name="without-mean", takes=("weights", "prior", "bias"))


@pytest.mark.parametrize(("text", "seconds"), [("90", 90.0), ("10m", 600.0), ("2h", 7200.0), ("inf", math.inf), (5, 5)])
def test_durations_are_numbers_or_texts(rows, text, seconds):
    assert TrainSettings.of(max_seconds=text).max_seconds == seconds
    assert MARGIN_SETTINGS.resolve({"max_seconds": text}, "margin")["max_seconds"] == seconds
    assert blocksvm.fit(*rows, max_seconds=text).plan.settings.max_seconds == seconds
    assert LinearSVC(max_seconds=text).fit(*rows).status_ is not None


@pytest.mark.parametrize(("text", "n_bytes"), [
    ("2GB", 2 * 10**9), ("1.5 GiB", 3 * 2**29), ("500MB", 5 * 10**8), ("1000000000", 10**9), ("2g", 2 * 10**9),
])  # fmt: skip
def test_sizes_are_numbers_or_texts_wherever_memory_is_a_setting(text, n_bytes):
    for settings in (TrainSettings.of, SplitSettings, StreamSettings):
        assert settings(memory=text).memory == n_bytes
    assert RUN.checked({"memory": text}, "a run") == {"memory": n_bytes}


def test_runs_take_sizes_as_text(rows, store):
    ours, theirs = blocksvm.fit(*rows, memory="2GB"), blocksvm.fit(*rows, memory=2 * 10**9)
    assert np.array_equal(ours.model.weights, theirs.model.weights)
    with blocksvm.open_store(store) as source:
        blocksvm.measure_regret(source, "pa", memory="1GB", max_rows=20)
        assert sum(len(block.y) for block in blocksvm.iterate_blocks(source, "10MB")) == rows[0].shape[0]


@pytest.mark.parametrize(("name", "text", "what"), [
    *(("memory", text, "size such as 512MB or 2GB") for text in ("much", "2 XB", "-1MB", "0", "1e400GB", "")),
    *(("max_seconds", text, "duration such as 90, 10m or 2h") for text in ("10x", "", "-3m", "0", "m")),
])  # fmt: skip
def test_texts_that_are_none_are_named(rows, name, text, what):
    with pytest.raises(InputError, match=f"{name}: '.*' (is not a {what}|must be above 0)"):
        blocksvm.fit(*rows, **{name: text})


def test_sentences_show_a_size_as_its_caller_writes_it(rows):
    with pytest.raises(InputError, match=r"^memory=1_000 is too small: .*; raise memory$"):
        blocksvm.fit(*rows, memory=1_000)
    before = use_option_names(True)
    try:
        assert option("memory", Bytes(1_500_000)) == "--memory 1.5MB"
    finally:
        use_option_names(before)
    assert option("memory", Bytes(1_500_000)) == "memory=1_500_000"


@pytest.mark.parametrize("learner", [PA1, MY_LEARNER], ids=["of the package", "from outside"])
def test_a_learner_is_given_as_an_object(rows, learner):
    ours = blocksvm.fit(*rows, learner=learner, C=0.3, max_outer=2)
    theirs = blocksvm.fit(*rows, learner="pa1", C=0.3, max_outer=2)
    assert np.array_equal(ours.model.weights, theirs.model.weights)
    report = blocksvm.measure_regret(Matrix(*rows), learner, C=0.3)
    assert report.run.mistakes[-1] == blocksvm.measure_regret(Matrix(*rows), "pa1", C=0.3).run.mistakes[-1]


@pytest.mark.parametrize(("keywords", "says"), [
    ({"learner": HINGE}, "learner=Loss.*: is not a learner; give its name, or a Learner"),
    ({"learner": 3}, "learner=3: is not a learner; give its name, or a Learner"),
    ({"solver": 3}, "solver=3: is not a solver; give its name, or a Method"),
    ({"loss": 3}, "loss=3: is not a loss; give its name, or a Loss"),
    ({"learner": replace(PA1, name="nowhere")}, "learner=nowhere: is in no module; assign it to a name"),
    ({"learner": "kernel-pa", "average": True}, "average"),
    ({"learner": WITHOUT_MEAN, "average": True}, "^average: without-mean does not accept it; leave it out$"),
])  # fmt: skip
def test_objects_that_are_none_are_named(rows, keywords, says):
    with pytest.raises(InputError, match=says):
        blocksvm.fit(*rows, **keywords)


def test_words_in_a_table_are_answered_with_how_to_make_numbers_of_them(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": [1.0, 2.0], "colour": ["red", "blue"]})
    with pytest.raises(InputError, match=r"the column colour of the table holds what is no number; pandas.get_dummies"):
        blocksvm.fit(frame, [0, 1])
    assert blocksvm.fit(pandas.get_dummies(frame), [0, 1]).status == "converged"
    for given in (np.eye(2), [np.eye(2)], 3):
        with pytest.raises(InputError, match="and names of files are needed; write rows in memory to a file first"):
            blocksvm.write_store(given, tmp_path / "s.h5")


def test_texts_in_memory_are_answered_with_what_predicts_them(tmp_path):
    (tmp_path / "mail.tsv").write_text("spam\twin money now\nham\tsee you at lunch\n" * 5)
    blocksvm.write_store(tmp_path / "mail.tsv", tmp_path / "mail.h5", format="documents")
    with blocksvm.open_store(tmp_path / "mail.h5") as store:
        fitted = blocksvm.fit(store)
    fitted.save(tmp_path / "m.h5")
    texts = ["win money", "lunch"]
    with pytest.raises(InputError, match=r"texts; .* load_model\(path\).predict\(texts\) those in memory"):
        fitted.model.predict(texts)
    for given in (texts, ["win money now " * 30]):  # the other one is longer than a name may be
        with pytest.raises(InputError, match=r"no such file; load_model\(model\).predict\(texts\) predicts"):
            blocksvm.predict_files(tmp_path / "m.h5", given)
    assert blocksvm.load_model(tmp_path / "m.h5").predict(texts).tolist() == ["spam", "ham"]
    pytest.importorskip("sklearn")
    for model in (blocksvm.load_model(tmp_path / "m.h5"), tmp_path / "m.h5"):
        assert blocksvm.to_estimator(model).predict(texts).tolist() == ["spam", "ham"]


def test_files_and_stores_in_the_place_of_rows_are_named(rows, store, tmp_path):
    model = blocksvm.fit(*rows).model
    text = tmp_path / "new.svm"
    text.write_text(svmlight(*rows))
    for predict in (model.predict, model.decision_function, blocksvm.fit):
        for name in (text, str(text)):
            with pytest.raises(InputError, match=r"new.svm: is the name of a file, .*; write_store makes a store"):
                predict(name)
    with blocksvm.open_store(store) as source:
        with pytest.raises(InputError, match="is a store, and a matrix of rows"):
            model.predict(source)
        with pytest.raises(InputError, match="cluster=3: needs a scheduler's address"):
            blocksvm.fit(source, cluster=3)


HINTS = get_type_hints(FitKeywords)
GROUPS = [get_method(name, learner=True).settings for name in LEARNERS]
for name in SOLVERS:
    GROUPS += [get_method(name).settings, *(get_method(name).takes({"loss": loss}) for loss in LOSSES)]
OF_METHODS = {setting.name: setting for settings in GROUPS for setting in settings}
DECLARED = OF_METHODS | {setting.name: setting for setting in RUN_SETTINGS}


def named(owner) -> set[str]:
    return {field.name for field in fields(owner)} - {*HIDDEN}


def test_keywords_are_the_settings_and_take_what_these_take_and_none_means_two_things():
    of_stream = named(StreamSettings) | set(COMMON_SETTINGS.names())
    of_store = named(SplitSettings) | set(OF_ROWS)
    assert set(HINTS) == {"solver", "learner", *DECLARED, *REPLAY.names(), *of_stream, *of_store}
    typed = {name: setting.kind for name, setting in DECLARED.items() if isinstance(setting.kind, type)}
    taken = {name: get_args(HINTS[name]) for name in typed if HINTS[name] is not object}
    assert [name for name in taken if typed[name] not in taken[name]] == []
    assert not set(all_choices().names()) & (named(StreamSettings) | set(DECLARED))
    assert not set(OF_METHODS) & named(SplitSettings)


def test_write_store_takes_the_settings_of_split_and_of_the_format(tmp_path):
    (tmp_path / "t.csv").write_text("y,a,id\n1,2,7\n0,3,8\n1,5,9\n")
    text, given = tmp_path / "t.csv", {"label": "y", "ignore": "id", "dtype": "float64"}
    meta = blocksvm.write_store(text, tmp_path / "t.h5", bits=None, **given)
    assert (meta["n_samples"], meta["n_features"], meta["recipe"]["dtype"]) == (3, 1, "float64")
    assert blocksvm.write_store([text], tmp_path / "u.h5", like=tmp_path / "t.h5")["recipe"] == meta["recipe"]
    assert blocksvm.write_store([text], tmp_path / "w.h5", n_jobs=-1, **given)["fingerprint"] == meta["fingerprint"]
    for wrong, says in (
        ({"n_jobs": 0}, "n_jobs=0: must be 1 or more, or -1"),
        ({"normalise": "l2"}, "normalise: the format csv does not accept it"),
        ({"normalize": "l3"}, "normalize=l3: choose one of none, l2"),
        ({"like": tmp_path / "t.h5", "dtype": "float32"}, "dtype=float64, but float32 is given now"),
    ):
        with pytest.raises(InputError, match=says):
            blocksvm.write_store(text, tmp_path / "v.h5", **wrong)


def test_a_stream_takes_the_settings_of_its_learner_and_of_the_format(tmp_path):
    (tmp_path / "t.csv").write_text("y,a,id\n1,2,7\n-1,3,8\n1,5,9\n")
    stream = blocksvm.Stream("pa1", C=0.5, label="y", ignore="id", n_jobs=2, bias=1.0)
    assert stream.run(tmp_path / "t.csv") and stream.rows == 3
    stream.save(tmp_path / "m.h5")
    with pytest.raises(InputError, match="exists"):
        stream.save(tmp_path / "m.h5")
    assert len(blocksvm.load_model(tmp_path / "m.h5").feature_ids) == 1
    more = blocksvm.Stream(start_from=str(tmp_path / "m.h5"))
    assert more.run(str(tmp_path / "t.csv")) and more.rows == 6
    for name in ("step", "idf", "scale", "options"):
        with pytest.raises(InputError, match=f"{name}: pa1 does not accept it"):
            blocksvm.Stream("pa1", **{name: 1.0})


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


def test_events_are_as_declared_and_documented(tmp_path):
    """Runs have all kinds of events, all that the page on traces lists, and ``fit``'s docstring: all but "resume"."""
    options = {"checkpoint": tmp_path / "run.ckpt", "tol": 1e-6}
    train(blocksvm.Matrix(X, TWO), stop=stop_after(3), **options)
    resumed = train(blocksvm.Matrix(X, TWO), resume=True, **options)
    events = {run: seen(y, **settings) for run, (y, settings) in RUNS.items()} | {"resumed": resumed.events}
    told = [(run, event["event"], faults(event)) for run, found in events.items() for event in found if faults(event)]
    assert told == []
    assert all({"start", "visit", "outer", "end"} <= {event["event"] for event in events[run]} for run in RUNS)
    found = {event["event"] for run in RUNS for event in events[run]}
    assert found == set(re.findall(r'"(\w+)"', blocksvm.fit.__doc__.partition("on_event")[2].partition(";")[0]))
    assert found | {event["event"] for event in resumed.events} == set(KINDS)
    # the page names every key but the one that streams alone have
    assert set.union(*KEYS.values()) | {"learners"} == set(RunEvent.__annotations__)


def test_a_run_ends_with_a_certificate_where_on_event_says_so():
    ended = blocksvm.fit(X, TWO, tol=1e-9, on_event=lambda event: event["event"] == "outer" and event["outer"] == 2)
    whole = blocksvm.fit(X, TWO, tol=1e-9, max_outer=2)
    assert (ended.status, ended.result.outer, ended.certificate) == ("stopped", 2, whole.certificate)
    np.testing.assert_array_equal(ended.model.weights, whole.model.weights)


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


@pytest.mark.parametrize(("settings", "numbers"), [
    ({"learner": "adagrad-rda", "loss": "squared"}, "targets=numbers"), ({}, "loss=epsilon-insensitive"),
    ({"learner": "ogd", "loss": "squared", "targets": "numbers"}, None),
    ({"loss": "squared-epsilon-insensitive"}, None),
])  # fmt: skip
def test_numbers_that_are_taken_for_classes_are_told(settings, numbers):
    told = f"the labels are 101 distinct numbers, each taken for a class; where they are real targets, give {numbers}"
    many, fewer = (Plan(Matrix(X, np.arange(200) % n + 0.5), TrainSettings.of(**settings)) for n in (101, 100))
    assert (many.remark(), fewer.remark()) == (told if numbers else "", "")


def test_they_are_told_by_fit_and_by_train(caplog, store, tmp_path, run_in_process, monkeypatch):
    monkeypatch.setattr(Plan, "remark", lambda plan: "they are numbers")
    blocksvm.fit(X, TWO, max_outer=1)
    assert "they are numbers" in caplog.text
    done = run_in_process("train", store, tmp_path / "m.h5")
    assert "note: they are numbers" in done.err


def test_a_stream_logs_its_rows_and_what_it_skips_and_a_command_prints_each_line_once(caplog, tmp_path, run_in_process):
    text = tmp_path / "rows.svm"
    text.write_text("1 1:1\n-1 2:1\nbad line\n" * 5)
    with caplog.at_level(logging.INFO, "blocksvm"):
        blocksvm.Stream("pa1", skip_bad=True).run([text])
    assert levels(caplog) == {"INFO", "WARNING"}
    assert "skipped: " in caplog.text
    done = run_in_process("stream", text, "--learner", "pa1", "--skip-bad")
    lines = [line for line in (done.out + done.err).splitlines() if line.startswith("skipped")]
    assert lines and len(lines) == len(set(lines))
    assert {type(one) for one in logging.getLogger("blocksvm").handlers} <= {logging.NullHandler}
