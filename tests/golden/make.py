"""Writes the golden files that are missing: one of every file kind, as a release wrote it.  None is ever written again.

PYTHONPATH=. python tests/golden/make.py        (from the checkout)
"""

import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from support.file_cases import unheard  # noqa: E402

INPUTS = ("rows.svm", "classes.svm", "sets.svm", "weights.txt", "reviews.tsv", "tags.txt")
TEXTS = "--format documents --ngrams word:1-2 --idf smooth --normalize l2"
STEADY = "--working-set none --schedule 1"
RUN = "--seed 1 --quiet --tol 1e-3"
# file -> the commands that make it, in a folder with the inputs and the golden files before it
MADE = {
    "store.h5": ["split rows.svm store.h5 --seed 1"],
    "words.h5": [f"split reviews.tsv words.h5 {TEXTS} --seed 1"],
    "sets.h5": ["split sets.svm sets.h5 --format multilabel --seed 1"],
    "weighted.h5": ["split rows.svm weighted.h5 --weights weights.txt --seed 1"],
    "model.h5": [f"train store.h5 model.h5 --bias 1 {RUN}"],
    "words-model.h5": [f"train words.h5 words-model.h5 --loss logistic {RUN}"],
    "calibrated.h5": [f"train store.h5 calibrated.h5 --calibrate platt {RUN}"],
    "classes.h5": ["split classes.svm c.h5 --seed 1", f"train c.h5 classes.h5 {RUN}"],
    "kernel.h5": [f"train store.h5 kernel.h5 --solver kernel --kernel rbf --gamma 0.5 {RUN}"],
    "learner.h5": ["stream rows.svm --learner arow --model learner.h5 --quiet"],
    "structured.h5": ["structure train tags.txt structured.h5 --task chunks --learner pa1 --epochs 2 --quiet"],
    "checkpoint.h5": [f"train store.h5 m.h5 --checkpoint checkpoint.h5 --max-outer 2 {STEADY} {RUN}"],
    "trace.jsonl": [f"train store.h5 t.h5 --log trace.jsonl {RUN}"],
    "model.liblinear": ["export model.h5 model.liblinear --format liblinear"],
    "weights.csv": ["export words-model.h5 weights.csv --format table"],
    "predictions.txt": ["predict model.h5 rows.svm predictions.txt --scores --quiet"],
}


def write_inputs(folder: Path) -> None:
    draw = random.Random(5)
    plain, classes, sets, weights = [], [], [], []
    for _ in range(60):
        x = {j: round(draw.gauss(0, 1), 3) for j in sorted(draw.sample(range(1, 13), 5))}
        entries = " ".join(f"{j}:{v}" for j, v in x.items())
        score = sum(v for j, v in x.items() if j < 7)
        plain.append(f"{1 if score > 0 else -1} {entries}\n")
        classes.append(f"{int(score > 0) + int(score > 1)} {entries}\n")
        sets.append(f"{draw.choice(['1', '2', '1,3', '2,3'])} {entries}\n")
        weights.append(f"{draw.choice([0.5, 1, 2])}\n")
    reviews = [f"{'pos' if k % 2 else 'neg'}\t{'a good film' if k % 2 else 'a dull film'} {k % 5}\n" for k in range(30)]
    tags = ["the DT B-NP\ndog NN I-NP\nran VB B-VP\nhome RB O\n\n"] * 6
    for name, lines in zip(INPUTS, (plain, classes, sets, weights, reviews, tags), strict=True):
        (folder / name).write_text("".join(lines))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write_inputs(Path(folder))
        there = [name for name in MADE if (HERE / name).exists()]
        for name in there:
            shutil.copy(HERE / name, name)
        for name, commands in MADE.items():
            for command in commands if name not in there else ():
                unheard(command)
        for name in (*MADE, *INPUTS):
            if not (HERE / name).exists():
                shutil.copy(name, HERE / name)


if __name__ == "__main__":
    main()
