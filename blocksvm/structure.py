"""python -m blocksvm.structure: commands/structure.py."""

from blocksvm.cli.console import run
from blocksvm.commands.structure import main

if __name__ == "__main__":
    run(main)
