"""blocksvm from its store on disk, within a budget of memory, to a certified relative gap of tol."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from experiments.solvers.child import Outcome, Task, main

LEVELS = ("tol=1e-2", "tol=1e-3", "tol=1e-4")
DISTRIBUTION = "blocksvm"
IMPORTED = "blocksvm"
BYTES_PER_NONZERO = 0
ABOUT = (
    "python -m blocksvm.train on a store on disk whose pages are not cached, all settings at their defaults but "
    "--tol, --memory and -C; seconds are the trace's at its end, from the opening of the store: reading, decoding, "
    "loading kernels, training and certificates; the wall time of the whole command stands beside it"
)


def budget(store: Path, text_bytes: int) -> int:
    """An eighth of the text; in data too small or wide for that, room for weights and alpha comes on top of it."""
    from blocksvm.store.hdf5_files import open_hdf5, read_meta

    with open_hdf5(store, "store") as file:
        meta = read_meta(file)
    needed = 8 * meta["n_features"] + 9 * meta["n_samples"] + 120 * meta["n_chunks"] + 96 * meta["chunk_nonzeros"]
    eighth = text_bytes // 8
    return eighth if eighth >= 1.25 * needed else needed + eighth


def train(store: Path, memory: int, folder: Path, *more: str) -> tuple[list[dict], float, float, Path]:
    """Run the command: (events of its trace, wall seconds, peak memory in MB, model file)."""
    trace, model = folder / "trace.jsonl", folder / "model.h5"
    command = [sys.executable, "-m", "blocksvm.train", str(store), str(model), "--memory", f"{memory}B"]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the child does not outlive this process
    began = time.perf_counter()
    child = subprocess.Popen(
        [*command, "--log", str(trace), "--quiet", "--overwrite", *more], stdout=subprocess.DEVNULL
    )
    try:
        # this process is small, so that the child's peak is not that of its parent before exec
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    finally:
        if child.returncode is None:
            child.kill()
            child.wait()
    wall = time.perf_counter() - began
    if child.returncode != 0:
        raise SystemExit(f"blocksvm.train ended with status {child.returncode}")
    return [json.loads(line) for line in trace.read_text().splitlines()], wall, usage.ru_maxrss * 1024 / 1e6, model


def run(task: Task) -> Outcome:
    with tempfile.TemporaryDirectory(dir=task.folder, prefix="run-") as name:
        events, wall, peak, model = train(
            task.folder / "store.h5", task.memory, Path(name), "--tol", task.settings("tol"), "-C", repr(task.C)
        )
        import numpy as np

        from blocksvm import load_model

        loaded = load_model(model)
    w = np.zeros(int(loaded.feature_ids.max()) + 1)
    w[loaded.feature_ids] = loaded.weights
    end = events[-1]
    more = {name: end[name] for name in ("status", "outer", "dual", "rel_gap")}
    more |= {
        "certified_primal": end["primal"],
        "wall_seconds": wall,
        "memory": task.memory,
        "resident": events[0]["resident"],
    }
    return Outcome(w, end["seconds"], 0.0, peak, more | {"blocks": events[0]["blocks"]})


if __name__ == "__main__":
    main("blocksvm", DISTRIBUTION, IMPORTED, run)
