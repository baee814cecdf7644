"""The findings of Yu, Hsieh, Chang, Lin (KDD 2010; TKDD 5, 2012) about training in blocks, counted again in outer
iterations: how many blocks, fixed or redrawn, inner passes, orders, Pegasos' updates, averages of blocks.

    python -m experiments.convergence TRAIN.h5,TEST.h5 ... [--only numbers,passes,baselines] [--most 300]

TEST: rows held out of the store (``split --holdout``).  All is hinge loss with C = 1, no bias, rows in memory that are
visited as if they were read block by block: what is counted does not depend on the disk.  A cell is the number of outer
iterations until a relative gap of 1e-3 is certified, or > and the number that did not reach it with the gap then.
"""

import math
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse

from blocksvm import fit, open_store
from blocksvm.sources.matrix import Matrix
from blocksvm.training.loop import OuterLoop
from blocksvm.training.partition import Partition
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings
from blocksvm.training.working_set import bytes_of_set
from experiments.runs import row, script, table

TOL = 1e-3
MEMORY = 1 << 40  # bytes: what the machine has; blocks are given in chunks, the working set in bytes
SET_SHARE = 0.1  # of the nonzeros, for the working set of runs with one
BLOCKS = 8
NUMBERS = (5, 20, 100, 1000)  # of blocks
SCHEDULES = ("1", "5", "20", "auto")
UPDATES = (1, 100, None)  # of Pegasos in a visit; None: one a row
OUTER = 14  # of the comparisons at equal readings


class Rows(NamedTuple):
    """Training rows X (n, d), y (n,) of +-1, those held out, and the outer iterations that a run may take."""

    name: str
    X: scipy.sparse.csr_matrix
    y: np.ndarray
    X_test: scipy.sparse.csr_matrix
    y_test: np.ndarray
    most: int


def load(name: str, most: int) -> Rows:
    """From 'TRAIN.h5,TEST.h5'; features that only the test rows have are left out."""
    found = []
    for path in name.split(","):
        with open_store(path) as store:
            block = store.read_block(np.arange(len(store.chunks)), None)
            values = np.ones(len(block.indices), np.float32) if block.values is None else block.values
            X = scipy.sparse.csr_matrix((values, block.indices, block.indptr), (store.n_samples, store.n_features))
            found.append((X, np.array(block.y), np.array(store.feature_ids(0, store.n_features))))
    (X, y, ids), (X_test, y_test, test_ids) = found
    _, own, others = np.intersect1d(ids, test_ids, return_indices=True)
    of_train = scipy.sparse.csr_matrix((np.ones(len(own)), (others, own)), (len(test_ids), len(ids)))
    return Rows(Path(name.partition(",")[0]).stem.removesuffix("-train"), X, y, X_test @ of_train, y_test, most)


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
        # once: one order for each block, whenever it is visited; all blocks have the same one here
        return super().row_order(*((outer, visit, inner_pass) if self.order_of_rows == "redrawn" else (1, 0, 0)), out)


class Ended(NamedTuple):
    """What a table says of a run, the mean number of its passes over a row, the weights (d,)."""

    cell: str
    passes: float
    w: np.ndarray


def run(rows: Rows, n_blocks: int, chunks: int = 1, orders: tuple = (), with_set=False, **settings) -> Ended:
    """Train on so many blocks, each of at least so many chunks where the rows are enough, one pass a visit unless a
    schedule is given."""
    chunk = max(1, len(rows.y) // (n_blocks * chunks))
    source = Matrix(rows.X, rows.y, chunk_rows=np.arange(0, len(rows.y), chunk))
    if settings.get("solver") != "pegasos":
        n, nnz = (int(SET_SHARE * count) + 1 for count in (source.n_samples, source.n_nonzeros))
        settings["working_set"] = f"{bytes_of_set(source, n, nnz) / MEMORY:.6e}" if with_set else "none"
    block_chunks = -(-math.ceil(len(rows.y) / chunk) // n_blocks)
    given = {"schedule": "1", "tol": TOL, "max_outer": rows.most, "block_chunks": block_chunks} | settings
    plan = Plan(source, TrainSettings.of(memory=MEMORY, **given))
    if orders:
        plan.blocks = replace(plan.blocks, partition=OrderedPartition(plan.blocks.partition, *orders))
    found = OuterLoop(plan).run()
    gap = found.certificate and found.certificate.rel_gap  # none of Pegasos
    cell = "" if gap is None else str(found.outer) if gap <= TOL else f"> {found.outer} ({gap:.1e})"
    return Ended(cell, sum(found.passes) / max(1, len(plan.blocks.partition.stored)), found.w[:-1])


def numbers(rows: Rows) -> None:
    table(f"{rows.name}: outer iterations by the number of blocks; one pass a visit", "blocks", "fixed", "redrawn",
          "fixed, with a working set", "redrawn, with one")  # fmt: skip
    for number in NUMBERS:
        if len(rows.y) >= 4 * number:
            ways = [(with_set, *kind) for with_set in (False, True) for kind in (("fixed", 1), ("redrawn", 8))]
            row(number, *(run(rows, number, chunks, with_set=with_set, partition=kind).cell
                          for with_set, kind, chunks in ways))  # fmt: skip


def passes(rows: Rows) -> None:
    table(f"{rows.name}: outer iterations (passes over a row) by inner passes; {BLOCKS} blocks, no working set",
          "schedule", "fixed blocks", "redrawn blocks")  # fmt: skip
    for schedule in SCHEDULES:
        both = [run(rows, BLOCKS, 50, schedule=schedule, partition=kind) for kind in ("fixed", "redrawn")]
        row(schedule, *(f"{one.cell} ({one.passes:.0f})" for one in both))


def orders(rows: Rows) -> None:
    table(f"{rows.name}: outer iterations by orders; one pass a visit, no working set", "rows of a block",
          f"{BLOCKS} fixed blocks, redrawn", "stored", "all rows in one block")  # fmt: skip
    for order in ("redrawn", "once", "stored"):
        blocks = [run(rows, BLOCKS, 50, (order, of_blocks), partition="fixed").cell
                  for of_blocks in ("redrawn", "stored")]  # fmt: skip
        row(order, *blocks, run(rows, 1, orders=(order, "stored")).cell)


def baselines(rows: Rows) -> None:
    """Weights after equal readings, by their distance to the optimum."""
    best = fit(rows.X, rows.y, tol=1e-6, max_outer=1000)
    least = best.certificate.dual
    table(f"{rows.name}: (P(w) - P*) / P* and test accuracy; {OUTER} outer iterations over {BLOCKS} blocks",
          "weights", "distance", "accuracy %")  # fmt: skip

    def show(name: str, w: np.ndarray) -> None:
        primal = float(0.5 * (w @ w) + np.maximum(0.0, 1.0 - rows.y * (rows.X @ w)).sum())
        right = 100.0 * float(np.mean((rows.X_test @ w > 0.0) == (rows.y_test > 0.0)))
        row(name, f"{(primal - least) / least:.2e}", f"{right:.2f}")

    show("the optimum", best.model.weights)
    given = {"n_blocks": BLOCKS, "chunks": 50, "max_outer": OUTER, "tol": 0.0}
    for schedule, kind in (("1", "fixed"), ("1", "redrawn"), ("10", "redrawn")):
        name = f"dual coordinate descent, blocks {kind}, {schedule} inner pass{'es' * (schedule != '1')}"
        show(name, run(rows, schedule=schedule, partition=kind, **given).w)
    for count in UPDATES:
        batch = 1 if count is None else math.ceil(len(rows.y) / BLOCKS / count)
        name = "one update a row" if count is None else f"{count} update{'s' * (count > 1)} a visit"
        w = run(rows, solver="pegasos", batch=batch, partition="fixed", **given).w
        show(f"Pegasos, {name}, blocks fixed", w)
    for C in (1, BLOCKS):  # the second weighs losses and norm as all rows do
        parts = np.array_split(np.arange(len(rows.y)), BLOCKS)
        alone = [fit(rows.X[part], rows.y[part], C=float(C)).model.weights for part in parts]
        show(f"mean of the optima of {BLOCKS} blocks at C = {C}, one reading", np.mean(alone, axis=0))
        show(f"the optimum of one block of {BLOCKS} at C = {C}", alone[0])


TABLES = {one.__name__: one for one in (numbers, passes, orders, baselines)}


@script("stores", only=tuple(TABLES), most=300)
def main(options) -> None:
    for name in options.stores:
        rows = load(name, options.most)
        for only in options.only:
            TABLES[only](rows)
