"""Text parsed by the workers of a cluster: the store of one process, whichever of them die."""

from __future__ import annotations

import random

import joblib
import pytest
from support.dask_processes import dask_processes

from blocksvm.base.errors import InputError
from blocksvm.cluster.shared_files import require_seen, seen_here
from blocksvm.commands.split import main
from blocksvm.conversion.convert import SplitSettings, split_rows


def documents(n: int) -> str:
    draw = random.Random(0)
    return "".join(
        f"{draw.choice(('yes', 'no'))}\t" + " ".join(f"word{int(5000 * draw.random() ** 2)}" for _ in range(20)) + "\n"
        for _ in range(n)
    )


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_makes_the_store_of_one_process(tmp_path, run_in_process):
    distributed = pytest.importorskip("distributed")
    text, store = tmp_path / "rows.tsv", tmp_path / "s.h5"
    text.write_text(documents(30_000))
    settings = SplitSettings(memory=16_000_000, format="documents", overwrite=True)
    split_rows(str(text), store, settings)
    expected = store.read_bytes()
    with dask_processes(2) as cluster:
        arguments = [text, store, "--format", "documents", "--memory", "16MB", "--overwrite", "--threads", "1"]
        done = run_in_process(main, *arguments, "--cluster", cluster.address)
        assert done.code == 0, done.err
        assert store.read_bytes() == expected
        # in Python joblib is told where, and a worker is killed on the way
        killed = []

        def watch(progress) -> None:
            if not killed:
                killed.append(cluster.workers[0])
                killed[0].kill()

        many = SplitSettings(memory=16_000_000, format="documents", overwrite=True, processes=-1)
        with distributed.Client(cluster.address) as client, joblib.parallel_config("dask", client=client):
            split_rows(str(text), store, many, progress=watch)
        assert killed
        assert store.read_bytes() == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.tsv", "s.h5"]


class Workers:
    """In place of a client: workers that give these answers."""

    def __init__(self, answers):
        self.answers = answers

    def run(self, function, paths):
        return self.answers(function(paths))


def test_workers_that_see_other_files_or_are_of_another_version_are_told(tmp_path):
    paths = [str(tmp_path / "rows.svm"), str(tmp_path / "temp" / "token")]
    (tmp_path / "temp").mkdir()
    for path in paths:
        with open(path, "w") as file:
            file.write("1 1:1\n")
    assert seen_here([*paths, str(tmp_path / "no")])[0] == [6, 6, None]
    require_seen(Workers(lambda own: {"a": own, "b": own}), "tcp://x", paths)
    cases = [
        (lambda own: {"a": own, "b": ([None, 6], own[1])}, f"worker b: does not see {paths[0]} as it is here"),
        (lambda own: {"a": ([6, 7], own[1])}, f"worker a: does not see {tmp_path / 'temp'} as it is here"),
        (lambda own: {"a": (own[0], own[1] | {"numpy": "1"})}, "worker a: has numpy 1, and "),
        (lambda own: 1 / 0, "cluster=tcp://x: a worker cannot run blocksvm \\(division by zero\\)"),
    ]
    for answers, sentence in cases:
        with pytest.raises(InputError, match=sentence):
            require_seen(Workers(answers), "tcp://x", paths)


def test_options_that_do_not_fit_are_refused(tmp_path, run_in_process):
    (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n")
    both = [tmp_path / "rows.svm", tmp_path / "s.h5"]
    done = run_in_process(main, *both, "--cluster", "local:2", "--jobs", "2")
    assert (done.code, "--jobs: on a cluster every worker parses; leave it out" in done.err) == (2, True)
    done = run_in_process(main, *both, "--security", "a", "b", "c")
    assert (done.code, "--security: is for --cluster; leave it out" in done.err) == (2, True)
    pytest.importorskip("distributed")
    done = run_in_process(main, *both, "--cluster", "local:2", "--temp", tmp_path / "no")
    assert (done.code, f"{tmp_path / 'no'}: no such folder; --temp names an existing one" in done.err) == (2, True)
    done = run_in_process(main, *both, "--jobs", "0")
    assert (done.code, "'0' is neither auto nor a number of 1 or more" in done.err) == (2, True)
    done = run_in_process(main, *both, "--jobs", "1", "--threads", "1")
    assert (done.code, "memory, 1 process, 1 thread\n" in done.err) == (0, True)
