"""``--json [FILE]``: the figures of a command for a script, the same option everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path


def add_json(group, what: str) -> None:
    """Add ``--json [FILE]``; what: the figures that it tells."""
    group.add_argument("--json", nargs="?", const="-", metavar="FILE",
                       help=f"write {what} as one JSON object: to standard output, in place of the text, or to "
                       "FILE.json (a file of another name: --json=FILE)")  # fmt: skip


def json_file(options) -> Path | None:
    """The file of ``--json``; None where there is none, or the figures go to standard output."""
    return None if options.json in (None, "-") else Path(options.json)


def check_json(options, *inputs: str) -> None:
    """InputError where the file cannot be written, or is an input."""
    file = json_file(options)
    if file is not None:
        from blocksvm.base.outputs.checks import check_outputs

        check_outputs({"json": file}, options.overwrite, [Path(name) for name in inputs])


def emit_json(options, figures: Mapping) -> bool:
    """Tell the figures of a command as ``--json`` says; whether they stand on standard output, in place of its text."""
    from blocksvm.base.settings import plain

    if options.json == "-":
        print(json.dumps(plain(figures), allow_nan=False))
    elif options.json is not None:
        from blocksvm.base.outputs.writing import write_json

        write_json(Path(options.json), plain(figures), options.overwrite)
    return options.json == "-"
