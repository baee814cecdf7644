"""Word lattices: the decoder against all segmentations, spans and their features by hand, and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
import reference_structured as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from support.structured_cases import agrees

from blocksvm.commands import structure
from blocksvm.structured.character_lines import Spans, SpanTemplates, read_lines
from blocksvm.structured.lattices import Lattices
from blocksvm.structured.segmenting import spans_of, word_ids, words_of

MEMORY = 100_000_000
N_FEATURES, N_KINDS = 7, 3


def lattices(seed: int, lengths=(4, 1, 3)) -> tuple[Lattices, list[reference.Example]]:
    rng = np.random.default_rng(seed)
    examples, lines, everything, right, tables = [], [], [], [], []
    for line, n in enumerate(lengths):
        nodes = [(a, b) for b in range(1, n + 1) for a in range(b) if b - a == 1 or rng.random() < 0.7]
        kinds = rng.integers(0, N_KINDS, len(nodes))
        gold, position = set(), 0
        while position < n:
            v = rng.choice([v for v, (a, _) in enumerate(nodes) if a == position])
            gold.add(int(v))
            position = nodes[v][1]
        table = rng.integers(-1, N_FEATURES, (len(nodes), 2)).astype(np.int32)
        nodes = [(a, b, int(kind)) for (a, b), kind in zip(nodes, kinds, strict=True)]
        examples.append(reference.lattice_example(nodes, table, gold, n, (N_FEATURES, N_KINDS)))
        lines += [line] * len(nodes)
        everything += nodes
        right += [v in gold for v in range(len(nodes))]
        tables.append(table)
    starts, stops, kinds = np.array(everything).T
    table = np.concatenate(tables)
    return Lattices(table, kinds, np.array(lines), starts, stops, lengths, right, N_FEATURES, N_KINDS), examples


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 3.0]))
def test_decoding_is_enumeration(seed, scale):
    structure_, examples = lattices(seed)
    w = np.round(np.random.default_rng(seed + 1).normal(size=structure_.n_weights)) * scale
    agrees(structure_, examples, w)


# ------------------------------------------------------------------------------------------------ lines and spans


def test_lines(tmp_path):
    path = tmp_path / "text"
    path.write_text("ab c\n\n \té東\u3000京 \nx", encoding="utf-8")
    text = read_lines(str(path), MEMORY)
    assert "".join(map(chr, text.characters)) == "abcé東京x"
    assert text.bounds.tolist() == [0, 3, 6, 7]
    assert np.flatnonzero(text.begins).tolist() == [0, 2, 3, 5, 6]
    assert (text.places.tolist(), text.n_file_lines) == ([0, 2, 3], 4)
    assert [part.tolist() for part in words_of(text)] == [[0, 0, 1, 1, 2], [0, 2, 3, 5, 6], [2, 3, 5, 6, 7]]


def test_hashes_of_spans_depend_on_their_characters_alone(tmp_path):
    path = tmp_path / "text"
    path.write_text("abcabc aabab\nbcabca\n")
    text = read_lines(str(path), MEMORY)
    letters = "".join(map(chr, text.characters))
    starts, stops = np.array([(a, b) for a in range(17) for b in range(a, 18)]).T
    words = [letters[a:b] for a, b in zip(starts, stops, strict=True)]
    hashes = text.span_hashes(starts, stops)
    assert len(set(zip(words, hashes.tolist(), strict=True))) == len(set(words)) == len(set(hashes.tolist()))


def spans_in(text, dictionary, longest, with_gold):
    spans, _ = spans_of(text, dictionary, longest, with_gold)
    letters = "".join(map(chr, text.characters))
    return spans, [letters[a:b] for a, b in zip(spans.starts, spans.stops, strict=True)]


def test_nodes_of_a_line(tmp_path):
    path = tmp_path / "text"
    path.write_text("abc d\nefgh d\n")
    text = read_lines(str(path), MEMORY)
    starts, stops = np.array([0, 5]), np.array([3, 8])  # abc is known, and fgh of the other line
    dictionary = word_ids(text, starts, stops)
    spans, words = spans_in(text, dictionary, 2, False)
    first = [word for word, line in zip(words, spans.lines, strict=True) if line == 0]
    assert first == ["a", "ab", "b", "abc", "bc", "c", "cd", "d"]
    assert [w for w, known in zip(words, spans.known, strict=True) if known] == ["abc", "fgh"]
    _, words = spans_in(text, dictionary, 1, True)
    assert sorted(words) == sorted([*"abcdefghd", "abc", "efgh", "fgh"])


def test_features_of_spans(tmp_path):
    path = tmp_path / "text"
    path.write_text("aB1aB1x\naB1\n")
    text = read_lines(str(path), MEMORY)
    letters = "".join(map(chr, text.characters))
    starts, stops = np.array([(a, b) for a in range(7) for b in range(a + 1, 8)] + [(7, 10), (7, 8)]).T
    spans = Spans(text, (starts >= 7).astype(int), starts, stops, stops - starts == 2)

    def value(part: str, a: int, b: int) -> str:
        low, high = (0, 7) if a < 7 else (7, 10)
        n = int(part[-1]) if part[-1].isdigit() else 0
        types = "".join("u" if c.isupper() else "l" if c.isalpha() else "d" for c in letters)
        found = {
            "word": letters[a:b], "types": types[a:b], "length": b - a, "known": b - a == 2,
            "first": letters[a : min(b, a + n)], "last": letters[max(a, b - n) : b],
            "before": letters[max(low, a - n) : a], "after": letters[b : min(high, b + n)],
        }  # fmt: skip
        return str(found[part.rstrip("123456789")])

    templates = ["word", "types", "length", "known", "first2", "last2", "before1|first1", "word|after2", "known|types"]
    parsed = SpanTemplates(" ".join(templates))
    for number, template in enumerate(templates):
        ids = parsed.ids(spans, number)
        wanted = [
            "|".join(value(part, a, b) for part in template.split("|")) for a, b in zip(starts, stops, strict=True)
        ]
        assert len(set(zip(wanted, ids.tolist(), strict=True))) == len(set(wanted)) == len(set(ids.tolist())), template
        assert ids.min() >= 0


# ------------------------------------------------------------------------------------------------ the command


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("words")
    rng = np.random.default_rng(3)
    words = ["the", "cat", "cats", "sat", "satisfied", "on", "one", "a", "at", "mat"]
    for name, n in (("train", 120), ("test", 40)):
        lines = [" ".join(rng.choice(words, rng.integers(2, 7))) for _ in range(n)]
        (folder / name).write_text("\n".join(lines[: n // 2]) + "\n\n" + "\n".join(lines[n // 2 :]) + "\n")
    return folder


def test_the_command(texts, tmp_path, run_in_process):
    model, out = tmp_path / "m.h5", tmp_path / "out"
    told = run_in_process(structure.main, "train", texts / "train", model, "--task", "words", "--learner", "mira",
                          "--k", "2", "--longest", "4", "--epochs", "4")  # fmt: skip
    assert told.code == 0, told.err
    figures = json.loads(run_in_process(structure.main, "evaluate", model, texts / "test", "--json").out)
    assert figures["F1"] > 0.9
    bare = tmp_path / "bare"
    bare.write_text((texts / "test").read_text().replace(" ", ""))
    told = run_in_process(structure.main, "predict", model, bare, out)
    assert told.code == 0 and "F1" not in told.out
    ours, gold = (path.read_text().split("\n") for path in (out, texts / "test"))
    assert [line.replace(" ", "") for line in ours] == bare.read_text().split("\n")

    def spans(line):
        ends = np.cumsum([len(word) for word in line.split()])
        return {(int(end) - len(word), word) for end, word in zip(ends, line.split(), strict=True)}

    right = sum(len(spans(a) & spans(b)) for a, b in zip(ours, gold, strict=True))
    assert figures["words"] == sum(len(line.split()) for line in gold)
    assert figures["recall"] == pytest.approx(right / figures["words"])
    assert figures["precision"] == pytest.approx(right / sum(len(line.split()) for line in ours))


@pytest.mark.parametrize(
    ("content", "arguments", "sentence"),
    [
        (b"abc\ndef\n", (), "has no blank within a line"),
        (b"\n \n", (), "holds no character"),
        (b"a b\n\xff c\n", (), "line 2: is not UTF-8 text"),
        (b"a b\n", ("--template", "first0"), "--template first0: is no template of a span"),
        (b"a b\n", ("--longest", "0"), "--longest 0: must be from 1 to 64"),
        (b"a b\n" * 300, ("--memory", "40KB"), "features of all spans take"),
        (b"a b\n" * 3000, ("--memory", "10KB"), "that --memory leaves for the text"),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, run_in_process, content, arguments, sentence):
    (tmp_path / "text").write_bytes(content)
    told = run_in_process(structure.main, "train", tmp_path / "text", tmp_path / "m.h5", "--task", "words", *arguments)
    assert told.code == 2 and sentence in told.last_line
