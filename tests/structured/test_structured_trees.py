"""Dependency trees: the decoder against all trees, features of arcs by hand, and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
import reference_structured as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from support.structured_cases import agrees

from blocksvm.commands import structure
from blocksvm.kernels.arborescence import best_tree
from blocksvm.structured.arc_templates import MOST_BETWEEN, ArcFeatures, ArcTemplates
from blocksvm.structured.column_text import read_columns
from blocksvm.structured.structured_run import fit_structure
from blocksvm.structured.trees import Trees

N_FEATURES = 9


def trees(seed: int, lengths=(3, 1, 4)) -> tuple[Trees, list[reference.Example]]:
    rng = np.random.default_rng(seed)
    tables = [rng.integers(-1, N_FEATURES, (n * (n + 1), 3)).astype(np.int32) for n in lengths]
    gold = [reference.spanning_trees(n)[rng.integers((n + 1) ** (n - 1))] for n in lengths]
    examples = [reference.tree_example(table, heads, N_FEATURES) for table, heads in zip(tables, gold, strict=True)]
    bounds = np.append(0, np.cumsum(lengths))
    heads = np.concatenate(gold).astype(np.int32)
    return Trees(np.concatenate(tables), bounds, heads, N_FEATURES), examples


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.0, 0.5, 3.0]))
def test_decoding_is_enumeration(seed, scale):
    structure_, examples = trees(seed)
    w = np.round(np.random.default_rng(seed + 1).normal(size=N_FEATURES)) * scale
    agrees(structure_, examples, w)
    agrees(structure_, examples, np.random.default_rng(seed + 2).normal(size=N_FEATURES), k=200)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000))
def test_best_tree_where_arcs_are_missing(seed):
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(5, 5))
    weights[rng.random((5, 5)) < 0.45] = -np.inf
    totals = [sum(weights[h, m + 1] for m, h in enumerate(heads)) for heads in reference.spanning_trees(4)]
    heads = np.empty(5, np.int32)
    found = best_tree(weights, heads)
    assert found == pytest.approx(max(totals))
    if found > -np.inf:
        assert sum(weights[heads[m], m] for m in range(1, 5)) == found
        assert tuple(heads[1:].tolist()) in reference.spanning_trees(4)


def test_learning_trees():
    """Frank and Wolfe's certificate holds for trees, too, and MIRA with several of them separates what can be."""
    structure_, examples = trees(5)
    optimum = reference.structured_optimum(examples, 0.3, N_FEATURES)
    told = fit_structure(structure_, "frank-wolfe", {"C": 0.3, "tol": 1e-3}, {"epochs": 3000}).certificate
    assert told["rel_gap"] <= 1e-3
    assert told["dual"] <= optimum * (1 + 1e-7) and optimum <= told["primal"] * (1 + 1e-7)


TEXT = "the DT 2\ndog NN 3\nbarks VB 0\nloud RB 3\n\nyes UH 0\n"


def test_features_of_arcs(tmp_path):
    path = tmp_path / "text"
    path.write_text(TEXT)
    text = read_columns(str(path), 100_000_000)

    def ids(template: str, column: int = 0) -> np.ndarray:
        return ArcFeatures(ArcTemplates(template, 2), text).ids(column)

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
            assert (far[arc(h, m)] == far[arc(2, 3)]) == (m - h == 1)
    assert len(set(of_head[[arc(h, 2 if h == 1 else 1) for h in range(5)]])) == 5
    assert of_head[20] == of_head[arc(0, 1)] != of_head[21]  # the root of the second sentence
    between = np.stack([ids("b", slot) for slot in range(MOST_BETWEEN)])
    assert len(ArcTemplates("b", 2)) == MOST_BETWEEN
    counts = (between >= 0).sum(axis=0)
    assert [counts[arc(h, m)] for h, m in ((1, 2), (1, 3), (4, 1), (0, 4), (0, 1))] == [0, 1, 2, 3, 0]
    assert set(between[:2, arc(4, 1)]) == {between[0, arc(1, 3)], between[0, arc(2, 4)]}


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    """Adjectives hang from the next noun, nouns from the verb."""
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("trees")
    for name, n in (("train", 60), ("test", 20)):
        lines = []
        for _ in range(n):
            tags = [t for _ in range(rng.integers(1, 3)) for t in ["JJ"] * rng.integers(0, 3) + ["NN"]]
            place = int(rng.integers(0, len(tags) + 1))
            place = max([0, *(k + 1 for k, t in enumerate(tags) if t == "NN" and k < place)])
            tags.insert(place, "VB")
            for k, tag in enumerate(tags):
                noun = next((j + 1 for j in range(k, len(tags)) if tags[j] == "NN"), 0)
                lines.append(
                    f"{tag}{rng.integers(0, 9)} {tag} {0 if tag == 'VB' else place + 1 if tag == 'NN' else noun}"
                )
            lines.append("")
        (folder / name).write_text("\n".join(lines) + "\n")
    return folder


def test_the_command(treebank, tmp_path, run_in_process):
    model = tmp_path / "m.h5"
    told = run_in_process(structure.main, "train", treebank / "train", model, "--task", "trees", "--learner", "mira",
                          "--k", "3", "--epochs", "4")  # fmt: skip
    assert told.code == 0, told.err
    figures = json.loads(run_in_process(structure.main, "evaluate", model, treebank / "test", "--json").out)
    assert figures["UAS"] > 0.95
    assert run_in_process(structure.main, "predict", model, treebank / "test", tmp_path / "out").code == 0
    lines = [(a.split(), b.split()) for a, b in zip(
        (tmp_path / "out").read_text().splitlines(), (treebank / "test").read_text().splitlines(), strict=True
    )]  # fmt: skip
    assert all(a[:2] == b[:2] for a, b in lines)
    assert np.mean([a == b for a, b in lines if a]) == pytest.approx(figures["UAS"])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("a X 2\nb X 1\n", "line 1: its heads lead in a circle"),
        ("a X 0\n\nb X 1\n", "line 3: its heads lead in a circle"),
        ("a X 0\nb X 3\n", "line 2: '3' is no head"),
        ("a X -1\n", "line 1: '-1' is no head"),
        ("a X NN\n", "line 1: 'NN' is no head"),
        ("0\n", "has one column; the last one is the head"),
    ],
)
def test_what_is_no_tree(tmp_path, run_in_process, content, sentence):
    (tmp_path / "text").write_text(content)
    told = run_in_process(structure.main, "train", tmp_path / "text", tmp_path / "m.h5", "--task", "trees")
    assert told.code == 2 and sentence in told.last_line


@pytest.mark.parametrize("template", ["", "w[0]", "hw", "hx[0]", "b|hc2[0]", "dd"])
def test_what_is_no_template_of_arcs(treebank, tmp_path, run_in_process, template):
    told = run_in_process(structure.main, "train", treebank / "train", tmp_path / "m.h5", "--task", "trees",
                          "--template", template)  # fmt: skip
    assert told.code == 2 and "--template" in told.last_line


def test_memory_for_the_arcs_of_a_sentence(tmp_path, run_in_process):
    (tmp_path / "text").write_text("a X 0\n\n" + "".join(f"w X {k}\n" for k in range(40)))
    told = run_in_process(structure.main, "train", tmp_path / "text", tmp_path / "m.h5", "--task", "trees",
                          "--memory", "800KB")  # fmt: skip
    assert told.code == 2 and "line 3: the arcs of this sentence take" in told.last_line
