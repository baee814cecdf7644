"""The rows of the measurements as svmlight text: planted ones, and public corpora that are given as local archives.

    python -m experiments.make_data zipf|clicks|tall|texts|counts|topics|lines --help

Ids count from 1; rows of documents come in the order of a hash of --seed and name, or (--order names) of the names.
The functions say what the rows are.  An output may be /dev/stdout, which ``split -`` reads.
"""

import argparse
import hashlib
import html
import re
import tarfile
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import csr_matrix

from experiments.runs import add_options

STEP = 20_000  # planted rows at a time
DOCUMENTS = {  # their names in an archive
    "imdb": r"aclImdb/(?P<part>train|test)/(?P<label>pos|neg)/[^/]+_(?P<stars>\d+)\.txt$",
    "news": r"(?:.*/)?20news-bydate-(?P<part>train|test)/(?P<label>[^/]+)/[^/]+$",
    "enron": r"(.*/)?enron\d/(?P<label>ham|spam)/[^/]+\.txt$",
    "reuters": r"(?:.*/)?(?P<file>reut2-\d+\.sgm)$",
    "products": r"(?:.*/)?(?P<part>books|dvd)/(?P<label>negative|positive)\.review$",
}


def write(out, labels, X, digits: int = 6) -> None:
    """The rows of X scipy CSR, column 0 as id 1; values with so many significant digits."""
    X.sort_indices()
    values = X.data.astype(float)
    scale = 10.0 ** (digits - 1 - np.floor(np.log10(np.maximum(np.abs(values), 1e-300))))
    texts = pa.array(np.rint(values * scale) / scale).cast(pa.string())
    pairs = pc.binary_join_element_wise(pa.array(X.indices + 1).cast(pa.string()), texts, ":")
    rows = pc.binary_join(pa.ListArray.from_arrays(pa.array(X.indptr.astype(np.int32)), pairs), " ")
    lines = pc.binary_join_element_wise(pa.array(labels, pa.string()), rows, " ")
    out.write("".join(f"{line}\n" for line in lines.to_pylist()))


def zipf(options) -> None:
    """Feature frequency falls as 1/rank, ids are a random permutation of the ranks, row lengths geometric.  Values grow
    with a feature's rarity, rows have length 1; or they are multiples of 1/16.  The label is the side of a planted
    hyperplane that uses a quarter of the features, some flipped (--noise): not the 50 most frequent, which keeps the
    labels balanced, nor ranks beyond features ** 0.7, too rare to be learned."""
    rng, d, mean = np.random.default_rng(options.seed), options.features, options.mean_nonzeros
    ids = rng.permutation(d).astype(np.int32)
    planted = np.where(rng.random(d) < 0.25, rng.uniform(-1.0, 1.0, d), 0.0)
    planted[:50], planted[int(d**0.7) :] = 0.0, 0.0
    with open(options.out, "w") as out:
        for first in range(0, options.rows, STEP):
            n = min(STEP, options.rows - first)
            lengths = np.minimum(rng.geometric(1.0 / mean, n), max(1, min(int(20 * mean), d // 2)))
            of = np.repeat(np.arange(n), 2 * lengths)  # twice as many as are kept: what a row draws again is left out
            depth = rng.random(len(of))  # log rank, as a share of its largest value
            rank = np.minimum(np.exp(depth * np.log(d + 1.0)).astype(np.int64), d) - 1
            kept = np.sort(np.unique(of * d + rank, return_index=True)[1])
            kept = kept[np.arange(len(kept)) - np.searchsorted(of[kept], of[kept]) < lengths[of[kept]]]
            of, depth, rank = of[kept], depth[kept], rank[kept]
            values = (1 + rng.integers(0, 16, len(of))) / 16.0
            if options.values == "real":
                values = (depth + 0.05) * rng.uniform(0.5, 1.5, len(of))
            margins = np.bincount(of, values * planted[rank], n)
            positive = np.where(margins != 0.0, margins > 0.0, rng.random(n) < 0.5) ^ (rng.random(n) < options.noise)
            if options.values == "real":
                values /= np.sqrt(np.bincount(of, values**2, n))[of]
            X = csr_matrix((values, ids[rank], np.searchsorted(of, np.arange(n + 1))), (n, d))
            write(out, np.where(positive, "+1", "-1"), X)


def clicks(options) -> None:
    """26 one-hot columns with heavy tails: column k has 10^U(1, 6) values, a row's is floor(3 Pareto(0.7)), at most the
    last.  A row's score is the sum of its values' weights, each drawn from N(0, 1/4), and N(0, 1) noise; the twentieth
    of the rows with the largest scores is positive.  --drift SHARE: from the first row to the last the weights turn by
    that share of a right angle towards others."""
    rng, columns = np.random.default_rng(options.seed), 26
    sizes = (10.0 ** rng.uniform(1.0, 6.0, columns)).astype(np.int64)
    first = np.cumsum(sizes) - sizes
    weights = rng.normal(0.0, 0.5, int(sizes.sum()))
    others = rng.normal(0.0, 0.5, len(weights)) if options.drift else weights

    def drawn(piece: int) -> tuple[np.ndarray, np.ndarray]:
        """(ids, scores) of a piece, the same whenever it is drawn."""
        rng = np.random.default_rng((options.seed, 1 + piece))
        n = min(STEP, options.rows - piece * STEP)
        ids = np.minimum(3.0 * rng.pareto(0.7, (n, columns)), sizes - 1.0).astype(np.int64) + first
        turned, scores = 0.5 * np.pi * options.drift * piece * STEP / options.rows, weights[ids].sum(axis=1)
        if turned:
            scores = np.cos(turned) * scores + np.sin(turned) * others[ids].sum(axis=1)
        return ids + 1, scores + rng.normal(size=n)

    pieces = range(-(-options.rows // STEP))
    threshold = np.quantile(np.concatenate([drawn(piece)[1] for piece in pieces]), 0.95)
    with open(options.out, "w") as out:
        for ids, scores in map(drawn, pieces):
            for row, score in zip(ids.tolist(), scores, strict=True):
                out.write(f"{'+1' if score > threshold else '-1'} {' '.join(f'{i}:1' for i in row)}\n")


def tall(options) -> None:
    """Dense rows: normal features, correlated, and labels of a plane with noise.  unscaled: features from 1e-3 to 1e3;
    collinear: five that are copies of others but for 1e-7."""
    n, d, rng = options.rows, options.features, np.random.default_rng(options.rows + options.features)
    X = rng.normal(size=(n, d)).astype(np.float32) @ (np.eye(d) + 0.3 * rng.normal(size=(d, d))).astype(np.float32)
    z = X @ rng.normal(size=d).astype(np.float32)
    y = np.where(z + np.std(z) * rng.normal(size=n) > 0.0, "+1", "-1")
    if options.kind == "unscaled":
        X *= (10.0 ** rng.uniform(-3, 3, d)).astype(np.float32)
    elif options.kind == "collinear":
        X[:, -5:] = X[:, :5] * (1.0 + 1e-7 * rng.normal(size=(n, 5)))
    with open(options.out, "w") as out:
        for first in range(0, n, STEP):
            write(out, y[first : first + STEP], csr_matrix(X[first : first + STEP]), 9)


def documents(kind: str, archive: str) -> Iterator[tuple[re.Match, str]]:
    """Matches of the names of an archive's documents, and their texts."""
    with tarfile.open(archive, "r|*") as tar:
        for member in tar:
            if member.isfile() and (found := re.match(DOCUMENTS[kind], member.name)):
                text = tar.extractfile(member).read()
                yield found, text.decode("utf-8" if kind == "imdb" else "latin-1", "replace")


def place(seed: int, name: str) -> bytes:
    """By which documents are sorted."""
    return hashlib.blake2b(f"{seed}:{name}".encode()).digest()


def texts(options) -> None:
    """Documents of two classes (without --positive IMDB's stars are the labels) as n-grams, hashed to 2^22 without
    signs: counts over the row's l2 norm, or --presence, of words of a-z, 0-9 and '.  imdb: reviews, of which --most are
    drawn; news: every post; enron: e-mails; of the last two the first 6,000 characters."""
    from sklearn.feature_extraction.text import HashingVectorizer

    (analyzer, low, high), rows = re.split("[:-]", options.ngrams), []
    for found, text in documents(options.kind, options.archive):
        if options.part in ("", found.groupdict().get("part")):
            sign = "+1" if found["label"] == options.positive else "-1"
            key = found[0].encode() if options.order == "names" else place(options.seed, found[0])
            text = text if options.kind == "imdb" else text[:6000]
            rows.append((key, sign if options.positive else found["stars"],
                         text.replace("<br />", " ") if options.presence else text))  # fmt: skip
    rows = sorted(rows)[: options.most or None]
    vectorizer = HashingVectorizer(
        analyzer=analyzer, ngram_range=(int(low), int(high)), n_features=1 << 22, alternate_sign=False,
        binary=options.presence, token_pattern=r"[a-z0-9']+" if options.presence else r"(?u)\b\w\w+\b",
    )  # fmt: skip
    with open(options.out, "w") as out:
        for start in range(0, len(rows), 1000):
            _, labels, chosen = zip(*rows[start : start + 1000], strict=True)
            write(out, labels, vectorizer.transform(chosen))


def counts(options) -> None:
    """Counts of words and pairs of words of product reviews of books, or of books and dvd, numbered in alphabetical
    order, those of books first."""
    rows = {"books": [], "dvd": []}
    for found, text in documents("products", options.archive):
        for number, line in enumerate(filter(str.strip, text.split("\n")), 1):
            *pairs, last = line.split()
            words = {word: int(count) for word, _, count in (pair.rpartition(":") for pair in pairs)}
            key = place(options.seed, f"{found['part']}/{found['label']}.review:{number}")
            rows[found["part"]].append((key, "+1" if last.endswith("positive") else "-1", words))
    ids: dict[str, int] = {}
    for part, path in zip(rows, options.out, strict=False):
        for word in sorted({word for row in rows[part] for word in row[2]} - ids.keys()):
            ids[word] = len(ids)
        chosen = sorted(rows[part], key=lambda row: row[0])
        i, j, n = np.array([(i, ids[word], n) for i, row in enumerate(chosen) for word, n in row[2].items()]).T
        with open(path, "w") as out:
            write(out, [row[1] for row in chosen], csr_matrix((n.astype(float), (i, j)), (len(chosen), len(ids))), 9)


def parts_of(kind: str, archive: str) -> dict[str, list[tuple[str, list[str], str]]]:
    """(name, labels, text) of the documents of both parts.  news: 20 Newsgroups by date; reuters: Reuters-21578 by the
    ModApte split; imdb: as it is published; enron: Enron-Spam, a fifth as the test part."""
    parts: dict[str, list] = {"train": [], "test": []}
    for found, text in documents(kind, archive):
        if kind == "reuters":
            for k, (about, story) in enumerate(re.findall(r"<REUTERS([^>]*)>(.*?)</REUTERS>", text, re.DOTALL)):
                part = re.search(r'LEWISSPLIT="([^"]*)"', about)[1].lower()
                if part in parts and 'TOPICS="YES"' in about:
                    labels = re.search(r"<TOPICS>(.*?)</TOPICS>", story, re.DOTALL)
                    words = html.unescape(re.sub(r"<[^>]+>", " ", story.split("</PLACES>")[-1]))
                    parts[part].append((f"{found['file']}:{k:05}", re.findall(r"<D>([^<]*)</D>", labels[1]), words))
        else:
            part = found["part"] if kind != "enron" else "test" if place(0, found[0])[0] < 51 else "train"
            text = text.partition("\n\n")[2] if kind == "news" else text
            text = text.replace("<br />", " ") if kind == "imdb" else text
            parts[part].append((found[0], [found["label"]], text))
    return parts


def lines(options) -> None:
    """fastText's lines of the documents that have labels, in an order that is drawn: '__label__grain __label__corn text
    on one line'."""
    for part, rows in parts_of(options.kind, options.archive).items():
        with open(vars(options)[part], "w") as out:
            for _, labels, text in sorted(rows, key=lambda row: place(options.seed, row[0])):
                if labels:
                    print(*(f"__label__{label}" for label in labels), *text.split(), file=out)


def topics(options) -> None:
    """Many classes as tf-idf of words, rows of length 1, idf of the training part.  news: the label is the group's
    place in the alphabet; reuters: the labels of a row are its topics (1,7), of the topics that both parts have."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    parts = parts_of(options.kind, options.archive)
    known = [{label for _, labels, _ in rows for label in labels} for rows in parts.values()]
    number = {label: k for k, label in enumerate(sorted(known[0] & known[1]))}
    low, high = map(int, options.ngrams.split("-"))
    vectorizer = TfidfVectorizer(ngram_range=(low, high), sublinear_tf=True)
    for part, made in (("train", vectorizer.fit_transform), ("test", vectorizer.transform)):
        rows = [([number[x] for x in labels if x in number], text) for _, labels, text in sorted(parts[part])]
        labels, chosen = zip(*((sorted(labels), text) for labels, text in rows if labels), strict=True)
        with open(vars(options)[part], "w") as out:
            write(out, [",".join(map(str, row)) for row in labels], made(chosen))


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    kinds = p.add_subparsers(required=True)

    def kind(make, *names: str, **options) -> None:
        one = kinds.add_parser(make.__name__, description=make.__doc__)
        one.set_defaults(make=make)
        add_options(one, *names, seed=0, **options)

    kind(zipf, "out", rows=1_000_000, features=5_000_000, mean_nonzeros=64.0, noise=0.1, values="real")
    kind(clicks, "out", rows=2_000_000, drift=0.0)
    kind(tall, "out", rows=1_000_000, features=28, kind="")
    kind(
        texts, "kind", "archive", "out", positive="", ngrams="word:1-3", part="", most=0, presence=False, order="drawn"
    )
    kind(counts, "archive", "out+")
    kind(topics, "kind", "archive", "train", "test", ngrams="1-1")
    kind(lines, "kind", "archive", "train", "test")
    options = p.parse_args()
    options.make(options)


if __name__ == "__main__":
    main()
