"""Documents to n-grams, and tables to features, beside scikit-learn: seconds of one core, no file written.

    python -m experiments.documents DOCUMENTS.tsv [--bits 22] [--repeats 5]
        [--table TABLE.csv --label COLUMN --categorical COLUMNS --ignore COLUMNS]

DOCUMENTS.tsv: 'label<TAB>text' a line; TABLE.csv: a table with a header.  Of both the first 8 MB are read, by
scikit-learn the first rows of them, as it takes long.  The same table is read as Parquet, too, and one of numbers
alone, beside pyarrow, which makes no rows.  The figures are of the processor's time, runs in turn.
"""

from __future__ import annotations

import argparse
import csv
import io
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

from blocksvm.formats import format_named
from blocksvm.formats.file_reader import FileInputs
from blocksvm.formats.format import Reading
from blocksvm.formats.hashing import reader_of
from blocksvm.formats.recipe import Recipe
from blocksvm.formats.text.text_source import TextPiece, TextSource
from experiments.report import machine

BYTES = 8_000_000
PEER_ROWS = 2_000
NUMBERS = 200_000, 30  # rows and columns of the table of numbers
NGRAMS = ("word:1", "word:1-3", "char:4-5", "char_wb:3-5")


def whole_lines(path: Path) -> bytes:
    with open(path, "rb") as file:
        text = file.read(BYTES)
    return text[: text.rindex(b"\n") + 1]


def seconds(run) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def ours(text: bytes, format_: str, bits: int | None, options: dict):
    """A call that parses the text once."""
    options = format_named(format_).settled(options, text, "text")
    reader = reader_of(Reading(Recipe(format_, "error", bits, "l2", options=options), named=bits is None))
    padded = np.append(np.frombuffer(text, np.uint8), np.zeros(64, np.uint8))
    piece = TextPiece(TextSource("text", None), padded, len(text), None, begins=True)
    if reader.parse(piece).fault is not None:  # compiles, too
        raise SystemExit(f"line {reader.parse(piece).fault}")
    return lambda: reader.parse(piece)


def vectorizer(ngrams: str, bits: int):
    from sklearn.feature_extraction.text import HashingVectorizer

    analyzer, _, lengths = ngrams.partition(":")
    bounds = [int(n) for n in lengths.split("-")]
    return HashingVectorizer(
        analyzer=analyzer, ngram_range=(bounds[0], bounds[-1]), n_features=1 << bits, alternate_sign=False
    )


def hashed_table(text: bytes, label: str, categorical: str, ignore: str, bits: int):
    """A call that reads the rows as scikit-learn's users do: csv.DictReader, numbers as floats, FeatureHasher."""
    from sklearn.feature_extraction import FeatureHasher

    from blocksvm.formats.tables.cells import named_by

    names = next(csv.reader([text.partition(b"\n")[0].decode()]))
    categories, out = named_by(categorical, names, "categorical"), named_by(ignore, names, "ignore") | {label}

    def rows():
        for row in csv.DictReader(io.StringIO(text.decode())):
            yield {c: v if c in categories else float(v) for c, v in row.items() if v and c not in out}

    return lambda: FeatureHasher(1 << bits, alternate_sign=False).transform(rows())


def table(header: str, rows: list[tuple]) -> str:
    columns = header.count("|") - 1
    return "\n".join([header, "|" + "---|" * columns, *("| " + " | ".join(row) + " |" for row in rows)])


def compared(name: str, calls: dict, sizes: dict, repeats: int) -> tuple:
    """A line of figures: MB a second of each call, the last one the peer's."""
    times = {key: [] for key in calls}
    for _ in range(repeats):
        for key, call in calls.items():
            times[key].append(seconds(call))
    rates = {key: sizes[key] / median(own) / 1e6 for key, own in times.items()}
    *own, peer = rates
    return name, *(f"{rates[key]:.1f}" for key in rates), f"{rates[own[0]] / rates[peer]:.1f}"


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("documents", type=Path)
    p.add_argument("--table", type=Path)
    p.add_argument("--label", default="label")
    p.add_argument("--categorical", default="auto")
    p.add_argument("--ignore", default="")
    p.add_argument("--bits", type=int, default=22)
    p.add_argument("--repeats", type=int, default=5)
    options = p.parse_args()
    print(machine())
    text = whole_lines(options.documents)
    lines = text.decode().split("\n")[:-1][:PEER_ROWS]
    documents = [line.partition("\t")[2] for line in lines]
    peer_bytes = sum(len(one.encode()) for one in documents)
    found = []
    for ngrams in NGRAMS:
        transform = vectorizer(ngrams, options.bits).transform
        calls = {
            "hashed": ours(text, "documents", options.bits, {"ngrams": ngrams}),
            "named": ours(text, "documents", None, {"ngrams": ngrams}),
            "peer": lambda transform=transform: transform(documents),
        }
        sizes = {"hashed": len(text), "named": len(text), "peer": peer_bytes}
        found.append(compared(ngrams, calls, sizes, options.repeats))
    print(
        table("| n-grams | blocksvm, hashed, MB/s | blocksvm, named, MB/s | HashingVectorizer, MB/s | times |", found)
    )
    if options.table is None:
        return
    text = whole_lines(options.table)
    chosen = {"label": options.label, "categorical": options.categorical, "ignore": options.ignore or None}
    first = b"\n".join(text.split(b"\n")[: PEER_ROWS + 1]) + b"\n"
    calls = {
        "hashed": ours(text, "csv", options.bits, chosen),
        "named": ours(text, "csv", None, chosen),
        "peer": hashed_table(first, options.label, options.categorical, options.ignore, options.bits),
    }
    sizes = {"hashed": len(text), "named": len(text), "peer": len(first)}
    if reads := pyarrow_alone(text):
        calls = {"hashed": calls["hashed"], "named": calls["named"], "pyarrow": reads, "peer": calls["peer"]}
        sizes["pyarrow"] = len(text)
    row = compared("csv", calls, sizes, options.repeats)
    arrow = "pyarrow.csv alone, MB/s | " if "pyarrow" in calls else ""
    header = (
        f"| table | blocksvm, hashed, MB/s | blocksvm, named, MB/s | {arrow}DictReader, FeatureHasher, MB/s | times |"
    )
    print("\n" + table(header, [row]))
    if reads:
        print("\n" + parquet_table(text, chosen, options))


def pyarrow_alone(text: bytes):
    """A call that only parses the table to columns, in one thread; None where there is no pyarrow."""
    try:
        import pyarrow
        from pyarrow import csv as columns
    except ImportError:
        return None
    pyarrow.set_cpu_count(1)
    options = columns.ReadOptions(use_threads=False)
    return lambda: columns.read_csv(io.BytesIO(text), options)


def parquet_rows(name: Path, bits: int | None, given: dict):
    """A call that reads a Parquet file to rows once, and returns their entries."""
    options = format_named("parquet").settled(given, b"", str(name))
    reader = reader_of(Reading(Recipe("parquet", "error", bits, "l2", options=options), named=bits is None))

    def read() -> int:
        pieces = FileInputs([str(name)], "parquet", options).pieces(BYTES // 2, None, digested=False)
        room = reader.room(0)  # memory goes round, as where rows are read
        return sum(len(reader.parse(piece, room).ids) for piece in pieces)

    return read


def parquet_columns(name: Path):
    """A call that reads it to columns."""
    import pyarrow.parquet as parquet

    def read() -> None:
        with parquet.ParquetFile(name) as file:
            for _ in file.iter_batches(use_threads=False):
                pass

    return read


def parquet_table(text: bytes, given: dict, options) -> str:
    """Millions of entries a second: of the table, and of one of numbers that are never 0."""
    import pyarrow
    from pyarrow import csv as columns
    from pyarrow import parquet

    rows, width = NUMBERS
    rng = np.random.default_rng(0)
    numbers = {given["label"]: rng.integers(0, 2, rows)}
    numbers |= {f"x{k}": rng.normal(size=rows).astype(np.float32) for k in range(width)}
    tables = {"the same": columns.read_csv(io.BytesIO(text)), f"{width} float32": pyarrow.table(numbers)}
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for name, own in tables.items():
            path = Path(folder, f"{len(found)}.parquet")
            parquet.write_table(own, path)
            asked = given if not found else {"label": given["label"]}
            calls = {"hashed": parquet_rows(path, options.bits, asked), "named": parquet_rows(path, None, asked)}
            entries = calls["hashed"]()  # compiles, too
            calls["named"]()
            calls["pyarrow"] = parquet_columns(path)
            found.append(compared(name, calls, dict.fromkeys(calls, entries), options.repeats))
    return table("| Parquet | blocksvm, hashed, M entries/s | named | pyarrow, to columns alone | times |", found)


if __name__ == "__main__":
    main()
