"""A Dask cluster: its scheduler decides who makes which part, makes again what is lost with a worker, and gives work to
those who join.  Here are the client, and the window of parts that are under way, whose answers are taken in order."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import chain, islice
from multiprocessing import resource_tracker
from time import monotonic
from typing import Any

import numpy as np

from blocksvm.base.errors import InputError, option
from blocksvm.base.log import LOG
from blocksvm.cluster.part import Job, make, size_of
from blocksvm.training.record import Traffic

TIMEOUT = 900.0  # seconds: Dask takes 5 to 10 minutes to give up a worker that has stopped (worker-ttl)
ANSWER = 10.0  # seconds that the scheduler has to answer
LOOK = 1.0  # seconds between looks at whether to go on waiting
FETCH = 60.0  # seconds for an answer to come from its worker, before it is asked for once more
RETRIES = 3  # of a part that fails
SETTINGS = {
    "distributed.scheduler.no-workers-timeout": None,
    "distributed.scheduler.worker-ttl": "1 minute",  # of local:N
    "distributed.admin.large-graph-warning-threshold": "10GB",
    "distributed.comm.timeouts.connect": "10s",
    # of local:N: by default Dask has its workers give freed memory back at once, and get it again page by page
    "distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": 1 << 28,
    "distributed.nanny.pre-spawn-environ.MALLOC_MMAP_THRESHOLD_": 1 << 25,
}


class ClusterLost(InputError):
    """There is nobody to go on with."""


class StoppedWaiting(Exception):
    """The run was stopped while it waited."""


class Cluster:
    """address: of a scheduler, or local:N, N processes of this machine; security: paths of the authority's certificate,
    and of this client's certificate and key, or Dask's own object, or None; timeout: seconds that a run waits for an
    answer; say(text) is called with what the user should know.

    Parts are tasks, and what they need are tasks, too, of which Dask has the definition: so it makes again what was
    lost with a worker, which it cannot where values were scattered."""

    def __init__(self, address: str, security: Any = None, timeout: float = TIMEOUT, say: Callable = LOG.warning):
        self.address, self.security, self.timeout, self.say = address, security, timeout, say
        self.name = f"cluster {address}"
        self.client: Any = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """With a client, which those share who open it meanwhile."""
        if self.client is not None:
            yield
            return
        with dask_client(self.address, self.security) as self.client:
            try:
                yield
            finally:
                self.client = None

    def keep(self, value: Any) -> Any:
        """What stands, in ``submit``, for a value that several parts need."""
        return self._task(same, value)

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
                shared, this = self.client._gather_future, asyncio.current_task()
                if shared is not None and shared.cancelled():  # Dask would have all who ask later wait for it
                    self.client._gather_future = None
                ended = task.status in ("error", "cancelled") or this is None or this.cancelling()
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
            gone = f"the scheduler does not answer any more ({type(error).__name__})"
            why = gone if self.client.status != "running" else " ".join(repr(error).split())
            raise ClusterLost(f"{self.name}: {why}") from error

    def n_workers(self) -> int:
        try:
            return len(self.client.nthreads(callback_timeout=ANSWER))
        except Exception as error:
            raise ClusterLost(f"{self.name}: the scheduler does not answer ({type(error).__name__})") from error


def same(value: Any) -> Any:
    return value


class Parts:
    """Parts of a job that are under way, at most so many, and their answers in order."""

    def __init__(self, cluster: Cluster, job: Job, most: int):
        self.cluster, self.most = cluster, most
        self.job = cluster.keep(job)
        self.to_come: Iterator[tuple[Any, tuple]] = iter(())
        self.under_way: deque[Future] = deque()
        self.traffic = Traffic()
        self.whole: np.ndarray | None = None
        self.sent: Any = None
        self.told = False

    def begin(self, traffic: Traffic) -> None:
        """Want nothing any more of what is under way, and count what follows there."""
        self.to_come, self.traffic = iter(()), traffic
        while self.under_way:
            self.under_way.popleft().cancel()

    def version(self, w: np.ndarray) -> tuple:
        """What stands for w as it is now: the one that was sent whole last, and where it differs; or itself, where that
        would be half as many bytes."""
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

    def want(self, parts: Iterable, *version: Any) -> None:
        """Have parts made, at this w, each of which is taken when there is room for it."""
        self.to_come = chain(self.to_come, ((part, *version) for part in parts))
        self._send()

    def _send(self) -> None:
        for given in islice(self.to_come, max(0, self.most - len(self.under_way))):
            self.traffic.bytes_sent += size_of(given[0])
            self.under_way.append(self.cluster.submit(make, self.job, *given))

    def take(self, stop: Callable[[], bool] = lambda: False) -> Any:
        """The next answer; StoppedWaiting where stop() says so meanwhile, ClusterLost where it does not come."""
        cluster, began, future = self.cluster, monotonic(), self.under_way[0]
        while not wait([future], LOOK).done:
            if stop():
                raise StoppedWaiting
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


# -- the client --------------------------------------------------------------------------------------------------------


@contextmanager
def dask_client(address: str, security) -> Iterator:
    """A client, closed at the end; address, security: as ``Cluster`` has them.  Raises InputError where Dask is missing
    or nobody answers at the address."""
    try:
        import dask
        import distributed
    except ImportError:
        raise InputError(f"{option('cluster')}: needs Dask; pip install 'blocksvm[cluster]'") from None
    with ExitStack() as stack:
        for name in ("distributed", "distributed.client", "tornado.application"):  # what they log is told in a sentence
            logger = logging.getLogger(name)
            stack.callback(logger.setLevel, logger.level)
            logger.setLevel(logging.CRITICAL)
        stack.enter_context(dask.config.set(SETTINGS))
        try:
            target: object = address
            if address.startswith("local:"):
                target = local_cluster(distributed, address)
                stack.callback(closed, target)
            client = within(2 * ANSWER, partial(connected, distributed.Client, target, tls(distributed, security)))
            stack.callback(client_closed, client)
            client.nthreads(callback_timeout=ANSWER)
        except InputError:
            raise
        except Exception as error:
            why, what = str(error) or type(error).__name__, "no scheduler answers"
            advice = "start one with 'dask scheduler' and workers with 'dask worker HOST:PORT'"
            if address.startswith("local:"):
                what, advice = "its processes do not start", "a script starts them under if __name__ == '__main__'"
            raise InputError(f"{option('cluster', address)}: {what} ({why}); {advice}") from error
        yield client


def connected(kind: type, target, security):
    """A client, closed where it does not reach its scheduler."""
    client = kind.__new__(kind)
    try:
        client.__init__(target, timeout=ANSWER, set_as_default=False, security=security)  # type: ignore[misc]
    except BaseException:
        client_closed(client)
        raise
    return client


def client_closed(client) -> None:
    """Close a client for good.  One that is collected without being closed closes itself: where that happens while Dask
    starts another one, it waits for ever for a lock that its own thread holds."""
    closed(client)
    client.status = "closed"


def closed(resource) -> None:
    with suppress(Exception):  # what is left of it ends with this process
        resource.close(timeout=ANSWER)


def local_cluster(distributed, address: str):
    """The processes of local:N.  Meanwhile Ctrl-C and a closed terminal, which reach all processes of a terminal, wait;
    processes that are started now never get them, and end with the one that starts them."""
    n = address.removeprefix("local:")
    if not n.isdigit() or int(n) < 1:
        raise InputError(f"{option('cluster', address)}: expected local:N with N of 1 or more")
    with ExitStack() as stack:
        if hasattr(signal, "pthread_sigmask"):
            resource_tracker.ensure_running()  # which lets SIGINT through when it is started
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
            stack.callback(signal.pthread_sigmask, signal.SIG_SETMASK, before)
        return distributed.LocalCluster(int(n), threads_per_worker=1, dashboard_address=":0", silence_logs=50)


def tls(distributed, security):
    if not isinstance(security, list):
        return security
    files = dict(zip(("tls_ca_file", "tls_client_cert", "tls_client_key"), security, strict=True))
    return distributed.Security(**files, require_encryption=True)


def within(seconds: float, make: Callable):
    """What ``make()`` returns; TimeoutError where it takes longer, as a client does that a scheduler accepts and never
    answers."""
    made: Future = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:
            made.set_exception(error)

    threading.Thread(target=run, name="blocksvm-connect", daemon=True).start()
    try:
        return made.result(seconds)
    except TimeoutError:
        made.add_done_callback(lambda late: late.exception() or client_closed(late.result()))
        raise
