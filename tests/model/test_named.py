"""A file never chooses code: whatever module its text names, none is imported unless the user names the same one; and
nothing of its text moves a terminal's cursor."""

import importlib
import json
import shutil
import sys
from pathlib import Path

import pytest
from support.file_cases import described, put, rewrite_meta, texts_of
from support.paths import GOLDEN

import blocksvm
from blocksvm.base import user_code
from blocksvm.base.errors import CONTROLS, InputError
from blocksvm.formats import get_format
from blocksvm.losses import get_loss
from blocksvm.model.model_file import load_model
from blocksvm.online import get_learner
from blocksvm.online.methods import get_method

MARKER = "chosen_by_a_file"
PLACE = f"{MARKER}:THING"
EVIL, ESCAPED = "a\x1b[31m\nb\r\u2028\x9b\u202ec", r"a\x1b[31m\nb\r\u2028\x9b\u202ec"


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The current folder, with a file of each kind."""
    shutil.copytree(GOLDEN, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """A module that notes that it ran, and nothing named by the user."""
    code = f"import pathlib\npathlib.Path({str(tmp_path / 'ran')!r}).touch()\nTHING = 1\n"
    (tmp_path / f"{MARKER}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(user_code, "_by_user", set())
    importlib.invalidate_caches()
    yield tmp_path / "ran"
    sys.modules.pop(MARKER, None)


RESUMED = "--working-set none --schedule 1 --seed 1 --tol 1e-9"
# file -> commands that read it, of which the first prints its description
READERS = {
    "model.h5": [
        "info model.h5", "info model.h5 --verify --json", "info model.h5 --top 3", "predict model.h5 rows.svm out",
        "predict model.h5 store.h5 out --scores", "predict model.h5 rows.svm out --probabilities",
        "train store.h5 out --from model.h5", "train store.h5 out --prior model.h5",
        "stream rows.svm --learner pa1 --prior model.h5",
        *(f"export model.h5 out --format {form}" for form in ("table", "liblinear", "sklearn")),
    ],
    "words-model.h5": [
        "info words-model.h5 --json", "info words-model.h5 --top 2", "predict words-model.h5 reviews.tsv out --scores",
        "export words-model.h5 out --format table", "train words.h5 out --prior words-model.h5",
    ],
    "learner.h5": [
        "info learner.h5", "predict learner.h5 rows.svm out", "train store.h5 out --from learner.h5",
        "stream rows.svm --from learner.h5 --model out",
        "stream rows.svm --from learner.h5 --test --predictions out",
        "stream rows.svm --from learner.h5 --learner arow", "train store.h5 out --from learner.h5 --learner arow",
    ],
    "store.h5": [
        "info store.h5 --verify", "train store.h5 out --max-outer 1", "split rows.svm store.h5 --append",
        "split rows.svm out --like store.h5", "predict model.h5 store.h5 out", "cv store.h5 -C 1 --folds 2",
        "train store.h5 out --learner pa1 --valid store.h5",
    ],
    "words.h5": [
        "info words.h5 --json", "train words.h5 out --max-outer 1", "predict words-model.h5 words.h5 out",
        "split reviews.tsv words.h5 --append",
    ],
    "checkpoint.h5": [
        "info checkpoint.h5 --verify", "train store.h5 out --from checkpoint.h5",
        f"train store.h5 out --checkpoint checkpoint.h5 --resume {RESUMED}",
    ],
    "trace.jsonl": ["report trace.jsonl -o out"],
    "structured.h5": [
        "info structured.h5", "structure predict structured.h5 tags.txt out",
        "structure evaluate structured.h5 tags.txt",
    ],
}  # fmt: skip
# what older and other files may have, too
MORE = {"model.h5": [("method", "settings", "loss"), ("text", "format"), ("settings", "solver")],
        "learner.h5": [("method", "settings", "loss"), ("text", "format")],
        "words-model.h5": [("labels", 0)], "store.h5": [("recipe", "format"), ("settings", "format")],
        "checkpoint.h5": [("method", "settings", "loss"), ("settings", "solver")]}  # fmt: skip


def forged(name: str, path: Path, place: tuple, value: str) -> None:
    """A copy of a file in which another text stands at a place, under a right checksum."""
    shutil.copy(GOLDEN / name, path)
    if path.suffix == ".jsonl":
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        put(lines, place, value)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    else:
        rewrite_meta(path, lambda meta: put(meta, place, value))


@pytest.fixture
def run(run_in_process):
    """run(line, *more): the Outcome of a command of the list."""

    def run(line: str, *more: str):
        name, *words = line.split()
        return run_in_process(name, *words, *more)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("kind", READERS)
def test_no_text_of_a_file_is_imported_or_reaches_a_terminal_as_it_is(here, marker, run, kind):
    places = texts_of(described(GOLDEN / kind)) + MORE.get(kind, [])
    assert len(places) > 3
    shown = 0
    for k, place in enumerate(dict.fromkeys(places)):
        names_code = place[-1] in ("loss", "format", "name", "solver", "learner", "task")
        others = READERS[kind][1:] if names_code else READERS[kind][1 + k % len(READERS[kind]) :][:1]  # in turn
        for number, line in enumerate([READERS[kind][0], *others]):
            values = (PLACE, EVIL, MARKER) if names_code and not number else (PLACE, EVIL)
            for value in values if kind.endswith(".h5") else values[:1]:
                Path("out").unlink(missing_ok=True)
                for name in READERS:
                    shutil.copy(GOLDEN / name, name)
                forged(kind, here / kind, place, value)
                done = run(line)
                assert done.code in (0, 2), (place, line, done.err)
                assert not marker.exists() and MARKER not in sys.modules, (place, line)
                told = done.out + done.err
                assert CONTROLS.search(told.replace("\n", "")) is None, (place, line, told)
                shown += (json.dumps(EVIL) if "--json" in line else ESCAPED) in done.out
    assert shown or kind == "trace.jsonl"


# what is forged where, the command, and the option that the refusal advises
ADVISED = [("model.h5", ("text", "format"), "predict model.h5 rows.svm out", "--format"),
           ("learner.h5", ("method", "name"), "stream rows.svm --from learner.h5 --model out", "--learner"),
           ("learner.h5", ("method", "name"), "train store.h5 out --from learner.h5", "--learner"),
           ("store.h5", ("recipe", "format"), "split rows.svm store.h5 --append", "--format"),
           ("store.h5", ("recipe", "format"), "split rows.svm out --like store.h5", "--format"),
           ("structured.h5", ("task",), "structure predict structured.h5 tags.txt out", "--task"),
           ("structured.h5", ("task",), "structure evaluate structured.h5 tags.txt", "--task")]  # fmt: skip


@pytest.mark.parametrize(("kind", "place", "line", "option"), ADVISED)
def test_the_refusal_advises_an_option_by_which_it_runs(here, marker, run, kind, place, line, option):
    forged(kind, here / kind, place, PLACE)
    done = run(line)
    assert (done.code, marker.exists()) == (2, False)
    assert f"{kind}: names {PLACE} as its {option[2:]}" in done.last_line
    assert f"if you trust it, give {option} {PLACE}" in done.last_line
    done = run(line, option, "os:path")
    assert (done.code, marker.exists()) == (2, False)
    run(line, option, PLACE)
    assert marker.exists()  # the user has named it: that it is none of the right kind is another matter


def test_python_names_what_may_run(tmp_path, marker):
    forged("learner.h5", tmp_path / "m.h5", ("method", "name"), PLACE)
    forged("model.h5", tmp_path / "t.h5", ("method", "settings", "loss"), PLACE)
    with blocksvm.open_store(GOLDEN / "store.h5") as store:
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
def test_no_other_word_of_the_line_is_trust(here, marker, run_in_process, words):
    """Neither the name of a file, nor another option's value, nor a part of the same option's."""
    forged("model.h5", here / "m.h5", ("text", "format"), PLACE)
    done = run_in_process("predict", "m.h5", "rows.svm", *words)
    assert (done.code, marker.exists(), MARKER in sys.modules) == (2, False, False)


@pytest.mark.parametrize("option", ["--temp {}", "--temp={}"])
def test_a_word_elsewhere_permits_no_file_to_name_code(here, marker, refusal, option):
    """A folder that is called like a place, and an output."""
    Path(PLACE).mkdir()
    forged("store.h5", here / "s.h5", ("recipe", "format"), PLACE)
    forged("model.h5", here / "m.h5", ("text", "format"), PLACE)
    told = refusal("split", "rows.svm", "s.h5", "--append", *option.format(PLACE).split())
    Path(PLACE).rmdir()
    for line in (told, refusal("predict", "m.h5", "rows.svm", PLACE)):
        assert f"names {PLACE} as its format" in line
    assert not marker.exists()


def test_a_module_that_another_file_hides_is_told(marker):
    """A user's sched.py, where Python's own comes first."""
    with pytest.raises(ImportError, match=r"^sched is \S+/sched.py, which has no MINE; if you mean another file"):
        user_code.object_at("sched:MINE")
    with pytest.raises(ImportError, match="^sys is a module of Python's own, which has no MINE"):
        user_code.object_at("sys:MINE")
