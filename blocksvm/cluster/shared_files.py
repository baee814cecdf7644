"""Tasks of joblib on a cluster whose workers read and write files of this process: whether they see the same ones."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from blocksvm.base.errors import InputError, option
from blocksvm.base.objects.remote_path import absolute_name, file_size, place
from blocksvm.cluster.dask_client import joblib_on_dask
from blocksvm.cluster.executors import difference
from blocksvm.model.versions import versions


@contextmanager
def joblib_with_files(address: str, security, inputs: Sequence[str], folder: Path) -> Iterator[None]:
    """Let joblib's tasks run on a cluster; inputs: files that they read; folder: in which they write.  InputError where
    a worker sees other files, or has other versions than this process."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; {option('temp')} names an existing one")
    with joblib_on_dask(address, security) as client:
        with tempfile.NamedTemporaryFile(prefix=".blocksvm-", dir=folder) as token:
            paths = [absolute_name(path) for path in (*inputs, token.name) if place(path).is_file()]
            token.write(b"x" * (1 + os.getpid() % 1000))  # a size that no file of an earlier run has
            token.flush()
            require_seen(client, address, paths)
        yield


def require_seen(client, address: str, paths: list[str]) -> None:
    try:
        answers = client.run(seen_here, paths)
    except Exception as error:
        raise InputError(
            f"{option('cluster', address)}: a worker cannot run blocksvm ({' '.join(str(error).split())}); install the "
            "same version on all"
        ) from error
    expected, here = seen_here(paths)
    for worker, (sizes, there) in sorted(answers.items()):
        for path, size, wanted in zip(paths, sizes, expected, strict=True):
            if size != wanted:
                what = place(path).parent if path == paths[-1] else path
                raise InputError(
                    f"worker {worker}: does not see {what} as it is here; every worker must see the inputs and the "
                    f"folder for temporary files ({option('temp')}) under the same paths"
                )
        if fault := difference(there, here):
            raise InputError(f"worker {worker}: {fault}")


def seen_here(paths: list[str]) -> tuple[list[int | None], dict[str, str]]:
    """The sizes of files, None where there is no such file, and the versions of this process."""
    return [file_size(path) for path in paths], versions()
