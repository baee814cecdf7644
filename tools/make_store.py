"""Owns the store that is larger than memory: made straight into the store's format, chunk by chunk, never as text.

    make_store.py OUT.h5 [--rows 50000000] [--features 20000000] [--mean-nonzeros 64] [--noise 0.1]
                  [--seed 0] [--jobs 2]

Features are zipf-distributed (numbered by falling frequency), row lengths geometric, values multiples of 1/16, labels
planted: the side of a hidden linear model on which a row lies, some of them flipped.  All of it follows from hashes of
(seed, piece), so the store is the same for any number of jobs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numba
import numpy as np

from blocksvm.conversion.parallel_parsing import ordered_map
from blocksvm.kernels.hash_table import scramble
from blocksvm.sources.source import chunk_nonzeros
from blocksvm.store.creation import create_hdf5
from blocksvm.store.hdf5_files import write_meta
from blocksvm.store.schema import ROW
from blocksvm.store.writer import StoreWriter

PIECE_ROWS = 100_000
BYTES_A_NONZERO = 4.0  # in the store, for the check of free space


@numba.njit(nogil=True, cache=True)
def uniform(key, k):
    """The k-th number in [0, 1) of a key's sequence."""
    bits = scramble(np.uint64(key) + np.uint64(k) * np.uint64(0x9E3779B97F4A7C15))
    return np.float64(bits >> np.uint64(11)) * 2.0**-53


@numba.njit(nogil=True, cache=True)
def make_rows(key, n_features, mean, noise, hidden, lengths, labels, sq_norms, indices, values):
    """Fill rows; returns the nonzeros made.  hidden (m,) float32: weights that features share by their hash."""
    filled = 0
    drawn = 0
    span = np.log(n_features + 1.0)
    stop = np.log(1.0 - 1.0 / mean)
    most = int(8 * mean)
    row = np.empty(most, np.int32)
    for r in range(lengths.shape[0]):
        n = 1 + int(np.log(1.0 - uniform(key, drawn)) / stop)
        drawn += 1
        n = min(n, most)
        for k in range(n):
            row[k] = min(n_features - 1, int(np.exp(uniform(key, drawn) * span)) - 1)
            drawn += 1
        row[:n].sort()
        start = filled
        score = 0.0
        total = 0.0
        for k in range(n):
            if k and row[k] == row[k - 1]:
                continue
            bits = scramble(np.uint64(key) ^ (np.uint64(r) << np.uint64(32)) ^ np.uint64(row[k]))
            v = np.float32((1 + (bits & np.uint64(15))) / 16.0)
            indices[filled] = row[k]
            values[filled] = v
            total += v * v
            score += v * hidden[scramble(np.uint64(row[k])) % np.uint64(hidden.shape[0])]
            filled += 1
        flip = uniform(key, drawn) < noise
        drawn += 1
        labels[r] = 1.0 if (score > 0.0) != flip else -1.0
        lengths[r] = filled - start
        sq_norms[r] = total
    return filled


def make_piece(seed: int, piece: int, n_rows: int, options, hidden: np.ndarray):
    """(row records, indices, values) of rows ``piece * PIECE_ROWS`` and on."""
    most = int(n_rows * options.mean_nonzeros * 1.2) + 16 * options.mean_nonzeros * 8
    lengths, labels, sq_norms = np.empty(n_rows, np.int64), np.empty(n_rows), np.empty(n_rows)
    indices, values = np.empty(most, np.int32), np.empty(most, np.float32)
    key = np.uint64((seed << 40) + piece * 2_000_000_011 + 1)
    nnz = make_rows(
        key,
        options.features,
        float(options.mean_nonzeros),
        options.noise,
        hidden,
        lengths,
        labels,
        sq_norms,
        indices,
        values,
    )
    rows = np.empty(n_rows, ROW)
    rows["length"], rows["label"], rows["sq_norm"] = lengths, labels, sq_norms
    rows["source"] = piece * PIECE_ROWS + np.arange(n_rows)
    return rows, indices[:nnz], values[:nnz]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", type=Path)
    p.add_argument("--rows", type=int, default=50_000_000)
    p.add_argument("--features", type=int, default=20_000_000)
    p.add_argument("--mean-nonzeros", type=int, default=64)
    p.add_argument("--noise", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--jobs", type=int, default=2)
    options = p.parse_args()
    expected = options.rows * options.mean_nonzeros
    free = shutil.disk_usage(options.out.resolve().parent).free
    if free < 1.1 * BYTES_A_NONZERO * expected:
        sys.exit(f"{options.out}: {free / 1e9:.0f} GB free, about {BYTES_A_NONZERO * expected / 1e9:.0f} GB needed")
    hidden = np.random.default_rng(options.seed).normal(size=1 << 20).astype(np.float32)
    pieces = [(k, min(PIECE_ROWS, options.rows - k * PIECE_ROWS)) for k in range(-(-options.rows // PIECE_ROWS))]
    began = time.perf_counter()
    with create_hdf5(options.out, "store") as file, ThreadPoolExecutor(options.jobs) as pool:
        chunk = chunk_nonzeros(expected, options.rows)
        writer = StoreWriter(file, options.rows, chunk, np.float32, pool, options.jobs)
        made = ordered_map(pool, lambda piece: make_piece(options.seed, *piece, options, hidden), pieces, options.jobs)
        for k, (rows, indices, values) in enumerate(made):
            writer.append(rows, indices, values)
            if k % 50 == 49:
                spent = time.perf_counter() - began
                print(
                    f"{(k + 1) / len(pieces):.0%}, {clock(spent / (k + 1) * (len(pieces) - k - 1))} left",
                    file=sys.stderr,
                )
        settings = {"seed": options.seed, "order": "shuffled", "normalize": "none", "min_count": 1,
                    "duplicates": "error", "holdout": 0.0}  # fmt: skip
        meta = {"settings": settings, "sources": [], "source_rows": options.rows}
        meta = writer.finish(options.features, lambda start, stop: np.arange(start, stop), meta)
        write_meta(file, meta)
    size = options.out.stat().st_size
    print(
        f"{options.out}: {meta['n_samples']:,} rows, {meta['n_features']:,} features, {meta['n_nonzeros']:,} nonzeros; "
        f"{size / 1e9:.2f} GB, {size / meta['n_nonzeros']:.2f} bytes a nonzero, in {meta['n_chunks']:,} chunks; "
        f"{8 * (meta['n_nonzeros'] + meta['n_samples']) / 1e9:.2f} GB as raw CSR; {time.perf_counter() - began:.0f}s"
    )


def clock(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"


if __name__ == "__main__":
    main()
