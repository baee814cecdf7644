"""A Dask cluster of this machine trains a planted store, loses a worker on the way, and ends with the model of one that
lost none."""

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


def trained(folder: Path, kills: bool) -> np.ndarray:
    """The weights of a run of which a worker is killed, or none."""
    model, trace = folder / f"model-{'killed' if kills else 'whole'}.h5", folder / "trace.jsonl"
    trace.unlink(missing_ok=True)
    with dask_processes(WORKERS) as cluster:
        print(f"\n{WORKERS} workers at {cluster.address}", flush=True)
        line = [sys.executable, "-m", "blocksvm.train", folder / "rows.h5", model, "--tol", "1e-4", "--overwrite"]
        run = subprocess.Popen([*line, "--cluster", cluster.address, "--log", trace])
        while kills and run.poll() is None:
            if trace.exists() and '"event": "outer"' in trace.read_text():
                cluster.workers[0].kill()
                print(f"worker {cluster.workers[0].pid} is killed", flush=True)
                break
            time.sleep(0.05)
        if run.wait():
            sys.exit(f"the run ended with {run.returncode}")
    return blocksvm.load_model(model).weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="100000", help="rows of the store (default 100,000)")
    parser.add_argument("--folder", type=Path, help="where files are written and kept (default: a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        make = [sys.executable, "-m", "experiments.make_data", "zipf", folder / "rows.svm", "--rows", options.rows]
        subprocess.run([*make, *PLANTED], cwd=ROOT, check=True)
        blocksvm.write_store(folder / "rows.svm", folder / "rows.h5", overwrite=True)
        same = np.array_equal(trained(folder, kills=True), trained(folder, kills=False))
    print(f"\nthe two models have {'the same bits' if same else 'other weights'}")
    sys.exit(not same)


if __name__ == "__main__":
    main()
