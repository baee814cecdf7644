"""A store that is an object: read as the file is, to the same bits, whatever the network does."""

import itertools
import json

import numpy as np
import pytest
from support.object_server import Fault
from support.training_cases import make_store, random_rows, stop_after, train

from blocksvm import InputError, iterate_blocks
from blocksvm.files.paths import one_run
from blocksvm.files.remote import CONNECTIONS
from blocksvm.store.reader import Store

SETTINGS = {"block_chunks": 3, "max_outer": 4, "tol": 0.0, "seed": 4, "C": 5.0}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    rows = random_rows(n=2000, d=300, density=0.1, seed=41)
    return make_store(tmp_path_factory.mktemp("store"), *rows, chunk_nonzeros=1024, dtype="float32")


@pytest.fixture
def url(server, store):
    server.objects.put("bucket/rows.h5", store.read_bytes())
    return "s3://bucket/rows.h5"


@pytest.fixture(scope="module")
def whole(store):
    return train(store, **SETTINGS)


def test_blocks_are_those_of_the_file(url, server, store):
    with Store(store) as file, Store(url) as remote:
        pairs = itertools.zip_longest(iterate_blocks(file, "40kB"), iterate_blocks(remote, "40kB"))
        n = 0
        for ours, theirs in pairs:
            n += 1
            for name in ("indptr", "indices", "values", "y", "sq_norms", "rows"):
                assert np.array_equal(getattr(ours, name), getattr(theirs, name))
        assert n > 10
        assert remote.read_labels(3).tolist() == file.read_labels(3).tolist()
        assert remote.fingerprint == file.fingerprint
        remote.verify()
        assert remote.name == url
    assert server.objects.data.keys() == {"bucket/rows.h5"}  # nothing was written
    server.objects.put("bucket/text", b"no HDF5 file at all")
    for name, says in (("none.h5", "no such file; expected a blocksvm store"), ("text", "is not a blocksvm store")):
        with pytest.raises(InputError, match=f"^s3://bucket/{name}: {says}"):
            Store(f"s3://bucket/{name}")


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"solver": "pegasos"}, {"block_chunks": None, "memory": 10**9}])
def test_a_run_ends_with_the_bits_of_the_file(url, server, store, settings):
    wanted = train(store, **SETTINGS | settings)
    server.faults += [Fault(what, at=7 * k) for k, what in enumerate(("503", "cut", "drop", "429", "500") * 4, 3)]
    run = train(url, **SETTINGS | settings)
    assert run.same(wanted)
    told = ("primal_estimate", "dual_estimate", "rel_gap", "bytes_read", "rows_visited", "passes")
    for ours, theirs in zip(run.outer(), wanted.outer(), strict=True):
        assert [ours[name] == theirs[name] for name in told if name != "bytes_read"]
    if not settings:
        assert not server.faults or all(fault.at <= 0 for fault in server.faults[:15])


@pytest.mark.slow
def test_a_run_that_is_stopped_and_resumed(url, store, whole, tmp_path):
    """From the file or from the object, wherever it was begun."""
    for begun, resumed in ((url, url), (store, url), (url, store)):
        checkpoint = tmp_path / "c.h5"
        checkpoint.unlink(missing_ok=True)
        for k, source in ((9, begun), (7, resumed), (10**9, resumed)):
            run = train(source, checkpoint=checkpoint, resume=checkpoint.exists(), stop=stop_after(k), **SETTINGS)
        assert run.same(whole)


def test_an_object_that_is_replaced_ends_the_run(url, server, tmp_path):
    checkpoint = tmp_path / "c.h5"
    train(url, checkpoint=checkpoint, stop=stop_after(9), **SETTINGS)
    saved = checkpoint.read_bytes()
    server.faults.append(Fault("swap", at=40))
    with pytest.raises(InputError) as refusal:
        train(url, checkpoint=checkpoint, resume=True, **SETTINGS)
    assert str(refusal.value) == f"{url}: was replaced or changed while this run was reading it; run it again"
    assert checkpoint.read_bytes() == saved


def test_damage_on_the_way_is_found(url, server, store):
    with Store(store) as file:
        place = file.parts.of_chunk(5)[0][0] + 3
    data = bytearray(store.read_bytes())
    data[place] ^= 1
    server.objects.put("bucket/rows.h5", bytes(data))
    with pytest.raises(InputError, match=f"^{url}: chunk 5: checksum does not match; make the store again"):
        train(url, **SETTINGS)


@pytest.mark.slow
def test_an_opening_is_four_requests(tmp_path, server):
    """Of a store much larger than what they bring."""
    rng = np.random.default_rng(3)
    lines = [f"{i % 2} " + " ".join(f"{j}:{v:.9f}" for j, v in zip(np.unique(rng.integers(1, 10**6, 60)),
             rng.random(60), strict=False)) for i in range(12_000)]  # fmt: skip
    path = make_store(tmp_path, "\n".join(lines), dtype="float64")
    data = path.read_bytes()
    assert len(data) > 6_000_000
    server.objects.put("bucket/rows.h5", data)
    with one_run(), Store("s3://bucket/rows.h5") as store:
        assert len(server.seen) <= 4
        store.read_block(np.arange(3), None)
        assert len(server.seen) <= 6  # its rows, its entries
        with Store("s3://bucket/rows.h5"):
            assert len(server.seen) <= 6


@pytest.mark.slow
def test_commands_take_urls(server, url, store, tmp_path, run_in_process, succeeds):
    """Also signed ones, of whose signature nothing tells."""
    signed = f"{server.url('bucket/rows.h5')}?signature=very-secret"
    for name in (url, signed):
        model, trace = tmp_path / "m.h5", tmp_path / "t.jsonl"
        run = succeeds("train", name, model, "--log", trace, "--overwrite", "--max-outer", 3)
        assert "secret" not in run.err
        said, wanted = (succeeds("predict", model, one, "--scores").out for one in (name, store))
        assert said == wanted
        succeeds("info", name, "--verify")
        succeeds("cv", name, "--folds", 2, "-C", "0.1,1", "--quiet")
        shown = name.partition("?")[0]
        for written in (model.read_bytes(), trace.read_bytes()):
            assert b"very-secret" not in written
            assert b"kept-secret" not in written
            assert shown.encode() in written
    assert any("very-secret" in path for _, path, *_ in server.seen)
    outcome = run_in_process("margin", url, "--max-outer", 2)
    assert outcome.code in (0, 2)


@pytest.mark.slow
def test_requests_are_shown(server, url, tmp_path, succeeds):
    trace, model = tmp_path / "t.jsonl", tmp_path / "m.h5"
    options = ("--memory", "1MB", "--working-set", "none")
    succeeds("train", url, model, "--log", trace, *options)
    outers = [event for event in map(json.loads, trace.read_text().splitlines()) if event["event"] == "outer"]
    told, made = sum(event["requests"] for event in outers), len(server.seen)
    assert told <= made <= told + CONNECTIONS + 30  # besides: opening, the features' ids, and what was foreseen in vain
    page = tmp_path / "r.html"
    succeeds("report", trace, "-o", page)
    assert ">requests<" in page.read_text()
