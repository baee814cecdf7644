"""The distance to the optimum and the accuracy on held-out rows, by seconds and by bytes read, of ways to train in
blocks: those of Yu, Hsieh, Chang, Lin (KDD 2010), dual cached loops (Matsushima, Vishwanathan, Smola, KDD 2012), and
what blocksvm does by default; and what compressed blocks save.

    python -m experiments.distance TRAIN.h5,TEST.h5 ... [--shares 8,32] [--bandwidth 100] [--outer 40]
        [--figure FILE.png] [--json FILE]

Hinge loss, C = 1.  The disk is held back to --bandwidth MB/s of stored bytes.  Seconds are of the run from the opening
of the store, without the evaluations, which come after it.  Figures are written as SVG, too.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from blocksvm import fit
from blocksvm.training.loop import OuterLoop
from blocksvm.training.plan import Plan
from blocksvm.training.run import Watch
from blocksvm.training.train_settings import TrainSettings
from experiments.convergence import EXACT, Rows, load
from experiments.measuring import Tables, budget, listed, panels, parser
from experiments.schedules import SlowStore

FIXED = {"partition": "fixed", "working_set": "none"}
PEGASOS = "fixed blocks, Pegasos, 1 pass"
VECTORS = 4  # of Pegasos, beside the one that all methods have
METHODS: dict[str, dict] = {
    "default": {},
    "default without a working set": {"working_set": "none"},
    "dual cached loops (StreamSVM): overlap": {"schedule": "overlap"},
    "fixed blocks, 1 pass": {"schedule": "1"} | FIXED,
    "fixed blocks, 10 passes": {"schedule": "10"} | FIXED,
    "fixed blocks, to a tolerance (0.1)": {"schedule": "tol:0.1"} | FIXED,
    PEGASOS: {"solver": "pegasos", "schedule": "1", "partition": "fixed"},
}
TARGETS = (1e-1, 1e-2, 1e-3)
BANDWIDTHS = (50, 150, 500, 2000)  # MB/s, of the table of compressed blocks
TENTH = 0.1  # of a point of accuracy


@dataclass(frozen=True)
class Point:
    """After an outer iteration: seconds, MB read, (P(w) - P*) / P*, accuracy in per cent."""

    seconds: float
    megabytes: float
    distance: float
    accuracy: float


def curve(store: Path, rows: Rows, least: float, bandwidth: float, **settings) -> list[Point]:
    """A run's points; least: P*."""
    marks: list[tuple[float, float, np.ndarray]] = []
    megabytes = 0.0
    began = time.perf_counter()
    with SlowStore(store) as source:
        source.bandwidth = 1e6 * bandwidth

        def note(event) -> None:
            nonlocal megabytes, began
            if event["event"] == "outer":
                megabytes += event["bytes_read"] / 1e6
                now = time.perf_counter()
                marks.append((now - began, megabytes, loop.weights()[:-1].astype(np.float32)))
                began += time.perf_counter() - now

        loop = OuterLoop(Plan(source, TrainSettings.of(**settings)), Watch(note))
        loop.run()
    return [Point(seconds, mb, (rows.primal(w.astype(float)) - least) / least, rows.accuracy(w))
            for seconds, mb, w in marks]  # fmt: skip


def first(points: list[Point], reached) -> str:
    """Seconds (MB) of the first point at which ``reached`` holds."""
    found = next((point for point in points if reached(point)), None)
    return "" if found is None else f"{found.seconds:.2f} ({found.megabytes:.0f})"


def table_of_compression(tables: Tables, stores: list[Path]) -> None:
    """A reading of all rows, compressed as stored, and of indices and values as they are in memory."""
    tables.begin("seconds of a reading; uncompressed: bytes / bandwidth, without any work", "data", "MB/s",
                 "compressed MB", "seconds", "uncompressed MB", "seconds at least")  # fmt: skip
    for path in stores:
        for bandwidth in BANDWIDTHS:
            with SlowStore(path) as store:
                store.bandwidth = 1e6 * bandwidth
                raw = store.n_nonzeros * (4 + store.value_bytes) / 1e6
                began = time.perf_counter()
                for chunks in np.array_split(np.arange(len(store.chunks)), 20):
                    store.read_block(chunks, None)
                seconds, read = time.perf_counter() - began, store.cost.bytes_read / 1e6
            tables.row(path.stem, bandwidth, f"{read:.0f}", f"{seconds:.2f}", f"{raw:.0f}", f"{raw / bandwidth:.2f}")


def main() -> None:
    p = parser(__doc__)
    p.add_argument("stores", nargs="+", metavar="TRAIN.h5,TEST.h5")
    p.add_argument("--shares", type=listed, default=("8", "32"), help="memory: 1/N of the decoded rows")
    p.add_argument("--bandwidth", type=float, default=100.0)
    p.add_argument("--outer", type=int, default=40)
    p.add_argument("--figure", type=Path, metavar="FILE.png")
    options = p.parse_args()
    tables, curves = Tables(options), {}
    for name in options.stores:
        rows, store = load(name), Path(name.partition(",")[0])
        best = fit(rows.X, rows.y, tol=EXACT, max_outer=1000)
        assert best.certificate is not None
        least, accuracy = best.certificate.dual, rows.accuracy(best.model.weights)
        tables.begin(f"{rows.name}: seconds (MB read) to a distance from P*, and to the optimum's accuracy "
                     f"({accuracy:.2f} %) less {TENTH}; disk of {options.bandwidth:g} MB/s",
                     "memory", "method", *(f"{target:g}" for target in TARGETS), "accuracy",
                     "last distance")  # fmt: skip
        for share in options.shares:
            memory = budget(store, share)
            for method, settings in METHODS.items():
                given = {"memory": memory, "tol": TARGETS[-1] / 2.0} | settings
                if method == PEGASOS:  # its vectors have memory of their own
                    given["memory"] += VECTORS * 8 * rows.X.shape[1]
                curve(store, rows, least, math.inf, **given, max_outer=1)  # loads the kernels
                points = curve(store, rows, least, options.bandwidth, **given, max_outer=options.outer)
                cells = [first(points, lambda point, at=target: point.distance <= at) for target in TARGETS]
                right = first(points, lambda point, least=accuracy - TENTH: point.accuracy >= least)
                tables.row(f"1/{share}", method, *cells, right, f"{points[-1].distance:.1e}")
                if share == options.shares[0]:
                    curves.setdefault(rows.name, {})[method] = points
    table_of_compression(tables, [Path(name.partition(",")[0]) for name in options.stores])
    if options.figure:
        figure(curves, options.figure)
    tables.end()


def figure(curves: dict[str, dict[str, list[Point]]], path: Path) -> None:
    """For each data set the distance against seconds, and the accuracy against MB read."""
    with panels(path, 2, len(curves)) as axes:
        for (name, methods), (above, below) in zip(curves.items(), axes.T, strict=True):
            for method, points in methods.items():
                style = {"label": method, "lw": 2.5 if method == "default" else 1.2, "marker": "o", "ms": 2.5}
                above.loglog([p.seconds for p in points], [max(p.distance, 1e-6) for p in points], **style)
                below.semilogx([p.megabytes for p in points], [p.accuracy for p in points], **style)
            best = max(p.accuracy for points in methods.values() for p in points)
            above.set(title=name, xlabel="seconds", ylabel="(P(w) - P*) / P*")
            below.set(xlabel="MB read", ylabel="test accuracy, %", ylim=(best - 3.0, best + 0.3))
        axes[0, 0].legend(fontsize=7)


if __name__ == "__main__":
    main()
