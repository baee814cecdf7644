"""The structured learners on real text: chunks (CoNLL-2000), dependency trees, words of lines, without and with their
tags (a treebank sample), and lists of candidates.

    python -m experiments.structured [--chunks conll2000.zip] [--trees dependency_treebank.zip]
        [--epochs 10] [--seed 0] [--json FILE]

Every run is the command structure in a process of its own; the seconds are those of the training alone, the memory the
peak of the process.  Of the treebank's sentences each tenth is tested on; lines are its words without blanks.

The candidates are made: of 1,000 training sentences and those to test on, up to 30 versions each in which words were
moved, dropped, replaced or put in.  Their features are what a translator has: the logarithm of the probability by
pairs of words of the other training sentences, a noisy count of the changes, the length and the number of unknown
words; the lists are ordered by the first plus three times the second.  The reference is the sentence.
"""

from __future__ import annotations

import json
import math
import random
import re
import tempfile
import zipfile
from collections import Counter
from pathlib import Path

from blocksvm.structured.text.templates import WITH_TAGS
from experiments.measuring import Tables, command, parser

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
    "tagged-words": [("perceptron",), ("pa1", "-C", "0.1"), ("mira", "-C", "0.01", "--k", "5")],
    "candidates": [
        ("perceptron",), ("pa1",), ("pa1", "--against", "max-loss"), ("mira", "--k", "1"), ("mira",),
        ("mira", "--oracles", "5"), ("mira", "--oracles", "10"), ("mira", "--oracles", "10", "--slack", "shared"),
        ("frank-wolfe",), ("frank-wolfe", "-C", "0.01"),
    ],
}  # fmt: skip
RUNS["chunks"] += [("perceptron", "--template", f"{WITH_TAGS} {pairs}") for pairs in
                   ("y[-1]|t[0]", "y[-1]|w[0]", "y[-1]|t[-1]|t[0]")]  # fmt: skip
MEASURE = {"chunks": "F1", "trees": "UAS", "words": "F1", "tagged-words": "F1", "candidates": "BLEU"}
TUNED, LISTED = 1000, 30  # sentences to learn from, candidates of each


def unpack_chunks(archive: Path, folder: Path) -> tuple[Path, Path]:
    with zipfile.ZipFile(archive) as file:
        for name in ("train.txt", "test.txt"):
            (folder / name).write_bytes(file.read(f"conll2000/{name}"))
    return folder / "train.txt", folder / "test.txt"


def unpack_trees(archive: Path, folder: Path) -> dict[str, tuple[Path, Path]]:
    """(training, test) texts of trees, of words with and without tags, and of candidates: nine sentences of ten, and
    the others."""
    sentences = []
    with zipfile.ZipFile(archive) as file:
        for name in sorted(file.namelist()):
            if name.endswith(".dp"):
                parts = re.split(r"\n[ \t\r]*\n", file.read(name).decode())
                sentences += [part.strip("\n") for part in parts if part.strip()]
    found = {}
    parts = {part: [s for k, s in enumerate(sentences) if (k % 10 == 9) == (part == "test")] for part in
             ("train", "test")}  # fmt: skip
    for task, columns in {"trees": None, "words": 1, "tagged-words": 2}.items():
        for part, chosen in parts.items():
            if columns:
                lines = [["/".join(line.split()[:columns]) for line in s.split("\n")] for s in chosen]
                chosen = [" ".join(line) for line in lines]
            (folder / f"{task}.{part}").write_text(("\n" if columns else "\n\n").join(chosen) + "\n")
        found[task] = folder / f"{task}.train", folder / f"{task}.test"
    words = {part: [[line.split()[0] for line in s.split("\n")] for s in chosen] for part, chosen in parts.items()}
    language = Language(words["train"][:-TUNED])
    found["candidates"] = folder / "candidates.train", folder / "candidates.test"
    for path, chosen in zip(found["candidates"], (words["train"][-TUNED:], words["test"]), strict=True):
        rng = random.Random(path.suffix)
        path.write_text("".join(candidates(str(k), line, language, rng) for k, line in enumerate(chosen)))
        path.with_suffix(path.suffix + ".ref").write_text("".join(" ".join(line) + "\n" for line in chosen))
    return found


class Language:
    """Probabilities of words by the word before, those of pairs that did not occur by the words alone."""

    def __init__(self, lines: list[list[str]]):
        self.words = Counter(word for line in lines for word in line)
        self.pairs = Counter(pair for line in lines for pair in zip(["<s>", *line], [*line, "</s>"], strict=True))
        self.n_lines = len(lines)

    def log_probability(self, line: list[str]) -> float:
        total, all_words = 0.0, sum(self.words.values()) + len(self.words) + 1
        for before, word in zip(["<s>", *line], [*line, "</s>"], strict=True):
            alone = (self.words[word] + 1) / all_words
            known = self.n_lines if before == "<s>" else self.words[before]
            total += math.log((self.pairs[before, word] + 2 * alone) / (known + 2))
        return total


def changed(line: list[str], language: Language, rng: random.Random) -> tuple[list[str], int]:
    """(the words after some changes, how many there were)"""
    line, n = list(line), rng.randint(0, max(1, len(line) // 3))
    words, counts = list(language.words), list(language.words.values())
    for _ in range(n):
        kind, at = rng.random(), rng.randrange(len(line))
        if kind < 0.4 and at + 1 < len(line):
            line[at], line[at + 1] = line[at + 1], line[at]
        elif kind < 0.6 and len(line) > 1:
            del line[at]
        elif kind < 0.8:
            line[at] = rng.choices(words, counts)[0]
        else:
            line.insert(at, rng.choices(words, counts)[0])
    return line, n


def candidates(name: str, line: list[str], language: Language, rng: random.Random) -> str:
    """The candidates of a sentence as lines of text."""
    versions = {}
    for _ in range(2 * LISTED):
        version, n = changed(line, language, rng)
        if len(versions) < LISTED:
            versions.setdefault(" ".join(version), (version, rng.gauss(-n, 1.5)))
    rows = []
    for text, (version, changes) in versions.items():
        fluency, unknown = language.log_probability(version), sum(word not in language.words for word in version)
        features = f"lm={fluency:.4f} changes={changes:.4f} length={len(version)} unknown={unknown}"
        rows.append((-fluency - 3.0 * changes, f"{name} ||| {text} ||| {features}\n"))
    return "".join(row for _, row in sorted(rows))


def measure(tables: Tables, task: str, texts: tuple[Path, Path], options, folder: Path) -> None:
    tables.begin(task, "learner", MEASURE[task], "certified gap", "epochs", "seconds", "peak MB", "model, MB")
    model, (text, test) = folder / "model.h5", texts
    scored, told_of = [[], []], {}
    if task == "candidates":
        scored = [("--score", "bleu", "--references", f"{path}.ref") for path in texts]
    # the kernels are compiled by a run that does not count
    for learner, *settings in [("mira", "--epochs", "1"), *RUNS[task]]:
        given = settings if "--epochs" in settings else [*settings, "--epochs", options.epochs]
        given = [*given, *scored[0]]
        of_task = ["words", "--tags"] if task == "tagged-words" else [task]
        done = command("structure", "train", text, model, "--task", *of_task, "--learner", learner, *given, "--seed",
                       options.seed, "--overwrite")  # fmt: skip
        if settings == ["--epochs", "1"]:
            continue
        figures = json.loads(command("structure", "evaluate", model, test, "--json", *scored[1]).out)
        told = re.search(r"(\d+) epochs? in ([\d.]+)s", done.out)
        gap = re.search(r"relative gap (\S+)", done.out)
        if task == "candidates" and not told_of:
            told_of = {f"the {which} candidates": figures[f"BLEU of the {which}"] for which in ("first", "best")}
            for name, value in told_of.items():
                tables.row(name, f"{value:.2f}", *[""] * 5)
        value = figures[MEASURE[task]] * (1 if task == "candidates" else 100)
        name = " ".join([learner, *settings]).replace(WITH_TAGS, "...")
        tables.row(f"`{name}`", f"{value:.2f}", gap[1] if gap else "", told[1], told[2], f"{done.peak_mb:,.0f}",
                   f"{model.stat().st_size / 1e6:.1f}")  # fmt: skip


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--chunks", type=Path, metavar="conll2000.zip")
    p.add_argument("--trees", type=Path, metavar="dependency_treebank.zip")
    p.add_argument("--epochs", type=int, default=10)
    p.add_argument("--seed", type=int, default=0)
    options = p.parse_args()
    tables = Tables(options)
    with tempfile.TemporaryDirectory(prefix="blocksvm-experiment-") as name:
        texts = {"chunks": unpack_chunks(options.chunks, Path(name))} if options.chunks else {}
        texts |= unpack_trees(options.trees, Path(name)) if options.trees else {}
        for task, both in texts.items():
            measure(tables, task, both, options, Path(name))
    tables.end()


if __name__ == "__main__":
    main()
