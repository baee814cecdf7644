"""Has parts made by workers, and gives their answers in order: the one place that joins the decisions
(assignment.py) with those who carry them out (workers.py)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Any

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.cluster.assignment import Assignment, GiveUp, Instruction, Say, Submit
from blocksvm.cluster.job import Job, Missing, Part, Weights
from blocksvm.cluster.workers import WorkerEvent, Workers
from blocksvm.training.record import Traffic

VERSIONS_KEPT = 3  # of w: what workers hold may be two behind
LONGEST_WAIT = 1.0  # seconds


class ClusterLost(InputError):
    """No worker is left to go on with."""


class StoppedWaiting(Exception):
    """The run was stopped while it waited."""


class Dispatcher:
    """timeout, most: as ``Assignment`` has them; say(text) is called with what the user should know."""

    def __init__(self, workers: Workers, job: Job, timeout: float, most: int, say: Callable[[str], None]):
        self.workers, self.job, self.say = workers, job, say
        self.assignment = Assignment(timeout, most)
        self.versions: dict[int, np.ndarray] = {}
        self.changes: dict[tuple[int, int], Weights] = {}  # of one version into another
        self.parts: dict[int, Part] = {}
        self.answers: dict[int, Any] = {}
        self.to_come: deque[Callable[[int], Part]] = deque()
        self.number = self.version = 0
        self.next_taken = 1
        self.traffic = Traffic()

    def __enter__(self) -> Dispatcher:
        try:
            self.workers.start(self.job)
        except BaseException:
            self.workers.close()
            raise
        return self

    def __exit__(self, *exception) -> None:
        self.workers.close()

    def new_version(self, w: np.ndarray) -> int:
        """Let parts be made at this w, which is copied; returns its number."""
        self.version += 1
        self.versions[self.version] = w.reshape(-1).copy()
        for old in sorted(self.versions)[:-VERSIONS_KEPT]:
            del self.versions[old]
        self.changes = {pair: change for pair, change in self.changes.items() if pair[1] == self.version - 1}
        return self.version

    def want(self, parts: Iterable[Callable[[int], Part]]) -> None:
        """Have parts made, each of which is made, by its number, when its turn has come."""
        self.to_come.extend(parts)
        self._send()

    def forget(self) -> None:
        """Want nothing any more of what is under way."""
        self.to_come.clear()
        for number in list(self.parts):
            self.answers.pop(number, None)
            self._taken(number)
        self.next_taken = self.number + 1

    def take(self, stop: Callable[[], bool] = lambda: False) -> Any:
        """The next answer, in the order in which parts were wanted; StoppedWaiting where stop() says so meanwhile."""
        began, number = monotonic(), self.next_taken
        while number not in self.answers:
            if monotonic() - began > LONGEST_WAIT and stop():
                raise StoppedWaiting
            self._hear(min(LONGEST_WAIT, max(0.0, self.assignment.next_deadline() - monotonic()) + 0.001))
        self.traffic.seconds_waiting += monotonic() - began
        self.next_taken += 1
        answer = self.answers.pop(number)
        self._taken(number)
        self._send()
        self._hear(0.0)
        return answer

    def _taken(self, number: int) -> None:
        del self.parts[number]
        self._follow(self.assignment.taken(number, monotonic()))

    def _send(self) -> None:
        while self.to_come and len(self.parts) < self.assignment.most:
            self.number += 1
            part = self.parts[self.number] = self.to_come.popleft()(self.number)
            self._follow(self.assignment.want(part.number, part.version, part.size, monotonic()))

    def _hear(self, seconds: float) -> None:
        for event in self.workers.wait(seconds):
            self._follow(self._decide(event))
        self._follow(self.assignment.tick(monotonic()))

    def _decide(self, event: WorkerEvent) -> list[Instruction]:
        decisions, worker = self.assignment, event.worker
        if event.kind == "joined":
            return decisions.joined(worker, monotonic())
        if event.kind == "left":
            return decisions.left(worker, monotonic())
        if event.kind == "failed":
            if event.fatal:
                return [GiveUp(event.text)]
            return decisions.failed(event.number, worker, event.text, monotonic())
        answer = event.answer
        if isinstance(answer, Missing):
            return decisions.missed(event.number, worker, monotonic())
        assert answer is not None
        if decisions.is_open(event.number):
            self.answers[event.number] = answer
            self.traffic.bytes_received += answer.n_bytes
            self.traffic.seconds_workers += answer.seconds
        return decisions.done(event.number, worker, answer.seconds, monotonic())

    def _follow(self, instructions: Sequence[Instruction]) -> None:
        for instruction in instructions:
            if isinstance(instruction, Say):
                self.say(instruction.text)
            elif isinstance(instruction, GiveUp):
                raise ClusterLost(f"{self.workers.name}: {instruction.text}")
            else:
                self._submit(instruction)

    def _submit(self, instruction: Submit) -> None:
        part = self.parts[instruction.number]
        weights = None
        if instruction.held != part.version:
            weights = self._weights(instruction.held, part.version)
            self.traffic.bytes_sent += weights.n_bytes
        self.traffic.bytes_sent += part.n_bytes
        self.workers.submit(instruction.worker, part, weights)

    def _weights(self, held: int, wanted: int) -> Weights:
        """What a worker that holds one version needs for another one."""
        w, before = self.versions[wanted], self.versions.get(held)
        if before is None or held > wanted:
            return Weights(wanted, w)
        if (held, wanted) not in self.changes:
            self.changes[held, wanted] = Weights.between(wanted, w, held, before)
        return self.changes[held, wanted]
