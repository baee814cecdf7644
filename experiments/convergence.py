"""The findings of Yu, Hsieh, Chang, Lin (KDD 2010; TKDD 5, 2012) about training in blocks, counted again in outer
iterations: which rows form a block, how many blocks, inner passes, orders, Pegasos' updates, averages of blocks.

    python -m experiments.convergence TRAIN.h5,TEST.h5 ... [--only numbers,passes,baselines] [--tol 1e-3] [--most 300]
        [--seed 0]

TEST: rows held out of the store (``split --holdout``).  All is hinge loss with C = 1, no bias, rows in memory that are
visited as if they were read block by block: what is counted does not depend on the disk.  A cell is the number of outer
iterations until a relative gap of --tol is certified, or > and the number that did not reach it with the gap then.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse

from blocksvm import fit, open_store
from blocksvm.sources.matrix import Matrix
from blocksvm.training.loop import OuterLoop
from blocksvm.training.partition import Partition
from blocksvm.training.plan import Plan
from blocksvm.training.train_settings import TrainSettings
from blocksvm.training.working_set import bytes_of_set
from experiments.runs import begin, listed, parser, row, table

MEMORY = 1 << 40  # bytes: what the machine has; blocks are given in chunks, the working set in bytes
SET_SHARE = 0.1  # of the nonzeros, for the working set of runs with one
BLOCKS = 8
CHUNKS = (64, 256, 1024, 4096, 16384)  # rows
NUMBERS = (5, 10, 20, 50, 100, 200, 500, 1000)  # of blocks
SCHEDULES = ("1", "5", "10", "20", "tol:0.1", "tol:0.01", "auto")
ORDERS = ("redrawn", "once", "stored")
UPDATES = (1, 10, 100, None)  # of Pegasos in a visit; None: one a row
OUTER = 14  # of the comparisons at equal readings
EXACT = 1e-6  # gap of the optimum that distances are taken to


@dataclass(frozen=True)
class Rows:
    """Training rows X (n, d), y (n,) of +-1, and those held out."""

    name: str
    X: scipy.sparse.csr_matrix
    y: np.ndarray
    X_test: scipy.sparse.csr_matrix
    y_test: np.ndarray

    def accuracy(self, w: np.ndarray) -> float:
        """Percentage of the held-out rows on the right side; w (d,)."""
        return 100.0 * float(np.mean((self.X_test @ w > 0.0) == (self.y_test > 0.0)))

    def primal(self, w: np.ndarray) -> float:
        """1/2 ||w||^2 + sum of max(0, 1 - y <w, x>)."""
        return float(0.5 * (w @ w) + np.maximum(0.0, 1.0 - self.y * (self.X @ w)).sum())


def load(name: str) -> Rows:
    """From 'TRAIN.h5,TEST.h5'; features that only the test rows have are left out."""
    found = []
    for path in name.split(","):
        with open_store(path) as store:
            block = store.read_block(np.arange(len(store.chunks)), None)
            values = np.ones(len(block.indices), np.float32) if block.values is None else block.values
            ids = store.feature_ids(0, store.n_features)
            X = scipy.sparse.csr_matrix((values, block.indices, block.indptr), (store.n_samples, store.n_features))
            found.append((X, np.array(block.y), np.array(ids)))
    (X, y, ids), (X_test, y_test, test_ids) = found
    known = np.isin(test_ids, ids)
    place = np.argsort(ids)[np.searchsorted(np.sort(ids), test_ids[known])]
    of_train = scipy.sparse.csr_matrix((np.ones(len(place)), (np.flatnonzero(known), place)), (len(known), len(ids)))
    return Rows(Path(name.partition(",")[0]).stem.removesuffix("-train"), X, y, X_test @ of_train, y_test)


class OrderedPartition(Partition):
    """Blocks of a partition in another order: each of ``rows`` (within a block) and ``order`` (of the blocks)
    'redrawn' at each pass, drawn 'once', or as 'stored'."""

    def __init__(self, of: Partition, rows: str, order: str):
        self.__dict__.update(of.__dict__)
        self.order_of_rows, self.order_of_blocks = rows, order

    def blocks(self, outer: int) -> list[np.ndarray]:
        if self.order_of_blocks == "stored":
            return self.stored
        return super().blocks(outer if self.order_of_blocks == "redrawn" else 1)

    def row_order(self, outer: int, visit: int, inner_pass: int, out: np.ndarray) -> np.ndarray:
        if self.order_of_rows == "stored":
            out[:] = np.arange(len(out))
            return out
        if self.order_of_rows == "redrawn":
            return super().row_order(outer, visit, inner_pass, out)
        # one order for each block, whenever it is visited: all blocks have the same one here
        return super().row_order(1, 0, 0, out)


@dataclass(frozen=True)
class Ended:
    """A run's outer iterations, the mean number of passes over a row, the certified gap, the weights (d,)."""

    outers: int
    passes: float
    gap: float | None
    w: np.ndarray

    def cell(self, tol: float) -> str:
        assert self.gap is not None
        return str(self.outers) if self.gap <= tol else f"> {self.outers} ({self.gap:.1e})"


def run(rows: Rows, chunk: int, orders: tuple[str, str] | None = None, with_set: bool = False, **settings) -> Ended:
    """Train on blocks of chunks of so many rows."""
    source = Matrix(rows.X, rows.y, chunk_rows=np.arange(0, len(rows.y), chunk))
    share = "none"
    if with_set:
        n, nnz = (int(SET_SHARE * count) + 1 for count in (source.n_samples, source.n_nonzeros))
        share = f"{bytes_of_set(source, n, nnz) / MEMORY:.6e}"
    if settings.get("solver") != "pegasos":
        settings["working_set"] = share
    plan = Plan(source, TrainSettings.of(memory=MEMORY, **settings))
    if orders is not None:
        plan.blocks = replace(plan.blocks, partition=OrderedPartition(plan.blocks.partition, *orders))
    result = OuterLoop(plan).run()
    gap = None if result.certificate is None else result.certificate.rel_gap
    return Ended(result.outer, sum(result.passes) / max(1, len(plan.blocks.partition.stored)), gap, result.w[:-1])


def blocks_of(rows: Rows, n_blocks: int, chunks: int = 1) -> tuple[int, int]:
    """(rows of a chunk, chunks of a block) for so many blocks of at least so many chunks, where the rows are enough."""
    chunk = max(1, len(rows.y) // (n_blocks * chunks))
    n_chunks = -(-len(rows.y) // chunk)
    return chunk, -(-n_chunks // n_blocks)


def table_of_kinds(rows: Rows, stop: dict, tol: float) -> None:
    """Which rows form a block."""
    n = len(rows.y)
    table(f"{rows.name}: outer iterations by the rows of a block; one pass a visit",
          "blocks", "without a working set", "with one")  # fmt: skip
    whole, in_block = blocks_of(rows, 1), blocks_of(rows, BLOCKS)
    kinds: dict[str, tuple[tuple[int, int], dict]] = {
        "all rows in one": (whole, {}),
        f"{BLOCKS}, fixed, visited in a new order each time": (in_block, {"partition": "fixed"}),
    }
    for chunk in CHUNKS:
        if n > 2 * chunk:  # of few chunks there are fewer blocks, of two chunks each
            n_chunks = math.ceil(n / chunk)
            many = max(2, math.ceil(n_chunks / BLOCKS))
            kinds[f"{math.ceil(n_chunks / many)}, redrawn from chunks of {chunk:,} rows"] = (chunk, many), {}
    for name, ((chunk, many), more) in kinds.items():
        both = [run(rows, chunk, with_set=with_set, schedule="1", block_chunks=many, **stop, **more)
                for with_set in (False, True)]  # fmt: skip
        row(name, *(one.cell(tol) for one in both))


def table_of_numbers(rows: Rows, stop: dict, tol: float) -> None:
    """How many blocks there are."""
    n = len(rows.y)
    table(f"{rows.name}: outer iterations by the number of blocks; one pass a visit", "blocks", "fixed",
          "redrawn", "fixed, with a working set", "redrawn, with one")  # fmt: skip
    for number in NUMBERS:
        if n >= 4 * number:
            cells = []
            for with_set in (False, True):
                for kind, chunks in (("fixed", 1), ("redrawn", 8)):
                    chunk, many = blocks_of(rows, number, chunks)
                    ended = run(rows, chunk, with_set=with_set, schedule="1", block_chunks=many, partition=kind, **stop)
                    cells.append(ended.cell(tol))
            row(number, *cells)


def table_of_passes(rows: Rows, stop: dict, tol: float) -> None:
    """Inner passes."""
    chunk, many = blocks_of(rows, BLOCKS, 50)
    table(f"{rows.name}: outer iterations (passes over a row) by inner passes; {BLOCKS} blocks, no working set",
          "schedule", "fixed blocks", "redrawn blocks")  # fmt: skip
    for schedule in SCHEDULES:
        cells = []
        for kind in ("fixed", "redrawn"):
            ended = run(rows, chunk, schedule=schedule, block_chunks=many, partition=kind, **stop)
            cells.append(f"{ended.cell(tol)} ({ended.passes:.0f})")
        row(schedule, *cells)


def table_of_orders(rows: Rows, stop: dict, tol: float) -> None:
    """Orders of rows and of blocks."""
    chunk, many = blocks_of(rows, BLOCKS, 50)
    table(f"{rows.name}: outer iterations by orders; one pass a visit, no working set", "rows of a block",
          f"{BLOCKS} fixed blocks, redrawn", "once", "stored", "all rows in one block")  # fmt: skip
    one_block = blocks_of(rows, 1)
    for order in ORDERS:
        kinds = [run(rows, chunk, (order, of_blocks), schedule="1", block_chunks=many, partition="fixed", **stop)
                 for of_blocks in ORDERS]  # fmt: skip
        whole = run(rows, one_block[0], (order, "stored"), schedule="1", block_chunks=one_block[1], **stop)
        row(order, *(one.cell(tol) for one in (*kinds, whole)))


def solved_blocks(rows: Rows, C: float) -> list[np.ndarray]:
    """The optimum of each block alone."""
    parts = np.array_split(np.arange(len(rows.y)), BLOCKS)
    return [fit(rows.X[part], rows.y[part], C=C).model.weights for part in parts]


def table_of_baselines(rows: Rows, stop: dict, tol: float) -> None:
    """Weights after equal readings, by their distance to the optimum."""
    best = fit(rows.X, rows.y, tol=EXACT, max_outer=1000)
    assert best.certificate is not None
    least = best.certificate.dual
    table(f"{rows.name}: (P(w) - P*) / P* and test accuracy; {OUTER} outer iterations over {BLOCKS} blocks",
          "weights", "distance", "accuracy %")  # fmt: skip

    def show(name: str, w: np.ndarray) -> None:
        row(name, f"{(rows.primal(w) - least) / least:.2e}", f"{rows.accuracy(w):.2f}")

    show("the optimum", best.model.weights)
    chunk, many = blocks_of(rows, BLOCKS, 50)
    given = {"block_chunks": many, "max_outer": OUTER, "tol": 0.0}
    for passes in ("1", "10"):
        for kind in ("fixed", "redrawn"):
            name = f"dual coordinate descent, blocks {kind}, {passes} inner pass{'es' * (passes != '1')}"
            show(name, run(rows, chunk, schedule=passes, partition=kind, **given).w)
    in_block = math.ceil(len(rows.y) / BLOCKS)
    for count in UPDATES:
        batch = 1 if count is None else math.ceil(in_block / count)
        name = "one update a row" if count is None else f"{count} update{'s' * (count > 1)} a visit"
        w = run(rows, chunk, solver="pegasos", batch=batch, schedule="1", partition="fixed", **given).w
        show(f"Pegasos, {name}, blocks fixed", w)
    for C in (1, BLOCKS):  # the second weighs losses and norm as all rows do
        alone = solved_blocks(rows, float(C))
        show(f"mean of the optima of {BLOCKS} blocks at C = {C}, one reading", np.mean(alone, axis=0))
        show(f"the optimum of one block of {BLOCKS} at C = {C}", alone[0])


TABLES = {
    "kinds": table_of_kinds, "numbers": table_of_numbers, "passes": table_of_passes, "orders": table_of_orders,
    "baselines": table_of_baselines,
}  # fmt: skip


def main() -> None:
    p = parser(__doc__)
    p.add_argument("--only", type=listed, default=list(TABLES), help=f"of the tables {', '.join(TABLES)}")
    p.add_argument("stores", nargs="+", metavar="TRAIN.h5,TEST.h5")
    p.add_argument("--tol", type=float, default=1e-3)
    p.add_argument("--most", type=int, default=300, help="outer iterations")
    p.add_argument("--seed", type=int, default=0)
    options = p.parse_args()
    begin()
    stop = {"tol": options.tol, "max_outer": options.most, "seed": options.seed}
    for name in options.stores:
        rows = load(name)
        for only in options.only:
            TABLES[only](rows, stop, options.tol)


if __name__ == "__main__":
    main()
