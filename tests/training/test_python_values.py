"""Values of settings as Python users give them: sizes as text, learners as objects, and sentences for what is none."""

import math
from dataclasses import replace

import numpy as np
import pytest
from support.training_cases import svmlight

import blocksvm
from blocksvm import InputError, Matrix
from blocksvm.base.errors import Bytes, option, use_option_names
from blocksvm.conversion.convert import SplitSettings
from blocksvm.estimators import LinearSVC
from blocksvm.losses.box import HINGE
from blocksvm.online.rules.passive_aggressive import PA1
from blocksvm.streaming.stream_pass import StreamSettings
from blocksvm.structured.settings import RUN
from blocksvm.theory.settings import MARGIN_SETTINGS
from blocksvm.training.settings import TrainSettings

MY_LEARNER = replace(PA1, name="mine")
WITHOUT_MEAN = replace(PA1, name="without-mean", takes=("weights", "prior", "bias"))


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90.0), ("10m", 600.0), ("2h", 7200.0), ("inf", math.inf), (5, 5.0)]
)
def test_durations_are_numbers_or_texts(rows, text, seconds):
    assert TrainSettings.of(max_seconds=text).max_seconds == seconds
    assert MARGIN_SETTINGS.resolve({"max_seconds": text}, "margin")["max_seconds"] == seconds
    assert blocksvm.fit(*rows, max_seconds=text).plan.settings.max_seconds == seconds
    assert LinearSVC(max_seconds=text).fit(*rows).status_ is not None


@pytest.mark.parametrize("text", ["2GB", "1.5 GiB", "500MB", "1000000000", "2g"])
def test_sizes_are_numbers_or_texts_wherever_memory_is_a_setting(text):
    n_bytes = {"2GB": 2 * 10**9, "1.5 GiB": 3 * 2**29, "500MB": 5 * 10**8, "1000000000": 10**9, "2g": 2 * 10**9}[text]
    assert TrainSettings.of(memory=text).memory == n_bytes
    assert SplitSettings(memory=text).memory == n_bytes
    assert StreamSettings(memory=text).memory == n_bytes
    assert RUN.checked({"memory": text}, "a run") == {"memory": n_bytes}


def test_runs_take_sizes_as_text(rows, store):
    ours, theirs = blocksvm.fit(*rows, memory="2GB"), blocksvm.fit(*rows, memory=2 * 10**9)
    assert np.array_equal(ours.model.weights, theirs.model.weights)
    with blocksvm.open_store(store) as source:
        blocksvm.measure_regret(source, "pa", memory="1GB", max_rows=20)
        assert sum(len(block.y) for block in blocksvm.iterate_blocks(source, "10MB")) == rows[0].shape[0]


@pytest.mark.parametrize(
    ("name", "text", "what"),
    [*(("memory", text, "size such as 512MB or 2GB") for text in ("much", "2 XB", "-1MB", "0", "1e400GB", "")),
     *(("max_seconds", text, "duration such as 90, 10m or 2h") for text in ("10x", "", "-3m", "0", "m"))],
)  # fmt: skip
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


@pytest.mark.parametrize(
    ("keywords", "says"),
    [({"learner": HINGE}, "learner=Loss.*: is not a learner; give its name, or a Learner"),
     ({"learner": 3}, "learner=3: is not a learner; give its name, or a Learner"),
     ({"solver": 3}, "solver=3: is not a solver; give its name, or a Method"),
     ({"loss": 3}, "loss=3: is not a loss; give its name, or a Loss"),
     ({"learner": replace(PA1, name="nowhere")}, "learner=nowhere: is in no module; assign it to a name"),
     ({"learner": "kernel-pa", "average": True}, "average"),
     ({"learner": WITHOUT_MEAN, "average": True}, "^average: without-mean does not accept it; leave it out$")],
)  # fmt: skip
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
    with pytest.raises(InputError, match=r"win money: no such file; load_model\(model\).predict\(texts\) predicts"):
        blocksvm.predict_files(tmp_path / "m.h5", texts)
    with pytest.raises(InputError, match="no such file; load_model"):
        blocksvm.predict_files(tmp_path / "m.h5", ["win money now " * 30])  # longer than a name may be
    assert blocksvm.load_model(tmp_path / "m.h5").predict(texts).tolist() == ["spam", "ham"]
    pytest.importorskip("sklearn")
    for model in (blocksvm.load_model(tmp_path / "m.h5"), tmp_path / "m.h5"):
        assert blocksvm.to_estimator(model).predict(texts).tolist() == ["spam", "ham"]


def test_a_cluster_that_is_none_is_named(store):
    with (
        blocksvm.open_store(store) as source,
        pytest.raises(InputError, match="cluster=3: needs a scheduler's address"),
    ):
        blocksvm.fit(source, cluster=3)


def test_files_and_stores_in_the_place_of_rows_are_named(rows, store, tmp_path):
    model = blocksvm.fit(*rows).model
    text = tmp_path / "new.svm"
    text.write_text(svmlight(*rows))
    for predict in (model.predict, model.decision_function, blocksvm.fit):
        for name in (text, str(text)):
            with pytest.raises(InputError, match=r"new.svm: is the name of a file, .*; write_store makes a store"):
                predict(name)
    with blocksvm.open_store(store) as source, pytest.raises(InputError, match="is a store, and a matrix of rows"):
        model.predict(source)
