"""A Dask cluster of this machine trains a planted store, loses a worker on the way, and ends with the model of one that
lost none."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import blocksvm

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
from support.dask_processes import dask_processes  # noqa: E402

WORKERS = 3
PLANTED = ["--features", "50000", "--mean-nonzeros", "30", "--noise", "0.05"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the store (default 100,000)")
    parser.add_argument("--folder", type=Path, help="where files are written and kept (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        text, store, trace = folder / "rows.svm", folder / "rows.h5", folder / "trace.jsonl"
        for module, *given in (("experiments.make_data", "zipf", text, "--rows", options.rows, *PLANTED),
                               ("blocksvm.split", text, store, "--overwrite")):  # fmt: skip
            subprocess.run([sys.executable, "-m", module, *map(str, given)], cwd=ROOT, check=True)
        weights = []
        for kills in (True, False):
            model = folder / f"model-{'killed' if kills else 'whole'}.h5"
            trace.unlink(missing_ok=True)
            with dask_processes(WORKERS) as cluster:
                line = [sys.executable, "-m", "blocksvm.train", store, model, "--tol", "1e-4", "--overwrite"]
                print(f"\n{WORKERS} workers at {cluster.address}", flush=True)
                run = subprocess.Popen([*line, "--cluster", cluster.address, "--log", trace])
                while kills and run.poll() is None:
                    if trace.exists() and '"event": "outer"' in trace.read_text():
                        cluster.workers[0].kill()
                        print(f"worker {cluster.workers[0].pid} is killed", flush=True)
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
