"""Names of features from the text to the model, and the features of the largest weights."""

import json
import re

import numpy as np
import pytest

from blocksvm import load_model, open_store
from blocksvm.api import fit
from blocksvm.conversion.convert import SplitSettings, split_rows
from blocksvm.model.explanations import strongest
from blocksvm.store.arrays import PIECE


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store with names, a few of them not ASCII, and models of it: of two classes, of three, of numbers."""
    folder = tmp_path_factory.mktemp("names")
    random = np.random.default_rng(1)
    for name, labels in (("two", "no yes"), ("three", "a b c")):
        words = labels.split()
        lines = ["label,color,größe,x\n"]
        for _ in range(120):
            k = random.integers(len(words))
            lines.append(f"{words[k]},c{(k + (random.random() < 0.1)) % len(words)},{random.integers(9)},{k}\n")
        (folder / f"{name}.csv").write_text("".join(lines))
        split_rows([str(folder / f"{name}.csv")], folder / f"{name}.h5", SplitSettings(options={"ignore": "x"}))
        with open_store(folder / f"{name}.h5") as store:
            fitted = fit.fit(store, tol=1e-3)
        fitted.save(folder / f"{name}.model.h5")  # the store is closed
    return folder


@pytest.mark.parametrize(("name", "n_vectors"), [("two", 1), ("three", 3)])
def test_the_strongest_are_the_strongest(folder, name, n_vectors):
    model = load_model(folder / f"{name}.model.h5")
    with open_store(folder / f"{name}.h5") as store:
        names = store.feature_names(0, store.n_features)
    for n in (1, 2, 100):
        found = strongest(folder / f"{name}.model.h5", n)
        assert len(found) == n_vectors
        for (label, features), weights in zip(found, np.atleast_2d(model.weights), strict=True):
            assert label in model.labels
            order = sorted(range(len(weights)), key=lambda j: -abs(weights[j]))[:n]
            assert [one.weight for one in features] == [weights[j] for j in order if weights[j]]
            known = [(one.name, one.id) for one in features]
            assert known == [(names[j], model.feature_ids[j]) for j in order if weights[j]]
    if n_vectors == 3:  # each class by its own label
        best = {label: max(features, key=lambda one: one.weight).name for label, features in found}
        assert best == {"a": "color=c0", "b": "color=c1", "c": "color=c2"}


def test_info_lists_them(folder, tmp_path, succeeds, refusal):
    out = succeeds("info", folder / "two.model.h5", "--top", "2").out
    assert "the largest weights, above 0 for yes" in out and "  color=c1" in out
    out = succeeds("info", folder / "three.model.h5", "--top", "2").out
    lines = out.partition("the largest weights of each label\n")[2].splitlines()
    assert [line.split("  ")[0] for line in lines] == ["a", "b", "c"]
    assert re.fullmatch(r"a  [-+][\d.]+ [\w=]+, [-+][\d.]+ [\w=]+", lines[0])
    top = json.loads(succeeds("info", folder / "three.model.h5", "--top", "9", "--json").out)["top"]
    assert [one["label"] for one in top] == ["a", "b", "c"]
    assert {feature["name"] for feature in top[0]["features"]} <= {"color=c0", "color=c1", "color=c2", "größe"}
    succeeds("info", folder / "two.model.h5", "--verify", "--top", "1")
    told = refusal("info", folder / "two.h5", "--top", "3")
    assert "two.h5: is a store; --top lists the weights of a model" in told
    assert "--top 0: must be 1 or more" in refusal("info", folder / "two.model.h5", "--top", "0")


@pytest.mark.slow
def test_features_without_names(tmp_path, succeeds):
    """Weights in more than one stored piece, features with ids alone; a warm start's model has no other names."""
    d = PIECE + 10
    lines = [f"{1 if i % 2 else -1} {i % 2 + 1}:1 {d - i % 3}:{0.1 * (i % 3)}\n" for i in range(30)]
    lines.append("1 " + " ".join(f"{j}:1e-3" for j in range(3, d + 1)) + "\n")
    (tmp_path / "rows.svm").write_text("".join(lines))
    split_rows([str(tmp_path / "rows.svm")], tmp_path / "s.h5")
    succeeds("train", tmp_path / "s.h5", tmp_path / "m.h5", "--bias", "1")
    model = load_model(tmp_path / "m.h5")
    ((label, features),) = strongest(tmp_path / "m.h5", 5)
    order = np.argsort(-np.abs(model.weights), kind="stable")[:5]
    assert label == 1.0 and [one.id for one in features] == model.feature_ids[order].tolist()
    assert str(features[0]) == f"feature {features[0].id}"


def test_names_of_a_model_that_knows_more_features(folder, tmp_path, succeeds):
    """A prior's features beyond the store's have no names, all others keep theirs."""
    first = (folder / "two.csv").read_text().splitlines()
    (tmp_path / "other.csv").write_text("\n".join([first[0].replace("größe", "weight"), *first[1:]]))
    split_rows([str(tmp_path / "other.csv")], tmp_path / "o.h5", SplitSettings(options={"ignore": "x"}))
    arguments = (tmp_path / "o.h5", tmp_path / "p.h5", "--prior", folder / "two.model.h5")
    succeeds("train", *arguments)
    ((_, features),) = strongest(tmp_path / "p.h5", 9)
    assert {one.name for one in features} == {"color=c0", "color=c1", "weight", ""}
