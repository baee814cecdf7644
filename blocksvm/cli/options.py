"""Settings as options of a command line: one declaration serves options, their help, and the values that were given.

Imports nothing heavy, so that ``--help`` is quick: a solver's own settings are only loaded when it is named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from blocksvm.errors import option
from blocksvm.formats import AUTO, FORMATS
from blocksvm.settings import Settings

SOLVER_WORDS = ("--solver", "--learner")


def value_of(arguments: Sequence[str], *flags: str) -> str | None:
    """The value of an option among arguments that have not been parsed: '--solver pa1' or '--solver=pa1'."""
    found = None
    for number, argument in enumerate(arguments):
        flag, equals, value = argument.partition("=")
        if flag in flags:
            if equals:
                found = value
            elif number + 1 < len(arguments):
                found = arguments[number + 1]
    return found


def add_format(parser, default: str = "told by its first bytes") -> None:
    """Add ``--format``."""
    names = ", ".join((AUTO, *FORMATS))
    parser.add_argument(
        "--format", metavar="NAME", help=f"of the text: {names}, or module:attribute (default: {default})"
    )


def add_settings(
    parser,
    title: str,
    settings: Settings,
    only: Sequence[str] | None = None,
    types: Mapping[str, Callable] | None = None,
) -> None:
    """Add a group of options to a parser, each None (or False) where it is not given; values are checked by whoever
    takes the settings.  only: names of those wanted; types: parsers of values that people write in their own way."""
    group = parser.add_argument_group(title)
    for setting in settings:
        if only is not None and setting.name not in only:
            continue
        if setting.kind is bool:
            group.add_argument(option(setting.name), dest=setting.name, action="store_true", default=None,
                               help=setting.described().replace("%", "%%"))  # fmt: skip
            continue
        metavar = setting.metavar or {str: "NAME", int: "N"}.get(setting.kind, "X")
        if setting.choices and len(setting.choices) <= 3:
            metavar = "|".join(map(str, setting.choices))
        group.add_argument(option(setting.name), dest=setting.name, type=(types or {}).get(setting.name, str),
                           metavar=metavar, help=setting.described().replace("%", "%%"))  # fmt: skip


def given(options, settings: Settings) -> dict:
    """The settings that were given among parsed options."""
    values = {name: getattr(options, name, None) for name in settings.names()}
    return {name: value for name, value in values.items() if value is not None}


def refusal(owner: str, settings: Settings) -> Callable[[str], str | None]:
    """What a parser says of an option that ``owner`` does not take, but another solver or learner does."""

    def sentence(flag: str) -> str | None:
        from blocksvm.training.methods import NAMES, get_method

        if not any(flag == option(setting.name) for name in NAMES for setting in get_method(name).settings):
            return None
        takes = ", ".join(option(setting.name) for setting in settings) or "no settings"
        return f"{flag}: {owner} has no use for it; it takes {takes}"

    return sentence


def described(name: str, summary: str, settings: Settings, more: Sequence[str] = ()) -> str:
    """A solver or learner with its settings, for ``--help-solver`` and ``--help-learner``."""
    rows = []
    for setting in settings:
        metavar = setting.metavar or {str: "NAME", int: "N", bool: ""}.get(setting.kind, "X")
        rows.append((f"{option(setting.name)} {metavar}".rstrip(), setting.described()))
    width = max((len(flag) for flag, _ in rows), default=0)
    lines = [f"{name}: {summary}", *more]
    if rows:
        lines += ["", *(f"  {flag.ljust(width)}  {text}" for flag, text in rows)]
    return "\n".join(lines)
