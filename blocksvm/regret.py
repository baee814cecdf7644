"""python -m blocksvm.regret: commands/regret.py."""

from blocksvm.cli.console import run
from blocksvm.commands.regret import main

if __name__ == "__main__":
    run(main)
