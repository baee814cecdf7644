"""What a worker is given: a job once, whose context it makes and holds, and parts of it, each of which it answers.

    answer = run_part(job, part, weights)        anywhere: a thread, a process, another machine

Data in, data out.  A worker holds nothing that could be lost: a store that is open, and copies of w by version.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.base.vectors import on_lines
from blocksvm.files.paths import connections_of_run, location
from blocksvm.store.reader import Store

VERSIONS = 2  # of w that a worker holds: that of the batch at work, and that of the next
CONTEXTS = 2  # jobs of which a worker holds the store open
NO_VERSION = -1  # of a part that needs no w


class Part(Protocol):
    """number: in the order in which parts are wanted; version: of w, or NO_VERSION; size: nonzeros and rows."""

    number: int
    version: int
    size: int

    @property
    def n_bytes(self) -> int:
        """Of the message."""
        ...


class Answer(Protocol):
    """number: of the part; seconds: of the worker."""

    number: int
    seconds: float

    @property
    def n_bytes(self) -> int:
        """Of the message."""
        ...


@dataclass(frozen=True)
class Missing:
    """The worker lacks the version of w that a part names."""

    number: int


@dataclass(frozen=True)
class Weights:
    """A version of w: its numbers, or those at ``places`` that differ from the version ``base``."""

    version: int
    numbers: np.ndarray
    places: np.ndarray | None = None
    base: int = -1

    @classmethod
    def between(cls, version: int, w: np.ndarray, base: int, before: np.ndarray) -> Weights:
        """What changes one version into another, or all of w where that is smaller."""
        places = np.flatnonzero(w != before).astype(np.int32 if len(w) < 2**31 else np.int64)
        if 2 * len(places) > len(w):
            return cls(version, in_few_bytes(w))
        return cls(version, in_few_bytes(w[places]), places, base)

    @property
    def n_bytes(self) -> int:
        return self.numbers.nbytes + (0 if self.places is None else self.places.nbytes)


def in_few_bytes(numbers: np.ndarray) -> np.ndarray:
    """float64 ones as float32, where that changes none."""
    with np.errstate(over="ignore"):
        single = numbers.astype(np.float32)
    return single if np.array_equal(single, numbers) else numbers


@dataclass(frozen=True)
class Job:
    """What a worker has to know.

    key: of this job alone; stores: paths of which a worker opens the first that it sees, and the fingerprint of all;
    n_bytes: memory that each worker needs; threads: in each; connections: most requests at once for a store that
    is an object.
    """

    key: str
    stores: tuple[str, ...]
    fingerprint: str
    n_bytes: int
    threads: int | None
    connections: int = field(default_factory=connections_of_run, kw_only=True)

    def make_context(self, store: Store) -> Context:
        """What a worker holds of this job; InputError where it cannot take part."""
        raise NotImplementedError


class Context:
    """What a worker holds of a job; closing it closes the store.  lock: held while it answers; closed: another job has
    taken its place."""

    closed = False

    def __init__(self, store: Store):
        self.store = store
        self.versions: dict[int, np.ndarray] = {}
        self.lock = threading.Lock()

    def close(self) -> None:
        self.store.close()

    def take(self, weights: Weights) -> bool:
        """Hold a version of w; False where the one that it is made from is not held."""
        if weights.version in self.versions:
            return True
        if weights.places is not None and weights.base not in self.versions:
            return False
        base = weights.numbers if weights.places is None else self.versions[weights.base]
        older = sorted(self.versions)[: 1 - VERSIONS]  # one is left to write into, if it is not the base itself
        w = self.versions.pop(older[0]) if older and older[0] != weights.base else on_lines(base.shape)
        w[:] = base
        if weights.places is not None:
            w[weights.places] = weights.numbers
        self.versions[weights.version] = w
        for old in sorted(self.versions)[:-VERSIONS]:
            del self.versions[old]
        return True

    def answer(self, part: Any) -> Answer:
        raise NotImplementedError


def open_context(job: Job) -> Context:
    store = Store(next((path for path in job.stores if location(path).is_file()), job.stores[-1]), job.connections)
    try:
        if store.fingerprint != job.fingerprint:
            raise InputError(f"{store.path}: is another store than the one that this run reads")
        return job.make_context(store)
    except BaseException:
        store.close()
        raise


contexts: dict[str, Context] = {}
contexts_lock = threading.Lock()


def context_of(job: Job) -> Context:
    """This process's context of a job, made where there is none yet."""
    old = []
    with contexts_lock:
        if job.key not in contexts:
            while len(contexts) >= CONTEXTS:
                old.append(contexts.pop(next(iter(contexts))))
            contexts[job.key] = open_context(job)
        made = contexts[job.key]
    for one in old:
        with one.lock:  # once it has answered
            one.closed = True
            one.close()
    return made


def run_part(job: Job, part: Part, weights: Weights | None, context: Context | None = None) -> Answer | Missing:
    """The answer to a part; weights: what makes its version of w, None where the worker should have it."""
    context = context or context_of(job)
    with context.lock:  # one part at a time, each by all of the worker's threads
        if context.closed:
            return run_part(job, part, weights)
        if weights is not None and not context.take(weights):
            return Missing(part.number)
        if part.version != NO_VERSION and part.version not in context.versions:
            return Missing(part.number)
        return context.answer(part)
