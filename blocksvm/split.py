"""python -m blocksvm.split: commands/split.py."""

from blocksvm.cli.console import run
from blocksvm.commands.split import main

if __name__ == "__main__":
    run(main)
