"""Owns the planted click log: rows of one-hot columns with heavy tails, few of them positive, as svmlight text.

    make_clicks.py OUT.svm [--rows 2000000] [--columns 26] [--positive 0.05] [--drift 0] [--seed 0]

Column k has 10^U(1, 6) values; a row's value in it is floor(3 Pareto(0.7)), at most the column's last.  Each value has
a weight drawn from N(0, 1/4); a row's score is the sum of its weights and N(0, 1) noise, and the rows of the largest
scores are positive.  With --drift SHARE the weights turn, from the first row to the last, by that share of a right
angle towards others drawn alike: by 1 the last rows have nothing to do with the first ones' weights.  Every entry is 1
and rows are not normalised; ids count from 1, column after column.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

PIECE = 20_000  # rows drawn and written at a time


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=26)
    parser.add_argument("--positive", type=float, default=0.05, metavar="SHARE")
    parser.add_argument("--drift", type=float, default=0.0, metavar="SHARE")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.rows < 2 or args.columns < 1 or not 0.0 < args.positive < 1.0 or args.drift < 0.0:
        parser.error(
            "expected at least 2 rows, a column, a share of positive rows between 0 and 1, and a drift of 0 or more"
        )
    if os.path.exists(args.out) and not os.path.isfile(args.out):
        parser.error(f"{args.out} is not a regular file")
    started = time.perf_counter()
    rng = np.random.default_rng(args.seed)
    sizes = (10.0 ** rng.uniform(1.0, 6.0, args.columns)).astype(np.int64)
    first = np.cumsum(sizes) - sizes
    weights = rng.normal(0.0, 0.5, int(sizes.sum()))  # variance 1/4
    others = rng.normal(0.0, 0.5, len(weights)) if args.drift else weights

    def drawn(piece: int) -> tuple[np.ndarray, np.ndarray]:
        """(ids, scores) of a piece, the same whenever it is drawn."""
        rng = np.random.default_rng((args.seed, 1 + piece))
        n = min(PIECE, args.rows - piece * PIECE)
        values = np.minimum(3.0 * rng.pareto(0.7, (n, args.columns)), sizes - 1.0).astype(np.int64)
        ids = values + first
        turned = 0.5 * np.pi * args.drift * piece * PIECE / args.rows
        scores = weights[ids].sum(axis=1)
        if turned:
            scores = np.cos(turned) * scores + np.sin(turned) * others[ids].sum(axis=1)
        return ids, scores + rng.normal(size=n)

    pieces = range(-(-args.rows // PIECE))
    threshold = np.quantile(np.concatenate([drawn(piece)[1] for piece in pieces]), 1.0 - args.positive)
    partial = f"{args.out}.tmp{os.getpid()}"
    try:
        with open(partial, "w") as out:
            for piece in pieces:
                ids, scores = drawn(piece)
                labels = np.where(scores > threshold, "+1", "-1").tolist()
                for label, row in zip(labels, (ids + 1).tolist(), strict=True):
                    out.write(f"{label} {' '.join(f'{i}:1' for i in row)}\n")
        os.replace(partial, args.out)
    finally:
        if os.path.exists(partial):
            os.remove(partial)
    seconds = time.perf_counter() - started
    print(f"{args.out}: {args.rows} rows, {args.rows * args.columns} nonzeros, {os.path.getsize(args.out)} bytes, "
          f"{seconds:.1f} s")  # fmt: skip


if __name__ == "__main__":
    main()
