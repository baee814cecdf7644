"""Groups of folds on a Dask cluster of real processes: the bits are those of this process, whoever dies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time

import joblib
import numpy as np
import pytest
from support.dask_processes import dask_processes
from support.training_cases import make_store, random_rows

import blocksvm
from blocksvm.base.errors import InputError
from blocksvm.cluster.executors import OnDask, results

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
GIVEN = {"C": [0.1, 1.0, 3.0, 10.0], "folds": 3, "fold_groups": 3, "tol": 1e-4, "memory": 3_000_000}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("stores"), *random_rows(n=300, d=40, seed=6), chunk_nonzeros=128)


@pytest.fixture
def cluster():
    with dask_processes(2) as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with distributed.Client(cluster.address) as client:
        yield client


def figures(cv) -> dict:
    return {name: value for name, value in cv.described().items() if name != "seconds"}


def on_dask(client, path, *actions, timeout=60.0, **more):
    """A cross-validation during which these are called, one at each look."""
    left = list(actions)

    def stop() -> bool:
        if left:
            left.pop(0)()
        return False

    with (
        joblib.parallel_config("dask", client=client, wait_for_workers_timeout=timeout),
        blocksvm.open_store(path) as store,
    ):
        found = blocksvm.cross_validate(store, **GIVEN | more, stop=stop)
    assert not left
    return figures(found)


def test_the_bits_are_those_of_one_process_also_where_a_worker_dies(cluster, client, path):
    with blocksvm.open_store(path) as store:
        expected = figures(blocksvm.cross_validate(store, **GIVEN))
    assert on_dask(client, path) == expected
    assert on_dask(client, path, cluster.workers[0].kill) == expected


def test_a_worker_hears_that_a_task_is_given_up(client, tmp_path):
    began, ended = tmp_path / "began", tmp_path / "ended"

    def work(number, stop):
        began.touch()
        while not stop():
            time.sleep(0.01)
        ended.touch()

    assert list(results(OnDask(client, 60.0), work, [0], began.exists)) == []
    ends = time.monotonic() + 30.0
    while not ended.exists():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_cluster_without_workers_is_told(cluster, client, path):
    with pytest.raises(InputError, match=r"no worker of the Dask cluster has answered for 2s"):
        on_dask(client, path, *(worker.kill for worker in cluster.workers), timeout=2.0)


def test_a_scheduler_that_is_lost_is_told(cluster, client, path):
    with pytest.raises(InputError, match=r"the Dask cluster has given a part of the work up|no worker of the Dask"):
        on_dask(client, path, cluster.scheduler.kill, timeout=2.0)


def test_workers_with_another_store_or_too_little_memory_are_refused(client, path, tmp_path):
    with pytest.raises(InputError, match=r"worker tcp://.*: may take .* of memory, of which 60% must be 200000MB"):
        on_dask(client, path, memory=600_000_000_000)
    with blocksvm.open_store(path) as store:
        shared = tmp_path / "shared.h5"
        shared.write_bytes(path.read_bytes())
        store.path = shared  # as workers see it
        os.replace(make_store(tmp_path, *random_rows(n=100, d=40, seed=7), "other"), shared)
        with (
            joblib.parallel_config("dask", client=client),
            pytest.raises(InputError, match=r"worker tcp://.*: .*shared\.h5: is another store on"),
        ):
            blocksvm.cross_validate(store, **GIVEN)


def test_threads_of_this_process_are_not_those_of_the_cluster(client):
    with joblib.parallel_config("dask", client=client):
        from blocksvm.base.settings import n_threads

        assert n_threads(None) == 1 and n_threads(3) == 3 and n_threads(-1) == joblib.cpu_count()


def test_the_command(path, tmp_path):
    told = []
    for number, more in enumerate((["--cluster", "local:2"], ["--fold-groups", "3"])):
        out = tmp_path / f"{number}.json"
        command = [sys.executable, "-P", "-m", "blocksvm.cv", path, "--folds", "3", "-C", "0.1,1", "--json", out, *more]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert "3 folds in 3 groups" in done.stderr
        told.append(json.loads(out.read_text()))
        del told[-1]["seconds"]
    assert told[0] == told[1] and np.max(told[0]["rel_gap"]) <= 1e-3
    for more, text in (
        (["--security", "a", "b", "c"], "--security: is for --cluster"),
        (["--cluster", "local:1", "--fold-groups", "1"], "leave --fold-groups 1 out"),
        (["--cluster", "local:1", "--checkpoint", tmp_path / "c"], "not for groups"),
        (["--cluster", "local:0"], "expected local:N with N of 1 or more"),
    ):
        command = [sys.executable, "-P", "-m", "blocksvm.cv", path, *more]
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120)
        assert done.returncode == 2 and text in done.stderr.splitlines()[-1], done.stderr
