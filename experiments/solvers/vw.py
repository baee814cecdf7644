"""Vowpal Wabbit from text on disk, through its Python package."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path

from experiments.solvers.child import Outcome, Task, main, peak_rss_mb

LEVELS = ("passes=1", "passes=10", "passes=10,update=sgd")
DISTRIBUTION = "vowpalwabbit"
IMPORTED = "vowpalwabbit"
BYTES_PER_NONZERO = 0
ABOUT = (
    "--loss_function hinge --noconstant --l2 1/(C rows) --passes passes --holdout_off, with enough bits (-b) for every "
    "id to have its own weight; update=sgd: --sgd, otherwise its default (adaptive, normalized, invariant); seconds "
    "are parsing and learning; more passes than one read the cache that the first one writes. It shrinks w by l2 only "
    "on rows with a loss, so that its limit is not quite the optimum"
)


def contraction(workspace, w) -> float:
    """The factor that l2 has brought to all weights, which get_weight leaves out: from one prediction within +-1."""
    import numpy as np

    largest = int(np.abs(w).argmax())
    if w[largest] == 0.0:
        return 1.0
    value = 0.5 / abs(float(w[largest]))
    return float(workspace.predict(f"| {largest}:{value!r}")) / (float(w[largest]) * value)


def run(task: Task) -> Outcome:
    import numpy as np
    from vowpalwabbit import Workspace

    made = json.loads((task.folder / "train" / "made.json").read_text())
    passes = task.settings("passes")
    bits = max(18, (made["columns"] - 1).bit_length())
    with tempfile.TemporaryDirectory(dir=task.folder, prefix="run-") as name:
        more = ["--cache_file", str(Path(name, "vw.cache"))] if passes != "1" else []
        if task.settings("update") == "sgd":
            more.append("--sgd")
        arguments = f"--loss_function hinge --noconstant --holdout_off --quiet -b {bits} --passes {passes}".split()
        arguments += ["--l2", repr(1.0 / (task.C * made["rows"])), *more, "-d", str(task.folder / "train.vw")]
        began = time.perf_counter()
        workspace = Workspace(arg_list=arguments)  # reads and learns the whole file
        seconds = time.perf_counter() - began
        peak = peak_rss_mb()
        w = np.fromiter((workspace.get_weight(i) for i in range(made["columns"])), np.float64, made["columns"])
        w *= contraction(workspace, w)
        workspace.finish()
    return Outcome(w, seconds, 0.0, peak)


if __name__ == "__main__":
    main("vw", DISTRIBUTION, IMPORTED, run)
