"""A local cluster of four processes trains, one of them is killed on the way, and the model is the same to the bit.

tools/cluster-demo [--rows 200000]
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import distributed

import blocksvm

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    options = parser.parse_args()
    logging.basicConfig(format="  %(message)s")
    with tempfile.TemporaryDirectory() as folder:
        text, store = Path(folder, "rows.svm"), Path(folder, "rows.h5")
        made = ("experiments.make_data", "zipf", text, "--rows", str(options.rows), "--features", "200000")
        subprocess.run([sys.executable, "-m", *made], check=True, cwd=ROOT)
        blocksvm.write_store([str(text)], store)
        print("a local cluster of 4 processes")
        with distributed.LocalCluster(
            n_workers=4, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
        ) as cluster, blocksvm.open_store(store) as rows:  # fmt: skip
            models = [trained(rows, cluster, kills) for kills in (False, True)]
    same = all((models[0][k] == models[1][k]).all() for k in (0, 1))
    print("the same model to the bit" if same else "THE MODELS DIFFER")
    sys.exit(0 if same else 1)


def trained(rows, cluster, kills: bool):
    """Weights and dual variables of a run, in which one worker is killed where that is asked for."""
    victims = [next(iter(cluster.workers.values())).process.pid] if kills else []
    print("a run, in which one worker is killed:" if kills else "a run:")

    def show(event: dict) -> None:
        if event["event"] == "visit" and event["outer"] == 2 and victims:
            os.kill(victims.pop(), signal.SIGKILL)
        elif event["event"] == "outer":
            gap = event["rel_gap"] if event["rel_gap"] is not None else event["gap_estimate"]
            certified = "certified" if event["rel_gap"] is not None else "estimated"
            print(f"  reading {event['outer']}: gap {gap:.1e} {certified}")

    began = time.perf_counter()
    fitted = blocksvm.fit(rows, cluster=cluster.scheduler_address, on_event=show)
    print(f"  {fitted.status} in {time.perf_counter() - began:.1f} s: certified gap {fitted.certificate.rel_gap:.1e}")
    return fitted.model.weights, fitted.alpha


if __name__ == "__main__":
    main()
