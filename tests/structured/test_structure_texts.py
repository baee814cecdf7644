"""Texts of the tasks: columns, lines and spans, templates of each kind of row, chunks, the dictionary, and BLEU."""

import numpy as np
import pytest
from support.refused import refused

from blocksvm.structured import candidates
from blocksvm.structured.lattices import Dictionary, read_words, spans_of
from blocksvm.structured.sequences import chunk_counts, chunks_of, shares
from blocksvm.structured.text.columns import read_columns
from blocksvm.structured.text.lines import Spans, read_lines
from blocksvm.structured.text.templates import Templates, Tokens, attribute_of
from blocksvm.structured.trees import BETWEEN, MOST_BETWEEN, Arcs

MEMORY = 100_000_000


def written(folder, text: str) -> str:
    (folder / "text").write_text(text, encoding="utf-8")
    return str(folder / "text")


# labels of one sentence, and its chunks (first token, behind the last, type)
CASES = [
    ("B-NP I-NP O B-NP", [(0, 2, "NP"), (3, 4, "NP")]),
    ("I-NP I-NP O I-VP", [(0, 2, "NP"), (3, 4, "VP")]),  # a chunk may begin with I
    ("B-NP B-NP I-VP", [(0, 1, "NP"), (1, 2, "NP"), (2, 3, "VP")]),  # another type is another chunk
    ("O O", []),
    ("B-X-Y I-X-Y", [(0, 2, "X-Y")]),
]


@pytest.mark.parametrize(("text", "wanted"), CASES)
def test_chunks_by_hand(text, wanted):
    words = text.split()
    labels = sorted({*words, "B-PP"})
    codes = np.array([labels.index(word) for word in words])
    assert sorted(chunks_of(codes, np.array([0, len(words)]), labels)) == wanted
    # no chunk goes on into the next sentence
    twice = chunks_of(np.tile(codes, 2), np.array([0, len(words), 2 * len(words)]), labels)
    assert len(twice) == 2 * len(wanted)


def test_counts_by_hand():
    labels = ["B-NP", "B-VP", "I-NP", "I-VP", "O"]
    gold = [labels.index(x) for x in ["B-NP", "I-NP", "B-VP", "O", "B-NP", "I-NP"]]
    found = [labels.index(x) for x in ["B-NP", "I-NP", "I-VP", "O", "B-NP", "O"]]
    counts = chunk_counts(np.array(gold), np.array(found), np.array([0, 6]), labels)
    assert counts == {"": (2, 3, 3), "NP": (1, 2, 2), "VP": (1, 1, 1)}
    assert shares(*counts[""])["F1"] == pytest.approx(2 / 3)
    nothing = chunk_counts(np.array([4]), np.array([4]), np.array([0, 1]), labels)
    assert shares(*nothing[""]) == {"precision": 0.0, "recall": 0.0, "F1": 0.0}


def test_a_text_that_does_not_fit_is_not_read(tmp_path, monkeypatch):
    name = written(tmp_path, "a B\n" * 1000)

    def read(*arguments, **keywords):
        raise AssertionError("the file was read")

    monkeypatch.setattr("blocksvm.structured.text.columns.TextInputs", read)
    refused("its 0.004MB of text need 0.02MB, more than the 0.01MB of memory; raise it", read_columns, name, 10_000)


def test_attributes():
    found = [attribute_of("McDonald's-42", a) for a in ("lower", "shape", "prefix3", "suffix2")]
    assert found == ["mcdonald's-42", "AaAa'a-0", "McD", "42"]
    assert attribute_of("ab", "suffix3") == attribute_of("ab", "prefix3") == "ab"


def test_two_tokens_share_a_feature_where_the_parts_are_equal(tmp_path):
    text = read_columns(written(tmp_path, "a X\nb Y\na X\n\na X\nb Y\n\nb X\n"), MEMORY)
    by_hand = {
        "w[0]": "0 1 0 0 1 1", "w[-1]": "0 1 2 0 1 0", "w[1]": "0 1 2 0 2 2", "w[-1]|t[0]": "0 1 2 0 1 0",
        "w[2]": "0 1 2 1 2 2", "w.suffix1[0]|w[1]": "0 1 2 0 3 3",
    }  # fmt: skip
    seen = set()
    for name, wanted in by_hand.items():
        ids = Templates(name).ids(Tokens(text, 2), 0)
        _, first, codes = np.unique(ids, return_index=True, return_inverse=True)
        assert np.argsort(np.argsort(first))[codes].tolist() == [int(x) for x in wanted.split()], name
        assert not seen & set(ids.tolist())  # templates do not meet
        seen |= set(ids.tolist())
        assert ids.min() >= 0


def test_features_are_numbered_by_their_frequency(tmp_path):
    rows = Tokens(read_columns(written(tmp_path, "b\na\na\nc\na\nb\n\n"), MEMORY), 1)
    templates = Templates("w[0]")
    table, (ids,) = templates.collected(rows, 1, MEMORY)
    assert table[:, 0].tolist() == [1, 0, 0, 2, 0, 1] and len(ids) == 3
    rare, (few,) = templates.collected(rows, 2, MEMORY)
    assert rare[:, 0].tolist() == [1, 0, 0, -1, 0, 1] and few.tolist() == ids[:2].tolist()
    assert templates.known(rows, [few]).tolist() == rare.tolist()


def test_features_of_arcs(tmp_path):
    text = read_columns(written(tmp_path, "the DT 2\ndog NN 3\nbarks VB 0\nloud RB 3\n\nyes UH 0\n"), MEMORY)
    arcs = Arcs(text, 2)

    def ids(template: str, column: int = 0) -> np.ndarray:
        return Templates(template, {BETWEEN: MOST_BETWEEN}).ids(arcs, column)

    def arc(h: int, m: int) -> int:
        return h * 4 + m - 1

    of_head, of_modifier, far = ids("ht[0]"), ids("mt[0]"), ids("d")
    assert len(of_head) == 4 * 5 + 1 * 2
    for h in range(5):
        for m in range(1, 5):
            if h == m:
                assert of_head[arc(h, m)] == far[arc(h, m)] == -1
                continue
            assert of_head[arc(h, m)] == of_head[arc(h, 2 if h == 1 else 1)]
            assert of_modifier[arc(h, m)] == of_modifier[arc(0, m)]
            assert min(of_head[arc(h, m)], of_modifier[arc(h, m)], far[arc(h, m)]) >= 0
            assert (far[arc(h, m)] == far[arc(2, 3)]) == (m - h == 1)
    assert len(set(of_head[[arc(h, 2 if h == 1 else 1) for h in range(5)]])) == 5
    assert of_head[20] == of_head[arc(0, 1)] != of_head[21]  # the root of the second sentence
    between = np.stack([ids("b", slot) for slot in range(MOST_BETWEEN)])
    counts = (between >= 0).sum(axis=0)
    assert [counts[arc(h, m)] for h, m in ((1, 2), (1, 3), (4, 1), (0, 4), (0, 1))] == [0, 1, 2, 3, 0]
    assert set(between[:2, arc(4, 1)]) == {between[0, arc(1, 3)], between[0, arc(2, 4)]}


def test_the_dictionary_knows_the_kinds_of_words(tmp_path):
    tagged = read_words(written(tmp_path, "a/X b/Y c/Z\na/Z b/Y d/X\na/X\n"), MEMORY, True)
    found = Dictionary.of(tagged)
    names = [[tagged.names[tag] for tag in tags] for tags in found.kind_sets]
    assert names[0] == ["X", "Z"]  # of c and d, which occur once
    assert [names[number] for number in found.sets] == [["X", "Z"], ["Y"]]  # a, three times, has the same
    plain = Dictionary.of(read_words(written(tmp_path, "a b c\na b d\na\n"), MEMORY, False))
    assert plain.ids.tolist() == found.ids.tolist()
    assert (plain.sets.tolist(), plain.kind_sets) == ([1, 2], [[0], [1], [2], [3]])


def test_spans_of_a_line(tmp_path):
    text = read_lines(written(tmp_path, "abc d\nefgh d\n"), MEMORY)
    letters = "".join(map(chr, text.characters))
    dictionary = text.word_ids(np.array([0, 5]), np.array([3, 8]))  # abc is known, and fgh of the other line
    spans, _ = spans_of(text, dictionary, 2, False)
    words = [letters[a:b] for a, b in zip(spans.starts, spans.stops, strict=True)]
    first = [word for word, line in zip(words, spans.lines, strict=True) if line == 0]
    assert first == ["a", "ab", "b", "abc", "bc", "c", "cd", "d"]
    assert [w for w, known in zip(words, spans.known, strict=True) if known] == ["abc", "fgh"]
    spans, _ = spans_of(text, dictionary, 1, True)
    words = [letters[a:b] for a, b in zip(spans.starts, spans.stops, strict=True)]
    assert sorted(words) == sorted([*"abcdefghd", "abc", "efgh", "fgh"])
    assert [w for w, gold in zip(words, spans.gold, strict=True) if gold] == ["abc", "d", "efgh", "d"]


def test_features_of_spans(tmp_path):
    text = read_lines(written(tmp_path, "aB1aB1x\naB1\n"), MEMORY)
    letters = "".join(map(chr, text.characters))
    starts, stops = np.array([(a, b) for a in range(7) for b in range(a + 1, 8)] + [(7, 10), (7, 8)]).T
    spans = Spans(text, (starts >= 7).astype(int), starts, stops, stops - starts == 2)

    def value(part: str, a: int, b: int) -> str:
        low, high = (0, 7) if a < 7 else (7, 10)
        n = int(part[-1]) if part[-1].isdigit() else 0
        types = "".join("u" if c.isupper() else "l" if c.isalpha() else "d" for c in letters)
        found = {
            "w": letters[a:b], "w.types": types[a:b], "w.length": b - a, "w.known": b - a == 2,
            "w.prefix": letters[a : min(b, a + n)], "w.suffix": letters[max(a, b - n) : b],
            "before": letters[max(low, a - n) : a], "after": letters[b : min(high, b + n)],
        }  # fmt: skip
        return str(found[part.rstrip("123456789")])

    around = ["before1|w.prefix1", "w|after2", "w.known|w.types"]
    names = ["w", "w.types", "w.length", "w.known", "w.prefix2", "w.suffix2", *around]
    templates = Templates(" ".join(names))
    for number, template in enumerate(names):
        ids = templates.ids(spans, number)
        ends, parts = zip(starts, stops, strict=True), template.split("|")
        wanted = ["|".join(value(part, a, b) for part in parts) for a, b in ends]
        assert len(set(zip(wanted, ids.tolist(), strict=True))) == len(set(wanted)) == len(set(ids.tolist())), template
        assert ids.min() >= 0


def test_bleu_by_hand():
    """Of one sentence the counts of pairs and longer n-grams are raised by one; of a text none is."""
    text, references = "a b c d e", ["a b c d f", "x"]
    logs = np.log([4 / 5, (3 + 1) / (4 + 1), (2 + 1) / (3 + 1), (1 + 1) / (2 + 1)])
    assert candidates.sentence_bleu(text, references) == pytest.approx(np.exp(logs.mean()))
    logs = np.log([9 / 10, 7 / 8, 5 / 6, 3 / 4])
    assert candidates.corpus_bleu([text] * 2, [references[:1], [text]]) == pytest.approx(100 * np.exp(logs.mean()))
