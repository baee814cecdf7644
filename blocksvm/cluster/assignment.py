"""Which worker makes which part: decisions alone, without input, output or a clock; events in, instructions out.

Parts are numbered as they are wanted, and taken in that order.  A part goes to the worker that has least to do; where
one does not answer in time, or has left, its parts go to others, and whoever answers first is believed: all answers are
equal.  So who makes a part, and how often, changes nothing but the time it takes.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from statistics import median

AT_ONCE = 2  # parts of a worker: one that it makes, one that waits
LEAST_WAIT = 3.0  # seconds, for an answer
MANY_TIMES = 6.0  # as long as parts of its size usually take
FIRST_WAIT = 120.0  # before anything is known of how long parts take: a worker may have kernels to compile
MOST_FAILURES = 3  # of a part


@dataclass(frozen=True)
class Submit:
    """Send a part to a worker, which holds this version of w (-1: none)."""

    number: int
    worker: str
    held: int


@dataclass(frozen=True)
class Say:
    """Tell the user."""

    text: str


@dataclass(frozen=True)
class GiveUp:
    """The run cannot go on."""

    text: str


Instruction = Submit | Say | GiveUp


@dataclass
class Worker:
    """deadlines: of the parts that it makes; held: the version of w that it has answered with; late: it has not
    answered in time."""

    deadlines: dict[int, float] = field(default_factory=dict)
    held: int = -1
    late: bool = False


@dataclass
class Wanted:
    """A part that has not been taken yet."""

    version: int
    size: int
    failures: list[str] = field(default_factory=list)  # the worker of each
    done: bool = False


class Assignment:
    """timeout: seconds without a worker that answers, after which the run is given up; most: parts that may have been
    sent and not been taken yet."""

    def __init__(self, timeout: float, most: int):
        self.timeout, self.most = timeout, most
        self.workers: dict[str, Worker] = {}
        self.wanted: dict[int, Wanted] = {}
        self.waiting: list[int] = []
        self.rates: list[float] = []  # seconds by size, of the last parts
        self.alone_since: float | None = None

    # -- events ------------------------------------------------------------------------------------------------

    def joined(self, worker: str, now: float) -> list[Instruction]:
        self.workers[worker] = Worker()
        return self._assign(now)

    def left(self, worker: str, now: float) -> list[Instruction]:
        if worker not in self.workers:
            return []
        lost = self.workers.pop(worker).deadlines
        self._wait(lost)
        return [Say(f"worker {worker} has left; {len(lost)} of its parts go to others"), *self._assign(now)]

    def want(self, number: int, version: int, size: int, now: float) -> list[Instruction]:
        self.wanted[number] = Wanted(version, size)
        insort(self.waiting, number)
        return self._assign(now)

    def done(self, number: int, worker: str, seconds: float, now: float) -> list[Instruction]:
        """A part has been made; its answer is to be used where ``is_open`` says so."""
        wanted = self.wanted.get(number)
        self._answered(number, worker)
        if wanted is not None:
            if worker in self.workers:
                self.workers[worker].held = max(self.workers[worker].held, wanted.version)
            if not wanted.done:
                wanted.done = True
                self.rates = [*self.rates[-31:], seconds / max(1, wanted.size)]
            if number in self.waiting:
                self.waiting.remove(number)
        return self._assign(now)

    def missed(self, number: int, worker: str, now: float) -> list[Instruction]:
        """The worker lacked the version of w."""
        self._answered(number, worker)
        if worker in self.workers:
            self.workers[worker].held = -1
        self._wait([number])
        return self._assign(now)

    def failed(self, number: int, worker: str, text: str, now: float) -> list[Instruction]:
        self._answered(number, worker)
        wanted = self.wanted.get(number)
        if wanted is None or wanted.done:
            return self._assign(now)
        wanted.failures.append(worker)
        if len(wanted.failures) >= MOST_FAILURES:
            return [GiveUp(f"worker {worker}: {text}")]
        self._wait([number])
        return [Say(f"worker {worker}: {text}; its part is made again"), *self._assign(now)]

    def taken(self, number: int, now: float) -> list[Instruction]:
        """The answer has been used, or the part is not wanted any more."""
        del self.wanted[number]
        if number in self.waiting:
            self.waiting.remove(number)
        return self._assign(now)

    def tick(self, now: float) -> list[Instruction]:
        """So late is it."""
        said: list[Instruction] = []
        for name, worker in self.workers.items():
            if not worker.late and any(deadline <= now for deadline in worker.deadlines.values()):
                worker.late = True
                self._wait(worker.deadlines)
                said.append(Say(f"worker {name} does not answer; {len(worker.deadlines)} of its parts go to others"))
        said += self._assign(now)
        if self.alone_since is not None and now - self.alone_since >= self.timeout:
            said.append(GiveUp(f"no worker has answered for {self.timeout:.0f}s"))
        return said

    # -- what it knows -----------------------------------------------------------------------------------------

    def is_open(self, number: int) -> bool:
        """Whether a part is wanted and no answer has come yet."""
        return number in self.wanted and not self.wanted[number].done

    def next_deadline(self) -> float:
        """When ``tick`` has something to do."""
        deadlines = [d for worker in self.workers.values() if not worker.late for d in worker.deadlines.values()]
        if self.alone_since is not None:
            deadlines.append(self.alone_since + self.timeout)
        return min(deadlines, default=float("inf"))

    def check(self) -> None:
        """AssertionError where a part would be forgotten, or too many are under way."""
        at_work = {number for worker in self.workers.values() for number in worker.deadlines}
        for number, wanted in self.wanted.items():
            assert wanted.done or number in self.waiting or number in at_work, f"part {number} is nowhere"
            assert not (wanted.done and number in self.waiting)
        assert set(self.waiting) <= set(self.wanted)
        assert self.waiting == sorted(set(self.waiting))
        assert sum(number not in self.waiting for number in self.wanted) <= self.most
        assert all(len(worker.deadlines) <= AT_ONCE for worker in self.workers.values())

    # -- decisions ---------------------------------------------------------------------------------------------

    def _answered(self, number: int, worker: str) -> None:
        if worker in self.workers:
            self.workers[worker].deadlines.pop(number, None)
            self.workers[worker].late = False

    def _wait(self, numbers) -> None:
        """Parts that no worker is to be relied on for any more."""
        for number in numbers:
            relied_on = any(number in w.deadlines and not w.late for w in self.workers.values())
            if self.is_open(number) and number not in self.waiting and not relied_on:
                insort(self.waiting, number)

    def _assign(self, now: float) -> list[Instruction]:
        """Parts that wait, in their order, to workers that have room."""
        instructions: list[Instruction] = []
        left: list[int] = []
        sent = len(self.wanted) - len(self.waiting)
        for number in self.waiting:
            wanted = self.wanted[number]
            name = self._free_worker(number, wanted)
            if name is None or sent >= self.most:
                left.append(number)
                continue
            worker = self.workers[name]
            worker.deadlines[number] = now + self._patience(wanted) * (1 + len(worker.deadlines))
            sent += 1
            instructions.append(Submit(number, name, worker.held))
        self.waiting = left
        answering = any(not worker.late for worker in self.workers.values())
        self.alone_since = None if answering else now if self.alone_since is None else self.alone_since
        return instructions

    def _free_worker(self, number: int, wanted: Wanted) -> str | None:
        answering = {name: worker for name, worker in self.workers.items() if not worker.late}
        # one with which it has failed, only where no other one answers: it may be the last
        able = {name: worker for name, worker in answering.items() if name not in wanted.failures} or answering
        free = [
            (len(worker.deadlines), name)
            for name, worker in able.items()
            if len(worker.deadlines) < AT_ONCE and number not in worker.deadlines
        ]
        return min(free)[1] if free else None

    def _patience(self, wanted: Wanted) -> float:
        if not self.rates:
            return FIRST_WAIT
        return max(LEAST_WAIT, MANY_TIMES * median(self.rates) * wanted.size)
