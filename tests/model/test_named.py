"""A file never chooses code: whatever module its text names, none is imported unless the user names the same one."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from support.file_cases import described, put, rewrite_meta, sentences, texts_of

import blocksvm
from blocksvm import cv, export, info, predict, report, split, stream, structure, train
from blocksvm.base import user_code
from blocksvm.base.errors import InputError
from blocksvm.formats import get_format
from blocksvm.losses import get_loss
from blocksvm.model.model_file import load_model
from blocksvm.online import get_learner
from blocksvm.online.methods import get_method

MARKER = "chosen_by_a_file"
PLACE = f"{MARKER}:THING"
TEXT = "".join(f"{1 if i % 3 else -1} {i % 7 + 2}:{i % 5 + 0.5} {i % 2}:{1 + i % 3}\n" for i in range(40))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A file of each kind, and the commands that read it."""
    folder = tmp_path_factory.mktemp("named")
    (folder / "rows.svm").write_text(TEXT)
    (folder / "columns").write_text(sentences(1, 30))
    blocksvm.write_store([str(folder / "rows.svm")], folder / "store.h5")
    with blocksvm.open_store(folder / "store.h5") as store:
        blocksvm.fit(store, max_outer=2).save(folder / "model.h5")
        blocksvm.fit(store, learner="pa1", max_outer=1).save(folder / "learner.h5")
    runs = [(train, "store.h5 other.h5 --checkpoint run.ckpt --log run.jsonl --max-outer 2 --tol 1e-9"),
            (structure, "train columns structure.h5 --task tags --epochs 1")]  # fmt: skip
    for command, arguments in runs:
        assert command.main(placed(folder, f"{arguments} --quiet")) in (None, 0)
    return folder


def placed(folder: Path, arguments: str) -> list[str]:
    names = ("rows.svm", "columns", "other", "run", "cv.", "structure.", "store", "model", "learner.h5", "out", "trace")
    return [str(folder / word) if word.startswith(names) else word for word in arguments.split()]


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """A module that notes that it ran, and nothing named by the user."""
    (tmp_path / f"{MARKER}.py").write_text(
        f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\nTHING = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(user_code, "_by_user", set())
    importlib.invalidate_caches()
    yield tmp_path / "ran"
    sys.modules.pop(MARKER, None)


# kind -> commands that read it
READERS = {
    "model.h5": [
        (info, "model.h5"), (info, "model.h5 --verify --json"), (info, "model.h5 --top 3"),
        (predict, "model.h5 rows.svm out"), (predict, "model.h5 store.h5 out --scores"),
        (predict, "model.h5 rows.svm out --probabilities"),
        (train, "store.h5 out --from model.h5"), (train, "store.h5 out --prior model.h5"),
        (train, "store.h5 out --from model.h5"),
        (stream, "rows.svm --learner pa1 --prior model.h5"),
        *((export, f"model.h5 out --format {form}") for form in ("table", "liblinear", "sklearn")),
    ],
    "learner.h5": [
        (info, "learner.h5"), (predict, "learner.h5 rows.svm out"),
        (train, "store.h5 out --from learner.h5"), (stream, "rows.svm --from learner.h5 --model out"),
        (stream, "rows.svm --from learner.h5 --test --predictions out"),
        (stream, "rows.svm --from learner.h5 --learner pa1"),
        (train, "store.h5 out --from learner.h5 --learner pa1"),
    ],
    "store.h5": [
        (info, "store.h5 --verify"), (train, "store.h5 out --max-outer 1"), (split, "rows.svm store.h5 --append"),
        (split, "rows.svm out --like store.h5"), (predict, "model.h5 store.h5 out"),
        (cv, "store.h5 -C 1 --folds 2"),
        (train, "store.h5 out --learner pa1 --valid store.h5"),
    ],
    "run.ckpt": [
        (info, "run.ckpt --verify"), (train, "store.h5 out --from run.ckpt"),
        (train, "store.h5 out --checkpoint run.ckpt --resume --tol 1e-9"),
    ],
    "run.jsonl": [(report, "run.jsonl -o out")],
    "structure.h5": [
        (info, "structure.h5"), (structure, "predict structure.h5 columns out"),
        (structure, "evaluate structure.h5 columns"),
    ],
}  # fmt: skip
# what older and other files may have, too
MORE = {"model.h5": [("method", "settings", "loss"), ("text", "format"), ("settings", "solver")],
        "learner.h5": [("method", "settings", "loss"), ("text", "format")],
        "store.h5": [("recipe", "format"), ("settings", "format")],
        "run.ckpt": [("method", "settings", "loss"), ("settings", "solver")]}  # fmt: skip


def forged(source: Path, path: Path, place: tuple, value: str) -> None:
    """A copy in which another text stands at a place, under a right checksum."""
    shutil.copy(source, path)
    if source.suffix == ".jsonl":
        lines = [json.loads(line) for line in source.read_text().splitlines()]
        put(lines, place, value)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        rewrite_meta(path, lambda meta: put(meta, place, value))


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_no_text_of_a_file_is_imported(folder, tmp_path, marker, run_in_process, kind):
    places = texts_of(described(folder / kind)) + MORE.get(kind, [])
    assert len(places) > 3
    here = tmp_path / "here"
    shutil.copytree(folder, here)
    for k, place in enumerate(dict.fromkeys(places)):
        names_code = place[-1] in ("loss", "format", "name", "solver", "learner", "task")
        readers = READERS[kind] if names_code else [READERS[kind][k % len(READERS[kind])]]  # the others in turn
        for number, (command, arguments) in enumerate(readers):
            for value in (PLACE, MARKER) if names_code and not number else (PLACE,):
                for name in ("out", *READERS):
                    (here / name).unlink(missing_ok=True)
                    if name != "out":
                        shutil.copy(folder / name, here / name)
                forged(folder / kind, here / kind, place, value)
                done = run_in_process(command.main, *placed(here, arguments), "--quiet")
                assert done.code in (0, 2), (place, arguments, done.err)
                assert not marker.exists(), (place, arguments)
                assert MARKER not in sys.modules, (place, arguments)


# what is forged where, the command, and the option that the refusal advises
ADVISED = [("model.h5", ("text", "format"), predict, "model.h5 rows.svm out", "--format"),
           ("learner.h5", ("method", "name"), stream, "rows.svm --from learner.h5 --model out", "--learner"),
           ("learner.h5", ("method", "name"), train, "store.h5 out --from learner.h5", "--learner"),
           ("store.h5", ("recipe", "format"), split, "rows.svm store.h5 --append", "--format"),
           ("store.h5", ("recipe", "format"), split, "rows.svm out --like store.h5", "--format"),
           ("structure.h5", ("task",), structure, "predict structure.h5 columns out", "--task"),
           ("structure.h5", ("task",), structure, "evaluate structure.h5 columns", "--task")]  # fmt: skip


@pytest.mark.parametrize(("kind", "place", "command", "arguments", "option"), ADVISED)
def test_the_refusal_advises_an_option_by_which_it_runs(
    folder, tmp_path, marker, run_in_process, kind, place, command, arguments, option
):
    here = tmp_path / "here"
    shutil.copytree(folder, here)
    forged(folder / kind, here / kind, place, PLACE)
    done = run_in_process(command.main, *placed(here, arguments))
    assert (done.code, marker.exists()) == (2, False)
    assert f"{here / kind}: names {PLACE} as its {option[2:]}" in done.last_line
    assert f"if you trust it, give {option} {PLACE}" in done.last_line
    done = run_in_process(command.main, *placed(here, arguments), option, "os:path")
    assert (done.code, marker.exists()) == (2, False)
    run_in_process(command.main, *placed(here, arguments), option, PLACE)
    assert marker.exists()  # the user has named it: that it is none of the right kind is another matter


def test_python_names_what_may_run(folder, tmp_path, marker):
    forged(folder / "learner.h5", tmp_path / "m.h5", ("method", "name"), PLACE)
    forged(folder / "model.h5", tmp_path / "t.h5", ("method", "settings", "loss"), PLACE)
    with blocksvm.open_store(folder / "store.h5") as store:
        with pytest.raises(InputError, match=f"m.h5: names {PLACE} as its learner, .* give learner={PLACE}"):
            blocksvm.fit(store, start_from=tmp_path / "m.h5")
        assert load_model(tmp_path / "t.h5").meta.method.settings["loss"] == PLACE
        blocksvm.fit(store, start_from=tmp_path / "t.h5", max_outer=1)
    for ask in (get_loss, get_learner, get_method, get_format):
        with pytest.raises(InputError, match=f"a file: names {PLACE}"):
            ask(PLACE)
    assert not marker.exists()
    with pytest.raises(InputError, match="is not a loss"):
        blocksvm.fit([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0], loss=PLACE)
    assert marker.exists()


def test_what_is_made_of_a_files_names_is_not_the_users(marker):
    with user_code.names_of("m.h5"):
        user_code.by_user({"loss": PLACE})
        with pytest.raises(InputError, match="m.h5: names chosen_by_a_file:THING as its loss"):
            get_loss(PLACE)
    user_code.by_user({"loss": "a:b", "more": {"format": "c:d"}}, learner="e:f,g:h", score=None, task=3)
    for setting, place in (("loss", "a:b"), ("format", "c:d"), ("learner", "e:f"), ("solver", "g:h")):
        user_code.require_named(place, setting)


def test_a_place_counts_only_for_the_setting_that_it_is_given_for(marker):
    user_code.by_user({"labels": "a:b", "header": "c:d", "loss": "x,e:f", "format": "g:h"})
    assert user_code.is_named("g:h", "format")
    for setting, place in (("loss", "a:b"), ("format", "c:d"), ("loss", "e:f"), ("loss", "g:h"), ("learner", "g:h")):
        assert not user_code.is_named(place, setting)


@pytest.mark.parametrize(
    "words", [[f"x,{PLACE}"], [PLACE], ["out", "--loss", PLACE], ["out", "--format", f"x,{PLACE}"]]
)
def test_no_other_word_of_the_line_is_trust(folder, tmp_path, marker, run_in_process, monkeypatch, words):
    """Neither the name of a file, nor another option's value, nor a part of the same option's."""
    monkeypatch.chdir(tmp_path)
    forged(folder / "model.h5", tmp_path / "m.h5", ("text", "format"), PLACE)
    done = run_in_process(predict.main, "m.h5", folder / "rows.svm", *words)
    assert (done.code, marker.exists(), MARKER in sys.modules) == (2, False, False)


@pytest.mark.parametrize("option", ["--temp {}", "--temp={}"])
def test_a_word_elsewhere_permits_no_file_to_name_code(folder, tmp_path, marker, run_in_process, monkeypatch, option):
    """A folder that is called like a place, and an output."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / PLACE).mkdir()
    forged(folder / "store.h5", tmp_path / "s.h5", ("recipe", "format"), PLACE)
    forged(folder / "model.h5", tmp_path / "m.h5", ("text", "format"), PLACE)
    for command, *words in ((split, folder / "rows.svm", "s.h5", "--append", *option.format(PLACE).split()),
                            (predict, "m.h5", folder / "rows.svm", PLACE)):  # fmt: skip
        done = run_in_process(command.main, *words)
        assert (done.code, marker.exists()) == (2, False)
        assert f"names {PLACE} as its format" in done.last_line
        if (tmp_path / PLACE).exists():
            (tmp_path / PLACE).rmdir()


def test_a_module_that_another_file_hides_is_told(marker):
    """A user's sched.py, where Python's own comes first."""
    with pytest.raises(ImportError, match=r"^sched is \S+/sched.py, which has no MINE; if you mean another file"):
        user_code.object_at("sched:MINE")
    with pytest.raises(ImportError, match="^sys is a module of Python's own, which has no MINE"):
        user_code.object_at("sys:MINE")
