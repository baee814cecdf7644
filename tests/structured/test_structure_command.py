"""blocksvm structure: text of each task in, models and predictions out, and one sentence on what is wrong."""

import json
import re

import numpy as np
import pytest
from support.file_cases import rewrite_meta, sentences
from support.refused import refused

from blocksvm.structured.candidates import corpus_bleu
from blocksvm.structured.lattices import WORDS
from blocksvm.structured.tasks import load_structured


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    """Training and test texts of each task: chunks.train, chunks.test, ..."""
    folder = tmp_path_factory.mktemp("texts")
    makers = {"chunks": sentences, "trees": trees, "words": plain, "tagged": tagged_text}
    for name, make in makers.items():
        for part, seed, n in (("train", 1, 120), ("test", 2, 40)):
            (folder / f"{name}.{part}").write_text(make(seed, n))
    for part, seed, n in (("train", 0, 30), ("test", 1, 15)):
        lists, references = candidates(seed, n)
        (folder / f"lists.{part}").write_text(lists)
        (folder / f"{part}.ref").write_text(references)
        (folder / f"{part}.other").write_text("y\n" * n)
    return folder


def trees(seed: int, n: int) -> str:
    """Adjectives hang from the next noun, nouns from the verb."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        tags = [t for _ in range(rng.integers(1, 3)) for t in ["JJ"] * rng.integers(0, 3) + ["NN"]]
        verb = int(rng.integers(0, len(tags) + 1))
        verb = max([0, *(k + 1 for k, t in enumerate(tags) if t == "NN" and k < verb)])
        tags.insert(verb, "VB")
        for k, tag in enumerate(tags):
            noun = next((j + 1 for j in range(k, len(tags)) if tags[j] == "NN"), 0)
            lines.append(f"{tag}{rng.integers(0, 9)} {tag} {0 if tag == 'VB' else verb + 1 if tag == 'NN' else noun}")
        lines.append("")
    return "\n".join(lines) + "\n"


def tagged_text(seed: int, n: int) -> str:
    """Sentences in which a 'run' is a noun behind 'the' and else a verb."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        line, before = [], ""
        for word in rng.choice(["the", "cat", "run", "ran", "quick"], rng.integers(2, 7)).tolist():
            nouns = {"the": "D", "cat": "N", "run": "N" if before in "DA" else "V", "ran": "V", "quick": "A"}
            before = nouns[word]
            line.append(f"{word}/{before}")
        lines.append(" ".join(line))
    return "\n".join([*lines[:9], "", *lines[9:]]) + "\n"


def plain(seed: int, n: int) -> str:
    return re.sub(r"/\w", "", tagged_text(seed, n))


def candidates(seed: int, n: int) -> tuple[str, str]:
    """(candidates of sentences of five words, a feature knows how many are wrong, two don't; the sentences)"""
    rng = np.random.default_rng(seed)
    lists, references = [], []
    for s in range(n):
        own = rng.choice([f"w{k}" for k in range(40)], 5, replace=False)
        references.append(" ".join(own))
        for _ in range(8):
            wrong = rng.random(5) < 0.4
            text = " ".join("x" if bad else word for bad, word in zip(wrong, own, strict=True))
            lists.append(f"{s} ||| {text} ||| errors={wrong.sum() + rng.normal() / 4:.3f} luck={rng.normal():.3f} n=1")
    return "\n".join(lists) + "\n", "\n".join(references) + "\n"


@pytest.fixture
def trained(texts, tmp_path, succeeds):
    """trained(task, name, *options) -> (the model of NAME.train, the figures of NAME.test)"""

    def train(task: str, name: str, *options, scored=()):
        model = tmp_path / f"{name}.h5"
        succeeds("structure", "train", texts / f"{name}.train", model, "--task", task, "--overwrite", *options)
        told = succeeds("structure", "evaluate", model, texts / f"{name}.test", "--json", *scored)
        return model, json.loads(told.out)

    return train


def test_chunks(texts, trained, tmp_path, succeeds, refusal):
    model, figures = trained("chunks", "chunks", "--learner", "perceptron", "--epochs", "5")
    test = texts / "chunks.test"
    assert figures["sentences"] == 40 and figures["F1"] > 0.95 and set(figures["types"]) == {"NP"}
    out, again, bare = tmp_path / "out", tmp_path / "again", tmp_path / "bare"
    succeeds("structure", "predict", model, test, out, "--threads", "2")
    rows, gold = ([line.split() for line in path.read_text().splitlines()] for path in (out, test))
    assert [row[:2] for row in rows] == [row[:2] for row in gold]
    right = sum(a == b for a, b in zip(rows, gold, strict=True) if a)
    assert right / figures["tokens"] == figures["accuracy"]
    # the same without labels
    bare.write_text("".join(" ".join(row[:2]) + "\n" for row in gold))
    assert "F1" not in succeeds("structure", "predict", model, bare, again).out
    assert again.read_text() == out.read_text()
    assert "has no outputs to compare with" in refusal("structure", "evaluate", model, bare)
    # a label that training did not have is wrong
    bare.write_text("dt1 DT B-QP\nnn1 NN I-NP\n")
    told = succeeds("structure", "evaluate", model, bare, "--json")
    assert json.loads(told.out)["types"]["QP"]["recall"] == 0.0
    told = succeeds("info", model, "--verify").out
    assert "task chunks" in told and "B-NP I-NP O" in told


def test_pairs_of_labels_that_look_at_the_words(trained):
    model, figures = trained("tags", "chunks", "--template", "w[0] y[-1]|t[0] t[0]", "--learner", "perceptron")
    assert figures["accuracy"] > 0.95
    kept = load_structured(model)
    assert len(kept.pair_ids) == 4  # tags
    assert len(kept.weights) == 3 * len(kept.feature_ids) + 12 * (len(kept.pair_ids) + 1)


def test_trees(trained):
    _, figures = trained("trees", "trees", "--learner", "mira", "--k", "3", "--epochs", "4")
    assert figures["UAS"] > 0.95 and figures["whole trees"] > 0.8


@pytest.mark.parametrize(
    ("name", "options"),
    [("words", ("--learner", "mira", "--k", "2", "--longest", "4", "--epochs", "4")),
     ("tagged", ("--tags", "--learner", "perceptron", "--epochs", "6")),
     ("tagged", ("--tags", "--learner", "pa1", "--template", "w w|w.known w.length y[-1]|w"))],
)  # fmt: skip
def test_words(texts, trained, tmp_path, succeeds, name, options):
    model, figures = trained("words", name, *options)
    assert figures["F1"] > 0.9
    gold = (texts / f"{name}.test").read_text()
    (tmp_path / "bare").write_text(re.sub(r"/\w+| ", "", gold))
    assert "F1" not in succeeds("structure", "predict", model, tmp_path / "bare", tmp_path / "out").out
    out = (tmp_path / "out").read_text()
    assert re.sub(r"/\w+| ", "", out) == (tmp_path / "bare").read_text()

    def spans(line: str, tags: bool) -> set:
        parts = [word.split("/") for word in line.split()]
        ends = np.cumsum([len(word) for word, *_ in parts])
        return {(int(end) - len(part[0]), *part[: 1 + tags]) for end, part in zip(ends, parts, strict=True)}

    lines = list(zip(out.split("\n"), gold.split("\n"), strict=True))
    right, words_right = (sum(len(spans(a, t) & spans(b, t)) for a, b in lines) for t in (True, False))
    n, predicted = len(gold.split()), len(out.split())
    assert figures["words"] == n
    assert (figures["recall"], figures["precision"]) == pytest.approx((right / n, right / predicted))
    assert figures.get("F1 of words", figures["F1"]) == pytest.approx(2 * words_right / (n + predicted))
    assert figures["whole lines"] == pytest.approx(np.mean([a == b for a, b in lines if b]))


def test_a_damaged_dictionary(texts, trained):
    model, _ = trained("words", "tagged", "--tags", "--epochs", "1")
    for sets in (None, [], [[0], [7]], [[0], []], [[0], "1"], [[-1]], [[0]]):
        rewrite_meta(model, lambda meta, sets=sets: meta.update(kind_sets=sets))
        said = "is damaged .its (words have kinds|description: .*kind_sets)"
        refused(said, lambda: WORDS.examples(load_structured(model), str(texts / "tagged.test"), 10**9))


def overlap(text: str, references: list[str]) -> float:
    """The largest share of a reference's words that a text has."""
    return max(len(set(text.split()) & set(r.split())) / len(r.split()) for r in references)


def nonsense(text: str, references: list[str]) -> str:
    return "good"


def test_candidates(texts, trained, tmp_path, succeeds):
    scored = ("--score", "test_structure_command:overlap", "--references")
    model, figures = trained(
        "candidates", "lists", "--at-once", "30", "--slack", "shared", "-C", "0.1", "--epochs", "20", *scored,
        f"{texts / 'train.ref'},{texts / 'train.other'}", scored=(*scored, texts / "test.ref"),
    )  # fmt: skip
    assert figures["quality"] > figures["of the first"] + 0.1
    assert figures["quality"] > 0.9 * figures["of the best"]
    test = texts / "lists.test"
    succeeds("structure", "predict", model, test, tmp_path / "out")
    chosen = (tmp_path / "out").read_text().splitlines()
    references = (texts / "test.ref").read_text().splitlines()
    by_hand = [overlap(text, [reference]) for text, reference in zip(chosen, references, strict=True)]
    assert figures["quality"] == pytest.approx(np.mean(by_hand))
    # the same from a file of numbers
    lines = [line.split(" ||| ") for line in test.read_text().splitlines()]
    numbers = "".join(f"{overlap(text, [references[int(s)]])!r}\n" for s, text, _ in lines)
    (tmp_path / "numbers").write_text(numbers)
    told = succeeds("structure", "evaluate", model, test, "--json", "--quality", tmp_path / "numbers")
    assert json.loads(told.out) == figures


def test_bleu_tunes_the_lists(texts, trained):
    bleu = ("--score", "bleu", "--references")
    lines = [line.split(" ||| ")[1] for line in (texts / "lists.test").read_text().splitlines()]
    references = [[line] for line in (texts / "test.ref").read_text().splitlines()]
    _, figures = trained("candidates", "lists", "--learner", "frank-wolfe", *bleu, texts / "train.ref", "--epochs", 10,
                         scored=(*bleu, texts / "test.ref"))  # fmt: skip
    assert figures["BLEU of the first"] == corpus_bleu(lines[::8], references)
    assert figures["BLEU of the first"] + 5 < figures["BLEU"] <= figures["BLEU of the best"]


GOOD = "0 ||| a ||| f=1\n0 ||| b ||| f=2\n1 ||| c ||| f=0\n"
QUALITY = "--quality {two}"
SCORE = "--score test_structure_command:"
BAD_TEXTS = [
    ("tags", b"a B\nb B C\n", "", "line 2: has 3 columns where the first one has 2"),
    ("tags", b"a B\n\xff\xfe B\n", "", "line 2: is not UTF-8 text"),
    ("tags", b"\n\n", "", "holds no token"),
    ("tags", b"a\nb\n", "", "has one column; the last one is the label"),
    ("trees", b"a X 2\nb X 1\n", "", "line 1: its heads lead in a circle"),
    ("trees", b"a X 0\n\nb X 1\n", "", "line 3: its heads lead in a circle"),
    ("trees", b"a X NN\n", "", "line 1: 'NN' is no head"),
    ("trees", b"a X 0\n" + b"w X 1\n" * 40, "--memory 100KB", "arcs between tokens need 0.4"),
    ("words", b"abc\ndef\n", "", "has no blank within a line"),
    ("words", b"\n \n", "", "holds no character"),
    ("words", b"a b\n\xff c\n", "", "line 2: is not UTF-8 text"),
    ("words", b"a b\n" * 300, "--memory 500KB", "the features of its 7,200 spans need 1.4MB, more than the 0.50MB"),
    ("words", b"a b\n" * 3000, "--memory 100KB", "its 0.01MB of text need 0.38MB, more than the 0.10MB of --memory"),
    ("words", b"a/N b\nc d/N\n", "--tags", "line 1: 'b' has no tag; write word/TAG"),
    ("words", b"a/N b/N\n\nc/ d/N\n", "--tags", "line 3: 'c/' has no tag"),
    ("candidates", b"0 ||| a\n", QUALITY, "line 1: is no candidate"),
    ("candidates", b"0 ||| a ||| f\n", QUALITY, "line 1: 'f' is no feature"),
    ("candidates", b"0 ||| a ||| f=nan\n", QUALITY, "'f=nan' is no feature"),
    ("candidates", b"0 ||| a ||| f=1\n1 ||| a ||| f=1\n0 ||| b ||| f=1\n", QUALITY, "sentence 0 had candidates before"),
    ("candidates", GOOD.encode(), QUALITY, "has 2 lines, but there are 3 candidates"),
    ("candidates", GOOD.encode(), "", "the quality of the candidates is needed"),
    ("candidates", GOOD.encode(), f"{QUALITY} --score math:sqrt", "say the same thing"),
    ("candidates", GOOD.encode(), "--score bleu", "compares with references; give --references"),
    ("candidates", GOOD.encode(), f"{SCORE}nonsense", "gave 'good' for candidate 1, which is not a finite"),
    ("candidates", GOOD.encode(), f"{SCORE}overlap --references {{three}}", "but there are 2 sentences"),
]
TEMPLATES = {
    "tags": ["w[0]|", "x[0]", "c2[0]", "w.upper[0]", "w[0]||w[1]", "y[-1]", "y[-1] w[0]", "y[-1]|w[0]", "y[0]|w[0]"],
    "trees": ["w[0]", "hx[0]", "b|hc2[0]", "dd", "hw[0] y[-1]|d"],
    "words": ["w.prefix", "w[1]", "before", "first2", "w y[-1]|w"],
}
BAD_TEXTS += [(task, b"a X 0\nb Y 1\n", ("--template", template), "--template") for task,
              templates in TEMPLATES.items() for template in ["", *templates]]  # fmt: skip


@pytest.mark.parametrize(("task", "content", "options", "sentence"), BAD_TEXTS)
def test_what_is_wrong_in_a_text(tmp_path, task, content, options, sentence, refusal):
    (tmp_path / "text").write_bytes(content)
    (tmp_path / "two").write_text("1\n2\n")
    (tmp_path / "three").write_text("a\nb\nc\n")
    names = {name: tmp_path / name for name in ("two", "three")}
    more = options.format(**names).split() if isinstance(options, str) else options
    assert sentence in refusal("structure", "train", tmp_path / "text", tmp_path / "m.h5", "--task", task, *more)
    assert not (tmp_path / "m.h5").exists()


BAD_COMMANDS = [("train {train} {new}", "--task is missing"),
                ("train {train} {new} --task math:pi", "--task math:pi: is not a task"),
                ("evaluate {model} {train} --task tags", "was trained for the task chunks, not tags"),
                ("train {train} {new} --task tags --learner perceptron -C 1", "-C: perceptron"),
                ("train {train} {train} --task tags --overwrite", "is also an input; choose another name"),
                ("train {train} {new} --task tags --memory 50KB", "tokens need 0.0"),
                ("train {train} {new} --task tags --min-count 10000000", "no feature occurs"),
                ("train {train} {new} --task tags --longest 3", "task tags does not accept it; it"),
                ("train {train} {new} --task chunks --quality f", "the task chunks does not accept"),
                ("predict {model} {train} {new} --quality f", "the task chunks does not accept"),
                ("predict {train} {train} {new}", "is not a blocksvm structure")]  # fmt: skip


def test_what_is_wrong_in_a_command(texts, trained, tmp_path, refusal):
    model, _ = trained("chunks", "chunks", "--learner", "perceptron", "--epochs", "1")
    names = {"train": texts / "chunks.train", "model": model, "new": tmp_path / "new"}
    for arguments, sentence in BAD_COMMANDS:
        assert sentence in refusal("structure", *(word.format(**names) for word in arguments.split()))
        assert not names["new"].exists()
