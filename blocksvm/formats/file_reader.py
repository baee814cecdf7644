"""Inputs as text, as files of rows, or as tables in memory, and what formats of files of rows have in common.

A format of files, known by their first bytes, is a ``FileFormat`` that also has ``pieces(name, options, n_bytes,
limit)``: (payload, fraction of the file) of runs of rows of about so many bytes, none longer than ``limit``
(``require_fit``); its reader turns payloads into rows.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from xxhash import xxh3_128

from blocksvm.base.errors import Bytes, InputError, option
from blocksvm.files.input import names_of_inputs, open_input, raise_system_error
from blocksvm.files.paths import ObjectUrl, file_size, is_url, location, require_same
from blocksvm.formats import AUTO, OF_FILES, get_format, sniffed
from blocksvm.formats.choices import CHOICES, DECIDED, KINDS, PARTS, carried, chosen, is_table, is_text
from blocksvm.formats.text.text_source import LineLimit, OpenText, TextInputs, TextSource

DIGESTED = 1 << 22  # bytes of a file that are hashed at a time
ENTRY_BYTES = 16  # of a row under way


@dataclass(frozen=True)
class RowPiece:
    """A run of rows of one file, not yet in our form; ``fraction`` of all input read so far."""

    source: TextSource
    payload: Any
    fraction: float


class FileInputs:
    """Files of rows, one after the other, as ``TextInputs`` are of text."""

    def __init__(self, names: list[str], format_: str, options: Mapping):
        self.names = names
        self.format = format_
        self.options = options

    def __enter__(self) -> FileInputs:
        return self

    def __exit__(self, *error) -> None:
        pass

    def settled(self, format_, requested: Mapping, memory: int) -> dict:
        """All settings of the format, which may look at the first file."""
        return format_.settled(requested, self.names[0], memory)

    def pieces(self, piece_bytes: int, limit, eager: bool = False, digested: bool = True, spare=None) -> Generator:
        """``RowPiece``s of about ``piece_bytes``."""
        format_ = get_format(self.format)
        for k, name in enumerate(self.names):
            parts = parts_of(name)
            sizes = [file_size(one) for one in parts]
            if None in sizes:
                raise InputError(f"{name}: is no file; such rows are read from files alone")
            source = TextSource(name, sum(sizes), sum(sizes))
            require_same(name, location(name).stat())
            for payload, done in format_.pieces(name, {**self.options, PARTS: parts}, piece_bytes, limit):
                yield RowPiece(source, payload, (k + done) / len(self.names))
            if digested:
                source.fingerprint = fingerprint_of(*parts)
            require_same(name, location(name).stat())


def parts_of(name: str) -> list[str]:
    """The files that an input is: of a folder those in it and in its folders, but hidden ones."""
    folder = location(name)
    if not isinstance(folder, Path) or not folder.is_dir():
        return [name]
    found = [path for path in (*folder.glob("*"), *folder.glob("*/*")) if path.is_file()]
    return list(map(str, sorted(path for path in found if not path.name.startswith("."))))


def inputs_given(inputs):
    """The names of files (a list), or, of a table or batches of one in memory, ``TableInputs``; or InputError."""
    parts = [inputs] if hasattr(inputs, "__arrow_c_stream__") else inputs
    if isinstance(parts, str | os.PathLike) or hasattr(parts, "shape") or not isinstance(parts, Iterable):
        return names_of_inputs(inputs)
    parts = iter(parts)
    listed = list(islice(parts, 1))
    if not any(hasattr(one, name) for one in listed for name in ("__arrow_c_stream__", "__arrow_c_array__")):
        return names_of_inputs([*listed, *parts])
    from blocksvm.formats.arrow_tables import table_inputs

    return table_inputs(chain(listed, parts))


def texts_of(rows) -> list[str] | None:
    """The texts where rows in memory are a list, array or series of such; else None."""
    columns = getattr(rows, "to_pylist", None) or getattr(rows, "to_list", None)  # of Arrow, polars and pandas
    if columns is not None and not hasattr(rows, "columns"):
        listed = columns()
    elif isinstance(rows, list | tuple) or getattr(rows, "ndim", None) == 1:
        listed = list(rows)
    else:
        return None
    return listed if listed and isinstance(listed[0], str) else None


def inputs_of(names, recipe, stop=lambda: False, likely: bool = True):
    """The inputs as text, or as files of rows where the recipe or the first bytes name such a format; of a known table
    or (likely: by what they look like) of texts read as earlier ones were, they may lie in another form."""
    if not isinstance(names, list):
        names.options = carried(recipe.format, names.format, recipe.options)
        return names
    inputs, name = TextInputs(names, stop), recipe.format
    texts = likely and is_text(name, recipe.options) and not DECIDED.isdisjoint(recipe.options)
    if name == AUTO or texts or KINDS in recipe.options:
        magic = magic_of(names[0])
        if name == AUTO or is_table(magic):
            name = magic
        elif texts:
            looks = sniffed(inputs.head(), names[0])
            other = "ngrams" in CHOICES.get(looks, ()) and (name, looks) != ("documents", "tsv")  # tabs are in both
            name = looks if other else "csv" if is_table(name) else "documents" if name in OF_FILES else name
        elif hasattr(get_format(name), "pieces"):
            looks = sniffed(b"", names[0])
            name = looks if is_table(looks) else "csv"
    if name is None or not hasattr(get_format(name), "pieces"):
        inputs.format = name
        return inputs
    for one in names:
        if is_url(one) and not getattr(get_format(name), "objects", False):
            raise InputError(f"{one}: is {name}, which is read from files alone; copy it to a disk")
    return FileInputs(names, name, carried(recipe.format, name, recipe.options))


HDF5 = b"\x89HDF\r\n\x1a\n"
# how files begin, how their names end where that alone says too little, and their format
MAGIC = (
    (b"PK\x03\x04", "", "npz"), (b"\x93NUMPY", "", "npy"), (b"PAR1", "", "parquet"), (b"ARROW1", "", "arrow"),
    (b"\xff\xff\xff\xff", (".arrow", ".arrows"), "arrow"), (HDF5, ".h5ad", "h5ad"),
)  # fmt: skip


def magic_of(name: str) -> str | None:
    """The format of files by a file's first bytes; None where they are of none."""
    if not location(name).is_file():
        return None
    with open_input(name) as file:
        head = file.read(512)
    if head.startswith(b"PK") and b".npy" not in head[30:]:
        return None  # a zip archive of something else
    known = (of for start, ends, of in MAGIC if head.startswith(start) and name.lower().endswith(ends))
    return next(known, None)


def fingerprint_of(*names: str) -> str:
    """A hash of the bytes of files, one after the other; of an object by what its server says of its state."""
    digest = xxh3_128()
    for name in names:
        path = location(name)
        if isinstance(path, ObjectUrl):
            digest.update(repr(path.remote.identity()).encode())
            continue
        with open_input(name) as file:
            while piece := file.read(DIGESTED):
                digest.update(piece)
    return digest.hexdigest()


def fingerprint_of_input(name: str) -> str:
    """The fingerprint that the source of this file has once its rows have been read."""
    parts = parts_of(name)
    if magic_of(name) is not None or parts != [name]:
        return fingerprint_of(*parts)
    with closing(OpenText(name, lambda: False)) as text:
        return text.fingerprint()


class FileFormat:
    """A ``Format`` of files, known by their first bytes (``magic_of``).  name: in the registry; lines: what a file is,
    for messages; objects: URLs are read."""

    name: str
    lines: str
    objects = False

    def settled(self, requested: Mapping, name: str, memory: int) -> dict:
        return chosen(self.name, requested)


@contextmanager
def damage_named(name: str, what: str = "", cure: str = "get it again") -> Iterator[None]:
    """An InputError for any exception of a library on a damaged file, of which there are dozens of kinds.  what: the
    beginning of the sentence, if not that ``name`` cannot be read."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise_system_error(error, name)
        first = (str(error).strip().splitlines() or [type(error).__name__])[0][:200].rstrip(".")
        raise InputError(f"{what or f'{name}: cannot be read'} ({first}); {cure}") from error


def require_fit(n: int, limit: LineLimit | None, where: str, n_bytes: int = ENTRY_BYTES, what: str = "entries") -> None:
    """InputError where a row of n entries, of so many bytes each, does not fit in the caller's memory."""
    if limit is not None and n * n_bytes > limit.n_bytes:
        need = option("memory", Bytes(10**6 * -(-limit.memory_for(n * n_bytes) // 10**6)))
        raise InputError(f"{where} has a row of {n:,} {what}; give {need} or more, or check the file")
