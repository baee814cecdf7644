"""Text in memory, parsed by a format's reader, for several files of tests."""

import numpy as np

from blocksvm.formats.format import ReaderOptions
from blocksvm.formats.text.text_source import TextPiece, TextSource
from blocksvm.store.recipe import Recipe


def parse(format_, data: bytes, recipe: Recipe = Recipe(), behind=b'1,"2\n', begins=False, **reading):
    """What the reader of these options makes of lines; behind: what follows them in memory, which must not matter."""
    data += b"" if data.endswith(b"\n") or not data else b"\n"
    text = np.frombuffer(data + behind * 30, np.uint8)
    reader = format_.reader(ReaderOptions(recipe, **reading))
    return reader.parse(TextPiece(TextSource("text", None), text, len(data), None, begins=begins))


def rows_of(batch) -> list[tuple]:
    """(label, [(name, value)]) of each row."""
    names, first, last = batch.names
    entries = [(names[f:t].tobytes().decode(), v) for f, t, v in zip(first, last, batch.values.tolist(), strict=True)]
    bounds = zip(batch.indptr[:-1], batch.indptr[1:], strict=True)
    return [(label, entries[a:b]) for label, (a, b) in zip(batch.label_array().tolist(), bounds, strict=True)]
