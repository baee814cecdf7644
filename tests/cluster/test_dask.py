"""A Dask cluster of real processes, which die, stall, leave and join: the model is the same to the bit."""

import gc
import json
import signal
import socket
import threading
from dataclasses import replace
from functools import partial

import pytest
import trustme
from support.dask_processes import dask_processes
from support.refused import refused
from support.training_cases import command, logged, make_store, random_rows, train

import blocksvm
from blocksvm.cluster import dask
from blocksvm.cluster.dask import Cluster, ClusterLost
from blocksvm.cluster.part import Job, here, make, opened_store
from blocksvm.store.reader import Store

pytest.importorskip("distributed")
pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
SETTINGS = {"tol": 1e-3, "seed": 3, "loss": "squared-hinge"}
LONG = SETTINGS | {"tol": 1e-5, "C": 10.0}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("stores"), *random_rows(n=900, d=40, seed=6), "two", 128)


@pytest.fixture(scope="module")
def cluster():
    with dask_processes(3) as cluster:
        yield cluster


@pytest.fixture
def impatient(monkeypatch):
    """The scheduler has two seconds to answer."""
    monkeypatch.setattr(dask, "ANSWER", 2.0)
    monkeypatch.setitem(dask.SETTINGS, "distributed.comm.timeouts.connect", "2s")


def during(cluster, store, *actions, **settings):
    """A run in which these are called, one at each event of a visited part."""
    left = list(actions)

    def stop() -> bool:
        if left:
            left.pop(0)()
        return False

    run = train(store, cluster=Cluster(cluster.address), stop=stop, **SETTINGS | settings)
    assert not left
    return run


def test_one_is_killed_one_is_stopped_one_is_added_and_the_scheduler_is_lost(store, tmp_path):
    expected, checkpoint = train(store, cluster=1, **LONG), tmp_path / "run.ckpt"
    assert expected.result.status == "converged"
    with dask_processes(3) as cluster:
        killed, stopped, _ = cluster.workers

        def stop() -> None:
            stopped.send_signal(signal.SIGSTOP)
            threading.Timer(20.0, stopped.send_signal, [signal.SIGCONT]).start()

        run = during(cluster, store, lambda: None, killed.kill, stop, cluster.add, **LONG)
        assert run.same(expected)
        assert run.result.certificate == expected.result.certificate
        with pytest.raises(ClusterLost, match="does not answer.*run.ckpt has the state, and resume goes on"):
            during(cluster, store, lambda: None, cluster.scheduler.kill, checkpoint=checkpoint, **LONG)
    assert not unclosed_clients()
    again = train(store, cluster=2, checkpoint=checkpoint, resume=True, **LONG)
    assert again.same(expected)


def test_a_worker_that_never_goes_on_is_given_up_by_dask(store, monkeypatch):
    """What it had is made again, also an answer that it had made and not sent."""
    monkeypatch.setattr(dask, "FETCH", 3.0)
    expected = train(store, cluster=1, **LONG)
    with dask_processes(2, ttl="4s") as cluster:
        stopped = cluster.workers[0]
        run = during(cluster, store, lambda: None, lambda: stopped.send_signal(signal.SIGSTOP), **LONG)
        stopped.send_signal(signal.SIGCONT)
    assert run.same(expected)


def test_fit_takes_a_client_or_an_address(cluster, store):
    import distributed

    expected = train(store, cluster=1, **SETTINGS)
    with blocksvm.open_store(store) as rows:
        with distributed.Client(cluster.address, set_as_default=False) as client:
            fitted = blocksvm.fit(rows, cluster=client, **SETTINGS)
        again = blocksvm.fit(rows, cluster=cluster.address, **SETTINGS)
    assert fitted.certificate == again.certificate == expected.result.certificate
    refused("cluster: reads a store", blocksvm.fit, *random_rows(), cluster="local:1")


def unclosed_clients() -> list:
    """Those that would close themselves when they are collected; while another one starts Dask waits for ever."""
    import distributed

    return [one for one in gc.get_objects() if isinstance(one, distributed.Client) and one.status != "closed"]


def test_no_cluster_at_the_address(store, impatient):
    for address, told in (
        ("tcp://127.0.0.1:9", "no scheduler answers"),
        ("local:none", "expected local:N"),
        ("tls://127.0.0.1:9", "no scheduler answers"),
    ):
        refused(f"^cluster={address}: {told}", train, store, cluster=Cluster(address), **SETTINGS)
    assert not unclosed_clients()


def test_a_scheduler_that_accepts_and_never_answers(store, impatient):
    import dask as library

    name = "distributed.comm.timeouts.connect"
    before = library.config.get(name)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        refused("no scheduler answers", train, store, cluster=Cluster(address), **SETTINGS)
    assert library.config.get(name) == before


def test_workers_of_another_kind_are_refused(cluster, store):
    with blocksvm.open_store(store) as rows:
        job = Job(1 << 50, partial(opened_store, str(store), rows.fingerprint))
    there = Cluster(cluster.address)
    with there.opened():
        for other, text in (
            (replace(job, about=here() | {"numba": "0.1"}), "worker tcp://.* has numba .* and the run has 0.1: bits"),
            (replace(job, about=here() | {"processor": "abacus"}), "has processor .* and the run has abacus"),
            (job, "may take .* of memory"),
            (Job(1, partial(opened_store, str(store), "0")), "is another store than the one that this run reads"),
        ):
            refused(text, there.submit(make, there.keep(other), None).result, 60)


def test_the_command_trains_on_a_local_cluster(store, tmp_path):
    trace, model = tmp_path / "trace.jsonl", tmp_path / "m.h5"
    options = ["--tol", "1e-3", "--seed", "3", "--loss", "squared-hinge", "--cluster", "local:2", "--json", "--log"]
    done = command(store, model, *options, trace, check=True)
    expected = train(store, cluster=1, **SETTINGS)
    assert json.loads(done.stdout)["rel_gap"] == expected.result.certificate.rel_gap
    assert "parts, screened by workers" in done.stderr
    outer = logged(trace, "outer")
    assert all(event["bytes_sent"] > 0 and event["bytes_received"] > 0 for event in outer)
    assert all(event["seconds_workers"] > 0.0 for event in outer)


def test_the_commands_at_an_address(cluster, store, tmp_path, succeeds, refusal):
    model, damaged = tmp_path / "m.h5", tmp_path / "damaged.h5"
    place = "--cluster", cluster.address
    succeeds("train", store, model, "--tol", "1e-2", *place)
    for name, more in (("here", ()), ("there", place)):
        succeeds("predict", model, store, tmp_path / name, *more)
    assert (tmp_path / "here").read_bytes() == (tmp_path / "there").read_bytes()
    texts = [tmp_path / f"{k}.svm" for k in range(3)]
    for k, text in enumerate(texts):
        text.write_text("".join(f"{1 - 2 * (i % 2)} {1 + (i + k) % 30}:1\n" for i in range(100 + k)))
    for name, more in (("files-here/", ()), ("files-there/", place)):
        succeeds("predict", model, *texts, f"{tmp_path}/{name}", *more)
    for text in texts:
        files = [(tmp_path / name / text.name).read_bytes() for name in ("files-here", "files-there")]
        assert files[0] == files[1] and files[0].count(b"\n") >= 100
    assert not list((tmp_path / "files-there").glob(".*"))
    data = bytearray(store.read_bytes())
    with Store(store) as rows:
        parts = rows.parts.records
        data[int(parts["offset"][4]) + int(parts["size"][4]) // 2] ^= 255
    damaged.write_bytes(data)
    assert "chunk 4" in refusal("predict", model, damaged, tmp_path / "damaged", *place)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Paths of an authority's certificate, and of a certificate and its key."""
    folder, authority = tmp_path_factory.mktemp("keys"), trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    paths = [str(folder / name) for name in ("authority.pem", "certificate.pem", "key.pem")]
    authority.cert_pem.write_to_path(paths[0])
    issued.cert_chain_pems[0].write_to_path(paths[1])
    issued.private_key_pem.write_to_path(paths[2])
    return paths


def test_every_command_reaches_it(keys, tmp_path):
    text, store = tmp_path / "rows.svm", tmp_path / "rows.h5"
    text.write_text("".join(f"{1 - 2 * (i % 2)} {1 + i % 7}:1 {8 + i % 5}:{i % 3 + 1}\n" for i in range(2000)))
    model, trace, scores = tmp_path / "m.h5", tmp_path / "trace.jsonl", tmp_path / "scores"
    with dask_processes(1, keys) as cluster:
        assert cluster.address.startswith("tls://")
        place = "--cluster", cluster.address, "--security", *keys
        command(text, store, module="split", check=True)
        for name, words in (("train", (store, model, "--log", trace)), ("predict", (model, store, scores))):
            done = command(*words, *place, module=name)
            assert done.returncode == 0, done.stderr
            assert keys[2] not in done.stdout + done.stderr
        strangers = command(store, tmp_path / "no.h5", "--cluster", cluster.address)
        assert strangers.returncode == 2
        assert "no scheduler answers" in strangers.stderr.splitlines()[-1]
    for file in (model, trace):
        assert b"key.pem" not in file.read_bytes()
    assert logged(trace)[-1]["event"] == "end"
