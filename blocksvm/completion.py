"""blocksvm completion: a script that lets a shell complete the commands and their options."""

import argparse
import re
from dataclasses import replace
from inspect import signature

from blocksvm.base.errors import option_string, require_library
from blocksvm.cli.commands import COMMANDS, module_of
from blocksvm.cli.console import Parser, run

FILES = re.compile(r"FILE|DIR|TRACE|MODEL|TEXT|INPUT|\.h5|\.csv|\.jsonl|\.png|\.html")  # names of arguments
EPILOG = """add to the file that your shell reads at its start:
  bash    eval "$(blocksvm completion bash)"
  fish    blocksvm completion fish | source
  zsh     save the script as _blocksvm in a folder of fpath
  tcsh    blocksvm completion tcsh > ~/.blocksvm.tcsh; source ~/.blocksvm.tcsh
  powershell  blocksvm completion powershell | Out-String | Invoke-Expression
The first lines of the script say more about each shell.
"""


def parser() -> Parser:
    p = Parser("completion", "Print a script with which a shell completes commands, options and their values:\n"
               "bash, zsh, fish, tcsh or PowerShell.", EPILOG)  # fmt: skip
    p.add_argument("shell", choices=("bash", "zsh", "fish", "tcsh", "powershell"), help="your shell")
    return p


def commands() -> argparse.ArgumentParser:
    """One parser of all commands; those that have other options for each solver have the options of all."""
    import shtab

    from blocksvm.base.settings import Setting, Settings
    from blocksvm.online.learner import COMMON_SETTINGS, SHARED
    from blocksvm.online.methods import NAMES, get_method

    settings: dict[str, Setting] = {}
    for setting in (*SHARED, *(one for name in NAMES for one in get_method(name).settings)):
        before = settings.setdefault(setting.name, setting)
        settings[setting.name] = replace(before, choices=tuple(dict.fromkeys(before.choices + setting.choices)))
    whole = argparse.ArgumentParser("blocksvm")
    subparsers = whole.add_subparsers()
    for name, summary in COMMANDS.items():
        make = module_of(name).parser
        of_solvers = "settings" in signature(make).parameters
        parser = make("the solver", Settings()) if of_solvers else make()
        left_out = COMMON_SETTINGS.names() if name == "regret" else ()
        known = parser._option_string_actions
        of_all = [one for one in settings.values() if one.name not in left_out and option_string(one.name) not in known]
        parser.add("settings", *of_all if of_solvers else (), defaults=False)
        for action in parser._actions:
            if FILES.search(str(action.metavar or "")):
                action.complete = shtab.FILE
        subparsers.add_parser(name, help=summary, parents=[parser], add_help=False)
    return whole


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    require_library("shtab", "completion")
    import shtab

    print(shtab.complete(commands(), options.shell), end="")
    return 0


if __name__ == "__main__":
    run(main)
