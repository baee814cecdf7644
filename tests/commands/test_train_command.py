"""blocksvm train as a user meets it: files in and out, one line for each thing that is wrong; and a run that a limit
has ended says why, and what to do: to a person, to a script, and in its trace."""

import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from support.training_cases import command, make_store, random_rows, train

import blocksvm
from blocksvm.model.model_file import load_model
from blocksvm.training.settings import TrainSettings


@pytest.fixture(scope="module")
def store(tmp_path_factory, rows):
    X, y = rows
    return make_store(tmp_path_factory.mktemp("store"), X, np.where(y > 0, 2, 1), chunk_nonzeros=128)


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
    """Of rows that lack some features, have some that are new, and a label that training does not know: wrong."""
    X, y = random_rows(n=150, d=45, seed=62, dtype=np.float32)
    X.data[X.indices < 10] = 0.0
    X.eliminate_zeros()
    labels = np.append(9.0, np.where(y > 0, 2, 1)[1:])
    valid = make_store(tmp_path, X, labels, name="valid", chunk_nonzeros=128)
    model, log = tmp_path / "model.h5", tmp_path / "trace.jsonl"
    options = ["--valid", valid, "--log", log, "--schedule", "1", "--max-outer", "3", "--tol", "0", "--bias", bias]
    _, out, err = succeeds("train", store, model, *options)
    events = [json.loads(line) for line in log.read_text().splitlines()]
    outer = [event for event in events if event["event"] == "outer"]
    assert f"{outer[-1]['valid_accuracy']:.4f}" in err and 0.2 < outer[-1]["valid_accuracy"] < 1.0
    for given in (valid, tmp_path / "valid.svm"):
        assert f"accuracy {outer[-1]['valid_accuracy']:.6f} (" in succeeds("predict", model, given).err
    # the accuracy on the training rows is that of the certificate
    accuracy = load_model(model).meta.certificate.accuracy
    assert f"accuracy {accuracy:.6f} (" in succeeds("predict", model, store).err
    assert f"accuracy on the training rows {accuracy:.4f}" in out


def test_a_model_may_replace_the_one_that_it_starts_from(store, tmp_path, succeeds, refusal):
    """The same bits as under another name, and no damage where the run fails."""
    options = ["--schedule", "1", "--quiet", "--overwrite", "-C", "2"]
    model, other = tmp_path / "model.h5", tmp_path / "other.h5"
    succeeds("train", store, model, "--schedule", "1", "--quiet")
    succeeds("train", store, other, "--from", model, *options)
    before = model.read_bytes()
    refusal("train", store, model, "--from", model, "--memory", "1KB", *options)
    assert model.read_bytes() == before
    succeeds("train", store, model, "--from", model, *options)
    assert np.array_equal(load_model(model).weights, load_model(other).weights)
    assert model.read_bytes() != before


def test_outputs_are_not_overwritten_by_accident(store, tmp_path, succeeds, refusal):
    options = ["--schedule", "1", "--max-outer", "1", "--quiet"]
    model, log = tmp_path / "model.h5", tmp_path / "trace.jsonl"
    succeeds("train", store, model, "--log", log, *options)
    before = model.read_bytes()
    told = refusal("train", store, tmp_path / "b.h5", "--log", log, *options)
    assert f"{log}: exists already; choose another name or add --overwrite" in told
    for arguments in ((tmp_path / "c.h5", "--log", tmp_path / "c.h5"), (model, "--prior", model), (store,),
                      (model, "--log", store)):  # fmt: skip
        told = refusal("train", store, *arguments, *options, "--overwrite")
        assert re.search(r"is also (the model|an input); choose another name for the (trace|model)", told)
    assert model.read_bytes() == before
    succeeds("train", store, model, "--log", log, *options, "--overwrite")


@pytest.mark.parametrize("loss", ["hinge", "squared-hinge"])
@pytest.mark.parametrize("options", [["-C", "1e308"], ["-C", "1e-310"], ["--lambda", "1e-300"], ["--lambda", "1e300"]])
def test_numbers_beyond_double_precision_are_refused(store, tmp_path, refusal, loss, options):
    told = refusal("train", store, tmp_path / "m.h5", "--loss", loss, *options)
    assert f"{options[0]} {float(options[1]):g}: is beyond what double precision can solve on these rows" in told


@pytest.mark.parametrize("C", ["1e-40", "1e40"])
@pytest.mark.parametrize("solver", [["--loss", "hinge"], ["--loss", "squared-hinge"], ["--solver", "pegasos"]])
def test_numbers_just_within_double_precision_are_solved(store, tmp_path, succeeds, C, solver):
    options = [*solver, "-C", C, "--schedule", "3", "--max-outer", "3", "--quiet"]
    assert succeeds("train", store, tmp_path / "m.h5", *options).err == ""
    model = load_model(tmp_path / "m.h5")
    assert np.isfinite(model.weights).all()
    assert np.isfinite(model.meta.certificate.primal)


def table(n=200, scale=(1.0, 1.0, 1.0), seed=0):
    """(X, y): raw numbers, as of a table, whose columns are of these sizes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.where(X @ [1.0, -2.0, 0.5] + rng.normal(size=n) > 0, 1.0, -1.0)
    return X * scale, y


@pytest.mark.parametrize(("scale", "settings", "cause", "advice"), [
    ((1.0, 1e3, 1e6), {"max_outer": 3}, "scale",
     "very different size; scale them, by scale=max-abs of split, or rows, by normalize=l2"),
    ((0.3, 0.3, 0.3), {"max_outer": 2, "C": 1e7}, "large C", "since C is large (1e+07); lower it"),
    ((0.3, 0.3, 0.3), {"max_outer": 1, "schedule": "1", "tol": 1e-10}, "limit", "raise max_outer"),
    ((0.3, 0.3, 0.3), {"max_passes": 1, "schedule": "1", "tol": 1e-10}, "limit", "raise max_passes"),
    ((1.0, 1.0, 1.0), {"max_outer": 100}, None, None),
    ((1.0, 1e3, 1e6), {"solver": "pegasos", "max_outer": 2}, None, None),  # without a dual nothing is missed
    ((1.0, 1e3, 1e6), {"learner": "pa1", "max_outer": 1}, None, None),
])  # fmt: skip
def test_a_run_that_did_not_converge_tells_why(scale, settings, cause, advice):
    events = []
    fitted = blocksvm.fit(*table(scale=scale), on_event=events.append, **settings)
    end = events[-1]
    assert (end["event"], end["status"], end["cause"]) == ("end", fitted.status, cause)
    assert fitted.result.cause == cause
    assert (end["advice"] is None) == (advice is None)
    if advice is not None:
        assert fitted.status.startswith("max-")
        assert advice in end["advice"] and "not converged: the gap" in end["advice"]


@pytest.mark.parametrize(("settings", "named"), [
    ({"loss": "logistic"}, "newton"), ({"loss": "squared-hinge", "C": 1e7}, "newton"), ({"loss": "absolute"}, None),
    ({"loss": "logistic", "bias": "free"}, "newton"), ({"loss": "hinge"}, "newton with loss=squared-hinge"),
    ({"loss": "squared-hinge", "solver": "newton"}, "dual-cd"),
])  # fmt: skip
def test_another_solver_is_named_where_it_takes_the_problem_and_newton_where_features_are_few(settings, named):
    settings = {"max_outer": 1, "tol": 1e-10, "schedule": "1"} | settings
    if settings.get("solver"):
        del settings["schedule"]
    advice = blocksvm.fit(*table(), **settings).result.advice
    assert f"try solver={named}, or raise max_outer" in advice if named else "newton" not in advice
    assert "newton" not in blocksvm.fit(*table(n=20), **settings).result.advice


def test_the_last_lines_json_and_trace_of_train(tmp_path, succeeds):
    X, y = table(scale=(1.0, 1e3, 1e6))
    lines = [f"{t:g},{','.join(f'{v:g}' for v in row)}" for t, row in zip(y, X, strict=True)]
    (tmp_path / "raw.csv").write_text("\n".join(["label,a,b,c", *lines]) + "\n")
    succeeds("split", tmp_path / "raw.csv", tmp_path / "s.h5")
    common = (tmp_path / "s.h5", tmp_path / "m.h5", "--max-outer", "3", "--overwrite", "--log", tmp_path / "t.jsonl")
    done = succeeds("train", *common)
    assert "not converged: the gap" in done.out and "--scale max-abs of split" in done.out and "lower -C" in done.out
    told = json.loads(succeeds("train", *common, "--json").out)
    assert (told["status"], told["cause"]) == ("max-outer", "scale")
    assert "--normalize l2" in told["advice"]
    end = json.loads((tmp_path / "t.jsonl").read_text().splitlines()[-1])
    assert (end["cause"], end["advice"]) == ("scale", told["advice"])
    succeeds("split", tmp_path / "raw.csv", tmp_path / "s.h5", "--normalize", "l2", "--overwrite")
    assert json.loads(succeeds("train", *common[:2], "--overwrite", "--json").out)["cause"] is None


@pytest.fixture(scope="module")
def stores(tmp_path_factory):
    folder = tmp_path_factory.mktemp("causes")
    X, y = random_rows(n=80, d=30, seed=4)
    targets = {"two": y, "three": np.arange(80) % 3, "real": X @ np.ones(30)}
    return {name: make_store(folder, X, target, name=name) for name, target in targets.items()}


@pytest.fixture
def two_readings(monkeypatch):
    """Every solver has 2 as its default limit."""
    known = TrainSettings.capabilities.fget

    def limited(settings):
        return replace(known(settings), default_max_outer=min(2, known(settings).default_max_outer))

    monkeypatch.setattr(TrainSettings, "capabilities", property(limited))


@pytest.mark.parametrize(("rows", "words", "code"), [
    ("two", "", 3), ("two", "--max-outer 2", 0), ("two", "--max-seconds 1e-6", 0),
    ("two", "--solver newton --loss logistic", 3), ("two", "--solver kernel", 3),
    ("two", "--solver pegasos --dual", 3), ("two", "--solver pegasos", 3), ("two", "--tol 0.999", 0),
    ("two", "--learner pa1", 0), ("three", "", 3), ("three", "--multiclass crammer-singer", 3),
    ("real", "--loss epsilon-insensitive", 3),
])  # fmt: skip
def test_a_default_limit_that_ends_a_training_above_its_gap_is_status_3(
    stores, two_readings, tmp_path, run_in_process, rows, words, code, succeeds
):
    words = ["--tol", "1e-9", *words.split()]
    done = run_in_process("train", stores[rows], tmp_path / "m.h5", *words)
    assert done.code == code, done.err
    advised = code == 3 or "--max" in words[-2]
    assert done.out.startswith("not converged: ") == advised
    assert ("next: blocksvm predict" in done.err) == (not advised)
    if code == 3:  # the model is that of the same limit, given
        given = succeeds("train", stores[rows], tmp_path / "given.h5", *words, "--max-outer", "2")
        assert given.out.startswith("not converged: ") == ("pegasos" not in words or "--dual" in words)
        models = [blocksvm.load_model(tmp_path / name) for name in ("m.h5", "given.h5")]
        assert np.array_equal(models[0].weights, models[1].weights)
        assert "(by default 2)" in done.out.split("\n")[0]


@pytest.mark.slow
def test_other_commands_that_a_default_limit_ends_above_their_gap(
    stores, two_readings, tmp_path, run_in_process, succeeds
):
    words = (stores["two"], "--tol", "1e-9", "-C", "1,10", "--folds", "2")
    done = run_in_process("cv", *words, "--refit", tmp_path / "best.h5")
    assert done.code == 3 and done.out.startswith("not converged: 4 of 4 problems") and "best.h5: not conv" in done.err
    done = succeeds("cv", *words, "--max-outer", "2", "--refit", tmp_path / "given.h5")
    assert done.out.startswith("not converged: 4 of 4 problems") and "not conv" in done.err
    succeeds("cv", *words[:1], "-C", "1", "--tol", "0.9", "--folds", "2")

    for words, code in (("-C 1e7 --tol 1e-9", 3), ("-C 1e7 --tol 1e-9 --max-outer 2", 0), ("-C 10 --tol 0.9", 0)):
        done = run_in_process("margin", stores["two"], *words.split())
        assert (done.code, done.out.startswith("not converged: ")) == (code, "1e-9" in words), done.err

    (tmp_path / "tags.txt").write_text("the DT\ndog NN\nran VB\n\na DT\nran NN\n\n" * 3)
    for words, code in (("", 3), ("--epochs 10", 0), ("--tol 0.99", 0)):
        words = ["--task", "tags", "--learner", "frank-wolfe", "--tol", "1e-9", "--overwrite", *words.split()]
        done = run_in_process("structure", "train", tmp_path / "tags.txt", tmp_path / "s.h5", *words)
        assert (done.code, done.out.startswith("not converged: ")) == (code, words[-1] != "0.99"), done.err
