"""The findings of Yu, Hsieh, Chang, Lin (KDD 2010; TKDD 5, 2012) about training in blocks, counted again in outer
iterations: how many blocks, fixed or redrawn, inner passes, orders.

    python -m experiments.convergence TEXT.svm ... [--only numbers,passes,orders] [--most 300]

All is hinge loss with C = 1, no bias, rows in memory, in an order that is drawn, which are visited as if they were read
block by block: what is counted does not depend on the disk.  A cell is the number of outer iterations until a relative
gap of 1e-3 is certified, or > and the number that did not reach it with the gap then.
"""

import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from blocksvm.sources.matrix import Matrix
from blocksvm.training.loop import OuterLoop
from blocksvm.training.partition import Partition
from blocksvm.training.plan import Plan
from blocksvm.training.settings import TrainSettings
from blocksvm.training.working_set import bytes_of_set
from experiments.runs import row, rows_of, script, table

TOL = 1e-3
MEMORY = 1 << 40  # bytes: what the machine has; blocks are given in chunks, the working set in bytes
SET_SHARE = 0.1  # of the nonzeros, for the working set of runs with one
BLOCKS = 8
NUMBERS = (5, 20, 100, 1000)  # of blocks
SCHEDULES = ("1", "5", "20", "auto")


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


def run(X, y: np.ndarray, most: int, n_blocks: int, chunks: int = 1, orders: tuple = (), with_set=False, passes=False,
        **settings) -> str:  # fmt: skip
    """The cell of a training on so many blocks, each of at least so many chunks where the rows are enough, one pass a
    visit unless a schedule is given; passes: with the mean number of passes over a row."""
    chunk = max(1, len(y) // (n_blocks * chunks))
    source = Matrix(X, y, chunk_rows=np.arange(0, len(y), chunk))
    n, nnz = (int(SET_SHARE * count) + 1 for count in (source.n_samples, source.n_nonzeros))
    share = f"{bytes_of_set(source, n, nnz) / MEMORY:.6e}" if with_set else "none"
    given = {"schedule": "1", "tol": TOL, "max_outer": most, "working_set": share}
    given |= {"block_chunks": -(-math.ceil(len(y) / chunk) // n_blocks)} | settings
    plan = Plan(source, TrainSettings.of(memory=MEMORY, **given))
    if orders:
        plan.blocks = replace(plan.blocks, partition=OrderedPartition(plan.blocks.partition, *orders))
    found = OuterLoop(plan).run()
    gap = found.certificate.rel_gap
    cell = str(found.outer) if gap <= TOL else f"> {found.outer} ({gap:.1e})"
    return f"{cell} ({sum(found.passes) / max(1, len(plan.blocks.partition.stored)):.0f})" if passes else cell


@script("texts+", only=("numbers", "passes", "orders"), most=300)
def main(options) -> None:
    for text in options.texts:
        (X, y), name = rows_of(text), Path(text).stem
        order = np.random.default_rng(0).permutation(len(y))
        cell = partial(run, X[order], y[order], options.most)
        if "numbers" in options.only:
            table(f"{name}: outer iterations by the number of blocks; one pass a visit", "blocks", "fixed", "redrawn",
                  "fixed, with a working set", "redrawn, with one")  # fmt: skip
            for number in (number for number in NUMBERS if len(y) >= 4 * number):
                row(number, *(cell(number, chunks, with_set=with_set, partition=kind) for with_set in (False, True)
                              for kind, chunks in (("fixed", 1), ("redrawn", 8))))  # fmt: skip
        if "passes" in options.only:
            table(f"{name}: outer iterations (passes over a row) by inner passes; {BLOCKS} blocks, no working set",
                  "schedule", "fixed blocks", "redrawn blocks")  # fmt: skip
            for schedule in SCHEDULES:
                row(schedule, *(cell(BLOCKS, 50, schedule=schedule, partition=kind, passes=True)
                                for kind in ("fixed", "redrawn")))  # fmt: skip
        if "orders" in options.only:
            table(f"{name}: outer iterations by orders; one pass a visit, no working set", "rows of a block",
                  f"{BLOCKS} fixed blocks, redrawn", "stored", "all rows in one block")  # fmt: skip
            for order in ("redrawn", "once", "stored"):
                blocks = [cell(BLOCKS, 50, (order, kind), partition="fixed") for kind in ("redrawn", "stored")]
                row(order, *blocks, cell(1, orders=(order, "stored")))
