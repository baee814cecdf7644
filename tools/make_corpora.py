"""Owns the text classification data: three public corpora, given as local archives, as svmlight text.

    make_corpora.py books|dvd                      ARCHIVE OUT   Amazon reviews, the processed_acl files
    make_corpora.py books-dvd                      ARCHIVE OUT   both, their features numbered alike
    make_corpora.py ob-2-1|sb-2-1|ob-8-1|...       ARCHIVE OUT   subsets of 20 Newsgroups, 20news-bydate
    make_corpora.py 20news                         ARCHIVE OUT   all of it
    make_corpora.py reut20                         ARCHIVE OUT   Reuters-21578, the reut2-*.sgm files

Writes OUT.svm and OUT.json (classes by label, sizes); 20news: OUT-train.svm and OUT-test.svm, each with its .json;
books-dvd: OUT-books.svm and OUT-dvd.svm.
Two classes have labels -1 and +1, more have 0 to k-1. Ids count from 1 in the words' alphabetical order; in 20news
the training words come first, then those that only the test has (in books-dvd those of dvd). Rows are shuffled by
--seed and documents' names.

A word is a run of a-z in the lower-cased text, its value how often it occurs; the reviews come as such counts, of
words and pairs of words. Of a post counts the Subject and what follows the headers. reut20 takes the articles that
have a body and exactly one topic, of the 20 topics that most of those articles have; title and body count.
The ob and sb sets draw 500 posts a class, from training and test posts, and leave out words in less than 3 of them.
"""

from __future__ import annotations

import argparse
import hashlib
import html
import json
import lzma
import os
import re
import sys
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

# ob, sb: balanced sets of overlapping and of separated groups, named like the 20 Newsgroups subsets of University
# College Dublin (mlg.ucd.ie/datasets/20ng.html), which hold 500 posts a class, without stop words, stemmed. The groups
# in those sets are not known here: these lists are our choice, as are the posts drawn and the words as they stand.
SUBSETS = {
    "ob-2-1": ("comp.sys.ibm.pc.hardware", "comp.sys.mac.hardware"),
    "ob-2-2": ("rec.sport.baseball", "rec.sport.hockey"),
    "ob-2-3": ("talk.politics.guns", "talk.politics.misc"),
    "sb-2-1": ("comp.windows.x", "rec.sport.hockey"),
    "sb-2-2": ("sci.space", "soc.religion.christian"),
    "sb-2-3": ("alt.atheism", "misc.forsale"),
    "ob-8-1": (
        "comp.graphics",
        "comp.os.ms-windows.misc",
        "comp.sys.ibm.pc.hardware",
        "comp.sys.mac.hardware",
        "comp.windows.x",
        "rec.autos",
        "rec.motorcycles",
        "sci.electronics",
    ),
    "sb-8-1": (
        "comp.windows.x",
        "misc.forsale",
        "rec.autos",
        "rec.sport.hockey",
        "sci.crypt",
        "sci.med",
        "soc.religion.christian",
        "talk.politics.mideast",
    ),
}
NEWSGROUPS = (
    "alt.atheism",
    "comp.graphics",
    "comp.os.ms-windows.misc",
    "comp.sys.ibm.pc.hardware",
    "comp.sys.mac.hardware",
    "comp.windows.x",
    "misc.forsale",
    "rec.autos",
    "rec.motorcycles",
    "rec.sport.baseball",
    "rec.sport.hockey",
    "sci.crypt",
    "sci.electronics",
    "sci.med",
    "sci.space",
    "soc.religion.christian",
    "talk.politics.guns",
    "talk.politics.mideast",
    "talk.politics.misc",
    "talk.religion.misc",
)
DOMAINS = ("books", "dvd")
PARTS = {"20news": ("train", "test"), "books-dvd": DOMAINS}  # of sets that are more than one file
SENTIMENTS = ("negative", "positive")
TOPICS = 20

WORD = re.compile(r"[a-z]+")
POST = re.compile(r"(?:.*/)?(20news-bydate-(train|test)/([^/]+)/[^/]+)$")
SUBJECT = re.compile(r"^subject:(.*)", re.IGNORECASE | re.MULTILINE)
REVIEWS = re.compile(r"(?:.*/)?([a-z_&]+)/(negative|positive|unlabeled)\.review$")
ARTICLES = re.compile(r"(?:.*/)?reut2-\d+\.sgm$")
ARTICLE = re.compile(r"<REUTERS .*?</REUTERS>", re.DOTALL)
NEWID = re.compile(r'NEWID="(\d+)"')
TOPIC_LIST = re.compile(r"<TOPICS>(.*?)</TOPICS>", re.DOTALL)
TOPIC = re.compile(r"<D>(.*?)</D>", re.DOTALL)
TITLE = re.compile(r"<TITLE>(.*?)</TITLE>", re.DOTALL)
BODY = re.compile(r"<BODY>(.*?)</BODY>", re.DOTALL)
UNREADABLE = (tarfile.TarError, EOFError, lzma.LZMAError, zlib.error)


@dataclass(frozen=True)
class Document:
    name: str  # its own in the archive: where the document comes in the shuffled order depends on nothing else
    category: str
    counts: Mapping[str, int]
    part: str = ""  # one of the set's PARTS


def bag_of_words(text: str) -> Counter[str]:
    return Counter(map(sys.intern, WORD.findall(text.lower())))


def read_members(archive: str, pattern: re.Pattern) -> Iterator[tuple[re.Match, str]]:
    """The archive's files whose names match, as text: Latin-1 gives every byte a character."""
    with tarfile.open(archive) as tar:
        for member in tar:
            match = pattern.match(member.name)
            if match and member.isfile():
                yield match, tar.extractfile(member).read().decode("latin-1")


def read_posts(archive: str, groups: tuple[str, ...]) -> Iterator[Document]:
    for match, text in read_members(archive, POST):
        name, part, group = match.groups()
        if group in groups:
            headers, _, content = text.replace("\r\n", "\n").partition("\n\n")
            subject = SUBJECT.search(headers)
            yield Document(name, group, bag_of_words((subject[1] if subject else "") + "\n" + content), part)


def read_reviews(archive: str, domain: str, unlabeled: bool) -> Iterator[Document]:
    for match, text in read_members(archive, REVIEWS):
        if match[1] == domain and (match[2] == "unlabeled") == unlabeled:
            for number, line in enumerate(text.split("\n"), 1):
                if line.strip():
                    yield replace(parse_review(line, f"{match[1]}/{match[2]}.review:{number}"), part=domain)


def parse_review(line: str, name: str) -> Document:
    """'feature:count feature:count ... #label#:positive'; only blanks separate, whatever else a feature may hold."""
    *pairs, last = line.strip(" \r").split(" ")
    key, _, sentiment = last.partition(":")
    if key != "#label#" or sentiment not in SENTIMENTS:
        raise ValueError(f"{name} does not end in #label#:negative or #label#:positive")
    counts: Counter[str] = Counter()
    for pair in filter(None, pairs):
        feature, _, count = pair.rpartition(":")
        if not feature or not count.isdecimal() or int(count) == 0:
            raise ValueError(f"{name} holds {pair!r}, which is not a feature, a colon and a count")
        counts[sys.intern(feature)] += int(count)
    return Document(name, sentiment, counts)


def read_articles(archive: str) -> Iterator[Document]:
    """Those with a body and exactly one topic."""
    for match, text in read_members(archive, ARTICLES):
        for article in ARTICLE.findall(text):
            newid, topics = NEWID.search(article), TOPIC_LIST.search(article)
            if not newid or not topics:
                raise ValueError(f"{match[0]} holds an article without NEWID or TOPICS")
            names, title, body = TOPIC.findall(topics[1]), TITLE.search(article), BODY.search(article)
            if len(names) == 1 and body:
                words = bag_of_words(html.unescape((title[1] if title else "") + "\n" + body[1]))
                yield Document(newid[1], names[0], words)


def read_set(name: str, archive: str, unlabeled: bool) -> tuple[tuple[str, ...], list[Document]]:
    """A set's classes in the order of their labels, and all their documents."""
    if name in (*DOMAINS, "books-dvd"):
        domains = PARTS.get(name, (name,))
        return SENTIMENTS, [one for domain in domains for one in read_reviews(archive, domain, unlabeled)]
    if name != "reut20":
        groups = SUBSETS.get(name, NEWSGROUPS)
        return groups, list(read_posts(archive, groups))
    documents = list(read_articles(archive))
    found = Counter(document.category for document in documents)
    if len(found) < TOPICS:
        raise ValueError(f"articles with one topic have {len(found)} different topics, not at least {TOPICS}")
    topics = tuple(sorted(found, key=lambda topic: (-found[topic], topic))[:TOPICS])
    return topics, [document for document in documents if document.category in topics]


def shuffle_documents(documents: list[Document], seed: int) -> list[Document]:
    return sorted(documents, key=lambda d: hashlib.blake2b(f"{seed}:{d.name}".encode()).digest())


def draw_per_class(documents: list[Document], classes: tuple[str, ...], size: int) -> list[Document]:
    """The first documents of each class, in the order given."""
    taken: Counter[str] = Counter()
    drawn = []
    for document in documents:
        taken[document.category] += 1
        if taken[document.category] <= size:
            drawn.append(document)
    for category in classes:
        if taken[category] < size:
            raise ValueError(f"{category} has {taken[category]} documents, and --per-class asks for {size}")
    return drawn


def number_words(parts: list[list[Document]], min_documents: int) -> dict[str, int]:
    """Ids of the words in enough documents: those of the first part, then those that only later parts have."""
    holding = Counter(word for documents in parts for document in documents for word in document.counts)
    ids: dict[str, int] = {}
    for documents in parts:
        words = {word for document in documents for word in document.counts}
        for word in sorted(words - ids.keys()):
            if holding[word] >= min_documents:
                ids[word] = len(ids) + 1
    return ids


def format_row(label: str, counts: Mapping[int, int], binary: bool, l2: bool) -> str:
    norm = (len(counts) if binary else sum(count * count for count in counts.values())) ** 0.5
    pairs = []
    for feature, count in sorted(counts.items()):
        value = 1 if binary else count
        pairs.append(f" {feature}:{value / norm:.9g}" if l2 else f" {feature}:{value}")
    return label + "".join(pairs) + "\n"


def format_labels(classes: tuple[str, ...]) -> dict[str, str]:
    """Each class's label as printed."""
    labels = ("-1", "+1") if len(classes) == 2 else map(str, range(len(classes)))
    return dict(zip(classes, labels, strict=True))


def build_part(
    documents: list[Document], labels: dict[str, str], ids: dict[str, int], options: argparse.Namespace
) -> tuple[str, dict]:
    """The svmlight text of some documents, and what OUT.json says of it."""
    lines = []
    used: set[int] = set()
    nonzeros = 0
    sizes = Counter(labels[document.category] for document in documents)
    for document in documents:
        counts = {ids[word]: count for word, count in document.counts.items() if word in ids}
        lines.append(format_row(labels[document.category], counts, options.binary, options.l2))
        used.update(counts)
        nonzeros += len(counts)
    about = {
        "set": options.set,
        "classes": {label: category for category, label in labels.items()},
        "class_documents": {label: sizes[label] for label in labels.values()},
        "documents": len(documents),
        "features": len(used),
        "largest_id": max(used, default=0),
        "nonzeros": nonzeros,
        "average_nonzeros": round(nonzeros / len(documents), 3),
        "values": ("binary" if options.binary else "counts") + (", rows of length 1" if options.l2 else ""),
        "min_documents": options.min_documents,
        "seed": options.seed,
    }
    return "".join(lines), about


def build_files(options: argparse.Namespace) -> dict[str, tuple[str, dict]]:
    """What to write, by the file name without its ending."""
    classes, documents = read_set(options.set, options.archive, options.unlabeled)
    part_names = PARTS.get(options.set, (None,))
    for part in part_names:
        present = {document.category for document in documents if part in (None, document.part)}
        missing = [category for category in classes if category not in present]
        if missing:
            raise ValueError(
                f"no {f'{part} ' if part else ''}document of class {missing[0]} for {options.set} is there"
            )
    documents = shuffle_documents(documents, options.seed)
    if options.per_class:
        documents = draw_per_class(documents, classes, options.per_class)
    parts = [[document for document in documents if part in (None, document.part)] for part in part_names]
    ids = number_words(parts, options.min_documents)
    labels = format_labels(classes)
    return {
        f"{options.out}-{name}" if name else options.out: build_part(part, labels, ids, options)
        for name, part in zip(part_names, parts, strict=True)
    }


def write_files(contents: dict[str, str]) -> None:
    """All of them or, when one cannot be written, none."""
    temporary = {path: f"{path}.tmp{os.getpid()}" for path in contents}
    try:
        for path, text in contents.items():
            with open(temporary[path], "w", encoding="ascii") as out:
                out.write(text)
        for path in contents:
            os.replace(temporary[path], path)
    finally:
        for name in temporary.values():
            if os.path.exists(name):
                os.remove(name)


def parse_count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=(*DOMAINS, *PARTS, *SUBSETS, "reut20"), metavar="SET")
    parser.add_argument("archive", metavar="ARCHIVE", help="a tar file, plain or compressed by gzip, bzip2 or xz")
    parser.add_argument("out", metavar="OUT", help="what the outputs' names begin with")
    parser.add_argument("--l2", action="store_true", help="scale rows to length 1")
    parser.add_argument("--binary", action="store_true", help="1 for every word that occurs, not its count")
    parser.add_argument("--per-class", type=parse_count, metavar="N", help="draw N documents of each class")
    parser.add_argument(
        "--min-documents", type=parse_count, metavar="N", help="leave out words in less than N documents"
    )
    parser.add_argument(
        "--unlabeled", action="store_true", help="books, dvd: unlabeled.review, whose lines have labels"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the order, and of what is drawn")
    options = parser.parse_args()
    if options.unlabeled and options.set not in (*DOMAINS, "books-dvd"):
        parser.error(f"--unlabeled is for {' and '.join(DOMAINS)} only")
    if options.set in PARTS and options.per_class:
        parser.error(f"--per-class is not for {options.set}, which is written whole")
    if options.set in SUBSETS:
        options.per_class = options.per_class or 500
    options.min_documents = options.min_documents or (3 if options.set in SUBSETS else 1)

    try:
        built = build_files(options)
    except UNREADABLE as error:
        reason = str(error).partition("\n")[0].rstrip(":")  # tarfile goes on about each compression that it tried
        parser.error(f"{options.archive} is not a whole tar archive: {reason}")
    except ValueError as error:
        parser.error(f"{options.archive}: {error}")
    except OSError as error:
        parser.error(f"{options.archive}: {error.strerror or error}")
    contents = {f"{name}.svm": text for name, (text, _) in built.items()}
    contents |= {f"{name}.json": json.dumps(about, indent=1) + "\n" for name, (_, about) in built.items()}
    try:
        write_files(contents)
    except OSError as error:
        parser.error(f"{options.out}: cannot write: {error.strerror}")
    for name, (text, about) in built.items():
        sizes = ", ".join(f"{about[key]} {key}" for key in ("documents", "features", "nonzeros"))
        print(f"{name}.svm: {len(about['classes'])} classes, {sizes}, {len(text)} bytes")


if __name__ == "__main__":
    main()
