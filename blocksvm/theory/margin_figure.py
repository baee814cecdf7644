"""The distribution of the margins of two classes as a figure."""

from __future__ import annotations

from typing import IO

import numpy as np

from blocksvm.base.labels import label_text
from blocksvm.theory.margin_search import BINS, MarginReport


def draw(report: MarginReport, labels: tuple, file: IO[bytes]) -> None:
    """Write a PNG: rows by their margin y (<w, x> + b), class by class; the plane at 0, the margin at 1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for label, rows, (below, above), color in zip(labels, report.histogram, report.outside, ("C0", "C1"), strict=True):
        beyond = "".join(f", {n:,} {where}" for n, where in ((below, "further left"), (above, "further right")) if n)
        axes.stairs(rows, BINS, fill=True, alpha=0.5, color=color, label=f"label {label_text(label)}{beyond}")
    axes.axvline(0.0, color="black", linewidth=1, label="the plane")
    axes.axvline(1.0, color="black", linewidth=1, linestyle=":", label="the margin")
    kind = "maximum margin" if report.hard else f"soft margin, C = {report.C:g}"
    if report.hard and not report.separable:
        kind = f"no separating plane (soft margin, C = {report.C:.3g})"
    axes.set(xlabel="margin y (<w, x> + b)", ylabel="rows", title=kind)
    occupied = np.flatnonzero(report.histogram.sum(axis=0))
    if len(occupied):
        axes.set_xlim(min(BINS[occupied[0]], 0.0) - 0.2, max(BINS[occupied[-1] + 1], 1.0) + 0.2)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    figure.savefig(file, format="png", dpi=150)
