"""blocksvm, or python -m blocksvm: see cli/commands.py."""

import os
import sys

from blocksvm.cli.commands import main
from blocksvm.cli.console import run


def entry() -> None:
    """The ``blocksvm`` script.  As with ``python -m``, modules in the current folder can be named: after all others."""
    sys.path.append(os.getcwd())
    run(main)


if __name__ == "__main__":
    run(main)
