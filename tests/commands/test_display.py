"""What commands say: closed streams, options, characters that an output lacks; advice on options of other programs and
learners and on interrupted runs; completion, of which bash's function is run; --quiet, --json, the next command."""

import gzip
import io
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import shtab
from support.file_cases import prepare
from support.paths import ROOT
from support.training_cases import random_rows, stop_after

from blocksvm import InputError, Matrix, completion, fit, load_model, measure_regret, open_store
from blocksvm.cli.commands import COMMANDS, module_of
from blocksvm.cli.console import Parser
from blocksvm.cli.console import run as run_command
from blocksvm.cli.foreign_options import FOREIGN_OPTIONS
from blocksvm.online.methods import NAMES


def shell(line, **names):
    quoted = {name: str(value) for name, value in names.items()}
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"], capture_output=True, text=True, cwd=ROOT, timeout=120,
        env=os.environ | quoted | {"PYTHON": sys.executable},
    )  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("closed", ["2>&-", ">&-", ">&- 2>&-", "2>&1 | (exec 0<&-; sleep 0.1)"])
def test_closed_standard_streams_are_no_fault(store, tmp_path, closed):
    """Nor is it that nobody reads them any more."""
    model, log = tmp_path / "m.h5", tmp_path / "t.jsonl"
    line = f'"$PYTHON" -m blocksvm.train "$STORE" "$MODEL" --tol 1e-9 --log "$LOG" {closed}'
    done = shell(line, STORE=store, MODEL=model, LOG=log)
    assert done.returncode == 0 and "Traceback" not in done.stderr
    assert "|" not in closed or done.stderr == ""
    assert "memory" not in done.stdout  # progress does not go where results go
    assert np.isfinite(load_model(model).weights).all()
    for text in log.read_text().splitlines():  # nothing else was written into it
        json.loads(text)


@pytest.mark.process
def test_predictions_without_a_reader(store, tmp_path):
    fit(Matrix(*random_rows(seed=1)), tol=1e-2).save(tmp_path / "m.h5")
    lines = {">&-": (2, "standard output is closed; name an OUTPUT"), "| (exec 0<&-; sleep 0.1)": (0, "")}
    for end, (code, words) in lines.items():
        line = f'"$PYTHON" -m blocksvm.predict --quiet "$MODEL" "$STORE" {end}'
        done = shell(line, STORE=store, MODEL=tmp_path / "m.h5")
        assert done.returncode == code and words in done.stderr, done.stderr
        assert "Traceback" not in done.stderr and "Exception" not in done.stderr


@pytest.mark.parametrize(("arguments", "name", "value"), [
    ("--labels -1,1 x", "labels", "-1,1"), ("x --labels=-1,1", "labels", "-1,1"), ("--tol -1e-3 x", "tol", -1e-3),
    ("-C -inf x", "C", -float("inf")), ("-C0.5 x", "C", 0.5),
    ("--pair -0.1 held.h5 x", "pair", ["-0.1", "held.h5"]), ("-", "input", "-"), ("-- -x", "input", "./-x"),
])  # fmt: skip
def test_values_may_begin_with_a_minus(arguments, name, value):
    p = Parser("test", "")
    for option, kind in (("input", {}), ("-C", {"type": float}), ("--labels", {}), ("--tol", {"type": float}),
                         ("--pair", {"nargs": 2}), ("--overwrite", {"action": "store_true"})):  # fmt: skip
        p.add_argument(option, **kind)
    assert getattr(p.parse_args(arguments.split()), name) == value


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_character_that_an_output_lacks_is_escaped(tmp_path, monkeypatch, encoding):
    """Names of files, columns, categories and labels; files are written in UTF-8 whatever the locale is."""
    table, store, model, out = (tmp_path / name for name in ("zahlen-\u0142.csv", "\u0142.h5", "m.h5", "p.txt"))
    rows = "kauf,gr\u00f6\u00dfe,stra\u03c3e\n" + "\u0142a,1.5,\u03b1\nnein,-2.5,\u03b2\n" * 20
    table.write_text(rows, encoding="utf-8")
    for main, *given in (
        ("split", table, store, "--label", "kauf", "--categorical", "auto,kauf"), ("train", store, model),
        ("info", model, "--top", "3"), ("info", store), ("predict", model, table),
        ("predict", model, table, out), ("predict", model, tmp_path / "\u017cadne.csv"),
    ):  # fmt: skip
        streams = [io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict") for _ in range(2)]
        monkeypatch.setattr(sys, "stdout", streams[0])
        monkeypatch.setattr(sys, "stderr", streams[1])
        with pytest.raises(SystemExit) as ended:
            run_command(module_of(main).main, [str(one) for one in given])
        shown = b"".join(stream.buffer.getvalue() for stream in streams if not stream.flush())
        assert ended.value.code == (2 if "adne" in str(given[-1]) else 0)
        assert (rb"\u0142" if b"adne" not in shown else rb"\u017c") in shown
        assert streams[0].errors == "strict"
    assert out.read_text(encoding="utf-8") == "\u0142a\nnein\n" * 20


def test_a_message_speaks_as_its_caller(store, tmp_path, refusal):
    for _ in range(2):  # before a command and behind it
        with pytest.raises(InputError, match="^tol=-1: must be"):
            fit(Matrix(*random_rows(seed=5)), tol=-1.0)
        assert "error: --tol -1: must be" in refusal("train", store, tmp_path / "m.h5", "--tol", "-1", "--quiet")


def test_rows_with_labels_that_the_model_does_not_know(tmp_path, succeeds):
    fit(Matrix(*random_rows(seed=8)), tol=1e-2).save(tmp_path / "m.h5")
    (tmp_path / "other.svm").write_text("3 1:1\n4 2:1\n")
    (tmp_path / "mixed.svm").write_text("3 1:1\n1 2:1\n")
    err = succeeds("predict", tmp_path / "m.h5", tmp_path / "other.svm").err
    assert "\naccuracy" not in err
    assert "no accuracy: 2 of 2 labelled rows have a label (3, 4) that is not one of the model's (-1, 1)" in err
    err = succeeds("predict", tmp_path / "m.h5", tmp_path / "mixed.svm").err
    assert re.search(r"^accuracy [0-9.]+ \([01] of 2 rows\)$", err, re.M)
    assert "1 of 2 labelled rows have a label (3) that is not one of the model's (-1, 1); they count as wrong" in err


@pytest.mark.parametrize(("name", "words", "says"), [  # a command, the end of its line, what is said
    ("train", "-s 3", "-s: no such option here; LIBLINEAR's -s is --loss here: hinge is its 3"),
    ("train", "-v 5", "blocksvm cv STORE.h5 --folds N"), ("train", "-w1 2", "--class-weight LABEL=W"),
    ("stream", "--cache_file=x", "blocksvm split INPUT STORE.h5"), ("stream", "--loss_function hinge", "--loss NAME"),
    ("train", "-q", "quiet is --quiet; Vowpal Wabbit's -q ab: interactions"),
    ("train", "--max-iter 5", "--max-iter: no such option here; scikit-learn's max_iter is --max-outer N"),
    ("split", "--interactions ab", "--interactions: no such option here; interactions have no option"),
    ("train", "--overwirte", "--overwirte: no such option here; did you mean --overwrite?"),
    ("stream", "--labls -1,1", "--labls: no such option here; did you mean --labels?"),
    ("train", "--zzz", "--zzz: no such option here; blocksvm train --help lists those that there are"),
    ("train", "--seed --overwrite", "--seed: expected one argument"),
    ("train", "--seed --overwirte", "did you mean --overwrite?"),
    ("cv", "--fold 3 --sed 4", "did you mean --folds?; --sed: no such option here; did you mean --seed?"),
    ("train", "--kernl x --max_outr=3 -c 5 --l1 2", "--kernl: no such option here; ... "
     "--max_outr: no such option here; did you mean --max-outer? ... -c: no such option here; LIBLINEAR's C is -C ... "
     "--l1: dual-cd does not accept it"),
    ("train", "--learner pa11", "; did you mean pa1?"), ("train", "--solver dual-dc", "; did you mean dual-cd?"),
    ("train", "--loss hing", "; did you mean hinge?"), ("train", "--partition drawn", "; did you mean redrawn?"),
    ("train", "--lerner pa1", "; did you mean --learner?"),
    ("train", "--solver zzz", "--solver zzz: no such solver; choose one of "),
    ("train", "--loss perceptron", "for dual-cd choose one of hinge, squared-hinge, logistic\n"),  # of the same targets
    ("train", "-C 0", "-C 0: must be a finite number above 0"), ("train", "-C 1 --lambda 1", "say the same thing"),
    ("train", "--loss log", "--loss log: no such loss; choose one of hinge, squared-hinge ... did you mean logistic?"),
    ("train", "--schedule often", "--schedule often: expected auto, overlap"),
    ("train", "--memory 10kB", "--memory 0.01MB is too small"),
    ("train", "--class-weight heavy", "--class-weight heavy: expected balanced or LABEL=WEIGHT"),
    ("train", "--class-weight 1=2,2=x", "expected balanced or LABEL=WEIGHT"),
    ("train", "--class-weight 5=2", "--class-weight 5=2: no row has this label; the labels are -1 and 1"),
    ("train", "--from nowhere.h5", "nowhere.h5: no such file"),
    ("train", "--valid nowhere.h5", "nowhere.h5: no such file"),
    ("train", "--resume --log t.jsonl", "--resume needs --checkpoint FILE"),
])  # fmt: skip
def test_a_wrong_line_is_one_sentence_and_exit_2(store, tmp_path, monkeypatch, run_in_process, name, words, says):
    monkeypatch.chdir(tmp_path)
    code, out, err = run_in_process(name, store, "out.h5", "--quiet", *words.split())
    assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith(f"blocksvm {name}: error: ")
    assert all(part in err for part in says.split(" ... ")) and list(tmp_path.iterdir()) == []
    assert ("did you mean" in err) == ("did you mean" in says)


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


@pytest.mark.parametrize(("main", "words", "others"), [
    ("train", "--l1 3", {"fobos", "subgradient", "hf-fobos"}), ("train", "--kernel rbf", {"kernel", "kernel-pa1"}),
    ("regret", "--learner pa --confidence 0.5", {"cw-var"}),
])  # fmt: skip
def test_an_option_of_others_names_those(store, refusal, main, words, others):
    line = refusal(main, store, *["out.h5"][: main == "train"], *words.split())
    listed = line.partition("is an option of ")[2].removesuffix(", ...").split(", ")
    assert others <= set(listed) <= set(NAMES)


def test_an_interrupted_run_says_how_its_state_would_be_saved(store, tmp_path, run_in_process, monkeypatch):
    monkeypatch.setattr("blocksvm.train.catch_signals", lambda: stop_after(1))
    words, saved = (store, tmp_path / "m.h5", "--tol", "1e-12", "--quiet"), tmp_path / "state"
    done = run_in_process("train", *words)
    assert done.code == 130 and list(tmp_path.iterdir()) == []
    assert done.last_line.endswith("; nothing was saved (--checkpoint FILE saves the state)")
    done = run_in_process("train", *words, "--checkpoint", saved)
    assert done.last_line.endswith(f"; state saved in {saved}, go on with --resume")
    assert saved.exists()


def test_regret_refuses_a_loss_before_it_replays_any_row(store):
    lines = []
    with open_store(store) as source, pytest.raises(InputError, match="has no conjugate"):
        measure_regret(source, "ogd", loss="support.smooth_hinge:BARE", on_progress=lines.append)
    assert lines == []


def completed(script, *words):
    """What bash offers for the last word; a line of its own for each."""
    quoted = " ".join(json.dumps(word) for word in ("blocksvm", *words))
    asked = f'COMP_WORDS=({quoted}); COMP_CWORD={len(words)}; _shtab_blocksvm; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "--norc", "-c", f"{script}\n{asked}"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.process
def test_bash_completes_commands_options_values_and_files(tmp_path, monkeypatch):
    script = shtab.complete(completion.commands(), "bash")
    assert set(completed(script, "")) >= set(COMMANDS)
    assert {"squared-hinge"} <= set(completed(script, "train", "--loss", ""))  # of any solver
    for line, offered in (
        ("str", "stream structure"), ("train store.h5 model.h5 --multi", "--multiclass"), ("train --loss hin", "hinge"),
        ("stream --learner adagrad-f", "adagrad-fobos"), ("stream --format v", "vw"), ("cv --select r", "rmse"),
        ("completion z", "zsh"), ("regret --confid", "--confidence"),
    ):  # fmt: skip
        assert completed(script, *line.split()) == offered.split()
    (tmp_path / "rows.h5").touch()
    monkeypatch.chdir(tmp_path)
    for words in (("train", ""), ("train", "--log", "ro"), ("predict", "ro"), ("split", "r")):
        assert completed(script, *words) == ["rows.h5"]


def test_the_completion_command(succeeds, monkeypatch, refusal):
    assert "_shtab_blocksvm" in succeeds("completion", "bash").out
    assert "choose one of bash, zsh, fish" in refusal("completion", "csh")
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert "pip install shtab" in refusal("completion", "bash")


@pytest.fixture(scope="module")
def examples(tmp_path_factory):
    here = tmp_path_factory.mktemp("in")
    prepare(here)
    (here / "pool.svm").write_text(re.sub("^[-1]+", "?", (here / "s.svm").read_text(), flags=re.MULTILINE))
    return here


# in their order, beside the examples: each prints one line at most
QUIET = ["split s.svm store.h5 --holdout 0.2 test.h5",
         "train store.h5 model.h5 --valid test.h5 --calibrate platt --checkpoint run.ckpt --resume",
         "train store.h5 far.h5 --max-outer 1 --schedule 1 --tol 1e-12", "predict model.h5 test.h5 out.txt",
         "predict model.h5 s.svm probabilities.txt --probabilities",
         "stream s.svm --model online.h5 --predictions p.txt --passes 2", "stream s.svm --learner pa1,arow",
         "export model.h5 model.liblinear --format liblinear", "import model.liblinear again.h5",
         "structure train s.txt tags.h5 --task tags", "report trace.jsonl -o page.html"]  # fmt: skip
# these are asked for figures: they print their table, and no word about files
TABLES = ["cv store.h5 -C 1 --folds 2 --refit best.h5", "margin store.h5 -C 1", "regret store.h5 --learner pa1",
          "structure evaluate tags.h5 s.txt"]  # fmt: skip


def test_quiet_leaves_one_line_of_each_command_or_its_table(examples, succeeds, monkeypatch):
    monkeypatch.chdir(examples)
    for line in (*QUIET[:2], QUIET[1].replace("model", "m2") + " --log trace.jsonl", *QUIET[2:], *TABLES):
        done = succeeds(line, "--quiet", "--overwrite")
        assert done.err == "", line
        if line in TABLES:
            assert "written to" not in done.out and "next:" not in done.out, (line, done.out)
        else:
            assert len(done.out.splitlines()) <= 1, (line, done.out)
        assert line != QUIET[2] or done.out.startswith("not converged: ")


@pytest.mark.parametrize(("text", "name", "options", "rows"), [
    ("1 1:1\n-1 2:1\n" * 2, "rows.svm", "", "NEW.svm"), ("1 1:1\n-1 2:1\n" * 2, "rows.v1.svm", "", "NEW.svm"),
    ("1 1:1\n-1 2:1\n" * 2, "rows", "", "NEW-TEXT"), ("label,a\n1,2\n-1,3\n", "rows.csv", "--format csv", "NEW.csv"),
    ("pos\tgood film\nneg\tdull film\n" * 2, "reviews.tsv", "--format documents", "NEW.tsv"),
    ("1 | a b\n-1 | c\n" * 2, "clicks.vw.gz", "", "NEW.vw.gz"),
])  # fmt: skip
def test_the_next_command_names_rows_of_the_same_kind(tmp_path, text, name, options, rows, succeeds):
    data = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
    (tmp_path / name).write_bytes(data)
    succeeds("split", tmp_path / name, tmp_path / "s.h5", *options.split())
    done = succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5")
    assert done.err.splitlines()[-1] == f"next: blocksvm predict {tmp_path / 'm.h5'} {rows}"
    labels = ["--labels", "neg,pos"] * (name == "reviews.tsv")
    options = [*options.split(), *labels, "--bits", "10", "--model", tmp_path / "online.h5"]
    done = succeeds("stream", tmp_path / name, *options)
    assert done.err.splitlines()[-1] == f"next: blocksvm predict {tmp_path / 'online.h5'} {rows}"


FIGURES = {"split": "{0}/s.svm {0}/split.h5 --holdout 0.2 {0}/test.h5 --overwrite",
           "train": "{0}/s.h5 {0}/new.h5 --overwrite", "predict": "{0}/m.h5 {0}/s.h5 {0}/p.txt --overwrite",
           "ask": "{0}/m.h5 {0}/pool.svm {0}/asked.txt --overwrite",
           "cv": "{0}/s.h5 -C 0.1:1:2 --folds 2 --overwrite", "regret": "{0}/s.h5 --learner pa1 --overwrite",
           "margin": "{0}/s.h5 -C 1 --overwrite", "info": "{0}/s.h5 --overwrite",
           "stream": "{0}/s.svm --learner pa1 --overwrite",
           "structure": "evaluate {0}/chunks.h5 {0}/s.txt --overwrite"}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", FIGURES)
def test_figures_go_to_standard_output_or_a_file(name, examples, tmp_path, run_in_process, succeeds, refusal):
    arguments = FIGURES[name].format(examples).split()
    printed = succeeds(name, *arguments, "--quiet", "--json")
    figures = json.loads(printed.out)  # one object, and nothing beside it
    first = [arguments[0], "--json", *arguments[1:]] if name == "structure" else ["--json", *arguments]
    assert json.loads(run_in_process(name, *first, "--quiet").out).keys() == figures.keys()  # takes no input for FILE
    for more, file in ((("--json", tmp_path / "f.json"), "f.json"), ((f"--json={tmp_path / 'other'}",), "other")):
        written = succeeds(name, *arguments, "--quiet", *more)
        assert written.out.strip() and not written.out.startswith("{")
        told = json.loads((tmp_path / file).read_text())
        assert told.keys() - {"json", "blocksvm"} == figures.keys()
    succeeds(name, *arguments, "--quiet", "--json", tmp_path / "f.json")
    words = [word for word in arguments if word != "--overwrite"]
    assert "exists already" in refusal(name, *words, "--json", tmp_path / "f.json")
