"""Owns the synthetic benchmark data: sparse svmlight text of any size with zipf-distributed features and planted
labels.

    make_zipf.py out.svm [--rows 1000000] [--features 5000000] [--mean-nonzeros 64] [--seed 0] [--noise 0.1] [--ones]

Feature frequency falls as 1/rank; ids (1 to --features) are a random permutation of the ranks. Row lengths are
geometric. Values grow with a feature's rarity and each row has l2 norm 1 (--ones: all values 1). The label is the
side of a planted hyperplane that uses a quarter of the features of middling frequency, flipped with probability
--noise, so equal rows get both labels. Every row depends only on its number and the options, never on --rows.
"""

import argparse
import os
import time

import numba
import numpy as np

CHUNK = 20_000  # rows formatted at a time
STOP_WORDS = 50  # the most frequent ranks carry no label information, which keeps the labels balanced
RARE = 0.7  # nor do ranks beyond features ** RARE, too rare to be learned
LONGEST = 20  # times the mean row length
u64 = np.uint64


@numba.njit
def mix(h):
    """splitmix64's finalizer."""
    h = (h ^ (h >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> u64(27))) * u64(0x94D049BB133111EB)
    return h ^ (h >> u64(31))


@numba.njit
def uniform(stream, counter):
    """The counter-th number in [0, 1) of a stream."""
    return (mix(stream + u64(counter) * u64(0x9E3779B97F4A7C15)) >> u64(11)) * (1.0 / 9007199254740992.0)


@numba.njit
def stream_of(seed, purpose, number):
    return mix(mix(mix(u64(seed)) + u64(purpose)) + u64(number))


@numba.njit
def scrambled_ids(features, seed):
    """A random permutation of 1..features: the id of each rank."""
    ids = np.arange(1, features + 1).astype(np.int32)
    stream = stream_of(seed, 1, 0)
    for i in range(features - 1, 0, -1):
        j = int(uniform(stream, i) * (i + 1))
        ids[i], ids[j] = ids[j], ids[i]
    return ids


@numba.njit
def row_lengths(first, lengths, features, mean, seed):
    """Geometric row lengths; at least one nonzero, at most half of the features."""
    longest = max(1, min(int(LONGEST * mean), features // 2))
    for i in range(lengths.size):
        u = uniform(stream_of(seed, 2, first + i), 0)
        drawn = 1 if mean <= 1.0 else 1 + int(np.log(1.0 - u) / np.log(1.0 - 1.0 / mean))
        lengths[i] = min(drawn, longest)


@numba.njit
def planted_weight(rank, depth, seed):
    stream = stream_of(seed, 3, rank)
    if rank < STOP_WORDS or depth > RARE or uniform(stream, 0) >= 0.25:
        return 0.0
    return 2.0 * uniform(stream, 1) - 1.0


@numba.njit
def put_integer(text, at, number):
    end = at + 1
    rest = number // 10
    while rest:
        end += 1
        rest //= 10
    for k in range(end - 1, at - 1, -1):
        text[k] = 48 + number % 10
        number //= 10
    return end


@numba.njit
def put_fraction(text, at, value):
    """A value in (0, 1] with six significant digits (eight decimals at most), trailing zeros dropped."""
    decimals, scale = 6, 1e6
    while decimals < 8 and value * scale < 1e5:
        decimals += 1
        scale *= 10.0
    number = max(1, int(value * scale + 0.5))
    if number >= scale:
        text[at] = 49
        return at + 1
    while number % 10 == 0:
        number //= 10
        decimals -= 1
    text[at] = 48
    text[at + 1] = 46
    for k in range(at + 1 + decimals, at + 1, -1):
        text[k] = 48 + number % 10
        number //= 10
    return at + 2 + decimals


@numba.njit
def format_rows(first, lengths, ids, last_row, seed, noise, ones, text):
    """Write rows first, first + 1, ... into text; returns its length and the number of positive labels.

    last_row[rank] is one more than the latest row that holds the rank, zero for none.
    """
    span = np.log(ids.size + 1.0)
    keys = np.empty(lengths.max(), np.int64)  # id, then position in the order drawn
    values = np.empty(lengths.max())
    at = positives = 0
    for i in range(lengths.size):
        row = first + i
        stream = stream_of(seed, 4, row)
        drawn, counter, squares, margin = 0, 1, 0.0, 0.0
        while drawn < lengths[i]:
            depth = uniform(stream, counter)  # log rank, as a share of its largest value
            rank = min(int(np.exp(depth * span)), ids.size) - 1
            counter += 1
            if last_row[rank] == row + 1:
                continue
            last_row[rank] = row + 1
            value = 1.0 if ones else (depth + 0.05) * (0.5 + uniform(stream, counter))
            counter += 1
            values[drawn] = value
            keys[drawn] = (np.int64(ids[rank]) << 32) | drawn
            squares += value * value
            margin += value * planted_weight(rank, depth, seed)
            drawn += 1
        positive = (margin > 0.0) if margin != 0.0 else (uniform(stream, counter) < 0.5)
        if uniform(stream, 0) < noise:
            positive = not positive
        positives += positive
        text[at] = 43 if positive else 45
        text[at + 1] = 49
        at += 2
        norm = np.sqrt(squares)
        ordered = keys[:drawn]
        ordered.sort()
        for key in ordered:
            text[at] = 32
            at = put_integer(text, at + 1, key >> 32)
            text[at] = 58
            value = 1.0 if ones else values[key & 0xFFFFFFFF] / norm
            at = put_fraction(text, at + 1, value)
        text[at] = 10
        at += 1
    return at, positives


def write(path: str, rows: int, features: int, mean: float, seed: int, noise: float, ones: bool) -> dict[str, int]:
    """Write the file and return its counts."""
    ids = scrambled_ids(features, seed)
    last_row = np.zeros(features, np.int64)
    chunk = max(1, min(CHUNK, int(2_000_000 / mean)))
    nonzeros = positives = 0
    temporary = f"{path}.tmp{os.getpid()}"
    try:
        with open(temporary, "wb") as out:
            for first in range(0, rows, chunk):
                lengths = np.empty(min(chunk, rows - first), np.int64)
                row_lengths(first, lengths, features, mean, seed)
                # sign, digit, newline; space, up to ten digits, colon, up to ten characters
                text = np.empty(3 * lengths.size + 22 * int(lengths.sum()), np.uint8)
                size, positive = format_rows(first, lengths, ids, last_row, seed, noise, ones, text)
                out.write(text[:size])
                nonzeros += int(lengths.sum())
                positives += positive
        counts = {
            "rows": rows,
            "nonzeros": nonzeros,
            "distinct_features": int(np.count_nonzero(last_row)),
            "positive_rows": positives,
            "bytes": os.path.getsize(temporary),
        }
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.remove(temporary)
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--features", type=int, default=5_000_000)
    parser.add_argument("--mean-nonzeros", type=float, default=64.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--noise", type=float, default=0.1, help="share of labels flipped")
    parser.add_argument("--ones", action="store_true")
    args = parser.parse_args()
    if (
        args.rows < 1
        or not 1 <= args.features < 2**31
        or args.mean_nonzeros < 1
        or not 0 <= args.noise <= 1
        or args.seed < 0
    ):
        parser.error("need rows, features and mean nonzeros >= 1, features < 2**31, noise in [0, 1], seed >= 0")
    if os.path.exists(args.out) and not os.path.isfile(args.out):
        parser.error(f"{args.out} is not a regular file")
    started = time.perf_counter()
    counts = write(args.out, args.rows, args.features, args.mean_nonzeros, args.seed, args.noise, args.ones)
    print(f"{args.out}: " + ", ".join(f"{n} {what.replace('_', ' ')}" for what, n in counts.items()))
    print(f"{time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
