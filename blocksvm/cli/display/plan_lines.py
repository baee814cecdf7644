"""The lines that ``info --plan`` prints: the arithmetic of a plan, a name and a value each."""

from __future__ import annotations

from blocksvm.base.objects.object_settings import dollars
from blocksvm.cli.display.number_texts import megabytes, number_of, rows
from blocksvm.planning.forecast import DECODING, MOVING, READING, SCREENING, reading_parts, worker_parts
from blocksvm.planning.training_plan import OnWorkers, TrainingPlan

SHOWN = (1, 2, 4, 8, 16)  # threads


def plan_lines(plan: TrainingPlan) -> list[tuple[str, str]]:
    """What is measured, what is counted in the sample, and what both make of all rows."""
    data, rates, counts, sample = plan.rows, plan.rates, plan.counts, plan.sample
    parts, n = reading_parts(data, rates, counts), data.n_nonzeros
    machine, resident = plan.machine, data.blocks == 1
    where = "all rows in memory" if resident else f"{data.blocks:,} blocks"
    memory = ", ".join(f"{name} {megabytes(value)}" for name, value in plan.memory.items() if value)
    lines = [
        ("plan", f"made in {sample.seconds:.1f} s of {rows(sample.n_samples)}, {sample.n_chunks:,} of "
         f"{number_of(sample.of_chunks, 'chunk')}, {sample.n_nonzeros:,} nonzeros"),
        ("memory", f"{megabytes(data.memory)}, {where}: {memory}"),
        ("readings", f"{counts.readings:.3g}: {counts.outers} outer iterations and {counts.certificates:.3g} for "
         f"certificates; passes over the working set: {counts.set_passes:.1f} times all nonzeros"),
        ("start", f"{rates.start:.2f} s, and {megabytes(data.memory)} of new memory at "
         f"{megabytes(rates.fresh)}/s: {data.memory / rates.fresh:.2f} s"),
        (READING, f"{megabytes(data.stored_bytes)} at {megabytes(rates.read_again)}/s: {parts[READING]:.2f} s; the "
         f"first time at {megabytes(rates.read)}/s"),
        (DECODING, f"{per_thread(n, rates.decode)}: {parts[DECODING]:.2f} s"),
        (SCREENING, f"{per_thread(n, rates.screen)}: {n / rates.screen:.2f} s"),
        (MOVING, f"{parts[MOVING]:.2f} s by one thread: visits at {millions(rates.visit)}, without screening, "
         f"rows for the working set at {millions(rates.offer)}; {data.blocks:,} blocks at {1e3 * rates.block:.1f} ms"),
        ("working set", f"{counts.set_passes * n:,.0f} nonzeros at {millions(rates.set_pass)}: "
         f"{counts.set_passes * n / rates.set_pass:.2f} s by one thread"),
        ("seconds", f"{plan.run.total:.2f} with {machine.threads} threads on {machine.processors} processors, two of "
         f"which are {rates.sharing:.1f} times as quick as one: "
         + ", ".join(f"{name} {value:.2f}" for name, value in plan.run.seconds.items())),
        ("limit", f"{plan.run.limit}{', in readings after the first' if resident else ''}"),
        ("threads", f"with a processor for each {times(plan)}; more than {plan.threads_enough} gain less than a tenth "
         "for twice as many"),
    ]  # fmt: skip
    if plan.objects is not None:
        of = plan.objects
        lines.append(("object store", f"{of.readings:.3g} readings: {of.requests:,} requests, {megabytes(of.n_bytes)}, "
                      f"{dollars(of.price)}"))  # fmt: skip
    return lines if plan.cluster is None else lines + cluster_lines(plan, plan.cluster)


def times(plan: TrainingPlan) -> str:
    """Seconds by threads."""
    return ", ".join(f"{n}: {plan.with_threads(n).total:.2f} s" for n in SHOWN)


def cluster_lines(plan: TrainingPlan, cluster: OnWorkers) -> list[tuple[str, str]]:
    """Of a run on workers."""
    driver, workers = cluster.driver, cluster.workers
    work, messages = sum(worker_parts(plan.rows, plan.rates).values()), driver.messages(workers)
    memory = ", ".join(f"{name} {megabytes(value)}" for name, value in cluster.memory.items() if value)
    lines = [
        ("workers", f"{workers}: {cluster.run.total:.2f} s in {cluster.counts.readings:.3g} readings; the limit is "
         f"{cluster.run.limit}"),
        ("each worker", f"reading, decoding and screening {work:.2f} s of a reading / {workers} = "
         f"{work / workers:.2f} s; memory {megabytes(cluster.worker_memory)}"),
        ("driver", f"moving {driver.moving:.2f} s, working set {driver.set_passes:.2f} s, beside them "
         f"{driver.beside:.2f} s, messages {messages:.2f} s a reading, while workers work; memory "
         f"{megabytes(sum(cluster.memory.values()))}: {memory}"),
        ("messages", f"{megabytes(driver.received)} of rows; {driver.versions:.1f} versions of w of at most "
         f"{megabytes(driver.version_bytes)} to each worker; {driver.parts} parts"),
        ("workers enough", f"{cluster.enough}: from there on the driver is the limit, and more gain nothing"),
    ]  # fmt: skip
    if cluster.smooth_readings is not None:
        found = cluster.smooth_from
        lines.append(("lbfgs", f"{cluster.smooth_readings:.0f} readings without a serial part: "
                      + ("slower with any number of workers" if found is None else
                         f"--solver lbfgs is quicker from {workers_text(found)} on")))  # fmt: skip
    return lines


def workers_text(n: int) -> str:
    return "1 worker" if n == 1 else f"{n:,} workers"


def per_thread(nonzeros: int, rate: float) -> str:
    return f"{nonzeros:,} nonzeros at {millions(rate)} by each thread"


def millions(rate: float) -> str:
    return f"{rate / 1e6:,.0f} M/s"
