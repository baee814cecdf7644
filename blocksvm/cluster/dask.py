"""A Dask cluster: its scheduler decides who makes which part, makes again what is lost with a worker, and gives work to
those who join.  Here are the client, and the window of parts that are under way, whose answers are taken in order."""

import asyncio
import logging
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain, islice
from multiprocessing import resource_tracker
from operator import itemgetter
from time import monotonic
from typing import Any

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.log import LOG
from blocksvm.cluster.part import Job, make, size_of
from blocksvm.training.loop import Stopped
from blocksvm.training.record import Traffic

TIMEOUT = 900.0  # seconds: Dask takes 5 to 10 minutes to give up a worker that has stopped (worker-ttl)
ANSWER = 10.0  # seconds that the scheduler has to answer
LOOK = 1.0  # seconds between looks at whether to go on waiting
FETCH = 60.0  # seconds for an answer to come from its worker, before it is asked for once more
RETRIES = 3  # of a part that fails
SETTINGS = {
    "distributed.scheduler.worker-ttl": "1 minute",  # of local:N
    "distributed.admin.large-graph-warning-threshold": "10GB",
    "distributed.comm.timeouts.connect": "10s",
    # of local:N: by default Dask has its workers give freed memory back at once, and get it again page by page
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
}


class ClusterLost(InputError):
    """There is nobody to go on with."""


class Cluster:
    """address: of a scheduler, or local:N, processes of this machine, or a ``distributed.Client``; security: paths of
    the authority's certificate, the client's and its key, or Dask's own object; timeout: seconds to wait for an answer;
    say(text) is called with what the user should know."""

    def __init__(self, address: Any, security: Any = None, timeout: float = TIMEOUT, say: Callable = LOG.warning):
        if hasattr(address, "scheduler"):
            address, security = address.scheduler.address, address.security
        if not isinstance(address, str):
            wanted = "needs a scheduler's address, local:N, or a distributed.Client"
            raise InputError(f"{option('cluster', address)}: {wanted}")
        self.address, self.security, self.timeout, self.say = address, security, timeout, say
        self.name = f"cluster {address}"
        self.client: Any = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """With a client, which those share who open it meanwhile."""
        with ExitStack() as stack:
            if self.client is None:
                self.client = dask_client(stack, self.address, self.security)
                stack.callback(setattr, self, "client", None)
            yield

    def keep(self, value: Any) -> Any:
        """What stands for a value that several parts need: a task, which Dask can do again, as it cannot scatter it."""
        return self._task(itemgetter(0), (value,))

    def submit(self, *call: Any) -> Future:
        """Have a function called by a worker: (function, what it is given)."""
        return asyncio.run_coroutine_threadsafe(self._fetched(self._task(*call)), self.client.loop.asyncio_loop)

    def _task(self, *call: Any) -> Any:
        with self.answering():
            return self.client.submit(*call, pure=False, retries=RETRIES)

    async def _fetched(self, task) -> Any:
        """The answer, straight from its worker, as soon as it is there.  A worker that has stopped never sends it, but
        Dask has it made by another one, which is then asked."""
        while True:
            try:
                return await asyncio.wait_for(self.client.gather(task, direct=True, asynchronous=True), FETCH)
            except BaseException:
                shared = self.client._gather_future
                if shared is not None and shared.cancelled():  # Dask would have all who ask later wait for it
                    self.client._gather_future = None
                ended = task.status in ("error", "cancelled") or asyncio.current_task().cancelling()
                if ended or self.client.status != "running":
                    raise

    @contextmanager
    def answering(self) -> Iterator[None]:
        """ClusterLost for what the body fails with, but for an InputError."""
        try:
            yield
        except InputError:
            raise
        except Exception as error:
            gone = self.client.status != "running" or isinstance(error, TimeoutError)
            why = f"the scheduler does not answer any more ({type(error).__name__})" if gone else repr(error)
            raise ClusterLost(f"{self.name}: {' '.join(why.split())}") from error

    def n_workers(self) -> int:
        with self.answering():
            return len(self.client.nthreads(callback_timeout=ANSWER))


class Parts:
    """Parts of a job that are under way, at most so many, and their answers in order; n_bytes, opened: of the ``Job``,
    the latter as a function and what it is given."""

    whole: np.ndarray | None = None  # the w that was sent whole last
    sent: Any = None  # what stands for it
    told = False

    def __init__(self, cluster: Cluster, most: int, n_bytes: int, *opened: Any):
        self.cluster, self.most = cluster, most
        self.job = cluster.keep(Job(n_bytes, partial(*opened)))
        self.to_come: Iterator[tuple] = iter(())
        self.under_way: deque[Future] = deque()
        self.traffic = Traffic()

    def begin(self, traffic: Traffic) -> None:
        """Want nothing any more of what is under way, and count what follows there."""
        self.to_come, self.traffic = iter(()), traffic
        while self.under_way:
            self.under_way.popleft().cancel()

    def version(self, w: np.ndarray) -> tuple:
        """What stands for w: the one that was sent whole, and where it differs; or itself, where it takes less."""
        w = w.reshape(-1)
        if self.whole is not None:
            positions = np.flatnonzero(w != self.whole).astype(np.int32 if w.size < 2**31 else np.int64)
            change = positions, w[positions]
            if size_of(change) <= w.nbytes // 2:
                self.traffic.bytes_sent += size_of(change)
                return self.sent, self.cluster.keep(change)
        self.whole = w.copy()
        self.sent = self.cluster.keep(self.whole)
        self.traffic.bytes_sent += w.nbytes
        return (self.sent,)

    def want(self, parts: Iterable, w: np.ndarray | None = None) -> None:
        """Have parts made, at w as it is now, each of which is taken when there is room for it."""
        version = () if w is None else self.version(w)
        self.to_come = chain(self.to_come, ((part, *version) for part in parts))
        self._send()

    def _send(self) -> None:
        for given in islice(self.to_come, max(0, self.most - len(self.under_way))):
            self.traffic.bytes_sent += size_of(given[0])
            self.under_way.append(self.cluster.submit(make, self.job, *given))

    def take(self, stop: Callable[[], bool] = lambda: False) -> Any:
        """The next answer; Stopped where stop() says so meanwhile, ClusterLost where it does not come."""
        cluster, began, future = self.cluster, monotonic(), self.under_way[0]
        while not wait([future], LOOK).done:
            if stop():
                raise Stopped
            waited = monotonic() - began
            if waited > cluster.timeout:
                raise ClusterLost(f"{cluster.name}: no worker has answered for {cluster.timeout:.0f}s")
            if waited > ANSWER and not self.told and not cluster.n_workers():
                self.told = True
                cluster.say(f"{cluster.name}: has no workers; waiting for one")
        with cluster.answering():
            answer = future.result()
        self.under_way.popleft()
        self.traffic.seconds_waiting += monotonic() - began
        self.traffic.bytes_received += size_of(answer)
        self._send()
        return answer


def dask_client(stack: ExitStack, address: str, security: Any) -> Any:
    """A client, closed with the stack.  Raises InputError where Dask is missing or nobody answers at the address."""
    try:
        import dask
        import distributed
    except ImportError:
        raise InputError(f"{option('cluster')}: needs Dask; pip install 'blocksvm[cluster]'") from None
    for name in ("distributed", "distributed.client", "tornado.application"):  # what they log is told in a sentence
        stack.callback(logging.getLogger(name).setLevel, logging.getLogger(name).level)
        logging.getLogger(name).setLevel(logging.CRITICAL)
    stack.enter_context(dask.config.set(SETTINGS))
    local, target = re.fullmatch(r"local:(.*)", address), address
    if local and not re.fullmatch("0*[1-9][0-9]*", local[1]):
        raise InputError(f"{option('cluster', address)}: expected local:N with N of 1 or more")
    try:
        if isinstance(security, list):
            names = "tls_ca_file", "tls_client_cert", "tls_client_key"
            security = distributed.Security(**dict(zip(names, security, strict=True)), require_encryption=True)
        if local:
            # Ctrl-C and a closed terminal reach all processes of a terminal; those that are started now never get them
            with ExitStack() as blocked:
                resource_tracker.ensure_running()  # which lets SIGINT through when it is started
                before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
                blocked.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
                more = {"dashboard_address": ":0", "silence_logs": 50}
                target = distributed.LocalCluster(int(local[1]), threads_per_worker=1, **more)
            stack.callback(closed, target)
        client, begun = distributed.Client.__new__(distributed.Client), Future()

        def begin() -> None:
            try:
                begun.set_result(client.__init__(target, timeout=ANSWER, set_as_default=False, security=security))
            except BaseException as error:
                begun.set_exception(error)

        # a scheduler may accept a client and never answer; then the client is closed when it has been told so
        stack.callback(begun.add_done_callback, lambda begun: closed(client, status="closed"))
        threading.Thread(target=begin, name="blocksvm-connect", daemon=True).start()
        begun.result(2 * ANSWER)
    except Exception as error:
        why, what = str(error) or type(error).__name__, "no scheduler answers"
        advice = "start one with 'dask scheduler' and workers with 'dask worker HOST:PORT'"
        if local:
            what, advice = "its processes do not start", "a script starts them under if __name__ == '__main__'"
        raise InputError(f"{option('cluster', address)}: {what} ({why}); {advice}") from error
    return client


def closed(resource, **attributes) -> None:
    """Close it for good.  A client that is collected without being closed closes itself: where that happens while Dask
    starts another one, it waits for ever for a lock that its own thread holds."""
    with suppress(Exception):  # what is left of it ends with this process
        resource.close(timeout=ANSWER)
    vars(resource).update(attributes)
