"""python -m blocksvm.train: commands/train.py."""

from blocksvm.cli.console import run
from blocksvm.commands.train import main

if __name__ == "__main__":
    run(main)
