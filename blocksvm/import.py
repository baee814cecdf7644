"""python -m blocksvm.import: commands/import_model.py."""

from blocksvm.cli.console import run
from blocksvm.commands.import_model import main

if __name__ == "__main__":
    run(main)
