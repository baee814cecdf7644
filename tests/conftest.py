"""What all tests share: commands run in the process of the tests, a server of objects, how many examples are drawn.

SciPy is imported within fixtures alone: a filter of warnings that it sets must hold while tests are collected.
"""

import gc
import os
from datetime import timedelta
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

# HYPOTHESIS_PROFILE=nightly draws twenty times as many examples
quick = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
settings.register_profile("ci", quick)
settings.register_profile("nightly", quick, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True, scope="module")
def freeze_what_is_loaded():
    """What earlier files have imported and compiled is not looked through again when garbage is collected."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def rows():
    """(X (200, 30) CSR, y of +-1), unless a file has rows of its own; no test changes them."""
    from support.training_cases import random_rows

    return random_rows(n=200, d=30, seed=51)


@pytest.fixture(scope="session")
def store(tmp_path_factory, rows):
    """The path of a store of these rows, of some ten chunks."""
    from support.training_cases import make_store

    return make_store(tmp_path_factory.mktemp("store"), *rows, chunk_nonzeros=128, dtype="float64")


@pytest.fixture(scope="session")
def stores(tmp_path_factory):
    """Paths of stores of the same 400 rows, by how many classes these have: 2, 3 and 20, unless a file has others."""
    from support.training_cases import make_store, random_rows

    X, y = random_rows(n=400, d=40, seed=6)
    labels = {2: y, 3: np.where(np.arange(400) % 3 == 0, 2.0, y), 20: np.arange(400.0) % 10 * y}
    folder = tmp_path_factory.mktemp("stores")
    return {k: str(make_store(folder, X, labels[k], f"{k}", 128)) for k in labels}


@pytest.fixture
def plain_loops(monkeypatch):
    """Runners of learners run their rules as they are: nothing is compiled for what a test alone needs."""
    from support.plain_learners import in_plain_python

    from blocksvm.online import loops, runner

    monkeypatch.setattr(runner, "loops_of", lambda rule: in_plain_python(loops.loops_of(rule)))


@pytest.fixture
def server(monkeypatch):
    """A server of objects, which s3:// means, too; the network is waited for shortly."""
    from support.object_server import ObjectServer

    from blocksvm.files import remote

    pauses = {"init_backoff": timedelta(seconds=0.01), "max_backoff": timedelta(seconds=0.05), "base": 2}
    monkeypatch.setattr(remote, "RETRIES", {**remote.RETRIES, "max_retries": 5, "backoff": pauses})
    monkeypatch.setattr(remote, "SILENCE", 2.0)
    with ObjectServer() as running:
        for name, value in running.s3.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def run_in_process(capsys):
    """run_in_process(main or line, *arguments) runs a command as ``python -m`` does, but here; gives an Outcome."""
    from support.training_cases import run_in_process

    return partial(run_in_process, capsys)


@pytest.fixture
def succeeds(run_in_process):
    """succeeds(main, *arguments): the Outcome of a command that must end well."""

    def run(main, *arguments):
        ended = run_in_process(main, *arguments)
        assert ended.code == 0, ended.err
        return ended

    return run


@pytest.fixture
def refusal(run_in_process):
    """refusal(main, *arguments): the sentence of a command that must refuse what it is given, and print nothing."""

    def run(main, *arguments) -> str:
        ended = run_in_process(main, *arguments)
        assert (ended.code, ended.out) == (2, ""), ended
        assert "Traceback" not in ended.err
        return ended.last_line

    return run


@pytest.fixture
def not_split(tmp_path):
    """not_split(name, sentence, **settings): a split of one input must be refused with this sentence, and leave
    nothing."""
    from blocksvm import InputError
    from blocksvm.conversion.convert import SplitSettings, split_rows

    def run(name, sentence, **settings) -> None:
        before = sorted(os.listdir(tmp_path))
        with pytest.raises(InputError) as refusal:
            split_rows([str(name)], tmp_path / "refused.h5", SplitSettings(**settings))
        assert sentence in str(refusal.value)
        assert sorted(os.listdir(tmp_path)) == before

    return run
