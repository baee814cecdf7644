"""``--json [FILE]``: the figures of a command for a script, the same option everywhere."""

from __future__ import annotations

import json
from collections.abc import Mapping

from blocksvm import __version__
from blocksvm.files.paths import location


def emit_json(options, figures: Mapping) -> bool:
    """Write the figures of a command as ``--json`` says; whether they went to standard output, in place of its text."""
    from blocksvm.base.settings import plain

    if options.json == "-":
        print(json.dumps(plain(figures), allow_nan=False))
    elif options.json is not None:
        from blocksvm.files.output import write_json

        # by its first key a file is known as one that may be replaced
        write_json(location(options.json), {"blocksvm": __version__} | plain(figures), options.overwrite)
    return options.json == "-"
