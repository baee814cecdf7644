"""Owns the comparison with LIBLINEAR (the liblinear-official package), trained in memory on svmlight text, one JSON
line per eps.

    peer_liblinear.py data.svm [-C 1] [--loss hinge|squared-hinge] [--tol 0.1 0.01 ...] [--test test.svm]

Dual coordinate descent (-s 3 for hinge, -s 1 for squared hinge) without a bias; only the train call is in
train_seconds. The
primal 1/2 ||w||^2 + C sum of losses is computed here in float64, not taken from LIBLINEAR. Its limit on iterations
is compiled
in: hit_iteration_limit tells when it stopped there (-s 1 then goes on with a primal Newton method, inside
train_seconds).
"""

import argparse
import ctypes
import importlib.metadata
import json
import re
import resource
import time

import numpy as np
from liblinear.liblinear import PRINT_STRING_FUN
from liblinear.liblinearutil import parameter, problem, train
from scipy import sparse
from sklearn.datasets import load_svmlight_file

SOLVERS = {"hinge": 3, "squared-hinge": 1}


def load(path: str) -> tuple[sparse.csr_matrix, np.ndarray]:
    """The rows of a svmlight file with ids as they stand, and labels -1 and +1 (the larger of the file's two
    labels is +1)."""
    X, y = load_svmlight_file(path, zero_based=True)
    labels = np.unique(y)
    if labels.size != 2:
        raise SystemExit(f"{path}: {labels.size} different labels; need two")
    return X, np.where(y == labels[1], 1.0, -1.0)


def primal(X: sparse.csr_matrix, y: np.ndarray, w: np.ndarray, C: float, loss: str) -> float:
    slack = np.maximum(0.0, 1.0 - y * (X @ w))
    return float(0.5 * (w @ w) + C * (slack.sum() if loss == "hinge" else slack @ slack))


def accuracy(X: sparse.csr_matrix, y: np.ndarray, w: np.ndarray) -> float:
    """Share of rows on the right side; X may have fewer or more columns than w."""
    if X.shape[1] > w.size:
        w = np.pad(w, (0, X.shape[1] - w.size))
    return float(np.mean(np.where(X @ w[: X.shape[1]] > 0, 1.0, -1.0) == y))


def run_liblinear(X: sparse.csr_matrix, y: np.ndarray, C: float = 1.0, loss: str = "hinge", eps: float = 0.1) -> dict:
    """One fresh train call on labels -1 and +1: the figures of a JSON line, and the weights of the label +1
    under "w"."""
    prob = problem(y, X)
    param = parameter(f"-s {SOLVERS[loss]} -c {C!r} -e {eps!r} -B -1 -q")
    log: list[bytes] = []
    param.print_func = PRINT_STRING_FUN(log.append)  # the only way to its iteration count
    ctypes.CDLL(None).srand(1)  # LIBLINEAR permutes with rand(): the same start for every call
    started = time.perf_counter()
    model = train(prob, param)
    seconds = time.perf_counter() - started
    w = np.ctypeslib.as_array(model.w, (model.nr_feature,)).copy()
    if model.label[0] == -1:
        w = -w
    text = b"".join(log).decode()
    iterations = re.search(r"#iter = (\d+)", text)
    return {
        "solver": "liblinear",
        "version": importlib.metadata.version("liblinear-official"),
        "loss": loss,
        "C": C,
        "eps": eps,
        "iterations": int(iterations[1]) if iterations else None,
        "hit_iteration_limit": "max number of iterations" in text,
        "train_seconds": seconds,
        "primal": primal(X, y, w, C, loss),
        "accuracy": accuracy(X, y, w),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "w": w,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("-C", type=float, default=1.0)
    parser.add_argument("--loss", choices=SOLVERS, default="hinge")
    parser.add_argument("--tol", type=float, nargs="+", default=[0.1], metavar="EPS")
    parser.add_argument(
        "--test", help="also give the accuracy on this file; loaded after all training, so lines come at the end"
    )
    args = parser.parse_args()

    started = time.perf_counter()
    X, y = load(args.data)
    load_seconds = time.perf_counter() - started
    weights = []
    lines = []
    for eps in args.tol:
        line = run_liblinear(X, y, args.C, args.loss, eps)
        w = line.pop("w")
        line["load_seconds"] = load_seconds
        if args.test:
            weights.append(w)
            lines.append(line)
        else:
            print(json.dumps(line), flush=True)
    if args.test:
        del X, y
        X, y = load(args.test)
        for w, line in zip(weights, lines, strict=True):
            print(json.dumps({**line, "test_accuracy": accuracy(X, y, w)}), flush=True)


if __name__ == "__main__":
    main()
