"""Cells of tables, parsed, for several files of tests."""

import numpy as np

from blocksvm.formats.format import ReaderOptions
from blocksvm.formats.text.text_source import TextPiece, TextSource
from blocksvm.formats.text_tables import CSV
from blocksvm.store.recipe import Recipe


def parse(data: bytes, table=CSV, normalize="none", labelled=True, named=True, offers=(), settled=True, **options):
    options = table.settled(options, data, "f.csv") if settled else options
    recipe = Recipe(table.name, normalize=normalize, options=options)
    text = np.frombuffer(data + b'1,"2\n' * 30, np.uint8)  # what lies behind the end must not matter
    reader = table.reader(ReaderOptions(recipe, labelled=labelled, named=named, offers=offers))
    return reader.parse(TextPiece(TextSource("text", None), text, len(data), None, begins=True))


def rows_of(batch) -> list[tuple]:
    names, first, last = batch.names
    entries = [(names[f:t].tobytes().decode(), v) for f, t, v in zip(first, last, batch.values.tolist(), strict=True)]
    bounds = zip(batch.indptr[:-1], batch.indptr[1:], strict=True)
    return [(label, dict(entries[a:b])) for label, (a, b) in zip(batch.label_array().tolist(), bounds, strict=True)]
