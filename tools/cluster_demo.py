"""A Dask cluster of this machine trains a planted store, loses a worker on the way, and ends with the model of one that
lost none."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

import blocksvm

FEATURES, LENGTH, NOISE, WORKERS = 50_000, 30, 0.05, 3


def write_rows(path: Path, n: int) -> None:
    """Rows of 30 features, whose frequency falls as 1/rank, and the side of a plane as their label, some flipped."""
    rng = np.random.default_rng(1)
    plane = rng.normal(size=FEATURES)
    with open(path, "w") as out:
        for _ in range(n):
            features = np.unique((FEATURES ** rng.random(LENGTH)).astype(int))
            positive = (plane[features].sum() > 0) != (rng.random() < NOISE)
            out.write(f"{'+1' if positive else '-1'} {' '.join(f'{feature}:1' for feature in features)}\n")


def start(role: str, *options: object) -> subprocess.Popen:
    line = [sys.executable, "-m", f"distributed.cli.dask_{role}", *map(str, options), "--no-dashboard"]
    return subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@contextmanager
def cluster(folder: Path, n: int) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """(the address of a scheduler, its n workers)"""
    contact = folder / "scheduler.json"
    contact.unlink(missing_ok=True)
    processes = [start("scheduler", "--port", 0, "--host", "127.0.0.1", "--scheduler-file", contact)]
    try:
        address = None
        while address is None:
            time.sleep(0.05)
            with suppress(FileNotFoundError, json.JSONDecodeError):
                address = json.loads(contact.read_text())["address"]
        for _ in range(n):
            processes.append(start("worker", address, "--nthreads", 1, "--no-nanny", "--local-directory", folder))
        yield address, processes[1:]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the store (default 100,000)")
    parser.add_argument("--folder", type=Path, help="where files are written and kept (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        text, store, trace = folder / "rows.svm", folder / "rows.h5", folder / "trace.jsonl"
        write_rows(text, options.rows)
        subprocess.run([sys.executable, "-m", "blocksvm.split", text, store, "--overwrite"], check=True)
        weights = []
        for kills in (True, False):
            model = folder / f"model-{'killed' if kills else 'whole'}.h5"
            trace.unlink(missing_ok=True)
            with cluster(folder, WORKERS) as (address, workers):
                line = [sys.executable, "-m", "blocksvm.train", store, model, "--tol", "1e-4", "--overwrite"]
                print(f"\n{WORKERS} workers at {address}", flush=True)
                run = subprocess.Popen([*line, "--cluster", address, "--log", trace])
                while kills and run.poll() is None:
                    if trace.exists() and '"event": "outer"' in trace.read_text():
                        workers[0].kill()
                        print(f"worker {workers[0].pid} is killed", flush=True)
                        break
                    time.sleep(0.05)
                if run.wait():
                    sys.exit(f"the run ended with {run.returncode}")
            weights.append(blocksvm.load_model(model).weights)
    same = np.array_equal(*weights)
    print(f"\nthe two models have {'the same bits' if same else 'other weights'}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
