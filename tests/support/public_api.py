"""The public interface: the names that ``import blocksvm`` has with their arguments, the estimators' parameters, and
every option of every command with its default.

    PYTHONPATH=.:tests python -m support.public_api        (writes tests/public_api.txt, after a change on purpose)
"""

from __future__ import annotations

import argparse
import inspect
import re
from pathlib import Path

import blocksvm
from blocksvm import estimators
from blocksvm.base.settings import REQUIRED, Settings
from blocksvm.commands import COMMANDS, module_of
from blocksvm.learners.engine.methods import NAMES, get_method

FILE = Path(__file__).resolve().parents[1] / "public_api.txt"


def signature(name: str, one) -> str:
    """name(arguments with their defaults), without types; of a type the name alone."""
    if not callable(one):
        return name
    try:
        parameters = inspect.signature(one).parameters.values()
    except ValueError:
        return name
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    shown = []
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and "*" not in "".join(shown):
            shown.append("*")
        default = "" if one.default is one.empty else "=..." if callable(one.default) else f"={one.default!r}"
        shown.append(stars.get(one.kind, "") + one.name + default)
    return f"{name}({', '.join(shown)})"


def names() -> list[str]:
    lines = []
    for name in sorted(set(blocksvm.__all__) - {"__version__"}):
        one = getattr(blocksvm, name)
        lines.append(signature(f"blocksvm.{name}", one))
        if inspect.isclass(one) and not issubclass(one, Warning | Exception):
            ours = [cls for cls in reversed(one.__mro__) if cls.__module__.startswith("blocksvm")]
            members = {member: value for cls in ours for member, value in vars(cls).items()}
            lines += [signature(f"blocksvm.{name}.{member}", value) for member, value in sorted(members.items())
                      if not member.startswith("_") and callable(value)]  # fmt: skip
    lines += [signature(f"blocksvm.estimators.{name}", getattr(estimators, name)) for name in estimators.__all__]
    return [re.sub(r"<factory>|<[^>]* object at 0x[^>]*>", "...", line) for line in lines]


def choices_of(action: argparse.Action) -> str:
    return "" if not action.choices else f" {{{','.join(map(str, action.choices))}}}"


def default_of(action: argparse.Action) -> str:
    """The parser's default, or the one in the help text, of settings whose default is filled in after parsing."""
    if action.default not in (None, False, argparse.SUPPRESS):
        return f" (default {action.default})"
    text = action.help or ""
    marked = re.search(r"(\S+) \(default\)", text)  # "shuffled (default) or stored"
    if marked:
        return f" (default {marked[1]})"
    described = re.search(r"\(default\b[^()]*\)", text)
    return f" {described[0]}" if described else ""


def options() -> list[str]:
    lines = []
    for command in COMMANDS:
        make = module_of(command).parser
        parser = make("the solver", Settings()) if "settings" in inspect.signature(make).parameters else make()
        for action in parser._actions:
            words = ", ".join(action.option_strings) or str(action.metavar or action.dest)
            lines.append(f"{command} {words}{choices_of(action)}{default_of(action)}")
    for name in NAMES:
        for setting in get_method(name).settings:
            default = "needed" if setting.default is REQUIRED else f"default {setting.default}"
            lines.append(f"{name}: {setting.name} ({default})")
    return lines


def listing() -> str:
    return "\n".join([*names(), "", *options(), ""])


if __name__ == "__main__":
    FILE.write_text(listing())
