"""The outputs of a command by kind of file: refused before any work is done, and named once they are written; the
figures of ``--json``.  Imports nothing heavy, so that ``--help`` is quick."""

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence

from blocksvm import __version__
from blocksvm.base.errors import InputError, require_library
from blocksvm.base.settings import plain
from blocksvm.files.paths import Location, location


def outputs_of(options, inputs: Iterable[str | None], named: Mapping = {}) -> dict[str | None, Location]:
    """The paths of the outputs that were given, by kind of file as ``check_output`` has it, with that of ``--json``.
    inputs: names of the files that are read (None and "-" are none); named: name by kind.  InputError where an output
    cannot be written, where it is an input or another output, and where a figure lacks its library."""
    from blocksvm.files.output import check_outputs

    resumed = getattr(options, "resume", False)
    if resumed and options.checkpoint is None:
        raise InputError("--resume needs --checkpoint FILE, the file to go on from")
    named = {**named, "json": getattr(options, "json", None)}
    outputs = {kind: location(name) for kind, name in named.items() if name not in (None, "-")}
    read = [location(name) for name in inputs if name not in (None, "-")]
    check_outputs(outputs, options.overwrite, read, resumed)
    if "figure" in outputs:
        require_library("matplotlib", "A figure", ", or leave it out")
    return outputs


def print_results(options, lines: Sequence[str], to=None) -> None:
    """Print the lines on how a command ended to standard output, or to another stream; with ``--quiet`` the first."""
    from blocksvm.cli.texts import wrap_text

    to = to or sys.stdout
    if lines:
        print(wrap_text("\n".join(lines[:1] if options.quiet else lines), to), file=to)


def print_next(options, learned_from: Iterable[str]) -> None:
    """Say how the model predicts rows, in a file that is named as the first one of what it was learned from."""
    ending = re.search(r"\.\w+(\.(gz|bz2|xz|zst))?$", next(iter(learned_from), ""))
    print(f"next: blocksvm predict {options.model} NEW{ending[0] if ending else '-TEXT'}", file=options.stderr)


def print_written(options, outputs: Mapping[str | None, Location]) -> None:
    """Print the names of the outputs, on standard error where ``--json`` goes to standard output."""
    for kind, path in outputs.items() if not options.quiet else ():
        if kind != "checkpoint":
            print(f"written to {path}", file=sys.stderr if getattr(options, "json", None) == "-" else sys.stdout)


def emit_json(options, figures: Mapping) -> bool:
    """Write the figures of a command as ``--json`` says; whether they went to standard output, in place of its text."""
    if options.json == "-":
        print(json.dumps(plain(figures), allow_nan=False))
    elif options.json is not None:
        from blocksvm.files.output import write_json

        # by its first key a file is known as one that may be replaced
        write_json(location(options.json), {"blocksvm": __version__} | plain(figures), options.overwrite)
    return options.json == "-"
