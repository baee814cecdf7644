"""python -m blocksvm.ask: commands/ask.py."""

from blocksvm.cli.console import run
from blocksvm.commands.ask import main

if __name__ == "__main__":
    run(main)
