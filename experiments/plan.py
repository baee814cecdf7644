"""What ``info --plan`` says beside what the run then takes: readings and seconds.

python -m experiments.plan STORE.h5 [...] [--shares all,8] [--repeats 3] [--json FILE]

Plans and runs take turns, each in a process of its own, after another one has used as much memory; medians.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median

from experiments.measuring import Tables, budget, command, described, parser, readings, touch_memory, train


def planned(store: Path, memory: int, more: list[str]) -> dict:
    """The figures of a plan."""
    return json.loads(command("info", store, "--plan", "--memory", memory, "--json", *more).out)["plan"]


def factor(ratio: float) -> float:
    """How far from 1, upwards or downwards."""
    return max(ratio, 1.0 / ratio)


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", type=Path, nargs="+", metavar="STORE.h5")
    p.add_argument("--shares", default="all,8")
    p.add_argument("--repeats", type=int, default=3)
    p.add_argument("--loss", default="hinge")
    p.add_argument("-C", default="1")
    options = p.parse_args()
    more = ["--loss", options.loss, "-C", options.C]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for store in options.stores:
            for share in options.shares.split(","):
                memory = budget(store, share)
                touched = min(3 * memory, 3 << 30)
                plans, runs = [], []
                for _ in range(options.repeats):
                    touch_memory(touched)
                    plans.append(planned(store, memory, more))
                    touch_memory(touched)
                    runs.append(train(store, Path(folder) / "model.h5", "--memory", memory, *more)[0])
                counts = plans[0]["counts"]
                seconds = [[plan["seconds"] for plan in plans], [run[-1]["seconds"] for run in runs]]
                found.append(
                    (store.stem, share, described(store)["n_nonzeros"], counts["outers"] + counts["certificates"],
                     readings(runs[0]), *map(median, seconds), median(plan["sample"]["seconds"] for plan in plans),
                     plans[0]["run"]["limit"], seconds)
                )  # fmt: skip
    tables = Tables(options)
    tables.begin(f"{options.loss}, C {options.C}: the worst ratio of seconds first", "data", "memory", "nonzeros",
                 "readings planned", "readings", "readings, ratio", "seconds planned", "seconds", "seconds, ratio",
                 "least and most", "seconds of the plan", "limit")  # fmt: skip
    for name, share, nonzeros, expected, done, said, taken, cost, limit, seconds in sorted(
        found, key=lambda one: -factor(one[5] / one[6])
    ):
        spread = " and ".join(f"{min(one):.2f}-{max(one):.2f}" for one in seconds)
        tables.row(name, share if share == "all" else f"1/{share}", f"{nonzeros / 1e6:.1f} M", f"{expected:.0f}",
                   f"{done:.0f}", f"{expected / done:.2f}", f"{said:.2f}", f"{taken:.2f}", f"{said / taken:.2f}",
                   spread, f"{cost:.2f}", limit)  # fmt: skip
    tables.end()


if __name__ == "__main__":
    main()
