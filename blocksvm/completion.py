"""python -m blocksvm.completion: a script that lets a shell complete the commands and their options."""

from __future__ import annotations

import argparse
from dataclasses import replace
from importlib import import_module
from inspect import signature

from blocksvm.cli.console import Parser, run
from blocksvm.errors import InputError

SHELLS = ("bash", "zsh", "fish", "tcsh", "powershell")
EPILOG = """in the file that your shell reads at its start:
  bash    eval "$(blocksvm completion bash)"
  fish    blocksvm completion fish | source
zsh reads it from a file named _blocksvm in a folder of fpath; the script's first lines say more of each shell
"""


def parser() -> Parser:
    p = Parser("completion", "Print a script by which a shell completes commands, options and their values.", EPILOG)
    p.add_argument("shell", choices=SHELLS)
    return p


def commands() -> argparse.ArgumentParser:
    """One parser of all commands; those that have other options for each solver have the options of all."""
    from blocksvm.__main__ import COMMANDS
    from blocksvm.cli.options import add_settings
    from blocksvm.learners.methods import NAMES, get_method
    from blocksvm.learners.protocol import COMMON_SETTINGS, SHARED
    from blocksvm.settings import Setting, Settings

    own: dict[str, Setting] = {}
    for setting in (*SHARED, *(one for name in NAMES for one in get_method(name).settings)):
        before = own.setdefault(setting.name, setting)
        own[setting.name] = replace(before, choices=tuple(dict.fromkeys(before.choices + setting.choices)))
    whole = argparse.ArgumentParser("blocksvm")
    found = whole.add_subparsers()
    for command, summary in COMMANDS.items():
        make = import_module(f"blocksvm.{command}").parser
        of_solvers = "settings" in signature(make).parameters
        parents = [make("the solver", Settings()) if of_solvers else make()]
        if of_solvers:
            more = argparse.ArgumentParser(add_help=False, conflict_handler="resolve")
            left_out = COMMON_SETTINGS.names() if command == "regret" else ()
            add_settings(more, "settings", Settings(tuple(own.values())).without(*left_out))
            parents.append(more)
        found.add_parser(command, help=summary, parents=parents, add_help=False)
    return whole


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    try:
        import shtab
    except ImportError:
        raise InputError("completion needs shtab; install it as pip install blocksvm[completion]") from None
    print(shtab.complete(commands(), options.shell), end="")
    return 0


if __name__ == "__main__":
    run(main)
