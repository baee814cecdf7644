"""A cluster whose workers are threads of this process, for tests of what does not depend on who they are."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from unittest.mock import patch

from blocksvm.cluster import part
from blocksvm.cluster.dask import Cluster


class ThreadCluster(Cluster):
    """Of n threads."""

    def __init__(self, n: int):
        super().__init__("threads", timeout=60.0)
        self.name, self.n = "threads", n

    @contextmanager
    def opened(self) -> Iterator[None]:
        if self.client is not None:
            yield
            return
        held: dict[int, ExitStack] = {}

        def call(function, *given):
            try:
                return function(*given)
            finally:
                held[threading.get_ident()] = part.held.stack

        with ThreadPoolExecutor(self.n) as threads, patch.object(part, "check"):
            self.client = SimpleNamespace(status="running", submit=lambda *given: threads.submit(call, *given))
            yield
            self.client = None
        for stack in held.values():
            stack.close()

    def keep(self, value):
        return value

    def submit(self, *call) -> Future:
        return self.client.submit(*call)

    def n_workers(self) -> int:
        return self.n
