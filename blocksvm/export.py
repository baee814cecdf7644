"""python -m blocksvm.export: commands/export.py."""

from blocksvm.cli.console import run
from blocksvm.commands.export import main

if __name__ == "__main__":
    run(main)
