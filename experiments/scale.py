"""Growth: runs on stores of any size within one memory, and a simulation of far larger ones on workers.

python -m experiments.scale STORE.h5 [...] [--memory 2000] [-C 0.02] [--nonzeros 1.25e11] [--repeats 1] [--json FILE]

The simulation has blocksvm.cluster.assignment decide, as a run does, and moves its clock by the rates, message sizes
and the driver's seconds that ``info --plan --workers`` measures on the last store.
"""

from __future__ import annotations

import heapq
import json
import tempfile
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path

from blocksvm.cluster.assignment import AT_ONCE, Assignment, GiveUp, Submit
from blocksvm.cluster.chunk_parts import LARGEST_PART, MOST_UNDER_WAY
from blocksvm.cluster.cluster_plan import BATCHES
from blocksvm.planning.forecast import MESSAGE_RATE, MESSAGE_SECONDS
from experiments.measuring import Tables, command, described, drop_from_cache, parser, readings, train

SHOWN = 2  # of the batches of a reading, of which each is like the one before
LEFT_SEEN = 30.0  # seconds until a scheduler has noticed that a worker is dead


@dataclass(frozen=True)
class Case:
    """A reading to simulate, by SHOWN of its batches: parts; seconds of a worker and of the driver for each; bytes
    of an answer, and of a version of w; seconds of the driver between two batches; most: parts under way; rate: bytes a
    second of its lines."""

    parts: int
    worker: float
    driver: float
    answer: float
    version: float
    between: float
    most: int = MOST_UNDER_WAY
    rate: float = MESSAGE_RATE


class Overloaded(Exception):
    """Workers are thought to be late, since what they need lies in the line to them; so it is sent to others, too."""


class Simulation:
    """A reading by workers.  dies, stalls: {worker: second}, a stall ending after ``pause`` seconds."""

    def __init__(self, case: Case, workers: int, dies: dict | None = None, stalls: dict | None = None, pause=20.0):
        self.case, self.dies, self.stalls, self.pause = case, dies or {}, stalls or {}, pause
        self.now = self.waited = 0.0
        self.assignment = Assignment(300.0, case.most)
        self.free = {f"w{k}": 0.0 for k in range(workers)}  # when each has made what it was sent
        self.out = self.back = 0.0  # when the driver's line to the workers, and from them, is free
        self.events: list[tuple] = []
        self.answers: set[int] = set()
        self.to_come: deque[tuple[int, int]] = deque()
        self.again = 0  # parts sent more than once
        self.sent: set[int] = set()
        for name in self.free:
            self._follow(self.assignment.joined(name, 0.0))
        for name, second in self.dies.items():
            heapq.heappush(self.events, (second + LEFT_SEEN, -1, name, True))

    def reading(self) -> float:
        """Seconds of a reading, as the first batches of it take."""
        bounds = [round(k * self.case.parts / BATCHES) for k in range(BATCHES + 1)]
        ranges = [range(a + 1, b + 1) for a, b in zip(bounds, bounds[1:], strict=False)]
        wanted = 0
        for k, batch in enumerate(ranges[:SHOWN]):
            # this one is screened at the w of one batch before, the next one at the w of now
            for ahead in (k, k + 1):
                if ahead < SHOWN and ranges[ahead].stop - 1 > wanted:
                    self.to_come.extend((number, ahead) for number in ranges[ahead])
                    wanted = ranges[ahead].stop - 1
            self._send()
            for number in batch:
                self._take(number)
                self.now += self.case.driver
            self.now += self.case.between
        return self.now * BATCHES / SHOWN

    def _take(self, number: int) -> None:
        began = self.now
        while number not in self.answers:
            self._hear(wait=True)
        self.waited += self.now - began
        self.answers.discard(number)
        self._follow(self.assignment.taken(number, self.now))
        self._send()
        self._hear(wait=False)

    def _send(self) -> None:
        while self.to_come and len(self.assignment.wanted) < self.case.most:
            number, version = self.to_come.popleft()
            self._follow(self.assignment.want(number, version, LARGEST_PART, self.now))

    def _hear(self, wait: bool) -> None:
        if wait:
            first = self.events[0][0] if self.events else float("inf")
            self.now = max(self.now, min(first, self.assignment.next_deadline()))
        while self.events and self.events[0][0] <= self.now:
            time, number, name, arrived = heapq.heappop(self.events)
            if number > 0 and not arrived:  # an answer is ready, and takes its turn in the line
                self.back = max(time, self.back) + self.case.answer / self.case.rate
                heapq.heappush(self.events, (self.back, number, name, True))
                continue
            if number < 0:
                self._follow(self.assignment.left(name, self.now))
                continue
            if self.assignment.is_open(number):
                self.answers.add(number)
            self._follow(self.assignment.done(number, name, self.case.worker, self.now))
        if self.assignment.next_deadline() <= self.now:
            self._follow(self.assignment.tick(self.now))

    def _follow(self, instructions) -> None:
        for one in instructions:
            assert not isinstance(one, GiveUp), one.text
            if isinstance(one, Submit):
                self._submit(one)

    def _submit(self, one: Submit) -> None:
        self.again += one.number in self.sent
        if self.again > self.case.parts // (4 * BATCHES):
            raise Overloaded
        self.sent.add(one.number)
        self.now += MESSAGE_SECONDS
        if one.held != self.assignment.wanted[one.number].version:
            self.out = max(self.now, self.out) + self.case.version / self.case.rate
        began = max(self.now, self.out, self.free[one.worker])
        ended = began + self.case.worker
        stalled = self.stalls.get(one.worker, float("inf"))
        if began <= stalled < ended or stalled <= began < stalled + self.pause:
            ended += self.pause
        self.free[one.worker] = ended
        if ended >= self.dies.get(one.worker, float("inf")):
            return
        heapq.heappush(self.events, (ended, one.number, one.worker, False))


def measured(tables: Tables, options) -> None:
    """Runs, each with a cold cache."""
    tables.begin(f"C {options.C}, --memory {options.memory:.0f} MB, gap 1e-3: one machine", "store", "nonzeros",
                 "raw CSR, GB", "store, GB", "blocks", "readings", "seconds", "gap", "ns a nonzero and reading",
                 "peak, MB")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for store in options.stores:
            about, found = described(store), []
            for _ in range(options.repeats):
                drop_from_cache(store)
                found.append(train(store, Path(folder) / "m.h5", "--memory", round(1e6 * options.memory), "-C",
                                   options.C))  # fmt: skip
            events, ran = sorted(found, key=lambda one: one[0][-1]["seconds"])[len(found) // 2]
            n, seconds, times = about["n_nonzeros"], events[-1]["seconds"], readings(events)
            tables.row(store.stem, f"{n:,}", f"{8e-9 * n + 8e-9 * about['n_samples']:.2f}",
                       f"{store.stat().st_size / 1e9:.2f}", events[0]["blocks"], f"{times:.0f}", f"{seconds:.1f}",
                       f"{events[-1]['rel_gap']:.1e}", f"{1e9 * seconds / n / times:.2f}",
                       f"{ran.peak_mb:.0f}")  # fmt: skip


def scaled_case(plan: dict, nonzeros: float) -> tuple[Case, float]:
    """(a reading of so many nonzeros, all readings) by the figures of a plan."""
    rows, rates, cluster = plan["rows"], plan["rates"], plan["cluster"]
    driver, ratio = cluster["driver"], nonzeros / rows["n_nonzeros"]
    parts = round(nonzeros / LARGEST_PART)
    per_nonzero = rows["stored_bytes"] / rows["n_nonzeros"] / rates["read"] + 1 / rates["decode"] + 1 / rates["screen"]
    times = cluster["counts"]["outers"] + cluster["counts"]["certificates"]
    case = Case(
        parts, LARGEST_PART * per_nonzero, driver["moving"] * ratio / parts, driver["received"] * ratio / parts,
        8.0 * rows["n_features"], (driver["set_passes"] * ratio + driver["beside"]) / BATCHES,
    )  # fmt: skip
    return case, times


def simulated(tables: Tables, options, plan: dict) -> None:
    case, times = scaled_case(plan, options.nonzeros)
    tables.begin(
        f"{options.nonzeros:.3g} nonzeros in {case.parts:,} parts, simulated: one takes a worker {case.worker:.3f} s, "
        f"the driver {case.driver:.4f} s, and {case.between:.1f} s between two of {BATCHES} batches; answers of "
        f"{case.answer / 1e6:.2f} MB, versions of w of {case.version / 1e6:.0f} MB; {times:.0f} readings",
        "what", "workers", "seconds of a reading", "hours of a run", "driver waits", "times as fast as one worker",
    )  # fmt: skip
    line, no_driver = 1.2e9, replace(case, driver=0.0, between=0.0)
    cases = {
        "as it is": case,
        "two parts under way for each worker, lines of 10 Gbit/s": replace(case, most=0, rate=line),
        "and workers that pass versions on": replace(case, most=0, rate=line, version=0.0),
        "and no passes over the set": replace(case, most=0, rate=line, version=0.0, between=0.0),
        "and no serial part, nor answers": replace(no_driver, most=0, rate=line, version=0.0, answer=0.0),
    }
    for what, one in cases.items():
        alone = 0.0
        for workers in options.workers:
            simulation = Simulation(replace(one, most=one.most or AT_ONCE * workers), workers)
            try:
                seconds = simulation.reading()
            except Overloaded:
                tables.row(what, workers, "does not end", "-", "-", "-")
                continue
            alone = alone or seconds
            tables.row(what, workers, f"{seconds:,.0f}", f"{times * seconds / 3600:.1f}",
                       f"{simulation.waited / simulation.now:.0%}", f"{alone / seconds:.1f}")  # fmt: skip
    with_faults(tables, case)


def with_faults(tables: Tables, case: Case) -> None:
    few = replace(case, most=AT_ONCE * 64, version=0.0, answer=0.0, between=0.0, driver=0.0)
    tables.begin("Where the workers are the limit, 64 of them: some die or stand still for 20 s, after 2 s", "what",
                 "seconds more", "parts sent again")  # fmt: skip
    half = [f"w{k}" for k in range(32)]
    whole = Simulation(few, 64)
    before = whole.reading() * SHOWN / BATCHES
    for what, faults in {
        "one dies": {"dies": {"w0": 2.0}},
        "half of them die": {"dies": dict.fromkeys(half, 2.0)},
        "one stands still": {"stalls": {"w0": 2.0}},
        "half of them stand still": {"stalls": dict.fromkeys(half, 2.0)},
    }.items():
        simulation = Simulation(few, 64, **faults)
        tables.row(what, f"{simulation.reading() * SHOWN / BATCHES - before:.1f}", simulation.again)


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", type=Path, nargs="+", metavar="STORE.h5")
    p.add_argument("--memory", type=float, default=2000, metavar="MB")
    p.add_argument("-C", default="0.02")
    p.add_argument("--nonzeros", type=float, default=1.25e11)
    p.add_argument("--repeats", type=int, default=1)
    p.add_argument("--workers", type=lambda text: [int(k) for k in text.split(",")], default=[1, 8, 64, 1000])
    options = p.parse_args()
    tables = Tables(options)
    if options.repeats:
        measured(tables, options)
    # a driver has copies of w besides: twice the memory
    line = ["--plan", "--workers", 64, "--memory", round(2e6 * options.memory), "-C", options.C, "--json"]
    simulated(tables, options, json.loads(command("info", options.stores[-1], *line).out)["plan"])
    tables.end()


if __name__ == "__main__":
    main()
