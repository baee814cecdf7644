"""Independent tasks where joblib is configured to run them: on threads, on processes of this machine (loky) or on a
Dask cluster.

joblib says where and how many at once (``parallel_config``).  Executors of Python's own protocol run the tasks:
joblib's own loop over a Dask cluster waits for ever for a task whose worker has died.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from blocksvm.base.errors import InputError, option
from blocksvm.base.held_signals import signals_held
from blocksvm.base.objects.object_settings import ObjectSettings
from blocksvm.base.objects.remote_path import object_settings
from blocksvm.base.settings import n_threads
from blocksvm.kernels.compiling import processor
from blocksvm.model.versions import versions
from blocksvm.store.reader import Store

Task = TypeVar("Task")
Result = TypeVar("Result")

LOOK = 0.5  # seconds between looks at whether the user wants to stop


def here() -> dict[str, str]:
    """What decides the bits of a result beside the data: versions, and the kind of processor."""
    return {**versions(), "processor": processor()}


def difference(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """The sentence on another version or processor of a worker; ''."""
    for name, own in ours.items():
        if theirs.get(name) != own:
            return f"has {name} {theirs.get(name)}, and {own} is here: bits could differ; make them the same"
    return ""


@dataclass(frozen=True)
class SharedStore:
    """A store that every process opens by its path; fingerprint, about (``here``): of the process that asks;
    objects: how it is read where it is an object."""

    path: str
    fingerprint: str
    about: dict[str, str] = field(default_factory=here)
    objects: ObjectSettings = field(default_factory=object_settings)

    def open(self) -> Store:
        """InputError where this process sees another store, or would compute other bits."""
        if fault := difference(here(), self.about):
            raise InputError(f"{platform.node()}: {fault}")
        store = Store(self.path, self.objects)
        if store.fingerprint != self.fingerprint:
            store.close()
            raise InputError(f"{self.path}: is another store on {platform.node()}; all processes must see the same")
        return store

    def look(self, threads: int) -> None:
        """InputError as ``open``."""
        self.open().close()


class OnThreads:
    """n tasks at once, each by so many threads of this process.  in_process: tasks see what this process has;
    abandoned: those that do shall end."""

    in_process = True
    abandoned = False

    def __init__(self, n: int, threads: int):
        self.n, self.threads = n, threads

    def start(self) -> Executor:
        return ThreadPoolExecutor(self.n, thread_name_prefix="blocksvm-task")

    def hearing(self, work: Callable, stop: Callable[[], bool]) -> Callable:
        """``work``, which asks ``stop()`` whether it is still wanted, as far as that can be known where it runs."""
        return partial(work, stop=lambda: self.abandoned or stop())

    def result(self, future: Future) -> Any:
        """What a task has returned.  InputError where whoever made it has died."""
        return future.result()

    def look(self) -> None:
        """InputError where nobody is left to run tasks."""

    def abandon(self, executor: Executor) -> None:
        """End tasks that are not wanted any more."""
        self.abandoned = True
        executor.shutdown(wait=True, cancel_futures=True)


class OnProcesses(OnThreads):
    """n processes of this machine, kept for the next tasks: joblib's own, since loky keeps one set in a process, and
    joblib takes whatever it finds there for its own."""

    in_process = False

    def start(self) -> Executor:
        from joblib.executor import get_memmapping_executor

        return get_memmapping_executor(self.n, max_nbytes=None)

    def hearing(self, work: Callable, stop: Callable[[], bool]) -> Callable:
        return work  # the processes are killed

    def result(self, future: Future) -> Any:
        try:
            return future.result()
        except BrokenExecutor:
            raise InputError(
                "a process that had a part of the work has died, perhaps for lack of memory; lower "
                f"{option('memory')}, or run it again with fewer processes"
            ) from None

    def abandon(self, executor: Any) -> None:
        executor.shutdown(kill_workers=True)


class OnDask(OnThreads):
    """Workers of a Dask cluster, of whose client joblib's configuration has; timeout: seconds without any worker."""

    in_process = False

    def __init__(self, client, timeout: float):
        super().__init__(sum(client.ncores().values()), 1)
        self.client, self.timeout = client, timeout
        self.seen = time.monotonic()

    def require(self, store: SharedStore, n_bytes: int, n_tasks: int) -> None:
        """InputError unless every worker sees the store, and may take ``n_bytes`` for each of the tasks that it may
        get at once."""
        from blocksvm.cluster.dask_client import ANSWER, READY, described_worker, memory_fault

        futures = {}
        for worker in self.client.nthreads(callback_timeout=ANSWER):
            there = self.client.get_executor(workers=[worker], allow_other_workers=True, pure=False)
            futures[there.submit(described_worker, store.look)] = worker
        wait(futures, READY, FIRST_COMPLETED)
        done, _ = wait(futures, ANSWER)  # the others may become ready while some are at work
        if not done:
            raise InputError(f"no worker of the Dask cluster became ready within {READY:.0f}s")
        for future in done:
            worker, error = futures[future], future.exception()
            answer = future.result() if error is None else {"fault": f"did not become ready ({type(error).__name__})"}
            if fault := answer.get("fault"):
                raise InputError(f"worker {worker}: {fault}")
            advice = f"raise its memory limit, or lower {option('memory')}"
            if fault := memory_fault(answer["limit"], n_bytes * min(n_tasks, answer["threads"]), advice):
                raise InputError(f"worker {worker}: {fault}")

    def start(self) -> Executor:
        return self.client.get_executor(pure=False)

    def hearing(self, work: Callable, stop: Callable[[], bool]) -> Callable:
        from blocksvm.cluster.dask_client import hearing_worker

        return partial(hearing_worker, work)

    def result(self, future: Future) -> Any:
        try:
            return future.result()
        except BaseException as error:
            if not type(error).__module__.startswith(("distributed", "concurrent", "asyncio")):
                raise
            what = " ".join(str(error).split()) or type(error).__name__
            raise InputError(f"the Dask cluster has given a part of the work up: {what}") from None

    def look(self) -> None:
        from blocksvm.cluster.dask_client import ANSWER

        try:
            if self.client.nthreads(callback_timeout=ANSWER):
                self.seen = time.monotonic()
        except Exception:  # nobody answers now
            pass
        if time.monotonic() - self.seen > self.timeout:
            raise InputError(f"no worker of the Dask cluster has answered for {self.timeout:g}s; start workers again")

    def abandon(self, executor: Executor) -> None:
        executor.shutdown(wait=False)


def configured(n_jobs: int | None, n_tasks: int, in_process: bool) -> OnThreads:
    """Where so many tasks run, as joblib is configured; n_jobs: processors, as ``n_threads`` counts them; in_process:
    threads in any case."""
    from joblib.parallel import get_active_backend

    backend, _ = get_active_backend(prefer="threads")
    if not in_process and (client := getattr(backend, "client", None)) is not None:
        return OnDask(client, backend.wait_for_workers_timeout)
    n = n_threads(n_jobs)
    at_once = max(1, min(n, n_tasks))
    shared = in_process or getattr(backend, "supports_sharedmem", False)
    place = OnThreads if shared else OnProcesses
    return place(at_once, max(1, n // at_once))


def results(
    place: OnThreads, work: Callable[..., Result], tasks: Sequence[Task], stop: Callable[[], bool]
) -> Iterator[tuple[int, Result]]:
    """(number, ``work(task)``) of each task, as they are done; fewer where the user has stopped.  work takes ``stop``,
    by default never True."""
    executor, work = place.start(), place.hearing(work, stop)
    with signals_held():
        futures = {executor.submit(work, task): number for number, task in enumerate(tasks)}
    try:
        while futures:
            done, _ = wait(futures, LOOK, FIRST_COMPLETED)
            if stop():
                return
            for future in done:
                number = futures.pop(future)
                yield number, place.result(future)
            if not done:
                place.look()
    finally:
        if futures or place.in_process:  # loky keeps its processes for the next tasks
            place.abandon(executor)
