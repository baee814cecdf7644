"""Owns the benchmark data of many classes: public corpora, given as local archives, as tf-idf of words in svmlight
text.

    make_topics.py news|reuters ARCHIVE TRAIN.svm TEST.svm [--ngrams 1-1]

news: 20 Newsgroups by date, the label is the group's place in the alphabet (0 to 19); headers are dropped.  reuters:
Reuters-21578 by the ModApte split, the labels of a row are its topics (1,7), of the topics that both parts have.  Words
of two letters or more, lower case; log(count) + 1 times the smoothed inverse document frequency of the training part,
over the row's l2 norm.  Ids count from 1.
"""

from __future__ import annotations

import argparse
import html
import re
import tarfile

STORY = re.compile(r"<REUTERS([^>]*)>(.*?)</REUTERS>", re.S)
TOPIC = re.compile(r"<D>([^<]*)</D>")


def read_news(archive: str):
    """({"train": [(labels, text)], "test": ...})"""
    parts: dict[str, list] = {"train": [], "test": []}
    with tarfile.open(archive, "r:*") as tar:
        for member in tar:
            found = re.match(r"20news-bydate-(train|test)/([^/]+)/[^/]+$", member.name)
            if member.isfile() and found:
                text = tar.extractfile(member).read().decode("latin-1")
                parts[found[1]].append(((found[2],), text.partition("\n\n")[2]))
    return parts


def read_reuters(archive: str):
    """The same of the stories that the ModApte split names."""
    parts: dict[str, list] = {"train": [], "test": []}
    with tarfile.open(archive, "r:*") as tar:
        for member in sorted(tar.getmembers(), key=lambda member: member.name):
            if not member.name.endswith(".sgm"):
                continue
            for found in STORY.finditer(tar.extractfile(member).read().decode("latin-1")):
                split = re.search(r'LEWISSPLIT="([^"]*)"', found[1])[1]
                if split in ("TRAIN", "TEST") and 'TOPICS="YES"' in found[1]:
                    topics = re.search(r"<TOPICS>(.*?)</TOPICS>", found[2], re.S)
                    text = re.sub(r"<[^>]+>", " ", found[2].split("</PLACES>")[-1])
                    labels = tuple(TOPIC.findall(topics[1])) if topics else ()
                    parts[split.lower()].append((labels, html.unescape(text)))
    return parts


def main() -> None:
    from sklearn.feature_extraction.text import TfidfVectorizer

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("corpus", choices=("news", "reuters"))
    p.add_argument("archive")
    p.add_argument("train")
    p.add_argument("test")
    p.add_argument("--ngrams", default="1-1", metavar="FROM-TO")
    options = p.parse_args()
    parts = (read_news if options.corpus == "news" else read_reuters)(options.archive)
    known = [{label for labels, _ in rows for label in labels} for rows in parts.values()]
    number = {label: k for k, label in enumerate(sorted(known[0] & known[1]))}
    low, high = map(int, options.ngrams.split("-"))
    vectorizer = TfidfVectorizer(ngram_range=(low, high), sublinear_tf=True)
    for name, path in (("train", options.train), ("test", options.test)):
        rows = [(sorted(number[x] for x in labels if x in number), text) for labels, text in parts[name]]
        rows = [row for row in rows if row[0]]
        texts = [text for _, text in rows]
        X = vectorizer.fit_transform(texts) if name == "train" else vectorizer.transform(texts)
        X.sort_indices()
        with open(path, "w") as out:
            for i, (labels, _) in enumerate(rows):
                span = slice(X.indptr[i], X.indptr[i + 1])
                entries = " ".join(f"{j + 1}:{v:.6g}" for j, v in zip(X.indices[span], X.data[span], strict=True))
                out.write(f"{','.join(map(str, labels))} {entries}\n")
        print(f"{path}: {X.shape[0]:,} rows, {X.nnz:,} nonzeros, {X.shape[1]:,} features, {len(number)} labels")


if __name__ == "__main__":
    main()
