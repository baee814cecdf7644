"""Workers of a Dask cluster.

Parts are tasks, no actors: a worker may leave at any time, and nothing is lost with it.  Fetching an answer is an event
as well, since a worker that has been stopped keeps whoever fetches from it waiting.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from time import monotonic

from blocksvm.base.errors import InputError
from blocksvm.cluster.dask_client import ANSWER, READY, dask_client, described_worker, memory_fault
from blocksvm.cluster.job import Answer, Job, Missing, Part, Weights, context_of, run_part
from blocksvm.cluster.workers import WorkerEvent, drained
from blocksvm.kernels.compile import processor
from blocksvm.model.versions import versions

ASKED = -1  # in the place of a part's number
LOOK = 1.0  # seconds between looks at who is there


def here() -> dict[str, str]:
    """What decides the bits of a result beside the data: versions, and the kind of processor."""
    return {**versions(), "processor": processor()}


def difference(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """The sentence on another version or processor of a worker; ''."""
    for name, own in ours.items():
        if theirs.get(name) != own:
            return f"has {name} {theirs.get(name)}, and {own} is here: bits could differ; make them the same"
    return ""


def on_worker(job: Job, part: Part, weights: Weights | None) -> Answer | Missing:
    """``run_part`` by as many threads as Dask gives the worker."""
    from distributed import get_worker

    return run_part(replace(job, threads=get_worker().state.nthreads), part, weights)


def described(job: Job) -> dict:
    """What a worker is, or the sentence why it cannot take part."""

    def make_ready(threads: int) -> None:
        context_of(replace(job, threads=threads))

    return described_worker(make_ready) | {"about": here()}


class DaskWorkers:
    """address: of a scheduler, or local:N, N processes of this machine; security: paths of the authority's certificate,
    and of this client's certificate and key, or Dask's own object, or None; tell: of workers that cannot take part."""

    def __init__(self, address: str, security, tell: Callable[[str], None]):
        self.name, self.address, self.security, self.tell = f"cluster {address}", address, security, tell
        self.events: queue.SimpleQueue[WorkerEvent] = queue.SimpleQueue()
        self.described: queue.SimpleQueue[tuple[str, dict]] = queue.SimpleQueue()
        self.ended = threading.Event()
        self.futures: dict[object, object] = {}
        self.stack = ExitStack()
        self.attempts = 0

    def start(self, job: Job) -> None:
        self.job = job
        self.client = self.stack.enter_context(dask_client(self.address, self.security))
        self.known = set(self._there())
        self._ask(self.known)
        self._begin()
        threading.Thread(target=self._watch, name="blocksvm-cluster", daemon=True).start()

    def _there(self) -> list[str]:
        """The addresses of the workers."""
        return sorted(self.client.nthreads(callback_timeout=ANSWER))

    def _ask(self, workers: Iterable[str]) -> None:
        """Ask workers what they are; the answers are fetched as those to parts are."""
        for worker in sorted(workers):
            future = self.client.submit(
                described, self.job, workers=[worker], allow_other_workers=True, pure=False, retries=0
            )
            self.futures[future.key] = future
            future.add_done_callback(partial(self._made, worker, ASKED))

    def _begin(self) -> None:
        """Wait until all workers have answered, or some have and the others take their time."""
        ends, answered = monotonic() + READY, 0
        while answered < len(self.known) and (left := ends - monotonic()) > 0.0:
            with suppress(queue.Empty):
                worker, answer = self.described.get(timeout=left)
                if fault := self._fault_of(answer):
                    raise InputError(f"worker {worker}: {fault}")
                self.events.put(WorkerEvent("joined", worker))
                answered, ends = answered + 1, min(ends, monotonic() + ANSWER)
        if self.known and not answered:
            raise InputError(f"{self.name}: no worker became ready within {READY:.0f}s")
        if answered < len(self.known):
            self.tell(f"{len(self.known) - answered} of {len(self.known)} workers are not ready yet; they may join")

    def _join(self) -> None:
        """Let those join that have answered since."""
        while True:
            try:
                worker, answer = self.described.get_nowait()
            except queue.Empty:
                return
            if fault := self._fault_of(answer):
                self.tell(f"worker {worker}: {fault}")
            else:
                self.events.put(WorkerEvent("joined", worker))

    def _fault_of(self, answer: dict) -> str:
        """Why a worker cannot take part, '' where it can."""
        return (
            answer.get("fault")
            or difference(answer["about"], here())
            or memory_fault(answer["limit"], self.job.n_bytes, "raise its memory limit")
        )

    def _watch(self) -> None:
        """Tell who joins and who leaves, until the end."""
        while not self.ended.wait(LOOK):
            try:
                there = set(self._there())
            except TimeoutError:  # where it stays so, nobody answers, and the run ends by its deadline
                continue
            except Exception as error:
                self._lost(error)
                return
            for worker in self.known - there:
                self.events.put(WorkerEvent("left", worker))
            self._ask(there - self.known)
            self._join()
            self.known = there

    def submit(self, worker: str, part: Part, weights: Weights | None) -> None:
        self.attempts += 1
        try:
            # a worker that has left is no reason to wait for it, so others may make the part, too
            future = self.client.submit(
                on_worker, self.job, part, weights, workers=[worker], allow_other_workers=True, pure=False, retries=0,
                key=f"blocksvm-{self.job.key}-{self.attempts}",
            )  # fmt: skip
        except Exception as error:
            self._lost(error)
            return
        self.futures[future.key] = future
        future.add_done_callback(partial(self._made, worker, part.number))

    def _lost(self, error: BaseException) -> None:
        text = f"the scheduler does not answer any more ({type(error).__name__})"
        self.events.put(WorkerEvent("failed", self.address, text=text, fatal=True))

    def _made(self, worker: str, number: int, future) -> None:
        """A part has been made, or has failed: fetch the answer, without waiting for it here."""
        self.client.loop.add_callback(self._fetch, worker, number, future)

    async def _fetch(self, worker: str, number: int, future) -> None:
        try:
            answer = await self.client.gather(future, asynchronous=True, direct=True)
            if number == ASKED:
                self.described.put((worker, answer))
            else:
                self.events.put(WorkerEvent("answer", worker, number, answer))
        except BaseException as error:
            if self.client.status != "running":
                self._lost(error)
            elif not self.ended.is_set():
                text = str(error) if isinstance(error, InputError) else " ".join(repr(error).split())
                if number == ASKED:
                    self.described.put((worker, {"fault": text}))
                    return
                self.events.put(WorkerEvent("failed", worker, number, text=text))
        finally:
            self.futures.pop(future.key, None)

    def wait(self, seconds: float) -> list[WorkerEvent]:
        return drained(self.events, seconds)

    def close(self) -> None:
        self.ended.set()
        self.stack.close()
