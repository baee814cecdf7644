"""Owns the benchmark data made of documents: public corpora, given as local archives, as hashed n-grams in svmlight
text.

    make_texts.py imdb-characters|news-words|news-characters|enron ARCHIVE OUT.svm [--bits 22] [--ngrams N]
                  [--group NAME] [--order drawn|names] [--seed 0] [--jobs 2]

imdb-characters: 20,000 of the labelled reviews (drawn by --seed), character 4-6-grams within words; news-words and
news-characters: every post of 20 Newsgroups (first 6,000 characters), one group (--group) against the others, word
1-3-grams or character 3-5-grams; enron: the e-mails of Enron-Spam (first 6,000 characters), spam against ham, character
4-5-grams.  --ngrams: others than these, as in word:1-3 and char_wb:4-5.  Hashed to 2^bits without signs, counts over
the row's l2 norm.  Rows are shuffled by --seed and the documents' names, or sorted by these (--order names);
ids count from 1.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
import os
import re
import tarfile
import time
from dataclasses import dataclass

import numpy as np

CHUNK = 200  # documents a task


@dataclass(frozen=True)
class Corpus:
    """member: which files of the archive are documents; positive: which of these have label +1 ({group}: the option);
    encoding; longest: characters that count; most: documents drawn; ngrams as the option; group: its default."""

    member: str
    positive: str
    encoding: str
    ngrams: str
    longest: int | None = None
    most: int | None = None
    group: str = ""


NEWS, ENRON = r"20news-bydate-(train|test)/[^/]+/[^/]+$", r"(.*/)?enron\d/(ham|spam)/[^/]+\.txt$"
CORPORA = {
    "imdb-characters": Corpus(
        r"aclImdb/(train|test)/(pos|neg)/[^/]+\.txt$", "/pos/", "utf-8", "char_wb:4-6", most=20_000
    ),
    "news-words": Corpus(NEWS, "/{group}/", "latin-1", "word:1-3", longest=6_000, group="rec.autos"),
    "news-characters": Corpus(NEWS, "/{group}/", "latin-1", "char_wb:3-5", longest=6_000, group="sci.space"),
    "enron": Corpus(ENRON, "/spam/", "latin-1", "char_wb:4-5", longest=6_000),
}


def read_documents(archive: str, corpus: Corpus, group: str, seed: int, order: str) -> list[tuple[str, str]]:
    """(label, text) of the documents that are drawn, in the order of their rows."""
    keyed = []
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            if member.isfile() and re.match(corpus.member, member.name):
                name = member.name.encode()
                key = name if order == "names" else hashlib.blake2b(f"{seed}:".encode() + name).digest()
                text = tar.extractfile(member).read().decode(corpus.encoding, "replace")
                label = "+1" if corpus.positive.format(group=group) in member.name else "-1"
                keyed.append((key, (label, text[: corpus.longest])))
    return [row for _, row in sorted(keyed)][: corpus.most]


def format_rows(task: tuple[list[tuple[str, str]], str, int]) -> tuple[bytes, int]:
    """svmlight lines of some documents, and how many nonzeros they hold."""
    from sklearn.feature_extraction.text import HashingVectorizer

    documents, ngrams, bits = task
    analyzer, _, lengths = ngrams.partition(":")
    low, _, high = lengths.partition("-")
    vectorizer = HashingVectorizer(
        analyzer=analyzer, ngram_range=(int(low), int(high)), n_features=1 << bits, alternate_sign=False, norm=None
    )
    X = vectorizer.transform([text for _, text in documents])
    X.sort_indices()
    lines = []
    for k, (label, _) in enumerate(documents):
        ids, counts = X.indices[X.indptr[k] : X.indptr[k + 1]] + 1, X.data[X.indptr[k] : X.indptr[k + 1]]
        norm = float(np.sqrt((counts * counts).sum()))
        printed = {c: f"{c / norm:.6g}" for c in set(counts.tolist())}
        pairs = [f" {i}:{printed[c]}" for i, c in zip(ids.tolist(), counts.tolist(), strict=True)]
        lines.append(label + "".join(pairs) + "\n")
    return "".join(lines).encode(), X.nnz


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", choices=sorted(CORPORA))
    parser.add_argument("archive")
    parser.add_argument("out")
    parser.add_argument("--bits", type=int, default=22, choices=range(1, 31), metavar="1..30")
    parser.add_argument("--ngrams", metavar="KIND:LOW-HIGH", help="word:1-3, char_wb:4-5, ...")
    parser.add_argument("--group", metavar="NAME", help="of 20 Newsgroups")
    parser.add_argument("--order", choices=("drawn", "names"), default="drawn")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    corpus = CORPORA[args.corpus]
    ngrams = args.ngrams or corpus.ngrams
    if not re.fullmatch(r"(word|char|char_wb):[1-9]\d?-[1-9]\d?", ngrams):
        parser.error(f"--ngrams {ngrams}: expected KIND:LOW-HIGH, such as word:1-3")
    if os.path.exists(args.out) and not os.path.isfile(args.out):
        parser.error(f"{args.out} is not a regular file")
    started = time.perf_counter()
    documents = read_documents(args.archive, corpus, args.group or corpus.group, args.seed, args.order)
    if len({label for label, _ in documents}) < 2:
        parser.error(f"{args.archive} does not hold both classes of {args.corpus}")
    tasks = [(documents[k : k + CHUNK], ngrams, args.bits) for k in range(0, len(documents), CHUNK)]
    partial, nonzeros = f"{args.out}.tmp{os.getpid()}", 0
    try:
        with multiprocessing.Pool(args.jobs) as pool, open(partial, "wb") as out:
            for text, count in pool.imap(format_rows, tasks):
                out.write(text)
                nonzeros += count
        os.replace(partial, args.out)
    finally:
        if os.path.exists(partial):
            os.remove(partial)
    seconds = time.perf_counter() - started
    print(f"{args.out}: {len(documents)} rows, {nonzeros} nonzeros, {os.path.getsize(args.out)} bytes, {seconds:.1f} s")


if __name__ == "__main__":
    main()
