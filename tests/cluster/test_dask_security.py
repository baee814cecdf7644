"""A cluster that is reached by TLS alone: every command that takes ``--cluster`` takes ``--security`` too."""

import json
import subprocess
import sys

import pytest
import trustme
from support.dask_processes import dask_processes

pytest.importorskip("distributed")
pytestmark = [pytest.mark.process, pytest.mark.slow]


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


def run(command: str, *words) -> subprocess.CompletedProcess:
    line = sys.executable, "-P", "-m", f"blocksvm.{command}", *words
    return subprocess.run(list(map(str, line)), capture_output=True, text=True, timeout=120)


def test_every_command_reaches_it(keys, tmp_path):
    text, store = tmp_path / "rows.svm", tmp_path / "rows.h5"
    text.write_text("".join(f"{1 - 2 * (i % 2)} {1 + i % 7}:1 {8 + i % 5}:{i % 3 + 1}\n" for i in range(2000)))
    model, trace, scores = tmp_path / "m.h5", tmp_path / "trace.jsonl", tmp_path / "scores"
    with dask_processes(1, keys) as cluster:
        assert cluster.address.startswith("tls://")
        place = "--cluster", cluster.address, "--security", *keys
        assert run("split", text, store).returncode == 0
        for words in (
            ("train", store, model, "--log", trace, *place),
            ("predict", model, store, scores, *place),
        ):
            done = run(*words)
            assert done.returncode == 0, done.stderr
            assert keys[2] not in done.stdout + done.stderr
        strangers = run("train", store, tmp_path / "no.h5", "--cluster", cluster.address)
        assert strangers.returncode == 2
        assert "no scheduler answers" in strangers.stderr.splitlines()[-1]
    for file in (model, trace):
        assert b"key.pem" not in file.read_bytes()
    assert [json.loads(line)["event"] for line in trace.read_text().splitlines()][-1] == "end"
