"""Words with tags: the decoder against all taggings of all segmentations, the text, and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
import reference_structured as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from support.structured_cases import agrees

from blocksvm.base.errors import InputError
from blocksvm.commands import structure
from blocksvm.structured.segmenting import words_of
from blocksvm.structured.structured_model import load_structured, save_structured
from blocksvm.structured.tagged_lattices import TaggedLattices
from blocksvm.structured.tagging import TAGGED_WORDS, dictionary_of, read_tagged

MEMORY = 100_000_000
N_FEATURES, N_TAGS = 5, 2
TAG_SETS = [[0, 1], [1], [0]]


def lattices(seed: int, n_pairs: int, lengths=(4, 1, 3)) -> tuple[TaggedLattices, list[reference.Example]]:
    rng = np.random.default_rng(seed)
    columns: dict[str, list] = {name: [] for name in ("lines", "starts", "stops", "sets", "gold", "table")}
    examples = []
    for line, n in enumerate(lengths):
        spans = [(a, b) for b in range(1, n + 1) for a in range(b) if b - a == 1 or rng.random() < 0.7]
        sets = [int(s) for s in rng.integers(0, len(TAG_SETS), len(spans))]
        table = rng.integers(-1, (N_FEATURES, N_FEATURES, n_pairs, n_pairs)[: 4 if n_pairs else 2],
                             (len(spans), 4 if n_pairs else 2))  # fmt: skip
        nodes, of_span = [], []
        for k, (a, b) in enumerate(spans):
            for tag in TAG_SETS[sets[k]]:
                nodes.append((a, b, tag))
                of_span.append(k)
        gold, position, gold_tags = set(), 0, [-1] * len(spans)
        while position < n:
            v = int(rng.choice([v for v, (a, _, _) in enumerate(nodes) if a == position]))
            gold.add(v)
            gold_tags[of_span[v]] = nodes[v][2]
            position = nodes[v][1]
        rows = table[of_span]
        examples.append(
            reference.lattice_example(nodes, rows[:, :2], gold, n, (N_FEATURES, N_TAGS), rows[:, 2:], n_pairs)
        )
        for name, more in zip(
            columns, ([line] * len(spans), *zip(*spans, strict=True), sets, gold_tags, table), strict=True
        ):
            columns[name].extend(more)
    c = {name: np.array(values) for name, values in columns.items()}
    spans = np.stack([c["lines"], c["starts"], c["stops"]], axis=1)
    made = TaggedLattices(c["table"], spans, lengths, c["sets"], TAG_SETS, c["gold"], (N_FEATURES, n_pairs), N_TAGS, 2)
    return made, examples


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 3.0]), st.sampled_from([0, 3]))
def test_decoding_is_enumeration(seed, scale, n_pairs):
    """More nodes than tags end at most positions."""
    structure_, examples = lattices(seed, n_pairs)
    w = np.round(np.random.default_rng(seed + 1).normal(size=structure_.n_weights)) * scale
    agrees(structure_, examples, w)


# ------------------------------------------------------------------------------------------------ text


def test_tagged_lines(tmp_path):
    path = tmp_path / "text"
    path.write_text("ab/N c/d/V\n\n \t東/N　京都/NP \n", encoding="utf-8")
    text = read_tagged(str(path), MEMORY)
    assert "".join(map(chr, text.lines.characters)) == "abc/d東京都"
    assert [part.tolist() for part in words_of(text.lines)] == [[0, 0, 1, 1], [0, 2, 5, 6], [2, 5, 6, 8]]
    assert [text.names[tag] for tag in text.tags] == ["N", "V", "N", "NP"]
    assert (text.lines.places.tolist(), text.lines.n_file_lines) == ([0, 2], 3)
    path.write_text("abc\n")
    assert read_tagged(str(path), MEMORY).tags is None


def test_the_dictionary_knows_the_tags_of_words(tmp_path):
    path = tmp_path / "text"
    path.write_text("a/X b/Y c/Z\na/Z b/Y d/X\na/X\n")
    _, sets, tag_sets = dictionary_of(read_tagged(str(path), MEMORY))
    names = [[("X", "Y", "Z")[tag] for tag in tags] for tags in tag_sets]
    assert names[0] == ["X", "Z"]  # of c and d, which occur once
    assert [names[number] for number in sets] == [["X", "Z"], ["Y"]]  # a, three times, has the same


# ------------------------------------------------------------------------------------------------ the command


def tagged(seed: int, n: int) -> list[list[tuple[str, str]]]:
    """Sentences in which a 'run' is a noun behind 'the' and else a verb."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        line = []
        for word in rng.choice(["the", "cat", "run", "ran", "quick"], rng.integers(2, 7)).tolist():
            before = line[-1][1] if line else ""
            line.append(
                (word, {"the": "D", "cat": "N", "run": "N" if before in "DA" else "V", "ran": "V", "quick": "A"}[word])
            )
        lines.append(line)
    return lines


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tagged")
    for name, seed, n in (("train", 0, 120), ("test", 1, 40)):
        lines = [" ".join(f"{word}/{tag}" for word, tag in line) for line in tagged(seed, n)]
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("template", [None, "word word|known length y[-1]|word"])
def test_the_command(texts, tmp_path, run_in_process, template):
    model, out = tmp_path / "m.h5", tmp_path / "out"
    more = () if template is None else ("--template", template)
    told = run_in_process(structure.main, "train", texts / "train", model, "--task", "tagged-words", "--learner",
                          "perceptron", "--epochs", "6", *more)  # fmt: skip
    assert told.code == 0, told.err
    figures = json.loads(run_in_process(structure.main, "evaluate", model, texts / "test", "--json").out)
    assert figures["F1"] > 0.95
    gold = tagged(1, 40)
    bare = tmp_path / "bare"
    bare.write_text("".join("".join(word for word, _ in line) + "\n" for line in gold))
    told = run_in_process(structure.main, "predict", model, bare, out)
    assert told.code == 0 and "F1" not in told.out, told.err

    def spans(line):
        ends = np.cumsum([len(word) for word, _ in line])
        return {(int(end) - len(word), word, tag) for end, (word, tag) in zip(ends, line, strict=True)}

    ours = [[tuple(word.rsplit("/", 1)) for word in line.split()] for line in out.read_text().splitlines()]
    right = sum(len(spans(a) & spans(b)) for a, b in zip(ours, gold, strict=True))
    assert figures["words"] == sum(map(len, gold))
    assert figures["recall"] == pytest.approx(right / figures["words"])
    assert figures["precision"] == pytest.approx(right / sum(map(len, ours)))
    bare_right = sum(
        len({s[:2] for s in spans(a)} & {s[:2] for s in spans(b)}) for a, b in zip(ours, gold, strict=True)
    )
    assert figures["F1 of words"] == pytest.approx(2 * bare_right / (figures["words"] + sum(map(len, ours))))


@pytest.mark.parametrize(
    ("content", "arguments", "sentence"),
    [
        (b"a/N b\nc d/N\n", (), "line 1: 'b' has no tag; write word/TAG"),
        (b"a/N b/N\n\nc/ d/N\n", (), "line 3: 'c/' has no tag"),
        (b"a/N /V\n", (), "line 1: '/V' has no tag"),
        (b"abc/N\n", (), "has no blank within a line"),
        (b"a/N b/V\n", ("--template", "y[-1]|word"), "holds no template"),
        (b"a/N b/V\n", ("--template", "word y[-1]"), "is always there; join it"),
        (b"a/N b/N\n" * 300, ("--memory", "100KB"), "features of all spans take"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, run_in_process, content, arguments, sentence):
    (tmp_path / "text").write_bytes(content)
    told = run_in_process(
        structure.main, "train", tmp_path / "text", tmp_path / "m.h5", "--task", "tagged-words", *arguments
    )
    assert told.code == 2 and sentence in told.last_line


def test_too_many_tags(tmp_path):
    (tmp_path / "text").write_text(" ".join(f"a/t{k}" for k in range(1001)) + "\n")
    with pytest.raises(InputError, match="has 1,001 distinct tags, of which there may be 1,000"):
        read_tagged(str(tmp_path / "text"), MEMORY)


@pytest.mark.parametrize("sets", [None, [], [[0], [7]], [[0], []], [[0], "1"], [[-1]], [[0]]])
def test_a_damaged_dictionary(texts, tmp_path, run_in_process, sets):
    model = tmp_path / "m.h5"
    run_in_process(structure.main, "train", texts / "train", model, "--task", "tagged-words", "--epochs", "1")
    kept = load_structured(model)
    kept.meta["tag_sets"] = sets
    save_structured(model, kept, True)
    with pytest.raises(InputError, match="is damaged .its words have sets of tags that there are not"):
        TAGGED_WORDS.examples(load_structured(model), str(texts / "test"), MEMORY)
