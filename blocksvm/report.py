"""python -m blocksvm.report: commands/report.py."""

from blocksvm.cli.console import run
from blocksvm.commands.report import main

if __name__ == "__main__":
    run(main)
