"""One pass of the passive-aggressive learners and of MIRA over many classes and over sets of labels: mistakes made on
the way, and what the weights are worth on other rows; beside the batch solver on the same rows.

    python -m experiments.multiclass_online CLASSES.svm CLASSES.t.svm SETS.svm SETS.t.svm

A row of a set is a mistake where its ranking is not perfect: some label of the set is not above all others.  Rows come
in the random order of a store (seed 0); no bias.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

import blocksvm
from blocksvm.conversion.convert import SplitSettings, write_store
from blocksvm.model.measures import SetMeasures
from blocksvm.model.scoring import StoreScorer
from experiments.report import machine

ONLINE = (
    ("pa", {}), ("pa1", {"C": 0.01}), ("pa1", {"C": 0.1}), ("pa1", {"C": 1.0}), ("pa2", {"C": 0.1}), ("pa2", {"C":
    1.0}), ("perceptron", {}), ("mira", {}),
)  # fmt: skip
MEMORY = 500_000_000


def store_of(text: str, folder: Path, name: str, sets: bool) -> Path:
    path = folder / f"{name}.h5"
    write_store([text], path, SplitSettings(format="multilabel" if sets else "auto"))
    return path


def judged(model: Path, test: Path, sets: bool) -> tuple[float, ...]:
    """Of a model on other rows: the share of wrong labels; of sets that of imperfect rankings, ranking loss,
    one-error."""
    scorer = StoreScorer(model, test, MEMORY)
    if sets:
        measures = SetMeasures(scorer.model.labels, scorer.model.ranks)
        for scores in scorer.scores():
            measures.count(scores)
        n = measures.labelled
        return 1.0 - measures.perfect / n, measures.ranking_loss / n, measures.first_wrong / n
    wrong = rows = 0
    for scores in scorer.scores():
        wrong += int(np.count_nonzero(np.array(scorer.model.labels)[scores.classes] != scores.labels))
        rows += len(scores.labels)
    return (wrong / rows,)


def learned(store: Path, folder: Path, **settings) -> tuple[Path, float | None, float]:
    """(model, share of progressive mistakes or None, seconds) of one pass, or of a batch solver."""
    events: list[dict] = []
    began = time.perf_counter()
    with blocksvm.open_store(store) as source:
        fitted = blocksvm.fit(source, memory=MEMORY, on_event=events.append, **settings)
    seconds = time.perf_counter() - began
    fitted.save(folder / "model.h5", overwrite=True)
    told = [event for event in events if "mistakes" in event and event["event"] == "outer"]
    return folder / "model.h5", told[-1]["mistakes"] / told[-1]["rows"] if told else None, seconds


def table(train: Path, test: Path, folder: Path, sets: bool) -> None:
    names = ["imperfect rankings", "ranking loss", "one-error"] if sets else ["test error"]
    columns = ["one pass", "progressive mistakes", *names, *(f"averaged: {name}" for name in names), "seconds"]
    print(f"| {' | '.join(columns)} |")
    print(f"|---|---|{'---|' * (2 * len(names) + 1)}")
    runs = [(name, case, "") for name, case in ONLINE if not (sets and name == "mira")]
    if sets:
        runs += [(name, case | {"multiclass": "rest"}, ", each label against the rest") for name, case in ONLINE[2:]]
    for name, case, more in runs:
        own = {"learner": name, "order": "stored", **case}
        learned(train, folder, **own)  # compiles
        model, mistakes, seconds = learned(train, folder, **own)
        last = judged(model, test, sets)
        mean = judged(learned(train, folder, average=True, **own)[0], test, sets)
        C = f" C = {case['C']:g}" if "C" in case else ""
        cells = [f"{figure:.4f}" for figure in (mistakes, *last, *mean)]
        print(f"| {name}{C}{more} | {' | '.join(cells)} | {seconds:.2f} |", flush=True)
    batch = {} if sets else {"multiclass": "crammer-singer"}
    learned(train, folder, C=1.0, **batch)
    model, _, seconds = learned(train, folder, C=1.0, **batch)
    cells = [f"{figure:.4f}" for figure in judged(model, test, sets)]
    rule = "each label against the rest" if sets else "Crammer and Singer"
    print(f"| dual-cd, {rule}, C = 1 | | {' | '.join(cells)} |{' |' * len(names)} {seconds:.2f} |")


def about() -> str:
    found = machine()
    return (
        f"{found['cpu']}, {found['cores']} cores. `python -m experiments.multiclass_online`; seconds are of the pass "
        "with compiled kernels."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("classes", "classes_test", "sets", "sets_test"):
        parser.add_argument(name)
    given = parser.parse_args()
    print(f"# Many classes and sets of labels, one row at a time\n\n{about()}\n")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for sets, texts in ((False, (given.classes, given.classes_test)), (True, (given.sets, given.sets_test))):
            train, test = (store_of(text, folder, f"{k}-{sets}", sets) for k, text in enumerate(texts))
            with blocksvm.open_store(train) as source:
                print(f"**{Path(texts[0]).stem}**: {source.n_samples:,} rows, {source.n_features:,} features, "
                      f"{'sets of labels' if sets else f'{len(source.labels.values)} classes'}\n")  # fmt: skip
            table(train, test, folder, sets)
            print()


if __name__ == "__main__":
    main()
