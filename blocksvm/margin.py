"""python -m blocksvm.margin: commands/margin.py."""

from blocksvm.cli.console import run
from blocksvm.commands.margin import main

if __name__ == "__main__":
    run(main)
