"""One identity of each input for the whole of a run: a file that is replaced in between is never read as a mix."""

import os
import shutil

import pytest
from support.training_cases import make_store, random_rows

from blocksvm.base.errors import InputError
from blocksvm.files import paths
from blocksvm.files.input import open_input
from blocksvm.files.paths import one_run
from blocksvm.train import main as train

SENTENCE = "was replaced or changed while this run was reading it; run it again"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two of each input, made of other rows; the second one replaces the first."""
    place = tmp_path_factory.mktemp("inputs")
    for name, seed in (("a", 0), ("b", 1)):
        X, y = random_rows(n=40, seed=seed)
        make_store(place, X, y, name=name)
    for name in "ab":
        for model in ("model", "calibrated --calibrate platt", "online --learner pa1"):
            ending, *more = model.split()
            assert train([f"{place}/{name}.h5", f"{place}/{name}.{ending}", "--quiet", *more]) == 0
    return place


class Replacing(dict):
    """What a run has met; when it meets ``path`` for the first time, the file there is replaced."""

    def __init__(self, path, other):
        self.path, self.other, self.done = str(path), other, False

    def setdefault(self, key, found):
        first = super().setdefault(key, found)
        if key == self.path and not self.done:
            self.done = True
            os.replace(self.other, self.path)
        return first


CASES = {
    "predict, the model": ("predict", ["{model}", "{text}", "{out}"], "model"),
    "predict, the text": ("predict", ["{model}", "{text}", "{out}"], "text"),
    "predict, the store": ("predict", ["{model}", "{store}", "{out}"], "store"),
    "predict, a calibrated model": ("predict", ["{calibrated}", "{text}", "{out}", "--probabilities"], "calibrated"),
    "train, the store": (train, ["{store}", "{out}"], "store"),
    "train, a warm start": (train, ["{store}", "{out}", "--from", "{model}", "-C", "2"], "model"),
    "train, a prior": (train, ["{store}", "{out}", "--prior", "{model}"], "model"),
    "train, a model gone on with": (train, ["{store}", "{out}", "--from", "{online}"], "online"),
    "train, held-out rows": (train, ["{store}", "{out}", "--valid", "{other}"], "other"),
    "stream, a model gone on with": ("stream", ["{text}", "--from", "{online}", "--model", "{out}"], "online"),
    "stream, a prior": ("stream", ["{text}", "--learner", "pa1", "--prior", "{model}", "--model", "{out}"], "model"),
    "stream, the text twice": ("stream", ["{text}", "--learner", "pa1", "--passes", "2", "--model", "{out}"], "text"),
    "split, the text": ("split", ["{text}", "{out}"], "text"),
    "export": ("export", ["{model}", "{out}", "--format", "table"], "model"),
    "cv": ("cv", ["{store}", "--folds", "2", "--json={out}"], "store"),
    "info": ("info", ["{model}", "--verify", "--json"], "model"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_file_that_is_replaced_is_never_read_as_a_mix(tmp_path, folder, run_in_process, monkeypatch, case, succeeds):
    main, arguments, replaced = CASES[case]
    kinds = {"store": "h5", "text": "svm", "model": "model", "calibrated": "calibrated", "online": "online"}
    places = {kind: tmp_path / f"a.{ending}" for kind, ending in kinds.items()} | {"other": tmp_path / "other.h5"}
    places["out"] = tmp_path / "out"
    for kind, ending in kinds.items():
        shutil.copy(folder / f"a.{ending}", places[kind])
    shutil.copy(folder / "b.h5", places["other"])
    whole = [part.format(**places) for part in arguments]
    done = succeeds(main, *whole, "--quiet")
    before = places["out"].read_bytes() if places["out"].exists() else done.out
    places["out"].unlink(missing_ok=True)
    new = tmp_path / "new"
    shutil.copy(folder / ("a.h5" if replaced == "other" else f"b.{kinds[replaced]}"), new)
    run = paths.Run(files=Replacing(places[replaced], new))
    token = paths._run.set(run)
    try:
        done = run_in_process(main, *whole, "--quiet")
    finally:
        paths._run.reset(token)
    assert run.files.done
    if done.code == 0:
        after = places["out"].read_bytes() if places["out"].exists() else done.out
        assert len(after) == len(before)  # times and versions aside
    else:
        assert (done.code, done.last_line.endswith(SENTENCE)) == (2, True), done.err
        assert not places["out"].exists()


def test_what_counts_as_the_same_file(tmp_path):
    path = tmp_path / "rows"
    path.write_text("1 1:1\n")
    with one_run():
        open_input(path).close()
        open_input(path).close()
        with one_run():  # a part of the same run
            open_input(path).close()
        path.write_text("1 1:2\n2\n")
        with pytest.raises(InputError, match=SENTENCE):
            open_input(path)
    open_input(path).close()
    with one_run():
        open_input(path).close()
