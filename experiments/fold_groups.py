"""Cross-validation whose folds share readings, and by groups of folds on threads, processes and a local Dask cluster.

    python -m experiments.fold_groups STORE.h5 [...] [--folds 5] [--costs 0.003,...,30] [--repeats 3] [--json FILE]

All have the same memory: what the weights of all groups take, and a quarter of the rows.  Each run is a process of its
own, and the runs of a repeat take turns; seconds, and CPU seconds of all processes with their start, are medians.
"""

from __future__ import annotations

import resource
import time
from contextlib import nullcontext
from pathlib import Path
from statistics import median

import blocksvm
from blocksvm.base.vectors import width_of
from experiments.measuring import Tables, in_child, parser, read_through

COSTS = "0.003,0.01,0.03,0.1,0.3,1,3,10,30"
AT_ONCE = 3
PLACES = ("shared readings, threads", "groups, threads", "groups, loky, 2", "groups, dask, local:2")


def measured(store: str, place: str, folds: int, costs: list[float]) -> tuple[float, float, float]:
    """(seconds, CPU seconds of this process and its children, readings)"""
    import joblib

    where = nullcontext()
    began = time.perf_counter()
    if "loky" in place:
        where = joblib.parallel_config("loky", n_jobs=2)
    elif "dask" in place:
        from blocksvm.cluster.dask_client import joblib_on_dask

        where = joblib_on_dask("local:2", None)
    with where, blocksvm.open_store(store) as rows:
        of_group = 8 * (rows.n_features + 1) * (width_of(AT_ONCE) + 2 * AT_ONCE) + 200 * rows.n_samples + 20_000_000
        memory = folds * of_group + rows.n_nonzeros * (4 + rows.value_bytes) // 4
        found = blocksvm.cross_validate(
            rows, costs, folds, at_once=AT_ONCE, memory=memory, n_jobs=-1, fold_groups=1 if "shared" in place else folds
        )
    seconds = time.perf_counter() - began
    if "loky" in place:
        from joblib.externals.loky import get_reusable_executor

        get_reusable_executor(reuse=True).shutdown(wait=True)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return seconds, sum(one.ru_utime + one.ru_stime for one in used), found.readings


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", type=Path, nargs="+", metavar="STORE.h5")
    p.add_argument("--folds", type=int, default=5)
    p.add_argument("--costs", default=COSTS)
    p.add_argument("--repeats", type=int, default=3)
    options = p.parse_args()
    costs = [float(C) for C in options.costs.split(",")]
    tables = Tables(options)
    for store in options.stores:
        tables.begin(f"{store.stem}, {options.folds} folds, C {options.costs}", "where", "seconds", "CPU s", "readings")
        read_through(store)
        runs = [
            {place: in_child(measured, str(store), place, options.folds, costs) for place in PLACES}
            for _ in range(options.repeats)
        ]
        for place in PLACES:
            seconds, cpu, readings = (median(run[place][k] for run in runs) for k in range(3))
            tables.row(place, f"{seconds:.1f}", f"{cpu:.1f}", f"{readings:.0f}")
    tables.end()


if __name__ == "__main__":
    main()
