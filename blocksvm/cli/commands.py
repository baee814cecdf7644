"""The list of commands, each a file at the top of the package; ``blocksvm COMMAND`` and ``python -m blocksvm.COMMAND``
are the same.  Imports nothing heavy."""

import difflib
import sys
from importlib import import_module
from types import ModuleType

from blocksvm import __version__
from blocksvm.cli.console import run

# command -> what it does, in the order in which a user meets them
COMMANDS = {
    "split": "convert text, tables or matrices to a store",
    "train": "train a linear model on a store, to a certified duality gap",
    "cv": "choose C by cross-validation",
    "predict": "predict the labels of text or of a store",
    "ask": "list the rows of a pool whose labels would tell a model the most",
    "stream": "learn from text in one pass, keeping none of it",
    "regret": "compare an online learner with the best fixed weights afterwards",
    "margin": "find the plane of the largest margin, or show that there is none",
    "structure": "learn to label sequences, parse and segment",
    "export": "write a model for LIBLINEAR, scikit-learn, ONNX, or as a table",
    "import": "make a model of one that LIBLINEAR trained",
    "report": "show the traces of runs beside each other, as a page",
    "info": "describe a store, a model or a checkpoint",
    "completion": "print a completion script for bash, zsh, fish, tcsh or PowerShell",
}

STATUS = """exit status: 0 done, 2 wrong input, 3 a limit that nobody gave ended a training
above its --tol (the model is written), 130 interrupted, 1 anything else"""


def overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {what}" for name, what in COMMANDS.items()]
    return "\n".join(["usage: blocksvm COMMAND ... (blocksvm COMMAND --help says more)", "", *lines, "", STATUS])


def module_of(name: str) -> ModuleType:
    """The module of a command: its ``parser`` and its ``main``."""
    return import_module(f"blocksvm.{name}")


def main(arguments: list[str]) -> int:
    """Run the command that the first argument names; gives the exit code where no command runs."""
    if not arguments or arguments[0] in ("-h", "--help"):
        print(overview())
        return 0
    name, *remaining = arguments
    if name == "--version":
        print(f"blocksvm {__version__}")
        return 0
    if name not in COMMANDS:
        near = difflib.get_close_matches(name, COMMANDS, n=1, cutoff=0.5)
        advice = f"did you mean '{near[0]}'?" if near else "run blocksvm alone to list the commands"
        print(f"blocksvm: error: there is no command '{name}'; {advice}", file=sys.stderr)
        return 2
    run(module_of(name).main, remaining)
    return 0
