"""python -m blocksvm.completion: a script that lets a shell complete the commands and their options."""

from __future__ import annotations

from blocksvm.cli.completion import SHELLS, Described, described
from blocksvm.cli.console import Parser, run

EPILOG = """in the file that your shell reads at its start:
  bash    eval "$(blocksvm completion bash)"
  zsh     source <(blocksvm completion zsh)       (behind compinit)
  fish    blocksvm completion fish | source
"""


def parser() -> Parser:
    p = Parser("completion", "Print a script by which a shell completes commands, options and their values.", EPILOG)
    p.add_argument("shell", choices=tuple(SHELLS))
    return p


def commands() -> dict[str, Described]:
    """Every command with its options; of those that have other options for each solver, the options of all."""
    from importlib import import_module
    from inspect import signature

    from blocksvm.__main__ import COMMANDS
    from blocksvm.cli.options import add_settings
    from blocksvm.errors import option
    from blocksvm.formats import AUTO, FORMATS
    from blocksvm.learners import LEARNERS
    from blocksvm.learners.methods import NAMES, get_method
    from blocksvm.learners.protocol import COMMON_SETTINGS, SHARED
    from blocksvm.settings import Settings
    from blocksvm.training.run_settings import RUN_SETTINGS

    everything = SHARED
    values: dict[str, list] = {"--format": [AUTO, *FORMATS]}
    for settings in (SHARED, RUN_SETTINGS, *(get_method(name).settings for name in NAMES)):
        for setting in settings:
            known = values.setdefault(option(setting.name), [])
            known += [choice for choice in setting.choices if choice not in known]
        if settings is not RUN_SETTINGS:
            everything += settings.without(*everything.names())
    found = {}
    for command, summary in COMMANDS.items():
        make = import_module(f"blocksvm.{command}").parser
        parsed = make("the solver", Settings()) if signature(make).parameters else make()
        if signature(make).parameters:
            known = [setting.name for setting in everything if option(setting.name) in parsed._option_string_actions]
            of_stores = COMMON_SETTINGS.names() if command == "regret" else ()
            add_settings(parsed, "settings", everything.without(*known, *of_stores))
        names = NAMES if command == "train" else tuple(LEARNERS)
        own = {flag: names for flag in ("--solver", "--learner", "--help-solver", "--help-learner")}
        found[command] = described(summary, parsed, values | own)
    return found


def main(arguments: list[str]) -> int:
    options = parser().parse_args(arguments)
    print(SHELLS[options.shell](commands()), end="")
    return 0


if __name__ == "__main__":
    run(main)
