"""``folders``: a folder whose folders are classes, a file a text; files beside these folders have no label.

Hidden files are passed over.  A file's text is a row, so that each must fit in the memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from blocksvm.base.errors import InputError, option
from blocksvm.formats.arrow_tables import CELL_BYTES, ArrowFiles, require_memory
from blocksvm.formats.choices import DECIDED, PARTS, WORDS, chosen
from blocksvm.formats.table_columns import text_columns
from blocksvm.formats.table_rows import strings
from blocksvm.formats.text.text_source import LineLimit

COLUMNS = {"text": "text", "label": "label"}


class Folders(ArrowFiles):
    def settled(self, requested: Mapping, name: str, memory: int) -> dict:
        given = {key: value for key, value in requested.items() if key not in DECIDED | COLUMNS.keys()}
        return chosen(self.name, given) | COLUMNS | {WORDS: True}


def folder_batches(name: str, options: Mapping, n_bytes: int, limit: LineLimit | None) -> Iterator[tuple]:
    """Batches of files, in the order of their classes and names."""
    folder, columns = Path(name), text_columns(list(COLUMNS), COLUMNS, {})
    paths = [Path(part) for part in options[PARTS]]
    deeper = next((path for path in folder.glob("*/*") if path.is_dir() and not path.name.startswith(".")), None)
    if deeper is not None:
        raise InputError(f"{deeper}: is a folder within a class, whose files would be left out; move them up")
    if not paths:
        raise InputError(f"{name}: has no files, and no folders with files in them")
    labels: list[bytes | None] = []
    texts: list[bytes] = []
    size = 0
    for k, path in enumerate(paths):
        require_memory(path.stat().st_size, f"{path}: takes", "files", limit)
        try:
            text = path.read_bytes().decode(options["encoding"]).encode()
        except UnicodeError as error:
            cure = f"name its encoding, as {option('encoding', 'latin1')}"
            raise InputError(f"{path}: the text is not {options['encoding']} ({error.reason}); {cure}") from error
        texts.append(text)
        labels.append(path.parent.name.encode() if path.parent != folder else None)
        size += CELL_BYTES + len(text)
        if size >= n_bytes or k + 1 == len(paths):
            batch = pa.RecordBatch.from_arrays([strings(texts), strings(labels)], names=list(COLUMNS))
            yield columns, batch, (k + 1) / len(paths)
            labels, texts, size = [], [], 0


FOLDERS = Folders("folders", "a folder for each class, with a file for each text", folder_batches)
