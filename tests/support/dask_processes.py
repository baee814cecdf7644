"""A Dask cluster of processes of their own, as users start one; ending it all waits for nobody."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from support.paths import ROOT, TESTS

PATIENCE = 60.0  # seconds for a process to start
QUIET = {"DASK_LOGGING__DISTRIBUTED": "critical", "PYTHONPATH": f"{ROOT}{os.pathsep}{TESTS}"}


class DaskProcesses:
    """address: of the scheduler; workers: processes of one thread; tls: paths of certificates and a key; ttl: as
    Dask's worker-ttl."""

    def __init__(self, folder: str, tls: Sequence[str] = (), ttl: str = "5 minutes"):
        self.folder, self.tls, self.ttl = folder, tls, ttl
        self.workers: list[subprocess.Popen] = []
        contact = Path(folder, "scheduler.json")
        self.scheduler = self._start("scheduler", "--port", "0", "--host", "127.0.0.1", "--scheduler-file", contact,
                                     *(("--protocol", "tls") if tls else ()))  # fmt: skip
        ends = time.monotonic() + PATIENCE
        while not hasattr(self, "address"):
            assert time.monotonic() < ends, "the scheduler has not started"
            time.sleep(0.02)
            with suppress(FileNotFoundError, json.JSONDecodeError):  # it may be half written
                self.address = json.loads(contact.read_text())["address"]

    def _start(self, role: str, *options) -> subprocess.Popen:
        words = [sys.executable, "-P", "-m", f"distributed.cli.dask_{role}", *map(str, options), "--no-dashboard"]
        for option, path in zip(("--tls-ca-file", "--tls-cert", "--tls-key"), self.tls, strict=False):
            words += [option, path]
        settings = os.environ | QUIET | {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": self.ttl}
        return subprocess.Popen(words, env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def add(self, n: int = 1) -> None:
        """Start workers, and wait until they are there."""
        import distributed

        for _ in range(n):
            options = "--no-nanny", "--nthreads", "1", "--local-directory", self.folder
            self.workers.append(self._start("worker", self.address, *options))
        names = "tls_ca_file", "tls_client_cert", "tls_client_key"
        security = distributed.Security(**dict(zip(names, self.tls, strict=True))) if self.tls else None
        with distributed.Client(self.address, security=security, set_as_default=False, timeout=PATIENCE) as client:
            client.wait_for_workers(sum(one.poll() is None for one in self.workers), timeout=PATIENCE)

    def close(self) -> None:
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()


@contextmanager
def dask_processes(n: int, tls: Sequence[str] = (), ttl: str = "5 minutes") -> Iterator[DaskProcesses]:
    """A scheduler with n workers, killed at the end; ttl: how long it waits for one that is silent."""
    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        closing(DaskProcesses(folder, tls, ttl)) as cluster,
    ):
        cluster.add(n)
        yield cluster
