"""python -m blocksvm.cv: commands/cv.py."""

from blocksvm.cli.console import run
from blocksvm.commands.cv import main

if __name__ == "__main__":
    run(main)
