"""The plan of a training, made of a sample of its rows and rates of this machine before it is begun."""

from __future__ import annotations

import queue
import time
from dataclasses import dataclass, replace
from typing import Any

from blocksvm.base.errors import InputError, option
from blocksvm.cluster.cluster import Cluster
from blocksvm.cluster.cluster_plan import ClusterPlan
from blocksvm.cluster.cluster_run import make_cluster_loop
from blocksvm.cluster.job import Context, Job, Part, Weights, run_part
from blocksvm.cluster.workers import WorkerEvent, drained
from blocksvm.planning.forecast import (
    DataSize,
    Driver,
    Forecast,
    Processors,
    Rates,
    WorkCounts,
    enough_workers,
    forecast,
    on_workers,
    worth_having,
)
from blocksvm.planning.sampled_run import SampledRun, scaled_blocks
from blocksvm.sources.block import INDEX_BYTES
from blocksvm.sources.chosen_chunks import ChosenChunks
from blocksvm.store.reader import Store
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.run import Watch
from blocksvm.training.train_settings import TrainSettings

SMOOTH = "lbfgs"  # the solver without a serial part
MOST_WORKERS = 1 << 10  # that are tried for it


@dataclass(frozen=True)
class Sample:
    """The sample: rows, nonzeros, chunks of it and of the store; seconds that the plan has taken."""

    n_samples: int
    n_nonzeros: int
    n_chunks: int
    of_chunks: int
    seconds: float


@dataclass(frozen=True)
class OnWorkers:
    """A run on so many workers: counts and the driver's part, as a run on the sample has them; memory: of the process
    that trains, by name; worker_memory: of each worker; enough: workers that make the driver the limit;
    smooth_readings: those that lbfgs takes of the sample, None where the loss is not smooth or the memory too small;
    smooth_run: such a run on as many workers; smooth_from: workers from which on that is quicker, None: never."""

    workers: int
    counts: WorkCounts
    driver: Driver
    memory: dict[str, int]
    worker_memory: int
    run: Forecast
    enough: int
    smooth_readings: float | None
    smooth_run: Forecast | None
    smooth_from: int | None


@dataclass(frozen=True)
class FromObjects:
    """What a run asks an object store for: readings of its own (one where all rows stay in memory), requests and bytes
    of all of them, and dollars."""

    readings: float
    requests: int
    n_bytes: int
    price: float


@dataclass(frozen=True)
class TrainingPlan:
    """The figures of a plan.  memory: by name; run: on this machine; threads_enough: from which on twice as many gain
    less than a tenth, were there as many processors; objects: None where the store is a file."""

    sample: Sample
    rows: DataSize
    rates: Rates
    counts: WorkCounts
    memory: dict[str, int]
    machine: Processors
    run: Forecast
    threads_enough: int
    cluster: OnWorkers | None
    objects: FromObjects | None

    def with_threads(self, threads: int) -> Forecast:
        """Of so many, each with a processor."""
        return forecast(self.rows, self.rates, self.counts, Processors(threads, threads))


def plan_training(
    store: Store, settings: TrainSettings, machine: Processors, workers: int | None = None
) -> TrainingPlan:
    """Train a sample of the store's rows, measure, and add up.  Raises InputError where the settings do not fit the
    store or the memory, and for a solver that certifies nothing."""
    began = time.perf_counter()
    if not (settings.capabilities.certifies and settings.capabilities.minimises and settings.capabilities.working_set):
        raise InputError(f"{option('solver', settings.solver)}: a plan is made for dual-cd; leave it out")
    if store.n_nonzeros == 0:
        raise InputError(f"{store.name}: has no nonzeros; there is nothing to plan")
    whole = Plan(store, settings)
    of_workers = None if workers is None else ClusterPlan(store, settings)
    sampled = SampledRun(whole)
    sampled.run()
    counts, rates = sampled.counts(), sampled.rates()
    rows = DataSize(
        store.n_samples, store.n_features, store.n_nonzeros, sampled.stored_bytes(), sum(whole.memory().values()),
        len(whole.blocks.partition.stored),
    )  # fmt: skip
    run = forecast(rows, rates, counts, machine)
    enough = worth_having(lambda n: forecast(rows, rates, counts, Processors(n, n)).total)
    cluster = None
    if workers is not None and of_workers is not None:
        cluster = plan_cluster(of_workers, sampled.sample, rows, rates, workers)
    sample = sampled.sample
    about = Sample(
        sample.n_samples, sample.n_nonzeros, len(sample.chunks), len(store.chunks), time.perf_counter() - began
    )  # fmt: skip
    objects = from_objects(store, rows, 1.0 if rows.blocks == 1 else counts.readings, whole.blocks.unit_bytes)
    return TrainingPlan(about, rows, rates, counts, whole.memory(), machine, run, enough, cluster, objects)


def from_objects(store: Store, rows: DataSize, readings: float, unit_bytes: int | None) -> FromObjects | None:
    """Of a run that reads all rows so often: two ranges a unit, one of rows and one of entries."""
    requests, n_bytes = round(readings * 2 * len(store.units(unit_bytes))), round(readings * rows.stored_bytes)
    price = store.price(requests, n_bytes)
    return None if price is None else FromObjects(readings, requests, n_bytes, price)


def plan_cluster(whole: ClusterPlan, sample: ChosenChunks, rows: DataSize, rates: Rates, workers: int) -> OnWorkers:
    """The same on workers, by a run on the sample with one in this process."""
    counts, driver = drive_sample(whole, sample, rates)
    rows = replace(rows, memory=sum(whole.memory().values()))
    run = on_workers(rows, rates, counts.readings, driver, workers)
    readings = there = found = None
    if (smooth := smooth_readings(whole.settings, sample)) is not None:
        readings, there = smooth[0], smooth_on_workers(rows, rates, smooth, workers)
        numbers = (1 << n for n in range(MOST_WORKERS.bit_length()))
        found = next((k for k in numbers if smooth_on_workers(rows, rates, smooth, k).total
                      < on_workers(rows, rates, counts.readings, driver, k).total), None)  # fmt: skip
    enough = enough_workers(rows, rates, driver)
    return OnWorkers(
        workers, counts, driver, whole.memory(), whole.worker_bytes, run, enough, readings, there, found
    )  # fmt: skip


def smooth_on_workers(rows: DataSize, rates: Rates, smooth: tuple[float, float], workers: int) -> Forecast:
    """A run of lbfgs, of so many readings at so many nonzeros a second.  Its driver sends the point to all and gets a
    gradient of each, both as long as w."""
    w = 8 * rows.n_features
    driver = Driver(0.0, 0.0, 0.0, w * workers, 1.0, w, workers)
    return on_workers(rows, replace(rates, screen=smooth[1]), smooth[0], driver, workers)


def smooth_readings(settings: TrainSettings, sample: ChosenChunks) -> tuple[float, float] | None:
    """Readings of the sample that lbfgs takes to the same gap, and nonzeros a second of one thread; None where the loss
    is none for it, or the memory too small."""
    try:
        plan = Plan(sample, replace(settings, solver=SMOOTH, working_set="auto"))
    except InputError:
        return None
    events: list = []
    OuterLoop(plan, Watch(events.append)).run()
    outers = [event for event in events if event["event"] == "outer"]
    return len(outers), sum(e["nnz_visited"] for e in outers) / sum(e["seconds_training"] for e in outers)


def drive_sample(whole: ClusterPlan, sample: ChosenChunks, rates: Rates) -> tuple[WorkCounts, Driver]:
    """How often the sample is read where a worker screens it, and what the driver does meanwhile."""
    plan = ClusterPlan(sample, whole.settings, resume=scaled_blocks(whole, sample))
    events: list = []
    worker = InTurn(sample)
    loop = make_cluster_loop(plan, Watch(events.append), cluster=Cluster(worker, 60.0, lambda text: None))
    loop.run()
    outers = [event for event in events if event["event"] == "outer"]
    certificates = sum(event["share"] for event in events if event["event"] == "certificate")
    n, all_nonzeros = sample.n_nonzeros, whole.source.n_nonzeros
    visited, of_set = (sum(e[name] for e in outers) for name in ("nnz_visited", "set_nnz_visited"))
    counts = WorkCounts(len(outers), certificates, visited / n, of_set / n)
    readings, versions, ratio = counts.readings, loop.dispatcher.version, all_nonzeros / n
    training, in_set, sent, received = (
        sum(e[name] for e in outers) for name in ("seconds_training", "set_seconds", "bytes_sent", "bytes_received")
    )
    offered = received / (INDEX_BYTES + sample.value_bytes)
    # where more rows move more weights change, at most all of them
    version_bytes = min(loop.state["w"].nbytes, round(ratio * sent / versions))
    driver = Driver(
        ratio * (training + offered / rates.offer) / readings,
        counts.set_passes * all_nonzeros / rates.set_pass / readings,
        max(0.0, events[-1]["seconds"] - worker.seconds - training - in_set) / readings,
        ratio * received / readings, versions / readings, version_bytes, len(whole.blocks.partition.blocks(1)),
    )  # fmt: skip
    return counts, driver


class InTurn:
    """One worker, which makes each part at once, in the thread that wants it, of rows that are given."""

    name = "the sample"

    def __init__(self, source: ChosenChunks):
        self.source, self.seconds = source, 0.0
        self.events: queue.SimpleQueue[WorkerEvent] = queue.SimpleQueue()

    def start(self, job: Job) -> None:
        self.job = job
        reader: Any = self.source.reader()
        self.context: Context = job.make_context(reader)
        self.events.put(WorkerEvent("joined", self.name))

    def submit(self, worker: str, part: Part, weights: Weights | None) -> None:
        began = time.perf_counter()
        answer = run_part(self.job, part, weights, self.context)
        self.seconds += time.perf_counter() - began
        self.events.put(WorkerEvent("answer", worker, part.number, answer))

    def wait(self, seconds: float) -> list[WorkerEvent]:
        return drained(self.events, seconds)

    def close(self) -> None:
        self.context.close()
