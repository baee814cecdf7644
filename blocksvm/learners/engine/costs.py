"""Cost matrices: the cost of predicting one label for another, read from text or passed from Python.

The first line of the text has the k labels.  Each of the others has a true label, in any order, and the cost of
predicting each label of the first line for it.  Blanks, tabs or commas separate them; a # begins a comment:

            wheat  corn  gold
    wheat   0      0.5   4
    corn    0.5    0     4
    gold    1      1     0
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.inputs import open_input
from blocksvm.base.labels import Labels, label_text, listed
from blocksvm.base.objects.remote_path import place
from blocksvm.base.settings import Setting
from blocksvm.learners.engine.learner import learns_apart

PREDICTION, MAX_LOSS = RULES = ("prediction", "max-loss")
MOST_BYTES = 64_000_000  # of a file of costs: some thousand labels


@dataclass(frozen=True)
class CostsOf(Setting):
    """Costs as the name of a file, as a matrix (k, k) by the rising labels, or as ``checked`` returns them:
    {"labels": [...] or None, "costs": [[...], ...]}, costs[i][j] of predicting label j for i."""

    def checked(self, value):
        if value is None:
            return None
        if isinstance(value, str | Path):
            return read_costs(value)
        labels, rows = (value.get("labels"), value.get("costs")) if isinstance(value, Mapping) else (None, value)
        try:
            costs = np.array(rows, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(f"{option(self.name)}: expected a file's name, or a matrix of numbers") from None
        k = len(costs) if labels is None else len(labels)
        if costs.shape != (k, k) or k < 2:
            raise InputError(f"{option(self.name)}: has the shape {costs.shape}; expected one row and column a label")
        for i, row in enumerate(costs.tolist()):
            label = label_text(labels[i]) if labels is not None else f"number {i + 1}"
            for j, cost in enumerate(row):
                wrong = wrong_cost(cost, i == j)
                if wrong:
                    raise InputError(f"{option(self.name)}: in the row of label {label}, {wrong}")
        return {"labels": None if labels is None else list(labels), "costs": costs.tolist()}


COSTS = CostsOf("costs", "file of costs: a row for each true label, a column for each predicted one", metavar="FILE")
COST_RULE = Setting("cost_rule", "with costs, the label to separate from the true one: the 'prediction' (default) "
                    "or 'max-loss', that of the largest loss", None, kind=str, choices=RULES)  # fmt: skip


def wrong_cost(cost: float, right: bool) -> str:
    """The fault of a cost, as a clause, or ''; right: it is the cost of predicting the true label."""
    if not math.isfinite(cost) or cost < 0.0:
        return f"the cost {cost:g} is no finite number of 0 or more"
    if right and cost != 0.0:
        return f"the right label costs {cost:g}; it must cost 0"
    return ""


def read_costs(path: str | Path) -> dict:
    """The costs of a file, as ``CostsOf.checked`` returns them.  Raises InputError, with file and line, where they are
    no such matrix."""
    path = place(path)
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: has more than {MOST_BYTES:,} bytes; a matrix of costs takes far less")
        with open_input(path) as file:
            text = file.read().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({error}); name a text file with a matrix of costs") from None
    labels: list = []
    rows: dict = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = [word for word in re.split(r"[\s,]+", line.partition("#")[0]) if word]
        if not words:
            continue
        try:
            if not labels:
                labels = header(words)
            else:
                true, costs = row_of(words, labels, rows)
                rows[true] = costs
        except InputError as error:
            raise InputError(f"{path}:{number}: {error}") from None
    if not labels:
        raise InputError(f"{path}: is empty; the first line names the labels, then comes a line of costs for each")
    missing = [label for label in labels if label not in rows]
    if missing:
        raise InputError(f"{path}: has no line of costs for the label {label_text(missing[0])}; add it")
    order = sorted(range(len(labels)), key=labels.__getitem__)
    return {"labels": [labels[j] for j in order], "costs": [[rows[labels[i]][j] for j in order] for i in order]}


def header(words: list[str]) -> list:
    """The labels of the first line: numbers if all are numbers, else strings."""
    try:
        labels: list = [float(word) + 0.0 for word in words]
    except ValueError:
        labels = words
    twice = [label for label in labels if labels.count(label) > 1]
    if twice:
        raise InputError(f"names the label {label_text(twice[0])} twice; name each once")
    if len(labels) < 2:
        raise InputError("names one label; the first line names them all")
    return labels


def row_of(words: list[str], labels: list, rows: Mapping) -> tuple:
    """(true label, costs) of a line."""
    first = words[0]
    try:
        true = first if isinstance(labels[0], str) else float(first) + 0.0
    except ValueError:
        true = first
    if true not in labels:
        raise InputError(
            f"the label {first} is none of those of the first line, {listed(labels)}; begin with one of them"
        )
    if true in rows:
        raise InputError(f"the label {first} has a line of costs already; give it one")
    if len(words) - 1 != len(labels):
        raise InputError(
            f"has {len(words) - 1} costs behind the label, where the first line names {len(labels)} labels"
        )
    costs = []
    for label, word in zip(labels, words[1:], strict=True):
        try:
            costs.append(float(word))
        except ValueError:
            raise InputError(f"the cost {word!r} is no number") from None
        wrong = wrong_cost(costs[-1], label == true)
        if wrong:
            raise InputError(f"in the column of label {label_text(label)}, {wrong}")
    return true, costs


@dataclass(frozen=True)
class CostMatrix:
    """Costs as the loops take them: costs (k, k) float64 and their square roots, by true and predicted class; max_loss:
    whether the rule is that of the largest loss."""

    costs: np.ndarray
    roots: np.ndarray
    max_loss: bool

    @classmethod
    def of(cls, setting: Mapping, rule: str | None, labels: Labels) -> CostMatrix:
        """The costs of a checked setting for these classes.  Raises InputError where the costs are of other labels."""
        k = len(labels.values)
        of_labels = setting["labels"]
        if of_labels is None and len(setting["costs"]) != k:
            raise InputError(f"{option('costs')}: has {len(setting['costs'])} rows, where the rows have {k} labels")
        if of_labels is not None and list(of_labels) != list(labels.values):
            raise InputError(
                f"{option('costs')}: is about the labels {listed(of_labels)}, but the rows have "
                f"{listed(labels.values)}; give costs of exactly these"
            )
        costs = np.array(setting["costs"], dtype=np.float64)
        return cls(costs, np.sqrt(costs), rule == MAX_LOSS)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, bool]:
        return self.costs, self.roots, self.max_loss


def check_costs(settings: Mapping, n_classes: int, kind: str | None, multiclass: str | None) -> None:
    """Raise InputError where costs, or the rule for them, have no meaning with the other settings."""
    if settings.get("cost_rule") is not None and settings.get("costs") is None:
        raise InputError(f"{option('cost_rule', settings['cost_rule'])}: is a rule for costs; give {option('costs')}")
    if settings.get("costs") is None:
        return
    if kind == "sets":
        raise InputError(f"{option('costs')}: is for rows of one label each, not for sets of them; leave it out")
    if n_classes == 2:
        raise InputError(f"{option('costs')}: is for three labels or more; for two, weigh the rows or the classes")
    if learns_apart(multiclass):
        raise InputError(
            f"{option('costs')}: compares the labels, which {option('multiclass', 'rest')} learns apart; leave it out"
        )
