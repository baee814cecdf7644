"""Owns the IMDB benchmark data: labelled reviews of the aclImdb tarball as hashed word 1-3-grams in svmlight text.

    make_imdb.py aclImdb.tar.gz train.svm test.svm [--both all.svm] [--rows N] [--bits 22] [--counts] [--ratings]
                 [--documents all.tsv] [--jobs 2]

Ids run from 1 to 2**bits. A row's values are 1 (--counts: the count) over the row's l2 norm. The row order is
shuffled and depends only on the reviews' paths and --seed; --both holds the training rows, then the test rows.
--ratings: labels are the stars, 1 to 10, in place of +1 and -1. --documents: the reviews themselves, 'label<TAB>text' a
line, training reviews first.
"""

import argparse
import hashlib
import multiprocessing
import os
import re
import shutil
import tarfile
import time
from collections.abc import Iterator

import numpy as np

LABELLED = re.compile(r"aclImdb/(train|test)/(pos|neg)/[^/]+_(\d+)\.txt$")
TOKEN = re.compile(r"[a-z0-9']+")
CHUNK = 500  # reviews per task

Review = tuple[str, bytes]  # label as printed, text


class TokenHashes(dict[str, int]):
    """The 64-bit hash of each token met so far."""

    def __missing__(self, token: str) -> int:
        value = int.from_bytes(hashlib.blake2b(token.encode(), digest_size=8).digest(), "little")
        self[token] = value
        return value


token_hashes = TokenHashes()


def mix(h: np.ndarray) -> np.ndarray:
    """splitmix64's finalizer: every input bit reaches the high bits, which become the id."""
    h = (h ^ (h >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    h = (h ^ (h >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return h ^ (h >> np.uint64(31))


def ngram_ids(text: str, bits: int) -> np.ndarray:
    """Ids (with repeats) of the text's word 1-, 2- and 3-grams."""
    tokens = TOKEN.findall(text.replace("<br />", " ").lower())
    one = np.fromiter(map(token_hashes.__getitem__, tokens), np.uint64, len(tokens))
    step = np.uint64(0x9E3779B97F4A7C15)
    two = mix(one[:-1] * step + one[1:])
    three = mix(two[:-1] * step + one[2:])
    hashes = np.concatenate([mix(one), two, three])
    return (hashes >> np.uint64(64 - bits)).astype(np.int64) + 1


def format_rows(task: tuple[list[Review], int, bool]) -> tuple[bytes, int]:
    """svmlight lines of some reviews, and how many nonzeros they hold."""
    reviews, bits, use_counts = task
    lines = []
    nonzeros = 0
    for label, raw in reviews:
        ids, counts = np.unique(ngram_ids(raw.decode("utf-8"), bits), return_counts=True)
        if not use_counts:
            counts[:] = 1
        norm = float(np.sqrt((counts * counts).sum()))
        printed = {c: f"{c / norm:.6g}" for c in set(counts.tolist())}
        pairs = [f" {i}:{printed[c]}" for i, c in zip(ids.tolist(), counts.tolist(), strict=True)]
        lines.append(label + "".join(pairs) + "\n")
        nonzeros += len(pairs)
    return "".join(lines).encode(), nonzeros


def read_reviews(tarball: str, seed: int, ratings: bool = False) -> dict[str, list[Review]]:
    """The labelled reviews of each split in shuffled order."""
    keyed: dict[str, list[tuple[bytes, Review]]] = {"train": [], "test": []}
    with tarfile.open(tarball, "r|gz") as tar:
        for member in tar:
            match = LABELLED.match(member.name)
            if match:
                key = hashlib.blake2b(f"{seed}:{member.name}".encode()).digest()
                label = match[3] if ratings else "+1" if match[2] == "pos" else "-1"
                keyed[match[1]].append((key, (label, tar.extractfile(member).read())))
    return {split: [review for _, review in sorted(rows)] for split, rows in keyed.items()}


def tasks(reviews: list[Review], bits: int, counts: bool) -> Iterator[tuple[list[Review], int, bool]]:
    for start in range(0, len(reviews), CHUNK):
        yield reviews[start : start + CHUNK], bits, counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tarball")
    parser.add_argument("train")
    parser.add_argument("test")
    parser.add_argument("--both", metavar="OUT", help="also write training and test rows together")
    parser.add_argument("--documents", metavar="OUT", help="also write the texts, a line each")
    parser.add_argument("--rows", type=int, metavar="N", help="only the first N shuffled rows of each split")
    parser.add_argument("--bits", type=int, default=22, choices=range(1, 32), metavar="1..31")
    parser.add_argument("--counts", action="store_true", help="weigh n-grams by count, not by presence")
    parser.add_argument("--ratings", action="store_true", help="label rows by their stars")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    outputs = [path for path in (args.train, args.test, args.both, args.documents) if path]
    for path in outputs:
        if os.path.exists(path) and not os.path.isfile(path):
            parser.error(f"{path} is not a regular file")
    if args.rows is not None and args.rows < 1:
        parser.error("--rows must be at least 1")

    started = time.perf_counter()
    reviews = read_reviews(args.tarball, args.seed, args.ratings)
    if not reviews["train"] or not reviews["test"]:
        parser.error(f"{args.tarball} holds no labelled aclImdb reviews")
    temporary = {path: f"{path}.tmp{os.getpid()}" for path in outputs}
    try:
        with multiprocessing.Pool(args.jobs) as pool:
            for split, path in (("train", args.train), ("test", args.test)):
                rows = reviews[split][: args.rows]
                nonzeros = 0
                with open(temporary[path], "wb") as out:
                    for text, count in pool.imap(format_rows, tasks(rows, args.bits, args.counts)):
                        out.write(text)
                        nonzeros += count
                print(f"{path}: {len(rows)} rows, {nonzeros} nonzeros, {os.path.getsize(temporary[path])} bytes")
        if args.both:
            with open(temporary[args.both], "wb") as out:
                for path in (args.train, args.test):
                    with open(temporary[path], "rb") as part:
                        shutil.copyfileobj(part, out, 1 << 20)
        if args.documents:
            with open(temporary[args.documents], "wb") as out:
                for label, text in (review for split in ("train", "test") for review in reviews[split][: args.rows]):
                    out.write(label.encode() + b"\t" + b" ".join(text.split()) + b"\n")
        for path in outputs:
            os.replace(temporary[path], path)
    finally:
        for name in temporary.values():
            if os.path.exists(name):
                os.remove(name)
    print(f"{time.perf_counter() - started:.1f} s")


if __name__ == "__main__":
    main()
