"""``--solver auto``."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from support.training_cases import make_store, random_rows

from blocksvm.base.errors import InputError
from blocksvm.commands.train import main
from blocksvm.model.model_file import describe_model
from blocksvm.planning.forecast import Processors
from blocksvm.planning.solver_choice import choose_solver, quicker
from blocksvm.planning.training_plan import plan_training
from blocksvm.store.reader import Store
from blocksvm.training.train_settings import TrainSettings


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("stores"), *random_rows(n=900, d=40, seed=6), "two", 128)


def test_the_quicker_one_is_chosen(path):
    with Store(path) as store:
        plan = plan_training(store, TrainSettings.of(loss="logistic"), Processors(1, 1), 3).cluster
    slow, quick = (replace(plan.run, seconds={"waiting": seconds}) for seconds in (20.0, 10.0))
    name, why = quicker(replace(plan, run=slow, smooth_run=quick))
    assert name == "lbfgs"
    assert why == f"planned with 20 s by dual-cd, whose limit is {slow.limit}, and 10 s by lbfgs, with 3 workers"
    assert quicker(replace(plan, run=quick, smooth_run=slow))[0] == "dual-cd"
    assert quicker(replace(plan, run=quick, smooth_run=quick))[0] == "dual-cd"
    assert quicker(replace(plan, smooth_run=None))[0] == "dual-cd"


def test_without_a_choice_it_is_dual_cd(path):
    assert choose_solver(str(path), None, loss="logistic")[0] == "dual-cd"
    name, why = choose_solver(str(path), 4)
    assert (name, "hinge: has no second derivative" in why) == ("dual-cd", True)
    with pytest.raises(InputError, match="too small"):
        choose_solver(str(path), 4, loss="logistic", memory=100)


def test_the_command_says_what_it_takes_and_keeps_it(path, tmp_path, run_in_process):
    model, checkpoint = tmp_path / "m.h5", tmp_path / "c"
    done = run_in_process(main, path, model, "--solver", "auto")
    assert (done.code, describe_model(model)["method"]["name"]) == (0, "dual-cd"), done.err
    assert "--solver auto: dual-cd; there is no cluster" in done.err
    words = [path, model, "--loss", "logistic", "--checkpoint", checkpoint, "--overwrite"]
    assert run_in_process(main, *words, "--solver", "lbfgs", "--max-outer", "2").code == 0
    done = run_in_process(main, *words, "--solver", "auto", "--resume")
    assert (done.code, describe_model(model)["method"]["name"]) == (0, "lbfgs"), done.err


@pytest.mark.process
@pytest.mark.slow
def test_on_a_cluster_a_plan_is_made(path, tmp_path):
    pytest.importorskip("distributed")
    words = [sys.executable, "-P", "-m", "blocksvm.train", path, tmp_path / "m.h5", "--solver", "auto"]
    words += ["--loss", "logistic", "--cluster", "local:2"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    name = describe_model(tmp_path / "m.h5")["method"]["name"]
    assert f"--solver auto: {name}; planned with" in done.stderr and "with 2 workers" in done.stderr
