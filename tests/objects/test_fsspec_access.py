"""Objects of schemes that obstore does not know, by fsspec."""

from __future__ import annotations

import fsspec
import numpy as np
import pytest
from support.training_cases import make_store, random_rows, train

from blocksvm.base.errors import InputError
from blocksvm.base.inputs import open_input
from blocksvm.base.objects.remote_path import place
from blocksvm.base.outputs.writing import written_whole


@pytest.fixture
def memory():
    files = fsspec.filesystem("memory")
    files.store.clear()
    yield files
    files.store.clear()


def test_files_are_read_and_written(memory):
    path = place("memory://folder/data")
    assert not path.exists()
    for overwrite, text in ((False, b"first"), (True, b"second")):
        with written_whole(path, overwrite) as file:
            file.write(text)
        with open_input(path) as file:
            assert file.read() == text
    with pytest.raises(InputError, match="was made by another run"), written_whole(path, overwrite=False):
        pass
    with written_whole(place("memory://folder/run#1?x%20y")) as file:
        file.write(b"third")
    assert memory.cat("/folder/run#1?x%20y") == b"third"
    with pytest.raises(InputError, match="is a folder"):
        place("memory://folder").exists()
    path.unlink()
    assert not path.exists()
    with pytest.raises(InputError, match="^nonsense://x/y: cannot be opened"):
        place("nonsense://x/y").exists()


def test_a_run_reads_one_state_of_a_store(memory, tmp_path):
    store = make_store(tmp_path, *random_rows(n=400, d=40), chunk_nonzeros=256)
    memory.pipe_file("/rows.h5", store.read_bytes())
    settings = {"block_chunks": 3, "max_outer": 2, "tol": 0.0}
    run, wanted = (train(source, **settings) for source in ("memory://rows.h5", store))
    assert np.array_equal(run.w, wanted.w)
    remote = place("memory://rows.h5").remote
    remote.identity()
    memory.pipe_file("/rows.h5", store.read_bytes() + b"more")
    with pytest.raises(InputError, match="was replaced or changed"):
        remote.read(0, 10)
