"""A run that is stopped anywhere and resumed ends with the bits of the run that was not."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from support import training_cases
from support.class_cases import classes
from support.file_cases import content_of_model
from support.paths import ROOT
from support.training_cases import asked, assert_resumed, assert_same, make_store, random_rows, stop_after, train

from blocksvm.base.errors import InputError
from blocksvm.model.solver_state import describe_checkpoint
from blocksvm.sources.matrix import Matrix
from blocksvm.training.checkpoint import Checkpoint

RUNS = [
    {"solver": "dual-cd", "schedule": "3", "C": 2.0},
    {"solver": "dual-cd", "schedule": "tol:0.3", "C": 2.0, "loss": "squared-hinge", "class_weight": "balanced"},
    {"solver": "pegasos", "schedule": "3", "bias": 1.0},
    {"solver": "pegasos", "schedule": "2", "batch": 5, "partition": "fixed"},
    {"C": 30.0, "tol": 1e-5, "max_outer": 9, "schedule": "1", "memory": 10**6, "working_set": "0.006"},
    {"C": 5.0}, {"C": 5.0, "working_set": "none"},  # as by default, and without a set
    {"solver": "pegasos", "schedule": "2", "tol": 0.3, "max_outer": 30},  # comes to rest
]  # fmt: skip
SHORT = {"block_chunks": 3, "max_outer": 3, "tol": 0.0, "seed": 4}
TOLD = ("primal_estimate", "dual_estimate", "gap_estimate", "rel_gap", "inner_passes", "rows_visited", "nnz_visited",
        "passes", "set_passes", "set_rows", "set_share", "certificates", "outer")  # fmt: skip


@pytest.fixture
def checkpoint(tmp_path):
    return tmp_path / "run.ckpt"


@pytest.mark.slow
@pytest.mark.parametrize("settings", RUNS)
def test_stopped_at_any_question_and_resumed(store, checkpoint, settings):
    """After each visit, and after each block that is read for a certificate, in the course of the run or at its end,
    which does not lengthen the run."""
    settings = SHORT | settings
    whole, questions = asked(store, **settings)
    assert whole.result.status == ("converged" if settings["tol"] == 0.3 else "max-outer")
    blocks = whole.events[0]["blocks"]
    assert blocks > 2 and questions >= len(whole.result.passes) + blocks
    for k in {*range(1, questions + 1, 1 + questions // 20), questions - 1}:
        first = train(store, checkpoint=checkpoint, stop=stop_after(k), **settings)
        assert (first.result.status, first.result.certificate) == ("interrupted", None)
        second = train(store, checkpoint=checkpoint, resume=True, **settings)
        assert_same(second, whole, f"stopped at question {k}")
        told = first.outer() + second.outer()
        for ours, event in zip(told, whole.outer(), strict=True):
            assert {name: ours[name] for name in TOLD} == {name: event[name] for name in TOLD}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [*RUNS, {"solver": "newton", "loss": "logistic", "max_outer": 7}])
def test_killed_after_any_save_and_resumed(store, tmp_path, checkpoint, monkeypatch, settings):
    """What lies in the file whenever it was written is a state to go on from; saving changes nothing."""
    settings = SHORT | settings
    save, copies = Checkpoint.save, []

    def kept(self, *given):
        save(self, *given)
        copies.append(self.path.read_bytes())

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "save", kept)
        whole = train(store, checkpoint=checkpoint, checkpoint_seconds=-1.0, **settings)
    assert len(copies) >= len(whole.result.passes) and os.listdir(tmp_path) == ["run.ckpt"]
    assert whole.same(train(store, **settings))
    for k in range(0, len(copies), 1 + len(copies) // 40):
        checkpoint.write_bytes(copies[k])
        assert_same(train(store, checkpoint=checkpoint, resume=True, **settings), whole, f"killed after save {k}")


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "settings"), [
    ("two", {"loss": "logistic"}), ("two", {"bias": "free", "tol": 1e-9}),
    ("two", {"solver": "pegasos", "dual": True, "loss": "logistic", "max_outer": 9}),
    ("two", {"solver": "kernel", "gamma": 0.3, "bias": "free", "matrix_rows": 25, "tol": 1e-6, "schedule": "auto"}),
    ("numbers", {"loss": "epsilon-insensitive", "epsilon": 0.05, "tol": 1e-7}),
    ("numbers", {"loss": "squared-epsilon-insensitive", "epsilon": 0.05, "tol": 1e-7, "working_set": "none"}),
    ("numbers", {"solver": "pegasos", "dual": True, "loss": "squared-epsilon-insensitive", "max_outer": 9}),
    ("classes", {}), ("classes", {"loss": "squared-hinge", "working_set": "none"}), ("classes", {"loss": "logistic"}),
    ("classes", {"multiclass": "crammer-singer"}), ("classes", {"multiclass": "crammer-singer", "working_set": "none"}),
])  # fmt: skip
def test_whatever_is_minimised_goes_on(rows, tmp_path, kind, settings):
    X, y = classes() if kind == "classes" else rows
    y = X @ np.linspace(-1.0, 2.0, X.shape[1]) if kind == "numbers" else y
    source = Matrix(X, y, chunk_rows=np.arange(0, len(y), 10))
    settings = {"schedule": "2", "block_chunks": 4, "max_outer": 30, "tol": 1e-4} | settings
    whole, questions = asked(source, **settings)
    assert_resumed(source, tmp_path, (3, questions // 3, questions - 1), whole, **settings)


@pytest.mark.parametrize("settings", RUNS[:3])
def test_limits_may_be_raised_on_resuming(store, checkpoint, settings):
    settings = settings | {"block_chunks": 3, "seed": 4, "tol": 0.0}
    whole = train(store, max_outer=5, **settings)
    for max_outer in (1, 2, 4):
        run = train(store, checkpoint=checkpoint, resume=max_outer > 1, max_outer=max_outer, **settings)
        assert (run.result.status, run.result.outer) == ("max-outer", max_outer)
    again = train(store, checkpoint=checkpoint, resume=True, max_outer=3, **settings)
    assert again.result.outer == 4, "a lower limit than what was done adds nothing"
    assert again.same(run)
    last = train(store, checkpoint=checkpoint, resume=True, max_outer=5, **settings)
    assert_same(last, whole)
    assert [e["outer"] for e in last.outer()] == [5]


@pytest.mark.slow
def test_a_run_ended_by_max_seconds_goes_on(rows, checkpoint):
    source = training_cases.SlowMatrix(*rows, chunk_rows=np.arange(0, 200, 10), seconds=0.02)
    settings = {"schedule": "2", "block_chunks": 4, "max_outer": 4, "tol": 0.0}
    whole = train(source, **settings)
    first = train(source, checkpoint=checkpoint, max_seconds=0.1, **settings)
    assert first.result.status == "max-seconds"
    assert first.result.certificate.rel_gap > 0
    assert len(first.result.passes) < len(whole.result.passes)
    second = train(source, checkpoint=checkpoint, resume=True, **settings)
    assert second.result.status == "max-outer"
    assert second.same(whole)
    assert second.result.seconds > first.result.seconds
    # the time is used up already: no further outer iteration is begun
    third = train(source, checkpoint=checkpoint, resume=True, max_seconds=0.1, **settings | {"max_outer": 9})
    assert (third.result.status, third.result.outer) == ("max-seconds", 4)


def test_a_finished_run_is_resumed_to_a_tighter_gap(store, tmp_path):
    settings = {"schedule": "2", "block_chunks": 3, "checkpoint": tmp_path / "run.ckpt"}
    loose = train(store, tol=0.1, **settings)
    same = train(store, resume=True, tol=0.1, **settings)
    assert same.result.status == "converged" and same.outer() == []
    assert_same(same, loose)
    tight = train(store, resume=True, tol=0.01, **settings)
    assert tight.result.certificate.rel_gap <= 0.01 < loose.result.certificate.rel_gap
    assert tight.result.outer > loose.result.outer


def test_blocks_stay_as_they_were_when_memory_changes(store, checkpoint):
    whole_plan = train(store, max_outer=1, schedule="1").result.memory
    settings = {"schedule": "2", "max_outer": 3, "tol": 0.0}
    # the more memory there is, the more decoders it counts
    small = sum(whole_plan.values()) - whole_plan["all rows"] // 4 - whole_plan["reading"]
    whole = train(store, memory=small, **settings)
    assert not whole.events[0]["resident"]
    train(store, memory=small, checkpoint=checkpoint, stop=stop_after(5), **settings)
    resumed = train(store, memory=10**9, checkpoint=checkpoint, resume=True, **settings)
    assert not resumed.events[0]["resident"]
    assert resumed.same(whole)
    train(store, memory=10**9, checkpoint=checkpoint, stop=stop_after(2), **settings)
    with pytest.raises(InputError, match="memory=.* is too small"):
        train(store, memory=small, checkpoint=checkpoint, resume=True, **settings)


@pytest.mark.slow
def test_chunks_that_were_drawn_together_stay_together_when_memory_changes(tmp_path, checkpoint):
    """How many chunks these are follows from the memory that the run was begun with."""
    X, y = random_rows(n=20_000, d=200, density=0.06, zero_rows=0, copies=0)
    store = make_store(tmp_path, X, y, chunk_nonzeros=256)
    settings = {"schedule": "2", "max_outer": 2, "tol": 0.0, "working_set": "none"}
    whole = train(store, memory=345_000, **settings)
    train(store, memory=345_000, checkpoint=checkpoint, stop=stop_after(5), **settings)
    assert train(store, memory=10**9, checkpoint=checkpoint, resume=True, **settings).same(whole)
    assert train(store, memory=10**9, **settings).events[0]["unit_bytes"] > whole.events[0]["unit_bytes"]


@pytest.mark.parametrize(("changed", "expected"), [
    ({"C": 3.0}, "C=2, but 3.0 is given now"), ({"seed": 1}, "seed=0, but 1 is given now"),
    ({"loss": "squared-hinge"}, "loss=hinge, but squared-hinge is given now"),
    ({"solver": "pegasos"}, "solver=dual-cd, but pegasos"), ({"lam": 0.1}, "C=2, but None"),
    ({"bias": 1.0}, "bias=0, but 1.0"), ({"class_weight": {1.0: 2.0}}, "class_weight=None, but"),
    ({"schedule": "2"}, "schedule=auto, but 2"), ({"partition": "fixed"}, "partition=redrawn, but fixed"),
    ({"block_chunks": 2}, "block_chunks=None, but 2"), ({"order": "stored"}, "order=shuffled, but stored"),
])  # fmt: skip
def test_what_changes_the_arithmetic_is_refused_by_name(store, rows, checkpoint, changed, expected):
    train(store, checkpoint=checkpoint, stop=stop_after(1), C=2.0)
    given = ({} if "lam" in changed else {"C": 2.0}) | changed
    with pytest.raises(InputError, match=expected):
        train(store, checkpoint=checkpoint, resume=True, **given)
    with pytest.raises(InputError, match="belongs to another store"):
        train(Matrix(2.0 * rows[0], rows[1]), checkpoint=checkpoint, resume=True, C=2.0)


# long enough to be caught on its way, on a few hundred rows
LONG = ["--schedule", "3", "--block-chunks", "3", "--tol", "0", "--max-outer", "300"]


@pytest.fixture(scope="module")
def uninterrupted(store, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    done = training_cases.command(store, folder / "model.h5", *LONG, "--log", folder / "trace.jsonl", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    return folder


def interrupted(store, folder, number, *options, after=5):
    """Start the command, send it the signal when it has done some outer iterations; (exit code, stderr)."""
    log = folder / "trace.jsonl"
    line = [sys.executable, "-m", "blocksvm.train", store, folder / "model.h5", *LONG, "--log", log, *options]
    process = subprocess.Popen(map(str, line), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    deadline = time.monotonic() + 60
    while (not log.exists() or log.read_bytes().count(b"\n") < after) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.mark.process
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_saves_and_resume_finishes_with_the_same_model(store, uninterrupted, tmp_path, number, succeeds):
    checkpoint, log, model = tmp_path / "run.ckpt", tmp_path / "trace.jsonl", tmp_path / "model.h5"
    code, err = interrupted(store, tmp_path, number, "--checkpoint", checkpoint)
    last = err.strip().splitlines()[-1]
    assert "interrupted in outer iteration" in last
    assert f"state saved in {checkpoint}, go on with --resume" in last
    assert code == 130 and not model.exists()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert (events[-1]["event"], events[-1]["status"]) == ("end", "interrupted")
    gaps = [e["rel_gap"] for e in events if e["event"] == "certificate" and e["rel_gap"] is not None]
    assert events[-1]["rel_gap"] == (gaps[-1] if gaps else None)
    assert (f"last certified relative gap {gaps[-1]:.2e}" if gaps else "no certificate was taken") in last
    saved = describe_checkpoint(checkpoint)
    stopped_in = saved.progress["outer"]
    assert 1 < stopped_in < 300
    assert [e["outer"] for e in events if e["event"] == "outer"] == list(range(1, stopped_in))
    again = [store, model, *LONG, "--log", log, "--checkpoint", checkpoint, "--resume"]
    assert f"resuming at outer iteration {stopped_in}" in succeeds("train", *again).err
    assert content_of_model(model) == content_of_model(uninterrupted / "model.h5")
    # the trace goes on: each outer iteration once, seconds rise over the interruption
    events = [json.loads(line) for line in log.read_text().splitlines()]
    others = [e["event"] for e in events if e["event"] not in ("outer", "certificate")]
    assert others == ["start", "resume", "end"]
    outer = [e for e in events if e["event"] == "outer"]
    assert [e["outer"] for e in outer] == list(range(1, 301))
    seconds = [e["seconds"] for e in outer]
    assert all(a < b for a, b in zip(seconds, seconds[1:], strict=False))
    assert outer[stopped_in - 1]["seconds"] > saved.seconds
    whole = [json.loads(line) for line in (uninterrupted / "trace.jsonl").read_text().splitlines()]
    for ours, theirs in zip(outer, [e for e in whole if e["event"] == "outer"], strict=True):
        for name in ("primal_estimate", "dual_estimate", "rows_visited", "passes", "blocks"):
            assert ours[name] == theirs[name]


@pytest.mark.process
def test_a_killed_run_goes_on_from_its_last_checkpoint(store, uninterrupted, tmp_path, succeeds):
    """SIGKILL; the trace, which was ahead of the checkpoint and may end in half a line, is cut back to it."""
    checkpoint, log, model = tmp_path / "run.ckpt", tmp_path / "trace.jsonl", tmp_path / "model.h5"
    options = ("--checkpoint", checkpoint, "--checkpoint-seconds", "0.05")
    code, _ = interrupted(store, tmp_path, signal.SIGKILL, *options, after=60)
    assert code == -signal.SIGKILL
    assert checkpoint.exists()
    with open(log, "a") as file:
        file.write('{"event": "outer", "outer": 999, "pas')
    succeeds("train", store, model, *LONG, "--log", log, *options, "--resume")
    assert content_of_model(model) == content_of_model(uninterrupted / "model.h5")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert [e["outer"] for e in events if e["event"] == "outer"] == list(range(1, 301))


def test_resume_without_a_file_says_so_and_starts(store, tmp_path, checkpoint, succeeds, refusal):
    options = ["--schedule", "1", "--max-outer", "2", "--tol", "0"]
    _, out, err = succeeds("train", store, tmp_path / "a.h5", *options, "--checkpoint", checkpoint, "--resume")
    assert f"{checkpoint}: no checkpoint yet; starting afresh" in err.splitlines()
    assert "ended by --max-outer after 2 outer iterations" in out
    assert checkpoint.exists()
    told = refusal("train", store, tmp_path / "b.h5", *options, "--checkpoint", checkpoint)
    assert f"{checkpoint}: exists already" in told
    (tmp_path / "text").write_text("hello")
    for path, expected in ((tmp_path / "text", "not an HDF5 file"), (tmp_path, "is a folder")):
        assert expected in refusal("train", store, tmp_path / "m.h5", "--checkpoint", path, "--resume")


def test_a_run_that_was_killed_after_its_model_had_its_name_is_done(store, tmp_path, succeeds, refusal):
    """The repeated command says so and ends well; a model of another run stays."""
    options = ["--schedule", "1", "--max-outer", "4", "--tol", "0", "--checkpoint", tmp_path / "run.ckpt", "--resume"]
    model, result = tmp_path / "m.h5", tmp_path / "result.json"
    succeeds("train", store, model, *options, "--quiet")
    kept = tmp_path / "kept.h5"
    shutil.copy(model, kept)
    told = succeeds("train", store, model, *options, "--json", result).err
    assert f"{model}: is the model of this run, which had ended" in told
    assert content_of_model(model) == content_of_model(kept)
    assert json.loads(result.read_text())["status"] == "max-outer"
    # a run that is to go on, or a model of another one, or none of ours
    for more in (["--max-outer", "5"], ["--tol", "1e-9"]):
        assert f"{model}: exists already" in refusal("train", store, model, *options, *more)
    succeeds("train", store, kept, *options[:2], "--max-outer", "3", "--tol", "0", "--overwrite")
    (tmp_path / "text").write_text("hello")
    for other in (kept, tmp_path / "text"):
        assert f"{other}: exists already" in refusal("train", store, other, *options)
