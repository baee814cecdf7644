"""How fast text is split by jobs and memory, and how long commands take to start, with an empty cache of kernels too.

    python -m experiments.start_up TEXT.svm [--rows 3000] [--repeats 3] [--json FILE]

Whole commands, the flush to disk included; the text lies in the cache.  The first use is split, train and predict of
the first rows of the text, with a folder of its own for compiled kernels, then again with what lies there.
"""

from __future__ import annotations

import os
import tempfile
from itertools import islice
from pathlib import Path
from statistics import median

from experiments.measuring import ROOT, Tables, command, parser, read_through, run, split

SETTINGS = (("1GB", 1), ("1GB", 2), ("300MB", 2))


def first_use(text: Path, folder: Path) -> dict:
    """Runs of the three commands, 'cold' with an empty cache and 'warm' with a full one."""
    store, model = folder / "rows.h5", folder / "model.h5"
    inputs = {"split": (text, store), "train": (store, model), "predict": (model, text, folder / "labels.txt")}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env = kept | {"XDG_CACHE_HOME": str(folder / "cache"), "PYTHONPATH": str(ROOT)}
    return {(state, name): run("-m", f"blocksvm.{name}", *files, "--overwrite", "--quiet", env=env)
            for state in ("cold", "warm") for name, files in inputs.items()}  # fmt: skip


def main() -> None:
    p = parser(__doc__)
    p.add_argument("text", type=Path, metavar="TEXT.svm")
    p.add_argument("--rows", type=int, default=3000, help="rows of the first use")
    p.add_argument("--repeats", type=int, default=3)
    options = p.parse_args()
    tables, size = Tables(options), options.text.stat().st_size / 1e6
    with tempfile.TemporaryDirectory() as name:
        few, few_store, store, model = (Path(name, file) for file in ("few.svm", "few.h5", "rows.h5", "model.h5"))
        with open(options.text, "rb") as text:
            few.write_bytes(b"".join(islice(text, options.rows)))
        split(few, few_store)  # compiles
        command("train", few_store, model)
        read_through(options.text)
        rest = ("--overwrite", "--quiet")
        commands = {"train --help": ("train", "--help"), "train, the first rows": ("train", few_store, model, *rest)}
        for memory, jobs in SETTINGS:
            given = ("--memory", memory, "--threads", jobs)
            commands[" ".join(map(str, ("split", *given)))] = ("split", options.text.resolve(), store, *given, *rest)
        title = f"{options.text.stem}: {size:,.0f} MB of text, medians of {options.repeats}"
        tables.begin(title, "command", "seconds", "MB/s of text", "peak MB")
        for what, given in commands.items():
            runs = [command(*given) for _ in range(options.repeats)]
            seconds, peak = median(one.seconds for one in runs), max(one.peak_mb for one in runs)
            rate = f"{size / seconds:,.0f}" if given[0] == "split" else ""
            tables.row(what, f"{seconds:.2f}", rate, f"{peak:.0f}")
        folders = [Path(name, str(number)) for number in range(options.repeats)]
        for folder in folders:
            folder.mkdir()
        rounds = [first_use(few, folder) for folder in folders]
    title = f"{options.text.stem}: the first use, {options.rows} rows, medians of {options.repeats}"
    tables.begin(title, "command", "wall, s", "processors, s")
    for state, name in rounds[0]:
        wall, cpu = (median(getattr(one[state, name], kind) for one in rounds) for kind in ("seconds", "cpu"))
        tables.row(f"{state} {name}", f"{wall:.2f}", f"{cpu:.2f}")
    tables.end()


if __name__ == "__main__":
    main()
