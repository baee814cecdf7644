"""The displays of commands at work, a file each: lines, of which the last is rewritten on a terminal."""

from blocksvm.cli.display.folding import folded
from blocksvm.cli.display.line import Line
from blocksvm.cli.display.number_texts import clock, label, labels_line, megabytes
from blocksvm.cli.display.splitting import SplitDisplay, split_summary
from blocksvm.cli.display.streaming import StreamDisplay
from blocksvm.cli.display.training import TrainDisplay, train_summary

__all__ = [
    "Line",
    "SplitDisplay",
    "StreamDisplay",
    "TrainDisplay",
    "clock",
    "folded",
    "label",
    "labels_line",
    "megabytes",
    "split_summary",
    "train_summary",
]
