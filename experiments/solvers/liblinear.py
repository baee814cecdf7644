"""LIBLINEAR's dual coordinate descent for the hinge loss (-s 3) in memory, through liblinear-official."""

from __future__ import annotations

import ctypes
import re
import time

from experiments.solvers.child import Outcome, Task, load_csr, main, peak_rss_mb

LEVELS = ("eps=1", "eps=0.1", "eps=0.03", "eps=0.01")
DISTRIBUTION = "liblinear-official"
IMPORTED = "liblinear.liblinearutil"
BYTES_PER_NONZERO = 28
ABOUT = (
    "-s 3 -c C -e eps -B -1; seconds are the train call alone, after the rows have become its own 16-byte nodes; its "
    "memory holds the CSR that these came from too"
)


def run(task: Task) -> Outcome:
    import numpy as np
    from liblinear.liblinear import PRINT_STRING_FUN
    from liblinear.liblinearutil import parameter, problem, train

    began = time.perf_counter()
    X, y = load_csr(task.folder)
    prob = problem(y, X)
    load_seconds = time.perf_counter() - began
    param = parameter(f"-s 3 -c {task.C!r} -e {task.settings('eps')} -B -1 -q")
    log: list[bytes] = []
    param.print_func = PRINT_STRING_FUN(log.append)  # the only way to its iteration count
    ctypes.CDLL(None).srand(1)  # LIBLINEAR permutes with rand(): the same start for every run
    began = time.perf_counter()
    model = train(prob, param)
    seconds = time.perf_counter() - began
    peak = peak_rss_mb()
    w = np.ctypeslib.as_array(model.w, (model.nr_feature,)).copy()
    if model.label[0] == -1:
        w = -w
    text = b"".join(log).decode()
    iterations = re.search(r"#iter = (\d+)", text)
    more = {"iterations": int(iterations[1]) if iterations else None}
    if "max number of iterations" in text:
        more["warnings"] = ["stopped at its compiled-in limit of iterations"]
    return Outcome(w, seconds, load_seconds, peak, more)


if __name__ == "__main__":
    main("liblinear", DISTRIBUTION, IMPORTED, run)
