"""Scripts that let a shell complete the commands, made of what the parsers know.  Imports nothing heavy."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

FILES = re.compile(r"FILE|DIR|TRACE|MODEL|\.h5|\.csv|\.jsonl|\.png|\.html")


@dataclass(frozen=True)
class Choice:
    """An option.  flags: its names; help: what it is, a line; values: those that it may have, or () where these are not
    known; takes: whether it has a value; files: whether that is the name of a file."""

    flags: tuple[str, ...]
    help: str
    takes: bool
    values: tuple[str, ...] = ()
    files: bool = False


@dataclass(frozen=True)
class Described:
    """A command: what it does, its options, and the values of its positional argument (() : files)."""

    summary: str
    options: tuple[Choice, ...]
    words: tuple[str, ...] = ()


def described(summary: str, parser: argparse.ArgumentParser, values: Mapping[str, Sequence]) -> Described:
    """What a parser knows; values: those of options by their flag, where the parser does not know them."""
    options, words = [], ()
    for action in parser._actions:
        choices = tuple(map(str, action.choices or ()))
        if not action.option_strings:
            words = words or choices
            continue
        known = [tuple(map(str, values[flag])) for flag in action.option_strings if values.get(flag)]
        takes = action.nargs != 0
        help = " ".join((action.help or "").replace("%%", "%").split())
        files = takes and FILES.search(str(action.metavar or "")) is not None
        options.append(Choice(tuple(action.option_strings), help, takes, choices or (known[0] if known else ()), files))
    return Described(summary, tuple(options), words)


def bash(commands: Mapping[str, Described]) -> str:
    """A function for bash's programmable completion."""
    values, options = [], []
    for name, command in commands.items():
        cases: dict[str, list[str]] = {}
        for one in command.options:
            if one.takes:
                # without words bash offers files, unless it is told not to
                words = f'COMPREPLY=($(compgen -W "{" ".join(one.values)}" -- "$cur"))'
                then = words if one.values else ":" if one.files else "compopt +o default 2>/dev/null"
                cases.setdefault(then, []).extend(f'"{name} {flag}"' for flag in one.flags)
        values += [f"    {' | '.join(flags)}) {then}; return ;;" for then, flags in cases.items()]
        flags = " ".join(flag for one in command.options for flag in one.flags)
        line = f'    {name}) [[ $cur == -* ]] && COMPREPLY=($(compgen -W "{flags}" -- "$cur"))'
        if command.words:
            line += f'; [[ $cur == -* ]] || COMPREPLY=($(compgen -W "{" ".join(command.words)}" -- "$cur"))'
        options.append(line + " ;;")
    return "\n".join([
        "# blocksvm for bash: eval \"$(blocksvm completion bash)\"",
        "_blocksvm() {",
        '  local cur="${COMP_WORDS[COMP_CWORD]}" at=$((COMP_CWORD - 1)) prev',
        "  COMPREPLY=()",
        '  [[ $cur == "=" ]] && cur=""',
        '  [[ ${COMP_WORDS[at]} == "=" ]] && at=$((at - 1))',
        '  prev="${COMP_WORDS[at]}"',
        "  if ((COMP_CWORD == 1)); then",
        f'    COMPREPLY=($(compgen -W "{" ".join(commands)}" -- "$cur"))',
        "    return",
        "  fi",
        '  case "${COMP_WORDS[1]} $prev" in',
        *values,
        "  esac",
        '  case "${COMP_WORDS[1]}" in',
        *options,
        "  esac",
        "}",
        "complete -o default -F _blocksvm blocksvm",
        "",
    ])  # fmt: skip


def _quoted(text: str) -> str:
    """Within single quotes of a POSIX shell."""
    return "'" + text.replace("'", "'\\''") + "'"


def zsh(commands: Mapping[str, Described]) -> str:
    """A function for zsh's completion system."""
    cases = []
    summaries = {name: command.summary.replace(":", "\\:") for name, command in commands.items()}
    for name, command in commands.items():
        specs = []
        for one in command.options:
            told = re.sub(r"([\[\]:\\])", r"\\\1", one.help)
            value = f":value:({' '.join(one.values)})" if one.values else ":file:_files" if one.files else ":value: "
            group = f"({' '.join(one.flags)})" if len(one.flags) > 1 else ""
            specs += [_quoted(f"{group}{flag}[{told}]{value if one.takes else ''}") for flag in one.flags]
        specs.append(_quoted(f"*:word:({' '.join(command.words)})" if command.words else "*:file:_files"))
        cases += [f"    {name})", "      _arguments \\", " \\\n".join(f"        {spec}" for spec in specs), "      ;;"]
    return "\n".join([
        "#compdef blocksvm",
        "# blocksvm for zsh: source <(blocksvm completion zsh)",
        "_blocksvm() {",
        "  local -a commands",
        "  commands=(",
        *(f"    {_quoted(f'{name}:{told}')}" for name, told in summaries.items()),
        "  )",
        "  if (( CURRENT == 2 )); then",
        "    _describe command commands",
        "    return",
        "  fi",
        "  shift words",
        "  (( CURRENT-- ))",
        "  case $words[1] in",
        *cases,
        "  esac",
        "}",
        'if [ "$funcstack[1]" = _blocksvm ]; then _blocksvm "$@"; else compdef _blocksvm blocksvm; fi',
        "",
    ])  # fmt: skip


def fish(commands: Mapping[str, Described]) -> str:
    """Lines for fish's completion."""

    def quoted(text: str) -> str:
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    lines = ["# blocksvm for fish: blocksvm completion fish | source", "complete -c blocksvm -f"]
    for name, command in commands.items():
        lines.append(f"complete -c blocksvm -n __fish_use_subcommand -a {name} -d {quoted(command.summary)}")
        seen = f"complete -c blocksvm -n '__fish_seen_subcommand_from {name}'"
        lines.append(f"{seen} -a {quoted(' '.join(command.words))}" if command.words else f"{seen} -F")
        for one in command.options:
            flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in one.flags)
            value = f" -x -a {quoted(' '.join(one.values))}" if one.values else " -r -F" if one.files else " -x"
            lines.append(f"{seen} {flags}{value if one.takes else ''} -d {quoted(one.help)}")
    return "\n".join(lines) + "\n"


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
