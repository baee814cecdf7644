"""A client of a Dask scheduler, or of processes of this machine, with a deadline for its answer."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from multiprocessing import resource_tracker

from blocksvm.base.errors import InputError, option
from blocksvm.base.memory import megabytes

ANSWER = 10.0  # seconds that the scheduler has to answer
READY = 120.0  # seconds that a worker has to open the store
MEMORY_SHARE = 0.6  # of a worker's limit, at most: Dask ends a worker near its limit
SETTINGS = {
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.no-workers-timeout": None,
    "distributed.admin.large-graph-warning-threshold": "10GB",
    "distributed.comm.timeouts.connect": "10s",
}


@contextmanager
def dask_client(address: str, security, failures: int = 0) -> Iterator:
    """A client, closed at the end.  address: of a scheduler, or local:N, N processes of this machine; security: paths
    of the authority's certificate, and of this client's certificate and key, or Dask's own object, or None; failures:
    of workers that a task may meet before it has failed, on this machine.  Raises InputError where Dask is missing or
    nobody answers at the address."""
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
        stack.enter_context(dask.config.set(SETTINGS | {"distributed.scheduler.allowed-failures": failures}))
        try:
            place: object = address
            if address.startswith("local:"):
                place = local_cluster(distributed, address)
                stack.callback(closed, place)
            client = within(2 * ANSWER, partial(connected, distributed.Client, place, tls(distributed, security)))
            stack.callback(client_closed, client)
            client.nthreads(callback_timeout=ANSWER)
        except InputError:
            raise
        except Exception as error:
            what, advice = (
                ("its processes do not start", "a script that starts them does so under if __name__ == '__main__'")
                if address.startswith("local:")
                else (
                    "no scheduler answers",
                    "start one with 'dask scheduler' and workers with 'dask worker HOST:PORT'",
                )
            )
            why = str(error) or type(error).__name__
            raise InputError(f"{option('cluster', address)}: {what} ({why}); {advice}") from error
        yield client


def described_worker(make_ready: Callable[[int], None]) -> dict:
    """What a worker may take, or the sentence why it cannot take part; make_ready(threads) raises InputError there."""
    from distributed import get_worker

    worker = get_worker()
    try:
        make_ready(worker.state.nthreads)
    except InputError as error:
        return {"fault": str(error)}
    limit = getattr(worker.memory_manager, "memory_limit", None)
    return {"limit": limit, "threads": worker.state.nthreads}


def memory_fault(limit: int | None, need: int, advice: str) -> str:
    """The sentence on a worker that may take too little memory; ''."""
    if not limit or MEMORY_SHARE * limit >= need:
        return ""
    least = f"{MEMORY_SHARE:.0%} must be {megabytes(need)} or more"
    return f"may take {megabytes(limit)} of memory, of which {least}; {advice}"


def connected(kind: type, place, security):
    """A client, closed where it does not reach its scheduler."""
    client = kind.__new__(kind)
    try:
        client.__init__(place, timeout=ANSWER, set_as_default=False, security=security)  # type: ignore[misc]
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


def n_local(address: str) -> int:
    """N of local:N."""
    n = address.removeprefix("local:")
    if not n.isdigit() or int(n) < 1:
        raise InputError(f"{option('cluster', address)}: expected local:N with N of 1 or more")
    return int(n)


def local_cluster(distributed, address: str):
    n = n_local(address)
    with signals_held():
        return distributed.LocalCluster(
            n_workers=n, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        )


@contextmanager
def signals_held() -> Iterator[None]:
    """Meanwhile Ctrl-C and a closed terminal, which reach all processes of a terminal, wait; processes that are started
    now never get them, and end with the one that starts them."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which lets SIGINT through when it is started
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def tls(distributed, security):
    if not isinstance(security, list):
        return security
    authority, certificate, key = security
    return distributed.Security(
        tls_ca_file=authority, tls_client_cert=certificate, tls_client_key=key, require_encryption=True
    )


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
    return made.result(seconds)
