"""python -m blocksvm.info: commands/info.py."""

from blocksvm.cli.console import run
from blocksvm.commands.info import main

if __name__ == "__main__":
    run(main)
