"""The keywords of functions that editors complete are the settings that are declared, with their types."""

from dataclasses import fields
from typing import get_args, get_type_hints

import pytest

import blocksvm
from blocksvm.api import FitKeywords
from blocksvm.api.fit import OF_ROWS
from blocksvm.api.streams import HIDDEN
from blocksvm.base.settings import Setting
from blocksvm.conversion.convert import SplitSettings
from blocksvm.formats.choices import all_choices
from blocksvm.losses import LOSSES
from blocksvm.online import LEARNERS
from blocksvm.online.learner import COMMON_SETTINGS
from blocksvm.online.methods import SOLVERS, get_method
from blocksvm.streaming.stream_pass import StreamSettings
from blocksvm.theory.report import REPLAY
from blocksvm.training.run_settings import RUN_SETTINGS

HINTS = get_type_hints(FitKeywords)


def of_methods() -> dict[str, Setting]:
    groups = [get_method(name, learner=True).settings for name in LEARNERS]
    for name in SOLVERS:
        groups += [get_method(name).settings, *(get_method(name).takes({"loss": loss}) for loss in LOSSES)]
    return {setting.name: setting for settings in groups for setting in settings}


def declared() -> dict[str, Setting]:
    return of_methods() | {setting.name: setting for setting in RUN_SETTINGS}


def named(owner) -> set[str]:
    return {field.name for field in fields(owner)} - {*HIDDEN}


def test_every_setting_is_a_keyword():
    of_stream = named(StreamSettings) | set(COMMON_SETTINGS.names())
    of_store = named(SplitSettings) | set(OF_ROWS)
    assert set(HINTS) == {"solver", "learner", *declared(), *REPLAY.names(), *of_stream, *of_store}


def test_a_keyword_takes_what_its_setting_takes():
    other = [
        name
        for name, setting in declared().items()
        if HINTS[name] is not object and isinstance(setting.kind, type) and setting.kind not in get_args(HINTS[name])
    ]
    assert other == []


def test_no_keyword_means_two_things():
    assert not set(all_choices().names()) & (named(StreamSettings) | set(declared()))
    assert not set(of_methods()) & named(SplitSettings)


def test_write_store_takes_the_settings_of_split_and_of_the_format(tmp_path):
    (tmp_path / "t.csv").write_text("y,a,id\n1,2,7\n0,3,8\n1,5,9\n")
    meta = blocksvm.write_store(
        tmp_path / "t.csv", tmp_path / "t.h5", label="y", ignore="id", dtype="float64", bits=None
    )
    assert (meta["n_samples"], meta["n_features"], meta["recipe"]["dtype"]) == (3, 1, "float64")
    again = blocksvm.write_store([tmp_path / "t.csv"], tmp_path / "u.h5", like=tmp_path / "t.h5")
    assert again["recipe"] == meta["recipe"]
    assert blocksvm.write_store([tmp_path / "t.csv"], tmp_path / "w.h5", label="y", ignore="id", dtype="float64",
                                n_jobs=-1)["fingerprint"] == meta["fingerprint"]  # fmt: skip
    with pytest.raises(blocksvm.InputError, match="n_jobs=0: must be 1 or more, or -1"):
        blocksvm.write_store(tmp_path / "t.csv", tmp_path / "v.h5", n_jobs=0)
    with pytest.raises(blocksvm.InputError, match="normalise: the format csv does not accept it"):
        blocksvm.write_store(tmp_path / "t.csv", tmp_path / "v.h5", normalise="l2")
    with pytest.raises(blocksvm.InputError, match="normalize=l3: choose one of none, l2"):
        blocksvm.write_store(tmp_path / "t.csv", tmp_path / "v.h5", normalize="l3")
    with pytest.raises(blocksvm.InputError, match="dtype=float64, but float32 is given now"):
        blocksvm.write_store(tmp_path / "t.csv", tmp_path / "v.h5", like=tmp_path / "t.h5", dtype="float32")


def test_a_stream_takes_the_settings_of_its_learner_and_of_the_format(tmp_path):
    (tmp_path / "t.csv").write_text("y,a,id\n1,2,7\n-1,3,8\n1,5,9\n")
    stream = blocksvm.Stream("pa1", C=0.5, label="y", ignore="id", n_jobs=2, bias=1.0)
    assert stream.run(tmp_path / "t.csv") and stream.rows == 3
    stream.save(tmp_path / "m.h5")
    with pytest.raises(blocksvm.InputError, match="exists"):
        stream.save(tmp_path / "m.h5")
    model = blocksvm.load_model(tmp_path / "m.h5")
    assert len(model.feature_ids) == 1
    more = blocksvm.Stream(start_from=str(tmp_path / "m.h5"))
    assert more.run(str(tmp_path / "t.csv")) and more.rows == 6
    for name in ("step", "idf", "scale", "options"):
        with pytest.raises(blocksvm.InputError, match=f"{name}: pa1 does not accept it"):
            blocksvm.Stream("pa1", **{name: 1.0})
