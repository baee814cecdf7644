"""Cost matrices: row i has the costs of predicting each label for the label i, labels in their rising order."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.labels import Labels
from blocksvm.base.settings import Setting
from blocksvm.files.input import open_input
from blocksvm.online.learner import REST

PREDICTION, MAX_LOSS = RULES = ("prediction", "max-loss")
MOST_BYTES = 64_000_000  # of a file of costs: some thousand labels


def read_costs(path: str | Path) -> np.ndarray:
    """The matrix of a file: npy, or text of a line a row, with blanks or commas between the numbers."""
    try:
        with open_input(path) as file:
            data = file.read(MOST_BYTES)  # the shape tells of a longer file
        if data.startswith(b"\x93NUMPY"):
            return np.load(BytesIO(data), allow_pickle=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an empty file: its shape tells
            return np.loadtxt(data.decode("utf-8-sig").replace(",", " ").splitlines(), ndmin=2)
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: is no matrix of costs ({error}); give one as text or .npy") from None


def checked_costs(value) -> list[list[float]]:
    """The costs (k, k) of a matrix, or of a file by its name."""
    name = option("costs")
    matrix = read_costs(value) if isinstance(value, str | Path) else value
    try:
        costs = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name}: expected a file's name, or a matrix of numbers") from None
    if costs.ndim != 2 or costs.shape[0] != costs.shape[1] or len(costs) < 2:
        raise InputError(f"{name}: has the shape {costs.shape}; expected one row and column a label")
    for (i, j), cost in np.ndenumerate(costs):
        if not (math.isfinite(cost) and cost >= 0.0):
            raise InputError(f"{name}: in row {i + 1}, the cost {cost:g} is no finite number of 0 or more")
        if i == j and cost != 0.0:
            raise InputError(f"{name}: in row {i + 1}, the right label costs {cost:g}; it must cost 0")
    return costs.tolist()


COSTS = Setting("costs", "file of a matrix of costs: a row for each true label, a column for each predicted one, both "
                "rising", None, kind=checked_costs, metavar="FILE")  # fmt: skip
COST_RULE = Setting("cost_rule", "with costs, the label to separate from the true one: the 'prediction' (default) "
                    "or 'max-loss', that of the largest loss", None, kind=str, choices=RULES)  # fmt: skip


class CostMatrix(NamedTuple):
    """Costs as the loops take them: costs (k, k) float64 and their square roots, by true and predicted class; max_loss:
    whether the rule is that of the largest loss."""

    costs: np.ndarray
    roots: np.ndarray
    max_loss: bool

    @classmethod
    def of(cls, setting: list[list[float]], rule: str | None, labels: Labels) -> CostMatrix:
        costs, k = np.array(setting), len(labels.values)
        if len(costs) != k:
            raise InputError(f"{option('costs')}: has {len(costs)} rows, where the rows have {k} labels")
        return cls(costs, np.sqrt(costs), rule == MAX_LOSS)


NO_COSTS = CostMatrix(np.empty((0, 0)), np.empty((0, 0)), False)  # in place of None, which would compile another loop


def check_costs(settings: Mapping, n_classes: int, kind: str | None, multiclass: str | None) -> None:
    if settings.get("cost_rule") is not None and settings.get("costs") is None:
        raise InputError(f"{option('cost_rule', settings['cost_rule'])}: is a rule for costs; give {option('costs')}")
    if settings.get("costs") is None:
        return
    if kind == "sets":
        raise InputError(f"{option('costs')}: is for rows of one label each, not for sets of them; leave it out")
    if n_classes == 2:
        raise InputError(f"{option('costs')}: is for three labels or more; for two, weigh the rows or the classes")
    if multiclass == REST:
        apart = option("multiclass", "rest")
        raise InputError(f"{option('costs')}: compares the labels, which {apart} learns apart; leave it out")
