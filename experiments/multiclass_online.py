"""One pass of online learners over many classes or sets of labels: mistakes made on the way, and what the weights are
worth on other rows, beside the batch solver on the same rows.

    python -m experiments.multiclass_online TRAIN.svm TEST.svm [--sets]

A row of a set is a mistake where its ranking is not perfect: some label of the set is not above all others.  Rows come
in the random order of a store; no bias.  Seconds are from the opening of the store.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from experiments.runs import begin, command, parser, row, split, table, train

LEARNERS = ("pa", "pa1 -C 0.01", "pa1 -C 0.1", "pa1 -C 1", "pa2 -C 0.1", "pa2 -C 1", "perceptron", "mira")
CLASSES = {"test error": "accuracy"}  # column: what predict calls its complement
SETS = {"imperfect rankings": "perfect_rankings", "ranking loss": "ranking_loss", "one-error": "one_error"}


def main() -> None:
    p = parser(__doc__)
    p.add_argument("text", type=Path, metavar="TRAIN.svm")
    p.add_argument("test", type=Path, metavar="TEST.svm")
    p.add_argument("--sets", action="store_true", help="the labels are sets (1,3 5:0.2)")
    options = p.parse_args()
    figures = SETS if options.sets else CLASSES
    begin()
    means = [f"averaged: {name}" for name in figures]
    table(options.text.stem, "one pass", "progressive mistakes", *figures, *means, "seconds")
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        store, model = Path(name, "rows.h5"), Path(name, "model.h5")
        split(options.text, store, *(["--format", "multilabel"] if options.sets else []))

        def measure(*given: str) -> tuple[list[dict], list[str]]:
            events, _ = train(store, model, *given)
            told = json.loads(command("predict", model, options.test, Path(name, "p.txt"), "--json", "--overwrite").out)
            good = ("accuracy", "perfect_rankings")
            return events, [f"{1.0 - told[key] if key in good else told[key]:.4f}" for key in figures.values()]

        runs = [f"--learner {one}" for one in LEARNERS if not (options.sets and one == "mira")]
        runs += [f"--learner {one} --multiclass rest" for one in LEARNERS[2:] if options.sets]
        for one in runs:
            given = (*one.split(), "--order", "stored", "--max-outer", "1")
            measure(*given)  # compiles
            events, last = measure(*given)
            mistakes = [e["mistakes"] / e["rows"] for e in events if e["event"] == "outer"][-1]
            row(f"`{one}`", f"{mistakes:.4f}", *last, *measure(*given, "--average")[1], f"{events[-1]['seconds']:.2f}")
        batch = "--solver dual-cd --multiclass " + ("rest" if options.sets else "crammer-singer")
        events, last = measure(*batch.split())
        row(f"`{batch}`", "", *last, *[""] * len(figures), f"{events[-1]['seconds']:.2f}")


if __name__ == "__main__":
    main()
