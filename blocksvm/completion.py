"""python -m blocksvm.completion: commands/completion.py."""

from blocksvm.cli.console import run
from blocksvm.commands.completion import main

if __name__ == "__main__":
    run(main)
