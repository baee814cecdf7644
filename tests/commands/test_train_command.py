"""blocksvm train as a user meets it: files in and out, one line for each thing that is wrong."""

import json
import os
import re
from functools import partial

import numpy as np
import pytest
from support.training_cases import command, make_store, random_rows, train

from blocksvm.model.model_file import load_model


@pytest.fixture(scope="module")
def store(tmp_path_factory, rows):
    X, y = rows
    return make_store(tmp_path_factory.mktemp("store"), X, np.where(y > 0, 2, 1), chunk_nonzeros=128)


@pytest.fixture
def run(run_in_process):
    return partial(run_in_process, "train")


@pytest.mark.process
def test_the_real_command_trains_what_the_trainer_trains(store, tmp_path):
    model, log = tmp_path / "model.h5", tmp_path / "trace.jsonl"
    options = ["-C", "0.5", "--schedule", "2", "--block-chunks", "4", "--tol", "1e-4", "--seed", "3", "--bias", "1"]
    options += ["--class-weight", "1=2,2=0.5", "--loss", "squared-hinge"]
    done = command(store, model, *options, "--log", log)
    assert done.returncode == 0, done.stderr
    expected = train(store, C=0.5, schedule="2", block_chunks=4, tol=1e-4, seed=3, bias=1.0,
                     class_weight={1.0: 2.0, 2.0: 0.5}, loss="squared-hinge")  # fmt: skip
    saved = load_model(model)
    assert np.array_equal(np.append(saved.weights, saved.intercept), expected.w)
    assert saved.labels == (1.0, 2.0)
    certificate = expected.result.certificate
    assert saved.meta.certificate.rel_gap == certificate.rel_gap <= 1e-4
    assert re.search(r"converged after \d+ outer iterations, .*certified relative gap", done.stdout)
    assert f"{certificate.primal:.10g}" in done.stdout
    # what the next command is, what memory is taken
    assert "next: blocksvm predict" in done.stderr
    assert re.search(r"memory \d+ kB of 1[.,0]* [MG]B: ", done.stderr)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert events[-1]["status"] == "converged"
    assert events[-1]["rel_gap"] == certificate.rel_gap
    assert sorted(os.listdir(tmp_path)) == ["model.h5", "trace.jsonl"]


@pytest.mark.parametrize("bias", ["0", "1.5"])
def test_held_out_accuracy_is_what_predict_prints(store, tmp_path, bias, succeeds):
    X, y = random_rows(n=150, d=45, seed=62, dtype=np.float32)
    valid = make_store(tmp_path, X, np.where(y > 0, 2, 1), name="valid", chunk_nonzeros=128)
    model, log = tmp_path / "model.h5", tmp_path / "trace.jsonl"
    options = ["--valid", valid, "--log", log, "--schedule", "1", "--max-outer", "3", "--tol", "0", "--bias", bias]
    _, out, err = succeeds("train", store, model, *options)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    outer = [event for event in events if event["event"] == "outer"]
    assert f"{outer[-1]['valid_accuracy']:.4f}" in err
    for given in (valid, tmp_path / "valid.svm"):
        assert f"accuracy {outer[-1]['valid_accuracy']:.6f} (" in succeeds("predict", model, given).err
    # the accuracy on the training rows is that of the certificate
    accuracy = load_model(model).meta.certificate.accuracy
    assert f"accuracy {accuracy:.6f} (" in succeeds("predict", model, store).err
    assert f"accuracy on the training rows {accuracy:.4f}" in out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-C", "0"], "-C 0: must be a finite number above 0"),
        (["-C", "1", "--lambda", "1"], "say the same thing"),
        (["--solver", "sgd"], "--solver sgd: no such solver; choose one of "),
        (["--loss", "log"], "--loss log: no such loss; choose one of hinge, squared-hinge"),
        (["--schedule", "often"], "--schedule often: expected auto, overlap"),
        (["--memory", "10kB"], "--memory 0.01MB is too small"),
        (["--class-weight", "heavy"], "--class-weight heavy: expected balanced or LABEL=WEIGHT"),
        (["--class-weight", "1=2,2=x"], "expected balanced or LABEL=WEIGHT"),
        (["--class-weight", "5=2"], "--class-weight 5=2: no row has this label; the labels are 1 and 2"),
        (["--from", "nowhere.h5"], "nowhere.h5: no such file"),
        (["--valid", "nowhere.h5"], "nowhere.h5: no such file"),
        (["--resume"], "--resume needs --checkpoint FILE"),
    ],
)
def test_wrong_arguments_are_one_line_and_exit_2(store, tmp_path, run, options, expected):
    code, out, err = run(store, tmp_path / "model.h5", "--quiet", "--log", tmp_path / "t.jsonl", *options)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert "blocksvm train: error: " in err
    assert expected in err
    assert not (tmp_path / "model.h5").exists()


def test_a_model_may_replace_the_one_that_it_starts_from(store, tmp_path, run):
    """The same bits as under another name, and no damage where the run fails."""
    options = ["--schedule", "1", "--quiet", "--overwrite", "-C", "2"]
    model, other = tmp_path / "model.h5", tmp_path / "other.h5"
    assert run(store, model, "--schedule", "1", "--quiet")[0] == 0
    assert run(store, other, "--from", model, *options)[0] == 0
    before = model.read_bytes()
    assert run(store, model, "--from", model, "--memory", "1KB", *options)[0] == 2
    assert model.read_bytes() == before
    assert run(store, model, "--from", model, *options)[0] == 0
    assert np.array_equal(load_model(model).weights, load_model(other).weights)
    assert model.read_bytes() != before


def test_outputs_are_not_overwritten_by_accident(store, tmp_path, run, refusal):
    options = ["--schedule", "1", "--max-outer", "1", "--quiet"]
    model, log = tmp_path / "model.h5", tmp_path / "trace.jsonl"
    assert run(store, model, "--log", log, *options)[0] == 0
    before = model.read_bytes()
    told = refusal("train", store, tmp_path / "b.h5", "--log", log, *options)
    assert f"{log}: exists already; choose another name or add --overwrite" in told
    for arguments in ((tmp_path / "c.h5", "--log", tmp_path / "c.h5"), (model, "--prior", model), (store,),
                      (model, "--log", store)):  # fmt: skip
        told = refusal("train", store, *arguments, *options, "--overwrite")
        assert re.search(r"is also (the model|an input); choose another name for the (trace|model)", told)
    assert model.read_bytes() == before
    assert run(store, model, "--log", log, *options, "--overwrite")[0] == 0


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
@pytest.mark.parametrize("options", [["-C", "1e308"], ["-C", "1e-310"], ["--lambda", "1e-300"], ["--lambda", "1e300"]])
def test_numbers_beyond_double_precision_are_refused(store, tmp_path, refusal, loss, options):
    told = refusal("train", store, tmp_path / "m.h5", "--loss", loss, *options)
    assert f"{options[0]} {float(options[1]):g}: is beyond what double precision can solve on these rows" in told


@pytest.mark.parametrize("C", ["1e-40", "1e40"])
@pytest.mark.parametrize("solver", [["--loss", "hinge"], ["--loss", "squared-hinge"], ["--solver", "pegasos"]])
def test_numbers_just_within_double_precision_are_solved(store, tmp_path, run, C, solver):
    options = [*solver, "-C", C, "--schedule", "3", "--max-outer", "3", "--quiet"]
    code, out, err = run(store, tmp_path / "m.h5", *options)
    assert (code, err) == (0, "")
    model = load_model(tmp_path / "m.h5")
    assert np.isfinite(model.weights).all()
    assert np.isfinite(model.meta.certificate.primal)
