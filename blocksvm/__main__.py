"""blocksvm, or python -m blocksvm: see commands/__init__.py."""

from blocksvm.cli.console import run
from blocksvm.commands import main


def entry() -> None:
    """The ``blocksvm`` script."""
    run(main)


if __name__ == "__main__":
    entry()
