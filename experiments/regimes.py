"""Batch, online and stream on the same rows: passes over the data, seconds from the text on, memory, test accuracy.

    python -m experiments.regimes NAME=TRAIN.svm,TEST.svm[,C] ... [--memory 300] [--repeats 3] [--json FILE]

Seconds are of whole commands, the split included where there is a store; --memory is in MB.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median

from experiments.measuring import Tables, command, parser, split, train

LEARNERS = ("pa1 -C 0.1", "arow", "adagrad-rda --l1 1e-6")


def measure(text: Path, test: Path, memory: str, C: str, folder: Path) -> dict[tuple, tuple]:
    """{(regime, method, passes): (seconds, peak MB, accuracy)}"""
    store, model = folder / "rows.h5", folder / "model.h5"
    size = ("--memory", memory, "--overwrite", "--quiet")

    def accuracy() -> float:
        return json.loads(command("predict", model, test, folder / "p.txt", "--json", "--overwrite").out)["accuracy"]

    made = split(text, store).seconds
    events, done = train(store, model, "-C", C, "--memory", memory)
    found = {
        ("batch", f"dual-cd, C {C}, gap 1e-3", events[-1]["outer"]): (made + done.seconds, done.peak_mb, accuracy())
    }
    for learner in LEARNERS:
        for epochs in (1, 5):
            given = ("--learner", *learner.split(), "--max-outer", epochs, "--average")
            _, done = train(store, model, *given, "--memory", memory)
            found["online", f"{learner}, averaged", epochs] = made + done.seconds, done.peak_mb, accuracy()
    with open(text, "rb") as file:
        labels = sorted({line.split(None, 1)[0].decode() for line in file})
    for learner in LEARNERS:
        given = ("--learner", *learner.split(), "--average", "--model", model)
        done = command("stream", text, *given, *(["--labels", ",".join(labels)] if len(labels) > 2 else []), *size)
        found["stream", f"{learner}, averaged", 1] = done.seconds, done.peak_mb, accuracy()
    return found


def main() -> None:
    p = parser(__doc__)
    p.add_argument("data", nargs="+", metavar="NAME=TRAIN.svm,TEST.svm[,C]")
    p.add_argument("--memory", type=float, default=300)
    p.add_argument("--repeats", type=int, default=3)
    options = p.parse_args()
    tables = Tables(options)
    tables.begin(f"--memory {options.memory:g}MB, medians of {options.repeats}", "data", "regime", "method", "passes",
                 "seconds", "peak MB", "test accuracy")  # fmt: skip
    for one in options.data:
        name, _, rest = one.partition("=")
        text, test, C = (*rest.split(","), "1")[:3]
        with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as folder:
            given = (Path(text).resolve(), Path(test).resolve(), f"{options.memory:g}MB", C, Path(folder))
            repeats = [measure(*given) for _ in range(options.repeats)]
        for key in repeats[0]:
            seconds, peak, accuracy = map(median, zip(*(found[key] for found in repeats), strict=True))
            tables.row(name, *key, f"{seconds:.1f}", f"{peak:.0f}", f"{accuracy:.4f}")
    tables.end()


if __name__ == "__main__":
    main()
