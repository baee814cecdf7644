"""The figure of a regret report: measured quantities and their bounds against the number of rows, on log axes."""

from __future__ import annotations

from typing import IO

import numpy as np

from blocksvm.theory.regret_report import RegretReport


def draw(report: RegretReport, file: IO[bytes]) -> None:
    """Write a PNG: on the left loss, regret and its bounds, on the right other quantities with theirs."""
    from matplotlib.figure import Figure

    run, t = report.run, report.run.times
    others = [judged for judged in report.bounds if judged.applies and judged.bound.regret is None]
    figure = Figure(figsize=(13 if others else 7.5, 5.5), layout="constrained")
    axes = figure.subplots(1, 2 if others else 1, squeeze=False)[0]
    curve(axes[0], t, run.judged, f"{run.name}: cumulative loss ({run.judged_name})", color="0.7", linewidth=4)
    curve(axes[0], t, report.best.judged, f"u: {report.best.name}", color="black", linestyle=":")
    curve(axes[0], t, report.regret, "regret", color="C3", marker="o", markersize=3)
    for number, judged in enumerate(judged for judged in report.bounds if judged.applies and judged.bound.regret):
        style = {"linestyle": "--", "color": f"C{number + 4}"}
        curve(axes[0], t, judged.right, f"bound: {judged.bound.name}", **style)
    drawn = {}
    for judged in others:
        quantity = judged.bound.quantity
        if quantity not in drawn:
            drawn[quantity] = f"C{len(drawn)}"
            curve(axes[1], t, judged.measured, quantity, color=drawn[quantity], marker="o", markersize=3)
    for number, judged in enumerate(others):
        color = f"C{number + len(drawn)}"
        curve(axes[1], t, judged.right, f"bound: {judged.bound.name}", color=color, linestyle="--")
    for one in axes:
        one.set(xscale="log", yscale="log", xlabel="rows")
        one.grid(alpha=0.3)
        one.legend(fontsize=8)
    figure.savefig(file, format="png", dpi=150)


def curve(axes, t: np.ndarray, values: np.ndarray, label: str, **style) -> None:
    """Draw the values above 0, which have a place on a logarithmic axis."""
    if (values > 0.0).any():
        axes.plot(t, np.where(values > 0.0, values, np.nan), label=label, **style)
