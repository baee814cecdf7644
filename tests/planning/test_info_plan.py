"""``info --plan``: its lines, its figures as JSON, and what it refuses."""

from __future__ import annotations

import json
import re

import pytest
from support.training_cases import make_store, random_rows

from blocksvm.commands import info, train


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    X, y = random_rows(n=600, d=40, seed=6)
    return make_store(tmp_path_factory.mktemp("stores"), X, y, "two", 128)


@pytest.fixture(scope="module")
def model(store):
    path = store.with_name("m.h5")
    assert train.main([str(store), str(path), "--quiet"]) == 0
    return path


def test_the_lines_show_the_arithmetic(run_in_process, store):
    ran = run_in_process(info.main, str(store), "--plan", "--memory", "500kB", "--threads", "2", "--workers", "4",
                         "--loss", "logistic", "--quiet")  # fmt: skip
    assert ran.code == 0, ran.err
    lines = dict(re.split(r"\s{2,}| (?=\d)", line, maxsplit=1) for line in ran.out.splitlines() if "  " in line)
    assert "600 rows" in lines["plan"]
    for name in ("memory", "readings", "reading", "decoding", "screening", "moving", "working set", "seconds", "limit",
                 "threads", "workers", "each worker", "driver", "messages", "workers enough", "lbfgs"):  # fmt: skip
        assert any(line.startswith(name) for line in ran.out.splitlines()), name
    total, parts = re.search(r"^seconds +([\d.]+) with 2 threads on .*? as one: (.*)$", ran.out, re.MULTILINE).groups()
    assert sum(float(part.split()[-1]) for part in parts.split(", ")) == pytest.approx(float(total), abs=0.03)


def test_the_figures_as_json(run_in_process, store):
    ran = run_in_process(info.main, str(store), "--plan", "--json")
    assert ran.code == 0, ran.err
    figures = json.loads(ran.out)
    plan = figures["plan"]
    assert figures["n_samples"] == plan["rows"]["n_samples"] == 600
    assert plan["seconds"] == pytest.approx(sum(plan["run"]["seconds"].values()))
    assert plan["cluster"] is None


REFUSED = {
    "--plan --memory 1kB": "is too small",
    "--plan --workers 0": "--workers 0: must be 1 or more",
    "--workers 2": "--workers: is for --plan; add it, or leave --workers out",
    "-C 2": "-C: is for --plan; add it, or leave -C out",
    "--threads 2": "--threads: is for --plan",
    "--plan --working-set none --workers 2": "--working-set none: a cluster sends rows",
    "--plan --schedule overlap --workers 2": "--schedule overlap: not on a cluster",
    "--plan -C -1": "-C",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_does_not_fit_is_refused(run_in_process, store, words):
    ran = run_in_process(info.main, str(store), *words.split())
    assert ran.code == 2 and ran.out == ""
    assert REFUSED[words] in ran.err.splitlines()[-1]


def test_a_model_has_no_plan(run_in_process, model):
    ran = run_in_process(info.main, str(model), "--plan")
    assert ran.code == 2
    assert ran.err.strip().endswith("is a model; --plan is for a store")


def test_rows_without_entries_have_no_plan(run_in_process, tmp_path):
    store = make_store(tmp_path, "1\n-1\n" * 3)
    ran = run_in_process(info.main, str(store), "--plan")
    assert ran.code == 2
    assert "has no nonzeros; there is nothing to plan" in ran.err


@pytest.mark.parametrize("settings", ["--working-set none", "--bias free", "--schedule 2", "-C 100 --tol 1e-5"])
def test_settings_of_the_run_are_taken(run_in_process, store, settings):
    """The same sampled run makes the same counts, another one others."""
    counts = []
    for words in ("", "", settings):
        ran = run_in_process(info.main, str(store), "--plan", *words.split(), "--quiet", "--json", "-")
        assert ran.code == 0
        counts.append(json.loads(ran.out)["plan"]["counts"])
    assert counts[0] == counts[1] != counts[2]
