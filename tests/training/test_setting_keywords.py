"""The keywords of ``fit`` that editors complete are the settings that are declared, with their types."""

import inspect
from typing import get_args, get_type_hints

import blocksvm
from blocksvm.api.setting_keywords import FitSettings
from blocksvm.base.settings import Setting
from blocksvm.learners import LEARNERS
from blocksvm.learners.engine.methods import SOLVERS, get_method
from blocksvm.losses import LOSSES
from blocksvm.training.run_settings import RUN_SETTINGS

HINTS = get_type_hints(FitSettings)


def declared() -> dict[str, Setting]:
    groups = [RUN_SETTINGS, *(get_method(name, learner=True).settings for name in LEARNERS)]
    for name in SOLVERS:
        groups += [get_method(name).settings, *(get_method(name).takes({"loss": loss}) for loss in LOSSES)]
    return {setting.name: setting for settings in groups for setting in settings}


def test_every_setting_is_a_keyword():
    assert set(HINTS) == {"solver", "learner", *declared()}


def test_a_keyword_takes_what_its_setting_takes():
    other = [
        name
        for name, setting in declared().items()
        if HINTS[name] is not object and isinstance(setting.kind, type) and setting.kind not in get_args(HINTS[name])
    ]
    assert other == []


def test_functions_have_them():
    for function in (blocksvm.fit, blocksvm.cross_validate):
        assert inspect.signature(function).parameters["settings"].annotation == "Unpack[FitSettings]"
