"""Batch, online and stream on the same rows of two classes.

    python -m experiments.regimes NAME=TRAIN.svm,TEST.svm[,C] ... [--memory 300] [--repeats 3]

Passes over the data, seconds from the text on (of whole commands, the split included where there is a store), memory,
test accuracy; --memory is in MB.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from experiments.runs import begin, command, predicted, row, split, table, train

LEARNERS = ("pa1 -C 0.1", "arow", "adagrad-rda --l1 1e-6")


def measure(text: Path, test: Path, C: str, memory: str, folder: Path) -> dict[tuple, tuple]:
    """{(regime, method, passes): (seconds, peak MB, accuracy)}"""
    store, model, found = folder / "rows.h5", folder / "model.h5", {}
    made = split(text, store).seconds

    def note(regime: str, method: str, passes: int, seconds: float, peak_mb: float) -> None:
        found[regime, method, passes] = seconds, peak_mb, predicted(model, test)["accuracy"]

    events, done = train(store, model, "-C", C, "--memory", memory)
    note("batch", f"dual-cd, C {C}, gap 1e-3", events[-1]["outer"], made + done.seconds, done.peak_mb)
    for learner in LEARNERS:
        given = ("--learner", *learner.split(), "--average", "--memory", memory)
        for epochs in (1, 5):
            _, done = train(store, model, *given, "--max-outer", epochs)
            note("online", f"{learner}, averaged", epochs, made + done.seconds, done.peak_mb)
        done = command("stream", text, "--model", model, *given, "--overwrite", "--quiet")
        note("stream", f"{learner}, averaged", 1, done.seconds, done.peak_mb)
    return found


def main() -> None:
    options = begin(__doc__, "data", memory=300, repeats=3)
    sets = [(name, (*rest.split(","), "1")[:3]) for name, _, rest in (one.partition("=") for one in options.data)]
    table(f"--memory {options.memory}MB, medians of {options.repeats}", "data", "regime", "method", "passes",
          "seconds", "peak MB", "test accuracy")  # fmt: skip
    for name, (text, test, C) in sets:
        with tempfile.TemporaryDirectory() as folder:
            given = (Path(text).resolve(), Path(test).resolve(), C, f"{options.memory}MB", Path(folder))
            repeats = [measure(*given) for _ in range(options.repeats)]
        for key in repeats[0]:
            seconds, peak, accuracy = map(median, zip(*(found[key] for found in repeats), strict=True))
            row(name, *key, f"{seconds:.1f}", f"{peak:.0f}", f"{accuracy:.4f}")


if __name__ == "__main__":
    main()
