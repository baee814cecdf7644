"""Lists of candidates: the structure against enumeration, quality by file and by function, and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
import reference_structured as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from support.structured_cases import agrees, sequences

from blocksvm.base.errors import InputError
from blocksvm.commands import structure
from blocksvm.structured import bleu
from blocksvm.structured.candidates import CandidateLists
from blocksvm.structured.structured_run import fit_structure

D = 5


def candidates(seed: int, lengths=(4, 1, 6)) -> tuple[CandidateLists, list[reference.Example]]:
    rng = np.random.default_rng(seed)
    phi = rng.integers(-2, 3, (sum(lengths), D)).astype(float)
    quality = rng.integers(0, 5, sum(lengths)) / 4
    bounds = np.append(0, np.cumsum(lengths))
    examples = []
    for a, b in zip(bounds[:-1], bounds[1:], strict=True):
        own = quality[a:b]
        outputs = [(j,) for j in range(b - a)]
        examples.append(reference.Example(outputs, phi[a:b], int(np.argmax(own)), own.max() - own))
    rows, columns = np.nonzero(phi)
    indptr = np.searchsorted(rows, np.arange(len(phi) + 1)).astype(np.int64)
    return CandidateLists(bounds, indptr, columns.astype(np.int64), phi[rows, columns], quality, D), examples


@pytest.mark.parametrize("seed", range(10))
def test_decoding_is_enumeration(seed):
    structure_, examples = candidates(seed)
    agrees(structure_, examples, np.round(np.random.default_rng(seed).normal(size=D)))


def test_all_sentences_of_an_update_at_once():
    """One update of MIRA over everything, from w = 0, solves the program of all constraints."""
    structure_, examples = candidates(3)
    found = fit_structure(
        structure_, "mira", {"k": 6, "at_once": 3, "slack": "shared", "C": 0.2, "weights": "last"}, {"epochs": 1}
    ).weights
    deltas = np.concatenate([np.delete(e.phi[e.gold] - e.phi, e.rho == 0, axis=0) for e in examples])
    margins = np.concatenate([e.rho[e.rho != 0] for e in examples])
    groups = np.repeat(np.arange(3), [np.count_nonzero(e.rho) for e in examples])
    best = reference.multipliers(deltas, margins, 0.2, groups)
    violations = np.maximum(0.0, margins - deltas @ found)
    slacks = sum(violations[groups == g].max() for g in np.unique(groups))
    assert 0.5 * found @ found + 0.2 * slacks == pytest.approx(best, rel=1e-5)


def test_an_update_towards_several_oracles():
    """From w = 0 it solves the program whose constraints are all pairs of an oracle and a worse candidate."""
    structure_, examples = candidates(5, (6,))
    (e,) = examples
    oracles = np.argsort(e.rho, kind="stable")[:3]
    found = fit_structure(
        structure_, "mira", {"k": 6, "oracles": 3, "C": 0.2, "weights": "last"}, {"epochs": 1}
    ).weights  # fmt: skip
    pairs = [(o, j) for j in range(6) for o in oracles if e.rho[j] > e.rho[o]]
    assert len({o for o, _ in pairs}) == 3
    deltas = np.array([e.phi[o] - e.phi[j] for o, j in pairs])
    margins = np.array([e.rho[j] - e.rho[o] for o, j in pairs])
    best = reference.multipliers(deltas, margins, 0.2, None)
    violations = np.maximum(0.0, margins - deltas @ found)
    assert 0.5 * found @ found + 0.2 * violations.sum() == pytest.approx(best, rel=1e-5)


def test_oracles_of_a_structure_with_one_right_output():
    with pytest.raises(InputError, match="oracles=3: this structure has one right output"):
        fit_structure(sequences(1)[0], "mira", {"oracles": 3}, {"epochs": 1})


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_bleu_is_the_published_one(data):
    texts = st.lists(st.sampled_from("abc"), min_size=1, max_size=9)
    pairs = data.draw(st.lists(st.tuples(texts, texts, texts), min_size=1, max_size=4))
    own, references = [text for text, _, _ in pairs], [list(others) for _, *others in pairs]
    lines = [" ".join(text) for text in own]
    reference_lines = [[" ".join(text) for text in others] for others in references]
    for k, line in enumerate(lines):
        found = bleu.sentence_bleu(line, reference_lines[k])
        assert found == pytest.approx(reference.bleu([own[k]], [references[k]], 1), rel=1e-9)
    found = bleu.corpus_bleu(lines, reference_lines)
    assert found == pytest.approx(100.0 * reference.bleu(own, references, 0), rel=1e-9)


def overlap(text: str, references: list[str]) -> float:
    """The largest share of a reference's words that a text has."""
    return max(len(set(text.split()) & set(r.split())) / len(r.split()) for r in references)


def nonsense(text: str, references: list[str]) -> str:
    return "good"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Candidates of sentences of five words, some of them wrong, with a feature that knows how many, and two that
    don't."""
    folder = tmp_path_factory.mktemp("candidates")
    rng = np.random.default_rng(0)
    for name, n in (("train", 30), ("test", 15)):
        lists, references = [], []
        for s in range(n):
            words = rng.choice([f"w{k}" for k in range(40)], 5, replace=False)
            references.append(" ".join(words))
            for _ in range(8):
                wrong = rng.random(5) < 0.4
                text = " ".join("x" if bad else word for bad, word in zip(wrong, words, strict=True))
                lists.append(
                    f"{s} ||| {text} ||| errors={wrong.sum() + rng.normal() / 4:.3f} luck={rng.normal():.3f} n=1"
                )
        (folder / name).write_text("\n".join(lists) + "\n")
        (folder / f"{name}.ref").write_text("\n".join(references) + "\n")
        (folder / f"{name}.other").write_text("y\n" * n)
    return folder


def test_the_command(folder, tmp_path, run_in_process):
    scored = ("--score", "test_structured_candidates:overlap", "--references")
    model = tmp_path / "m.h5"
    told = run_in_process(
        structure.main, "train", folder / "train", model, "--task", "candidates", "--at-once", "30", "--slack",
        "shared", "-C", "0.1", "--epochs", "20", *scored, f"{folder / 'train.ref'},{folder / 'train.other'}",
    )  # fmt: skip
    assert told.code == 0, told.err
    told = run_in_process(structure.main, "evaluate", model, folder / "test", "--json", *scored, folder / "test.ref")
    figures = json.loads(told.out)
    assert figures["quality"] > figures["of the first"] + 0.1
    assert figures["quality"] > 0.9 * figures["of the best"]
    assert run_in_process(structure.main, "predict", model, folder / "test", tmp_path / "out").code == 0
    chosen = (tmp_path / "out").read_text().splitlines()
    references = (folder / "test.ref").read_text().splitlines()
    by_hand = [overlap(text, [reference]) for text, reference in zip(chosen, references, strict=True)]
    assert figures["quality"] == pytest.approx(np.mean(by_hand))
    # the same from a file of numbers
    lines = [line.split(" ||| ") for line in (folder / "test").read_text().splitlines()]
    numbers = [overlap(text, [references[int(s)]]) for s, text, _ in lines]
    (tmp_path / "numbers").write_text("".join(f"{number!r}\n" for number in numbers))
    told = run_in_process(
        structure.main, "evaluate", model, folder / "test", "--json", "--quality", tmp_path / "numbers"
    )
    assert json.loads(told.out) == figures


def test_bleu_tunes_the_lists(folder, tmp_path, run_in_process):
    """By default, frank-wolfe ends above the first candidates, too."""
    given_ = ("--score", "bleu", "--references")
    texts = [line.split(" ||| ")[:2] for line in (folder / "test").read_text().splitlines()]
    references = [[line] for line in (folder / "test.ref").read_text().splitlines()]
    first = [next(text for s, text in texts if int(s) == number) for number in range(len(references))]
    for learner in ("mira", "frank-wolfe"):
        model = tmp_path / f"{learner}.h5"
        told = run_in_process(
            structure.main, "train", folder / "train", model, "--task", "candidates", "--learner", learner, *given_,
            folder / "train.ref", "--epochs", 10,
        )  # fmt: skip
        assert told.code == 0, told.err
        told = run_in_process(
            structure.main, "evaluate", model, folder / "test", *given_, folder / "test.ref", "--json"
        )
        figures = json.loads(told.out)
        assert figures["BLEU of the first"] == bleu.corpus_bleu(first, references)
        assert figures["BLEU of the first"] + 5 < figures["BLEU"] <= figures["BLEU of the best"]
        assert figures["quality"] > figures["of the first"]


GOOD = "0 ||| a ||| f=1\n0 ||| b ||| f=2\n1 ||| c ||| f=0\n"
QUALITY = ("--quality", "{numbers}")


@pytest.mark.parametrize(
    ("content", "arguments", "sentence"),
    [
        ("0 ||| a\n", QUALITY, "line 1: is no candidate"),
        ("0 ||| a ||| f\n", QUALITY, "line 1: 'f' is no feature"),
        ("0 ||| a ||| f=nan\n", QUALITY, "'f=nan' is no feature"),
        ("0 ||| a ||| f=x\n", QUALITY, "'f=x' is no feature"),
        ("0 ||| a ||| f=1\n1 ||| a ||| f=1\n0 ||| b ||| f=1\n", QUALITY, "line 3: sentence 0 had candidates before"),
        (GOOD, QUALITY, "has 2 lines, but there are 3 candidates"),
        (GOOD, (), "the quality of the candidates is needed"),
        (GOOD, (*QUALITY, "--score", "math:sqrt"), "say the same thing"),
        (GOOD, ("--score", "bleu"), "compares with references; give --references"),
        (GOOD, ("--score", "nowhere:f"), "cannot be imported"),
        (GOOD, ("--score", "math:pi"), "is no function"),
        (
            GOOD,
            ("--score", "test_structured_candidates:nonsense"),
            "gave 'good' for candidate 1, which is not a finite",
        ),
        (
            GOOD,
            ("--score", "test_structured_candidates:overlap", "--references", "{three}"),
            "but there are 2 sentences",
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(tmp_path, run_in_process, content, arguments, sentence):
    (tmp_path / "lists").write_text(content)
    (tmp_path / "numbers").write_text("1\n2\n")
    (tmp_path / "three").write_text("a\nb\nc\n")
    names = {name: tmp_path / name for name in ("numbers", "three")}
    words = [word.format(**names) for word in arguments]
    told = run_in_process(
        structure.main, "train", tmp_path / "lists", tmp_path / "m.h5", "--task", "candidates", *words
    )
    assert told.code == 2 and sentence in told.last_line
