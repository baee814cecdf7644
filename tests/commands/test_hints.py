"""Advice of the command line: options of other programs and learners, interrupted runs."""

import pytest
from support.training_cases import stop_after

from blocksvm import InputError, completion, measure_regret, open_store, train
from blocksvm.cli.foreign_options import FOREIGN_OPTIONS
from blocksvm.losses import LOSSES, get_loss
from blocksvm.online.methods import NAMES


@pytest.mark.parametrize(
    ("main", "words", "says"),
    [
        ("train", "-s 3", "-s: no such option here; LIBLINEAR's -s is --loss here: hinge is its 3"),
        ("train", "-v 5", "blocksvm cv STORE.h5 --folds N"),
        ("train", "-w1 2", "--class-weight LABEL=W"),
        ("stream", "--cache_file=x", "blocksvm split INPUT STORE.h5"),
        ("stream", "--loss_function hinge", "--loss NAME"),
        ("train", "-q", "quiet is --quiet; Vowpal Wabbit's -q ab: interactions"),
        ("train", "--max-iter 5", "--max-iter: no such option here; scikit-learn's max_iter is --max-outer N"),
        ("split", "--interactions ab", "--interactions: no such option here; interactions have no option"),
        ("train", "--overwirte", "--overwirte: no such option here; did you mean --overwrite?"),
        ("stream", "--labls -1,1", "--labls: no such option here; did you mean --labels?"),
        ("train", "--zzz", "--zzz: no such option here; blocksvm train --help lists those that there are"),
        ("train", "--seed --overwrite", "--seed: expected one argument"),
        ("train", "--seed --overwirte", "did you mean --overwrite?"),
        ("cv", "--fold 3 --sed 4", "did you mean --folds?; --sed: no such option here; did you mean --seed?"),
    ],
)
def test_options_of_other_programs_are_answered_with_ours(store, main, words, says, refusal):
    assert says in refusal(main, store, "out.h5", *words.split())


def test_all_options_are_answered_at_once(store, refusal):
    told = refusal("train", store, "out.h5", "--kernl", "x", "--max_outr=3", "-c", "5", "--l1", "2")
    for says in ("--kernl: no such option here; ", "--max_outr: no such option here; did you mean --max-outer?",
                 "-c: no such option here; LIBLINEAR's C is -C", "--l1: dual-cd does not accept it"):  # fmt: skip
        assert says in told


def test_a_model_of_liblinear_is_to_be_imported(store, refusal, tmp_path):
    (tmp_path / "m.model").write_text("solver_type L2R_L2LOSS_SVC_DUAL\nnr_class 2\n")
    told = f"m.model: is a model of LIBLINEAR; make one of ours by blocksvm import {tmp_path / 'm.model'} MODEL.h5"
    assert refusal("predict", tmp_path / "m.model", store).endswith(told)


def test_hints_name_options_that_exist():
    known = {flag for parser in completion.commands()._subparsers._group_actions[0].choices.values()
             for flag in parser._option_string_actions}  # fmt: skip
    advised = {word.strip(",;:()") for hint in FOREIGN_OPTIONS.values() for word in hint.split() if word[:2] == "--"}
    assert advised - known <= {"--power_t", "--coin", "--ftrl", "--bit_precision"}
    assert all(hint[-1] not in ".;" for hint in FOREIGN_OPTIONS.values())


@pytest.mark.parametrize(
    ("main", "words", "others"),
    [
        ("train", "--l1 3", {"fobos", "subgradient", "hf-fobos"}),
        ("train", "--kernel rbf", {"kernel", "kernel-pa1"}),
        ("regret", "--learner pa --confidence 0.5", {"cw-var"}),
    ],
)
def test_an_option_of_others_names_those(store, refusal, main, words, others):
    line = refusal(main, store, *["out.h5"][: main == "train"], *words.split())
    listed = line.partition("is an option of ")[2].removesuffix(", ...").split(", ")
    assert others <= set(listed) <= set(NAMES)


def test_an_interrupted_run_says_how_its_state_would_be_saved(store, tmp_path, run_in_process, monkeypatch):
    monkeypatch.setattr(train, "catch_signals", lambda: stop_after(1))
    words, saved = (store, tmp_path / "m.h5", "--tol", "1e-12", "--quiet"), tmp_path / "state"
    done = run_in_process("train", *words)
    assert done.code == 130
    assert done.last_line.endswith("; nothing was saved (--checkpoint FILE saves the state)")
    done = run_in_process("train", *words, "--checkpoint", saved)
    assert done.last_line.endswith(f"; state saved in {saved}, go on with --resume")
    assert saved.exists()


def test_regret_refuses_a_loss_before_it_replays_any_row(store):
    lines = []
    with open_store(store) as source, pytest.raises(InputError, match="has no conjugate"):
        measure_regret(source, "ogd", loss="support.smooth_hinge:BARE", on_progress=lines.append)
    assert lines == []


def test_only_losses_of_the_same_targets_are_advised(store, refusal):
    told = refusal("train", store, "out.h5", "--loss", "perceptron")
    listed = told.partition("for dual-cd choose one of ")[2].split(", ")
    assert listed == ["hinge", "squared-hinge", "logistic"]
    assert not any(get_loss(name).of_numbers for name in listed)
    assert set(listed) < set(LOSSES)
