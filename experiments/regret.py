"""Regret beside its bounds: what ``regret`` measures and what each theorem allows.

    python -m experiments.regret NAME=STORE.h5 ... [--numbers NAME=STORE.h5] [--classes NAME=STORE.h5]

One pass in shuffled order; a row of the table is a bound that applies.  ``regret`` is against the best fixed weights,
with the gap to which these are certified; measured and bound at the last round, as the bound states them (its measure
may be mistakes or a sum of weighted losses).  Costs of classes: 1 + the distance of their places.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from experiments.runs import begin, command, described, row, table

LEARNERS = (
    "perceptron", "pa", "pa1 -C 0.1", "pa2 -C 0.1",
    "ogd --decay constant --step 0.01", "omd --mirror entropic --radius 20 --step 0.005",
    "omd --mirror p-norm --p 5 --step 0.01", "pegasos --lambda 1e-3", "pegasos --lambda 1e-3 --unprojected",
    "pegasos --lambda 1e-3 --loss logistic", "fobos --l1 1e-4 --step 0.3", "hf-fobos --l1 1e-3 --p 3 --step 0.3",
    "adagrad-fobos --l1 1e-4 --step 0.1", "adagrad-rda --l1 1e-4 --step 0.1", "adagrad-rda-squares --l1 1e-4",
)  # fmt: skip
LONG = ("hf-fobos", "adagrad-rda-squares")  # their best fixed weights take long on many features: the first store alone
OF_NUMBERS = ("pa --epsilon 1", "pa1 -C 0.1 --epsilon 1", "pa2 -C 0.1 --epsilon 1")
OF_CLASSES = ("pa1 -C 0.1", "pa1 -C 0.1 --cost-rule max-loss", "pa2 -C 0.1 --cost-rule max-loss")


def show(named: str, learner: str, *more: object) -> None:
    """A row for each bound that applies; RuntimeError where a proven one is exceeded."""
    name, _, store = named.partition("=")
    given = ("--learner", *learner.split(), *more, "--order", "shuffled", "--json", "--quiet")
    found = json.loads(command("regret", store, *given).out)
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
    options = begin(__doc__, "stores", numbers="", classes="")
    table("regret beside its bounds, one pass", "data", "learner", "regret", "gap of u", "bound", "measured",
          "bound's value")  # fmt: skip
    for number, named in enumerate(options.stores):
        for learner in LEARNERS:
            if number == 0 or not learner.startswith(LONG):
                show(named, learner)
    for learner in OF_NUMBERS if options.numbers else ():
        show(options.numbers, learner, "--targets", "numbers")
    if options.classes:
        labels = [f"{label:g}" for label, _ in described(Path(options.classes.partition("=")[2]))["labels"]]
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as costs:
            print(*labels, file=costs)
            for i, label in enumerate(labels):
                print(label, *(abs(i - j) + (i != j) for j in range(len(labels))), file=costs, flush=True)
            for learner in OF_CLASSES:
                show(options.classes, learner, "--costs", costs.name)


if __name__ == "__main__":
    main()
