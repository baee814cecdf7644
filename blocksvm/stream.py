"""python -m blocksvm.stream: commands/stream.py."""

from blocksvm.cli.console import run
from blocksvm.commands.stream import main

if __name__ == "__main__":
    run(main)
