"""--memory bounds the process tree: measured on the real command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import psutil
import pytest
from training_cases import ROOT, command, make_store, random_rows

from blocksvm.sources.store.files import create_hdf5
from blocksvm.sources.store.schema import ROW
from blocksvm.sources.store.writer import StoreWriter

BESIDES = 300_000_000  # interpreter, libraries, loaded kernels
ROWS_OF_A_PIECE, PIECES, A_ROW, FEATURES = 10_000, 40, 50, 200_000


@pytest.fixture(scope="module")
def large_store(tmp_path_factory):
    """20 million nonzeros, 160 MB in memory: more than the budget and what is allowed besides leave room for."""
    path = tmp_path_factory.mktemp("large") / "store.h5"
    rng = np.random.default_rng(0)
    spread = FEATURES // A_ROW
    indices = rng.integers(0, spread, (ROWS_OF_A_PIECE, A_ROW)) + np.arange(A_ROW) * spread  # ascending in a row
    values = rng.standard_normal(indices.shape, dtype=np.float32)
    rows = np.zeros(ROWS_OF_A_PIECE, ROW)
    rows["length"] = A_ROW
    rows["label"] = np.where(values[:, :20].sum(axis=1) > 0, 1, -1)
    rows["sq_norm"] = (values.astype(np.float64) ** 2).sum(axis=1)
    settings = {"order": "shuffled", "normalize": "none", "min_count": 1, "duplicates": "error", "holdout": 0.0}
    meta = {"settings": settings | {"seed": 0}, "sources": [], "source_rows": ROWS_OF_A_PIECE * PIECES}
    with create_hdf5(path, "store") as file, ThreadPoolExecutor(2) as pool:
        writer = StoreWriter(file, ROWS_OF_A_PIECE * PIECES, 1 << 15, np.float32, pool, 2)
        for piece in range(PIECES):
            rows["source"] = np.arange(ROWS_OF_A_PIECE) + piece * ROWS_OF_A_PIECE
            writer.append(rows, indices.astype(np.int32).ravel(), values.ravel())
        writer.finish(FEATURES, lambda start, stop: np.arange(start, stop), meta)
    return path


def peak_of(*arguments) -> tuple[int, str]:
    """(peak resident bytes of the command and what it starts, stderr); from a small process, whose own size a child
    has for a moment."""
    wrapper = (
        "import resource, subprocess, sys\n"
        "done = subprocess.run(sys.argv[1:], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)\n"
        "print(done.returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)\n"
        "print(done.stderr)\n"
    )
    line = [sys.executable, "-c", wrapper, sys.executable, "-m", "blocksvm.train", *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, timeout=200, check=True)
    first, _, err = done.stdout.partition("\n")
    code, peak = map(int, first.split())
    assert code == 0, err
    return peak, err


@pytest.mark.parametrize("solver", ["dual-cd", "pegasos"])
def test_the_peak_stays_within_the_budget(large_store, tmp_path, solver):
    options = ["--solver", solver, "--schedule", "1", "--max-outer", "2", "--tol", "0"]
    log = tmp_path / "trace.jsonl"
    peak, _ = peak_of(large_store, tmp_path / "m.h5", *options, "--memory", "32MB", "--log", log)
    assert peak <= 32_000_000 + BESIDES
    start = json.loads(log.read_text().splitlines()[0])
    assert start["blocks"] > 4
    assert sum(start["memory_plan"].values()) <= 32_000_000
    if solver == "dual-cd":  # the measure sees memory that is used: with everything in memory it is exceeded
        everything, _ = peak_of(large_store, tmp_path / "all.h5", *options, "--memory", "1GB")
        assert everything > peak + 100_000_000


def test_the_command_names_the_need_and_reads_nothing(large_store, tmp_path):
    done = command(large_store, tmp_path / "m.h5", "--memory", "1MB", "--log", tmp_path / "trace.jsonl", "--quiet")
    assert done.returncode == 2
    assert done.stderr.startswith("blocksvm.train: error: --memory 1.0MB is too small: ")
    assert "weights 1.6MB, alpha 3.6MB" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == []


def test_a_cold_kernel_cache_stays_within_the_budget(tmp_path):
    """The compiler's memory is a child's: the whole tree, sampled, stays below.

    The libraries' code, which parent and child map from the same files, is counted once.
    """
    X, y = random_rows(n=60, d=10, dtype=np.float32)
    store = make_store(tmp_path, X, y)
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    line = [sys.executable, "-m", "blocksvm.train", store, tmp_path / "m.h5", "--memory", "32MB", "--max-outer", "2"]
    process = subprocess.Popen(
        list(map(str, line)), cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    seen: list[tuple[int, int]] = []

    def sample() -> None:
        tree = psutil.Process(process.pid)
        while process.poll() is None:
            try:
                sizes = [one.memory_info() for one in [tree, *tree.children(recursive=True)]]
            except psutil.NoSuchProcess:
                continue
            shared = [size.shared for size in sizes]
            seen.append((sum(size.rss for size in sizes) - sum(shared) + max(shared), len(sizes)))
            time.sleep(0.02)

    thread = threading.Thread(target=sample)
    thread.start()
    _, err = process.communicate(timeout=200)
    thread.join()
    assert process.returncode == 0, err
    assert "compiling the train kernels for float32 values (first run only" in err
    assert max(count for _, count in seen) >= 2, "nothing was compiled in a child"
    assert max(size for size, _ in seen) <= 32_000_000 + BESIDES
    assert any((tmp_path / "cache").rglob("*.nbi"))
