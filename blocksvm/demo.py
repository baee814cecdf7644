"""python -m blocksvm.demo: commands/demo.py."""

from blocksvm.cli.console import run
from blocksvm.commands.demo import main

if __name__ == "__main__":
    run(main)
