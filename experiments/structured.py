"""The structured learners on real text: chunks (CoNLL-2000), dependency trees, and words of lines (a treebank sample).

    python -m experiments.structured [--chunks conll2000.zip] [--trees dependency_treebank.zip] [--epochs 10] [--seed 0]

Every run is the command structure in a process of its own; the seconds are those of the training alone, the memory the
peak of the process.  Of the treebank's sentences each tenth is tested on; lines are its words without blanks.
"""

from __future__ import annotations

import json
import re
import tempfile
import zipfile
from pathlib import Path

from experiments.runs import begin, command, parser, row, table

WITH_TAGS = (
    "w[-2] w[-1] w[0] w[1] w[2] t[-2] t[-1] t[0] t[1] t[2] w[-1]|w[0] w[0]|w[1] t[-2]|t[-1] t[-1]|t[0] t[0]|t[1] "
    "t[1]|t[2] t[-2]|t[-1]|t[0] t[-1]|t[0]|t[1] t[0]|t[1]|t[2] w.lower[0] w.shape[0] w.suffix2[0] w.suffix3[0]"
)
RUNS = {
    "chunks": [
        ("perceptron",), ("pa",), ("pa1", "-C", "0.1"), ("pa1", "-C", "0.1", "--against", "max-loss"),
        ("pa2", "-C", "0.1"), ("mira", "-C", "0.01", "--k", "1"), ("mira", "-C", "0.01", "--k", "5"),
        ("mira", "-C", "0.01", "--k", "5", "--slack", "shared"),
        ("frank-wolfe", "-C", "0.01", "--epochs", "50"), ("frank-wolfe", "-C", "0.1", "--epochs", "50"),
    ],
    "trees": [
        ("perceptron",), ("pa1", "-C", "0.1"), ("mira", "-C", "0.01", "--k", "1"), ("mira", "-C", "0.01", "--k", "5"),
        ("frank-wolfe", "-C", "0.01", "--epochs", "30"),
    ],
    "words": [
        ("perceptron",), ("pa1", "-C", "0.1"), ("mira", "-C", "0.01", "--k", "5"),
        ("frank-wolfe", "-C", "0.1", "--epochs", "30"),
    ],
}  # fmt: skip
RUNS["chunks"] += [("perceptron", "--template", f"{WITH_TAGS} {pairs}") for pairs in
                   ("y[-1]|t[0]", "y[-1]|w[0]", "y[-1]|t[-1]|t[0]")]  # fmt: skip
MEASURE = {"chunks": "F1", "trees": "UAS", "words": "F1"}


def unpack_chunks(archive: Path, folder: Path) -> tuple[Path, Path]:
    with zipfile.ZipFile(archive) as file:
        for name in ("train.txt", "test.txt"):
            (folder / name).write_bytes(file.read(f"conll2000/{name}"))
    return folder / "train.txt", folder / "test.txt"


def unpack_trees(archive: Path, folder: Path) -> dict[str, tuple[Path, Path]]:
    """(training, test) texts of trees and of words: nine sentences of ten, and the others."""
    sentences = []
    with zipfile.ZipFile(archive) as file:
        for name in sorted(file.namelist()):
            if name.endswith(".dp"):
                parts = re.split(r"\n[ \t\r]*\n", file.read(name).decode())
                sentences += [part.strip("\n") for part in parts if part.strip()]
    found = {}
    parts = {part: [s for k, s in enumerate(sentences) if (k % 10 == 9) == (part == "test")] for part in
             ("train", "test")}  # fmt: skip
    words = {part: [[line.split()[0] for line in s.split("\n")] for s in chosen] for part, chosen in parts.items()}
    for task in ("trees", "words"):
        found[task] = folder / f"{task}.train", folder / f"{task}.test"
        for path in found[task]:
            part = path.suffix[1:]
            text = "\n\n".join(parts[part]) if task == "trees" else "\n".join(map(" ".join, words[part]))
            path.write_text(text + "\n")
    return found


def measure(task: str, texts: tuple[Path, Path], options, folder: Path) -> None:
    table(task, "learner", MEASURE[task], "certified gap", "epochs", "seconds", "peak MB", "model, MB")
    model, (text, test) = folder / "model.h5", texts
    # the kernels are compiled by a run that does not count
    for learner, *settings in [("mira", "--epochs", "1"), *RUNS[task]]:
        given = settings if "--epochs" in settings else [*settings, "--epochs", options.epochs]
        done = command("structure", "train", text, model, "--task", task, "--learner", learner, *given, "--seed",
                       options.seed, "--overwrite")  # fmt: skip
        if settings == ["--epochs", "1"]:
            continue
        figures = json.loads(command("structure", "evaluate", model, test, "--json").out)
        told = re.search(r"(\d+) epochs? in ([\d.]+)s", done.out)
        gap = re.search(r"relative gap (\S+)", done.out)
        name = " ".join([learner, *settings]).replace(WITH_TAGS, "...")
        row(f"`{name}`", f"{100 * figures[MEASURE[task]]:.2f}", gap[1] if gap else "", told[1], told[2],
            f"{done.peak_mb:,.0f}", f"{model.stat().st_size / 1e6:.1f}")  # fmt: skip


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--chunks", type=Path, metavar="conll2000.zip")
    p.add_argument("--trees", type=Path, metavar="dependency_treebank.zip")
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--seed", type=int, default=0)
    options = p.parse_args()
    begin()
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        texts = {"chunks": unpack_chunks(options.chunks, Path(name))} if options.chunks else {}
        texts |= unpack_trees(options.trees, Path(name)) if options.trees else {}
        for task, both in texts.items():
            measure(task, both, options, Path(name))


if __name__ == "__main__":
    main()
