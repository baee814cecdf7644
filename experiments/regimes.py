"""Batch, online and stream on the same rows of two classes.

    python -m experiments.regimes NAME=TRAIN.svm,TEST.svm[,C] ... [--memory 300] [--repeats 3]

Passes over the data, seconds from the text on (of whole commands, the split included where there is a store), memory,
test accuracy; --memory is in MB.
"""

from functools import partial
from pathlib import Path

from experiments.runs import command, in_turn, predicted, row, scratch, script, split, table, train

LEARNERS = ("pa1 -C 0.1", "arow", "adagrad-rda --l1 1e-6")


def measure(text: Path, test: Path, folder: Path, given: list[object], stream: bool = False) -> dict:
    store, model = folder / "rows.h5", folder / "model.h5"
    if stream:
        done, before, passes = command("stream", text, "--model", model, *given, "--overwrite", "--quiet"), 0.0, 1
    else:
        before = split(text, store).seconds
        events, done = train(store, model, *given)
        passes = events[-1]["outer"]
    return {"passes": passes, "seconds": before + done.seconds, "peak": done.peak_mb,
            "accuracy": predicted(model, test)["accuracy"]}  # fmt: skip


@script("data", memory=300, repeats=3)
def main(options) -> None:
    table(f"--memory {options.memory}MB, medians of {options.repeats}", "data", "regime", "method", "passes",
          "seconds", "peak MB", "test accuracy")  # fmt: skip
    for name, _, rest in (one.partition("=") for one in options.data):
        text, test, C = (*rest.split(","), "1")[:3]
        memory = ["--memory", f"{options.memory}MB"]
        with scratch() as folder:
            way = partial(measure, Path(text), Path(test), folder)
            ways = {("batch", f"dual-cd, C {C}, gap 1e-3"): partial(way, ["-C", C, *memory])}
            for learner in LEARNERS:
                given = ["--learner", *learner.split(), "--average", *memory]
                for epochs in (1, 5):
                    ways["online", f"{learner}, averaged", epochs] = partial(way, [*given, "--max-outer", epochs])
                ways["stream", f"{learner}, averaged"] = partial(way, given, stream=True)
            for (regime, method, *_), one in in_turn(ways, options.repeats).items():
                row(name, regime, method, one["passes"], f"{one['seconds']:.1f}", f"{one['peak']:.0f}",
                    f"{one['accuracy']:.4f}")  # fmt: skip
