"""blocksvm structure: column text in, models and predictions out; CoNLL's rules for chunks."""

from __future__ import annotations

import json
import signal

import numpy as np
import pytest
from support.file_cases import sentences

from blocksvm.commands import info, structure
from blocksvm.structured.column_text import read_columns
from blocksvm.structured.evaluation import chunk_counts, chunks_of
from blocksvm.structured.structured_model import load_structured
from blocksvm.structured.templates import Templates, attribute_of

MEMORY = 100_000_000


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    for name, seed, n in (("train", 1, 150), ("test", 2, 60)):
        (folder / name).write_text(sentences(seed, n))
    return folder


# ------------------------------------------------------------------------------------------------ chunks


# labels of one sentence, and its chunks (first token, behind the last, type)
CASES = [
    ("B-NP I-NP O B-NP", [(0, 2, "NP"), (3, 4, "NP")]),
    ("I-NP I-NP O I-VP", [(0, 2, "NP"), (3, 4, "VP")]),  # a chunk may begin with I
    ("B-NP B-NP I-VP", [(0, 1, "NP"), (1, 2, "NP"), (2, 3, "VP")]),  # another type is another chunk
    ("O O", []),
    ("B-NP I-NP E-NP E-NP I-NP", [(0, 3, "NP"), (3, 4, "NP"), (4, 5, "NP")]),
    ("B-X-Y I-X-Y", [(0, 2, "X-Y")]),
    ("-NP -NP O -NP -VP", [(0, 2, "NP"), (3, 4, "NP"), (4, 5, "VP")]),  # no tag: only the type tells chunks apart
    ("[-NP ]-NP [-NP", [(0, 1, "NP"), (1, 2, "NP"), (2, 3, "NP")]),  # each is a chunk
]


@pytest.mark.parametrize(("text", "wanted"), CASES)
def test_chunks_by_hand(text, wanted):
    words = text.split()
    labels = sorted({*words, "B-PP"})
    types = sorted({label.partition("-")[2] for label in labels})
    found = chunks_of(np.array([labels.index(word) for word in words]), np.array([0, len(words)]), labels)
    assert [(a, b, types[k]) for a, b, k in found.tolist()] == wanted


def test_no_chunk_goes_on_into_the_next_sentence():
    codes = np.array([0, 1, 1, 1, 2, 0])
    assert chunks_of(codes, np.array([0, 2, 4, 6]), ["B-NP", "I-NP", "O"])[:, :2].tolist() == [[0, 2], [2, 4], [5, 6]]


def test_counts_by_hand():
    labels = ["B-NP", "B-VP", "I-NP", "I-VP", "O"]
    gold = [labels.index(x) for x in ["B-NP", "I-NP", "B-VP", "O", "B-NP", "I-NP"]]
    found = [labels.index(x) for x in ["B-NP", "I-NP", "I-VP", "O", "B-NP", "O"]]
    counts = chunk_counts(np.array(gold), np.array(found), np.array([0, 6]), labels)
    assert {k: (c.right, c.predicted, c.gold) for k, c in counts.items()} == {
        "": (2, 3, 3), "NP": (1, 2, 2), "VP": (1, 1, 1),
    }  # fmt: skip
    assert counts[""].f1 == pytest.approx(2 / 3)
    nothing = chunk_counts(np.array([4]), np.array([4]), np.array([0, 1]), labels)
    assert (nothing[""].f1, nothing[""].precision, nothing[""].recall) == (0.0, 0.0, 0.0)


# ------------------------------------------------------------------------------------------------ text and templates


def test_columns(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"\n\na B\nb\tB\r\n\n \nc  B\n\n\na C")
    text = read_columns(str(path), MEMORY)
    assert text.bounds.tolist() == [0, 2, 3, 4]
    assert text.lines.tolist() == [3, 4, 7, 10]
    words, labels = ([column.words[c] for c in column.codes] for column in text.columns)
    assert (words, labels) == (["a", "b", "c", "a"], ["B", "B", "B", "C"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"a B\nb B C\n", "line 2: has 3 columns where the first one has 2"),
        (b"a B\n\xff\xfe B\n", "line 2: is not UTF-8 text"),
        (b"\n\n", "holds no token"),
        (b"a\nb\n", "has one column; the last one is the label"),
    ],
)
def test_what_is_no_column_text(tmp_path, run_in_process, content, sentence):
    (tmp_path / "text").write_bytes(content)
    told = run_in_process(structure.main, "train", tmp_path / "text", tmp_path / "m.h5", "--task", "tags",
                          "--learner", "perceptron")  # fmt: skip
    assert told.code == 2 and sentence in told.last_line
    assert not (tmp_path / "m.h5").exists()


def test_attributes():
    found = [attribute_of("McDonald's-42", a) for a in ("lower", "shape", "prefix3", "suffix2")]
    assert found == ["mcdonald's-42", "AaAa'a-0", "McD", "42"]
    assert attribute_of("ab", "suffix3") == attribute_of("ab", "prefix3") == "ab"


def test_two_tokens_share_a_feature_where_the_parts_are_equal(tmp_path):
    path = tmp_path / "text"
    path.write_text("a X\nb Y\na X\n\na X\nb Y\n\nb X\n")
    text = read_columns(str(path), MEMORY)
    by_hand = {
        "w[0]": "0 1 0 0 1 1", "w[-1]": "0 1 2 0 1 0", "w[1]": "0 1 2 0 2 2", "w[-1]|t[0]": "0 1 2 0 1 0",
        "w[2]": "0 1 2 1 2 2", "w.suffix1[0]|w[1]": "0 1 2 0 3 3",
    }  # fmt: skip
    seen = set()
    for name, wanted in by_hand.items():
        ids = Templates(name, 2).ids(text, 0)
        _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
        assert np.argsort(np.argsort(first))[codes].tolist() == [int(x) for x in wanted.split()], name
        assert not seen & set(ids.tolist())  # templates do not meet
        seen |= set(ids.tolist())
        assert ids.min() >= 0


def switches(seed: int, n: int) -> str:
    """Sentences whose label changes after each x, and stays after each other word: neither words nor neighbouring
    labels alone tell it."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        label = 0
        for word in rng.choice(["x", "a", "b"], rng.integers(2, 12)).tolist():
            label ^= word == "x"
            lines.append(f"{word} {'AB'[label]}")
        lines.append("")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("template", "exact"), [("w[0] y[-1]|w[0]", True), ("w[0] w[-1] w[-1]|w[0]", False)])
def test_pairs_of_labels_that_look_at_the_words(tmp_path, run_in_process, template, exact):
    for name, seed in (("train", 0), ("test", 1)):
        (tmp_path / name).write_text(switches(seed, 100))
    model = tmp_path / "m.h5"
    told = run_in_process(structure.main, "train", tmp_path / "train", model, "--task", "tags", "--template", template,
                          "--learner", "perceptron", "--epochs", "5")  # fmt: skip
    assert told.code == 0, told.err
    accuracy = json.loads(run_in_process(structure.main, "evaluate", model, tmp_path / "test", "--json").out)[
        "accuracy"
    ]
    assert (accuracy == 1.0) == exact
    kept = load_structured(model)
    assert len(kept.pair_ids) == (3 if exact else 0)
    assert len(kept.weights) == 2 * len(kept.feature_ids) + 6 * (len(kept.pair_ids) + 1)


@pytest.mark.parametrize(
    "template",
    [
        "",
        "w",
        "w[0]|",
        "x[0]",
        "c2[0]",
        "w.upper[0]",
        "w[0]||w[1]",
        "y[-1]",
        "y[-1] w[0]",
        "y[-1]|w[0]",
        "y[0]|w[0] w[0]",
    ],
)
def test_what_is_no_template(texts, tmp_path, run_in_process, template):
    told = run_in_process(structure.main, "train", texts / "train", tmp_path / "m.h5", "--task", "chunks",
                          "--learner", "perceptron", "--template", template)  # fmt: skip
    assert told.code == 2 and "--template" in told.last_line


# ------------------------------------------------------------------------------------------------ the command


@pytest.fixture(scope="module")
def model(texts):
    path = texts / "model.h5"
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    words = f"train {texts / 'train'} {path} --task chunks --quiet --learner perceptron --epochs 5"
    assert structure.main(words.split()) == 0
    for number, handler in handlers.items():
        signal.signal(number, handler)
    return path


def test_train_predict_evaluate(texts, model, tmp_path, run_in_process):
    told = run_in_process(structure.main, "evaluate", model, texts / "test", "--json")
    figures = json.loads(told.out)
    assert figures["sentences"] == 60
    assert figures["F1"] > 0.95
    assert set(figures["types"]) == {"NP"}
    out = tmp_path / "out"
    assert run_in_process(structure.main, "predict", model, texts / "test", out).code == 0
    rows = [line.split() for line in out.read_text().splitlines()]
    gold = [line.split() for line in (texts / "test").read_text().splitlines()]
    assert [row[:2] for row in rows] == [row[:2] for row in gold]
    right = sum(a == b for a, b in zip(rows, gold, strict=True) if a)
    assert right / figures["tokens"] == figures["accuracy"]
    # the same without labels
    bare = tmp_path / "bare"
    bare.write_text("".join(" ".join(row[:2]) + "\n" for row in gold))
    again = tmp_path / "again"
    assert "F1" not in run_in_process(structure.main, "predict", model, bare, again).out
    assert again.read_text() == out.read_text()
    told = run_in_process(structure.main, "evaluate", model, bare)
    assert told.code == 2 and "has no outputs to compare with" in told.last_line


def test_a_label_that_training_did_not_have_is_wrong(model, tmp_path, run_in_process):
    (tmp_path / "new").write_text("dt1 DT B-QP\nnn1 NN I-NP\n")
    figures = json.loads(run_in_process(structure.main, "evaluate", model, tmp_path / "new", "--json").out)
    assert figures["types"]["QP"]["recall"] == 0.0
    assert figures["accuracy"] <= 0.5


def test_one_seed_one_file(texts, tmp_path, run_in_process):
    for name in ("a", "b"):
        run_in_process(structure.main, "train", texts / "train", tmp_path / name, "--task", "chunks", "--epochs", "2",
                       "--learner", "perceptron")  # fmt: skip
    from blocksvm.structured.structured_model import load_structured

    one, other = (load_structured(tmp_path / name) for name in "ab")
    for part in ("weights", "feature_ids"):
        np.testing.assert_array_equal(getattr(one, part), getattr(other, part))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["train", "{train}", "{new}"], "--task is missing"),
        (["train", "{train}", "{new}", "--task", "poems"], "--task poems: no such task; choose one of tags, chunks"),
        (["train", "{train}", "{new}", "--task", "nowhere:TASK"], "--task nowhere:TASK: cannot be imported"),
        (["train", "{train}", "{new}", "--task", "math:pi"], "--task math:pi: is no task"),
        (["evaluate", "{model}", "{train}", "--task", "tags"], "was trained for the task chunks, not tags"),
        (["train", "{train}", "{new}", "--task", "tags", "--learner", "x"], "no such learner; choose one of"),
        (["train", "{train}", "{new}", "--task", "tags", "--learner", "perceptron", "-C", "1"], "-C: perceptron"),
        (["train", "{train}", "{new}", "--task", "tags", "--learner", "pa1", "-C", "0"], "-C 0: must be"),
        (["train", "{train}", "{model}", "--task", "tags"], "exists already"),
        (["train", "{train}", "{train}", "--task", "tags", "--overwrite"], "is not a structured model written by"),
        (["train", "{train}", "{new}", "--task", "tags", "--memory", "10KB"], "memory"),
        (["train", "{train}", "{new}", "--task", "tags", "--min-count", "10000000"], "no feature occurs"),
        (["train", "{train}", "{new}", "--task", "tags", "--longest", "3"], "task tags does not accept it; it"),
        (["train", "{train}", "{new}", "--task", "chunks", "--quality", "f"], "the task chunks does not accept"),
        (["predict", "{model}", "{train}", "{new}", "--quality", "f"], "the task chunks does not accept"),
        (["predict", "{model}", "{model}", "{new}"], "text"),
        (["predict", "{train}", "{train}", "{new}"], "is not a blocksvm structure"),
        (["predict", "{model}", "{train}", "{train}", "--overwrite"], "is also an input"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_one_sentence(texts, model, tmp_path, run_in_process, arguments, sentence):
    names = {"train": texts / "train", "model": model, "new": tmp_path / "new"}
    told = run_in_process(structure.main, *(word.format(**names) for word in arguments))
    assert told.code == 2
    assert sentence in told.last_line
    assert not names["new"].exists()


def test_info(model, run_in_process):
    told = run_in_process(info.main, model, "--verify")
    assert told.code == 0 and "task chunks" in told.out and "B-NP I-NP O" in told.out
    assert json.loads(run_in_process(info.main, model, "--json").out)["learner"] == "perceptron"


def test_a_damaged_model_is_refused(model, tmp_path, run_in_process):
    damaged = tmp_path / "damaged.h5"
    data = bytearray(model.read_bytes())
    data[len(data) // 2] ^= 255
    damaged.write_bytes(data)
    (tmp_path / "text").write_text("a DT\n")
    told = run_in_process(structure.main, "predict", damaged, tmp_path / "text", tmp_path / "out")
    assert told.code == 2 and "damaged" in told.last_line
