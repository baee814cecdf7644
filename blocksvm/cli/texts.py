"""What a person reads: numbers, sizes, labels, one line of progress, sentences broken to a terminal's width."""

import math
import os
import textwrap
import time
from collections.abc import Mapping
from functools import partial

from blocksvm.base.errors import printable
from blocksvm.base.labels import MANY, NUMBERS, SETS, label_text
from blocksvm.base.settings import shown


def fitted(value: float, width: int, decimals: int = 6) -> str:
    """A number in no more than ``width`` characters (7 or more), whatever it is: with so many decimals where it has
    this size, else as many digits as there is room for."""
    if value == 0.0 or 1e-4 <= abs(value) < 1e6:
        text = f"{value:.{decimals}f}"
        if len(text) <= width:
            return text
    texts = (f"{value:.{digits}g}" for digits in range(6, 0, -1))
    return next((text for text in texts if len(text) <= width), f"{value:.0e}")


def counted(n: int, width: int) -> str:
    """A whole number in no more than ``width`` characters (7 or more): with commas where they fit."""
    text = next((text for text in (f"{n:,}", str(n)) if len(text) <= width), "")
    return text or fitted(n, width)


def table_line(cells: Mapping[str, str], widths: Mapping[str, int]) -> str:
    """The cells by column, right-aligned; one that is missing is blank."""
    return " ".join(cells.get(name, "").rjust(width) for name, width in widths.items())


def aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def megabytes(n_bytes: float) -> str:
    """'12.3 MB', '1.23 GB' or '4.5 TB'."""
    value = n_bytes / 1e6
    if value >= 1e6:
        return f"{value / 1e6:.3g} TB"
    if value >= 1000:
        return f"{value / 1000:.2f} GB"
    return f"{value:.0f} MB" if value >= 100 else f"{value:.1f} MB" if value >= 1 else f"{value * 1000:.0f} kB"


def rmse(squared_errors: float, rows: int) -> str:
    return f"{math.sqrt(max(0.0, squared_errors) / max(1, rows)):.6g}"


def loss_text(figures: Mapping) -> str:
    """Of a learner's figures by name: its loss, mistakes, or error where labels are numbers, and cost."""
    n, squared_errors, cost = figures["rows"], figures.get("squared_errors"), figures.get("cumulative_cost")
    wrong = f"mistakes {figures['mistakes'] / n:.4%}" if squared_errors is None else f"rmse {rmse(squared_errors, n)}"
    of_cost = "" if cost is None else f", average cost {cost / n:.6f}"
    return f"average loss {figures['cumulative_loss'] / n:.6f}, {wrong}{of_cost}"


def described(name: str, settings: Mapping) -> str:
    """A learner with those of its settings that are not off."""
    return f"{name} ({texts})" if (texts := shown(settings)) else name


def clock(seconds: float | None) -> str:
    """'42s', '3m10s', '2h05m' or '120d'; '' for None."""
    if seconds is None or not math.isfinite(seconds):
        return ""
    seconds = round(seconds)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    if seconds < 100 * 86400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"
    return f"{seconds / 86400:.3g}d"


def label(value) -> str:
    return label_text(tuple(value) if isinstance(value, list) else value)


def number_of(n: int, what: str) -> str:
    """'1 row' or '1,234 rows'; what: the noun in the singular."""
    return f"{n:,} {what}{'' if n == 1 else 'es' if what.endswith('s') else 's'}"


def sizes(n_rows: int, n_features: int, n_nonzeros: int) -> str:
    """Of a matrix: '1,234 rows, 1 feature, 1,234 nonzeros'."""
    return f"{rows(n_rows)}, {number_of(n_features, 'feature')}, {number_of(n_nonzeros, 'nonzero')}"


def rows(n: int) -> str:
    return number_of(n, "row")


def labels_line(meta) -> str:
    labels, kind = meta.labels, meta.label_kind
    missing = meta.n_unlabelled
    none = f"; {rows(missing)} without a label" if missing else ""
    if missing and missing == meta.n_samples:
        return f"none of the {rows(missing)} has one; they can be predicted, but training needs labels"
    if labels is None:
        return f"more than 10,000 distinct {kind}{none}"
    if kind == NUMBERS and len(labels) > MANY:
        return f"{len(labels):,} distinct numbers from {label(labels[0][0])} to {label(labels[-1][0])}{none}"
    first = ", ".join(f"{label(value)} ({rows(count)})" for value, count in labels[:6]) or "none"
    sets = "sets: " if kind == SETS else ""
    more = f", and {len(labels) - 6} more" if len(labels) > 6 else ""
    note = "; training needs rows of a second class" if len(labels) == 1 and not missing else ""
    return sets + first + more + none + note


class Line:
    """One line of progress: rewritten in place on a terminal, printed now and then elsewhere."""

    def __init__(self, stream, every: float = 5.0):
        """every: seconds between lines that are not rewritten."""
        self.stream, self.write = stream, getattr(stream, "draw", stream.write)
        self.terminal = stream.isatty()
        self.every = 0.1 if self.terminal else every
        self.last = time.perf_counter()
        self.width = 0

    def show(self, text: str) -> None:
        now = time.perf_counter()
        if now - self.last < self.every:
            return
        self.last = now
        text = printable(text)
        if self.terminal:
            self.write("\r" + text.ljust(self.width))
            self.width = len(text)
        else:
            self.write(text + "\n")
        self.stream.flush()

    def close(self) -> None:
        if self.terminal and self.width:
            self.write("\r" + " " * self.width + "\r")
            self.stream.flush()
            self.width = 0


def wrap_text(text: str, stream) -> str:
    """The text as it goes to this stream: as it is, or on a terminal with its longer lines broken to its width."""
    try:
        width = os.get_terminal_size(stream.fileno()).columns if stream.isatty() else 0
    except (OSError, ValueError):  # it does not tell
        width = 0
    if width < 10:
        return text
    fill = partial(textwrap.fill, width=width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    return "\n".join(fill(line) if len(line) > width else line for line in text.split("\n"))
