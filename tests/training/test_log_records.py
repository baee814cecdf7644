"""The logger ``blocksvm`` of Python: progress as INFO, remarks as WARNING; commands print each line once."""

import logging

import numpy as np
import pytest
from scipy import sparse

import blocksvm
from blocksvm.cli.commands import module_of
from blocksvm.sources.matrix import Matrix
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings

X = sparse.random(200, 20, density=0.6, format="csr", random_state=3)
Y = np.where(X @ np.random.default_rng(3).normal(size=20) > 0, 1, -1)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "rows.svm"
    path.write_text("1 1:1\n-1 2:1\nbad line\n" * 5)
    return path


def levels(caplog) -> set[str]:
    assert {record.name for record in caplog.records} <= {"blocksvm"}
    return {record.levelname for record in caplog.records}


def test_a_run_logs_its_progress_and_why_it_has_not_converged(caplog):
    with caplog.at_level(logging.INFO, "blocksvm"):
        blocksvm.fit(X, Y, tol=1e-2)
        assert levels(caplog) == {"INFO"}
        assert "converged after" in caplog.text
        blocksvm.fit(X, Y, C=100.0, tol=1e-9, max_outer=1)
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


def test_they_are_told_by_fit_and_by_train(caplog, tmp_path, run_in_process, monkeypatch):
    monkeypatch.setattr(Plan, "remark", lambda plan: "they are numbers")
    blocksvm.fit(X, Y, max_outer=1)
    assert "they are numbers" in caplog.text
    path, store = tmp_path / "rows.svm", tmp_path / "s.h5"
    path.write_text("1 1:1\n-1 2:1\n" * 5)
    assert run_in_process(module_of("split").main, path, store).code == 0
    done = run_in_process(module_of("train").main, store, tmp_path / "m.h5")
    assert "note: they are numbers" in done.err


def test_a_stream_logs_its_rows_and_what_it_skips(caplog, text):
    with caplog.at_level(logging.INFO, "blocksvm"):
        blocksvm.Stream("pa1", skip_bad=True).run([text])
    assert levels(caplog) == {"INFO", "WARNING"}
    assert "skipped: " in caplog.text


def test_a_command_prints_each_line_once(text, run_in_process):
    done = run_in_process(module_of("stream").main, text, "--learner", "pa1", "--skip-bad")
    lines = [line for line in (done.out + done.err).splitlines() if line.startswith("skipped")]
    assert lines and len(lines) == len(set(lines))
    assert logging.getLogger("blocksvm").handlers == [
        one for one in logging.getLogger("blocksvm").handlers if isinstance(one, logging.NullHandler)
    ]
