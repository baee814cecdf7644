"""A cross-validation as a figure: what the held-out rows say at each C, fold by fold and on average."""

from __future__ import annotations

from typing import IO

from blocksvm.validation.path import CrossValidation


def draw(scores: CrossValidation, file: IO[bytes]) -> None:
    """Write a PNG: on the left the accuracy (or the root mean squared error), on the right the loss."""
    from matplotlib.figure import Figure

    names = {"rmse": "root mean squared error"} if scores.real else {"accuracy": "accuracy"}
    figure = Figure(figsize=(11, 4.5), layout="constrained")
    for axes, (name, title) in zip(figure.subplots(1, 2), (names | {"loss": "loss"}).items(), strict=True):
        values = getattr(scores, name)
        for fold in range(scores.folds):
            label = "one fold each" if fold == 0 else None
            axes.plot(scores.path, values[:, fold], color="0.75", linewidth=1, label=label)
        axes.plot(scores.path, scores.mean(name), color="C0", marker="o", label=f"mean of {scores.folds} folds")
        best = scores.best(name)
        axes.axvline(scores.path[best], color="C3", linestyle=":", label=f"best mean, at C = {scores.path[best]:g}")
        axes.set(xscale="log", xlabel="C", title=f"{title} of the held-out rows")
        axes.legend(fontsize=8)
        axes.grid(alpha=0.3)
    figure.savefig(file, format="png", dpi=150)
