"""The arithmetic of a plan: from rates and counts to seconds.  Numbers in, numbers out.

A run is so many readings of all rows, passes over the working set, and certificates.  What is shared by threads or
workers takes its seconds divided by their number; what is in order takes all of them; and what happens side by side
takes as long as the slowest of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

START, READINGS, SET, CERTIFICATES, WEIGHTS = "start", "readings", "working set", "certificates", "sums over weights"
WAITING = "screening and moving"
READING, DECODING, SCREENING, MOVING, MESSAGES = "reading", "decoding", "screening", "moving", "messages"
# Between processes of one machine (Dask; 4 times 8 MB back from four took 56 ms, a task of many 2 ms); a network of 10
# Gbit/s has twice the rate.
MESSAGE_RATE, MESSAGE_SECONDS = 5.7e8, 2e-3
WORTH_DOUBLING = 0.9  # twice as many threads or workers are worth it where they need at most this part of the time


@dataclass(frozen=True)
class DataSize:
    """Of the rows; stored_bytes; memory: bytes of the run; blocks: of a reading, 1 where all rows stay in memory."""

    n_samples: int
    n_features: int
    n_nonzeros: int
    stored_bytes: int
    memory: int
    blocks: int


@dataclass(frozen=True)
class Rates:
    """Of one thread.

    read, read_again: stored bytes a second, the first time and when the system may have them in memory; fresh: bytes a
    second of memory that is used for the first time; decode: nonzeros a second; visit: of visits to blocks, screening
    among it; screen: that alone; set_pass: of a pass over the working set; offer: of a reading whose rows are offered
    to the set; block, outer: seconds beside, of each visit to a block and of each outer iteration, the latter for sums
    over all weights; start: seconds before the first row; sharing: by how much two threads together are quicker than
    one, 1 to 2, which is less where processors share caches or others use them.
    """

    read: float
    read_again: float
    fresh: float
    decode: float
    visit: float
    screen: float
    set_pass: float
    offer: float
    block: float
    outer: float
    start: float
    sharing: float


@dataclass(frozen=True)
class WorkCounts:
    """Outer iterations and certificates until the gap is certified; visited, set_passes: nonzeros of visits to blocks
    and to the working set, in units of all."""

    outers: int
    certificates: float
    visited: float
    set_passes: float

    @property
    def readings(self) -> float:
        """Of all rows, those that only certify among them."""
        return self.outers + self.certificates


@dataclass(frozen=True)
class Forecast:
    """Seconds of a run by what takes them, and what is the limit of its readings."""

    seconds: dict[str, float]
    limit: str

    @property
    def total(self) -> float:
        return sum(self.seconds.values())


@dataclass(frozen=True)
class Processors:
    """Threads of the run, and processors for them."""

    threads: int
    processors: int


def reading_parts(rows: DataSize, rates: Rates, counts: WorkCounts) -> dict[str, float]:
    """Seconds of one reading with its visits, by one thread; MOVING is what no other thread can take over."""
    screening = rows.n_nonzeros / rates.screen
    visit = rows.n_nonzeros * counts.visited / max(1, counts.outers) / rates.visit
    screening = min(screening * counts.visited / max(1, counts.outers), visit)
    return {
        READING: rows.stored_bytes / rates.read_again,
        DECODING: rows.n_nonzeros / rates.decode,
        SCREENING: screening,
        MOVING: visit - screening + rows.n_nonzeros / rates.offer + rows.blocks * rates.block,
    }


def together(parts: dict[str, float], machine: Processors, sharing: float) -> tuple[float, str]:
    """(seconds, the limit) of parts that go on side by side: disk, decoders, and the thread that trains, which has
    help in screening alone; all of them on so many processors."""
    n = machine.threads
    helped = {DECODING: n, SCREENING: max(1, n - 1) if parts[DECODING] else n}  # one is left to decoding
    shared = {name: s / helped.get(name, 1) for name, s in parts.items()}
    training = shared[SCREENING] + shared[MOVING]
    work = sum(s for name, s in parts.items() if name != READING)
    processors = max(1.0, machine.processors * sharing / 2.0)
    longest = max(shared[READING], shared[DECODING], training, work / processors)
    return longest, max(shared, key=lambda name: shared[name])


def forecast(rows: DataSize, rates: Rates, counts: WorkCounts, machine: Processors) -> Forecast:
    """On one machine."""
    resident = rows.blocks == 1  # all rows stay in memory, and are read and decoded once
    parts = reading_parts(rows, rates, counts)
    if resident:
        parts |= {READING: 0.0, DECODING: 0.0}
    each, limit = together(parts, machine, rates.sharing)
    screened = parts | {SCREENING: rows.n_nonzeros / rates.screen, MOVING: 0.0}
    certificate, _ = together(screened, machine, rates.sharing)
    first = rows.stored_bytes / rates.read
    if resident:
        decoders = Processors(max(2, machine.threads), machine.processors)  # who waits for rows decodes, too
        decoded = parts | {DECODING: rows.n_nonzeros / rates.decode, SCREENING: 0.0, MOVING: 0.0}
        first = max(first, together(decoded, decoders, rates.sharing)[0])
    else:
        first = max(0.0, first - each)  # by what the disk is slower the first time
    seconds = {
        START: rates.start + rows.memory / rates.fresh,
        READINGS: first + counts.outers * each,
        SET: counts.set_passes * rows.n_nonzeros / rates.set_pass,
        CERTIFICATES: counts.certificates * certificate,
        WEIGHTS: counts.outers * rates.outer,
    }
    return Forecast(seconds, limit)


@dataclass(frozen=True)
class Driver:
    """Of a reading by workers: seconds in which the process that trains moves rows, passes over the working set, and
    does what the number of rows does not change, as comparing versions of w; bytes of rows and sums that it receives;
    versions of w that it sends to each worker, of so many bytes each at most; parts of the reading."""

    moving: float
    set_passes: float
    beside: float
    received: float
    versions: float
    version_bytes: int
    parts: int

    @property
    def seconds(self) -> float:
        return self.moving + self.set_passes + self.beside

    def messages(self, workers: int) -> float:
        """Seconds of a reading."""
        n_bytes = self.received + workers * self.versions * self.version_bytes
        return n_bytes / MESSAGE_RATE + self.parts * MESSAGE_SECONDS


def on_workers(rows: DataSize, rates: Rates, readings: float, driver: Driver, workers: int) -> Forecast:
    """On a cluster whose workers have a thread each, and read, decode and screen as this machine does."""
    parts = worker_parts(rows, rates)
    each = sum(parts.values()) / workers
    messages = driver.messages(workers)
    serial = driver.seconds + messages
    limit = max(parts, key=lambda name: parts[name])
    if serial > each:
        limit = MESSAGES if messages > driver.seconds else MOVING
    seconds = {START: rates.start + rows.memory / rates.fresh, WAITING: readings * max(each, serial)}
    return Forecast(seconds, limit)


def worker_parts(rows: DataSize, rates: Rates) -> dict[str, float]:
    """Seconds of a reading by one worker."""
    return {
        READING: rows.stored_bytes / rates.read_again,
        DECODING: rows.n_nonzeros / rates.decode,
        SCREENING: rows.n_nonzeros / rates.screen,
    }


def enough_workers(rows: DataSize, rates: Rates, driver: Driver, most: int = 1 << 16) -> int:
    """The least number of workers that make the driver the limit: more gain nothing."""
    work = sum(worker_parts(rows, rates).values())
    return next((k for k in range(1, most) if work / k <= driver.seconds + driver.messages(k)), most)


def worth_having(seconds: Callable[[int], float], most: int = 1 << 16) -> int:
    """The number of threads or workers, a power of 2, from which on twice as many are not worth it."""
    n = 1
    while n < most and seconds(2 * n) < WORTH_DOUBLING * seconds(n):
        n *= 2
    return n
