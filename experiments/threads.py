"""Training by several threads: whole commands with one thread and with one a processor, side by side; and how the work
of a run is spread over 1 to 16 threads, whatever processors there are.

python -m experiments.threads STORE.h5 [...] [--shares all,8] [--repeats 3] [--spread 2,4,8,16] [--json FILE]

The seconds of a run by N threads, each on a processor of its own, are at least the processor seconds of its longest
thread together with those of the one thread that all wait for.
"""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from statistics import median

import blocksvm
from experiments.measuring import Tables, budget, parser, train

TICKS = os.sysconf("SC_CLK_TCK")


def seconds_of_threads() -> dict[int, float]:
    """Processor seconds of each of this process's threads."""
    seconds = {}
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # it has ended meanwhile
            fields = (thread / "stat").read_text().rpartition(")")[2].split()
            seconds[int(thread.name)] = (int(fields[11]) + int(fields[12])) / TICKS
    return seconds


def spread(store: Path, memory: int, n: int) -> tuple[float, float, float]:
    """Processor seconds of a run: of the thread that trains, of the longest other one, and of all."""
    before, after = seconds_of_threads(), {}

    def look(event: dict) -> None:
        if event["event"] == "end":
            after.update(seconds_of_threads())

    with blocksvm.open_store(store) as rows:
        blocksvm.fit(rows, memory=memory, n_jobs=n, on_event=look)
    spent = {thread: seconds - before.get(thread, 0.0) for thread, seconds in after.items()}
    trains = spent.pop(threading.get_native_id())
    return trains, max(spent.values(), default=0.0), trains + sum(spent.values())


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", type=Path, nargs="+", metavar="STORE.h5")
    p.add_argument("--shares", default="all,8", help="rows in memory, and this part of them")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--spread", default="2,4,8,16", metavar="N,...")
    options = p.parse_args()
    tables, shares = Tables(options), options.shares.split(",")
    tables.begin("seconds of blocksvm train, and processor seconds", "data", "memory", "one thread", "auto", "ratio",
                 "processor, one", "processor, auto")  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for store in options.stores:
            for share in shares:
                runs: dict[str, list] = {"1": [], "auto": []}
                train(store, Path(folder, "model.h5"), "--memory", budget(store, share))  # compiles
                for k in range(options.repeats):
                    for n in list(runs)[:: 1 if k % 2 else -1]:
                        more = ("--memory", budget(store, share), "--threads", n)
                        runs[n].append(train(store, Path(folder, "model.h5"), *more)[1])
                one, auto = (median(run.seconds for run in runs[n]) for n in runs)
                cpu = [median(run.cpu for run in runs[n]) for n in runs]
                tables.row(store.stem, "all" if share == "all" else f"1/{share}", f"{one:.2f}", f"{auto:.2f}",
                           f"{auto / one:.2f}", f"{cpu[0]:.2f}", f"{cpu[1]:.2f}")  # fmt: skip
    tables.end()
    numbers = [int(n) for n in options.spread.split(",")]
    tables.begin("processor seconds: of the thread that trains + the longest other one (all threads together)", "data",
                 "memory", "one thread", *(f"{n} threads" for n in numbers))  # fmt: skip
    for store in options.stores:
        for share in shares:
            memory = budget(store, share)
            spread(store, memory, 2)  # loads what has been compiled
            one, *several = [spread(store, memory, n) for n in (1, *numbers)]
            cells = [f"{trains:.2f} + {longest:.2f} ({total:.2f})" for trains, longest, total in several]
            tables.row(store.stem, "all" if share == "all" else f"1/{share}", f"{one[2]:.2f}", *cells)
    tables.end()


if __name__ == "__main__":
    main()
