"""Regret beside its bounds: what ``regret`` measures and what each theorem allows, for learners of two classes, of real
numbers and of classes with costs.

    python -m experiments.regret NAME=STORE.h5 ... [--numbers NAME=STORE.h5] [--classes NAME=STORE.h5]
        [--figure FILE.png] [--json FILE]

One pass in shuffled order; a row of the table is a bound that applies.  ``regret`` is against the best fixed weights,
with the gap to which these are certified; measured and bound at the last round, as the bound states them (its measure
may be mistakes or a sum of weighted losses).  Costs of classes: 1 + the distance of their places.  The figure draws
measured quantities and bounds over the rounds of the first store.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from experiments.measuring import Tables, command, described, panels, parser

LEARNERS = (
    "perceptron", "pa", "pa1 -C 0.1", "pa2 -C 0.1",
    "ogd --decay constant --step 0.01", "omd --mirror entropic --radius 20 --step 0.005",
    "omd --mirror p-norm --p 5 --step 0.01", "pegasos --lambda 1e-3", "pegasos --lambda 1e-3 --unprojected",
    "pegasos --lambda 1e-3 --loss logistic", "fobos --l1 1e-4 --step 0.3", "hf-fobos --l1 1e-3 --p 3 --step 0.3",
    "adagrad-fobos --l1 1e-4 --step 0.1", "adagrad-rda --l1 1e-4 --step 0.1",
    "adagrad-rda-squares --l1 1e-4",
)  # fmt: skip
LONG = ("hf-fobos", "adagrad-rda-squares")  # their best fixed weights take long on many features: the first store alone
OF_NUMBERS = ("pa --epsilon 1", "pa1 -C 0.1 --epsilon 1", "pa2 -C 0.1 --epsilon 1")
OF_CLASSES = ("pa1 -C 0.1", "pa1 -C 0.1 --cost-rule max-loss", "pa2 -C 0.1 --cost-rule max-loss")
DRAWN = (
    "perceptron", "pa1 -C 0.1", "ogd --decay constant --step 0.01",
    "omd --mirror entropic --radius 20 --step 0.005", "pegasos --lambda 1e-3", "fobos --l1 1e-4 --step 0.3",
    "hf-fobos --l1 1e-3 --p 3 --step 0.3", "adagrad-rda --l1 1e-4 --step 0.1",
)  # fmt: skip


STYLES = ("--", ":", "-.", (0, (1, 3)))  # of lines


def named(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text}: must be NAME=STORE.h5")
    return name, Path(path)


def costs_of(store: Path, file: Path) -> Path:
    """A file of costs for the store's labels."""
    labels = [label for label, _ in described(store)["labels"]]
    rows = [f"{a:g} " + " ".join(str(abs(i - j) + (i != j)) for j in range(len(labels))) for i, a in enumerate(labels)]
    file.write_text("\n".join([" ".join(f"{label:g}" for label in labels), *rows]) + "\n")
    return file


def report(store: Path, learner: str, *more: object) -> dict:
    done = command("regret", store, "--learner", *learner.split(), *more, "--order", "shuffled", "--json", "--quiet")
    return json.loads(done.out)


def show(tables: Tables, name: str, learner: str, found: dict) -> None:
    """A row for each bound that applies; RuntimeError where a proven one is exceeded."""
    (gap,) = [one["rel_gap"] for one in found["comparators"] if one["name"] == found["comparator"]] or [None]
    shown = name, f"`{learner}`", f"{found['regret']:,.4g}", "" if gap is None else f"{gap:.1e}"
    bounds = [bound for bound in found["bounds"] if bound["applies"]]
    if not bounds:
        tables.row(*shown, "none is known", "", "")
    for bound in bounds:
        if bound["violated"] and bound["proven"]:
            raise RuntimeError(f"{name}, {learner}: {bound['name']} is exceeded")
        last = bound["table"][-1]
        tables.row(*shown, bound["name"], f"{last['measured']:,.4g}", f"{last['bound']:,.4g}")


def draw(axes, learner: str, found: dict) -> None:
    colors: dict[str, str] = {}  # by quantity; the bounds of one have its colour, dashed and dotted
    bounds: Counter[str] = Counter()  # drawn of each quantity
    for bound in (bound for bound in found["bounds"] if bound["applies"]):
        t, measured, allowed = (np.array([row[key] for row in bound["table"]]) for key in ("t", "measured", "bound"))
        quantity = bound["quantity"]
        if not (measured > 0.0).any() or not np.isfinite(allowed).any():
            continue
        if quantity not in colors:
            colors[quantity] = f"C{len(colors)}"
            axes.plot(t, np.where(measured > 0.0, measured, np.nan), color=colors[quantity], label=quantity)
        style = STYLES[bounds[quantity] % len(STYLES)]
        bounds[quantity] += 1
        axes.plot(t, np.where(allowed > 0.0, allowed, np.nan), color=colors[quantity], linestyle=style,
                  label=f"bound: {bound['name']}")  # fmt: skip
    axes.set(title=learner, xscale="log", yscale="log", xlabel="rounds")
    axes.legend(fontsize=7)


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", nargs="+", type=named, metavar="NAME=STORE.h5")
    p.add_argument("--numbers", type=named, metavar="NAME=STORE.h5")
    p.add_argument("--classes", type=named, metavar="NAME=STORE.h5")
    p.add_argument("--figure", type=Path, metavar="FILE.png")
    options = p.parse_args()
    tables = Tables(options)
    tables.begin("regret beside its bounds, one pass", "data", "learner", "regret", "gap of u", "bound", "measured",
                 "bound's value")  # fmt: skip
    drawn = {}
    for number, (name, store) in enumerate(options.stores):
        for learner in LEARNERS:
            if number > 0 and learner.startswith(LONG):
                continue
            found = report(store, learner)
            show(tables, name, learner, found)
            if number == 0 and learner in DRAWN:
                drawn[learner] = found
    if options.numbers:
        for learner in OF_NUMBERS:
            show(tables, options.numbers[0], learner, report(options.numbers[1], learner, "--targets", "numbers"))
    if options.classes:
        name, store = options.classes
        with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as folder:
            costs = costs_of(store, Path(folder, "costs.txt"))
            for learner in OF_CLASSES:
                show(tables, name, learner, report(store, learner, "--costs", costs))
    tables.end()
    if options.figure:
        with panels(options.figure, 2, 4) as axes:
            for one, (learner, found) in zip(axes.flat, drawn.items(), strict=True):
                draw(one, learner, found)


if __name__ == "__main__":
    main()
