"""python -m blocksvm.predict: commands/predict.py."""

from blocksvm.cli.console import run
from blocksvm.commands.predict import main

if __name__ == "__main__":
    run(main)
