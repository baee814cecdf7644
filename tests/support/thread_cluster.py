"""A cluster whose workers are threads of this process, for tests of what does not depend on who they are."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

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
            held[threading.get_ident()] = part.held.stack
            return function(*given)

        with ThreadPoolExecutor(self.n) as threads:
            self.client = lambda function, *given: threads.submit(call, function, *given)
            yield
            self.client = None
        for stack in held.values():
            stack.close()

    def keep(self, value):
        return value

    def submit(self, function, *given) -> Future:
        return self.client(function, *given)

    def n_workers(self) -> int:
        return self.n
