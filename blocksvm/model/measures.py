"""Measures of predictions against the rows' labels, added up piece by piece: their memory does not grow with the rows.

Of each kind of labels a class: count(scores) adds consecutive rows (``scoring.Scores``); figures() are the measures by
name, as far as they have a meaning, and sentences() lines of text on them, both empty where no row has a label.
SHOWN_AS: how a sentence shows each of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from blocksvm.base.labels import Labels, has_label, label_text, listed
from blocksvm.base.memory import Budget
from blocksvm.model.decision_values import misordered, sets_of
from blocksvm.model.model_file import Model
from blocksvm.online.costs import CostMatrix

SHOWN_AS = {
    "rmse": "root mean squared error {:.6g}", "mean_absolute_error": "mean absolute error {:.6g}", "r2": "R2 {:.6f}",
    "balanced_accuracy": "balanced accuracy {:.6f}", "micro_f1": "micro F1 {:.6f}", "macro_f1": "macro F1 {:.6f}",
    "roc_auc": "ROC AUC {:.6f}", "mean_cost": "mean cost {:.6f}", "log_loss": "log-loss {:.6f}",
    "brier": "Brier score {:.6f}", "exact": "whole sets right {:.6f}", "hamming_loss": "Hamming loss {:.6f}",
    "perfect_rankings": "perfect rankings {:.6f}", "ranking_loss": "ranking loss {:.6f}",
    "one_error": "one-error {:.6f}",
}  # fmt: skip
SHOWN = 5  # labels that a sentence names
TOPS = (1, 3, 5)  # so many labels of the largest values
MOST_CLASSES = 50  # that get a line each
EPSILON = float(np.finfo(np.float64).eps)  # probabilities are this far from 0 and 1 for a logarithm, as scikit-learn's

# Decision values are counted by the upper bits of their float32, which leave eleven bits of the fraction.
RANK_BITS = 20
RANK_BYTES = 2 * 8 << RANK_BITS
RANK_ERROR = 5e-5  # of the area under the curve: a larger one is shown
# what merge does not add up
SETTLED = ("labels", "costs", "link", "bits", "tops", "position", "ranks", "mean", "scatter", "with_target")


def merge(mine: Any, others: Any) -> None:
    """Add to measures what others of the same kind have counted; what one of them lacks is left out."""
    if isinstance(mine, RealMeasures):
        mine.join(others.with_target, others.mean, others.scatter)
    for name, theirs in vars(others).items():
        own = getattr(mine, name)
        if own is None or theirs is None:
            setattr(mine, name, None)
        elif isinstance(own, RankCurve | Probabilities):
            merge(own, theirs)
        elif name not in SETTLED:
            setattr(mine, name, own | theirs if isinstance(own, set) else own + theirs)


def measures_of(model: Model, link: Callable | None, budget: Budget) -> Measures:
    """The measures of this model's predictions; link: what makes probabilities of its decision values.  The ROC curve
    of two classes is left out where the budget has no room for it."""
    if model.multilabel:
        return SetMeasures(model.labels, model.ranks)
    if not model.labels:
        return RealMeasures()
    ranked = len(model.labels) == 2 and budget.left >= 2 * RANK_BYTES
    if ranked:
        budget.take("the ROC curve", RANK_BYTES)
    return ClassMeasures(model.labels, link, ranked, model.meta.method.settings.get("costs"))


class RealMeasures:
    """Of predicted real numbers: root of the mean squared error, mean absolute error, and the share of the targets'
    variance that is explained, R^2 = 1 - sum (y - z)^2 / sum (y - mean)^2."""

    def __init__(self):
        self.rows = self.with_target = 0
        self.squared = self.absolute = 0.0
        self.mean = self.scatter = 0.0  # of the targets so far: sum (y - mean)^2

    def count(self, scores) -> None:
        self.rows += len(scores.labels)
        if scores.labels.dtype == object:  # labels that are no numbers are no targets
            return
        there = has_label(scores.labels)
        targets, n = scores.labels[there], int(there.sum())
        if not n:
            return
        errors = scores.values[there] - targets
        self.squared += float(errors @ errors)
        self.absolute += float(np.abs(errors).sum())
        mean = float(targets.mean())
        self.join(n, mean, float(np.square(targets - mean).sum()))

    def join(self, n: int, mean: float, scatter: float) -> None:
        """More targets (Chan, Golub, LeVeque, 1979)."""
        moved, total = mean - self.mean, max(1, self.with_target + n)
        self.scatter += scatter + moved * moved * self.with_target * n / total
        self.mean += moved * n / total
        self.with_target += n

    def figures(self) -> dict[str, float]:
        n = self.with_target
        if not n:
            return {}
        explained = {"r2": 1.0 - self.squared / self.scatter} if self.scatter > 0.0 else {}
        return {"rmse": math.sqrt(self.squared / n), "mean_absolute_error": self.absolute / n, **explained}

    def sentences(self) -> list[str]:
        shown = listed_figures(self.figures(), "rmse", "mean_absolute_error", "r2")
        return [f"{shown} ({self.with_target:,} rows)"] if shown else []


def bins_of(values: np.ndarray, bits: int) -> np.ndarray:
    """(n,) int64: the upper ``bits`` of the float32 of values, as numbers that rise with them."""
    with np.errstate(over="ignore"):
        pattern = (values + 0.0).astype(np.float32).view(np.int32)
    rising = np.where(pattern < 0, ~pattern, pattern | np.int32(-(1 << 31))).view(np.uint32)
    return (rising >> np.uint32(32 - bits)).astype(np.int64)


class RankCurve:
    """The area under the ROC curve: the share of pairs of a row of either class whose larger decision value is the
    larger label's, ties counting half (Hanley, McNeil, Radiology 143, 1982).  Values that agree in the upper bits of
    their float32 count as ties, and ``error`` bounds what that may change.  bits: so many."""

    def __init__(self, bits: int = RANK_BITS):
        self.bits, self.counts = bits, np.zeros((2, 1 << bits), np.int64)

    def count(self, values: np.ndarray, positive: np.ndarray) -> None:
        positions = bins_of(values, self.bits)
        for counts, chosen in zip(self.counts, (~positive, positive), strict=True):
            np.add.at(counts, positions[chosen], 1)

    def area(self) -> tuple[float, float] | None:
        """(area, error), or None where there are no rows of one of the classes."""
        occupied = np.flatnonzero(self.counts.any(axis=0))
        negative, positive = (counts[occupied].astype(np.float64) for counts in self.counts)
        pairs = negative.sum() * positive.sum()
        if not pairs:
            return None
        below = np.cumsum(negative)
        below -= negative
        # no products by BLAS, whose threads wait in a busy loop for the next one
        below *= positive
        negative *= positive
        ties = 0.5 * float(negative.sum())
        return (float(below.sum()) + ties) / pairs, ties / pairs


class Probabilities:
    """Logarithmic loss (natural logarithm) and Brier score of the probabilities of the labels.  The Brier score of two
    labels is that of one of them, of more the sum over all (Brier, 1950)."""

    def __init__(self):
        self.rows = 0
        self.log_loss = self.brier = 0.0

    def count(self, probabilities: np.ndarray, positions: np.ndarray) -> None:
        """probabilities (n, k) of the labels, positions (n,) of each row's own among them."""
        n, k = probabilities.shape
        likelihood = probabilities[np.arange(n), positions]
        self.rows += n
        self.log_loss -= float(np.log(np.clip(likelihood, EPSILON, 1.0 - EPSILON)).sum())
        if k == 2:
            self.brier += float(np.square(1.0 - likelihood).sum())
        else:
            self.brier += float((np.square(probabilities).sum(axis=1) - 2.0 * likelihood + 1.0).sum())

    def figures(self) -> dict[str, float]:
        return {"log_loss": self.log_loss / self.rows, "brier": self.brier / self.rows} if self.rows else {}


class ByClass:
    """Counts (k,) of decisions by class: the right ones, those for it, and those where it is true."""

    def __init__(self, k: int):
        self.right, self.predicted, self.true = (np.zeros(k, np.int64) for _ in range(3))

    def by_class(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(precision, recall, F1) of each class (k,); nan where a class was never predicted, never there, neither."""
        with np.errstate(invalid="ignore", divide="ignore"):
            precision, recall = self.right / self.predicted, self.right / self.true
            return precision, recall, 2.0 * self.right / (self.predicted + self.true)


class ClassMeasures(ByClass):
    """Of predicted classes: accuracy, balanced accuracy, precision, recall and F1 of each class; of two classes, where
    ``ranked``, the area under the ROC curve; what the probabilities of ``link`` are worth; and, with the costs of the
    training, the mean cost for rows with known labels.  A row with a label that the model does not know is wrong."""

    def __init__(self, labels: tuple, link=None, ranked: bool = True, costs: list | None = None):
        super().__init__(len(labels))
        self.labels = Labels(tuple(labels))
        self.costs, self.cost = None if costs is None else CostMatrix.of(costs, None, self.labels).costs, 0.0
        self.rows = self.labelled = self.others = 0
        self.other_labels: set = set()  # some of those that the model does not know
        self.link = link
        self.curve = RankCurve() if ranked and self.labels.binary else None
        self.probabilities = Probabilities() if link is not None else None

    def count(self, scores) -> None:
        codes, there = self.labels.codes(scores.labels), has_label(scores.labels)
        known = there & (codes != self.labels.unknown)
        others = there & ~known
        positions = (codes[known] + 1) // 2 if self.labels.binary else codes[known]
        k = len(self.right)
        self.rows += len(there)
        self.labelled += int(there.sum())
        self.others += int(others.sum())
        self.predicted += np.bincount(scores.classes[there], minlength=k)
        self.true += np.bincount(positions, minlength=k)
        self.right += np.bincount(positions[positions == scores.classes[known]], minlength=k)
        if self.costs is not None:
            self.cost += float(self.costs[positions, scores.classes[known]].sum())
        if others.any() and len(self.other_labels) <= SHOWN:
            self.other_labels.update(list(dict.fromkeys(scores.labels[others].tolist()))[: SHOWN + 1])
        values = None if scores.values is None else scores.values[known]
        if values is not None and self.curve:
            self.curve.count(values, positions == 1)
        if values is not None and self.probabilities:
            self.probabilities.count(self.link(values), positions)

    def figures(self) -> dict[str, float]:
        if self.labelled <= self.others:
            return {}
        _, recall, f1 = self.by_class()
        figures = {"accuracy": int(self.right.sum()) / self.labelled, "balanced_accuracy": float(np.nanmean(recall)),
                 "macro_f1": float(np.nanmean(f1))}  # fmt: skip
        figures |= {} if self.costs is None else {"mean_cost": self.cost / (self.labelled - self.others)}
        area = self.curve and self.curve.area()
        figures |= {"roc_auc": area[0]} if area else {}
        return figures | (self.probabilities.figures() if self.probabilities else {})

    def sentences(self) -> list[str]:
        lines, figures = [], self.figures()
        if figures:
            correct = int(self.right.sum())
            lines.append(f"accuracy {figures['accuracy']:.6f} ({correct:,} of {self.labelled:,} rows)")
        if self.others:
            known, other = _some(self.labels.values), _some(sorted(self.other_labels))
            before, behind = ("no accuracy: ", "") if self.others == self.labelled else ("", "; they count as wrong")
            rows = f"{before}{self.others:,} of {self.labelled:,} labelled rows"
            lines.append(f"{rows} have a label ({other}) that is not one of the model's ({known}){behind}")
        if not figures:
            return lines
        area = self.curve and self.curve.area()
        within = f" (within {area[1]:.1g})" if area and area[1] > RANK_ERROR else ""
        means = listed_figures(figures, "balanced_accuracy", "macro_f1", "roc_auc") + within
        lines.append(", ".join(filter(None, [means, listed_figures(figures, "mean_cost")])))
        lines += by_label(self.labels.values, *self.by_class(), self.true)
        return lines + ([listed_figures(figures, "log_loss", "brier")] if "log_loss" in figures else [])


class SetMeasures(ByClass):
    """Of predicted sets of labels: how many are right as a whole, which share of all single decisions is wrong (Hamming
    loss), and precision, recall and F1, of all decisions together (micro), of each label, and their mean (macro).  And
    of the labels' order by decision values: rows where every label of the set stands above all others, the share of the
    pairs of such two labels that are not in order (ranking loss, a mean over the rows; ties are not in order), and rows
    whose first label is none of the set (one-error).  And of the n labels of the largest values, the first of equals,
    the share that is in the set (precision at n, a mean over the rows) and the share of the set that is among them
    (recall at n, over the rows with a label).  ranks: the values tell no more than this order."""

    def __init__(self, labels: tuple, ranks: bool = False):
        super().__init__(len(labels))
        self.labels, self.ranks = tuple(labels), ranks
        self.position = {label: c for c, label in enumerate(self.labels)}
        self.tops = [n for n in TOPS if n <= len(labels)]
        self.in_top, self.recalled = np.zeros(len(self.tops), np.int64), np.zeros(len(self.tops))
        self.rows = self.labelled = self.exact = self.unknown = self.perfect = self.first_wrong = self.with_label = 0
        self.ranking_loss = 0.0

    def count(self, scores) -> None:
        self.rows += len(scores.labels)
        there = [(i, row_labels) for i, row_labels in enumerate(scores.labels) if isinstance(row_labels, tuple)]
        if not there:
            return
        true = np.zeros((len(there), len(self.labels)), bool)
        others = np.zeros(len(there), np.int64)
        for row, (_, row_labels) in enumerate(there):
            positions = [self.position[label] for label in row_labels if label in self.position]
            true[row, positions] = True
            others[row] = len(row_labels) - len(positions)
        values = scores.values[[i for i, _ in there]]  # a copy
        predicted, known, rows = sets_of(values, self.ranks), true.sum(axis=1), np.arange(len(true))
        wrong = misordered(values, true)
        self.perfect += int((wrong == 0).sum())
        self.ranking_loss += float((wrong / np.maximum(1, known * (true.shape[1] - known))).sum())
        self.first_wrong += int(np.count_nonzero(~true[rows, values.argmax(axis=1)] & (known > 0)))
        size, hits = known + others, np.zeros(len(true), np.int64)
        some = size > 0
        self.with_label += int(np.count_nonzero(some))
        for n in range(1, self.tops[-1] + 1):
            best = values.argmax(axis=1)
            hits += true[rows, best]
            values[rows, best] = -np.inf
            if n in self.tops:
                self.in_top[self.tops.index(n)] += hits.sum()
                self.recalled[self.tops.index(n)] += (hits[some] / size[some]).sum()
        self.labelled += len(there)
        self.unknown += int(others.sum())
        self.exact += int(((predicted == true).all(axis=1) & (others == 0)).sum())
        self.right += (predicted & true).sum(axis=0)
        self.predicted += predicted.sum(axis=0)
        self.true += true.sum(axis=0)

    def figures(self) -> dict[str, float]:
        if not self.labelled:
            return {}
        right, n, f1 = int(self.right.sum()), self.labelled, self.by_class()[2]
        decided, met = int((self.predicted + self.true).sum()) + self.unknown, f1[~np.isnan(f1)]
        figures = {"exact": self.exact / n, "hamming_loss": (decided - 2 * right) / (n * len(self.labels))}
        figures |= {"micro_f1": 2.0 * right / decided} if decided else {}
        figures |= {"macro_f1": float(met.mean())} if len(met) else {}
        ranked = {"perfect_rankings": self.perfect, "ranking_loss": self.ranking_loss, "one_error": self.first_wrong}
        figures |= {name: value / n for name, value in ranked.items()}
        in_top, recalled = self.in_top.tolist(), (self.recalled / max(1, self.with_label)).tolist()
        figures |= {f"precision_at_{top}": hits / (top * n) for top, hits in zip(self.tops, in_top, strict=True)}
        return figures | {f"recall_at_{top}": share for top, share in zip(self.tops, recalled, strict=True)}

    def sentences(self) -> list[str]:
        figures = self.figures()
        if not figures:
            return []
        lines = [f"{listed_figures(figures, 'exact')} ({self.exact:,} of {self.labelled:,} rows)"]
        if self.unknown:
            lines.append(f"the rows have {self.unknown:,} labels that the model does not know; they count as missed")
        known = {"micro_f1": math.nan, "macro_f1": math.nan} | figures
        lines.append(listed_figures(known, "micro_f1", "macro_f1", "hamming_loss"))
        lines.append(listed_figures(known, "perfect_rankings", "ranking_loss", "one_error"))
        for name in ("precision", "recall"):
            at = ", ".join(f"{figures[f'{name}_at_{top}']:.6f}" for top in self.tops)
            lines.append(f"{name} at {', '.join(map(str, self.tops))}: {at}")
        return lines + by_label(self.labels, *self.by_class(), self.true)


Measures = RealMeasures | ClassMeasures | SetMeasures


def listed_figures(figures: dict[str, float], *names: str) -> str:
    """Those that there are of the measures of these names, with commas between them."""
    return ", ".join([SHOWN_AS[name].format(figures[name]) for name in names if name in figures])


def by_label(labels: tuple, precision: np.ndarray, recall: np.ndarray, f1: np.ndarray, rows: np.ndarray) -> list[str]:
    """A line a label, where they are not too many."""
    if len(labels) > MOST_CLASSES:
        return []
    texts = [label_text(label) for label in labels]
    width = max(5, *map(len, texts))
    lines = [f"{'label':>{width}} {'precision':>9} {'recall':>9} {'F1':>9} {'rows':>11}"]
    for text, *figures, n in zip(texts, precision, recall, f1, rows.tolist(), strict=True):
        cells = " ".join(f"{'-' if math.isnan(x) else f'{x:.4f}':>9}" for x in figures)
        lines.append(f"{text:>{width}} {cells} {n:11,}")
    return lines


def _some(labels) -> str:
    return listed(labels[:SHOWN]) + (", ..." if len(labels) > SHOWN else "")
