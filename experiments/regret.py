"""Regret beside its bounds: what ``regret`` measures and what each theorem allows, for learners of two classes, of real
numbers and of classes with costs.

    python -m experiments.regret NAME=STORE.h5 ... [--numbers NAME=STORE.h5] [--classes NAME=STORE.h5]

One pass in shuffled order; a row of the table is a bound that applies.  ``regret`` is against the best fixed weights,
with the gap to which these are certified; measured and bound at the last round, as the bound states them (its measure
may be mistakes or a sum of weighted losses).  Costs of classes: 1 + the distance of their places.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from experiments.runs import begin, command, described, parser, row, table

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


def show(name: str, learner: str, found: dict) -> None:
    """A row for each bound that applies; RuntimeError where a proven one is exceeded."""
    (gap,) = [one["rel_gap"] for one in found["comparators"] if one["name"] == found["comparator"]] or [None]
    shown = name, f"`{learner}`", f"{found['regret']:,.4g}", "" if gap is None else f"{gap:.1e}"
    bounds = [bound for bound in found["bounds"] if bound["applies"]]
    if not bounds:
        row(*shown, "none is known", "", "")
    for bound in bounds:
        if bound["violated"] and bound["proven"]:
            raise RuntimeError(f"{name}, {learner}: {bound['name']} is exceeded")
        last = bound["table"][-1]
        row(*shown, bound["name"], f"{last['measured']:,.4g}", f"{last['bound']:,.4g}")


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", nargs="+", type=named, metavar="NAME=STORE.h5")
    p.add_argument("--numbers", type=named, metavar="NAME=STORE.h5")
    p.add_argument("--classes", type=named, metavar="NAME=STORE.h5")
    options = p.parse_args()
    begin()
    table("regret beside its bounds, one pass", "data", "learner", "regret", "gap of u", "bound", "measured",
          "bound's value")  # fmt: skip
    for number, (name, store) in enumerate(options.stores):
        for learner in LEARNERS:
            if number > 0 and learner.startswith(LONG):
                continue
            show(name, learner, report(store, learner))
    if options.numbers:
        for learner in OF_NUMBERS:
            show(options.numbers[0], learner, report(options.numbers[1], learner, "--targets", "numbers"))
    if options.classes:
        name, store = options.classes
        with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as folder:
            costs = costs_of(store, Path(folder, "costs.txt"))
            for learner in OF_CLASSES:
                show(name, learner, report(store, learner, "--costs", costs))


if __name__ == "__main__":
    main()
