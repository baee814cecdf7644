"""What the loop knows of workers, whatever they are, and those that are threads of this process."""

from __future__ import annotations

import queue
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from blocksvm.base.errors import InputError
from blocksvm.cluster.job import Answer, Context, Job, Missing, Part, Weights, open_context, run_part


@dataclass(frozen=True)
class WorkerEvent:
    """kind: 'joined', 'left', 'answer' or 'failed', of a worker; number: of the part; answer: of an 'answer'; text: why
    it failed; fatal: nobody else would do better."""

    kind: str
    worker: str
    number: int = -1
    answer: Answer | Missing | None = None
    text: str = ""
    fatal: bool = False


class Workers(Protocol):
    """name: in sentences."""

    name: str

    def start(self, job: Job) -> None:
        """Make the workers ready; InputError where one has other versions, another store or too little memory."""
        ...

    def submit(self, worker: str, part: Part, weights: Weights | None) -> None:
        """Send a part, whose answer is an event; does not wait."""
        ...

    def wait(self, seconds: float) -> list[WorkerEvent]:
        """The events that have come, or that come first within so many seconds."""
        ...

    def close(self) -> None: ...


def drained(events: queue.SimpleQueue[WorkerEvent], seconds: float) -> list[WorkerEvent]:
    """Of a queue, as ``Workers.wait`` has it."""
    came = []
    try:
        came.append(events.get(timeout=max(0.0, seconds)) if seconds > 0.0 else events.get_nowait())
        while True:
            came.append(events.get_nowait())
    except queue.Empty:
        return came


class ThreadWorkers:
    """``n`` threads of this process, each with a reader of its own."""

    def __init__(self, n: int):
        self.name = f"{n} threads"
        self.n = n
        self.events: queue.SimpleQueue[WorkerEvent] = queue.SimpleQueue()
        self.contexts: dict[str, Context] = {}

    def start(self, job: Job) -> None:
        self.job = job
        self.pool = ThreadPoolExecutor(self.n, thread_name_prefix="blocksvm-worker")
        for k in range(self.n):
            name = f"thread {k + 1}"
            self.contexts[name] = open_context(job)
            self.events.put(WorkerEvent("joined", name))

    def submit(self, worker: str, part: Part, weights: Weights | None) -> None:
        self.pool.submit(self._make, worker, part, weights)

    def _make(self, worker: str, part: Part, weights: Weights | None) -> None:
        try:
            answer = run_part(self.job, part, weights, self.contexts[worker])
            self.events.put(WorkerEvent("answer", worker, part.number, answer))
        except BaseException as error:
            text = str(error) if isinstance(error, InputError) else repr(error)
            self.events.put(WorkerEvent("failed", worker, part.number, text=text))

    def wait(self, seconds: float) -> list[WorkerEvent]:
        return drained(self.events, seconds)

    def close(self) -> None:
        if self.contexts:
            self.pool.shutdown(cancel_futures=True)
            for context in self.contexts.values():
                context.close()
