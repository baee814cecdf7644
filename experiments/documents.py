"""Documents to n-grams, and tables to features, beside scikit-learn and pyarrow: speeds of one core, no file written.

    python -m experiments.documents DOCUMENTS.tsv [--table TABLE.csv --label COLUMN --categorical COLUMNS
        --ignore COLUMNS] [--bits 22] [--repeats 5] [--json FILE]

DOCUMENTS.tsv: 'label<TAB>text' a line; TABLE.csv: a table with a header.  Of both the first 8 MB are read, by
scikit-learn the first rows of them, as it takes long.  The same table is read as Parquet, too, and one of numbers
alone, beside pyarrow, which makes no rows.  Figures are of the processor's time, runs in turn.
"""

from __future__ import annotations

import csv
import io
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from blocksvm.formats import get_format
from blocksvm.formats.file_reader import FileInputs
from blocksvm.formats.format import ReaderOptions
from blocksvm.formats.hashing import reader_of
from blocksvm.formats.recipe import Recipe
from blocksvm.formats.text.text_source import TextPiece, TextSource
from experiments.measuring import Tables, parser

BYTES = 8_000_000
PEER_ROWS = 2_000
NUMBERS = 200_000  # rows of the table of numbers
NGRAMS = ("word:1", "word:1-3", "char:4-5", "char_wb:3-5")


def whole_lines(path: Path) -> bytes:
    with open(path, "rb") as file:
        text = file.read(BYTES)
    return text[: text.rindex(b"\n") + 1]


def reader_for(format_name: str, bits: int | None, options: dict, text: bytes, name: str):
    options = get_format(format_name).settled(options, text, name)
    recipe = Recipe(format_name, "error", bits, "l2", options=options)
    return reader_of(ReaderOptions(recipe, named=bits is None)), options


def text_rows(text: bytes, format_name: str, bits: int | None, options: dict):
    """A call that parses the text once; bits None: 63-bit ids with names."""
    reader, _ = reader_for(format_name, bits, options, text, "text")
    padded = np.append(np.frombuffer(text, np.uint8), np.zeros(64, np.uint8))
    piece = TextPiece(TextSource("text", None), padded, len(text), None, begins=True)
    if reader.parse(piece).fault is not None:  # compiles, too
        raise SystemExit(f"line {reader.parse(piece).fault}")
    return lambda: reader.parse(piece)


def parquet_rows(path: Path, bits: int | None, given: dict):
    """A call that reads a Parquet file to rows once, and returns how many entries they have."""
    reader, options = reader_for("parquet", bits, given, b"", str(path))

    def read() -> int:
        buffer = reader.buffer(0)  # memory goes round, as where rows are read
        pieces = FileInputs([str(path)], "parquet", options).pieces(BYTES // 2, None, digested=False)
        return sum(len(reader.parse(piece, buffer).ids) for piece in pieces)

    return read


def parquet_columns(path: Path):
    """A call that reads it to columns, run of rows by run of rows."""
    from pyarrow import parquet

    return lambda: sum(1 for _ in parquet.ParquetFile(path).iter_batches(use_threads=False))


def vectorizer(ngrams: str, bits: int):
    from sklearn.feature_extraction.text import HashingVectorizer

    analyzer, _, lengths = ngrams.partition(":")
    bounds = [int(n) for n in lengths.split("-")]
    given = {"analyzer": analyzer, "ngram_range": (bounds[0], bounds[-1]), "alternate_sign": False}
    return HashingVectorizer(n_features=1 << bits, **given)


def hashed_table(text: bytes, options):
    """A call that reads the rows as scikit-learn's users do: csv.DictReader, numbers as floats, FeatureHasher."""
    from fnmatch import fnmatch

    from sklearn.feature_extraction import FeatureHasher

    out = {options.label, *options.ignore.split(",")}

    def rows():
        for row in csv.DictReader(io.StringIO(text.decode())):
            kept = ((c, v) for c, v in row.items() if v and c not in out)
            yield {c: v if fnmatch(c, options.categorical) else float(v) for c, v in kept}

    return lambda: FeatureHasher(1 << options.bits, alternate_sign=False).transform(rows())


def rates(calls: dict, repeats: int) -> list[str]:
    """Millions of units a second of each (call, units), and how many times the last one's the first is."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, (call, _) in calls.items():
            began = time.process_time()
            call()
            times[name].append(time.process_time() - began)
    found = [units / median(times[name]) / 1e6 for name, (_, units) in calls.items()]
    return [*(f"{rate:.1f}" for rate in found), f"{found[0] / found[-1]:.1f}"]


def main() -> None:
    p = parser(__doc__)
    p.add_argument("documents", type=Path)
    p.add_argument("--table", type=Path)
    p.add_argument("--label", default="label")
    p.add_argument("--categorical", default="auto")
    p.add_argument("--ignore", default="")
    p.add_argument("--bits", type=int, default=22)
    p.add_argument("--repeats", type=int, default=5)
    options = p.parse_args()
    tables = Tables(options)
    text = whole_lines(options.documents)
    documents = [line.partition("\t")[2] for line in text.decode().split("\n")[:-1][:PEER_ROWS]]
    peer_bytes = sum(len(one.encode()) for one in documents)
    tables.begin("Documents, MB/s", "n-grams", "hashed", "named", "HashingVectorizer", "times")
    for ngrams in NGRAMS:
        transform = vectorizer(ngrams, options.bits).transform
        given, both = {"ngrams": ngrams}, (options.bits, None)
        calls = {bits: (text_rows(text, "documents", bits, given), len(text)) for bits in both}
        calls["peer"] = partial(transform, documents), peer_bytes
        tables.row(ngrams, *rates(calls, options.repeats))
    if options.table is not None:
        measure_table(whole_lines(options.table), options, tables)
    tables.end()


def measure_table(text: bytes, options, tables: Tables) -> None:
    import pyarrow
    from pyarrow import csv as columns
    from pyarrow import parquet

    pyarrow.set_cpu_count(1)
    given = {"label": options.label, "categorical": options.categorical, "ignore": options.ignore or None}
    first = b"".join(text.splitlines(keepends=True)[: PEER_ROWS + 1])
    read = columns.ReadOptions(use_threads=False)
    peers = "pyarrow.csv to columns", "DictReader, FeatureHasher"
    tables.begin("A table, MB/s", "format", "hashed", "named", *peers, "times")
    calls = {bits: (text_rows(text, "csv", bits, given), len(text)) for bits in (options.bits, None)}
    calls["pyarrow"] = (lambda: columns.read_csv(io.BytesIO(text), read)), len(text)
    calls["peer"] = hashed_table(first, options), len(first)
    tables.row("csv", *rates(calls, options.repeats))
    rng, columns_of_numbers = np.random.default_rng(0), (f"x{k}" for k in range(30))
    numbers = {name: rng.normal(size=NUMBERS).astype(np.float32) for name in columns_of_numbers}
    numbers[options.label] = rng.integers(0, 2, NUMBERS)
    parquets = {"the same": (columns.read_csv(io.BytesIO(text)), given)}
    parquets["30 float32"] = pyarrow.table(numbers), {"label": options.label}
    tables.begin("Parquet, M entries/s", "table", "hashed", "named", "pyarrow to columns", "times")
    with tempfile.TemporaryDirectory() as folder:
        for name, (table, chosen) in parquets.items():
            path = Path(folder, f"{name}.parquet")
            parquet.write_table(table, path)
            reads = [*(parquet_rows(path, bits, chosen) for bits in (options.bits, None)), parquet_columns(path)]
            entries = [read() for read in reads][0]  # compiles, too
            tables.row(name, *rates({k: (read, entries) for k, read in enumerate(reads)}, options.repeats))


if __name__ == "__main__":
    main()
