"""The structured learners on real text: chunks (CoNLL-2000), dependency trees, and words of lines (a treebank sample).

    python -m experiments.structured conll2000.zip | dependency_treebank.zip [--epochs 10]

Every run is the command structure in a process of its own; the seconds are those of the training alone, the memory the
peak of the process.  Of the treebank's sentences each tenth is tested on; lines are its words without blanks.
"""

import json
import re
import zipfile
from pathlib import Path

from experiments.runs import command, row, scratch, script, table

WITH_TAGS = (
    "w[-2] w[-1] w[0] w[1] w[2] t[-2] t[-1] t[0] t[1] t[2] w[-1]|w[0] w[0]|w[1] t[-2]|t[-1] t[-1]|t[0] t[0]|t[1] "
    "t[1]|t[2] t[-2]|t[-1]|t[0] t[-1]|t[0]|t[1] t[0]|t[1]|t[2] w.lower[0] w.shape[0] w.suffix2[0] w.suffix3[0]"
)
RUNS = {
    "chunks": ["perceptron", "pa", "pa1 -C 0.1 --against max-loss", "mira -C 0.01 --k 1", "mira -C 0.01 --k 5",
               "frank-wolfe -C 0.01 --epochs 50", "frank-wolfe -C 0.1 --epochs 50"],
    "trees": ["perceptron", "pa1 -C 0.1", "mira -C 0.01 --k 1", "mira -C 0.01 --k 5",
              "frank-wolfe -C 0.01 --epochs 30"],
    "words": ["perceptron", "pa1 -C 0.1", "mira -C 0.01 --k 5", "frank-wolfe -C 0.1 --epochs 30"],
}  # fmt: skip
PAIRS = ("y[-1]|t[0]", "y[-1]|w[0]", "y[-1]|t[-1]|t[0]")  # of labels, which look at the text
MEASURE = {"chunks": "F1", "trees": "UAS", "words": "F1"}


def texts_of(archive: Path) -> dict[str, dict[str, str]]:
    """{task: {train, test: text}}"""
    with zipfile.ZipFile(archive) as file:
        if "conll2000/train.txt" in file.namelist():
            return {"chunks": {part: file.read(f"conll2000/{part}.txt").decode() for part in ("train", "test")}}
        trees = (file.read(name).decode() for name in sorted(file.namelist()) if name.endswith(".dp"))
        sentences = [s.strip("\n") for text in trees for s in re.split(r"\n[ \t\r]*\n", text) if s.strip()]
    words = [" ".join(line.split()[0] for line in s.split("\n")) for s in sentences]
    parted = {part: [k for k in range(len(words)) if (k % 10 == 9) == (part == "test")] for part in ("train", "test")}
    return {task: {part: between.join(rows[k] for k in chosen) + "\n" for part, chosen in parted.items()}
            for task, rows, between in (("trees", sentences, "\n\n"), ("words", words, "\n"))}  # fmt: skip


def measure(task: str, learner: str, folder: Path, epochs: int, *more: object) -> None:
    name, *settings = learner.split()
    given = settings if "--epochs" in settings else [*settings, "--epochs", epochs]
    model = folder / "model.h5"
    done = command("structure", "train", folder / "train", model, "--task", task, "--learner", name, *given, *more,
                   "--overwrite")  # fmt: skip
    figures = json.loads(command("structure", "evaluate", model, folder / "test", "--json").out)
    told, gap = re.search(r"(\d+) epochs? in ([\d.]+)s", done.out), re.search(r"relative gap (\S+)", done.out)
    shown = f"{learner} --template ... {str(more[-1]).rpartition(' ')[2]}" if more else learner
    row(task, f"`{shown}`", f"{100 * figures[MEASURE[task]]:.2f}", gap[1] if gap else "", told[1], told[2],
        f"{done.peak_mb:,.0f}", f"{model.stat().st_size / 1e6:.1f}")  # fmt: skip


@script("archives+", epochs=10)
def main(options) -> None:
    table("structured learners", "task", "learner", "score", "certified gap", "epochs", "seconds", "peak MB",
          "model, MB")  # fmt: skip
    for task, texts in (pair for archive in options.archives for pair in texts_of(Path(archive)).items()):
        with scratch() as folder:
            for part, text in texts.items():
                (folder / part).write_text(text)
            # the kernels are compiled by a run that does not count
            command("structure", "train", folder / "train", folder / "model.h5", "--task", task, "--epochs", 1)
            for learner in RUNS[task]:
                measure(task, learner, folder, options.epochs)
            for pairs in PAIRS if task == "chunks" else ():
                measure(task, "perceptron", folder, options.epochs, "--template", f"{WITH_TAGS} {pairs}")
